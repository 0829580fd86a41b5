/* Names for addresses: of this process, of another one, and of ELF files that lie. */
#include "unit.h"

#include "watch/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static plim__symbols *symbols;

static int setup(void **state)
{
    (void)state;
    return plim__symbols_new(&symbols, NULL) != PLIM_OK;
}

static int teardown(void **state)
{
    (void)state;
    plim__symbols_free(&symbols);
    plim__symbols_free(&symbols); /* once more does no harm */
    return 0;
}

static plim__symbol symbol_of(int pid, uint64_t pc)
{
    plim__symbol s = {.pc = pc};
    memset(s.name, 'x', sizeof s.name);
    plim__symbols_find(symbols, pid, &s, 1);
    return s;
}

static __attribute__((noinline)) int a_function_of_this_file(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

/* ---- this process ---- */

static void own_functions(void **state)
{
    (void)state;
    const int pid = getpid();
    const uint64_t function = (uintptr_t)a_function_of_this_file;
    assert_int_equal(a_function_of_this_file(1), 2);
    assert_false(plim__symbols_knows(symbols, pid, function + 1));
    plim__symbols_learn(symbols, pid);
    assert_true(plim__symbols_knows(symbols, pid, function + 1));
    assert_false(plim__symbols_knows(symbols, pid, (uintptr_t)&function)); /* the stack */
    assert_false(plim__symbols_knows(symbols, pid, 0));

    plim__symbol s = symbol_of(pid, function + 1);
    assert_string_equal(s.name, "a_function_of_this_file");
    assert_string_equal(s.library, "unit-symbols");
    assert_int_equal(s.offset, 1);
    s = symbol_of(pid, (uintptr_t)&function);
    assert_string_equal(s.name, "");
    assert_string_equal(s.library, "");
}

/* A return address at the very end of a function belongs to it, not to the next. */
static void several_at_once_in_any_order(void **state)
{
    (void)state;
    const int pid = getpid();
    const char *const names[] = {"qsort", "strtol", "getpid", "fopen", "qsort"};
    plim__symbol s[COUNT_OF(names) + 2] = {0};
    plim__symbols_learn(symbols, pid);
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        s[i].pc = (uintptr_t)dlsym(RTLD_NEXT, names[i]) + 2;
        assert_true(s[i].pc > 2);
    }
    s[COUNT_OF(names)].pc = (uintptr_t)a_function_of_this_file + 3;
    s[COUNT_OF(names) + 1].pc = 12345;
    plim__symbols_find(symbols, pid, s, COUNT_OF(s));
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        plim__symbol again = symbol_of(pid, s[i].pc);
        assert_string_equal(again.name, s[i].name);
        assert_true(s[i].name[0] && s[i].library[0]);
        if (strstr(s[i].library, "san")) continue; /* a sanitizer has its own */
        assert_non_null(strstr(s[i].name, names[i]));
    }
    assert_string_equal(s[COUNT_OF(names)].name, "a_function_of_this_file");
    assert_string_equal(s[COUNT_OF(names) + 1].name, "");
    plim__symbols_find(symbols, pid, NULL, 0);
}

static void another_process_that_is_gone(void **state)
{
    (void)state;
    const int pid = fork();
    if (pid == 0)
        for (;;) pause();
    plim__symbols_learn(symbols, pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    plim__symbols_learn(symbols, pid); /* nothing to learn, nothing forgotten */
    const plim__symbol s = symbol_of(pid, (uintptr_t)a_function_of_this_file + 1);
    assert_string_equal(s.name, "a_function_of_this_file");
}

/* More processes than are kept: the newest are known. */
static void many_processes(void **state)
{
    (void)state;
    int last = 0;
    for (int i = 0; i < 200; i++) {
        const int pid = fork();
        if (pid == 0)
            for (;;) pause();
        plim__symbols_learn(symbols, pid);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        last = pid;
    }
    assert_true(plim__symbols_knows(symbols, last, (uintptr_t)a_function_of_this_file + 1));
}

/* ---- files that lie ---- */

/* A small ELF file: one segment, functions f (16 bytes at 0x10) and g (no size, at 0x80), a variable v (8 bytes at 0x200). */
typedef struct small {
    Elf64_Ehdr head;
    Elf64_Phdr load;
    Elf64_Shdr section[4]; /* none, text, symbols, names */
    Elf64_Sym symbol[4];
    char names[32];
} small;

static small small_make(void)
{
    small e = {0};
    memcpy(e.head.e_ident, ELFMAG, SELFMAG);
    e.head.e_ident[EI_CLASS] = ELFCLASS64;
    e.head.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    e.head.e_phoff = offsetof(small, load), e.head.e_phentsize = sizeof e.load, e.head.e_phnum = 1;
    e.head.e_shoff = offsetof(small, section), e.head.e_shentsize = sizeof *e.section, e.head.e_shnum = 4;
    e.load = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_X | PF_R, .p_vaddr = 0x400000, .p_filesz = 0x1000};
    e.section[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addr = 0x400000, .sh_size = 0x100};
    e.section[2] = (Elf64_Shdr){.sh_type = SHT_DYNSYM, .sh_offset = offsetof(small, symbol), .sh_size = sizeof e.symbol, .sh_link = 3};
    e.section[2].sh_entsize = sizeof *e.symbol;
    e.section[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(small, names), .sh_size = sizeof e.names};
    memcpy(e.names, "\0f\0_ZN1a1gEv\0v", 15);
    e.symbol[1] = (Elf64_Sym){.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x400010, .st_size = 16};
    e.symbol[2] = (Elf64_Sym){.st_name = 3, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x400080};
    e.symbol[3] = (Elf64_Sym){.st_name = 13, .st_info = STT_OBJECT, .st_shndx = 1, .st_value = 0x400200, .st_size = 8};
    return e;
}

static char path[] = "/tmp/plimsoll-symbols-XXXXXX";
static char *code; /* the file, mapped executable */

static void file_write(const void *data, size_t n)
{
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

static int file_setup(void **state)
{
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    const int fd = mkstemp(path);
    if (fd < 0) return -1;
    code = mmap(NULL, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    if (code == MAP_FAILED || setup(state)) return -1;
    plim__symbols_learn(symbols, getpid());
    return 0;
}

static int file_teardown(void **state)
{
    munmap(code, 0x1000);
    unlink(path);
    return teardown(state);
}

static void sizes_are_respected(void **state)
{
    (void)state;
    const small e = small_make();
    const struct {
        uint64_t at;
        const char *name;
        uint64_t offset;
    } cases[] = {{0x10, "", 0x10}, {0x11, "f", 1}, {0x20, "f", 16}, {0x21, "", 0x21}, {0x81, "a::g", 1}, {0x100, "a::g", 0x80}, {0x101, "", 0x101}};
    file_write(&e, sizeof e);
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        const plim__symbol s = symbol_of(getpid(), (uintptr_t)code + cases[i].at);
        assert_string_equal(s.name, cases[i].name);
        assert_int_equal(s.offset, cases[i].offset);
        assert_string_equal(s.library, strrchr(path, '/') + 1);
    }
}

static void look(void)
{
    plim__symbol s[4];
    for (uint32_t i = 0; i < COUNT_OF(s); i++) s[i].pc = (uintptr_t)code + 1 + i * 0x28;
    plim__symbols_find(symbols, getpid(), s, COUNT_OF(s));
    for (uint32_t i = 0; i < COUNT_OF(s); i++) assert_true(strnlen(s[i].name, sizeof s[i].name) < sizeof s[i].name);
}

static void files_cut_short(void **state)
{
    (void)state;
    const small e = small_make();
    for (size_t n = 0; n < sizeof e; n++) {
        file_write(&e, n);
        look();
    }
}

static void bytes_changed(void **state)
{
    (void)state;
    const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = SELFMAG; at < offsetof(small, names); at++) {
        for (size_t k = 0; k < COUNT_OF(values); k++) {
            small e = small_make();
            ((unsigned char *)&e)[at] = values[k];
            file_write(&e, sizeof e);
            look();
        }
    }
    for (size_t at = SELFMAG; at + 8 <= offsetof(small, names); at++) { /* whole fields */
        small e = small_make();
        memset((unsigned char *)&e + at, 0xff, 8);
        file_write(&e, sizeof e);
        look();
    }
}

static void replaced_files_give_no_names(void **state)
{
    (void)state;
    const small e = small_make();
    file_write(&e, sizeof e);
    plim__symbols_free(&symbols);
    assert_int_equal(setup(NULL), 0);
    unlink(path);
    plim__symbols_learn(symbols, getpid());
    assert_false(plim__symbols_knows(symbols, getpid(), (uintptr_t)code + 0x11));
}

/* ---- a large library ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void large_library_is_quick(void **state)
{
    (void)state;
    glob_t found;
    if (glob("/usr/lib/*/libtorch_cpu.so", 0, NULL, &found) || !found.gl_pathc) {
        print_message("SKIPPED: libtorch_cpu.so is not installed\n");
        skip();
    }
    const int fd = open(found.gl_pathv[0], O_RDONLY);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    globfree(&found);
    const size_t size = (size_t)st.st_size;
    char *text = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(text, MAP_FAILED);
    plim__symbols_learn(symbols, getpid());
    enum { N = 800 };
    static plim__symbol s[N];
    for (uint32_t i = 0; i < N; i++) s[i].pc = (uintptr_t)text + size / 5 + i * (size / 2 / N);
    const double before = now_ms();
    plim__symbols_find(symbols, getpid(), s, N);
    const double took = now_ms() - before;
    uint32_t named = 0;
    for (uint32_t i = 0; i < N; i++) named += s[i].name[0] != 0;
    print_message("%u addresses in %zu MiB: %u names in %.1f ms\n", N, size >> 20, named, took);
    assert_true(named > N / 50);
    assert_true(took < 2000);
    munmap(text, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(several_at_once_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(another_process_that_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(many_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_are_respected, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(files_cut_short, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(bytes_changed, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(replaced_files_give_no_names, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(large_library_is_quick, setup, teardown),
    };
    return cmocka_run_group_tests_name("symbols", tests, NULL, NULL);
}
