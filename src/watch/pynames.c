/* See pynames.h. Each variable is walked on its own, depth first: what it reaches is tallied, a block once (marked with the variable's number).
 * An object that was found to lead nowhere is not entered again for other variables; one that was met already for this variable ends the walk
 * there, so cycles end.
 *
 * An instance is named by those of its attributes that hold most of it: `self.cache`. Attributes in which torch.nn.Module keeps its parts do not
 * count as a level and are not named: `model` stays `model`, however deep its parts are nested.
 *
 * A second round follows the autograd graphs behind tensors: what their nodes saved for a backward pass is what `total += loss` keeps alive.
 *
 * Bounds: TIME_MS and OBJECTS in all, SHARE_MS and SHARE for a variable, DEPTH levels of containers, NEST levels of modules; GRAPH_MS for graphs.
 * Memory: about 2 MiB and 5 bytes for each block, freed before return. */
#include "watch/pynames.h"

#include "core/alloc.h"
#include "watch/pygraph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIME_MS = 250,
    OBJECTS = 200000,
    SHARE_MS = 80, /* of these for one variable, so that a huge one leaves time for others */
    SHARE = 100000,
    GRAPH_MS = 200, /* and after all variables were looked at, for the graphs behind tensors */
    GRAPH_SHARE_MS = 70,
    DEPTH = 4,
    NEST = 24,
    NARROW = 3, /* attributes in a name: a.b.c.d */
    ATTRIBUTES = 24,
    SEEN = 1 << 16, /* a power of two */
    NAMES = 512,
    FRAMES = 1024,
    THREADS = 32,
    MODULES = 64,
    KINDS = 24,
    SITES = 48,
    LONG = 1024,   /* lists longer than this are probed first: */
    PROBES = 256,
    WORK = 1 << 15, /* nodes noted, not yet looked at */
    SMALL = 512,   /* objects up to this size lie in Python's own arenas */
};

typedef struct seen {
    uint64_t address;
    uint32_t number; /* of the variable that met it last */
    uint32_t barren; /* entered with so many levels to go it led nowhere; 0: it leads somewhere, or was not left yet */
} seen;

/* What one variable reaches. */
typedef struct tally {
    uint64_t bytes, arrays;
    uint32_t n_kinds, n_sites;
    struct {
        char element[64];
        uint64_t count;
    } kind[KINDS];
    struct {
        uint32_t site;
        uint64_t bytes;
    } site[SITES];
    char grad_fn[48];
} tally;

typedef struct found {
    plim__pyname name;
    uint64_t object;
    uint32_t order;
} found;

typedef struct walker {
    plim__pyreader r;
    plim__pytorch torch;
    const plim__rec_process *process;
    const plim__block *block;
    uint32_t n_blocks;
    uint32_t number; /* of the variable at hand */
    uint32_t *mark;  /* of each block: the variable that reached it last */
    uint8_t *in_graph; /* of each block: SAVED, LEAF */
    uint32_t n_seen, n_found;
    tally t;
    found found[NAMES];
    seen seen[SEEN];
    uint64_t frame[FRAMES];
    bool graphs; /* second round: nodes are noted in work */
    uint32_t n_work;
    uint64_t work[WORK];
} walker;

/* Where a variable stands. */
typedef struct place {
    char text[64];
    uint64_t globals;
} place;

enum { REACHES_BLOCKS = 1, REACHES_GRAPH = 2 };
enum { SAVED = 1, LEAF = 2 };

/* ------------------------------------------------------------------------------------------------------ tally */

/* A small object's memory may lie in an arena of Python's, which is recorded but holds thousands of others. */
static bool is_arena(const walker *w, const plim__block *b)
{
    if (b->bytes != 256 << 10 && b->bytes != 1 << 20) return false;
    return b->site < PLIM__REC_SITES && w->process->site[b->site].call == PLIM__REC_MMAP;
}

static int block_add(walker *w, uint64_t address, uint64_t bytes)
{
    const plim__block *b = plim__block_at(w->block, w->n_blocks, address);
    if (!b || (bytes <= SMALL && is_arena(w, b))) return 0;
    uint32_t *mark = &w->mark[b - w->block], i = 0;
    if (*mark == w->number) return REACHES_BLOCKS;
    *mark = w->number;
    tally *t = &w->t;
    t->bytes += b->bytes;
    while (i < t->n_sites && t->site[i].site != b->site) i++;
    if (i == SITES) return REACHES_BLOCKS;
    if (i == t->n_sites) t->site[t->n_sites++].site = b->site;
    t->site[i].bytes += b->bytes;
    return REACHES_BLOCKS;
}

static void kind_add(tally *t, const char *element)
{
    uint32_t i = 0;
    while (i < t->n_kinds && strcmp(t->kind[i].element, element)) i++;
    if (i == KINDS) return;
    if (i == t->n_kinds) snprintf(t->kind[t->n_kinds++].element, sizeof t->kind[i].element, "%s", element);
    t->kind[i].count++;
}

static void tally_finish(const tally *t, plim__pyname *out)
{
    uint32_t most = 0, site = 0;
    for (uint32_t i = 1; i < t->n_kinds; i++)
        if (t->kind[i].count > t->kind[most].count) most = i;
    for (uint32_t i = 1; i < t->n_sites; i++)
        if (t->site[i].bytes > t->site[site].bytes) site = i;
    if (t->n_kinds) snprintf(out->name.element, sizeof out->name.element, "%s", t->kind[most].element);
    snprintf(out->name.grad_fn, sizeof out->name.grad_fn, "%s", t->grad_fn);
    out->name.bytes = t->bytes;
    out->site = t->n_sites ? t->site[site].site : UINT32_MAX;
    out->site_bytes = t->n_sites ? t->site[site].bytes : 0;
}

static void tally_start(walker *w)
{
    memset(&w->t, 0, sizeof w->t);
    w->number++;
}

/* ------------------------------------------------------------------------------------------------------- walk */

static int object_visit(walker *w, uint64_t address, uint32_t depth, uint32_t nest);

/* The row of an object, new or old; NULL: the table is full, and the walk ends. */
static seen *seen_at(walker *w, uint64_t address)
{
    uint32_t i = (uint32_t)((address >> 4) * 0x9E3779B97F4A7C15u >> 32) % SEEN;
    while (w->seen[i].address && w->seen[i].address != address) i = (i + 1) % SEEN;
    if (!w->seen[i].address) {
        if (w->n_seen >= SEEN / 4 * 3) {
            w->r.spent = true;
            return NULL;
        }
        w->n_seen++;
        w->seen[i].address = address;
    }
    return &w->seen[i];
}

static int text_visit(walker *w, const plim__pyobject *o)
{
    uint64_t at;
    char element[64];
    const uint64_t bytes = plim__pytext_bytes(o, &at);
    if (bytes < PLIM__REC_LARGE || !block_add(w, at, bytes)) return 0;
    snprintf(element, sizeof element, "%s[%llu]", o->type->name, (unsigned long long)o->word[2]);
    kind_add(&w->t, element);
    w->t.arrays++;
    return REACHES_BLOCKS;
}

/* Whether a long list holds nothing but numbers and the like, by its first items and others spread evenly. */
static bool items_dull(walker *w, plim__pyitems *it)
{
    uint64_t key, value;
    plim__pyobject o;
    if (it->deque || it->slots <= LONG) return false;
    for (uint64_t i = 0; i < PROBES; i++) {
        plim__pyitems_seek(it, i < PROBES / 4 ? i : it->slots / PROBES * i);
        if (!plim__pyitems_next(it, &key, &value)) break;
        if (plim__pyobject_read(&w->r, value, &o) && o.type->kind > PLIM__PY_STR) {
            plim__pyitems_seek(it, 0);
            return false;
        }
    }
    return true;
}

/* The objects of an array of dtype object. */
static int pointers_visit(walker *w, uint64_t at, uint64_t n, uint32_t depth)
{
    plim__pyitems it;
    uint64_t key, value;
    int reached = 0;
    if (!plim__pyitems_pointers(&it, &w->r, at, n) || items_dull(w, &it)) return 0;
    while (plim__pyitems_next(&it, &key, &value)) reached |= object_visit(w, value, depth, 0);
    return reached;
}

static int array_visit(walker *w, const plim__pyobject *o, uint32_t depth)
{
    plim__pyarray a;
    const bool torch = o->type->kind == PLIM__PY_TENSOR;
    const bool good = torch ? plim__pyarray_torch(&a, &w->r, &w->torch, o, w->block, w->n_blocks)
                            : plim__pyarray_numpy(&a, &w->r, o, w->block, w->n_blocks);
    if (!good) return 0;
    int reached = 0;
    for (uint32_t i = 0; i < a.n_data; i++) reached |= block_add(w, a.data[i], a.bytes);
    if (a.base && depth) reached |= object_visit(w, a.base, depth - 1, 0);
    if (a.objects && depth) reached |= pointers_visit(w, a.objects, a.bytes / 8, depth - 1);
    if (a.node) {
        reached |= REACHES_GRAPH;
        if (w->graphs && w->n_work < WORK) w->work[w->n_work++] = a.node;
        if (!w->t.grad_fn[0]) snprintf(w->t.grad_fn, sizeof w->t.grad_fn, "%s", a.grad_fn);
    }
    if (!reached) return 0;
    if (!a.objects) kind_add(&w->t, a.element);
    w->t.arrays += reached & REACHES_BLOCKS;
    return reached;
}

/* Where torch.nn.Module keeps its parts. */
static bool is_module_part(plim__pyreader *r, uint64_t key, char *name, size_t size)
{
    return plim__pystr_read(r, key, name, size) && (!strcmp(name, "_modules") || !strcmp(name, "_parameters") || !strcmp(name, "_buffers"));
}

static int items_visit(walker *w, const plim__pyobject *o, uint32_t depth, uint32_t nest, uint64_t *length, uint64_t *with)
{
    plim__pyitems it;
    uint64_t key, value;
    char name[64];
    int reached = 0;
    if (!plim__pyitems_open(&it, &w->r, o)) return 0;
    *length = it.length;
    if (it.table_bytes >= PLIM__REC_LARGE) reached |= block_add(w, it.table, it.table_bytes);
    if (items_dull(w, &it)) return reached;
    while (plim__pyitems_next(&it, &key, &value)) {
        const bool part = o->type->kind == PLIM__PY_INSTANCE && nest && is_module_part(&w->r, key, name, sizeof name);
        const int item = part ? object_visit(w, value, depth + 1, nest - 1) : depth ? object_visit(w, value, depth - 1, nest) : 0;
        reached |= item;
        *with += item & REACHES_BLOCKS;
    }
    return reached;
}

/* A dict of modules and the module in it are no level of their own: depth + 1 in, one off here, one off at its items. */
static int container_visit(walker *w, const plim__pyobject *o, uint32_t depth, uint32_t nest)
{
    uint64_t length, with = 0;
    seen *s = seen_at(w, o->address);
    if (!s) return 0;
    if (s->number == w->number) return REACHES_BLOCKS; /* met already: whatever led here again is not barren */
    if (s->barren > depth) return 0;
    s->number = w->number;
    s->barren = 0;
    const int reached = items_visit(w, o, depth, nest, &length, &with);
    if (!reached) s->barren = depth + 1;
    return reached;
}

static int object_visit(walker *w, uint64_t address, uint32_t depth, uint32_t nest)
{
    plim__pyobject o;
    if (!plim__pyobject_read(&w->r, address, &o)) return 0;
    switch (o.type->kind) {
    case PLIM__PY_LEAF: return 0;
    case PLIM__PY_STR:
    case PLIM__PY_BYTES:
    case PLIM__PY_BYTEARRAY: return text_visit(w, &o);
    case PLIM__PY_NDARRAY:
    case PLIM__PY_TENSOR: return array_visit(w, &o, depth);
    case PLIM__PY_CELL: return depth ? object_visit(w, o.word[2], depth - 1, nest) : 0;
    default: return container_visit(w, &o, depth, nest);
    }
}

/* -------------------------------------------------------------------------------------------------- variables */

static void found_add(walker *w, const char *name, const place *where, const plim__pyobject *o, uint64_t length, uint64_t with)
{
    if ((!w->t.bytes && !w->t.grad_fn[0]) || w->n_found == NAMES) return;
    for (uint32_t i = 0; i < w->n_found; i++) /* handed down from frame to frame under one name: the outermost counts */
        if (w->found[i].object == o->address && !strcmp(w->found[i].name.name.name, name)) return;
    found *f = &w->found[w->n_found];
    memset(f, 0, sizeof *f);
    snprintf(f->name.name.name, sizeof f->name.name.name, "%s", name);
    snprintf(f->name.name.where, sizeof f->name.name.where, "%s", where->text);
    snprintf(f->name.name.type, sizeof f->name.name.type, "%s", o->type->name);
    f->name.name.length = length;
    f->name.name.items = with;
    f->name.frame_globals = where->globals;
    f->object = o->address;
    f->order = w->n_found++;
    tally_finish(&w->t, &f->name);
}

static void variable_add(walker *w, const char *name, const place *where, uint64_t address, int narrow);

typedef struct attribute {
    char name[64];
    uint64_t value, bytes; /* that no attribute before it reaches */
    bool part, graph;
} attribute;

/* The attributes of an instance that reach anything. Tallies the whole. */
static uint32_t attributes_scan(walker *w, const plim__pyobject *o, attribute *out)
{
    plim__pyitems it;
    uint64_t key, value;
    uint32_t n = 0;
    if (!plim__pyitems_open(&it, &w->r, o)) return 0;
    while (n < ATTRIBUTES && plim__pyitems_next(&it, &key, &value)) {
        const uint64_t before = w->t.bytes;
        attribute *a = &out[n];
        a->part = is_module_part(&w->r, key, a->name, sizeof a->name);
        const int reached = object_visit(w, value, a->part ? DEPTH : DEPTH - 1, NEST);
        a->value = value;
        a->bytes = w->t.bytes - before;
        a->graph = reached & REACHES_GRAPH;
        n += reached != 0;
    }
    return n;
}

/* Attributes with an eighth of it, or a graph, have names of their own; where these are four fifths of it, it is not named itself. */
static void instance_add(walker *w, const char *name, const place *where, const plim__pyobject *o, int narrow)
{
    attribute part[ATTRIBUTES];
    const uint32_t n = attributes_scan(w, o, part);
    const uint64_t whole = w->t.bytes;
    uint64_t named = 0;
    bool graph = false;
    for (uint32_t i = 0; i < n; i++) {
        if (part[i].part || !part[i].name[0] || !narrow || (!part[i].graph && part[i].bytes < whole / 8 + 1)) {
            part[i].value = 0;
            continue;
        }
        named += part[i].bytes;
        graph |= part[i].graph;
    }
    if (graph) w->t.grad_fn[0] = 0;
    if (named < whole / 5 * 4 || !named || w->r.spent) found_add(w, name, where, o, 0, w->t.arrays);
    for (uint32_t i = 0; i < n; i++) {
        char longer[128];
        if (!part[i].value) continue;
        snprintf(longer, sizeof longer, "%.63s.%.63s", name, part[i].name);
        longer[sizeof part[i].name - 1] = 0;
        variable_add(w, longer, where, part[i].value, narrow - 1);
    }
}

static void variable_add(walker *w, const char *name, const place *where, uint64_t address, int narrow)
{
    plim__pyobject o;
    uint64_t length = 0, with = 0;
    if (!plim__pyobject_read(&w->r, address, &o)) return;
    tally_start(w);
    if (o.type->kind == PLIM__PY_CELL) {
        if (narrow) variable_add(w, name, where, o.word[2], narrow - 1);
    } else if (o.type->kind == PLIM__PY_INSTANCE) {
        instance_add(w, name, where, &o, narrow);
    } else if (o.type->kind >= PLIM__PY_LIST && o.type->kind <= PLIM__PY_DEQUE) {
        items_visit(w, &o, DEPTH, NEST, &length, &with);
        found_add(w, name, where, &o, length, with);
    } else {
        object_visit(w, address, DEPTH, NEST);
        found_add(w, name, where, &o, 0, 1);
    }
}

/* A variable, within its share of time and objects. */
static void variable_try(walker *w, const char *name, const place *where, uint64_t address)
{
    const uint64_t left = w->r.left, deadline = w->r.deadline_ns, share = left < SHARE ? left : SHARE;
    w->r.left = share;
    plim__pyreader_hurry(&w->r, SHARE_MS);
    variable_add(w, name, where, address, NARROW);
    w->r.spent = false;
    w->r.deadline_ns = deadline;
    w->r.left = left - (share - w->r.left);
}

/* Names that the interpreter makes: "__builtins__", ".0". */
static bool is_hidden(const char *name)
{
    return name[0] == '.' || !name[0] || (name[0] == '_' && name[1] == '_');
}

static void globals_add(walker *w, uint64_t dict, const char *module)
{
    plim__pyobject o;
    plim__pyitems it;
    uint64_t key, value;
    char name[64];
    place where = {.globals = dict};
    if (!plim__pyobject_read(&w->r, dict, &o) || o.type->kind != PLIM__PY_DICT || !plim__pyitems_open(&it, &w->r, &o)) return;
    if (!strcmp(module, "__main__"))
        snprintf(where.text, sizeof where.text, "module globals");
    else
        snprintf(where.text, sizeof where.text, "globals of %.48s", module);
    while (plim__pyitems_next(&it, &key, &value))
        if (plim__pystr_read(&w->r, key, name, sizeof name) && !is_hidden(name)) variable_try(w, name, &where, value);
}

static void locals_add(walker *w, const plim__pyframe *f)
{
    char name[64];
    place where = {.globals = 0};
    snprintf(where.text, sizeof where.text, "local of %.50s()", f->function);
    for (uint32_t i = 0; i < f->n_locals; i++)
        if (f->value[i] && plim__pystr_read(&w->r, f->name[i], name, sizeof name) && !is_hidden(name)) variable_try(w, name, &where, f->value[i]);
}

/* ---------------------------------------------------------------------------------------------------- threads */

typedef struct modules {
    uint64_t dict[MODULES];
    uint32_t n;
} modules;

static void module_note(modules *m, uint64_t dict)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->dict[i] == dict) return;
    if (m->n < MODULES) m->dict[m->n++] = dict;
}

/* The frames of all threads, a thread's outermost first: those are the program's own, further in are libraries. */
static uint32_t frames_collect(walker *w, uint64_t thread_state, modules *m)
{
    uint64_t thread[THREADS];
    const uint32_t n_threads = plim__pythreads(&w->r, thread_state, thread, THREADS);
    uint32_t n = 0;
    plim__pyframe f;
    for (uint32_t i = 0; i < n_threads; i++) {
        const uint32_t first = n;
        bool ok;
        for (uint64_t at = plim__pyframe_first(&w->r, thread[i]), out; at && n < FRAMES; at = out) {
            out = plim__pyframe_read(&w->r, at, &f, &ok);
            if (!ok) continue;
            w->frame[n++] = at;
            module_note(m, f.globals);
        }
        for (uint32_t a = first, b = n; a + 1 < b; a++) {
            const uint64_t swap = w->frame[a];
            w->frame[a] = w->frame[--b];
            w->frame[b] = swap;
        }
    }
    return n;
}

static void all_add(walker *w, uint64_t thread_state)
{
    modules m = {.n = 0};
    char name[MODULES][64];
    const uint32_t n_frames = frames_collect(w, thread_state, &m);
    for (uint32_t i = 0; i < m.n; i++) {
        if (!plim__pystr_read(&w->r, plim__pydict_find(&w->r, m.dict[i], "__name__"), name[i], sizeof name[i])) continue;
        if (!strcmp(name[i], "__main__")) globals_add(w, m.dict[i], name[i]);
    }
    for (uint32_t i = 0; i < n_frames; i++) {
        plim__pyframe f;
        bool ok;
        plim__pyframe_read(&w->r, w->frame[i], &f, &ok);
        if (ok) locals_add(w, &f);
    }
    for (uint32_t i = 0; i < m.n; i++)
        if (name[i][0] && strcmp(name[i], "__main__")) globals_add(w, m.dict[i], name[i]);
}

/* ----------------------------------------------------------------------------------------------------- graphs */

/* Follows the graph from the nodes noted. A chain may be as long as the program ran: no recursion. Parameters are saved too (or views of them, such
 * as transposed weights), but the graph is not what keeps them alive: blocks of its leaves do not count. */
static void graph_walk(walker *w)
{
    plim__pynode node;
    memset(w->in_graph, 0, w->n_blocks);
    while (w->n_work && !w->r.spent) {
        seen *s = seen_at(w, w->work[--w->n_work]);
        if (!s || s->number == w->number) continue;
        s->number = w->number;
        if (!plim__pynode_read(&node, &w->r, &w->torch, s->address, w->block, w->n_blocks)) continue;
        for (uint32_t i = 0; i < node.n_data; i++) {
            const plim__block *b = plim__block_at(w->block, w->n_blocks, node.data[i]);
            if (b) w->in_graph[b - w->block] |= node.leaf ? LEAF : SAVED;
        }
        for (uint32_t i = 0; i < node.n_next && w->n_work < WORK; i++) w->work[w->n_work++] = node.next[i];
    }
    for (uint32_t i = 0; i < w->n_blocks; i++)
        if (w->in_graph[i] == SAVED) block_add(w, w->block[i].address, w->block[i].bytes);
}

/* The second round: what variables that hold a graph keep alive through it. */
static void graphs_add(walker *w)
{
    if (!(atomic_load(&w->process->flags) & PLIM__REC_GLIBC)) return;
    plim__pyreader_again(&w->r, GRAPH_MS, OBJECTS);
    w->graphs = true;
    for (uint32_t i = 0; i < w->n_found; i++) {
        found *f = &w->found[i];
        if (!f->name.name.grad_fn[0]) continue;
        const uint64_t deadline = w->r.deadline_ns;
        plim__pyreader_hurry(&w->r, GRAPH_SHARE_MS);
        tally_start(w);
        w->n_work = 0;
        object_visit(w, f->object, DEPTH, NEST);
        const uint64_t before = w->t.bytes;
        graph_walk(w);
        w->r.spent = false;
        w->r.deadline_ns = deadline;
        if (w->t.bytes <= f->name.name.bytes) continue;
        f->name.graph_bytes = w->t.bytes - before;
        tally_finish(&w->t, &f->name);
    }
}

static int by_bytes(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->name.name.bytes != y->name.name.bytes) return x->name.name.bytes > y->name.name.bytes ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

uint32_t plim__pynames_find(plim__pyname *out, uint32_t max, const plim__rec_process *process, uint64_t thread_state, const plim__block *block,
                            uint32_t n_blocks)
{
    const plim__alloc a = {0};
    uint32_t n = 0;
    if (!thread_state) thread_state = atomic_load(&process->python_thread_state);
    if (!process->python_version || !thread_state) return 0;
    walker *w = plim__new(&a, 1, sizeof *w, NULL);
    uint32_t *mark = plim__new(&a, n_blocks, sizeof *mark, NULL);
    uint8_t *in_graph = plim__new(&a, n_blocks, sizeof *in_graph, NULL);
    if (w && mark && in_graph && plim__pyreader_init(&w->r, process, TIME_MS, OBJECTS)) {
        w->process = process;
        w->block = block;
        w->n_blocks = n_blocks;
        w->mark = mark;
        w->in_graph = in_graph;
        all_add(w, thread_state);
        graphs_add(w);
        qsort(w->found, w->n_found, sizeof *w->found, by_bytes);
        for (; n < w->n_found && n < max; n++) out[n] = w->found[n].name;
    }
    plim__free(&a, in_graph);
    plim__free(&a, mark);
    plim__free(&a, w);
    return n;
}
