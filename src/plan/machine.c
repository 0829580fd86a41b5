/* Descriptions of machines: the defaults, their numbers by name, checks, and rates for a number of threads. Nothing is allocated; no state. */
#include "plan/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- numbers by name */

static const char *const kernel_name[PLIM_KERNEL_COUNT] = {
    [PLIM_KERNEL_ELEMENTWISE] = "elementwise",
    [PLIM_KERNEL_FUNCTION] = "function",
    [PLIM_KERNEL_COPY] = "copy",
    [PLIM_KERNEL_TRANSPOSE] = "transpose",
    [PLIM_KERNEL_GATHER] = "gather",
    [PLIM_KERNEL_REDUCE] = "reduce",
    [PLIM_KERNEL_SCAN] = "scan",
    [PLIM_KERNEL_SORT] = "sort",
    [PLIM_KERNEL_TALLY] = "tally",
    [PLIM_KERNEL_WINDOW] = "window",
    [PLIM_KERNEL_POOL] = "pool",
    [PLIM_KERNEL_POOL_BACK] = "pool_back",
    [PLIM_KERNEL_PRODUCT_F32] = "product_f32",
    [PLIM_KERNEL_PRODUCT_F64] = "product_f64",
    [PLIM_KERNEL_PRODUCT_INTEGER] = "product_integer",
    [PLIM_KERNEL_PRODUCT_THIN] = "product_thin",
    [PLIM_KERNEL_CONV] = "conv",
    [PLIM_KERNEL_CONV_FEW] = "conv_few",
    [PLIM_KERNEL_CONV_BLOCKED] = "conv_blocked",
    [PLIM_KERNEL_CONV_BLOCKED_DATA] = "conv_blocked_data",
    [PLIM_KERNEL_CONV_BLOCKED_WEIGHTS] = "conv_blocked_weights",
    [PLIM_KERNEL_CONV_DEPTH] = "conv_depth",
};

enum { WAYS = 4, TABLES = 3, REQUEST_NUMBERS = WAYS * TABLES * PLIM_REQUEST_SIZES, RATE_NUMBERS = 2 * PLIM_KERNEL_COUNT };
#define SECONDS_LEAST 1e-12
#define SECONDS_MOST 1e4 /* of one request */
#define RATE_LEAST 1.0
#define RATE_MOST 1e18

static double *request_number(plim_machine *m, uint32_t i, char name[64])
{
    static const char *const way_name[WAYS] = {"direct_read", "direct_write", "buffered_read", "buffered_write"};
    static const char *const table_name[TABLES] = {"seconds", "cpu_seconds", "alone_seconds"};
    static const char *const size_name[PLIM_REQUEST_SIZES] = {"4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB"};
    plim_requests *const way[WAYS] = {&m->direct_read, &m->direct_write, &m->buffered_read, &m->buffered_write};
    const uint32_t w = i / (TABLES * PLIM_REQUEST_SIZES), t = i / PLIM_REQUEST_SIZES % TABLES, s = i % PLIM_REQUEST_SIZES;
    PLIM_ASSERT(w < WAYS);
    double *const table[TABLES] = {way[w]->seconds, way[w]->cpu, way[w]->alone};
    snprintf(name, 64, "%s_%s_%s", way_name[w], size_name[s], table_name[t]);
    return &table[t][s];
}

static double *rate_number(plim_machine *m, uint32_t i, char name[64])
{
    PLIM_ASSERT(i < RATE_NUMBERS && kernel_name[i / 2]);
    snprintf(name, 64, "%s_%s", kernel_name[i / 2], i % 2 ? "all" : "one");
    return i % 2 ? &m->kernel[i / 2].all : &m->kernel[i / 2].one;
}

bool plim__machine_field(plim_machine *m, uint32_t i, double **value, double *least, double *most, char name[64])
{
    const struct { const char *name; double *value; bool seconds; } last[] = {
        {"memory_rate", &m->memory_rate, false}, {"touch_rate", &m->touch_rate, false}, {"step_seconds", &m->step_seconds, true},
        {"parallel_seconds", &m->parallel_seconds, true}, {"node_seconds", &m->node_seconds, true},
    };
    const uint32_t rest = i - (REQUEST_NUMBERS + RATE_NUMBERS);
    bool seconds = i < REQUEST_NUMBERS;
    if (i < REQUEST_NUMBERS) {
        *value = request_number(m, i, name);
    } else if (i < REQUEST_NUMBERS + RATE_NUMBERS) {
        *value = rate_number(m, i - REQUEST_NUMBERS, name);
    } else if (rest < sizeof last / sizeof *last) {
        *value = last[rest].value;
        seconds = last[rest].seconds;
        snprintf(name, 64, "%s", last[rest].name);
    } else {
        return false;
    }
    *least = seconds ? SECONDS_LEAST : RATE_LEAST;
    *most = seconds ? SECONDS_MOST : RATE_MOST;
    return true;
}

const char *plim_machine_number(const plim_machine *m, uint32_t i, double *value, char name[64])
{
    plim_machine copy = *m;
    double *at, least, most;
    if (!plim__machine_field(&copy, i, &at, &least, &most, name)) return NULL;
    *value = *at;
    return name;
}

plim_status plim_machine_check(const plim_machine *m, plim_error *err)
{
    plim_machine copy;
    PLIM_FAIL_IF(m->size != sizeof *m, err, PLIM_E_INVALID, "machine: its struct has %zu bytes, expected %zu: start with plim_machine_default",
                 m->size, sizeof *m);
    PLIM_FAIL_IF(m->threads < 1 || m->threads > 65536, err, PLIM_E_INVALID, "machine: threads must be 1 to 65536, got %u", m->threads);
    PLIM_FAIL_IF(m->cpus > 65536, err, PLIM_E_INVALID, "machine: cpus must be at most 65536, got %u", m->cpus);
    copy = *m;
    double *value, least, most;
    char name[64];
    for (uint32_t i = 0; plim__machine_field(&copy, i, &value, &least, &most, name); i++)
        PLIM_FAIL_IF(!(*value >= least && *value <= most), err, PLIM_E_INVALID, "machine: %s must be between %g and %g, got %g", name, least, most,
                     *value);
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------ description */

bool plim_machine_same(const plim_machine *a, const plim_machine *b)
{
    return plim_machine_hash(a) == plim_machine_hash(b) && !strcmp(a->cpu, b->cpu) && !strcmp(a->level, b->level) && a->cpus == b->cpus &&
           !strcmp(a->file_system, b->file_system) && !strcmp(a->device, b->device) && !strcmp(a->version, b->version);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(uint64_t h, const char *text)
{
    for (const char *p = text; *p; p++) h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return (h ^ 0xff) * UINT64_C(0x100000001b3); /* ends the text: "ab" "c" is not "a" "bc" */
}

uint64_t plim_machine_hash(const plim_machine *m)
{
    char cpus[16];
    snprintf(cpus, sizeof cpus, "%u", m->cpus);
    uint64_t h = hash_text(UINT64_C(0xcbf29ce484222325), m->cpu);
    h = hash_text(hash_text(h, m->level), cpus);
    return hash_text(hash_text(h, m->file_system), m->device);
}

/* --------------------------------------------------------------------------------------------------------- defaults */

/* Seconds of requests of every size, from what one costs whatever its size and from the bytes per second that follow. */
static void set_table(double table[PLIM_REQUEST_SIZES], double fixed, double rate)
{
    double bytes = PLIM__REQUEST_LEAST;
    for (int i = 0; i < PLIM_REQUEST_SIZES; i++, bytes *= 4) table[i] = fixed + bytes / rate;
}

/* Rates of kernels, of memory and of calls are rounded from what plim_machine_measure gives on a virtual machine with two cores of an AMD EPYC (AVX2); requests
 * are what long sequential reads and writes come to on its virtual disk (ext4) when nothing else runs: docs/design.md. */
plim_machine plim_machine_default(void)
{
    plim_machine m = {.size = sizeof m, .threads = 2, .kernel = {
        [PLIM_KERNEL_ELEMENTWISE] = {6.5e10, 1.2e11},
        [PLIM_KERNEL_FUNCTION] = {2.4e9, 4.0e9},
        [PLIM_KERNEL_COPY] = {2.2e10, 3.8e10},
        [PLIM_KERNEL_TRANSPOSE] = {1.1e10, 1.9e10},
        [PLIM_KERNEL_GATHER] = {2.2e10, 4.0e10},
        [PLIM_KERNEL_REDUCE] = {3.0e10, 5.8e10},
        [PLIM_KERNEL_SCAN] = {4.2e8, 8.0e8},
        [PLIM_KERNEL_SORT] = {3.4e8, 6.2e8},
        [PLIM_KERNEL_TALLY] = {4.8e8, 9.5e8},
        [PLIM_KERNEL_WINDOW] = {1.0e10, 1.6e10},
        [PLIM_KERNEL_POOL] = {8.0e8, 1.6e9},
        [PLIM_KERNEL_POOL_BACK] = {2.2e8, 4.4e8},
        [PLIM_KERNEL_PRODUCT_F32] = {7.0e10, 1.3e11},
        [PLIM_KERNEL_PRODUCT_F64] = {3.4e10, 6.2e10},
        [PLIM_KERNEL_PRODUCT_INTEGER] = {2.7e9, 5.2e9},
        [PLIM_KERNEL_PRODUCT_THIN] = {7.0e9, 1.2e10},
        [PLIM_KERNEL_CONV] = {4.0e10, 7.5e10},
        [PLIM_KERNEL_CONV_FEW] = {5.5e9, 1.1e10},
        [PLIM_KERNEL_CONV_BLOCKED] = {8.0e10, 1.4e11},
        [PLIM_KERNEL_CONV_BLOCKED_DATA] = {8.0e10, 1.4e11},
        [PLIM_KERNEL_CONV_BLOCKED_WEIGHTS] = {8.0e10, 1.4e11},
        [PLIM_KERNEL_CONV_DEPTH] = {3.2e10, 6.2e10},
    }};
    plim_requests *way[WAYS] = {&m.direct_read, &m.direct_write, &m.buffered_read, &m.buffered_write};
    static const double fixed[WAYS] = {15e-6, 20e-6, 15e-6, 20e-6}, rate[WAYS] = {3.0e9, 1.8e9, 2.0e9, 1.0e9};
    static const double cpu_fixed[WAYS] = {5e-6, 6e-6, 5e-6, 5e-6}, cpu_rate[WAYS] = {4e10, 4e10, 4e9, 2e9};
    for (int w = 0; w < WAYS; w++) {
        set_table(way[w]->seconds, fixed[w], rate[w]);
        set_table(way[w]->cpu, cpu_fixed[w], cpu_rate[w]);
        set_table(way[w]->alone, 80e-6, rate[w] / 2);
    }
    m.memory_rate = 3.5e10;
    m.touch_rate = 3.0e9;
    m.step_seconds = 10e-6;
    m.parallel_seconds = 1e-6;
    m.node_seconds = 1e-6;
    snprintf(m.version, sizeof m.version, "%s", PLIM_VERSION);
    return m;
}

/* ------------------------------------------------------------------------------------------------------------ rates */

double plim__kernel_rate(const plim_machine *m, plim_rate rate, uint32_t threads)
{
    PLIM_ASSERT(rate.one > 0 && rate.all > 0 && m->threads >= 1);
    if (m->cpus > 0 && threads > m->cpus) threads = m->cpus > m->threads ? m->cpus : m->threads;
    if (threads <= 1) return rate.one;
    if (m->threads == 1) return rate.one * threads;
    if (threads == m->threads) return rate.all;
    const double power = log(rate.all / rate.one) / log(m->threads);
    return rate.one * pow(threads, fmin(fmax(power, 0), 1));
}

double plim__request_at(const double table[PLIM_REQUEST_SIZES], double bytes)
{
    double low = PLIM__REQUEST_LEAST;
    if (bytes <= low) return table[0];
    for (int i = 1; i < PLIM_REQUEST_SIZES; i++, low *= 4)
        if (bytes <= 4 * low) return table[i - 1] + (table[i] - table[i - 1]) * (bytes - low) / (3 * low);
    return table[PLIM_REQUEST_SIZES - 1] * bytes / low;
}

plim_status plim__speed_new(plim__speed *out, const plim_machine *m, uint32_t threads, plim_error *err)
{
    if (m) PLIM_TRY(plim_machine_check(m, err));
    *out = (plim__speed){.machine = m ? *m : plim_machine_default(), .threads = threads};
    m = &out->machine;
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) out->rate[k] = plim__kernel_rate(m, m->kernel[k], threads);
    const double share = m->kernel[PLIM_KERNEL_COPY].one / m->kernel[PLIM_KERNEL_COPY].all; /* of the bandwidth that one thread can have */
    out->memory_rate = plim__kernel_rate(m, (plim_rate){m->memory_rate * fmin(share, 1), m->memory_rate}, threads);
    PLIM_ASSERT(out->memory_rate > 0);
    return PLIM_OK;
}
