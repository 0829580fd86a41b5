/* The Keras reader: models written out here, evaluated and compared with loops in double over channels-last arrays, as Keras means them; both
 * forms of nodes, nested and shared layers; what is refused, and how it says so. Files are in keras_files.c. */
#include "keras_net.h"

#include "countdown.h"

#include <ctype.h>

/* -------------------------------------------------------------------------------------------------------- convolutions */

/* Channels last, kernel [kh, kw, in / groups, out]: what Keras documents, in the plainest way. */
typedef struct conv_case {
    int64_t h, w, c, filters, kh, kw, sh, sw, dh, dw, groups;
    bool same;
} conv_case;

static int64_t out_extent(int64_t n, int64_t k, int64_t s, int64_t d, bool same) { return same ? (n + s - 1) / s : (n - ((k - 1) * d + 1)) / s + 1; }

static int64_t border_before(int64_t n, int64_t k, int64_t s, int64_t d, bool same)
{
    const int64_t out = out_extent(n, k, s, d, same), total = (out - 1) * s + (k - 1) * d + 1 - n;
    return same && total > 0 ? total / 2 : 0;
}

static double *conv_reference(const net *n, const conv_case *c, int64_t batch)
{
    const int64_t oh = out_extent(c->h, c->kh, c->sh, c->dh, c->same), ow = out_extent(c->w, c->kw, c->sw, c->dw, c->same);
    const int64_t top = border_before(c->h, c->kh, c->sh, c->dh, c->same), left = border_before(c->w, c->kw, c->sw, c->dw, c->same);
    const int64_t per = c->c / c->groups, each = c->filters / c->groups;
    double *y = calloc((size_t)(batch * oh * ow * c->filters), sizeof *y);
    for (int64_t i = 0; i < batch * oh * ow * c->filters; i++) {
        const int64_t f = i % c->filters, x0 = i / c->filters % ow, y0 = i / c->filters / ow % oh, b = i / c->filters / ow / oh;
        double sum = param_at(n, 1, (uint64_t)f);
        for (int64_t p = 0; p < c->kh * c->kw * per; p++) {
            const int64_t ch = p % per, kx = p / per % c->kw, ky = p / per / c->kw;
            const int64_t iy = y0 * c->sh - top + ky * c->dh, ix = x0 * c->sw - left + kx * c->dw;
            if (iy < 0 || iy >= c->h || ix < 0 || ix >= c->w) continue;
            sum += in_at(n, (uint64_t)(((b * c->h + iy) * c->w + ix) * c->c + f / each * per + ch)) * param_at(n, 0, (uint64_t)(p * c->filters + f));
        }
        y[i] = sum;
    }
    return y;
}

static void convolves(void **state)
{
    (void)state;
    static const conv_case cases[] = {
        {7, 9, 3, 4, 3, 3, 1, 1, 1, 1, 1, false}, {7, 9, 3, 4, 3, 3, 1, 1, 1, 1, 1, true}, {8, 9, 2, 3, 3, 2, 2, 2, 1, 1, 1, true},
        {8, 7, 2, 3, 2, 5, 2, 3, 1, 1, 1, false}, {9, 9, 2, 2, 3, 3, 1, 1, 2, 3, 1, true}, {6, 6, 4, 6, 3, 3, 1, 1, 1, 1, 2, true},
        {5, 5, 3, 2, 1, 1, 2, 2, 1, 1, 1, true}, {6, 4, 1, 3, 3, 3, 1, 1, 1, 1, 1, true},
    };
    const plim__model_options two = {.batch = 2};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const conv_case *c = &cases[i];
        char layers[512];
        snprintf(layers, sizeof layers,
                 INPUT("[null,%d,%d,%d]") "," LAYER("Conv2D", "c",
                         ",'filters':%d,'kernel_size':[%d,%d],'strides':[%d,%d],'dilation_rate':[%d,%d],'groups':%d,'padding':'%s'"),
                 (int)c->h, (int)c->w, (int)c->c, (int)c->filters, (int)c->kh, (int)c->kw, (int)c->sh, (int)c->sw, (int)c->dh, (int)c->dw,
                         (int)c->groups,
                 c->same ? "same" : "valid");
        net n = net_run(sequential(layers), &two);
        double *want = conv_reference(&n, c, 2);
        const plim_shape *s = shape_of(&n, n.m->output[0].value);
        assert_int_equal(s->dim[1], out_extent(c->h, c->kh, c->sh, c->dh, c->same));
        assert_int_equal(s->dim[3], c->filters);
        expect(&n, want, (uint64_t)(2 * s->dim[1] * s->dim[2] * c->filters), "Conv2D");
        free(want);
        net_close(&n);
    }
}

/* channels_first is the model's own order then: no transposes but the kernel's. */
static void convolves_channels_first(void **state)
{
    (void)state;
    net n = net_run(sequential(INPUT("[null,3,5,6]") "," LAYER("Conv2D", "c",
            ",'filters':2,'kernel_size':3,'data_format':'channels_first','activation':'linear'")), NULL);
    expect_shape(shape_of(&n, n.m->output[0].value), "[1,2,3,4]");
    assert_int_equal(count_op(&n, PLIM__OP_TRANSPOSE), 1);
    double want[24];
    for (int i = 0; i < 24; i++) {
        want[i] = param_at(&n, 1, (uint64_t)(i / 12));
        for (int p = 0; p < 27; p++) {
            const int ch = p / 9, y = i / 4 % 3 + p / 3 % 3, x = i % 4 + p % 3;
            want[i] += in_at(&n, (uint64_t)((ch * 5 + y) * 6 + x)) * param_at(&n, 0, (uint64_t)((p % 9 * 3 + ch) * 2 + i / 12));
        }
    }
    expect(&n, want, 24, "channels_first");
    net_close(&n);
}

static void convolves_in_time(void **state)
{
    (void)state;
    net n = net_run(sequential(INPUT("[null,10,2]") "," LAYER("Conv1D", "c",
            ",'filters':3,'kernel_size':[3],'dilation_rate':[2],'padding':'causal','use_bias':false")), NULL);
    double want[30];
    for (int i = 0; i < 30; i++) {
        want[i] = 0;
        for (int p = 0; p < 6; p++) {
            const int t = i / 3 - 4 + p / 2 * 2;
            if (t >= 0) want[i] += in_at(&n, (uint64_t)(t * 2 + p % 2)) * param_at(&n, 0, (uint64_t)(p * 3 + i % 3));
        }
    }
    assert_int_equal(n.m->n_params, 1);
    expect(&n, want, 30, "causal");
    net_close(&n);
}

static void convolves_depthwise_and_separable(void **state)
{
    (void)state;
    net n = net_run(sequential(INPUT("[null,6,5,3]") "," LAYER("DepthwiseConv2D", "d",
            ",'kernel_size':[3,3],'depth_multiplier':2,'padding':'same'")), NULL);
    double want[6 * 5 * 6], point[6 * 5 * 4];
    for (int i = 0; i < 6 * 5 * 6; i++) {
        const int f = i % 6, x = i / 6 % 5, y = i / 30;
        want[i] = param_at(&n, 1, (uint64_t)f);
        for (int p = 0; p < 9; p++) {
            const int iy = y - 1 + p / 3, ix = x - 1 + p % 3;
            if (iy >= 0 && iy < 6 && ix >= 0 && ix < 5) want[i] += in_at(&n, (uint64_t)((iy * 5 + ix) * 3 + f / 2)) * param_at(&n, 0,
                    (uint64_t)(p * 6 + f));
        }
    }
    expect(&n, want, COUNT_OF(want), "DepthwiseConv2D");
    net_close(&n);

    n = net_run(sequential(INPUT("[null,6,5,3]") "," LAYER("SeparableConv2D", "s",
            ",'filters':4,'kernel_size':[3,3],'depth_multiplier':2,'padding':'same'")), NULL);
    assert_int_equal(n.m->n_params, 3);
    expect_shape(shape_of(&n, n.m->param[1].value), "[1,1,6,4]");
    for (int i = 0; i < 6 * 5 * 6; i++) {
        const int f = i % 6, x = i / 6 % 5, y = i / 30;
        want[i] = 0;
        for (int p = 0; p < 9; p++) {
            const int iy = y - 1 + p / 3, ix = x - 1 + p % 3;
            if (iy >= 0 && iy < 6 && ix >= 0 && ix < 5) want[i] += in_at(&n, (uint64_t)((iy * 5 + ix) * 3 + f / 2)) * param_at(&n, 0,
                    (uint64_t)(p * 6 + f));
        }
    }
    for (int i = 0; i < 6 * 5 * 4; i++) {
        point[i] = param_at(&n, 2, (uint64_t)(i % 4));
        for (int f = 0; f < 6; f++) point[i] += want[i / 4 * 6 + f] * param_at(&n, 1, (uint64_t)(f * 4 + i % 4));
    }
    expect(&n, point, COUNT_OF(point), "SeparableConv2D");
    net_close(&n);
}

/* Each input element is spread over the output by the kernel [kh, kw, out, in]; "same" cuts the border off, the odd element behind. */
static void convolves_transposed(void **state)
{
    (void)state;
    static const struct {
        int k, s, extent;
        const char *padding, *extra;
    } cases[] = {{2, 2, 8, "same", ""}, {3, 2, 8, "same", ""}, {3, 2, 9, "valid", ""}, {2, 3, 12, "valid", ""}, {3, 1, 4, "same", ""}, {4, 2, 8,
            "same", ""},
                 {3, 2, 8, "same", ",'output_padding':[1,1]"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int k = cases[i].k, s = cases[i].s, extent = cases[i].extent;
        char layers[512];
        snprintf(layers, sizeof layers, INPUT("[null,4,4,2]") "," LAYER("Conv2DTranspose", "t",
                ",'filters':3,'kernel_size':[%d,%d],'strides':[%d,%d],'padding':'%s'%s"), k, k,
                 s, s, cases[i].padding, cases[i].extra);
        net n = net_run(sequential(layers), NULL);
        const plim_shape *shape = shape_of(&n, n.m->output[0].value);
        assert_int_equal(shape->dim[1], extent);
        double *want = calloc((size_t)(extent * extent * 3), sizeof *want);
        const int total = 3 * s + k - extent, before = strcmp(cases[i].padding, "same") == 0 && total > 0 ? total / 2 : 0;
        for (int o = 0; o < extent * extent * 3; o++) want[o] = param_at(&n, 1, (uint64_t)(o % 3));
        for (int p = 0; p < 16 * k * k * 6; p++) {
            const int c = p % 2, f = p / 2 % 3, kx = p / 6 % k, ky = p / 6 / k % k, x = p / 6 / k / k % 4, y = p / 6 / k / k / 4;
            const int ox = x * s + kx - before, oy = y * s + ky - before;
            if (ox < 0 || ox >= extent || oy < 0 || oy >= extent) continue;
            want[(oy * extent + ox) * 3 + f] += in_at(&n, (uint64_t)((y * 4 + x) * 2 + c)) * param_at(&n, 0,
                    (uint64_t)(((ky * k + kx) * 3 + f) * 2 + c));
        }
        expect(&n, want, (uint64_t)(extent * extent * 3), "Conv2DTranspose");
        free(want);
        net_close(&n);
    }
}

static void pools(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const bool average = i & 1, same = i & 2;
        const int stride = i & 4 ? 3 : 2, size = 3;
        char layers[512];
        snprintf(layers, sizeof layers, INPUT("[null,7,8,2]")
                ",{'class_name':'%s','config':{'name':'p','pool_size':[%d,%d],'strides':[%d,%d],'padding':'%s'}}",
                 average ? "AveragePooling2D" : "MaxPooling2D", size, size, stride, stride, same ? "same" : "valid");
        net n = net_run(sequential(layers), NULL);
        const int oh = (int)out_extent(7, size, stride, 1, same), ow = (int)out_extent(8, size, stride, 1, same);
        const int top = (int)border_before(7, size, stride, 1, same), left = (int)border_before(8, size, stride, 1, same);
        double want[7 * 8 * 2];
        for (int o = 0; o < oh * ow * 2; o++) {
            double sum = 0, most = -INFINITY;
            int count = 0;
            for (int p = 0; p < size * size; p++) {
                const int y = o / 2 / ow * stride - top + p / size, x = o / 2 % ow * stride - left + p % size;
                if (y < 0 || y >= 7 || x < 0 || x >= 8) continue;
                const double v = in_at(&n, (uint64_t)((y * 8 + x) * 2 + o % 2));
                sum += v;
                most = fmax(most, v);
                count++;
            }
            want[o] = average ? sum / count : most;
        }
        expect(&n, want, (uint64_t)(oh * ow * 2), "pool");
        net_close(&n);
    }
}

/* A whole small network; and transposes only where the order changes hands: at the input, before Flatten, and of the kernels. */
static void runs_a_chain(void **state)
{
    (void)state;
    net n = net_run(sequential(INPUT("[null,8,8,3]") "," LAYER("Conv2D", "a",
            ",'filters':4,'kernel_size':[3,3],'padding':'same','activation':'relu'") ","
                               LAYER("BatchNormalization", "b", ",'axis':[3],'epsilon':0.01") "," LAYER("Activation", "r", ",'activation':'tanh'") ","
                               LAYER("MaxPooling2D", "p", ",'pool_size':[2,2]") "," LAYER("Conv2D", "c",
                                       ",'filters':5,'kernel_size':[3,3],'padding':'same'") ","
                               LAYER("Flatten", "f", "") "," LAYER("Dense", "d", ",'units':6,'activation':'softmax'")), NULL);
    assert_int_equal(count_op(&n, PLIM__OP_TRANSPOSE), 4);
    assert_string_equal(n.m->layer[1].name, "a");
    assert_string_equal(n.m->layer[1].kind, "Conv2D");
    assert_string_equal(n.m->param[0].name, "a/kernel");
    assert_string_equal(n.m->output[0].name, "d");
    assert_string_equal(n.m->input[0].name, "in");
    double sum = 0;
    for (uint64_t i = 0; i < 6; i++) sum += out_at(&n, i);
    assert_true(fabs(sum - 1) < 1e-5);

    double a[64 * 4], p[16 * 4], y[16 * 5], z[6];
    double *conv = conv_reference(&n, &(conv_case){8, 8, 3, 4, 3, 3, 1, 1, 1, 1, 1, true}, 1);
    for (uint64_t i = 0; i < 256; i++) {
        const uint64_t c = i % 4;
        const double x = (fmax(conv[i], 0) - param_at(&n, 4, c)) / sqrt(param_at(&n, 5, c) + 0.01);
        a[i] = tanh(x * param_at(&n, 2, c) + param_at(&n, 3, c));
    }
    free(conv);
    for (int i = 0; i < 64; i++) {
        const double *w = &a[(i / 16 * 2 * 8 + i / 4 % 4 * 2) * 4 + i % 4];
        p[i] = fmax(fmax(w[0], w[4]), fmax(w[32], w[36]));
    }
    for (int i = 0; i < 80; i++) {
        y[i] = param_at(&n, 7, (uint64_t)(i % 5));
        for (int k = 0; k < 36; k++) {
            const int iy = i / 20 - 1 + k / 12, ix = i / 5 % 4 - 1 + k / 4 % 3;
            if (iy >= 0 && iy < 4 && ix >= 0 && ix < 4) y[i] += p[(iy * 4 + ix) * 4 + k % 4] * param_at(&n, 6, (uint64_t)(k * 5 + i % 5));
        }
    }
    sum = 0;
    for (int i = 0; i < 6; i++) {
        z[i] = param_at(&n, 9, (uint64_t)i);
        for (int k = 0; k < 80; k++) z[i] += y[k] * param_at(&n, 8, (uint64_t)(k * 6 + i));
        z[i] = exp(z[i]);
        sum += z[i];
    }
    for (int i = 0; i < 6; i++) z[i] /= sum;
    expect(&n, z, 6, "chain");
    net_close(&n);
}

/* ---------------------------------------------------------------------------------------------------------- Functional */

#define TENSOR(name, node) "{'class_name':'__keras_tensor__','config':{'shape':[null,4],'dtype':'float32','keras_history':['" name "'," node ",0]}}"
#define NODE2(kind, name, rest, nodes) "{'class_name':'" kind "','name':'" name "','config':{'name':'" name "'" rest "},'inbound_nodes':" nodes "}"
#define NODE3(kind, name, rest, nodes) "{'module':'keras.layers','class_name':'" kind "','name':'" name "','config':{'name':'" name "'" \
        rest "},'inbound_nodes':" nodes "}"

/* The same in both forms, layers out of order: d(x) is used twice, the shared layer s is called twice. */
static const char *two_forms(int keras)
{
    return keras == 2 ? quoted("{'class_name':'Functional','config':{'name':'f','layers':["
                               NODE2("Add", "sum", "", "[[['s',0,0,{}],['s',1,0,{}]]]") ","
                               NODE2("InputLayer", "x", ",'batch_input_shape':[null,4]", "[]") ","
                               NODE2("Dense", "d", ",'units':4,'activation':'relu'", "[[['x',0,0,{}]]]") ","
                               NODE2("Dense", "s", ",'units':3", "[[['d',0,0,{}]],[['x',0,0,{}]]]") ","
                               NODE2("Concatenate", "join", ",'axis':-1", "[[['sum',0,0,{}],['d',0,0,{}]]]")
                               "],'input_layers':[['x',0,0]],'output_layers':[['join',0,0],['sum',0,0]]}}")
                      : quoted("{'module':'keras.src.models.functional','class_name':'Functional','config':{'name':'f','layers':["
                               NODE3("Add", "sum", "", "[{'args':[[" TENSOR("s", "0") "," TENSOR("s", "1") "]],'kwargs':{}}]") ","
                               NODE3("InputLayer", "x", ",'batch_shape':[null,4]", "[]") ","
                               NODE3("Dense", "d", ",'units':4,'activation':'relu'", "[{'args':[" TENSOR("x", "0") "],'kwargs':{}}]") ","
                               NODE3("Dense", "s", ",'units':3", "[{'args':[" TENSOR("d", "0") "],'kwargs':{}},{'args':[" TENSOR("x",
                                       "0") "],'kwargs':{'training':null}}]") ","
                               NODE3("Concatenate", "join", ",'axis':-1", "[{'args':[[" TENSOR("sum", "0") "," TENSOR("d", "0") "]],'kwargs':{}}]")
                               "],'input_layers':[['x',0,0]],'output_layers':[['join',0,0],['sum',0,0]]}}");
}

static void reads_both_forms(void **state)
{
    (void)state;
    for (int keras = 2; keras <= 3; keras++) {
        net n = net_run(two_forms(keras), NULL);
        assert_int_equal(n.m->n_params, 4);
        assert_int_equal(n.m->n_outputs, 2);
        assert_string_equal(n.m->output[1].name, "sum");
        double d[4], want[7];
        const uint32_t kernel_d = strcmp(n.m->param[0].name, "d/kernel") == 0 ? 0 : 2, kernel_s = 2 - kernel_d;
        for (int i = 0; i < 4; i++) {
            d[i] = param_at(&n, kernel_d + 1, (uint64_t)i);
            for (int k = 0; k < 4; k++) d[i] += in_at(&n, (uint64_t)k) * param_at(&n, kernel_d, (uint64_t)(k * 4 + i));
            d[i] = want[3 + i] = fmax(d[i], 0);
        }
        for (int i = 0; i < 3; i++) {
            want[i] = 2 * param_at(&n, kernel_s + 1, (uint64_t)i);
            for (int k = 0; k < 4; k++) want[i] += (in_at(&n, (uint64_t)k) + d[k]) * param_at(&n, kernel_s, (uint64_t)(k * 3 + i));
        }
        expect(&n, want, 7, keras == 2 ? "Keras 2" : "Keras 3");
        net_close(&n);
    }
}

/* A model inside a model, called twice; Keras 2 counts its nodes from 1. */
static void reads_nested_models(void **state)
{
    (void)state;
    static const char inner[] = "{'class_name':'Sequential','name':'inner','config':{'name':'inner','layers':[" INPUT("[null,3]") "," LAYER("Dense",
            "d", ",'units':3") "]},"
                                "'inbound_nodes':[[['x',0,0,{}]],[['inner',1,0,{}]]]}";
    net n = net_run(quoted("{'class_name':'Model','config':{'name':'outer','layers':[" NODE2("InputLayer", "x", ",'batch_input_shape':[2,3]",
            "[]") ",%s],"
                           "'input_layers':[['x',0,0]],'output_layers':[['inner',2,0]]}}", inner), NULL);
    assert_int_equal(n.m->n_params, 2);
    assert_string_equal(n.m->param[0].name, "inner/d/kernel");
    double want[6];
    for (int i = 0; i < 6; i++) {
        double mid[3];
        for (int k = 0; k < 3; k++) {
            mid[k] = param_at(&n, 1, (uint64_t)k);
            for (int j = 0; j < 3; j++) mid[k] += in_at(&n, (uint64_t)(i / 3 * 3 + j)) * param_at(&n, 0, (uint64_t)(j * 3 + k));
        }
        want[i] = param_at(&n, 1, (uint64_t)(i % 3));
        for (int k = 0; k < 3; k++) want[i] += mid[k] * param_at(&n, 0, (uint64_t)(k * 3 + i % 3));
    }
    expect(&n, want, 6, "nested");
    net_close(&n);
}

/* Skip connections between convolutions stay channels-first; the input joins them once. */
static void merges_images(void **state)
{
    (void)state;
    net n = net_run(quoted("{'class_name':'Functional','config':{'name':'f','layers':["
                           NODE2("InputLayer", "x", ",'batch_input_shape':[null,4,5,2]", "[]") ","
                           NODE2("Conv2D", "a", ",'filters':2,'kernel_size':[1,1],'use_bias':false", "[[['x',0,0,{}]]]") ","
                           NODE2("Multiply", "m", "", "[[['x',0,0,{}],['a',0,0,{}]]]") ","
                           NODE2("Average", "v", "", "[[['m',0,0,{}],['a',0,0,{}],['x',0,0,{}]]]") ","
                           NODE2("Concatenate", "c", ",'axis':3", "[[['v',0,0,{}],['a',0,0,{}]]]")
                           "],'input_layers':[['x',0,0]],'output_layers':[['c',0,0]]}}"), NULL);
    assert_int_equal(count_op(&n, PLIM__OP_TRANSPOSE), 3); /* x, the kernel, the output */
    double want[80];
    for (int i = 0; i < 20; i++) {
        for (int f = 0; f < 2; f++) {
            const double x = in_at(&n, (uint64_t)(2 * i + f));
            const double a = in_at(&n, (uint64_t)(2 * i)) * param_at(&n, 0, (uint64_t)f) + in_at(&n, (uint64_t)(2 * i + 1)) * param_at(&n, 0,
                    (uint64_t)(2 + f));
            want[4 * i + f] = (x * a + a + x) / 3;
            want[4 * i + 2 + f] = a;
        }
    }
    expect(&n, want, 80, "merge");
    net_close(&n);
}

/* ------------------------------------------------------------------------------------------------- activations and norms */

static double keras_function(const char *name, double x, int keras)
{
    if (strcmp(name, "relu") == 0) return fmax(x, 0);
    if (strcmp(name, "relu6") == 0) return fmin(fmax(x, 0), 6);
    if (strcmp(name, "leaky_relu") == 0) return x > 0 ? x : 0.2 * x;
    if (strcmp(name, "elu") == 0 || strcmp(name, "celu") == 0) return x > 0 ? x : expm1(x);
    if (strcmp(name, "selu") == 0) return 1.05070098 * (x > 0 ? x : 1.67326324 * expm1(x));
    if (strcmp(name, "gelu") == 0) return x * 0.5 * (1 + erf(x / sqrt(2)));
    if (strcmp(name, "sigmoid") == 0) return 1 / (1 + exp(-x));
    if (strcmp(name, "hard_sigmoid") == 0) return keras == 2 ? fmin(fmax(0.2 * x + 0.5, 0), 1) : fmin(fmax(x / 6 + 0.5, 0), 1);
    if (strcmp(name, "swish") == 0 || strcmp(name, "silu") == 0) return x / (1 + exp(-x));
    if (strcmp(name, "hard_silu") == 0) return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    if (strcmp(name, "tanh") == 0) return tanh(x);
    if (strcmp(name, "softplus") == 0) return log1p(exp(x));
    if (strcmp(name, "softsign") == 0) return x / (1 + fabs(x));
    if (strcmp(name, "exponential") == 0) return exp(x);
    if (strcmp(name, "mish") == 0) return x * tanh(log1p(exp(x)));
    if (strcmp(name, "log_sigmoid") == 0) return -log1p(exp(-x));
    if (strcmp(name, "hard_tanh") == 0) return fmin(fmax(x, -1), 1);
    if (strcmp(name, "tanh_shrink") == 0) return x - tanh(x);
    if (strcmp(name, "soft_shrink") == 0) return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0;
    if (strcmp(name, "hard_shrink") == 0) return fabs(x) > 0.5 ? x : 0;
    if (strcmp(name, "squareplus") == 0) return (x + sqrt(x * x + 4)) / 2;
    return x; /* linear */
}

static void activates(void **state)
{
    (void)state;
    static const char *const names[] = {"linear", "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "sigmoid", "hard_sigmoid", "swish",
            "silu", "hard_silu",
                                        "tanh", "softplus", "softsign", "exponential", "mish", "log_sigmoid", "hard_tanh", "tanh_shrink",
                                                "soft_shrink", "hard_shrink",
                                        "squareplus"};
    for (int i = 0; i < 2 * (int)COUNT_OF(names); i++) {
        const char *name = names[i / 2];
        const int keras = 2 + i % 2;
        net n = net_open(quoted("{'class_name':'Sequential','keras_version':'%d.1.0','config':{'name':'m','layers':[" INPUT("[null,40]") ","
                                LAYER("Rescaling", "s", ",'scale':4,'offset':0.5")
                                        ",{'class_name':'Activation','config':{'name':'a','activation':%s%s%s}}]}}", keras,
                                keras == 3 ? "{'module':'builtins','class_name':'function','config':'" : "'", name,
                                        keras == 3 ? "','registered_name':'x'}" : "'"), NULL);
        parts_run(n.m->graph, n.data, PARTS_WHOLE, &n.rng);
        double want[40];
        for (uint64_t k = 0; k < 40; k++) want[k] = keras_function(name, in_at(&n, k) * 4 + 0.5, keras);
        expect(&n, want, 40, name);
        net_close(&n);
    }
}

static void activates_with_options(void **state)
{
    (void)state;
    static const struct {
        const char *layer;
        double slope, threshold, most;
    } cases[] = {
        {LAYER("ReLU", "a", ",'max_value':0.5,'negative_slope':0.1,'threshold':0.25"), 0.1, 0.25, 0.5},
        {LAYER("ReLU", "a", ",'max_value':null,'negative_slope':[0.0],'threshold':0"), 0, 0, INFINITY},
        {LAYER("LeakyReLU", "a", ",'alpha':0.25"), 0.25, 0, INFINITY},
        {LAYER("LeakyReLU", "a", ",'negative_slope':0.5"), 0.5, 0, INFINITY},
        {LAYER("LeakyReLU", "a", ""), 0.3, 0, INFINITY},
        {LAYER("Activation", "a", ",'activation':{'class_name':'LeakyReLU','config':{'name':'q','alpha':0.125}}"), 0.125, 0, INFINITY},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char layers[512];
        snprintf(layers, sizeof layers, INPUT("[null,40]") ",%s", cases[i].layer);
        net n = net_run(sequential(layers), NULL);
        double want[40];
        for (uint64_t k = 0; k < 40; k++) {
            const double x = in_at(&n, k);
            want[k] = fmin(x >= cases[i].threshold ? x : cases[i].slope * (x - cases[i].threshold), cases[i].most);
        }
        expect(&n, want, 40, cases[i].layer);
        net_close(&n);
    }
    net n = net_run(sequential(INPUT("[null,3,4,2]") "," LAYER("Conv2D", "c", ",'filters':2,'kernel_size':[1,1],'use_bias':false") ","
                               LAYER("PReLU", "p", ",'shared_axes':[1]")), NULL);
    double want[24];
    expect_shape(shape_of(&n, n.m->param[1].value), "[1,4,2]");
    for (int i = 0; i < 24; i++) {
        const double x = in_at(&n, (uint64_t)(i / 2 * 2)) * param_at(&n, 0, (uint64_t)(i % 2)) + in_at(&n, (uint64_t)(i / 2 * 2 + 1)) * param_at(&n,
                0, (uint64_t)(2 + i % 2));
        want[i] = x > 0 ? x : x * param_at(&n, 1, (uint64_t)(i % 8));
    }
    expect(&n, want, 24, "PReLU");
    net_close(&n);
}

static void normalises(void **state)
{
    (void)state;
    double want[60];
    net n = net_run(sequential(INPUT("[null,5,6]") "," LAYER("LayerNormalization", "l", ",'axis':[2],'epsilon':0.01")),
            &(plim__model_options){.batch = 2});
    for (int r = 0; r < 10; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < 6; i++) mean += in_at(&n, (uint64_t)(r * 6 + i)) / 6;
        for (int i = 0; i < 6; i++) var += pow(in_at(&n, (uint64_t)(r * 6 + i)) - mean, 2) / 6;
        for (uint64_t i = 0; i < 6; i++) want[r * 6 + (int)i] = (in_at(&n, (uint64_t)r * 6 + i) - mean) / sqrt(var + 0.01) * param_at(&n, 0,
                i) + param_at(&n, 1, i);
    }
    expect(&n, want, 60, "LayerNormalization");
    net_close(&n);

    n = net_run(sequential(INPUT("[null,5,6]") "," LAYER("GroupNormalization", "g", ",'groups':3,'center':false")),
            &(plim__model_options){.batch = 2});
    for (int r = 0; r < 6; r++) { /* sample r / 3, group r % 3: two channels at five places */
        double mean = 0, var = 0;
        for (int i = 0; i < 10; i++) mean += in_at(&n, (uint64_t)((r / 3 * 5 + i / 2) * 6 + r % 3 * 2 + i % 2)) / 10;
        for (int i = 0; i < 10; i++) var += pow(in_at(&n, (uint64_t)((r / 3 * 5 + i / 2) * 6 + r % 3 * 2 + i % 2)) - mean, 2) / 10;
        for (int i = 0; i < 10; i++) {
            const int k = (r / 3 * 5 + i / 2) * 6 + r % 3 * 2 + i % 2;
            want[k] = (in_at(&n, (uint64_t)k) - mean) / sqrt(var + 1e-3) * param_at(&n, 0, (uint64_t)(k % 6));
        }
    }
    assert_int_equal(n.m->n_params, 1);
    expect(&n, want, 60, "GroupNormalization");
    net_close(&n);

    n = net_run(sequential(INPUT("[null,5,6]") "," LAYER("UnitNormalization", "u", "")), &(plim__model_options){.batch = 2});
    for (int i = 0; i < 60; i++) {
        double sum = 0;
        for (int k = 0; k < 6; k++) sum += pow(in_at(&n, (uint64_t)(i / 6 * 6 + k)), 2);
        want[i] = in_at(&n, (uint64_t)i) / sqrt(sum);
    }
    expect(&n, want, 60, "UnitNormalization");
    net_close(&n);

    n = net_run(sequential(INPUT("[null,5,6]") "," LAYER("Normalization", "z", ",'axis':[-1],'mean':null,'variance':null")),
            &(plim__model_options){.batch = 2});
    for (uint64_t i = 0; i < 60; i++) want[i] = (in_at(&n, i) - param_at(&n, 0, i % 6)) / sqrt(param_at(&n, 1, i % 6));
    expect(&n, want, 60, "Normalization");
    net_close(&n);
}

static void trains_batch_norm(void **state)
{
    (void)state;
    const plim__model_options train = {.batch = 7, .training = true};
    net n = net_run(sequential(INPUT("[null,3]") "," LAYER("BatchNormalization", "b", ",'momentum':0.75,'epsilon':0.5")), &train);
    double want[21];
    assert_int_equal(n.m->n_params, 4);
    for (uint64_t c = 0; c < 3; c++) {
        double mean = 0, var = 0;
        for (uint64_t i = 0; i < 7; i++) mean += in_at(&n, i * 3 + c) / 7;
        for (uint64_t i = 0; i < 7; i++) var += pow(in_at(&n, i * 3 + c) - mean, 2) / 7;
        for (uint64_t i = 0; i < 7; i++) want[i * 3 + c] = (in_at(&n, i * 3 + c) - mean) / sqrt(var + 0.5) * param_at(&n, 0, c) + param_at(&n, 1, c);
        assert_true(parts_close(at(&n, n.m->param[2].update, c), param_at(&n, 2, c) * 0.75 + mean * 0.25, 1e-5, 1e-5));
        assert_true(parts_close(at(&n, n.m->param[3].update, c), param_at(&n, 3, c) * 0.75 + var * 0.25, 1e-5, 1e-5));
    }
    assert_true(n.m->param[0].trainable && n.m->param[1].trainable && !n.m->param[2].trainable && !n.m->param[3].trainable);
    assert_int_equal(n.m->param[0].update, PLIM__NONE);
    expect(&n, want, 21, "BatchNormalization");
    net_close(&n);

    n = net_run(sequential(INPUT("[null,3]") "," LAYER("BatchNormalization", "b", ",'trainable':false")), &train); /* frozen: as in inference */
    for (uint64_t i = 0; i < 21; i++)
        want[i] = (in_at(&n, i) - param_at(&n, 2, i % 3)) / sqrt(param_at(&n, 3, i % 3) + 1e-3) * param_at(&n, 0, i % 3) + param_at(&n, 1, i % 3);
    assert_int_equal(n.m->param[2].update, PLIM__NONE);
    assert_false(n.m->param[0].trainable);
    expect(&n, want, 21, "frozen BatchNormalization");
    net_close(&n);
}

/* A layer that is called with training=False rests, and so does all that is inside it. */
static void rests_where_it_is_told_to(void **state)
{
    (void)state;
    static const char inner[] = "{'class_name':'Sequential','name':'base','config':{'name':'base','layers':[" INPUT("[null,3]") ","
            LAYER("BatchNormalization", "b", "") ","
                                LAYER("Dropout", "d", ",'rate':0.5") "]},'inbound_nodes':[[['x',0,0,{'training':%s}]]]}";
    for (int rest = 0; rest < 2; rest++) {
        char base[512];
        snprintf(base, sizeof base, inner, rest ? "false" : "null");
        net n = net_open(quoted("{'class_name':'Functional','config':{'name':'f','layers':[" NODE2("InputLayer", "x",
                ",'batch_input_shape':[null,3]", "[]") ",%s,"
                                NODE2("BatchNormalization", "last", "", "[[['base',1,0,{}]]]")
                                        "],'input_layers':[['x',0,0]],'output_layers':[['last',0,0]]}}", base),
                         &(plim__model_options){.batch = 4, .training = true});
        assert_int_equal(n.m->seed == PLIM__NONE, rest);
        assert_int_equal(n.m->param[2].update == PLIM__NONE, rest);
        assert_int_not_equal(n.m->param[6].update, PLIM__NONE);
        net_close(&n);
    }
}

static void drops_out(void **state)
{
    (void)state;
    const char *layers = INPUT("[null,8,8,16]") "," LAYER("Dropout", "d", ",'rate':0.5") "," LAYER("SpatialDropout2D", "s", ",'rate':0.25");
    net n = net_run(sequential(layers), NULL);
    assert_int_equal(n.m->output[0].value, n.m->input[0].value); /* nothing at all */
    assert_int_equal(n.m->seed, PLIM__NONE);
    net_close(&n);
    n = net_run(sequential(layers), &(plim__model_options){.training = true});
    assert_int_not_equal(n.m->seed, PLIM__NONE);
    uint32_t zero = 0, whole = 0;
    for (uint64_t c = 0; c < 16; c++) {
        uint32_t none = 0;
        for (uint64_t i = 0; i < 64; i++) {
            const double x = in_at(&n, i * 16 + c), y = out_at(&n, i * 16 + c);
            none += y == 0;
            if (y != 0) assert_true(parts_close(y, x / 0.5 / 0.75, 1e-5, 1e-5));
        }
        zero += none;
        whole += none == 64;
    }
    assert_in_range(zero, 300, 1000);
    assert_in_range(whole, 1, 12);
    net_close(&n);
}

/* ------------------------------------------------------------------------------------------------------------ shapes */

/* Output element i is input element from(i), or 0. */
static void expect_moved(const char *layers, const char *shape, int64_t (*from)(int64_t i), const char *what)
{
    char all[1024];
    snprintf(all, sizeof all, INPUT("[null,4,3,2]") ",%s", layers);
    net n = net_run(sequential(all), NULL);
    double want[512];
    uint64_t count;
    expect_shape(shape_of(&n, n.m->output[0].value), shape);
    assert_int_equal(plim_shape_count(&count, shape_of(&n, n.m->output[0].value), NULL), PLIM_OK);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t k = from((int64_t)i);
        want[i] = k < 0 ? 0 : in_at(&n, (uint64_t)k);
    }
    expect(&n, want, count, what);
    net_close(&n);
}

static int64_t moved_same(int64_t i) { return i; }
static int64_t moved_flat_first(int64_t i) { return i % 4 * 6 + i / 4; } /* [4,3,2] as channels first: 4 is last then */
static int64_t moved_permuted(int64_t i) { return (i / 3 % 4) * 6 + i % 3 * 2 + i / 12; } /* (3,1,2): [2,4,3] */
static int64_t moved_padded(int64_t i)
{
    const int64_t c = i % 2, x = i / 2 % 6 - 2, y = i / 12 - 1;
    return x < 0 || x >= 3 || y < 0 || y >= 4 ? -1 : (y * 3 + x) * 2 + c;
}
static int64_t moved_cropped(int64_t i) { return ((i / 4 + 1) * 3 + i / 2 % 2 + 1) * 2 + i % 2; }
static int64_t moved_up(int64_t i) { return (i / 12 / 3 * 3 + i / 2 % 6 / 2) * 2 + i % 2; }
static int64_t moved_repeated(int64_t i) { return i % 24; }

static void moves(void **state)
{
    (void)state;
    expect_moved(LAYER("Flatten", "f", ""), "[1,24]", moved_same, "Flatten");
    expect_moved(LAYER("Flatten", "f", ",'data_format':'channels_first'"), "[1,24]", moved_flat_first, "Flatten channels_first");
    expect_moved(LAYER("Reshape", "r", ",'target_shape':[6,-1]"), "[1,6,4]", moved_same, "Reshape");
    expect_moved(LAYER("Permute", "p", ",'dims':[3,1,2]"), "[1,2,4,3]", moved_permuted, "Permute");
    expect_moved(LAYER("ZeroPadding2D", "z", ",'padding':[[1,0],[2,1]]"), "[1,5,6,2]", moved_padded, "ZeroPadding2D");
    expect_moved(LAYER("Cropping2D", "c", ",'cropping':[[1,2],[1,0]]"), "[1,1,2,2]", moved_cropped, "Cropping2D");
    expect_moved(LAYER("UpSampling2D", "u", ",'size':[3,2],'interpolation':'nearest'"), "[1,12,6,2]", moved_up, "UpSampling2D");
    expect_moved(LAYER("Flatten", "f", "") "," LAYER("RepeatVector", "r", ",'n':3"), "[1,3,24]", moved_repeated, "RepeatVector");
    expect_moved(LAYER("MaxPooling2D", "p", ",'pool_size':1") "," LAYER("Flatten", "f", ""), "[1,24]", moved_same, "a turned Flatten");
    expect_moved(LAYER("GaussianNoise", "n", ",'stddev':0.1"), "[1,4,3,2]", moved_same, "GaussianNoise");
}

static void pools_globally(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char layers[256];
        snprintf(layers, sizeof layers, INPUT("[null,4,3,2]") ",{'class_name':'Global%sPooling2D','config':{'name':'g','keepdims':%s}}",
                i & 1 ? "Max" : "Average",
                 i & 2 ? "true" : "false");
        net n = net_run(sequential(layers), NULL);
        expect_shape(shape_of(&n, n.m->output[0].value), i & 2 ? "[1,1,1,2]" : "[1,2]");
        double want[2];
        for (uint64_t c = 0; c < 2; c++) {
            double sum = 0, most = -INFINITY;
            for (uint64_t k = 0; k < 12; k++) {
                sum += in_at(&n, 2 * k + c) / 12;
                most = fmax(most, in_at(&n, 2 * k + c));
            }
            want[c] = i & 1 ? most : sum;
        }
        expect(&n, want, 2, layers);
        net_close(&n);
    }
}

static void embeds_and_distributes(void **state)
{
    (void)state;
    net n = net_run(sequential(LAYER("InputLayer", "in", ",'batch_shape':[null,4],'dtype':'int32'") "," LAYER("Embedding", "e",
            ",'input_dim':9,'output_dim':3,'mask_zero':false") ","
                               LAYER("TimeDistributed", "t", ",'layer':" LAYER("Dense", "d", ",'units':2"))), NULL);
    double want[8];
    assert_string_equal(n.m->param[1].name, "t/d/kernel");
    for (uint64_t i = 0; i < 8; i++) {
        want[i] = param_at(&n, 2, i % 2);
        for (uint64_t k = 0; k < 3; k++) want[i] += param_at(&n, 0, (uint64_t)in_at(&n, i / 2) * 3 + k) * param_at(&n, 1, k * 2 + i % 2);
    }
    expect(&n, want, 8, "Embedding");
    net_close(&n);
}

/* Projections of one head each, softmax, and back: two heads of width 3 over 4 places of width 5. */
static void attends(void **state)
{
    (void)state;
    net n = net_run(quoted("{'class_name':'Functional','config':{'name':'f','layers':[" NODE2("InputLayer", "x", ",'batch_input_shape':[null,4,5]",
            "[]") ","
                           NODE2("MultiHeadAttention", "a",
                                   ",'num_heads':2,'key_dim':3,'value_dim':3,'dropout':0.0,'use_bias':true,'attention_axes':[1]",
                                 "[[['x',0,0,{'value':['x',0,0]}]]]") "],'input_layers':[['x',0,0]],'output_layers':[['a',0,0]]}}"), NULL);
    assert_int_equal(n.m->n_params, 8);
    double q[2][4][3], k[2][4][3], v[2][4][3], o[4][2][3], want[20];
    for (uint64_t i = 0; i < 24; i++) {
        const uint64_t h = i / 12, t = i / 3 % 4, e = i % 3;
        double sum[3];
        for (uint32_t p = 0; p < 3; p++) {
            sum[p] = param_at(&n, 2 * p + 1, h * 3 + e);
            for (uint64_t d = 0; d < 5; d++) sum[p] += in_at(&n, t * 5 + d) * param_at(&n, 2 * p, (d * 2 + h) * 3 + e);
        }
        q[h][t][e] = sum[0];
        k[h][t][e] = sum[1];
        v[h][t][e] = sum[2];
    }
    for (int h = 0; h < 2; h++) {
        for (int t = 0; t < 4; t++) {
            double score[4], total = 0;
            for (int s = 0; s < 4; s++) {
                score[s] = exp((q[h][t][0] * k[h][s][0] + q[h][t][1] * k[h][s][1] + q[h][t][2] * k[h][s][2]) / sqrt(3));
                total += score[s];
            }
            for (int e = 0; e < 3; e++) {
                o[t][h][e] = 0;
                for (int s = 0; s < 4; s++) o[t][h][e] += score[s] / total * v[h][s][e];
            }
        }
    }
    for (uint64_t i = 0; i < 20; i++) {
        want[i] = param_at(&n, 7, i % 5);
        for (uint64_t p = 0; p < 6; p++) want[i] += o[i / 5][p / 3][p % 3] * param_at(&n, 6, p * 5 + i % 5);
    }
    expect(&n, want, 20, "MultiHeadAttention");
    net_close(&n);
}

/* --------------------------------------------------------------------------------------------- parameters and options */

static void knows_initializers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        plim__init init;
        double scale;
    } cases[] = {
        {"null", PLIM__INIT_GLOROT_UNIFORM, 0.57735026918962573}, /* sqrt(6 / (8 + 10)) */
        {"'he_normal'", PLIM__INIT_NORMAL, 0.5},
        {"{'class_name':'HeUniform','config':{'seed':null}}", PLIM__INIT_UNIFORM, 0.8660254037844386},
        {"{'class_name':'RandomNormal','config':{'mean':0.0,'stddev':0.02}}", PLIM__INIT_NORMAL, 0.02},
        {"{'class_name':'RandomUniform','config':{'minval':-0.1,'maxval':0.1}}", PLIM__INIT_UNIFORM, 0.1},
        {"{'class_name':'VarianceScaling','config':{'scale':2.0,'mode':'fan_out','distribution':'uniform'}}", PLIM__INIT_UNIFORM,
                0.77459666924148340},
        {"'ones'", PLIM__INIT_ONES, 0},
        {"{'class_name':'Constant','config':{'value':0}}", PLIM__INIT_ZEROS, 0},
    };
    char layers[512];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(layers, sizeof layers, INPUT("[null,8]") "," LAYER("Dense", "d", ",'units':10,'kernel_initializer':%s"), cases[i].text);
        net n = net_open(sequential(layers), &(plim__model_options){.training = true});
        assert_int_equal(n.m->param[0].init, cases[i].init);
        if (cases[i].scale) assert_true(fabs(n.m->param[0].init_scale - cases[i].scale) < 1e-12);
        assert_int_equal(n.m->param[1].init, PLIM__INIT_ZEROS);
        net_close(&n);
    }
}

static void binds_extents(void **state)
{
    (void)state;
    const char *layers = LAYER("InputLayer", "img", ",'batch_shape':[null,null,null,3]") "," LAYER("GlobalAveragePooling2D", "g", "");
    plim_error err;
    plim__model *m;
    assert_int_equal(read_text(&m, sequential(layers), NULL, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "input 'img' leaves the extent of dimension 1 open; give it with --dim img.1=VALUE"));
    assert_null(m);
    const plim__dim_binding one[] = {{"img", 8}}, two[] = {{"img", 8}, {"img.2", 5}};
    net n = net_open(sequential(layers), &(plim__model_options){.batch = 3, .dim = one, .n_dims = 1});
    expect_shape(shape_of(&n, n.m->input[0].value), "[3,8,8,3]");
    assert_int_equal(n.m->input[0].batch_axis, 0);
    net_close(&n);
    n = net_open(sequential(layers), &(plim__model_options){.dim = two, .n_dims = 2});
    expect_shape(shape_of(&n, n.m->input[0].value), "[1,8,5,3]");
    net_close(&n);
    n = net_open(sequential(LAYER("Dense", "d", ",'units':2,'batch_input_shape':[6,4]")), NULL); /* as old files have it */
    expect_shape(shape_of(&n, n.m->input[0].value), "[6,4]");
    assert_string_equal(n.m->input[0].name, "d_input");
    net_close(&n);
    n = net_open(quoted("{'class_name':'Sequential','config':{'name':'m','layers':[" LAYER("Dense", "d",
            ",'units':2") "]},'build_config':{'input_shape':[null,9]}}"), NULL);
    expect_shape(shape_of(&n, n.m->input[0].value), "[1,9]");
    net_close(&n);
}

#define DENSE_IN INPUT("[null,4]") ","

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *layers;
        plim_status code;
        const char *says;
    } cases[] = {
        {INPUT("[null,4,4,3]") "," LAYER("Conv2D", "c", ",'filters':2,'kernel_size':[3,3],'strides':[1]"), PLIM_E_FORMAT,
                "config.layers[1].config.strides: expected 2 numbers"},
        {INPUT("[null,4,4,3]") "," LAYER("Conv2D", "c", ",'filters':2"), PLIM_E_FORMAT, "'kernel_size' is missing"},
        {INPUT("[null,4,4,3]") "," LAYER("Conv2D", "c", ",'filters':2,'kernel_size':[9,9]"), PLIM_E_SHAPE, "layer 'c' (Conv2D)"},
        {INPUT("[null,4,4,3]") "," LAYER("Conv2D", "c", ",'filters':2,'kernel_size':[3,3],'groups':2"), PLIM_E_SHAPE,
                "2 groups do not divide 3 channels"},
        {INPUT("[null,4,4,3]") "," LAYER("Conv2D", "c", ",'filters':2,'kernel_size':[3,3],'padding':'odd'"), PLIM_E_UNSUPPORTED, "padding 'odd'"},
        {DENSE_IN LAYER("LSTM", "l", ",'units':2"), PLIM_E_UNSUPPORTED, "layer 'l' (LSTM): this kind of layer is not supported"},
        {DENSE_IN LAYER("Dense", "d", ",'units':2,'lora_rank':4"), PLIM_E_UNSUPPORTED, "lora_rank: layer 'd' (Dense): this option is not supported"},
        {DENSE_IN LAYER("Dense", "d", ",'units':2,'activation':'glu'"), PLIM_E_UNSUPPORTED, "layer 'd' (Dense): activation 'glu' is not supported"},
        {DENSE_IN LAYER("Dense", "d", ",'units':2,'dtype':'float16'"), PLIM_E_UNSUPPORTED, "dtype f16"},
        {DENSE_IN LAYER("Dense", "d", ",'units':-2"), PLIM_E_FORMAT, "units"},
        {DENSE_IN LAYER("Dense", "d", ",'units':'2'"), PLIM_E_FORMAT, "units: expected an integer, found a string"},
        {DENSE_IN LAYER("Reshape", "r", ",'target_shape':[3,-1]"), PLIM_E_SHAPE, "target_shape does not divide the 4 elements"},
        {DENSE_IN LAYER("Embedding", "e", ",'input_dim':3,'output_dim':2,'mask_zero':true"), PLIM_E_UNSUPPORTED, "mask_zero"},
        {DENSE_IN "{'module':'mine','class_name':'Dense','config':{'name':'d','units':2}}", PLIM_E_UNSUPPORTED, "mine.Dense is a class of its own"},
        {LAYER("Dense", "d", ",'units':2"), PLIM_E_FORMAT, "the model was not built"},
        {"", PLIM_E_FORMAT, "expected a list of layers"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__model *m;
        plim_error err;
        const plim_status got = read_text(&m, sequential(cases[i].layers), NULL, &err);
        if (got != cases[i].code || !strstr(err.message, cases[i].says)) fail_msg("case %zu: %s: %s", i, plim_status_name(got), err.message);
        assert_null(m);
    }
}

static void refuses_in_training(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *says;
    } cases[] = {
        {DENSE_IN LAYER("Dense", "d", ",'units':2,'kernel_regularizer':{'class_name':'L2','config':{'l2':0.01}}"), "not supported in training"},
        {DENSE_IN LAYER("Dense", "d", ",'units':2,'kernel_initializer':'orthogonal'"), "'d/kernel': initializer 'orthogonal' is not supported"},
        {DENSE_IN LAYER("GaussianNoise", "g", ",'stddev':0.5"), "layer 'g' (GaussianNoise): it is not supported in training"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__model *m;
        plim_error err;
        assert_int_equal(read_text(&m, sequential(cases[i].layers), NULL, &err), PLIM_OK);
        plim__model_free(&m);
        assert_int_equal(read_text(&m, sequential(cases[i].layers), &(plim__model_options){.training = true}, &err), PLIM_E_UNSUPPORTED);
        if (!strstr(err.message, cases[i].says)) fail_msg("case %zu: %s", i, err.message);
    }
}

static void refuses_bad_graphs(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *outputs, *says;
    } cases[] = {
        {"[[['b',0,0,{}]]]", "[[['a',0,0,{}]]]", "[['b',0,0]]", "waits for its own output"},
        {"[[['x',0,0,{}]]]", "[[['q',0,0,{}]]]", "[['b',0,0]]", "there is no layer 'q'"},
        {"[[['x',0,0,{}]]]", "[[['a',1,0,{}]]]", "[['b',0,0]]", "layer 'a' has no node 1"},
        {"[[['x',0,0,{}]]]", "[[['a',0,1,{}]]]", "[['b',0,0]]", "layer 'a' gives 1 tensors, and number 1 is wanted"},
        {"[[['x',0,0,{}]]]", "[[['a',0,0,{}]]]", "[]", "the model has no outputs"},
        {"[[['x',0,0,{}]]]", "[[['a',0,0,{}]]]", "[['b',-1,0]]", "has no node -1"},
        {"[[['x',0,0,{}],['x',0,0,{}]]]", "[[['a',0,0,{}]]]", "[['b',0,0]]", "layer 'a' (Dense): it is called with 2 inputs"},
        {"[[['x',0,0,{'mask':['x',0,0]}]]]", "[[['a',0,0,{}]]]", "[['b',0,0]]", "mask: a layer is called with this argument"},
        {"[3]", "[[['a',0,0,{}]]]", "[['b',0,0]]", "not a tensor"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__model *m;
        plim_error err;
        const char *json = quoted("{'class_name':'Functional','config':{'name':'f','layers':[" NODE2("InputLayer", "x",
                ",'batch_input_shape':[null,4]", "[]") ","
                                  NODE2("Dense", "a", ",'units':4", "%s") "," NODE2("Dense", "b", ",'units':4",
                                          "%s") "],'input_layers':[['x',0,0]],'output_layers':%s}}",
                                  cases[i].a, cases[i].b, cases[i].outputs);
        const plim_status got = read_text(&m, json, NULL, &err);
        if (got == PLIM_OK || !strstr(err.message, cases[i].says)) fail_msg("case %zu: %s", i, err.message);
        assert_null(m);
    }
    /* models in models, each called twice: cheap to write, without end to build */
    static char json[1 << 16];
    size_t n = 0;
    for (int d = 0; d < 24; d++)
        n += (size_t)snprintf(json + n, sizeof json - n, "{'class_name':'Functional','name':'m','config':{'name':'m','layers':[" NODE2("InputLayer",
                "x", ",'batch_input_shape':[1,4]", "[]") ",");
    n += (size_t)snprintf(json + n, sizeof json - n, NODE2("Dense", "m", ",'units':4", "[[['x',0,0,{}]],[['m',0,0,{}]]]"));
    for (int d = 0; d < 24; d++)
        n += (size_t)snprintf(json + n, sizeof json - n,
                "],'input_layers':[['x',0,0]],'output_layers':[['m',%d,0]]},'inbound_nodes':[[['x',0,0,{}]],[['m',1,0,{}]]]}", d ? 2 : 1);
    plim__model *m;
    plim_error err;
    assert_int_equal(read_text(&m, quoted("%s", json), NULL, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "more than 50000 calls of layers"));
}

static void survives_truncation(void **state)
{
    (void)state;
    char *json = strdup(two_forms(3));
    const size_t n = strlen(json);
    for (size_t i = 0; i < n; i += 7) {
        plim__model *m;
        plim_error err = {0};
        files_write("cut.json", json, i);
        assert_int_equal(plim__keras_read(&m, files_path("cut.json"), NULL, (plim__alloc){0}, &err), PLIM_E_FORMAT);
        assert_non_null(strstr(err.message, "cut.json"));
    }
    free(json);
    plim__model *m;
    plim_error err = {0};
    assert_int_equal(plim__keras_read(&m, files_path("none.json"), NULL, (plim__alloc){0}, &err), PLIM_E_IO);
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    const char *json = two_forms(2);
    files_write("f.json", json, strlen(json));
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        countdown c = {.left = n};
        plim__model *m;
        plim_error err = {0};
        const plim_status got = plim__keras_read(&m, files_path("f.json"), NULL, countdown_of(&c), &err);
        done = got == PLIM_OK;
        if (!done) assert_int_equal(got, PLIM_E_NOMEM);
        plim__model_free(&m);
        assert_int_equal(c.live, 0);
        assert_true(n < 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolves),
        cmocka_unit_test(convolves_channels_first),
        cmocka_unit_test(convolves_in_time),
        cmocka_unit_test(convolves_depthwise_and_separable),
        cmocka_unit_test(convolves_transposed),
        cmocka_unit_test(pools),
        cmocka_unit_test(runs_a_chain),
        cmocka_unit_test(reads_both_forms),
        cmocka_unit_test(reads_nested_models),
        cmocka_unit_test(merges_images),
        cmocka_unit_test(activates),
        cmocka_unit_test(activates_with_options),
        cmocka_unit_test(normalises),
        cmocka_unit_test(trains_batch_norm),
        cmocka_unit_test(rests_where_it_is_told_to),
        cmocka_unit_test(drops_out),
        cmocka_unit_test(moves),
        cmocka_unit_test(pools_globally),
        cmocka_unit_test(embeds_and_distributes),
        cmocka_unit_test(attends),
        cmocka_unit_test(knows_initializers),
        cmocka_unit_test(binds_extents),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_in_training),
        cmocka_unit_test(refuses_bad_graphs),
        cmocka_unit_test(survives_truncation),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
