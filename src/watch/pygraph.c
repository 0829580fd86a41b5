/* See pygraph.h. What classes of nodes save, and where, differs by class and version; so a node's memory is searched: for pointers to tensors
 * (objects with the vtable of a TensorImpl), and once for the vector of edges, which every node has at the same place.
 *
 *   Edge   shared_ptr<Node> (16 bytes) | number of the input (4, padded to 8) */
#include "watch/pygraph.h"

#include "watch/peer.h"

#include <string.h>
#include <sys/uio.h>

enum { NODE_WORDS = 256, EDGE_WORDS = 3, EDGES_FROM = 4, EDGES_TO = 32 };

/* How long a node is, by glibc's word before its block. A node made together with its shared_ptr's counters (16 bytes) comes after those, and
 * then the word just before it is the counters: two small numbers. 0: neither can be. */
static uint64_t node_words(plim__pyreader *r, uint64_t node)
{
    uint64_t word[3];
    if (!plim__peer_read(r->pid, node - 24, word, sizeof word)) return 0;
    const bool together = (word[2] >> 32) != 0;
    const uint64_t chunk = together ? word[0] : word[2], bytes = chunk & ~UINT64_C(15), head = together ? 24 : 8;
    if (chunk & 10 || bytes < 96 || bytes > NODE_WORDS * 8) return 0;
    return (bytes - head) / 8;
}

static bool is_node(plim__pyreader *r, uint64_t address)
{
    char name[48];
    return address >= 4096 && address % 8 == 0 && plim__pynode_name(r, address, name, sizeof name);
}

/* A vector of edges: its beginning, end and end of room. @return how many edges, 0: it is none */
static uint64_t edges_count(const uint64_t *vector)
{
    const uint64_t bytes = vector[1] - vector[0];
    if (vector[0] < 4096 || vector[0] % 8 || vector[0] >= vector[1] || vector[1] > vector[2] || bytes % (EDGE_WORDS * 8)) return 0;
    return bytes / (EDGE_WORDS * 8) <= PLIM__PY_EDGES ? bytes / (EDGE_WORDS * 8) : PLIM__PY_EDGES;
}

static void edges_read(plim__pynode *out, plim__pyreader *r, const uint64_t *vector)
{
    uint64_t edge[PLIM__PY_EDGES * EDGE_WORDS];
    const uint64_t n = edges_count(vector);
    out->n_next = 0;
    if (!n || !plim__peer_read(r->pid, vector[0], edge, n * EDGE_WORDS * 8)) return;
    for (uint64_t i = 0; i < n; i++)
        if (edge[i * EDGE_WORDS]) out->next[out->n_next++] = edge[i * EDGE_WORDS];
}

/* Learns where nodes keep their edges: the first vector whose edges all lead to nodes. */
static void edges_learn(plim__pyreader *r, plim__pytorch *torch, const uint64_t *word, uint64_t n)
{
    plim__pynode node;
    for (uint32_t i = EDGES_FROM; i + 2 < n && i < EDGES_TO && !torch->edges; i++) {
        if (!edges_count(word + i)) continue;
        edges_read(&node, r, word + i);
        bool all = node.n_next > 0;
        for (uint32_t k = 0; k < node.n_next && all; k++) all = is_node(r, node.next[k]);
        if (all) torch->edges = i;
    }
}

/* Whether objects of this class are nodes; and those at which a graph ends. */
static bool class_find(plim__pyreader *r, plim__pytorch *torch, uint64_t node, uint64_t vtable, bool *leaf)
{
    char name[48];
    for (uint32_t i = 0; i < torch->n_classes; i++)
        if (torch->node_class[i].vtable == vtable) return *leaf = torch->node_class[i].leaf, true;
    if (!plim__pynode_name(r, node, name, sizeof name)) return false;
    *leaf = !strcmp(name, "AccumulateGrad");
    if (torch->n_classes < PLIM__PY_CLASSES) {
        torch->node_class[torch->n_classes].leaf = *leaf;
        torch->node_class[torch->n_classes++].vtable = vtable;
    }
    return true;
}

/* The first word at each address, 0 where there is none: many at once, for it is asked of every word of every node. */
static void words_probe(int pid, const uint64_t *address, uint64_t *out, size_t n)
{
    struct iovec from[NODE_WORDS];
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < n; i++) from[i] = (struct iovec){(void *)(uintptr_t)address[i], sizeof *out};
    for (size_t i = 0; i < n; i++) { /* it stops at the first that cannot be read: go on after it */
        const struct iovec to = {out + i, (n - i) * sizeof *out};
        const ssize_t got = process_vm_readv(pid, &to, 1, from + i, n - i, 0);
        if (got > 0) i += (size_t)got / sizeof *out;
    }
}

/* The tensors that the node's memory points at; of a leaf only the one that it is for, since what is searched may hold remains of other pointers. */
static void saved_read(plim__pynode *out, plim__pyreader *r, const plim__pytorch *torch, uint64_t node, const uint64_t *word, uint64_t n,
                       const plim__block *block, uint32_t n_blocks)
{
    const uint64_t accumulator = out->leaf ? node : 0;
    uint64_t candidate[NODE_WORDS], first[NODE_WORDS];
    size_t count = 0;
    for (uint64_t i = EDGES_FROM; i < n; i++)
        if (word[i] >= 1 << 16 && word[i] % 16 == 0 && word[i] >> 47 == 0) candidate[count++] = word[i];
    words_probe(r->pid, candidate, first, count);
    for (size_t i = 0; i < count && out->n_data < PLIM__PY_SAVED; i++)
        if (first[i] == torch->vtable)
            out->n_data += plim__pytensor_data(r, torch, candidate[i], accumulator, block, n_blocks, &out->data[out->n_data]);
}

bool plim__pynode_read(plim__pynode *out, plim__pyreader *r, plim__pytorch *torch, uint64_t address, const plim__block *block, uint32_t n_blocks)
{
    uint64_t word[NODE_WORDS];
    memset(out, 0, sizeof *out);
    if (address < 4096 || address % 8 || !torch->back || plim__pyreader_spent(r)) return false;
    r->left--;
    const uint64_t n = node_words(r, address);
    if (!n || !plim__peer_read(r->pid, address, word, n * 8) || !class_find(r, torch, address, word[0], &out->leaf)) return false;
    if (!torch->edges) edges_learn(r, torch, word, n);
    if (torch->edges && torch->edges + 2 < n) edges_read(out, r, word + torch->edges);
    saved_read(out, r, torch, address, word, n, block, n_blocks);
    return true;
}
