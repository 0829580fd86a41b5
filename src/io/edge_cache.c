/* Blocks of a file that writers have covered only in part: see edge_cache.h.
 *
 * Memory of a cache of n blocks, one piece:
 *
 *     [ data of block 0 ] ... [ data of block n-1 ] [ cache ] [ block 0 ] ... [ block n-1 ] [ buckets ]
 *        4096 bytes each, aligned for direct I/O
 *
 * Coverage is one bit per byte: pieces may overlap, so counting bytes would be wrong. Lookup is a hash table with chains, age a doubly linked
 * list; both hold indices. Put costs one lookup and one copy under the lock; all transfers are done outside of it. */
#include "io/edge_cache.h"
#include "core/size.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define BLOCK PLIM__EDGE_BLOCK
#define NONE PLIM__EDGE_NONE
#define WORDS (BLOCK / 64)
#define TRIES 8 /* transfers of one block that may make no progress */

typedef enum block_state { BLOCK_FREE, BLOCK_OPEN, BLOCK_BUSY } block_state;

typedef struct edge_block {
    uint64_t number; /* byte offset in the file / BLOCK */
    int fd;
    block_state state;
    uint32_t chain;        /* next in the bucket, or in the free list */
    uint32_t older, newer; /* by age, OPEN blocks only */
    uint32_t covered;
    const char *path;
    uint64_t mask[WORDS]; /* bit b: byte b has come */
} edge_block;

struct plim__edge_cache {
    const plim__os *os;
    pthread_mutex_t lock;
    pthread_cond_t changed;   /* a BUSY block became FREE, or a claim ended */
    plim__edge_claim *claims; /* linked list */
    uint32_t n, n_used, n_buckets;
    uint32_t free, oldest, newest;
    edge_block *block;
    uint32_t *bucket;
    uint8_t *data;
    _Atomic uint64_t read, written;
};

/* ------------------------------------------------------------------------------------------------------ memory */

static uint32_t bucket_count(uint32_t blocks)
{
    uint32_t n = 16;
    while (n < blocks && n < 1u << 30) n *= 2;
    return n;
}

uint64_t plim__edge_bytes(uint32_t blocks)
{
    const uint64_t tables = sizeof(plim__edge_cache) + (uint64_t)blocks * sizeof(edge_block) + bucket_count(blocks) * sizeof(uint32_t);
    return (uint64_t)blocks * BLOCK + plim__round_up(tables, BLOCK);
}

plim_status plim__edge_init(plim__edge_cache **out, void *memory, uint32_t blocks, const plim__os *os, plim_error *err)
{
    *out = NULL;
    PLIM_FAIL_IF(blocks == 0, err, PLIM_E_INVALID, "an edge cache needs at least one block");
    plim__edge_cache *c = (plim__edge_cache *)((uint8_t *)memory + (uint64_t)blocks * BLOCK);
    memset(c, 0, sizeof *c);
    c->os = os;
    c->n = blocks;
    c->n_buckets = bucket_count(blocks);
    c->data = memory;
    c->block = (edge_block *)(c + 1);
    c->bucket = (uint32_t *)(c->block + blocks);
    memset(c->bucket, 0xff, c->n_buckets * sizeof *c->bucket);
    memset(c->block, 0, blocks * sizeof *c->block);
    for (uint32_t i = 0; i < blocks; i++) c->block[i].chain = i + 1 < blocks ? i + 1 : NONE;
    c->oldest = c->newest = NONE;
    PLIM_ASSERT((uintptr_t)memory % BLOCK == 0 && (c->n_buckets & (c->n_buckets - 1)) == 0);
    PLIM_ASSERT((uint8_t *)(c->bucket + c->n_buckets) <= (uint8_t *)memory + plim__edge_bytes(blocks)); /* what was asked for is enough */
    PLIM_FAIL_IF(pthread_mutex_init(&c->lock, NULL) != 0, err, PLIM_E_NOMEM, "cannot make a mutex");
    if (pthread_cond_init(&c->changed, NULL) != 0) {
        pthread_mutex_destroy(&c->lock);
        return plim__fail(err, PLIM_E_NOMEM, "cannot make a condition variable");
    }
    *out = c;
    return PLIM_OK;
}

void plim__edge_destroy(plim__edge_cache *c)
{
    if (!c) return;
    PLIM_ASSERT(!c->claims); /* they lie on stacks of threads that have ended */
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

/* ---------------------------------------------------------------------------- tables: the lock is held in all of these */

static uint32_t *bucket_of(const plim__edge_cache *c, int fd, uint64_t number)
{
    uint64_t h = (number ^ (uint64_t)(uint32_t)fd << 48) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    return &c->bucket[h & (c->n_buckets - 1)];
}

static uint32_t find(const plim__edge_cache *c, int fd, uint64_t number)
{
    uint32_t i = *bucket_of(c, fd, number);
    while (i != NONE && (c->block[i].number != number || c->block[i].fd != fd)) i = c->block[i].chain;
    return i;
}

static void age_unlink(plim__edge_cache *c, uint32_t i)
{
    const edge_block *b = &c->block[i];
    PLIM_ASSERT((b->older == NONE) == (c->oldest == i) && (b->newer == NONE) == (c->newest == i));
    *(b->older == NONE ? &c->oldest : &c->block[b->older].newer) = b->newer;
    *(b->newer == NONE ? &c->newest : &c->block[b->newer].older) = b->older;
}

static uint32_t block_open(plim__edge_cache *c, int fd, const char *path, uint64_t number)
{
    const uint32_t i = c->free;
    edge_block *b = &c->block[i];
    PLIM_ASSERT(i != NONE && b->state == BLOCK_FREE);
    c->free = b->chain;
    c->n_used++;
    uint32_t *head = bucket_of(c, fd, number);
    *b = (edge_block){.number = number, .fd = fd, .state = BLOCK_OPEN, .chain = *head, .older = c->newest, .newer = NONE, .path = path};
    *head = i;
    *(c->newest == NONE ? &c->oldest : &c->block[c->newest].newer) = i;
    c->newest = i;
    return i;
}

static void block_busy(plim__edge_cache *c, uint32_t i)
{
    PLIM_ASSERT(c->block[i].state == BLOCK_OPEN);
    age_unlink(c, i);
    c->block[i].state = BLOCK_BUSY;
}

static void block_release(plim__edge_cache *c, uint32_t i)
{
    edge_block *b = &c->block[i];
    PLIM_ASSERT(b->state == BLOCK_BUSY);
    uint32_t *link = bucket_of(c, b->fd, b->number);
    while (*link != i) link = &c->block[*link].chain;
    *link = b->chain;
    b->state = BLOCK_FREE;
    b->chain = c->free;
    c->free = i;
    c->n_used--;
}

static void cover(edge_block *b, uint64_t lo, uint64_t n)
{
    for (uint64_t at = lo, end = lo + n; at < end;) {
        const uint64_t bit = at % 64, len = end - at < 64 - bit ? end - at : 64 - bit;
        const uint64_t bits = (len == 64 ? UINT64_MAX : ((uint64_t)1 << len) - 1) << bit;
        b->covered += (uint32_t)__builtin_popcountll(bits & ~b->mask[at / 64]);
        b->mask[at / 64] |= bits;
        at += len;
    }
    PLIM_ASSERT(b->covered > 0 && b->covered <= BLOCK); /* bytes that come twice count once */
}

/* ------------------------------------------------------------------------------- transfers: the lock is not held */

/* Whole blocks; what lies beyond the end of the file reads as zeros. A count that ends inside a block is asked for again from that
 * block's start: direct I/O cannot go on in the middle. The same count twice means that the file ends there. */
static plim_status read_blocks(plim__edge_cache *c, const edge_block *b, uint8_t *dst, uint64_t off, uint64_t n, plim_error *err)
{
    uint64_t done = 0, last = UINT64_MAX;
    while (done < n) {
        const int64_t got = c->os->pread(c->os->self, b->fd, dst + done, n - done, off + done);
        if (got < 0) return plim__os_fail((int)got, "read", b->path, off + done, err);
        atomic_fetch_add_explicit(&c->read, (uint64_t)got, memory_order_relaxed);
        const uint64_t end = done + (uint64_t)got;
        if (got == 0 || end == last) {
            memset(dst + end, 0, n - end);
            return PLIM_OK;
        }
        last = end;
        done = end == n ? n : plim__round_down(end, BLOCK);
    }
    return PLIM_OK;
}

static plim_status write_blocks(plim__edge_cache *c, const edge_block *b, const uint8_t *src, uint64_t off, uint64_t n, plim_error *err)
{
    uint64_t done = 0;
    for (int idle = 0; done < n;) {
        const int64_t got = c->os->pwrite(c->os->self, b->fd, src + done, n - done, off + done);
        if (got < 0) return plim__os_fail((int)got, "write", b->path, off + done, err);
        const uint64_t step = plim__round_down((uint64_t)got, BLOCK);
        idle = step ? 0 : idle + 1;
        if (idle == TRIES) return plim__os_fail(-EIO, "write", b->path, off + done, err);
        done += step;
    }
    atomic_fetch_add_explicit(&c->written, n, memory_order_relaxed);
    return PLIM_OK;
}

/* Copies the bytes of b that have come over those in dst. */
static void merge(uint8_t *dst, const edge_block *b, const uint8_t *data)
{
    for (uint32_t w = 0; w < WORDS; w++) {
        if (b->mask[w] == UINT64_MAX) {
            memcpy(dst + w * 64, data + w * 64, 64);
            continue;
        }
        for (uint64_t bits = b->mask[w]; bits; bits &= bits - 1) {
            const uint32_t at = w * 64 + (uint32_t)__builtin_ctzll(bits);
            dst[at] = data[at];
        }
    }
}

/* ----------------------------------------------------------------------------------------------------- writing out */

/* Takes the OPEN block `i` and the OPEN blocks beside it in the file, as many as the scratch holds. @return how many; *first is the lowest */
static uint64_t group_take(plim__edge_cache *c, uint32_t i, uint64_t max, uint64_t *first)
{
    const int fd = c->block[i].fd;
    uint64_t lo = c->block[i].number, hi = lo + 1;
    block_busy(c, i);
    for (uint32_t j; hi - lo < max && lo > 0 && (j = find(c, fd, lo - 1)) != NONE && c->block[j].state == BLOCK_OPEN; lo--) block_busy(c, j);
    for (uint32_t j; hi - lo < max && (j = find(c, fd, hi)) != NONE && c->block[j].state == BLOCK_OPEN; hi++) block_busy(c, j);
    *first = lo;
    return hi - lo;
}

/* Reads, merges and writes the group around OPEN block i. Called and left with the lock held; gives it up meanwhile. */
static plim_status group_write(plim__edge_cache *c, uint32_t i, plim__edge_scratch scratch, plim_error *err)
{
    uint64_t first;
    const int fd = c->block[i].fd;
    PLIM_ASSERT(scratch.bytes >= BLOCK && (uintptr_t)scratch.data % BLOCK == 0);
    const uint64_t n = group_take(c, i, scratch.bytes / BLOCK, &first);
    pthread_mutex_unlock(&c->lock);

    const edge_block *of = &c->block[i];
    plim_status status = read_blocks(c, of, scratch.data, first * BLOCK, n * BLOCK, err);
    if (status == PLIM_OK) {
        for (uint64_t k = 0; k < n; k++) {
            pthread_mutex_lock(&c->lock);
            const uint32_t j = find(c, fd, first + k);
            pthread_mutex_unlock(&c->lock);
            PLIM_ASSERT(j != NONE && c->block[j].state == BLOCK_BUSY); /* nobody else takes a block that we hold */
            merge(scratch.data + k * BLOCK, &c->block[j], c->data + (uint64_t)j * BLOCK);
        }
        status = write_blocks(c, of, scratch.data, first * BLOCK, n * BLOCK, err);
    }

    pthread_mutex_lock(&c->lock);
    for (uint64_t k = 0; k < n; k++) block_release(c, find(c, fd, first + k));
    pthread_cond_broadcast(&c->changed);
    return status;
}

static bool is_claimed(const plim__edge_cache *c, int fd, uint64_t number)
{
    for (const plim__edge_claim *x = c->claims; x; x = x->next)
        if (x->fd == fd && number >= x->first && number < x->end) return true;
    return false;
}

/* The OPEN block for `number`, made if need be. Called and left with the lock held. */
static plim_status block_get(plim__edge_cache *c, int fd, const char *path, uint64_t number, plim__edge_scratch scratch, uint32_t *out,
                             plim_error *err)
{
    for (;;) {
        if (is_claimed(c, fd, number)) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        const uint32_t i = find(c, fd, number);
        if (i != NONE && c->block[i].state == BLOCK_OPEN) {
            *out = i;
            return PLIM_OK;
        }
        if (i == NONE && c->free != NONE) {
            *out = block_open(c, fd, path, number);
            return PLIM_OK;
        }
        /* What may have changed while the lock was away is looked up again. */
        if (i == NONE && c->oldest != NONE)
            PLIM_TRY(group_write(c, c->oldest, scratch, err));
        else
            pthread_cond_wait(&c->changed, &c->lock);
    }
}

/* Adds the bytes; a block that they complete becomes BUSY and *held. */
static plim_status add(plim__edge_cache *c, int fd, const char *path, uint64_t off, const uint8_t *src, uint64_t n, uint32_t *held,
                       plim__edge_scratch scratch, plim_error *err)
{
    uint32_t i;
    const uint64_t at = off % BLOCK;
    PLIM_ASSERT(n > 0 && at + n <= BLOCK && scratch.bytes >= BLOCK);
    *held = NONE;
    pthread_mutex_lock(&c->lock);
    const plim_status status = block_get(c, fd, path, off / BLOCK, scratch, &i, err);
    if (status == PLIM_OK) {
        memcpy(c->data + (uint64_t)i * BLOCK + at, src, n);
        cover(&c->block[i], at, n);
        if (c->block[i].covered == BLOCK) {
            block_busy(c, i);
            *held = i;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

void plim__edge_release(plim__edge_cache *c, uint32_t held)
{
    if (held == NONE) return;
    pthread_mutex_lock(&c->lock);
    PLIM_ASSERT(c->block[held].covered == BLOCK); /* only whole blocks are held beyond a call */
    block_release(c, held);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

plim_status plim__edge_put(plim__edge_cache *c, int fd, const char *path, uint64_t off, const uint8_t *src, uint64_t n,
                           plim__edge_scratch scratch, plim_error *err)
{
    uint32_t held;
    plim_status status = add(c, fd, path, off, src, n, &held, scratch, err);
    if (held != NONE) {
        const edge_block *b = &c->block[held];
        status = write_blocks(c, b, c->data + (uint64_t)held * BLOCK, b->number * BLOCK, BLOCK, err);
        plim__edge_release(c, held);
    }
    return status;
}

plim_status plim__edge_join(plim__edge_cache *c, int fd, const char *path, uint64_t off, const uint8_t *src, uint64_t n, uint8_t *dst,
                            uint32_t *held, plim__edge_scratch scratch, plim_error *err)
{
    PLIM_TRY(add(c, fd, path, off, src, n, held, scratch, err));
    if (*held != NONE) memcpy(dst, c->data + (uint64_t)*held * BLOCK, BLOCK);
    return PLIM_OK;
}

/* Any block of fd with a number in [lo, hi). Looks up each number or walks all blocks, whichever is less. */
static uint32_t find_in(const plim__edge_cache *c, int fd, uint64_t lo, uint64_t hi)
{
    if (c->n_used == 0) return NONE;
    if (hi - lo <= c->n) {
        for (uint64_t k = lo; k < hi; k++) {
            const uint32_t i = find(c, fd, k);
            if (i != NONE) return i;
        }
        return NONE;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        const edge_block *b = &c->block[i];
        if (b->state != BLOCK_FREE && b->fd == fd && b->number >= lo && b->number < hi) return i;
    }
    return NONE;
}

plim_status plim__edge_settle(plim__edge_cache *c, int fd, uint64_t lo, uint64_t hi, plim__edge_scratch scratch, plim_error *err)
{
    plim_status status = PLIM_OK;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i; status == PLIM_OK && (i = find_in(c, fd, lo / BLOCK, plim__round_up(hi, BLOCK) / BLOCK)) != NONE;) {
        if (c->block[i].state == BLOCK_OPEN)
            status = group_write(c, i, scratch, err);
        else
            pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

void plim__edge_claim_blocks(plim__edge_cache *c, plim__edge_claim *claim, int fd, uint64_t lo, uint64_t hi)
{
    PLIM_ASSERT(lo % BLOCK == 0 && hi % BLOCK == 0);
    pthread_mutex_lock(&c->lock);
    for (uint32_t i; (i = find_in(c, fd, lo / BLOCK, hi / BLOCK)) != NONE;) {
        if (c->block[i].state == BLOCK_OPEN) {
            block_busy(c, i);
            block_release(c, i);
            pthread_cond_broadcast(&c->changed);
        } else {
            pthread_cond_wait(&c->changed, &c->lock);
        }
    }
    *claim = (plim__edge_claim){.fd = fd, .first = lo / BLOCK, .end = hi / BLOCK, .next = c->claims};
    c->claims = claim;
    pthread_mutex_unlock(&c->lock);
}

void plim__edge_unclaim(plim__edge_cache *c, plim__edge_claim *claim)
{
    pthread_mutex_lock(&c->lock);
    plim__edge_claim **at = &c->claims;
    while (*at != claim) at = &(*at)->next;
    *at = claim->next;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

plim_status plim__edge_flush(plim__edge_cache *c, plim__edge_scratch scratch, plim_error *err)
{
    plim_status status = PLIM_OK;
    pthread_mutex_lock(&c->lock);
    while (status == PLIM_OK && c->oldest != NONE) status = group_write(c, c->oldest, scratch, err);
    pthread_mutex_unlock(&c->lock);
    return status;
}

void plim__edge_counts(const plim__edge_cache *c, uint64_t *read, uint64_t *written)
{
    *read = atomic_load_explicit(&c->read, memory_order_relaxed);
    *written = atomic_load_explicit(&c->written, memory_order_relaxed);
}
