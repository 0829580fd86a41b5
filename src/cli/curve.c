/* plimsoll plan --curve: what memory is worth. The model is planned at budgets from the smallest that works to that in which everything could be
 * kept (plim_model_info.plain_bytes beside the process), evenly spaced by their logarithms, both ends included. All plans reckon with the same
 * process, so that only the budget differs between them. */
#include "cli/cli.h"
#include "cli/plan_facts.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    POINTS = 20,
    PLOT_WIDTH = 60,
    PLOT_HEIGHT = 16,
};

typedef struct point {
    uint64_t budget, peak, read, write;
    double seconds;
    uint32_t passes;
    bool fits;
} point;

typedef struct curve {
    plim_model *model;
    plim_model_info info;
    uint64_t floor, plain; /* the first and the last budget */
    uint32_t n;            /* POINTS, or 1 where even the smallest budget keeps everything */
    point point[POINTS];
} curve;

/* ---------------------------------------------------------------------------------------------------------- planning */

static point point_of(const plim_facts *f)
{
    return (point){.budget = f->budget_bytes, .peak = f->planned_peak_bytes, .read = f->read_bytes, .write = f->write_bytes,
                   .seconds = f->planned_seconds, .passes = f->passes, .fits = f->fits};
}

static plim_status plan_at(curve *c, const plim_settings *set, plim_facts *facts, plim_error *err)
{
    plim_plan *plan = NULL;
    const plim_status status = plim_model_plan(&plan, c->model, set, err);
    if (status == PLIM_OK) *facts = *plim_plan_facts(plan);
    plim_plan_free(&plan);
    return status;
}

/* Both ends, from the plan that needs least: a budget of one byte asks for it. */
static plim_status find_ends(curve *c, plim_settings *set, plim_error *err)
{
    plim_facts f;
    set->memory = 1;
    set->plan_anyway = true;
    const plim_status status = plan_at(c, set, &f, err);
    if (status != PLIM_OK) return status;
    set->baseline = f.baseline_bytes;
    c->floor = f.floor_bytes;
    c->plain = f.baseline_bytes + f.extras_bytes + f.reserve_bytes + c->info.plain_bytes;
    c->n = c->plain > c->floor ? POINTS : 1;
    return PLIM_OK;
}

static uint64_t budget_at(const curve *c, uint32_t i)
{
    if (i == 0) return c->floor;
    if (i + 1 == c->n) return c->plain;
    return (uint64_t)((double)c->floor * pow((double)c->plain / (double)c->floor, (double)i / (c->n - 1)));
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static plim_status find_points(curve *c, plim_settings *set, plim_error *err)
{
    struct timespec start;
    plim_facts f;
    clock_gettime(CLOCK_MONOTONIC, &start);
    plim_status status = find_ends(c, set, err);
    for (uint32_t i = 0; status == PLIM_OK && i < c->n; i++) {
        const plim_progress now = {.what = "budgets", .done = i, .total = c->n, .seconds = seconds_since(&start)};
        if (!set->progress(set->progress_ctx, &now)) {
            *err = (plim_error){.code = PLIM_E_CANCELLED};
            snprintf(err->message, sizeof err->message, "stopped after %u of %u budgets", i, c->n);
            return err->code;
        }
        set->memory = budget_at(c, i);
        status = plan_at(c, set, &f, err);
        if (status == PLIM_OK) c->point[i] = point_of(&f);
    }
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- showing */

static void emit_points(plim__emit *e, const curve *c)
{
    static const plim__emit_column columns[] = {
        {"budget_bytes", "budget", true}, {"fits", NULL, false}, {"planned_peak_bytes", "planned peak", true},
        {"estimated_seconds", "estimated", true}, {"planned_read_bytes", "to read", true}, {"planned_write_bytes", "to write", true},
        {"passes", "passes", true},
    };
    plim__emit_table(e, "curve", columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < c->n; i++) {
        const point *p = &c->point[i];
        plim__emit_bytes(e, NULL, NULL, p->budget);
        plim__emit_bool(e, NULL, NULL, p->fits);
        plim__emit_bytes(e, NULL, NULL, p->peak);
        plim__emit_number(e, NULL, NULL, "%.4g s", p->seconds);
        plim__emit_bytes(e, NULL, NULL, p->read);
        plim__emit_bytes(e, NULL, NULL, p->write);
        plim__emit_count(e, NULL, NULL, p->passes);
    }
    plim__emit_table_end(e);
}

/* Where `x` lies between `least` and `most` by its logarithm, as one of `n` cells. */
static int cell_of(double x, double least, double most, int n)
{
    if (!(least > 0 && most > least)) return 0;
    return (int)lround(log(x / least) / log(most / least) * (n - 1));
}

static void emit_plot(plim__emit *e, const curve *c)
{
    char row[PLOT_HEIGHT][PLOT_WIDTH + 1], first[32], last[32];
    double least = c->point[0].seconds, most = least;
    for (uint32_t i = 0; i < c->n; i++) {
        least = fmin(least, c->point[i].seconds);
        most = fmax(most, c->point[i].seconds);
    }
    for (int y = 0; y < PLOT_HEIGHT; y++) snprintf(row[y], sizeof row[y], "%*s", PLOT_WIDTH, "");
    for (uint32_t i = 0; i < c->n; i++)
        row[cell_of(c->point[i].seconds, least, most, PLOT_HEIGHT)]
           [cell_of((double)c->point[i].budget, (double)c->floor, (double)c->plain, PLOT_WIDTH)] = '*';
    plim__emit_line(e, "\nseconds, by budget (both logarithmic)\n");
    for (int y = PLOT_HEIGHT; y-- > 0;) {
        char label[32] = "";
        if (y == PLOT_HEIGHT - 1 || y == 0) snprintf(label, sizeof label, "%.4g s", y ? most : least);
        plim__emit_line(e, "%12s |%s\n", label, row[y]);
    }
    char rule[PLOT_WIDTH + 1];
    memset(rule, '-', PLOT_WIDTH);
    rule[PLOT_WIDTH] = 0;
    plim__emit_line(e, "%12s +%s\n", "", rule);
    plim_bytes_format(first, sizeof first, c->floor);
    plim_bytes_format(last, sizeof last, c->plain);
    plim__emit_line(e, "%12s  %s%*s\n", "", first, PLOT_WIDTH - (int)strlen(first), last);
}

static void show(const curve *c, bool json)
{
    static plim__emit e;
    char plain[32], whole[32];
    plim__emit_start(&e, stdout, json, "plan");
    plim__emit_model(&e, &c->info);
    plim__emit_bytes(&e, "floor_bytes", "smallest budget", c->floor);
    plim__emit_bytes(&e, "plain_bytes", NULL, c->info.plain_bytes);
    plim__emit_line(&e, "keeping everything, as eager frameworks do, would take %s, with the process %s\n\n",
                    plim_bytes_format(plain, sizeof plain, c->info.plain_bytes), plim_bytes_format(whole, sizeof whole, c->plain));
    emit_points(&e, c);
    if (c->n > 1 && isatty(STDOUT_FILENO)) emit_plot(&e, c);
    plim__emit_end(&e);
}

int plim__cli_curve(const char *path, const plim_model_options *how, plim__cli_shared *shared)
{
    plim_error err = {0};
    static curve c;
    plim__cli_bar bar;
    plim__cli_bar_start(&bar, shared);
    bar.counts = true;
    plim_status status = plim_model_new(&c.model, path, how, &shared->set, &err);
    if (status == PLIM_OK) status = plim_model_describe(&c.info, c.model, &err);
    if (status == PLIM_OK) status = find_points(&c, &shared->set, &err);
    plim__cli_bar_end(&bar);
    plim_model_free(&c.model);
    if (status != PLIM_OK) return plim__cli_fail(&err, NULL);
    show(&c, shared->json);
    return PLIM__EXIT_OK;
}
