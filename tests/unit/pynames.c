/* Names of variables in programs of Python that really run: each script says where its arrays lie and what the interpreter's addresses are, then
 * waits inside a function while its memory is read. With every CPython from 3.8 to 3.15 that is here: the system's (or $PYTHON), those of pyenv,
 * and those that PLIMSOLL_TEST_PYTHONS names (paths, with colons between them); arrays where NumPy is, tensors where PyTorch is. */
#include "unit.h"

#include "watch/peer.h"
#include "watch/pynames.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4096, NAMES = 64, PYTHONS = 16 };

static const char prelude[] =
    "import ctypes, sys\n"
    "def _at(name): return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))\n"
    "def _block(address, n, site=0): print('block', address, n, site)\n"
    "def _raw(b, site=0): _block(ctypes.addressof((ctypes.c_char * len(b)).from_buffer(b)), len(b), site)\n"
    "def _array(a, site=0): _block(a.ctypes.data, a.nbytes, site)\n"
    "def _tensor(t, site=0): s = t.storage(); _block(s.data_ptr(), s.nbytes(), site)\n"
    "def wait():\n"
    "    get = ctypes.pythonapi.PyThreadState_Get\n"
    "    get.restype = ctypes.c_void_p\n"
    "    print('version', sys.hexversion)\n"
    "    print('thread', get())\n"
    "    print('runtime', _at('_PyRuntime'))\n"
    "    print('code', _at('PyCode_Type'))\n"
    "    print('str', _at('PyUnicode_Type'))\n"
    "    print('end', flush=True)\n"
    "    sys.stdin.read()\n";

typedef struct program {
    int pid, to;
    plim__rec_process *process;
    plim__block block[BLOCKS];
    uint32_t n_blocks;
    plim__pyname name[NAMES];
    uint32_t n_names;
} program;

static char pythons[PYTHONS][256];
static uint32_t n_pythons;
static bool has_numpy, has_torch;

/* -------------------------------------------------------------------------------------------------- programs */

static void line_take(program *p, const char *line)
{
    unsigned long long a = 0, b = 0, c = 0;
    char key[32] = "";
    if (sscanf(line, "%31s %llu %llu %llu", key, &a, &b, &c) < 2) return;
    if (!strcmp(key, "version")) p->process->python_version = (uint32_t)a;
    if (!strcmp(key, "thread")) p->process->python_thread_state = a;
    if (!strcmp(key, "runtime")) p->process->python_runtime = a;
    if (!strcmp(key, "code")) p->process->python_code_type = a;
    if (!strcmp(key, "str")) p->process->python_str_type = a;
    if (!strcmp(key, "block") && p->n_blocks < BLOCKS) p->block[p->n_blocks++] = (plim__block){.address = a, .bytes = b, .site = (uint32_t)c};
}

static void child_run(const char *python, const char *script, const int in[2], const int out[2])
{
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[0]), close(in[1]), close(out[0]), close(out[1]);
    const size_t size = sizeof prelude + strlen(script);
    char *whole = malloc(size);
    snprintf(whole, size, "%s%s", prelude, script);
    execl(python, python, "-c", whole, (char *)NULL);
    _exit(127);
}

/* Starts the script and reads what it says until it waits. */
static program *program_start(const char *python, const char *script)
{
    program *p = calloc(1, sizeof *p);
    int in[2], out[2];
    assert_non_null(p);
    p->process = calloc(1, sizeof *p->process);
    assert_non_null(p->process);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (!p->pid) child_run(python, script, in, out);
    close(in[0]), close(out[1]);
    p->to = in[1];
    p->process->pid = p->pid;
    p->process->flags = PLIM__REC_GLIBC;
    char line[128] = "";
    FILE *f = fdopen(out[0], "r");
    while (fgets(line, sizeof line, f) && strcmp(line, "end\n")) line_take(p, line);
    fclose(f);
    if (strcmp(line, "end\n")) fail_msg("%s did not run the script", python);
    plim__blocks_sort(p->block, p->n_blocks);
    return p;
}

static void program_end(program *p)
{
    close(p->to);
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    free(p->process);
    free(p);
}

static program *names_of(const char *python, const char *script)
{
    program *p = program_start(python, script);
    p->n_names = plim__pynames_find(p->name, NAMES, p->process, 0, p->block, p->n_blocks);
    return p;
}

static const plim_watch_name *name_get(const program *p, const char *name, const char *where)
{
    for (uint32_t i = 0; i < p->n_names; i++)
        if (!strcmp(p->name[i].name.name, name) && !strcmp(p->name[i].name.where, where)) return &p->name[i].name;
    print_message("no %s (%s) with %x among:\n", name, where, p->process->python_version);
    for (uint32_t i = 0; i < p->n_names; i++) {
        const plim_watch_name *n = &p->name[i].name;
        print_message("  %s | %s | %s | %s | %s | %llu of %llu | %llu bytes\n", n->name, n->where, n->type, n->element, n->grad_fn,
                      (unsigned long long)n->items, (unsigned long long)n->length, (unsigned long long)n->bytes);
    }
    fail_msg("%s is not named", name);
    return NULL;
}

typedef struct want {
    const char *name, *where, *type, *element, *grad_fn;
    uint64_t length, items, bytes;
} want;

static void name_check(const program *p, want w)
{
    const plim_watch_name *n = name_get(p, w.name, w.where);
    assert_string_equal(n->type, w.type);
    assert_string_equal(n->element, w.element);
    assert_string_equal(n->grad_fn, w.grad_fn ? w.grad_fn : "");
    assert_int_equal(n->length, w.length);
    assert_int_equal(n->items, w.items);
    assert_int_equal(n->bytes, w.bytes);
}

/* --------------------------------------------------------------------------------- every version of Python */

#define MIB ((uint64_t)1 << 20)
#define GLOBALS "module globals"

static const char plain_script[] =
    "import collections, threading\n"
    "N = 1 << 20\n"
    "words = {i: 'x' for i in range(5000)}\n"
    "numbers = list(range(300000))\n"
    "slots = [None] * 300000\n"
    "_block(ctypes.c_size_t.from_address(id(slots) + 24).value, 8 * 300000)\n"
    "def make(site=0):\n"
    "    b = bytearray(N)\n"
    "    _raw(b, site)\n"
    "    return b\n"
    "class Store:\n"
    "    def __init__(self):\n"
    "        self.cache = [make(7) for _ in range(3)]\n"
    "        self.other = 5\n"
    "    def run(self, f): f()\n"
    "class Late: pass\n"
    "class Two:\n"
    "    def __init__(self): self.left, self.right, self.name = make(), make(), 'two'\n"
    "class Slots:\n"
    "    __slots__ = 'number', 'data'\n"
    "    def __init__(self): self.number, self.data = 1, make()\n"
    "slotted = Slots()\n"
    "class Many:\n"
    "    def __init__(self):\n"
    "        for i in range(12): setattr(self, 'part%d' % i, make())\n"
    "history = [make() for _ in range(100)]\n"
    "table = {'a': make(), 'b': make(), 3: make(), 'n': 1}\n"
    "recent = collections.deque((make() for _ in range(150)), maxlen=130)\n"
    "pair = (make(), (make(), [make()]))\n"
    "\u00fcber\u65e5 = make()\n"
    "late = Late()\n"
    "vars(late)['kept'] = make()\n"
    "setattr(late, 'more', 1)\n"
    "two = Two()\n"
    "many = Many()\n"
    "text = b'x' * (3 * N)\n"
    "_block(id(text), len(text) + 33)\n"
    "loop = [make()]\n"
    "loop.append(loop)\n"
    "barren = [[1], {2: 3}]\n"
    "barren.append(barren)\n"
    "first = [loop, [loop]]\n"
    "second = first[1]\n"
    "store = Store()\n"
    "def outer():\n"
    "    here = make()\n"
    "    shared = make()\n"
    "    def inner():\n"
    "        deep = [make(), make()]\n"
    "        shared\n"
    "        wait()\n"
    "    store.run(inner)\n"
    "outer()\n";

static void plain_check(const program *p)
{
    name_check(p, (want){"history", GLOBALS, "list", "bytearray[1048576]", .length = 100, .items = 100, .bytes = 100 * MIB});
    name_check(p, (want){"table", GLOBALS, "dict", "bytearray[1048576]", .length = 4, .items = 3, .bytes = 3 * MIB});
    name_check(p, (want){"recent", GLOBALS, "deque", "bytearray[1048576]", .length = 130, .items = 130, .bytes = 130 * MIB});
    name_check(p, (want){"slots", GLOBALS, "list", "", .length = 300000, .items = 0, .bytes = 2400000});
    name_check(p, (want){"pair", GLOBALS, "tuple", "bytearray[1048576]", .length = 2, .items = 2, .bytes = 3 * MIB});
    name_check(p, (want){"\u00fcber\u65e5", GLOBALS, "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"text", GLOBALS, "bytes", "bytes[3145728]", .items = 1, .bytes = 3 * MIB + 33});
    name_check(p, (want){"store.cache", GLOBALS, "list", "bytearray[1048576]", .length = 3, .items = 3, .bytes = 3 * MIB});
    const char *run = p->process->python_version >> 16 < 0x030b ? "local of run()" : "local of Store.run()";
    name_check(p, (want){"self.cache", run, "list", "bytearray[1048576]", .length = 3, .items = 3, .bytes = 3 * MIB});
    name_check(p, (want){"late.kept", GLOBALS, "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"two.left", GLOBALS, "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"two.right", GLOBALS, "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"slotted", GLOBALS, "Slots", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"many", GLOBALS, "Many", "bytearray[1048576]", .items = 12, .bytes = 12 * MIB});
    name_check(p, (want){"here", "local of outer()", "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"shared", "local of outer()", "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"deep", "local of inner()", "list", "bytearray[1048576]", .length = 2, .items = 2, .bytes = 2 * MIB});
    name_check(p, (want){"loop", GLOBALS, "list", "bytearray[1048576]", .length = 2, .items = 2, .bytes = MIB});
    name_check(p, (want){"first", GLOBALS, "list", "bytearray[1048576]", .length = 2, .items = 2, .bytes = MIB});
    name_check(p, (want){"second", GLOBALS, "list", "bytearray[1048576]", .length = 1, .items = 1, .bytes = MIB});
}

static void test_plain(void **state)
{
    (void)state;
    if (!n_pythons) {
        print_message("SKIPPED: no CPython 3.8 to 3.15 here\n");
        skip();
    }
    for (uint32_t i = 0; i < n_pythons; i++) {
        program *p = names_of(pythons[i], plain_script);
        plain_check(p);
        for (uint32_t k = 1; k < p->n_names; k++) assert_true(p->name[k - 1].name.bytes >= p->name[k].name.bytes);
        assert_string_equal(p->name[0].name.name, "recent");
        for (uint32_t k = 0; k < p->n_names; k++) {
            const plim__pyname *n = &p->name[k];
            assert_int_equal(n->frame_globals != 0, !strcmp(n->name.where, GLOBALS));
            if (!strcmp(n->name.name, "store.cache")) assert_int_equal(n->site, 7), assert_int_equal(n->site_bytes, 3 * MIB);
            assert_string_not_equal(n->name.name, "numbers");
            assert_string_not_equal(n->name.name, "two");
            assert_string_not_equal(n->name.name, "store");
            assert_string_not_equal(n->name.name, "barren");
        }
        print_message("%s: %u names\n", pythons[i], p->n_names);
        program_end(p);
    }
}

/* The thread that asks is not the one whose variables hold the memory. */
static void test_threads(void **state)
{
    (void)state;
    if (!n_pythons) skip();
    program *p = names_of(pythons[0], "import threading\n"
                                      "kept = bytearray(1 << 20)\n"
                                      "_raw(kept)\n"
                                      "def main():\n"
                                      "    mine = bytearray(1 << 21)\n"
                                      "    _raw(mine)\n"
                                      "    t = threading.Thread(target=wait)\n"
                                      "    t.start()\n"
                                      "    t.join()\n"
                                      "main()\n");
    name_check(p, (want){"kept", GLOBALS, "bytearray", "bytearray[1048576]", .items = 1, .bytes = MIB});
    name_check(p, (want){"mine", "local of main()", "bytearray", "bytearray[2097152]", .items = 1, .bytes = 2 * MIB});
    program_end(p);
}

/* While the program goes on and changes what is read. What it leaves alone must be there every time. */
static void test_running(void **state)
{
    (void)state;
    if (!n_pythons) skip();
    for (uint32_t i = 0; i < n_pythons; i++) {
        program *p = program_start(pythons[i], "import threading\n"
                                               "class C: pass\n"
                                               "kept = [bytearray(1 << 20) for _ in range(5)]\n"
                                               "for b in kept: _raw(b)\n"
                                               "lists, dicts, object = [], {}, C()\n"
                                               "def churn(k=0):\n"
                                               "    while True:\n"
                                               "        k += 1\n"
                                               "        lists.append([kept[k % 5], k, str(k)])\n"
                                               "        dicts[k] = (kept, {k: lists})\n"
                                               "        setattr(object, 'a%d' % (k % 50), [k] * (k % 1000))\n"
                                               "        if k % 40 == 0: delattr(object, 'a0')\n"
                                               "        if k % 200 == 0: lists.clear(), dicts.clear()\n"
                                               "def deeper(n):\n"
                                               "    here = kept[0]\n"
                                               "    return deeper(n - 1) if n else churn()\n"
                                               "def again():\n"
                                               "    while True:\n"
                                               "        try: deeper(5)\n"
                                               "        except AttributeError: pass\n"
                                               "threading.Thread(target=again, daemon=True).start()\n"
                                               "wait()\n");
        for (int k = 0; k < 6; k++) {
            p->n_names = plim__pynames_find(p->name, NAMES, p->process, 0, p->block, p->n_blocks);
            name_check(p, (want){"kept", GLOBALS, "list", "bytearray[1048576]", .length = 5, .items = 5, .bytes = 5 * MIB});
        }
        program_end(p);
    }
}

/* ---------------------------------------------------------------------------------------------------- numpy */

static void test_numpy(void **state)
{
    (void)state;
    if (!has_numpy) {
        print_message("SKIPPED: no python3 with NumPy here\n");
        skip();
    }
    program *p = names_of(pythons[0], "import numpy as np\n"
                                      "def make(*shape, dtype=np.float64):\n"
                                      "    a = np.zeros(shape, dtype)\n"
                                      "    _array(a)\n"
                                      "    return a\n"
                                      "history = [make(200, 200) for _ in range(98)]\n"
                                      "mixed = np.array([None, make(200, 200), 1, make(200, 200)], dtype=object)\n"
                                      "def step():\n"
                                      "    batch = make(64, 3, 40, 40, dtype=np.float32)\n"
                                      "    view = make(1000, 100, dtype=np.int32)[10:20, ::2]\n"
                                      "    empty = make(100000)[100000:]\n"
                                      "    names = make(100000, dtype='U10')\n"
                                      "    bits, z = make(300000, dtype=bool), make(50000, dtype=np.complex64)\n"
                                      "    small = np.frombuffer(b'12345678', np.int64)\n"
                                      "    again = batch\n"
                                      "    wait()\n"
                                      "step()\n");
    name_check(p, (want){"history", GLOBALS, "list", "float64[200,200]", .length = 98, .items = 98, .bytes = 98 * 320000});
    name_check(p, (want){"mixed", GLOBALS, "ndarray", "float64[200,200]", .items = 1, .bytes = 2 * 320000});
    name_check(p, (want){"batch", "local of step()", "ndarray", "float32[64,3,40,40]", .items = 1, .bytes = 1228800});
    name_check(p, (want){"again", "local of step()", "ndarray", "float32[64,3,40,40]", .items = 1, .bytes = 1228800});
    name_check(p, (want){"view", "local of step()", "ndarray", "int32[10,50]", .items = 1, .bytes = 400000});
    name_check(p, (want){"empty", "local of step()", "ndarray", "float64[0]", .items = 1, .bytes = 800000});
    name_check(p, (want){"names", "local of step()", "ndarray", "U10[100000]", .items = 1, .bytes = 4000000});
    name_check(p, (want){"bits", "local of step()", "ndarray", "bool[300000]", .items = 1, .bytes = 300000});
    name_check(p, (want){"z", "local of step()", "ndarray", "complex64[50000]", .items = 1, .bytes = 400000});
    assert_string_equal(p->name[0].name.name, "history");
    program_end(p);
}

/* ---------------------------------------------------------------------------------------------------- torch */

static void test_torch(void **state)
{
    (void)state;
    if (!has_torch) {
        print_message("SKIPPED: no python3 with PyTorch here\n");
        skip();
    }
    program *p = names_of(pythons[0], "import torch\n"
                                      "from torch import nn\n"
                                      "model = nn.Sequential(nn.Linear(300, 300), nn.Sequential(nn.ReLU(), nn.Linear(300, 300)))\n"
                                      "for q in model.parameters():\n"
                                      "    if q.numel() > 300: _tensor(q)\n"
                                      "del q\n"
                                      "kept = [torch.zeros(64, 3, 40, 40) for _ in range(5)]\n"
                                      "for q in kept: _tensor(q)\n"
                                      "del q\n"
                                      "wide = torch.zeros(2, 2, 2, 2, 2, 2, 2, 1000, dtype=torch.float16)\n"
                                      "whole = torch.zeros(100, 1000, dtype=torch.int64)\n"
                                      "part = whole[3]\n"
                                      "double = torch.zeros(50000, dtype=torch.float64)\n"
                                      "for q in wide, whole, double: _tensor(q)\n"
                                      "del q\n"
                                      "total, losses = 0, []\n"
                                      "for i in range(4):\n"
                                      "    loss = model(torch.zeros(8, 300)).sum()\n"
                                      "    total = total + loss\n"
                                      "    losses.append(loss)\n"
                                      "    loss.backward(retain_graph=True)\n"
                                      "_tensor(model[0].weight.grad)\n"
                                      "_tensor(model[1][1].weight.grad)\n"
                                      "def step():\n"
                                      "    w = model[0].weight\n"
                                      "    wait()\n"
                                      "step()\n");
    name_check(p, (want){"model", GLOBALS, "Sequential", "float32[300,300]", .items = 2, .bytes = 4 * 360000});
    name_check(p, (want){"w", "local of step()", "Parameter", "float32[300,300]", .items = 1, .bytes = 2 * 360000});
    name_check(p, (want){"kept", GLOBALS, "list", "float32[64,3,40,40]", .length = 5, .items = 5, .bytes = 5 * 1228800});
    name_check(p, (want){"wide", GLOBALS, "Tensor", "float16[2,2,2,2,2,2,2,1000]", .items = 1, .bytes = 256000});
    name_check(p, (want){"whole", GLOBALS, "Tensor", "int64[100,1000]", .items = 1, .bytes = 800000});
    name_check(p, (want){"part", GLOBALS, "Tensor", "int64[1000]", .items = 1, .bytes = 800000});
    name_check(p, (want){"double", GLOBALS, "Tensor", "float64[50000]", .items = 1, .bytes = 400000});
    name_check(p, (want){"total", GLOBALS, "Tensor", "float32[]", "AddBackward0", .items = 1});
    name_check(p, (want){"losses", GLOBALS, "list", "float32[]", "SumBackward0", .length = 4});
    program_end(p);
}

/* What only a graph keeps alive: activations of iterations that were never followed by a backward pass; not the weights. */
static void test_graph(void **state)
{
    (void)state;
    if (!has_torch) {
        print_message("SKIPPED: no python3 with PyTorch here\n");
        skip();
    }
    program *p = names_of(pythons[0], "import torch\n"
                                      "from torch import nn\n"
                                      "w = torch.zeros(300, 300, requires_grad=True)\n"
                                      "_tensor(w, 1)\n"
                                      "total, losses, done = 0, [], 0\n"
                                      "for i in range(20):\n"
                                      "    x = torch.zeros(400, 300)\n"
                                      "    _tensor(x, 2)\n"
                                      "    h = torch.relu(x @ w)\n"
                                      "    _tensor(h, 3)\n"
                                      "    loss = (h * h).mean()\n"
                                      "    total = total + loss\n"
                                      "    if i < 3: losses.append(loss)\n"
                                      "y = torch.zeros(500, 300)\n"
                                      "_tensor(y, 4)\n"
                                      "done = (y @ w).sum()\n"
                                      "done.backward()\n"
                                      "del x, h, y\n"
                                      "wait()\n");
    name_check(p, (want){"w", GLOBALS, "Tensor", "float32[300,300]", .items = 1, .bytes = 360000});
    name_check(p, (want){"total", GLOBALS, "Tensor", "float32[]", "AddBackward0", .items = 1, .bytes = 20 * 2 * 480000});
    name_check(p, (want){"losses", GLOBALS, "list", "float32[]", "MeanBackward0", .length = 3, .bytes = 3 * 2 * 480000});
    name_check(p, (want){"loss", GLOBALS, "Tensor", "float32[]", "MeanBackward0", .items = 1, .bytes = 2 * 480000});
    name_check(p, (want){"done", GLOBALS, "Tensor", "float32[]", "SumBackward0", .items = 1, .bytes = 0});
    assert_string_equal(p->name[0].name.name, "total");
    assert_int_equal(p->name[0].graph_bytes, p->name[0].name.bytes);
    assert_true(p->name[0].site == 2 || p->name[0].site == 3);
    assert_int_equal(p->name[0].site_bytes, 20 * 480000);
    program_end(p);
}

/* -------------------------------------------------------------------------------------------------- nonsense */

static void test_nonsense(void **state)
{
    (void)state;
    if (!n_pythons) skip();
    program *p = program_start(pythons[0], "kept = bytearray(1 << 20)\n_raw(kept)\nwait()\n");
    uint64_t x = 88172645463325252u;
    assert_int_equal(plim__pynames_find(p->name, NAMES, p->process, p->process->python_thread_state, p->block, p->n_blocks), 1);
    assert_int_equal(plim__pynames_find(p->name, 0, p->process, 0, p->block, p->n_blocks), 0);
    assert_int_equal(plim__pynames_find(p->name, NAMES, p->process, 0, p->block, 0), 0);
    for (int i = 0; i < 300; i++) { /* anywhere, near the thread's state, in the block's zeros, in the types */
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const uint64_t at[] = {x, p->process->python_thread_state + 8 + x % 4096 / 8 * 8, p->block[0].address + x % (1 << 20),
                               p->process->python_code_type + x % 400};
        plim__pynames_find(p->name, NAMES, p->process, at[i % 4], p->block, p->n_blocks);
        if (i % 4 != 1) assert_int_equal(plim__pynames_find(p->name, NAMES, p->process, at[i % 4], p->block, p->n_blocks), 0);
    }
    p->process->python_version = 0x02071200;
    assert_int_equal(plim__pynames_find(p->name, NAMES, p->process, 0, p->block, p->n_blocks), 0);
    for (uint32_t v = 0x0308; v <= 0x030d; v++) { /* the offsets of another version */
        p->process->python_version = v << 16;
        plim__pynames_find(p->name, NAMES, p->process, 0, p->block, p->n_blocks);
    }
    p->process->python_version = 0x030b02f0;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    assert_int_equal(plim__pynames_find(p->name, NAMES, p->process, 0, p->block, p->n_blocks), 0);
    p->pid = 0;
    program_end(p);
}

/* ------------------------------------------------------------------------------------------------------------ */

static bool runs(const char *python, const char *code)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' -c '%s' >/dev/null 2>&1", python, code);
    return system(command) == 0;
}

static void python_try(const char *path)
{
    if (n_pythons < PYTHONS && access(path, X_OK) == 0 && runs(path, "import sys, ctypes; assert (3, 8) <= sys.version_info < (3, 16)"))
        snprintf(pythons[n_pythons++], sizeof pythons[0], "%s", path);
}

/* The first is the system's, which has packages; then what pyenv has, and what is named. */
static void pythons_find(void)
{
    glob_t g;
    char pattern[300];
    const char *given = getenv("PYTHON"), *home = getenv("HOME");
    python_try(given && *given ? given : "/usr/bin/python3");
    snprintf(pattern, sizeof pattern, "%s/.pyenv/versions/3.*/bin/python3", home ? home : "");
    if (glob(pattern, 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc; i++) python_try(g.gl_pathv[i]);
        globfree(&g);
    }
    char named[4096], *rest = named;
    snprintf(named, sizeof named, "%s", getenv("PLIMSOLL_TEST_PYTHONS") ? getenv("PLIMSOLL_TEST_PYTHONS") : "");
    for (const char *path; (path = strsep(&rest, ":"));)
        if (*path) python_try(path);
    has_numpy = n_pythons && runs(pythons[0], "import numpy");
    has_torch = n_pythons && runs(pythons[0], "import torch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_threads), cmocka_unit_test(test_running), cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_torch), cmocka_unit_test(test_graph), cmocka_unit_test(test_nonsense),
    };
    pythons_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
