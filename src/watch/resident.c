/* Pages in memory, by /proc/PID/pagemap.
 *
 * Newer kernels list the ranges of a process that are present (PAGEMAP_SCAN, Linux 6.7) and can leave out the page of zeros, which all untouched
 * memory that was only read shares and which costs nothing. Otherwise there is one word of 8 bytes for each page, bit 63 set where it is
 * present, zeros or not.
 *
 * Words cost about 30 ns a page that is there and 7 ns one that is not: 10 GiB in use take 80 ms; ranges cost less. Where there are more pages
 * than may be looked at, each block gets its share of them, in runs of RUN pages that lie evenly over it. Runs and not single pages: many cost
 * hardly more than one, and a pattern that repeats every few pages (every third touched) cannot fall in step with them. Nothing is allocated;
 * safe from any thread. */
#include "watch/resident.h"

#include "core/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BATCH = 4096, RUN = 64, REGIONS = 1024 }; /* BATCH: words of one read */

#define PRESENT ((uint64_t)1 << 63)

/* As linux/fs.h has them since 6.7; older headers do not. */
typedef struct scan_region {
    uint64_t start, end, categories;
} scan_region;

typedef struct scan_request {
    uint64_t size, flags, start, end, walk_end, regions, regions_max, pages_max, inverted, all_of, any_of, returned;
} scan_request;

enum { SCAN_PRESENT = 1 << 3, SCAN_ZERO = 1 << 5 };
#define SCAN _IOWR('f', 16, scan_request)

typedef struct pagemap {
    int fd;
    uint64_t page; /* bytes */
    bool scans;    /* the kernel lists ranges */
    union {
        uint64_t word[BATCH];
        scan_region region[REGIONS];
    };
} pagemap;

/* The words of pages [first, first + n), n at most BATCH. False when the process is gone or no such addresses exist. */
static bool words_read(pagemap *m, uint64_t first, uint64_t n)
{
    const uint64_t bytes = n * sizeof *m->word;
    uint64_t have = 0;
    while (have < bytes) {
        const ssize_t got = pread(m->fd, (char *)m->word + have, bytes - have, (off_t)(first * sizeof *m->word + have));
        if (got <= 0 && !(got < 0 && errno == EINTR)) return false;
        if (got > 0) have += (uint64_t)got;
    }
    return true;
}

/* Bytes of the block that lie in [from, to). */
static uint64_t overlap(const plim__block *b, uint64_t from, uint64_t to)
{
    const uint64_t end = b->address + b->bytes, lo = from > b->address ? from : b->address, hi = to < end ? to : end;
    return hi > lo ? hi - lo : 0;
}

static bool words_look(pagemap *m, const plim__block *b, uint64_t first, uint64_t n, uint64_t *present)
{
    for (uint64_t at = 0; at < n; at += BATCH) {
        const uint64_t some = n - at < BATCH ? n - at : BATCH;
        if (!words_read(m, first + at, some)) return false;
        for (uint64_t i = 0; i < some; i++) {
            const uint64_t page = (first + at + i) * m->page;
            if (m->word[i] & PRESENT) *present += overlap(b, page, page + m->page);
        }
    }
    return true;
}

static bool scan_look(pagemap *m, const plim__block *b, uint64_t first, uint64_t n, uint64_t *present)
{
    scan_request r = {.size = sizeof r, .start = first * m->page, .end = (first + n) * m->page};
    r.regions = (uintptr_t)m->region;
    r.regions_max = REGIONS;
    r.all_of = SCAN_PRESENT | SCAN_ZERO;
    r.inverted = SCAN_ZERO;
    r.returned = SCAN_PRESENT;
    while (r.start < r.end) {
        const int found = ioctl(m->fd, SCAN, &r);
        if (found < 0 && errno == EINTR) continue;
        if (found < 0 || found > REGIONS || r.walk_end <= r.start) return false;
        for (int i = 0; i < found; i++) *present += overlap(b, m->region[i].start, m->region[i].end);
        r.start = r.walk_end;
    }
    return true;
}

/* Adds up the bytes of the block that are present in pages [first, first + n), and those looked at. */
static bool range_look(pagemap *m, const plim__block *b, uint64_t first, uint64_t n, uint64_t *present, uint64_t *looked)
{
    *looked += overlap(b, first * m->page, (first + n) * m->page);
    const uint64_t before = *present;
    if (m->scans && scan_look(m, b, first, n, present)) return true;
    m->scans = false;
    *present = before;
    return words_look(m, b, first, n, present);
}

static uint64_t first_page(const pagemap *m, const plim__block *b)
{
    return b->address / m->page;
}

/* How many pages the block touches; 0 for one that cannot be (it ends beyond the address space of programs). */
static uint64_t page_count(const pagemap *m, const plim__block *b)
{
    uint64_t end;
    if (!b->bytes || !plim__add(&end, b->address, b->bytes) || end > (uint64_t)INT64_MAX) return 0;
    return (end - 1) / m->page - first_page(m, b) + 1;
}

/* Looks at about `share` of the block's pages; at all of them when it is as many. */
static bool block_look(pagemap *m, plim__block *b, uint64_t share)
{
    const uint64_t first = first_page(m, b), pages = page_count(m, b);
    uint64_t present = 0, looked = 0;
    const bool all = share >= pages;
    const uint64_t run = all ? pages : share == 0 ? 1 : share < RUN ? share : RUN, runs = all || share < RUN ? 1 : share / RUN;
    for (uint64_t i = 0; i < runs; i++) { /* each in the middle of its part of the block */
        const double middle = ((double)i + 0.5) / (double)runs * (double)pages;
        uint64_t at = (uint64_t)middle > run / 2 ? (uint64_t)middle - run / 2 : 0;
        if (at > pages - run) at = pages - run;
        if (!range_look(m, b, first + at, run, &present, &looked)) return false;
    }
    /* The ranges of a process that has just ended are empty, its words cannot be read. */
    if (pages && !words_read(m, first, 1)) return false;
    b->resident = looked == b->bytes ? present : looked ? (uint64_t)((double)b->bytes * ((double)present / (double)looked)) : 0;
    return true;
}

bool plim__resident_fill(int pid, plim__block *block, uint32_t n, uint64_t pages_max)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    pagemap m = {.fd = open(path, O_RDONLY | O_CLOEXEC), .page = (uint64_t)sysconf(_SC_PAGESIZE), .scans = true};
    if (m.fd < 0) return false;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) total += page_count(&m, &block[i]); /* each below 2^51, so no sum of 2^32 of real ones wraps */
    const double part = pages_max && total > pages_max ? (double)pages_max / (double)total : 1;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint64_t pages = page_count(&m, &block[i]);
        ok = block_look(&m, &block[i], part < 1 ? (uint64_t)((double)pages * part) : pages);
    }
    close(m.fd);
    return ok;
}
