#include "cli/history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static plim_status fail(plim_error *err, const char *what)
{
    if (err) {
        err->code = errno == ENOSPC ? PLIM_E_NOSPACE : PLIM_E_IO;
        snprintf(err->message, sizeof err->message, "the history '%.300s' cannot be written: %s", what, strerror(errno));
    }
    return errno == ENOSPC ? PLIM_E_NOSPACE : PLIM_E_IO;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* The step that a line is about, 0 for a header. */
static uint64_t step_of(const char *line)
{
    const char *at = line[0] == '{' ? strstr(line, "\"step\": ") : line;
    return at ? strtoull(at + (line[0] == '{' ? 8 : 0), NULL, 10) : 0;
}

/* Cuts the file behind the last whole line of a step up to `after`. @return whether there is something to go on from */
static bool keep_until(FILE *f, uint64_t after)
{
    char line[512];
    long good = 0;
    while (fgets(line, sizeof line, f) && strchr(line, '\n') && step_of(line) <= after) good = ftell(f);
    fflush(f);
    return ftruncate(fileno(f), good) == 0 && fseek(f, 0, SEEK_END) == 0 && good > 0;
}

plim_status plim__history_open(plim__history *h, const char *path, uint64_t after, plim_error *err)
{
    *h = (plim__history){.json = ends_with(path, ".jsonl") || ends_with(path, ".json")};
    bool begun = false;
    if (after > 0 && (h->out = fopen(path, "r+"))) begun = keep_until(h->out, after);
    if (!h->out) h->out = fopen(path, "w");
    if (!h->out) return fail(err, path);
    if (!begun && !h->json) fprintf(h->out, "step,epoch,samples,loss,accuracy,rate,seconds,validation_loss,validation_accuracy\n");
    return fflush(h->out) ? fail(err, path) : PLIM_OK;
}

static void put_number(FILE *out, const char *before, double x, const char *otherwise)
{
    if (isfinite(x)) fprintf(out, "%s%.9g", before, x);
    else fprintf(out, "%s%s", before, otherwise);
}

plim_status plim__history_add(plim__history *h, const plim_train_facts *f, const plim_validation_facts *v, plim_error *err)
{
    if (!h->out) return PLIM_OK;
    const char *const comma = h->json ? "" : ",", *const none = h->json ? "null" : "";
    fprintf(h->out, h->json ? "{\"step\": %llu, \"epoch\": %llu, \"samples\": %llu" : "%llu,%llu,%llu", (unsigned long long)f->step,
            (unsigned long long)f->epoch, (unsigned long long)f->samples);
    put_number(h->out, h->json ? ", \"loss\": " : comma, f->loss, none);
    put_number(h->out, h->json ? ", \"accuracy\": " : comma, f->accuracy, none);
    put_number(h->out, h->json ? ", \"rate\": " : comma, f->rate, none);
    put_number(h->out, h->json ? ", \"seconds\": " : comma, f->seconds, none);
    put_number(h->out, h->json ? ", \"validation_loss\": " : comma, v ? v->loss : NAN, none);
    put_number(h->out, h->json ? ", \"validation_accuracy\": " : comma, v ? v->accuracy : NAN, none);
    fputs(h->json ? "}\n" : "\n", h->out);
    return fflush(h->out) ? fail(err, "file") : PLIM_OK;
}

plim_status plim__history_close(plim__history *h, plim_error *err)
{
    if (!h->out) return PLIM_OK;
    const bool bad = ferror(h->out);
    const bool closed = fclose(h->out) == 0;
    h->out = NULL;
    return bad || !closed ? fail(err, "file") : PLIM_OK;
}
