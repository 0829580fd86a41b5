/** Plimsoll: tensor programs inside a fixed amount of memory.
 *
 * Say what to compute, say how much memory there is, look at the plan, run it:
 *
 *     plim_settings set = plim_settings_default();
 *     set.memory = 256u << 20;
 *
 *     plim_error err = {0};
 *     plim_program *prog = NULL;
 *     plim_plan *plan = NULL;
 *     plim_binding in = {.name = "x", .path = "big.npy"};
 *     plim_binding out = {.name = "", .path = "m.npy"};
 *
 *     if (plim_program_new(&prog, "mean((x-3)**2, 0)", &in, 1, &out, 1, &set, &err) ||
 *         plim_plan_new(&plan, prog, &set, &err) ||
 *         plim_plan_run(plan, NULL, &err))
 *         fprintf(stderr, "%s\n", err.message);
 *     plim_plan_free(&plan);
 *     plim_program_free(&prog);
 *
 * Conventions
 * - Every function that can fail returns a plim_status and takes an optional last parameter `plim_error *err`.
 * - What `_new` gives, `_free(&p)` takes back and sets to NULL; freeing NULL is allowed.
 * - The library never prints, never aborts, never reads the environment, and has no mutable globals but its compute threads (plim_watch passes
 *   environment and signals on to the program that it runs).
 * - A handle may be used by one thread at a time; different handles by different threads. All share the compute threads of the
 *   process: while one handle uses them, another one computes on the thread that called. A forked child may make handles of its own.
 *
 * What a budget does not cover: memory that the caller allocates itself, and pages of a file system that lives in
 * memory (tmpfs) when an output is put there; the plan names such an output and counts its bytes.
 */
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIM_API __attribute__((visibility("default")))
#define PLIM_VERSION "0.1.0"
#define PLIM_MAX_RANK 12

/* ------------------------------------------------------------------------------------------------ errors */

/** What went wrong, in families of a hundred. */
typedef enum plim_status {
    PLIM_OK = 0,

    PLIM_E_INVALID = 100, /**< an argument or a combination of arguments makes no sense */
    PLIM_E_SYNTAX = 101,  /**< an expression does not parse; err->column points at it */
    PLIM_E_TYPE = 102,    /**< a dtype does not fit the operation */
    PLIM_E_SHAPE = 103,   /**< shapes do not fit together */
    PLIM_E_OVERFLOW = 104, /**< a size exceeds 64 bits */
    PLIM_E_FORMAT = 105,  /**< a file is not what it says it is */
    PLIM_E_UNSUPPORTED = 106,

    PLIM_E_NOMEM = 200,  /**< an allocation failed */
    PLIM_E_BUDGET = 201, /**< no plan fits; err->need is the smallest budget that would work */

    PLIM_E_IO = 300,      /**< a system call on a file failed */
    PLIM_E_NOSPACE = 301, /**< the disk is full */
    PLIM_E_CHANGED = 302, /**< an input changed while it was read */
    PLIM_E_CANCELLED = 303, /**< the progress callback, or a signal, asked to stop */
    PLIM_E_NUMBERS = 304,   /**< what is computed is no finite number any more */

    PLIM_E_PLAN = 400, /**< a plan breaks an invariant (docs/invariants.md) */
} plim_status;

/** Facts of a failure. Fixed size: nothing is allocated on the error path. */
typedef struct plim_error {
    plim_status code;
    char message[512]; /**< one line, no newline at its end */
    char where[192];   /**< a file, a node or a step; may be empty */
    int column;        /**< 1-based column in an expression, 0 where it does not apply */
    uint64_t need;     /**< bytes wanted, or the smallest budget that works */
    uint64_t have;     /**< bytes there were */
    uint64_t offset;   /**< byte in the file */
} plim_error;

/** @return a constant name such as "PLIM_E_IO" */
PLIM_API const char *plim_status_name(plim_status status);

/* ------------------------------------------------------------------------------------- dtypes and shapes */

typedef enum plim_dtype {
    PLIM_BOOL,
    PLIM_U8, PLIM_U16, PLIM_U32, PLIM_U64,
    PLIM_I8, PLIM_I16, PLIM_I32, PLIM_I64,
    PLIM_F16, PLIM_BF16, PLIM_F32, PLIM_F64,
    PLIM_DTYPE_COUNT
} plim_dtype;

PLIM_API const char *plim_dtype_name(plim_dtype dtype);   /**< "f32" */
PLIM_API uint64_t plim_dtype_bytes(plim_dtype dtype);     /**< 4 */
/** Reads "f32", "float32", "<f4", "int8", "bool" ... */
PLIM_API plim_status plim_dtype_parse(plim_dtype *out, const char *text, plim_error *err);

typedef struct plim_shape {
    uint32_t rank;
    int64_t dim[PLIM_MAX_RANK];
} plim_shape;

/** Number of elements, or PLIM_E_OVERFLOW. A rank of 0 has one element. */
PLIM_API plim_status plim_shape_count(uint64_t *out, const plim_shape *shape, plim_error *err);
PLIM_API plim_status plim_shape_bytes(uint64_t *out, const plim_shape *shape, plim_dtype dtype, plim_error *err);
/** Reads "3075200x512", "1,256,1024", "(3, 4)"; "" and "()" are rank 0. */
PLIM_API plim_status plim_shape_parse(plim_shape *out, const char *text, plim_error *err);
/** Writes "[3075200,512]". Always ends with NUL. @return buf */
PLIM_API char *plim_shape_format(char *buf, size_t size, const plim_shape *shape);

/* -------------------------------------------------------------------------------------------------- units */

/** Reads "512M", "2G", "1.5GiB", "1000000", "80%" (of `whole`). K, M, G, T are binary. */
PLIM_API plim_status plim_bytes_parse(uint64_t *out, const char *text, uint64_t whole, plim_error *err);
/** Writes "6.3 GiB" (three significant digits; below 1 KiB "512 B"). @return buf */
PLIM_API char *plim_bytes_format(char *buf, size_t size, uint64_t bytes);
/** Writes "6,298,009,600". @return buf */
PLIM_API char *plim_count_format(char *buf, size_t size, uint64_t count);

/* ------------------------------------------------------------------------------------------------- limits */

#define PLIM_UNLIMITED UINT64_MAX

/** One thing that bounds this process's memory. */
typedef struct plim_limit {
    char name[32];    /**< "RAM", "cgroup v1", "cgroup v2", "RLIMIT_AS", "RLIMIT_DATA", "overcommit" */
    char source[160]; /**< the file or call it was read from */
    uint64_t limit;   /**< PLIM_UNLIMITED where there is none */
    uint64_t used;
    uint64_t available; /**< what may still be had */
} plim_limit;

#define PLIM_MAX_LIMITS 16

typedef struct plim_limits {
    uint32_t count;
    plim_limit limit[PLIM_MAX_LIMITS];
    uint32_t deciding;  /**< index of the limit with the least available */
    uint64_t available; /**< that limit's available bytes */
    uint64_t reserve;   /**< kept free of it when no budget is given */
    uint64_t budget;    /**< available - reserve: the default budget */
} plim_limits;

/** Reads every memory limit that applies to this process now. A missing file is no failure, that limit is left out; PLIM_E_UNSUPPORTED
 *  when nothing at all is known. */
PLIM_API plim_status plim_limits_read(plim_limits *out, plim_error *err);

/** The kernel's own count for this process, from /proc/self/status: resident now, and the most it ever was. */
PLIM_API plim_status plim_resident_read(uint64_t *now, uint64_t *peak, plim_error *err);

/** CPUs that this process may use: its affinity, or its control group's quota rounded up, whichever is less; at least 1. */
PLIM_API uint32_t plim_cpu_count(void);

/* ------------------------------------------------------------------------------------------------ machine */

/** How fast a machine is: where the seconds of a plan come from. A plan takes one from its settings; without one it uses
 *  plim_machine_default. The library neither looks for a saved description nor measures unless asked to:
 *
 *      plim_machine m;
 *      if (plim_machine_measure(&m, ".", &set, &err) == PLIM_OK && plim_machine_save(&m, "machine.json", &err) == PLIM_OK)
 *          set.machine = &m;
 */

typedef struct plim_settings plim_settings;

enum { PLIM_REQUEST_SIZES = 6 }; /**< of requests: 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB */

/** What a read or a write of each size costs. */
typedef struct plim_requests {
    double seconds[PLIM_REQUEST_SIZES]; /**< elapsed per request while four are in flight, as the transfer engine has them */
    double cpu[PLIM_REQUEST_SIZES];     /**< seconds that one keeps a CPU busy */
    double alone[PLIM_REQUEST_SIZES];   /**< from its start to its end with nothing else in flight */
} plim_requests;

/** Families of kernels that run at a common rate, and what their rate counts per second. */
typedef enum plim_kernel {
    PLIM_KERNEL_ELEMENTWISE,    /**< bytes: operands of simple functions in a core's cache, in the type that they are computed in */
    PLIM_KERNEL_FUNCTION,       /**< evaluations: exp and the like, of f32 */
    PLIM_KERNEL_COPY,           /**< bytes read and written: rows of neighbours to another place */
    PLIM_KERNEL_TRANSPOSE,      /**< bytes read and written: neighbours become distant */
    PLIM_KERNEL_GATHER,         /**< bytes read and written: rows that an index names */
    PLIM_KERNEL_REDUCE,         /**< bytes: elements of sums, in a core's cache */
    PLIM_KERNEL_SCAN,           /**< elements: running sums */
    PLIM_KERNEL_SORT,           /**< elements times the binary logarithm of how many are sorted together */
    PLIM_KERNEL_TALLY,          /**< elements: counts by digit or by bin */
    PLIM_KERNEL_WINDOW,         /**< floating point operations of sliding windows */
    PLIM_KERNEL_POOL,           /**< elements that windows of pooling look at */
    PLIM_KERNEL_POOL_BACK,      /**< the same of the gradient */
    PLIM_KERNEL_PRODUCT_F32,    /**< floating point operations: matrix products */
    PLIM_KERNEL_PRODUCT_F64,
    PLIM_KERNEL_PRODUCT_INTEGER,
    PLIM_KERNEL_PRODUCT_THIN,   /**< f32 products with a dimension of a few elements */
    PLIM_KERNEL_CONV,           /**< floating point operations: convolutions of arrays as models store them */
    PLIM_KERNEL_CONV_FEW,       /**< the same with less than four outputs */
    PLIM_KERNEL_CONV_BLOCKED,   /**< of arrays in blocks of channels */
    PLIM_KERNEL_CONV_BLOCKED_DATA,    /**< gradient with respect to the input */
    PLIM_KERNEL_CONV_BLOCKED_WEIGHTS, /**< gradient with respect to the weights */
    PLIM_KERNEL_CONV_DEPTH,     /**< depthwise, in blocks of channels */
    PLIM_KERNEL_COUNT
} plim_kernel;

typedef struct plim_rate {
    double one; /**< per second on one thread */
    double all; /**< per second on plim_machine.threads threads */
} plim_rate;

typedef struct plim_machine {
    size_t size;     /**< sizeof(plim_machine): structs of another version are refused */
    char cpu[96];    /**< model of the CPU; "" in the defaults */
    char level[24];  /**< instruction set: "x86-64-v3" */
    uint32_t cpus;   /**< that the process could use */
    char file_system[32]; /**< of the folder that was measured: "ext4" */
    char device[32]; /**< of that folder: "8:1" */
    char date[32];   /**< of the measurement, ISO 8601 in UTC */
    char version[24]; /**< of the library that measured */
    uint32_t threads; /**< behind plim_rate.all */
    plim_requests direct_read, direct_write, buffered_read, buffered_write;
    plim_rate kernel[PLIM_KERNEL_COUNT];
    double memory_rate;      /**< bytes per second between memory and caches, read and written, by all threads */
    double touch_rate;       /**< bytes per second of fresh memory, touched for the first time by all threads */
    double step_seconds;     /**< of a step beside its work */
    double parallel_seconds; /**< until all threads have begun a piece of work and ended it */
    double node_seconds;     /**< of one call of a kernel beside its work */
} plim_machine;

/** Rounded values of an ordinary machine: two cores with AVX2 and a virtual disk of 3 GB/s (docs/design.md). */
PLIM_API plim_machine plim_machine_default(void);
/** @return PLIM_E_INVALID when a number is not above 0, or not of this world; the message names it */
PLIM_API plim_status plim_machine_check(const plim_machine *m, plim_error *err);
/** The defaults, with the description of this machine and the file system of `folder` in place. Measures nothing. */
PLIM_API plim_status plim_machine_identify(plim_machine *out, const char *folder, plim_error *err);
/** Measures this machine, with a file without a name in `folder`. Takes some seconds, 200 MiB of memory and 480 MiB of disk.
 *  @param set  threads, the allocator and progress (thousandths) are used; may be NULL
 *  @return PLIM_E_IO when no file can be made in the folder, PLIM_E_CANCELLED */
PLIM_API plim_status plim_machine_measure(plim_machine *out, const char *folder, const plim_settings *set, plim_error *err);
/** Whether two descriptions are of the same CPU, instruction set, number of CPUs, file system, device and version. */
PLIM_API bool plim_machine_same(const plim_machine *a, const plim_machine *b);
/** A hash of what plim_machine_same compares but for the version: for names of files. */
PLIM_API uint64_t plim_machine_hash(const plim_machine *m);
/** Number `i` of the description and its name, "direct_read_4KiB_seconds". @return its name, in `name`; NULL after the last */
PLIM_API const char *plim_machine_number(const plim_machine *m, uint32_t i, double *value, char name[64]);
/** Writes a JSON file, whole or not at all. */
PLIM_API plim_status plim_machine_save(const plim_machine *m, const char *path, plim_error *err);
/** Reads what plim_machine_save wrote. The file is not trusted: a message names the field that is wrong. */
PLIM_API plim_status plim_machine_load(plim_machine *out, const char *path, plim_error *err);

/* ----------------------------------------------------------------------------------------------- settings */

/** What a run tells while it goes. Return false to cancel. */
typedef struct plim_progress {
    const char *what;     /**< "pass 1 of 2" */
    uint64_t done, total; /**< bytes */
    double seconds;
} plim_progress;

struct plim_settings {
    uint64_t memory;       /**< budget for the whole process; 0: what the machine can give (plim_limits_read) */
    uint64_t baseline;     /**< what the process has beside a plan's memory; 0: what this one has when the plan is made. Given, plans of several
                                programs are alike, whatever is left in this process from those before */
    uint32_t threads;      /**< 0: the CPUs this process may use */
    const char *spill_dir; /**< where values that do not fit may go, and what a training carries from step to step; NULL: nothing is
                                written but what was asked for, so all that is carried has to fit */
    uint32_t seconds_max;  /**< for searches; 0: default */
    bool no_direct_io;     /**< use the page cache even where direct I/O works */
    bool pin;              /**< the memory of a run is locked, so that it is never swapped: needs RLIMIT_MEMLOCK */
    bool plan_anyway;      /**< where no plan fits, make the one that needs least all the same: its facts say that it does not fit, and it does
                                not run */
    /** Allocation hook; NULL: malloc. Must return memory aligned as malloc's. For tests and embedders. */
    void *(*alloc)(void *ctx, void *old, size_t size);
    void *alloc_ctx;
    bool (*progress)(void *ctx, const plim_progress *now);
    void *progress_ctx;
    const plim_machine *machine; /**< valid as long as these settings are; NULL: plim_machine_default */
};

PLIM_API plim_settings plim_settings_default(void);

/* ------------------------------------------------------------------------------------------------- arrays */

typedef struct plim_array_info {
    plim_dtype dtype;
    plim_shape shape;
    bool fortran_order;
    bool big_endian;
    uint64_t data_offset; /**< of the first element in the file */
    uint64_t bytes;
} plim_array_info;

/** Reads the header of a `.npy`, or of a member of an `.npz` ("file.npz:name"). */
PLIM_API plim_status plim_array_info_read(plim_array_info *out, const char *path, plim_error *err);

/* ----------------------------------------------------------------------------------------------- programs */

/** A name in an expression and the file behind it. */
typedef struct plim_binding {
    const char *name; /**< "x"; for the only output of an expression without a name: "" */
    const char *path; /**< a .npy, "file.npz:member", or a raw file when `raw` is set; an output may be NULL: kept in memory */
    bool raw;         /**< the file has no header: `dtype`, `shape` and `raw_offset` say what is in it */
    plim_dtype dtype;
    plim_shape shape;
    uint64_t raw_offset;
} plim_binding;

typedef struct plim_program plim_program;

/** Parses `text`, opens the inputs' headers and builds the graph. Reads no data.
 *  @param text  `;`-separated `name = expression`; the last may have no name
 *  @param in    names used in the text and their files; not kept
 *  @param out   which names to write and where. Unbound results are kept in memory (plim_plan_result) */
PLIM_API plim_status plim_program_new(plim_program **out, const char *text, const plim_binding *in, uint32_t n_in,
                                      const plim_binding *outputs, uint32_t n_out, const plim_settings *set, plim_error *err);
PLIM_API void plim_program_free(plim_program **prog);

/* -------------------------------------------------------------------------------------------------- plans */

/** One decision of the plan and what it is worth. */
typedef struct plim_move {
    char kind[16];  /**< "split", "spill", "recompute" */
    char what[112]; /**< "axis 0 of x" */
    uint64_t parts; /**< of a split; how often it is read back, or made again */
    uint64_t saves_bytes;
    double costs_seconds;
} plim_move;

/** A value that is alive where memory is highest. */
typedef struct plim_peak_value {
    char name[64];
    plim_shape shape; /**< of the part that is held */
    plim_dtype dtype;
    uint64_t bytes;
    char why[96];
} plim_peak_value;

#define PLIM_MAX_PEAK_VALUES 12
#define PLIM_MAX_MOVES 24

typedef struct plim_facts {
    uint64_t budget_bytes;
    bool fits;
    uint64_t planned_peak_bytes; /**< baseline + arena + extras: what VmHWM will be, or would be if it fitted */
    uint64_t floor_bytes;        /**< the smallest budget with a plan */
    uint64_t arena_bytes;
    uint64_t arena_bound_bytes;  /**< lower bound for the arena: the most bytes alive at one step */
    uint64_t baseline_bytes;     /**< the process before the arena */
    uint64_t extras_bytes;       /**< thread stacks, library buffers: measured, not planned */
    uint64_t reserve_bytes;      /**< left to the kernel inside the budget: page tables, requests in flight */
    uint32_t passes;             /**< passes over the largest input */
    uint64_t read_bytes, write_bytes;
    double planned_seconds;
    double plan_seconds;
    uint32_t rejected_plans;     /**< plans that the verifier rejected; another one was taken. Not 0: a defect of the planner */
    uint32_t n_moves;
    plim_move move[PLIM_MAX_MOVES];
    char peak_step[96];
    uint32_t n_peak;
    plim_peak_value peak[PLIM_MAX_PEAK_VALUES];
} plim_facts;

typedef struct plim_plan plim_plan;

/** Plans `prog` inside the budget. Reads no tensor data and allocates no tensor memory.
 *  @param out   a new plan on success, NULL otherwise
 *  @param prog  not modified; must outlive the plan
 *  @param err   on PLIM_E_BUDGET, which set->plan_anyway rules out, err->need is the floor */
PLIM_API plim_status plim_plan_new(plim_plan **out, const plim_program *prog, const plim_settings *set, plim_error *err);
PLIM_API void plim_plan_free(plim_plan **plan);
PLIM_API const plim_facts *plim_plan_facts(const plim_plan *plan);
/** Verifies the plan against docs/invariants.md, as was done when it was made. */
PLIM_API plim_status plim_plan_check(const plim_plan *plan, plim_error *err);
/** Writes the schedule as text into `buf`; always ends with NUL. @return the length that the whole text has */
PLIM_API size_t plim_plan_dump(const plim_plan *plan, char *buf, size_t size);

typedef struct plim_run_facts {
    double seconds;
    uint64_t peak_rss_bytes; /**< VmHWM */
    uint64_t bytes_read, bytes_written;
} plim_run_facts;

/** Runs the plan. Outputs appear whole or not at all. May be called again. */
PLIM_API plim_status plim_plan_run(plim_plan *plan, plim_run_facts *facts, plim_error *err);

/** An output of the plan, after a run. `data` is NULL for one that went to a file; else owned by the plan, C order. */
typedef struct plim_result {
    const char *name;
    const char *path;
    plim_dtype dtype;
    plim_shape shape;
    const void *data;
} plim_result;

PLIM_API uint32_t plim_plan_result_count(const plim_plan *plan);
PLIM_API plim_status plim_plan_result(plim_result *out, const plim_plan *plan, uint32_t index, plim_error *err);

/* ------------------------------------------------------------------------------------------------- models */

/** A model from a file, as it runs once or is trained for one step, to be planned before a machine is found for it:
 *
 *     plim_model_options how = {.batch = 256, .optimizer = "adam"};
 *     if (plim_model_new(&model, "model.onnx", &how, &set, &err) == PLIM_OK &&
 *         plim_model_plan(&plan, model, &set, &err) == PLIM_OK)
 *         printf("%llu bytes\n", (unsigned long long)plim_plan_facts(plan)->planned_peak_bytes);
 *     plim_plan_free(&plan);
 *     plim_model_free(&model);
 *
 * Such a plan says everything that a plan of a program says. It cannot be run: no data are bound to the model's inputs. */
typedef struct plim_model plim_model;

/** A symbolic dimension of a model and what it is to be. */
typedef struct plim_dim {
    const char *name;
    int64_t value;
} plim_dim;

typedef struct plim_model_options {
    int64_t batch;       /**< samples at a time; 0: as the file says, 1 where it does not */
    const plim_dim *dim; /**< by name, for formats that name their dimensions */
    uint32_t n_dims;
    const char *optimizer; /**< a step of training by "sgd", "momentum", "nesterov", "adam", "adamw" or "rmsprop"; NULL: inference. Parameters other than
                                the usual ones: "adam:beta1=0.8,beta2=0.99,eps=1e-7,decay=0.01", "momentum:momentum=0.8", "rmsprop:rho=0.99" */
    const char *loss; /**< "mse", "mae", "bce", "bce-logits", "ce", "ce-logits", "sparse-ce", "sparse-ce-logits"; NULL: "mse" */
    const char *weights; /**< a .safetensors file with the parameters, by name; NULL: what the model file has, in training new ones where it has none */
    const char *narrow; /**< in training, "f16" or "bf16": what the backward pass reads is kept in fewer bits, which changes the numbers; NULL: it is not */
} plim_model_options;

/** Reads a model by its content: ONNX, or Keras (.keras, .h5, the JSON of an architecture). Reads no weights.
 *  @param options  not kept; NULL: inference as the file says */
PLIM_API plim_status plim_model_new(plim_model **out, const char *path, const plim_model_options *options, const plim_settings *set,
                                    plim_error *err);
PLIM_API void plim_model_free(plim_model **model);

/** What the memory of a layer is made of. Views (reshapes, transposes, broadcasts) have none of their own. */
typedef struct plim_layer {
    char name[96]; /**< "" for layer 0: inputs, and what belongs to no layer */
    char kind[32]; /**< as the model's format calls it: Conv2D, BatchNormalization */
    uint64_t parameters; /**< numbers, those that are not trained included */
    uint64_t parameter_bytes;
    uint64_t gradient_bytes;  /**< of the parameters */
    uint64_t state_bytes;     /**< what the optimizer keeps */
    uint64_t made_bytes;      /**< what its forward nodes make; of layer 0: the inputs, too */
    uint64_t saved_bytes;     /**< that of it which the backward pass reads */
    uint64_t workspace_bytes; /**< in a plan: the most private memory of a stage that works for the layer */
} plim_layer;

typedef struct plim_model_info {
    char name[96];
    bool training;
    char optimizer[16], loss[24]; /**< "" in inference */
    int64_t batch;      /**< samples at a time; 0: no input counts samples */
    uint32_t n_layers;  /**< the one that stands for no layer included, and the loss */
    uint32_t n_nodes;
    uint32_t narrowed;       /**< values that are kept in fewer bits (plim_model_options.narrow) */
    uint64_t narrowed_bytes; /**< that these would take more as they are */
    plim_layer total;   /**< sums; workspace_bytes is 0 */
    uint64_t plain_bytes; /**< what keeping everything would take, as eager frameworks do: parameters, gradients, optimizer state, and the most
                               bytes of values alive at one node, in the model's order, each value whole */
    char plain_at[160];   /**< that node: "conv2d backward" */
} plim_model_info;

PLIM_API plim_status plim_model_describe(plim_model_info *out, const plim_model *model, plim_error *err);
/** @param out   plim_model_info.n_layers of them; layer 0 stands for what belongs to no layer
 *  @param plan  of this model, for workspace_bytes; NULL: they are 0 */
PLIM_API plim_status plim_model_layers(plim_layer *out, uint32_t n, const plim_model *model, const plim_plan *plan, plim_error *err);

/** Something that a layer makes, and who keeps it alive. Nodes are numbered from 1 in the model's order. */
typedef struct plim_kept {
    char name[64];
    plim_dtype dtype;
    plim_shape shape;
    uint64_t bytes;
    uint32_t made_at;
    uint32_t readers;   /**< nodes that read it, or a view of it */
    uint32_t kept_until; /**< the last of them; made_at where there is none */
    char by_layer[96];  /**< whose node that is */
    char by_op[32];
    char direction[12]; /**< "forward", "backward", "update"; "result": it is an output, and so kept to the end */
    char held[128];     /**< in the plan: whole, by tiles, in a file ...; "" without a plan */
} plim_kept;

/** What layer `layer` makes and others, or its own gradient, read. @param n  how many there are; at most `cap` are written */
PLIM_API plim_status plim_model_kept(plim_kept *out, uint32_t cap, uint32_t *n, const plim_model *model, const plim_plan *plan, uint32_t layer,
                                     plim_error *err);

/** Plans the model inside the budget, as plim_plan_new does a program. @param model  must outlive the plan */
PLIM_API plim_status plim_model_plan(plim_plan **out, const plim_model *model, const plim_settings *set, plim_error *err);

/** The largest batch, `most` at most, that has a plan inside set->memory: it has one, and one more has none (or is more than `most`). Every
 *  try reads the model again and plans it. With set->seconds_max no try begins after that time: then it fits, but may not be the largest.
 *  @param options  its batch is not looked at
 *  @param err      on PLIM_E_BUDGET, which says that not even one sample fits, err->need is the budget that one needs */
PLIM_API plim_status plim_model_largest_batch(int64_t *out, const char *path, const plim_model_options *options, int64_t most,
                                              const plim_settings *set, plim_error *err);

/* ----------------------------------------------------------------------------------------------- inference */

/** A model that runs over arrays of any length, from and to files or memory:
 *
 *     plim_binding in = {.name = "", .path = "x.npy"}, out = {.name = "", .path = "y.npy"};
 *     if (plim_inference_new(&run, "model.onnx", NULL, &in, 1, &out, 1, &set, &err) == PLIM_OK)
 *         plim_inference_run(run, 1, NULL, NULL, &err);
 *     plim_inference_free(&run);
 */
typedef struct plim_inference plim_inference;

/** Reads the model for as many samples as the inputs have, binds them, and plans. Reads no data yet.
 *  @param in   inputs by name; "": the first. Data of another type are converted
 *  @param out  outputs by name, "": the first; those that are not named are not computed. A path of NULL: kept in memory (plim_plan_result). None at all:
 *              every output, in memory
 *  @param set  must outlive the handle where it holds pointers */
PLIM_API plim_status plim_inference_new(plim_inference **run, const char *model_path, const plim_model_options *options, const plim_binding *in,
                                        uint32_t n_in, const plim_binding *out, uint32_t n_out, const plim_settings *set, plim_error *err);
PLIM_API void plim_inference_free(plim_inference **run);
/** The plan; after a run plim_plan_result gives what is in memory. */
PLIM_API const plim_plan *plim_inference_plan(const plim_inference *run);
/** Runs it `times` times, which is for measuring: the weights are read before the first, and outputs appear after the last.
 *  @param seconds  of each run; may be NULL */
PLIM_API plim_status plim_inference_run(plim_inference *run, uint32_t times, double *seconds, plim_run_facts *facts, plim_error *err);

/* ------------------------------------------------------------------------------------------------ training */

/** A model that is trained on arrays of any length:
 *
 *     plim_train_options how = {.model = {.batch = 32, .optimizer = "adam", .loss = "sparse-ce"}, .input = &x, .n_inputs = 1, .target = y, .epochs = 3};
 *     plim_train_facts now;
 *     if (plim_trainer_new(&t, "model.onnx", &how, &set, &err) == PLIM_OK)
 *         while (plim_trainer_step(t, &now, &err) == PLIM_OK && now.step < now.steps)
 *             printf("%llu: %g\n", (unsigned long long)now.step, now.loss);
 *     plim_trainer_save(t, "trained.safetensors", &err);
 *     plim_trainer_free(&t);
 */
typedef struct plim_trainer plim_trainer;

/** A part of a batch that a function of yours fills: an input of the model, or the target. */
typedef struct plim_batch_part {
    const char *name;  /**< of the input; "target" */
    plim_dtype dtype;  /**< as the model wants it */
    plim_shape shape;  /**< the samples of one batch */
    void *data;        /**< to be filled, C order: memory of the plan, good during the call only */
    uint64_t bytes;
} plim_batch_part;

/** Fills batch `step`, counted from 0: the inputs in the model's order, then the target. For a training to be resumed to the same bits, what it fills must follow
 *  from `step`. What it allocates itself is not in the plan.
 *  @return anything but PLIM_OK fails the step; nothing has changed then, and the step can be tried again */
typedef plim_status (*plim_batch_fill)(void *ctx, uint64_t step, const plim_batch_part *part, uint32_t n_parts);

typedef struct plim_train_options {
    plim_model_options model;  /**< batch and optimizer are needed */
    const plim_binding *input; /**< by name, "": the first; the first dimension counts samples */
    uint32_t n_inputs;
    plim_binding target;       /**< what the first output should be; its name is not looked at */
    plim_batch_fill fill;      /**< batches of your own, instead of `input` and `target`; NULL: there are those */
    void *fill_ctx;
    uint64_t fill_samples;     /**< that are an epoch of them; 0: all steps are one, and `steps` says how many */
    const plim_binding *validate; /**< other samples, which plim_trainer_validate measures the model on; as `input` */
    uint32_t n_validate;       /**< 0: there are none */
    plim_binding validate_target;
    uint64_t epochs, steps;    /**< how long: steps where they are given, else epochs; both 0: one epoch */
    double rate;               /**< of learning; 0: 1e-3, for sgd, momentum and nesterov 1e-2 */
    const char *schedule;      /**< of the rate: NULL or "constant"; "linear" and "cosine" fall to 0 at the end, both may begin with so many steps of
                                    rising, "cosine:100"; "step:1000:0.1" multiplies it every so many steps */
    uint64_t seed;             /**< of initial weights, the order of samples, dropout */
    bool in_order;             /**< samples come as they lie in their files; else each epoch in another order */
    bool plan_only;            /**< nothing is allocated or loaded: there is a plan to look at, and no step can be done */
    const char *resume;        /**< a checkpoint of a training with the same model, data and options to go on from; NULL: from the beginning. With the same
                                    budget and threads it goes on bit for bit as if it had not been stopped */
} plim_train_options;

/** What a step says. */
typedef struct plim_train_facts {
    uint64_t step, steps;   /**< done, in all */
    uint64_t epoch, epochs; /**< the one that the step belongs to, counted from 1 */
    uint64_t samples;       /**< seen so far */
    bool epoch_ends;        /**< the step was the last of its epoch */
    uint64_t epoch_samples; /**< in one epoch */
    uint64_t left_out;      /**< samples that are in no batch of an epoch, for the batch does not divide them: others each time, unless they come in order */
    double loss, rate;
    double accuracy;        /**< NaN where the loss has no classes */
    double seconds;         /**< of this step */
} plim_train_facts;

/** What plim_trainer_validate found. */
typedef struct plim_validation_facts {
    uint64_t samples;      /**< all that there are */
    double loss, accuracy; /**< over all of them; accuracy is NaN where the loss has no classes */
    double seconds;
} plim_validation_facts;

/** Reads the model, binds the data, plans, and makes or reads the weights. With samples to validate with, their program is planned, too, in the same budget:
 *  the facts of plim_trainer_plan are about both.
 *  @param set  must outlive the handle where it holds pointers; its progress function is called inside long steps */
PLIM_API plim_status plim_trainer_new(plim_trainer **out, const char *model_path, const plim_train_options *options, const plim_settings *set,
                                      plim_error *err);
PLIM_API void plim_trainer_free(plim_trainer **t);
PLIM_API const plim_plan *plim_trainer_plan(const plim_trainer *t);
PLIM_API const plim_model *plim_trainer_model(const plim_trainer *t);
/** The next step. A loss that is no number is PLIM_E_NUMBERS: the message names the step and the first layer that made one, and the weights are as they
 *  were before it. */
PLIM_API plim_status plim_trainer_step(plim_trainer *t, plim_train_facts *out, plim_error *err);
/** Where it stands: the facts of the last step; loss is NaN before the first. */
PLIM_API plim_status plim_trainer_facts(const plim_trainer *t, plim_train_facts *out, plim_error *err);
/** Measures the model as it is now on the samples of `validate`: as it infers, without dropout and with running statistics. Training goes on afterwards as if
 *  this had not been. */
PLIM_API plim_status plim_trainer_validate(plim_trainer *t, plim_validation_facts *out, plim_error *err);
/** Writes the weights: .safetensors, or a trained copy of the model file: .onnx, .keras, .h5. Whole or not at all. */
PLIM_API plim_status plim_trainer_save(plim_trainer *t, const char *path, plim_error *err);
/** Whether plim_trainer_save could write this file now: its ending, the folder, the space. To be asked before a long training. Nothing remains of it. */
PLIM_API plim_status plim_trainer_can_save(const plim_trainer *t, const char *path, plim_error *err);
/** Writes weights, what the optimizer keeps, and where the training stands. Whole or not at all. */
PLIM_API plim_status plim_trainer_checkpoint(plim_trainer *t, const char *path, plim_error *err);

/* ------------------------------------------------------------------------------------------- conformance */

typedef enum plim_conformance_verdict {
    PLIM_CONFORMANCE_PASSED,
    PLIM_CONFORMANCE_FAILED,      /**< a result differs, or the test cannot be read or run */
    PLIM_CONFORMANCE_UNSUPPORTED, /**< the model asks for something that is not there, and was refused */
    PLIM_CONFORMANCE_NOT_NUMERIC, /**< an input or output is no tensor of numbers */
} plim_conformance_verdict;

typedef struct plim_conformance {
    plim_conformance_verdict verdict;
    char op[64];   /**< of the model's only node; "several" */
    char why[512]; /**< the first difference, or what is not supported; "" where it passed */
} plim_conformance;

/** Runs one test as the ONNX project lays it out: `folder`/model.onnx, `folder`/test_data_set_0/input_0.pb, output_0.pb ... Results conform as they
 *  do there: the same dtype and shape, floats within 1e-7 + 1e-3 * |expected|, the rest equal; bf16 within a unit in the last place.
 *  @return PLIM_OK whatever the verdict; PLIM_E_INVALID where there is no model.onnx, PLIM_E_NOMEM */
PLIM_API plim_status plim_conformance_run(plim_conformance *out, const char *folder, const plim_settings *set, plim_error *err);

/* -------------------------------------------------------------------------------------------------- files */

/** What a file's content is known by. */
typedef struct plim_file_identity {
    uint64_t bytes;
    int64_t modified_ns; /**< since 1970; a copy has another one, so it says nothing about the content */
    uint64_t hash;       /**< FNV-1a, 64 bits, of all bytes: notices accidents, not malice */
} plim_file_identity;

/** Reads the whole file. */
PLIM_API plim_status plim_file_identify(plim_file_identity *out, const char *path, plim_error *err);
/** Writes a file that is there whole or not at all: beside its place, synced, and renamed. What was there before is replaced. */
PLIM_API plim_status plim_file_write(const char *path, const void *data, size_t n, plim_error *err);

/* -------------------------------------------------------------------------------------------- saved plans */

/** A plan of a model that `plimsoll plan -o` wrote. Planning is deterministic, so such a file holds what was asked and what came out; who loads it
 *  plans again and compares:
 *
 *     plim_saved_plan_read(&saved, "plan.json", &set, &err);
 *     const plim_saved_request *r = plim_saved_plan_request(saved);
 *     plim_saved_plan_check_model(saved, r->model_path, &err);
 *     set.memory = r->memory, set.baseline = r->baseline, set.threads = r->threads, set.spill_dir = r->spill_dir;
 *     plim_model_new(&model, r->model_path, &r->options, &set, &err);
 *     plim_model_plan(&plan, model, &set, &err);
 *     plim_saved_plan_compare(saved, plan, &err);
 */
typedef struct plim_saved_plan plim_saved_plan;

#define PLIM_SAVED_PLAN_FORMAT 1 /**< another is refused */

/** What was asked. From a saved plan it is good as long as that is. */
typedef struct plim_saved_request {
    const char *version; /**< of the library that made the plan */
    const char *model_path;
    plim_file_identity model;
    plim_model_options options;
    uint64_t memory, baseline; /**< as in plim_settings; baseline is what the plan reckoned with */
    uint32_t threads;
    const char *spill_dir; /**< NULL: nothing is spilled */
    const plim_machine *machine; /**< NULL: the defaults */
} plim_saved_request;

/** @param path  a file that is not trusted; messages name the place in it
 *  @param set   its allocator is used; may be NULL */
PLIM_API plim_status plim_saved_plan_read(plim_saved_plan **out, const char *path, const plim_settings *set, plim_error *err);
PLIM_API void plim_saved_plan_free(plim_saved_plan **saved);
PLIM_API const plim_saved_request *plim_saved_plan_request(const plim_saved_plan *saved);
/** Whether the model is the one that was planned: PLIM_E_INVALID where its content has changed. Files beside it are not looked at.
 *  @param model_path  where it is now */
PLIM_API plim_status plim_saved_plan_check_model(const plim_saved_plan *saved, const char *model_path, plim_error *err);
/** Whether a plan has the facts that were saved, all but the time that planning took: PLIM_E_INVALID says which has not, and both values. */
PLIM_API plim_status plim_saved_plan_compare(const plim_saved_plan *saved, const plim_plan *plan, plim_error *err);

/* ------------------------------------------------------------------------------------------------- packing */

/** A buffer of `size` bytes, alive in [lower, upper). */
typedef struct plim_buffer {
    int64_t lower, upper;
    uint64_t size;
    uint64_t offset; /**< out */
} plim_buffer;

typedef struct plim_pack_options {
    uint64_t capacity;   /**< stop at the first packing of this height or less; 0: as low as can be */
    double seconds;      /**< ends the search if the bound or the capacity is not reached before; 0: 1 second */
    uint64_t alignment;  /**< 0 or 1: none */
} plim_pack_options;

typedef struct plim_pack_result {
    uint64_t height;
    uint64_t bound;  /**< no packing is lower: the most bytes alive at once */
    bool proven;     /**< height is known to be the least possible */
    bool fits;       /**< height <= capacity (true when no capacity was given) */
    double seconds;
    char method[48]; /**< what found it */
} plim_pack_result;

/** Gives every buffer an offset so that buffers alive together share no byte. Anytime: always ends with a valid packing. */
PLIM_API plim_status plim_pack(plim_buffer *buf, uint32_t count, const plim_pack_options *opt, plim_pack_result *res,
                               const plim_settings *set, plim_error *err);
/** Checks offsets by brute force; shares no code with plim_pack. @param height  what no buffer may exceed */
PLIM_API plim_status plim_pack_check(const plim_buffer *buf, uint32_t count, uint64_t height, plim_error *err);

/* -------------------------------------------------------------------------------------------------- tiles */

/** Walks an array file tile by tile, for a loop of your own:
 *
 *     plim_tiles *t;
 *     plim_tiles_new(&t, "x.npy", "y.npy", PLIM_F32, &tile, &overlap, &set, &err);
 *     plim_tile tile;
 *     while (plim_tiles_next(t, &tile, &err) == PLIM_OK && tile.in)
 *         smooth(tile.out, tile.in, &tile);
 *     plim_tiles_finish(&t, &err);          // y.npy appears here, whole
 */
typedef struct plim_tiles plim_tiles;

typedef struct plim_tile {
    const void *in;          /**< NULL after the last tile */
    void *out;               /**< core only; NULL when no output was asked for */
    plim_shape core;         /**< extent of the tile without its halo */
    int64_t core_lo[PLIM_MAX_RANK]; /**< where the core starts in the array */
    plim_shape halo;         /**< extent of what `in` holds: core and overlap, clipped to the array */
    int64_t halo_lo[PLIM_MAX_RANK];
    int64_t in_stride[PLIM_MAX_RANK];  /**< in elements */
    int64_t out_stride[PLIM_MAX_RANK];
    uint64_t index, count;
} plim_tile;

/** @param tile     extent of a tile; a dimension of 0 is chosen so that the budget is used well
 *  @param overlap  how far a tile reads beyond each side of its core
 *  @param out_path NULL: nothing is written */
PLIM_API plim_status plim_tiles_new(plim_tiles **out, const char *in_path, const char *out_path, plim_dtype out_dtype,
                                    const plim_shape *tile, const plim_shape *overlap, const plim_settings *set, plim_error *err);
/** Writes back the tile before, then gives the next one. Its pointers are good until the next call. */
PLIM_API plim_status plim_tiles_next(plim_tiles *tiles, plim_tile *out, plim_error *err);
/** Ends the walk. The output appears only if every tile was given out; `_free` instead drops it. */
PLIM_API plim_status plim_tiles_finish(plim_tiles **tiles, plim_error *err);
PLIM_API void plim_tiles_free(plim_tiles **tiles);

/* ----------------------------------------------------------------------------------------------- watching */

/** Runs any program, unchanged, and says who holds its memory; when memory runs out, what was asked for and by which line, which limit refused, why,
 *  and what would help, with the peak that each remedy would give. See man plimsoll, WATCH. */

/** What happens to a request that would breach the budget. */
typedef enum plim_watch_breach {
    PLIM_WATCH_ENOMEM, /**< it is refused: the program gets its ordinary exception */
    PLIM_WATCH_REPORT, /**< it is reported and let pass */
    PLIM_WATCH_STOP,   /**< it is reported and the program is ended */
} plim_watch_breach;

enum { PLIM_WATCH_FRAMES = 10, PLIM_WATCH_HELD = 12, PLIM_WATCH_FIXES = 6, PLIM_WATCH_LINES = 6, PLIM_WATCH_LIMITS = 12, PLIM_WATCH_PROCESSES = 24 };

/** A line of the watched program. */
typedef struct plim_watch_frame {
    char file[160];   /**< of Python: the file; of native code: the library */
    char function[96];
    char source[160]; /**< the text of the line, without indentation; "" where it cannot be read */
    uint32_t line;    /**< 0 for native code */
} plim_watch_frame;

/** A variable of a watched Python program whose value holds recorded memory. */
typedef struct plim_watch_name {
    char name[64];    /**< "history", "self.cache"; "" where there is none */
    char where[64];   /**< "module globals", "local of step()" */
    char type[32];    /**< "list", "ndarray", "Tensor" */
    char element[64]; /**< "float64[1000,1000]": what it is, or what most of its items are */
    char grad_fn[48]; /**< of a Tensor: the node of the autograd graph it keeps alive, "AddBackward0"; "" without */
    uint64_t length;  /**< items of a container; 0 for an array */
    uint64_t items;   /**< of these with recorded memory; 1 for an array */
    uint64_t bytes;   /**< recorded bytes reached through it */
} plim_watch_name;

/** Memory by the stack that asked for it. */
typedef struct plim_watch_site {
    plim_watch_frame frame[PLIM_WATCH_FRAMES]; /**< innermost first; lines of Python where there are any, else native frames */
    uint32_t n_frames;
    char label[64];    /**< the operation, where native names say something: "ConvolutionBackward0", "Python small objects" */
    uint64_t bytes;    /**< live, as requested */
    uint64_t resident; /**< of these really in memory */
    uint64_t blocks, allocations, frees;
    uint64_t block_bytes; /**< of the largest live block */
    double growth;        /**< bytes per second, over the last seconds */
    bool steady;          /**< grows steadily: hardly anything is ever freed */
    plim_watch_name name; /**< name.name is "" where no variable was found */
} plim_watch_site;

typedef struct plim_watch_fix {
    char text[240];
    bool computed; /**< `peak` was got by replaying what was recorded with the remedy applied */
    uint64_t peak;
    bool fits;     /**< peak is within the limit that refused */
} plim_watch_fix;

typedef struct plim_watch_limit {
    char name[32];    /**< "budget", "RLIMIT_AS", "cgroup" */
    char source[120]; /**< where it was read */
    uint64_t limit, used; /**< bytes; of "max_map_count": mappings. PLIM_UNLIMITED: none */
    bool refuses;     /**< this request does not pass it */
} plim_watch_limit;

typedef struct plim_watch_process {
    int32_t pid, parent;
    char program[32];
    bool attached; /**< the recording library is in it; false: followed through /proc alone */
    bool ended;
    uint64_t resident, resident_peak, recorded;
    uint64_t allocations, frees; /**< of 256 KiB and more, all that it ever made; 0 where it is not attached, or too long gone */
} plim_watch_process;

typedef enum plim_watch_event {
    PLIM_WATCH_REFUSED, /**< the budget refused a request (or would have: PLIM_WATCH_REPORT) */
    PLIM_WATCH_FAILED,  /**< the system refused one */
    PLIM_WATCH_OVER,    /**< more is resident than the budget allows, by requests that cannot be refused */
    PLIM_WATCH_UNCOVERED, /**< a process without the recording library: its memory is charged, its requests cannot be refused */
    PLIM_WATCH_KILLED,  /**< a signal ended the program */
    PLIM_WATCH_ENDED,   /**< it ended by itself */
} plim_watch_event;

typedef enum plim_watch_cause {
    PLIM_WATCH_NO_CAUSE,
    PLIM_WATCH_REQUEST,       /**< the request alone is too big */
    PLIM_WATCH_HOLDER,        /**< something else holds the memory */
    PLIM_WATCH_GROWTH,        /**< and it grows steadily */
    PLIM_WATCH_GRAPH,         /**< autograd graphs of past iterations are kept alive */
    PLIM_WATCH_FRAGMENTATION, /**< the allocator keeps free memory */
    PLIM_WATCH_NONSENSE,      /**< no such size can be meant */
    PLIM_WATCH_ADDRESS_SPACE, /**< RLIMIT_AS */
    PLIM_WATCH_DATA,          /**< RLIMIT_DATA */
    PLIM_WATCH_MAPS,          /**< vm.max_map_count */
    PLIM_WATCH_OVERCOMMIT,    /**< vm.overcommit_memory */
    PLIM_WATCH_CGROUP,        /**< a control group's limit, enforced by a kill */
    PLIM_WATCH_HOST,          /**< the machine ran out of memory */
    PLIM_WATCH_SIGNAL,        /**< somebody else's signal: not memory */
    PLIM_WATCH_AFTER_REFUSAL, /**< it crashed after a request had been refused, which it does not seem to have expected */
} plim_watch_cause;

/** Everything that is known at one moment. The texts are ready to print; the numbers are those in the texts. */
typedef struct plim_watch_report {
    plim_watch_event event;
    plim_watch_cause cause;
    double seconds;    /**< since the start */
    char verdict[400]; /**< one line */
    int32_t pid;
    uint64_t budget;   /**< 0: none */
    int32_t wait_status; /**< of KILLED and ENDED, as wait(2) gives it */

    uint64_t asked;          /**< bytes; 0: nothing was asked for */
    char call[16];           /**< "malloc" */
    char thread[32];
    bool gil_released;
    plim_watch_site asking;

    uint64_t pending;        /**< bytes asked for lately by anyone, granted, and not resident yet: the budget is charged with them */
    char refused[480];       /**< who refused, and who would have let it pass; of a kill: who killed (signal and time are in wait_status, seconds) */
    plim_watch_limit limit[PLIM_WATCH_LIMITS];
    uint32_t n_limits;

    plim_watch_site held[PLIM_WATCH_HELD]; /**< by resident bytes, largest first */
    uint32_t n_held;
    uint64_t held_others;    /**< live bytes of further sites */
    char growing[240];       /**< what grew in the last seconds; "" for nothing */

    char why[PLIM_WATCH_LINES][320];
    uint32_t n_why;
    plim_watch_fix fix[PLIM_WATCH_FIXES];
    uint32_t n_fixes;
    uint64_t peak_as_is;     /**< what fix[].peak is compared with: the peak that the same replay gives without a remedy; 0: not computed */

    uint64_t live;           /**< recorded bytes, requested */
    uint64_t resident;       /**< anonymous and shared memory of all processes, pages that they share counted once: what the budget is charged with */
    uint64_t resident_file;  /**< pages of files, which are not charged */
    uint64_t resident_shared; /**< shared memory, of `resident` */
    uint64_t recorded;       /**< recorded bytes that are resident */
    uint64_t kept;           /**< free memory that the allocator keeps */
    char coverage[400];      /**< what share of what is resident the recorded blocks explain, and what the rest is */
    uint64_t peak;           /**< the most that `resident` ever was */
    char peak_at[240];       /**< the line that asked last before the peak */

    plim_watch_process process[PLIM_WATCH_PROCESSES];
    uint32_t n_processes, processes; /**< in the list; in all */
    char note[PLIM_WATCH_LINES][240]; /**< what was not seen, and why */
    uint32_t n_notes;
    uint64_t refusals;       /**< so far */
} plim_watch_report;

/** A point of the time line. */
typedef struct plim_watch_sample {
    double seconds;
    uint64_t resident, live, kept;
    uint32_t processes;
} plim_watch_sample;

/** What a live view shows. */
typedef struct plim_watch_live {
    plim_watch_sample now;
    uint64_t budget;     /**< 0: none; then `limit` is what the system gives */
    uint64_t limit;
    double growth;       /**< resident bytes per second */
    double seconds_left; /**< until the limit at this rate; negative: it is not getting nearer */
    uint64_t refusals;
    plim_watch_site site[8];
    uint32_t n_sites;
} plim_watch_live;

typedef struct plim_watch_options {
    char *const *argv;       /**< the program and its words, ending with NULL; looked up in PATH */
    uint64_t memory;         /**< 0: nothing is refused */
    plim_watch_breach on_breach;
    const char *preload;     /**< the recording library; NULL: libplimsoll_watch.so beside this library */
    bool no_source;          /**< leave the text of source lines out of reports */
    void *ctx;               /**< for the calls below; each may be NULL */
    void (*report)(void *ctx, const plim_watch_report *report); /**< at refusals (of a line once), and once at the end */
    void (*sample)(void *ctx, const plim_watch_sample *sample); /**< ten times a second, and at every new peak */
    void (*live)(void *ctx, const plim_watch_live *live);       /**< four times a second */
} plim_watch_options;

/** Runs the program to its end. Its standard streams, working folder, environment and terminal are the caller's, with LD_PRELOAD and PLIMSOLL_WATCH added;
 *  SIGINT and SIGQUIT are left to it, and SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 are passed on to it meanwhile: so one call at a time in a process.
 *  @param wait_status  how it ended, as wait(2) gives it
 *  @return PLIM_OK whenever the program was run, however it ended; PLIM_E_IO when it cannot be started */
PLIM_API plim_status plim_watch(int *wait_status, const plim_watch_options *how, plim_error *err);

#ifdef __cplusplus
}
#endif
#endif
