/* Reports of watched programs as text, JSON, trace and live view. The reports are written down here: no program runs. */
#include "unit.h"

#include "cli/cli.h"
#include "cli/screen_text.h"
#include "cli/watch_json.h"
#include "cli/watch_live.h"
#include "cli/watch_text.h"
#include "cli/watch_trace.h"
#include "cli/output_file.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB 1024ull
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

#define SAY(to, ...) snprintf(to, sizeof(to), __VA_ARGS__)

/* ---- reports ---- */

static void frame_add(plim_watch_site *s, const char *file, uint32_t line, const char *function, const char *source)
{
    plim_watch_frame *f = &s->frame[s->n_frames++];
    SAY(f->file, "%s", file);
    SAY(f->function, "%s", function);
    SAY(f->source, "%s", source);
    f->line = line;
}

static void why_add(plim_watch_report *r, const char *text)
{
    SAY(r->why[r->n_why++], "%s", text);
}

static plim_watch_fix *fix_add(plim_watch_report *r, const char *text)
{
    plim_watch_fix *f = &r->fix[r->n_fixes++];
    SAY(f->text, "%s", text);
    return f;
}

static void fix_peak(plim_watch_report *r, const char *text, uint64_t peak, bool fits)
{
    plim_watch_fix *f = fix_add(r, text);
    f->computed = true;
    f->peak = peak;
    f->fits = fits;
}

/* A request alone is too big: an array made in a wider type than it is kept in. */
static void make_request(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_REFUSED, .cause = PLIM_WATCH_REQUEST, .seconds = 0.13, .pid = 4242, .budget = 4 * GIB,
                             .asked = 12596019200, .refusals = 1, .processes = 1, .resident = 137 * MIB, .peak_as_is = 18894028800};
    SAY(r->verdict, "out of memory - one array alone is 2.9 times the budget");
    SAY(r->call, "malloc");
    SAY(r->thread, "MainThread");
    frame_add(&r->asking, "/home/u/t_rand.py", 4, "load", "x = np.random.rand(3075200, 512).astype(np.float32)");
    frame_add(&r->asking, "/home/u/t_rand.py", 18, "main", "data = load()");
    frame_add(&r->asking, "/home/u/t_rand.py", 20, "<module>", "main()");
    SAY(r->refused, "by your budget: 4.0 GiB (137 MiB in use). RAM 22.5 GiB free, RLIMIT_AS none, cgroup none: they would have let it pass.");
    r->n_limits = 2;
    r->limit[0] = (plim_watch_limit){.name = "budget", .source = "--memory", .limit = 4 * GIB, .used = 137 * MIB, .refuses = true};
    r->limit[1] = (plim_watch_limit){.name = "RLIMIT_AS", .source = "/proc/4242/limits", .limit = PLIM_UNLIMITED, .used = 934 * MIB};
    why_add(r, "np.random.rand makes float64; the same line then converts to float32. Both copies exist at once: 11.7 + 5.87 = 17.6 GiB.");
    fix_peak(r, "rng.random((3075200, 512), dtype=np.float32)", 6298009600, false);
    fix_peak(r, "fill np.memmap in blocks of 65,536 rows", 171 * MIB, true);
    fix_add(r, "budget that lets this line run unchanged: 17.8 GiB");
}

/* Something else holds it, and grows. */
static void make_growth(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_REFUSED, .cause = PLIM_WATCH_GROWTH, .seconds = 9.81, .pid = 4242, .budget = GIB, .asked = 8000000,
                             .refusals = 1, .processes = 1, .resident = 793 * MIB, .live = 1011 * MIB, .recorded = 755 * MIB, .peak = 793 * MIB,
                             .peak_as_is = 793 * MIB, .held_others = 30 * MIB};
    SAY(r->verdict, "out of memory - the line that failed is not the cause");
    SAY(r->call, "malloc");
    SAY(r->thread, "MainThread");
    frame_add(&r->asking, "t_leak.py", 6, "step", "b = a @ a");
    SAY(r->refused, "by your budget: 1.0 GiB; RSS 793 MiB + 256 MiB reserved, not resident");
    plim_watch_site *s = &r->held[0];
    r->n_held = 3;
    *s = (plim_watch_site){.bytes = 755 * MIB, .resident = 755 * MIB, .blocks = 99, .allocations = 99, .block_bytes = 8000000, .growth = 81.0 * MIB,
                           .steady = true};
    frame_add(s, "t_leak.py", 5, "step", "a = np.random.rand(1000, 1000)");
    frame_add(s, "t_leak.py", 9, "<module>", "step()");
    s->name = (plim_watch_name){.name = "history", .where = "module globals", .type = "list", .element = "float64[1000,1000]", .length = 98,
                                .items = 98, .bytes = 748 * MIB};
    s = &r->held[1];
    *s = (plim_watch_site){.bytes = 256 * MIB, .resident = 8 * MIB, .blocks = 2, .label = "OpenBLAS work buffers"};
    frame_add(s, "/usr/lib/libopenblas.so.0", 0, "blas_memory_alloc", "");
    r->held[2] = (plim_watch_site){.bytes = 2 * MIB, .resident = 2 * MIB, .blocks = 1};
    SAY(r->growing, "+405 MiB in the last 5 s at t_leak.py:5 step()");
    why_add(r, "steady growth: 99 allocated, 0 freed, +7.63 MiB each call of step(), +81 MiB/s, no flattening");
    fix_peak(r, "drop or bound `history` (e.g. collections.deque(maxlen=k))", 53 * MIB, true);
    fix_peak(r, "keep float32; delays the failure, does not cure it", 415 * MIB, true);
    SAY(r->coverage, "recorded blocks explain 96%% of 793 MiB resident; the rest: 21 MiB of libraries, 9 MiB of blocks below 256 KiB");
    SAY(r->note[0], "1 stack was not unwound: it would have cost too much");
    r->n_notes = 1;
}

/* A limit on the address space although the machine has room. */
static void make_address_space(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_FAILED, .cause = PLIM_WATCH_ADDRESS_SPACE, .seconds = 1.5, .asked = 800 * MIB, .processes = 1,
                             .gil_released = true};
    SAY(r->verdict, "allocation refused by RLIMIT_AS although 22.3 GiB of RAM is free");
    SAY(r->call, "malloc");
    frame_add(&r->asking, "t_as.py", 4, "build", "return np.empty((200, 1024, 1024), np.float32)");
    SAY(r->refused, "RLIMIT_AS (ulimit -v) 1.14 GiB; address space in use 934 MiB, of which only 673 MiB is resident");
    fix_add(r, "ulimit -v unlimited, and --memory instead: it counts resident memory");
}

/* Killed by a control group, with children. */
static void make_killed(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_KILLED, .cause = PLIM_WATCH_CGROUP, .seconds = 812, .wait_status = SIGKILL, .resident = 8 * GIB,
                             .processes = 3, .n_processes = 2, .live = 5 * GIB, .peak = 8 * GIB};
    SAY(r->verdict, "your program was killed by the kernel, not by a bug: cgroup memory limit");
    SAY(r->refused, "memory.events oom_kill 0 -> 1 in /docker/3f2a (limit 8.0 GiB, 7.98 GiB charged at the last look); the machine had 41 GiB free");
    r->n_held = 1;
    r->held[0] = (plim_watch_site){.bytes = 5 * GIB, .resident = 5 * GIB, .blocks = 1234, .label = "ConvolutionBackward0"};
    frame_add(&r->held[0], "/srv/train.py", 88, "step", "loss.backward()");
    SAY(r->growing, "+1.3 GiB in the last 5 s at train.py:88 step() ConvolutionBackward0");
    fix_add(r, "run again with --memory 7.6G: an exception with a traceback instead of a kill");
    r->process[0] = (plim_watch_process){.pid = 31, .parent = 1, .program = "python3", .attached = true, .ended = true, .resident_peak = 6 * GIB,
                                         .recorded = 5 * GIB};
    r->process[1] = (plim_watch_process){.pid = 44, .parent = 31, .program = "worker", .resident = 2 * GIB, .resident_peak = 2 * GIB};
}

/* The allocator keeps free memory; found at the end of a program that had no trouble. */
static void make_fragmentation(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_ENDED, .cause = PLIM_WATCH_FRAGMENTATION, .seconds = 30, .resident = 1552 * MIB, .live = 529 * MIB,
                             .kept = 848 * MIB, .processes = 1, .peak = 1552 * MIB, .peak_as_is = 1552 * MIB};
    SAY(r->verdict, "848 MiB of the 1.52 GiB resident is free memory that glibc keeps");
    why_add(r, "posix_memalign blocks of 16 MiB below glibc's moving mmap threshold, 157 freed between 33 kept");
    fix_peak(r, "MALLOC_MMAP_THRESHOLD_=1048576", 720 * MIB, true);
    fix_add(r, "malloc_trim(0) between epochs");
}

static void make_nonsense(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_FAILED, .cause = PLIM_WATCH_NONSENSE, .seconds = 0.5, .asked = UINT64_MAX - 4095, .processes = 1};
    SAY(r->verdict, "asked for 16 EiB: a negative or overflowed size");
    SAY(r->call, "malloc");
    frame_add(&r->asking, "libwrong.so", 0, "make_grid", "");
    why_add(r, "no limit is involved");
}

static void make_clean(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_ENDED, .seconds = 12, .budget = 4 * GIB, .peak = 3876 * MIB, .resident = GIB, .processes = 1,
                             .n_held = 1};
    SAY(r->verdict, "peak 3.79 GiB of 4.0 GiB (95%%) at train.py:88 step()");
}

static plim_watch_report report; /* large */

typedef void make(plim_watch_report *r);
static make *const makes[] = {make_request, make_growth, make_address_space, make_killed, make_fragmentation, make_nonsense, make_clean};

/* ---- text ---- */

static char *text_of(const plim_watch_report *r, int width)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    plim__watch_text(out, r, width);
    fclose(out);
    return text;
}

static void expect_text(make *made, int width, const char *expected)
{
    made(&report);
    char *text = text_of(&report, width);
    assert_string_equal(text, expected);
    free(text);
}

static void request_too_big(void **state)
{
    (void)state;
    expect_text(make_request, 160,
                "plimsoll: out of memory - one array alone is 2.9 times the budget\n"
                "ASKED    11.7 GiB (12,596,019,200 bytes) by malloc, thread MainThread, t = 0.13 s\n"
                "         t_rand.py:4   load()    x = np.random.rand(3075200, 512).astype(np.float32)\n"
                "         t_rand.py:18  main()    data = load()\n"
                "         t_rand.py:20  <module>  main()\n"
                "REFUSED  by your budget: 4.0 GiB (137 MiB in use). RAM 22.5 GiB free, RLIMIT_AS none, cgroup none: they would have let it pass.\n"
                "WHY      np.random.rand makes float64; the same line then converts to float32. Both copies exist at once: 11.7 + 5.87 = 17.6 GiB.\n"
                "FIX      1. rng.random((3075200, 512), dtype=np.float32)  peak 17.6 GiB -> 5.87 GiB  still over the budget\n"
                "         2. fill np.memmap in blocks of 65,536 rows       peak 17.6 GiB -> 171 MiB   fits\n"
                "         3. budget that lets this line run unchanged: 17.8 GiB\n");
}

static void growth_elsewhere(void **state)
{
    (void)state;
    expect_text(make_growth, 160,
                "plimsoll: out of memory - the line that failed is not the cause\n"
                "ASKED    7.63 MiB (8,000,000 bytes) by malloc, thread MainThread, t = 9.81 s\n"
                "         t_leak.py:6  step()  b = a @ a\n"
                "REFUSED  by your budget: 1.0 GiB; RSS 793 MiB + 256 MiB reserved, not resident\n"
                "HELD     755 MiB                      (95% of resident)  99 blocks  t_leak.py:5 step()                    "
                "a = np.random.rand(1000, 1000)\n"
                "         kept alive by `history` (list, 98 x float64[1000,1000], 748 MiB), module globals\n"
                "         8.0 MiB of 256 MiB requested (1% of resident)   2 blocks   libopenblas.so.0 blas_memory_alloc()  OpenBLAS work buffers\n"
                "         32 MiB requested in other places\n"
                "LAST     +405 MiB in the last 5 s at t_leak.py:5 step()\n"
                "WHY      steady growth: 99 allocated, 0 freed, +7.63 MiB each call of step(), +81 MiB/s, no flattening\n"
                "FIX      1. drop or bound `history` (e.g. collections.deque(maxlen=k))  peak 793 MiB -> 53 MiB   fits\n"
                "         2. keep float32; delays the failure, does not cure it          peak 793 MiB -> 415 MiB  fits\n"
                "COVERAGE recorded blocks explain 96% of 793 MiB resident; the rest: 21 MiB of libraries, 9 MiB of blocks below 256 KiB\n"
                "NOTE     1 stack was not unwound: it would have cost too much\n");
}

static void on_a_narrow_terminal(void **state)
{
    (void)state;
    expect_text(make_growth, 80,
                "plimsoll: out of memory - the line that failed is not the cause\n"
                "ASKED    7.63 MiB (8,000,000 bytes) by malloc, thread MainThread, t = 9.81 s\n"
                "         t_leak.py:6  step()  b = a @ a\n"
                "REFUSED  by your budget: 1.0 GiB; RSS 793 MiB + 256 MiB reserved, not resident\n"
                "HELD     755 MiB                      (95% of resident)  99 blocks\n"
                "         t_leak.py:5 step()  a = np.random.rand(1000, 1000)\n"
                "         kept alive by `history` (list, 98 x float64[1000,1000], 748 MiB),\n"
                "           module globals\n"
                "         8.0 MiB of 256 MiB requested (1% of resident)   2 blocks\n"
                "         libopenblas.so.0 blas_memory_alloc()  OpenBLAS work buffers\n"
                "         32 MiB requested in other places\n"
                "LAST     +405 MiB in the last 5 s at t_leak.py:5 step()\n"
                "WHY      steady growth: 99 allocated, 0 freed, +7.63 MiB each call of step(),\n"
                "         +81 MiB/s, no flattening\n"
                "FIX      1. drop or bound `history` (e.g.          peak 793 MiB -> 53 MiB   fits\n"
                "            collections.deque(maxlen=k))\n"
                "         2. keep float32; delays the failure,      peak 793 MiB -> 415 MiB  fits\n"
                "            does not cure it\n"
                "COVERAGE recorded blocks explain 96% of 793 MiB resident; the rest: 21 MiB of\n"
                "         libraries, 9 MiB of blocks below 256 KiB\n"
                "NOTE     1 stack was not unwound: it would have cost too much\n");
}

static void address_space(void **state)
{
    (void)state;
    expect_text(make_address_space, 160,
                "plimsoll: allocation refused by RLIMIT_AS although 22.3 GiB of RAM is free\n"
                "ASKED    800 MiB (838,860,800 bytes) by malloc, t = 1.50 s, the interpreter lock released\n"
                "         t_as.py:4  build()  return np.empty((200, 1024, 1024), np.float32)\n"
                "REFUSED  RLIMIT_AS (ulimit -v) 1.14 GiB; address space in use 934 MiB, of which only 673 MiB is resident\n"
                "FIX      1. ulimit -v unlimited, and --memory instead: it counts resident memory\n");
}

static void killed_with_children(void **state)
{
    (void)state;
    expect_text(make_killed, 160,
                "plimsoll: your program was killed by the kernel, not by a bug: cgroup memory limit\n"
                "KILLED   SIGKILL at t = 812 s; memory.events oom_kill 0 -> 1 in /docker/3f2a (limit 8.0 GiB, 7.98 GiB charged at the last "
                "look); the machine had 41 GiB free\n"
                "HELD     5.0 GiB (62% of resident)  1,234 blocks  train.py:88 step()  ConvolutionBackward0  loss.backward()\n"
                "LAST     +1.3 GiB in the last 5 s at train.py:88 step() ConvolutionBackward0\n"
                "FIX      1. run again with --memory 7.6G: an exception with a traceback instead of a kill\n"
                "PROCESSES 3 in all, 2 of them here\n"
                "              31  python3          ended                   6.0 GiB peak     5.0 GiB recorded\n"
                "              44  worker              2.0 GiB resident     2.0 GiB peak  followed through /proc\n");
}

static void fragmentation_at_the_end(void **state)
{
    (void)state;
    expect_text(make_fragmentation, 160,
                "plimsoll: 848 MiB of the 1.52 GiB resident is free memory that glibc keeps\n"
                "HELD     848 MiB (55% of resident)  free memory that the allocator keeps; 529 MiB in recorded blocks is live\n"
                "WHY      posix_memalign blocks of 16 MiB below glibc's moving mmap threshold, 157 freed between 33 kept\n"
                "FIX      1. MALLOC_MMAP_THRESHOLD_=1048576  peak 1.52 GiB -> 720 MiB\n"
                "         2. malloc_trim(0) between epochs\n");
}

static void nonsense(void **state)
{
    (void)state;
    expect_text(make_nonsense, 160,
                "plimsoll: asked for 16 EiB: a negative or overflowed size\n"
                "ASKED    16 EiB (18,446,744,073,709,547,520 bytes) by malloc, t = 0.50 s\n"
                "         libwrong.so  make_grid()\n"
                "WHY      no limit is involved\n");
}

static void clean_end_is_one_line(void **state)
{
    (void)state;
    expect_text(make_clean, 160, "plimsoll: peak 3.79 GiB of 4.0 GiB (95%) at train.py:88 step()\n");
    assert_true(plim__watch_clean(&report));
    report.refusals = 1; /* each was reported when it came; but -q does not hide that there were some */
    char *text = text_of(&report, 160);
    assert_string_equal(text, "plimsoll: peak 3.79 GiB of 4.0 GiB (95%) at train.py:88 step()\n");
    free(text);
    assert_false(plim__watch_clean(&report));
    make_fragmentation(&report);
    assert_false(plim__watch_clean(&report));
}

/* Two files of one base name are told apart by as little of their paths as does it. */
static void files_of_the_same_name(void **state)
{
    (void)state;
    char place[PLIM__WATCH_PLACE];
    make_request(&report);
    report.asking.n_frames = 0;
    frame_add(&report.asking, "/srv/app/data/utils.py", 3, "f", "");
    frame_add(&report.asking, "/srv/old/data/utils.py", 4, "g", "");
    frame_add(&report.asking, "/srv/app/model.py", 5, "h", "");
    frame_add(&report.asking, "utils.py", 6, "h", "");
    report.n_held = 1;
    report.held[0] = (plim_watch_site){.n_frames = 0};
    frame_add(&report.held[0], "/opt/model.py", 7, "k", "");
    static const char *const expected[] = {"app/data/utils.py:3", "old/data/utils.py:4", "app/model.py:5", "utils.py:6"};
    for (uint32_t i = 0; i < 4; i++) assert_string_equal(plim__watch_place(place, sizeof place, &report.asking.frame[i], &report), expected[i]);
    assert_string_equal(plim__watch_place(place, sizeof place, &report.held[0].frame[0], &report), "opt/model.py:7");
    assert_string_equal(plim__watch_place(place, sizeof place, &report.asking.frame[0], NULL), "utils.py:3");
}

static void lines_fit(const char *text, int width)
{
    char line[2048];
    for (const char *p = strchr(text, '\n') + 1; *p; p += strcspn(p, "\n") + 1) { /* the verdict is left whole */
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        if (plim__screen_columns(line) > width) fail_msg("%d columns in a width of %d: %s", plim__screen_columns(line), width, line);
        assert_int_not_equal(line[strlen(line) - 1], ' ');
    }
}

/* Everything as long as it can be, with bytes that a terminal must not see. */
static void fill(char *text, size_t size, uint32_t seed)
{
    static const char *const part[] = {"word ", "\033[2J", "caf\xc3\xa9 ", "\xff", "\xc2\x9b", "\t", "unbreakable", "\xe2\x82"};
    text[0] = 0;
    for (uint32_t i = seed; strlen(text) + 16 < size; i++) strcat(text, part[i * 7 % 8]);
}

static void fill_site(plim_watch_site *s, uint32_t seed)
{
    s->n_frames = PLIM_WATCH_FRAMES;
    for (uint32_t i = 0; i < s->n_frames; i++) {
        fill(s->frame[i].file, sizeof s->frame[i].file, seed + i);
        fill(s->frame[i].function, sizeof s->frame[i].function, seed + i);
        fill(s->frame[i].source, sizeof s->frame[i].source, seed + i);
        s->frame[i].line = UINT32_MAX;
    }
    fill(s->label, sizeof s->label, seed);
    fill(s->name.name, sizeof s->name.name, seed);
    fill(s->name.where, sizeof s->name.where, seed);
    fill(s->name.type, sizeof s->name.type, seed);
    fill(s->name.element, sizeof s->name.element, seed);
    fill(s->name.grad_fn, sizeof s->name.grad_fn, seed);
    s->bytes = UINT64_MAX / 2, s->resident = UINT64_MAX / 3, s->blocks = UINT64_MAX;
    s->name.bytes = s->name.length = UINT64_MAX, s->name.items = 3;
}

static void make_full(plim_watch_report *r)
{
    *r = (plim_watch_report){.event = PLIM_WATCH_KILLED, .cause = PLIM_WATCH_HOST, .seconds = 1e9, .wait_status = SIGSEGV, .asked = UINT64_MAX,
                             .gil_released = true, .n_held = PLIM_WATCH_HELD, .n_fixes = PLIM_WATCH_FIXES, .n_why = PLIM_WATCH_LINES,
                             .n_notes = PLIM_WATCH_LINES, .n_limits = PLIM_WATCH_LIMITS, .n_processes = PLIM_WATCH_PROCESSES, .processes = UINT32_MAX,
                             .live = UINT64_MAX, .resident = UINT64_MAX, .held_others = UINT64_MAX, .kept = UINT64_MAX, .peak_as_is = UINT64_MAX,
                             .peak = UINT64_MAX};
    fill(r->verdict, sizeof r->verdict, 1);
    fill(r->call, sizeof r->call, 2);
    fill(r->thread, sizeof r->thread, 3);
    fill(r->refused, sizeof r->refused, 4);
    fill(r->growing, sizeof r->growing, 5);
    fill(r->coverage, sizeof r->coverage, 6);
    fill_site(&r->asking, 7);
    for (uint32_t i = 0; i < r->n_held; i++) fill_site(&r->held[i], i);
    for (uint32_t i = 0; i < PLIM_WATCH_LINES; i++) fill(r->why[i], sizeof r->why[i], i), fill(r->note[i], sizeof r->note[i], i);
    for (uint32_t i = 0; i < r->n_processes; i++) r->process[i].resident = UINT64_MAX, fill(r->process[i].program, sizeof r->process[i].program, i);
    for (uint32_t i = 0; i < r->n_fixes; i++) {
        fill(r->fix[i].text, sizeof r->fix[i].text, i);
        r->fix[i].computed = i % 2, r->fix[i].peak = UINT64_MAX;
    }
}

static void long_texts_fit_and_are_clean(void **state)
{
    (void)state;
    make_full(&report);
    for (int width = 40; width <= 200; width += 7) {
        char *text = text_of(&report, width);
        lines_fit(text, width);
        for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
            assert_true(*p >= 0x20 || *p == '\n');
            assert_false(p[0] == 0xc2 && p[1] < 0xa0);
        }
        free(text);
    }
    for (size_t i = 0; i < COUNT_OF(makes); i++) {
        makes[i](&report);
        char *text = text_of(&report, 72);
        lines_fit(text, 72);
        free(text);
    }
}

static void texts_are_cut_and_wrapped(void **state)
{
    (void)state;
    char buf[64];
    assert_string_equal(plim__screen_clean(buf, sizeof buf, "a\tb\033[0m\xff\xc3\xa9"), "a b?[0m?\xc3\xa9");
    assert_string_equal(plim__screen_clean(buf, 4, "ab\xc3\xa9"), "ab");
    assert_int_equal(plim__screen_columns("caf\xc3\xa9"), 4);
    snprintf(buf, sizeof buf, "caf\xc3\xa9 au lait");
    assert_string_equal(plim__screen_cut(buf, 8), "caf\xc3\xa9 ...");
    assert_string_equal(plim__screen_cut(buf, 8), "caf\xc3\xa9 ...");
    assert_string_equal(plim__screen_cut(buf, 2), "");
    assert_int_equal(plim__screen_wrap("one two three", 8), 7);
    assert_int_equal(plim__screen_wrap("one two three", 7), 7);
    assert_int_equal(plim__screen_wrap("one two three", 6), 3);
    assert_int_equal(plim__screen_wrap("unbreakable", 5), 5);
    assert_int_equal(plim__screen_wrap("short", 80), 5);
}

/* ---- options ---- */

/* What follows the program's name is the program's, options that we know too. */
static void options_end_at_the_program(void **state)
{
    (void)state;
    bool quiet = false;
    const plim__cli_option options[] = {{"quiet", 'q', PLIM__CLI_IS_FLAG, &quiet, NULL, "", NULL}};
    const plim__cli_command cmd = {.name = "watch", .synopsis = "", .option = options, .n_options = 1, .stops_at_word = true};
    static const struct { char *word[6]; bool quiet; int n; const char *first, *last; } cases[] = {
        {{"watch", "-q", "sh", "-c", "x", "--help"}, true, 4, "sh", "--help"},
        {{"watch", "sh", "-q", "--", "-x", "-"}, false, 5, "sh", "-"},
        {{"watch", "--", "-q", "--", "a", "b"}, false, 4, "-q", "b"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *argv[7] = {0};
        int argc = 6, leave = -1;
        plim__cli_shared shared;
        memcpy(argv, cases[i].word, sizeof cases[i].word);
        quiet = false;
        assert_true(plim__cli_parse(&cmd, &shared, &argc, argv, &leave));
        assert_int_equal(quiet, cases[i].quiet);
        assert_int_equal(argc, cases[i].n);
        assert_string_equal(argv[0], cases[i].first);
        assert_string_equal(argv[argc - 1], cases[i].last);
    }
}

/* ---- files ---- */

static const plim_watch_options how = {.argv = (char *[]){"python3", "t \"x\".py", NULL}, .memory = 4 * GIB, .on_breach = PLIM_WATCH_STOP};

/* Numbers are read as double: an integer of jansson ends at 2^63. */
static json_t *parse(char *text)
{
    json_error_t why;
    json_t *root = json_loads(text, JSON_DECODE_INT_AS_REAL, &why);
    if (!root) fail_msg("line %d: %s", why.line, why.text);
    free(text);
    return root;
}

static uint64_t number_of(const json_t *value)
{
    assert_true(json_is_real(value));
    return (uint64_t)json_real_value(value);
}

static void json_has_every_fact(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    plim__watch_json j;
    plim__watch_json_start(&j, out, &how);
    for (size_t i = 0; i < COUNT_OF(makes); i++) {
        makes[i](&report);
        plim__watch_json_add(&j, &report);
    }
    plim__watch_json_end(&j, SIGKILL, true);
    fclose(out);
    json_t *root = parse(text);
    assert_string_equal(json_string_value(json_object_get(root, "verb")), "watch");
    assert_int_equal(json_array_size(json_object_get(root, "argv")), 2);
    assert_int_equal(number_of(json_object_get(root, "budget_bytes")), 4 * GIB);
    assert_int_equal(number_of(json_object_get(root, "peak_bytes")), 3876 * MIB);
    assert_int_equal(number_of(json_object_get(json_object_get(root, "exit"), "signal")), SIGKILL);
    assert_true(json_is_null(json_object_get(json_object_get(root, "exit"), "code")));
    assert_true(json_is_true(json_object_get(json_object_get(root, "exit"), "stopped")));
    const json_t *reports = json_object_get(root, "reports");
    assert_int_equal(json_array_size(reports), COUNT_OF(makes));

    const json_t *first = json_array_get(reports, 0), *second = json_array_get(reports, 1);
    assert_string_equal(json_string_value(json_object_get(first, "event")), "refused");
    assert_string_equal(json_string_value(json_object_get(first, "cause")), "request");
    assert_int_equal(number_of(json_object_get(json_object_get(first, "asked"), "bytes")), 12596019200);
    const json_t *limit = json_array_get(json_object_get(first, "limits"), 1);
    assert_true(json_is_null(json_object_get(limit, "limit")));
    const json_t *fix = json_array_get(json_object_get(first, "fixes"), 0);
    assert_int_equal(number_of(json_object_get(fix, "peak_bytes")), 6298009600);
    assert_true(json_is_false(json_object_get(fix, "fits")));
    const json_t *held = json_object_get(second, "held"); /* what the text leaves out too */
    assert_int_equal(json_array_size(held), 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json_array_get(held, 0), "name"), "name")), "history");
    assert_int_equal(json_array_size(json_object_get(json_array_get(held, 0), "frames")), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(reports, 2), "cause")), "address_space");
    assert_int_equal(json_array_size(json_object_get(json_array_get(reports, 3), "processes")), 2);
    json_decref(root);
}

static const json_t *event_at(const json_t *root, size_t i, const char *phase, const char *name)
{
    const json_t *e = json_array_get(json_object_get(root, "traceEvents"), i);
    assert_string_equal(json_string_value(json_object_get(e, "ph")), phase);
    assert_string_equal(json_string_value(json_object_get(e, "name")), name);
    return e;
}

static void trace_has_counters_and_instants(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    plim__watch_trace t;
    plim__watch_trace_start(&t, out, &how);
    plim__watch_trace_sample(&t, &(plim_watch_sample){.seconds = 0.1, .resident = 3, .live = 2, .kept = 1, .processes = 1});
    make_request(&report);
    plim__watch_trace_report(&t, &report);
    make_clean(&report); /* no trouble, no mark */
    plim__watch_trace_report(&t, &report);
    plim__watch_trace_end(&t);
    fclose(out);
    json_t *root = parse(text);
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 6);
    const json_t *process = event_at(root, 0, "M", "process_name");
    assert_string_equal(json_string_value(json_object_get(json_object_get(process, "args"), "name")), "python3 t \"x\".py");
    event_at(root, 1, "M", "thread_name");
    event_at(root, 2, "C", "budget");
    const json_t *sample = event_at(root, 3, "C", "memory"), *args = json_object_get(sample, "args");
    assert_int_equal(number_of(json_object_get(sample, "ts")), 100000);
    assert_int_equal(number_of(json_object_get(args, "resident")), 3);
    assert_int_equal(number_of(json_object_get(args, "live")), 2);
    assert_int_equal(number_of(json_object_get(args, "free_but_kept")), 1);
    const json_t *mark = event_at(root, 4, "i", "out of memory - one array alone is 2.9 times the budget");
    assert_string_equal(json_string_value(json_object_get(mark, "s")), "p");
    assert_int_equal(number_of(json_object_get(json_object_get(mark, "args"), "asked")), 12596019200);
    assert_string_equal(json_string_value(json_object_get(json_object_get(mark, "args"), "line")), "t_rand.py:4");
    assert_int_equal(number_of(json_object_get(event_at(root, 5, "C", "budget"), "ts")), 130000);
    json_decref(root);
}

static void files_are_whole_or_not_there(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-unit-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.json", folder);
    plim__output_file f;
    plim_error err = {0};
    assert_int_equal(plim__output_file_open(&f, path, &err), PLIM_OK);
    fputs("half", f.out);
    assert_int_equal(access(path, F_OK), -1);
    plim__output_file_drop(&f);
    assert_int_equal(plim__output_file_open(&f, path, &err), PLIM_OK);
    fputs("whole", f.out);
    assert_int_equal(plim__output_file_finish(&f, &err), PLIM_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing beside it is left */
    assert_int_equal(plim__output_file_open(&f, path, &err), PLIM_E_IO);
    assert_non_null(strstr(err.message, "cannot be written: No such file"));
    assert_int_equal(plim__output_file_open(&f, "/dev/full", &err), PLIM_OK);
    fputs("too much", f.out);
    assert_int_equal(plim__output_file_finish(&f, &err), PLIM_E_NOSPACE);
}

/* ---- the live view ---- */

static void live_fits(void **state)
{
    (void)state;
    static plim_watch_live live;
    static plim__watch_lines lines;
    live = (plim_watch_live){.now = {.seconds = 12.34, .resident = 1552 * MIB, .live = 529 * MIB, .kept = 848 * MIB, .processes = 3},
                             .budget = 2 * GIB, .growth = 81.0 * MIB, .seconds_left = 6.1, .refusals = 2, .n_sites = 8};
    make_growth(&report);
    live.site[0] = report.held[0];
    for (uint32_t i = 1; i < 8; i++) fill_site(&live.site[i], i);
    plim__watch_lines_fill(&lines, &live, 100, 24);
    assert_int_equal(lines.n, 11);
    assert_string_equal(lines.line[0], "[##################==============================++++++.................]  1.52 GiB of 2.0 GiB (76%)");
    assert_string_equal(lines.line[1], "# live 529 MiB   = free but kept 848 MiB   + other 175 MiB   3 processes   2 refusals   t = 12.3 s");
    assert_string_equal(lines.line[2], "at +81 MiB/s the budget is reached in 6 s");
    assert_string_equal(lines.line[3], "  755 MiB    +81 MiB/s  t_leak.py:5 step()  `history`");
    for (int width = 20; width < 300; width += 13) {
        for (int height = 1; height < 20; height++) {
            plim__watch_lines_fill(&lines, &live, width, height);
            assert_true(lines.n <= (uint32_t)height && lines.n <= PLIM__WATCH_LIVE_LINES);
            for (uint32_t i = 0; i < lines.n; i++) assert_true(plim__screen_columns(lines.line[i]) <= width);
        }
    }
    live = (plim_watch_live){.now = {.seconds = 1, .resident = MIB, .live = 2 * MIB}, .growth = -1.0 * MIB, .seconds_left = -1,
                             .limit = PLIM_UNLIMITED};
    plim__watch_lines_fill(&lines, &live, 40, 14); /* no limit: the bar is what is requested */
    assert_string_equal(lines.line[0], "[##############---------------]  1.0 MiB");
    assert_string_equal(lines.line[2], "-1.0 MiB/s");
}

static void live_needs_a_terminal(void **state)
{
    (void)state;
    plim__watch_view view;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_false(plim__watch_view_start(&view, fileno(file), true));
    fclose(file);
}

/* What was written to a terminal since the last call. */
static size_t terminal_read(int fd, char *buf, size_t size)
{
    size_t n = 0;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    while (n + 1 < size && poll(&poll_fd, 1, 100) > 0) {
        const ssize_t got = read(fd, buf + n, size - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    buf[n] = 0;
    return n;
}

static void live_draws_in_its_own_lines(void **state)
{
    (void)state;
    static plim_watch_live live;
    static char text[1 << 16];
    plim__watch_view view;
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    live = (plim_watch_live){.now = {.resident = MIB, .live = MIB}, .budget = 2 * MIB, .seconds_left = -1};
    assert_true(plim__watch_view_start(&view, terminal, false));
    plim__watch_view_draw(&view, &live);
    terminal_read(master, text, sizeof text);
    assert_non_null(strstr(text, "\033[1;21r")); /* three lines at the bottom do not scroll */
    assert_non_null(strstr(text, "\033[22;1H\033[2K[####"));
    assert_non_null(strstr(text, "\033[24;1H"));
    assert_null(strstr(text, "\033[25;1H"));
    assert_null(strstr(text, "\033[36m"));
    plim__watch_view_draw(&view, &live);
    terminal_read(master, text, sizeof text);
    assert_null(strstr(text, "r\0338")); /* the lines are there already */
    plim__watch_view_hide(&view);
    terminal_read(master, text, sizeof text);
    assert_string_equal(text, "\0337\033[r\0338\033[J\033[?25h");
    plim__watch_view_end(&view);
    assert_int_equal(terminal_read(master, text, sizeof text), 0);
    close(terminal);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_too_big),
        cmocka_unit_test(growth_elsewhere),
        cmocka_unit_test(on_a_narrow_terminal),
        cmocka_unit_test(address_space),
        cmocka_unit_test(killed_with_children),
        cmocka_unit_test(fragmentation_at_the_end),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(clean_end_is_one_line),
        cmocka_unit_test(files_of_the_same_name),
        cmocka_unit_test(long_texts_fit_and_are_clean),
        cmocka_unit_test(texts_are_cut_and_wrapped),
        cmocka_unit_test(options_end_at_the_program),
        cmocka_unit_test(json_has_every_fact),
        cmocka_unit_test(trace_has_counters_and_instants),
        cmocka_unit_test(files_are_whole_or_not_there),
        cmocka_unit_test(live_fits),
        cmocka_unit_test(live_needs_a_terminal),
        cmocka_unit_test(live_draws_in_its_own_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
