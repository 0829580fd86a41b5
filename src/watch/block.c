/* Sorted blocks: found by address. */
#include "watch/block.h"

#include <stddef.h>
#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
    const plim__block *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

void plim__blocks_sort(plim__block *block, uint32_t n)
{
    if (n) qsort(block, n, sizeof *block, by_address);
}

const plim__block *plim__block_at(const plim__block *block, uint32_t n, uint64_t address)
{
    uint32_t lo = 0, hi = n; /* the first block that begins above address */
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (block[mid].address <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo) return NULL;
    const plim__block *b = &block[lo - 1];
    return address - b->address < b->bytes ? b : NULL;
}
