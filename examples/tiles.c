/* A loop of one's own over an array that need not fit in memory: a 3x3 mean of a picture of f32.
 *
 *     tiles picture.npy smooth.npy 64M
 *
 * Each tile comes with an overlap of one row and column on every side, clipped where the picture ends; the loop writes the tile's core.
 * While it works, the next tile is read and the one before is written. The output appears under its name when it is whole.
 *
 * Build: cc -o tiles tiles.c $(pkg-config --cflags --libs plimsoll) */
#include <plimsoll/plimsoll.h>

#include <stdio.h>

/* The mean of what there is of the 3x3 neighbourhood of (i, j), a place in the whole picture. */
static float mean_around(const plim_tile *t, int64_t i, int64_t j)
{
    double sum = 0;
    int n = 0;
    for (int64_t y = i - 1; y <= i + 1; y++) {
        for (int64_t x = j - 1; x <= j + 1; x++) {
            /* Where this is in the tile's memory. Outside of it the picture has ended: the overlap covers all else. */
            const int64_t row = y - t->halo_lo[0], col = x - t->halo_lo[1];
            if (row < 0 || row >= t->halo.dim[0] || col < 0 || col >= t->halo.dim[1]) continue;
            sum += ((const float *)t->in)[row * t->in_stride[0] + col * t->in_stride[1]];
            n++;
        }
    }
    return (float)(sum / n);
}

static void smooth(const plim_tile *t)
{
    for (int64_t i = 0; i < t->core.dim[0]; i++)
        for (int64_t j = 0; j < t->core.dim[1]; j++)
            ((float *)t->out)[i * t->out_stride[0] + j * t->out_stride[1]] = mean_around(t, t->core_lo[0] + i, t->core_lo[1] + j);
}

static int complain(const plim_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return err->code == PLIM_E_BUDGET ? 3 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s IN.npy OUT.npy MEMORY\n", argv[0]);
        return 2;
    }
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    plim_limits limits;
    plim_array_info info;
    if (plim_limits_read(&limits, &err) || plim_bytes_parse(&set.memory, argv[3], limits.available, &err) ||
        plim_array_info_read(&info, argv[1], &err))
        return complain(&err);
    if (info.dtype != PLIM_F32 || info.shape.rank != 2) {
        fprintf(stderr, "%s: two dimensions of f32 are expected\n", argv[1]);
        return 2;
    }

    const plim_shape any = {.rank = 2}; /* zeros: the library chooses what suits the budget */
    const plim_shape overlap = {.rank = 2, .dim = {1, 1}};
    plim_tiles *tiles = NULL;
    plim_tile tile;
    if (plim_tiles_new(&tiles, argv[1], argv[2], PLIM_F32, &any, &overlap, &set, &err)) return complain(&err);
    while (plim_tiles_next(tiles, &tile, &err) == PLIM_OK && tile.in) smooth(&tile);
    const uint64_t count = tile.count;
    if (plim_tiles_finish(&tiles, &err)) return complain(&err);
    printf("%llu tiles\n", (unsigned long long)count);
    return 0;
}
