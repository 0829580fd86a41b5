/* Writes packing instances made from seeds, as CSV, for the packing benchmark (bench/pack.sh):
 *
 *     bench-pack-cases DIR [FIRST_SEED]      default: 0
 *
 * 48 instances of known optimum: STYLE-SEED.1048576.csv, where the number is the optimum in bytes and the bound; six styles, 160 to 450
 * buffers, up to 30 % of them dropped and as many shrunk. Two of 30,000 buffers: training-30000.csv and random-30000.csv. */
#include "packing_cases.h"

#include <inttypes.h>
#include <stdio.h>

enum { SEEDS = 8, LARGE = 30000 };

static void write_table(const char *path, const plim_buffer *buf, uint32_t n)
{
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "id,lower,upper,size\n");
        for (uint32_t i = 0; i < n; i++)
            fprintf(f, "%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRIu64 "\n", i, buf[i].lower, buf[i].upper, buf[i].size);
    }
    if (!f || ferror(f) || fclose(f)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t loose[] = {0, 4, 12, 30}, buffers[] = {160, 240, 330, 450};
    static plim_buffer buf[LARGE];
    char path[4096];
    const uint32_t first_seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench-pack-cases DIR [FIRST_SEED]\n");
        return 2;
    }
    for (int style = 0; style < PACKING_STYLES; style++) {
        for (uint32_t seed = first_seed; seed < first_seed + SEEDS; seed++) {
            const uint32_t n = packing_make(buf, (packing_style)style, buffers[(seed / 4 + seed) % 4], loose[seed % 4], seed);
            snprintf(path, sizeof path, "%s/%s-%" PRIu32 ".%d.csv", argv[1], packing_style_name((packing_style)style), seed,
                     PACKING_CAPACITY * PACKING_UNIT);
            write_table(path, buf, n);
        }
    }
    for (int training = 0; training < 2; training++) {
        packing_large(buf, LARGE, training, 1 + first_seed);
        snprintf(path, sizeof path, "%s/%s-%d.csv", argv[1], training ? "training" : "random", LARGE);
        write_table(path, buf, LARGE);
    }
    return 0;
}
