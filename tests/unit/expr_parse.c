/* The syntax of the array language: trees as text, and every refusal with its column. */
#include "expr/ast.h"

#include "countdown.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *text, *tree; } good[] = {
    {"x", "x"},
    {"x+2*y", "(+ x (* 2 y))"},
    {"x-y-z", "(- (- x y) z)"},
    {"x/y*z//w%v@u", "(@ (% (// (* (/ x y) z) w) v) u)"},
    {"2**3**4", "(** 2 (** 3 4))"},
    {"-x**2", "(- (** x 2))"},
    {"2**-x", "(** 2 (- x))"},
    {"-x*y", "(* (- x) y)"},
    {"~x&y", "(& (~ x) y)"},
    {"- + ~x", "(- (+ (~ x)))"},
    {"a|b^c&d<<e+f", "(| a (^ b (& c (<< d (+ e f)))))"},
    {"a<<b>>c", "(>> (<< a b) c)"},
    {"a & b == c", "(== (& a b) c)"},
    {"(a<b)&(c>=d)", "(& (< a b) (>= c d))"},
    {"(a<b)<c", "(< (< a b) c)"},
    {"x != 3", "(!= x 3)"},
    {"mean(x)", "(call mean x)"},
    {"mean(x, axis=0, keepdims=True,)", "(call mean x (axis= 0) (keepdims= True))"},
    {"f()", "(call f)"},
    {"x.mean(0)[1].T", "(.T (index (call (.mean x) 0) 1))"},
    {"np.linalg.norm(x)", "(call (.norm (.linalg np)) x)"},
    {"x[1]", "(index x 1)"},
    {"x[1:2:3]", "(index x (slice 1 2 3))"},
    {"x[::-1]", "(index x (slice _ _ (- 1)))"},
    {"x[:, 1:, ..., None, -1]", "(index x (slice _ _ _) (slice 1 _ _) ... None (- 1))"},
    {"x[a:b+1]", "(index x (slice a (+ b 1) _))"},
    {"x[(1,2)]", "(index x (tuple 1 2))"},
    {"x[0,]", "(index x 0)"},
    {"(1,)", "(tuple 1)"},
    {"()", "(tuple)"},
    {"(1, (2, 3), [4])", "(tuple 1 (tuple 2 3) (list 4))"},
    {"[]", "(list)"},
    {"[(1,2)]", "(list (tuple 1 2))"},
    {"[[1,2],[3,4]]", "(list (list 1 2) (list 3 4))"},
    {"((x))", "x"},
    {"a, b", "(tuple a b)"},
    {"y = x+1", "(= y (+ x 1))"},
    {"y=x;z=y", "(= y x); (= z y)"},
    {";; y=x ;\n z=y;\n", "(= y x); (= z y)"},
    {"v, i = topk(x, 3)", "(= (tuple v i) (call topk x 3))"},
    {"y = (x +\n 1)\ny # the end", "(= y (+ x 1)); y"},
    {"x + \\\n 1", "(+ x 1)"},
    {"# only this\nx", "x"},
    {"1_000 + 0xFF + 0b101 + 0o17", "(+ (+ (+ 1000 255) 5) 15)"},
    {"1e-3", "0.001"},
    {"1. + .5 + 1.5e+3 + 1_0.2_5", "(+ (+ (+ 1 0.5) 1500) 10.25)"},
    {"9223372036854775807", "9223372036854775807"},
    {"00", "0"},
    {"pad(x, 1, 'edge')", "(call pad x 1 'edge')"},
    {"pad(x, 1, \"edge\")", "(call pad x 1 'edge')"},
    {"x.astype(f16).sum(axis=(0, -1))", "(call (.sum (call (.astype x) f16)) (axis= (tuple 0 (- 1))))"},
    {"_a1", "_a1"},
};

static void parses(void **state)
{
    (void)state;
    const plim__alloc alloc = {0};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        plim__ast ast;
        plim_error err = {0};
        char tree[512];
        if (plim__ast_parse(&ast, &alloc, good[i].text, &err) != PLIM_OK) fail_msg("%s: %s", good[i].text, err.message);
        assert_string_equal(plim__ast_dump(&ast, tree, sizeof tree), good[i].tree);
        plim__ast_free(&ast);
    }
}

static const struct { const char *text; int column; const char *message; } bad[] = {
    {"", 1, "empty"},
    {" ; # nothing", 1, "empty"},
    {"x +", 4, "expected an array"},
    {"x + ;", 5, "statement ends here"},
    {"(x", 3, "')'"},
    {"x)", 2, "not ')'"},
    {"x y", 3, "not 'y'"},
    {"x = ", 5, "expected"},
    {"x == ", 6, "expected"},
    {"= 3", 1, "expected"},
    {"f(x) = 3", 6, "left of '='"},
    {"a = b = c", 7, "one '='"},
    {"x; y = 1", 1, "only the last statement"},
    {"y = 1; x; z = 2", 8, "only the last statement"},
    {"1 < x < 2", 7, "(a < b) & (b < c)"},
    {"a and b", 3, "&"},
    {"a or b", 3, "|"},
    {"not a", 1, "~"},
    {"(a and b)", 4, "&"},
    {"f(a or b)", 5, "|"},
    {"a && b", 3, "'&'"},
    {"a || b", 3, "'|'"},
    {"!a", 1, "'~'"},
    {"a if b else c", 3, "where("},
    {"[i for i in x]", 4, "no loops"},
    {"lambda x: x", 1, "cannot be defined"},
    {"x += 1", 3, "new name"},
    {"x **= 2", 3, "new name"},
    {"x <<= 2", 3, "new name"},
    {"x[", 3, "expected"},
    {"x[]", 3, "an index or a slice"},
    {"x[1", 4, "']'"},
    {"x[1:2:3:4]", 8, "expected"},
    {"f(x", 4, "')'"},
    {"f(x,, y)", 5, "expected"},
    {"f(a=1, x)", 8, "without a name"},
    {"f(3=1)", 4, "name of a parameter"},
    {"x.", 3, "a name after '.'"},
    {"x.3", 2, "expected"},
    {"3x", 2, "'*' missing"},
    {"1.5e", 4, "'*' missing"},
    {"0x", 1, "digits are missing"},
    {"012", 1, "begin with 0"},
    {"2j", 1, "complex"},
    {"9223372036854775808", 1, "64 bits"},
    {"'abc", 1, "does not end"},
    {"'a\nb'", 1, "does not end"},
    {"'a\\n'", 2, "no escapes"},
    {"x $ y", 3, "'$'"},
    {"x \xc3\x97 y", 3, "0xc3"},
    {"x?", 2, "'?'"},
    {"x -> y", 4, "expected"},
};

static void refuses(void **state)
{
    (void)state;
    const plim__alloc alloc = {0};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        plim__ast ast;
        plim_error err = {0};
        if (plim__ast_parse(&ast, &alloc, bad[i].text, &err) == PLIM_OK) fail_msg("%s: accepted", bad[i].text);
        if (err.column != bad[i].column || !strstr(err.message, bad[i].message))
            fail_msg("%s: column %d, '%s'; wanted column %d, '%s'", bad[i].text, err.column, err.message, bad[i].column, bad[i].message);
        assert_true(err.code == PLIM_E_SYNTAX || err.code == PLIM_E_UNSUPPORTED);
        assert_int_equal(plim__ast_parse(&ast, &alloc, bad[i].text, NULL), err.code);
    }
}

/* Whatever the text, recursion is bounded: by the parser's depth where it nests, by the tree's height where it does not. */
static void is_bounded(void **state)
{
    (void)state;
    static const struct { const char *head, *unit, *tail; uint32_t fits; } shape[] = {
        {"", "(", "x", 0}, {"", "-", "x", PLIM__AST_MAX_DEPTH - 2}, {"", "[", "x", 0}, {"", "f(", "x", 0}, {"", "2**", "2", 90},
        {"x", "+x", "", PLIM__AST_MAX_HEIGHT - 3}, {"x", ".T", "", PLIM__AST_MAX_HEIGHT - 3}, {"x", "[0]", "", PLIM__AST_MAX_HEIGHT - 3},
    };
    const plim__alloc alloc = {0};
    char *text = malloc(1 << 20);
    assert_non_null(text);
    for (size_t i = 0; i < COUNT_OF(shape); i++) {
        for (int many = 0; many < 2; many++) {
            const uint32_t count = many ? 100000 : shape[i].fits;
            char *at = text + sprintf(text, "%s", shape[i].head);
            for (uint32_t k = 0; k < count; k++) at += sprintf(at, "%s", shape[i].unit);
            sprintf(at, "%s", shape[i].tail);
            plim__ast ast;
            plim_error err = {0};
            const plim_status status = plim__ast_parse(&ast, &alloc, text, &err);
            if (status == PLIM_OK) plim__ast_free(&ast);
            if (many) assert_int_equal(status, PLIM_E_SYNTAX);
            else assert_int_equal(status, PLIM_OK);
        }
    }
    strcpy(text, "[1");
    for (int k = 0; k < 70000; k++) strcpy(text + 2 + 2 * k, ",1");
    strcat(text, "]");
    plim__ast ast;
    plim_error err = {0};
    assert_int_equal(plim__ast_parse(&ast, &alloc, text, &err), PLIM_E_SYNTAX);
    assert_non_null(strstr(err.message, "65536"));
    free(text);
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        countdown c = {.left = n, .from_then = true};
        const plim__alloc alloc = countdown_of(&c);
        plim__ast ast;
        plim_error err = {0};
        const plim_status status = plim__ast_parse(&ast, &alloc, "y = mean((x-3)**2, axis=(0, 1)); y[::2, None].T + [1, 2, 3][0]", &err);
        if (status == PLIM_OK) plim__ast_free(&ast);
        assert_int_equal(c.live, 0);
        if (status == PLIM_OK) break;
        assert_int_equal(status, PLIM_E_NOMEM);
        assert_true(n < 100);
    }
}

static void dumps_into_small_buffers(void **state)
{
    (void)state;
    const plim__alloc alloc = {0};
    plim__ast ast;
    assert_int_equal(plim__ast_parse(&ast, &alloc, "x + y", NULL), PLIM_OK);
    char buf[8];
    for (size_t size = 1; size <= sizeof buf; size++) {
        memset(buf, '!', sizeof buf);
        plim__ast_dump(&ast, buf, size);
        assert_int_equal(strlen(buf), size - 1 < 7 ? size - 1 : 7);
        assert_memory_equal(buf, "(+ x y)", size - 1);
    }
    plim__ast_free(&ast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses),
        cmocka_unit_test(refuses),
        cmocka_unit_test(is_bounded),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(dumps_into_small_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
