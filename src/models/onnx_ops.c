/* The table of operators, and what lowering functions have in common: operands, attributes, small pieces of graph.
 *
 * To add an operator: a row here, its function in the file of its family, its name in PLIM__ONNX_LOWER (onnx.h). A row lists the attributes that its
 * function understands; a node with another one is refused by name rather than computed as if it were not there. */
#include "core/dtype.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "models/onnx.h"

#include <stdio.h>
#include <string.h>

#define ANY UINT32_MAX
#define EW(type, fn) {type, plim__onnx_lower_elementwise, 1, 1, "", PLIM__EW_##fn, false}
#define ARITH(type, fn) {type, plim__onnx_lower_arith, 2, 2, "", PLIM__EW_##fn, false}
#define COMPARE(type, fn) {type, plim__onnx_lower_compare, 2, 2, "", PLIM__EW_##fn, false}
#define ACTIVATION(type, how, attrs) {type, plim__onnx_lower_activation, 1, 1, attrs, PLIM__##how, false}
#define REDUCE(type, n) {type, plim__onnx_lower_reduce, 1, 2, "axes:I keepdims:i noop_with_empty_axes:i", n, false}
#define CONV_ATTRS "auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I"
#define RNN_ATTRS "direction:s hidden_size:i layout:i"
#define WINDOW_ATTRS "output_datatype:i periodic:i"
#define POOL_ATTRS "auto_pad:s ceil_mode:i dilations:I kernel_shape:I pads:I storage_order:i strides:I"
#define SCALES "coordinate_transformation_mode:s nearest_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f antialias:i axes:I " \
               "keep_aspect_ratio_policy:s"

/* Sorted by type: found by halving. */
static const plim__onnx_op table[] = {
    EW("Abs", ABS),
    EW("Acos", ACOS),
    EW("Acosh", ACOSH),
    ARITH("Add", ADD),
    {"And", plim__onnx_lower_compare, 2, 2, "", PLIM__EW_AND, false},
    {"ArgMax", plim__onnx_lower_argreduce, 1, 1, "axis:i keepdims:i select_last_index:i", true, false},
    {"ArgMin", plim__onnx_lower_argreduce, 1, 1, "axis:i keepdims:i select_last_index:i", false, false},
    EW("Asin", ASIN),
    EW("Asinh", ASINH),
    EW("Atan", ATAN),
    EW("Atanh", ATANH),
    {"AveragePool", plim__onnx_lower_pool, 1, 1, POOL_ATTRS " count_include_pad:i", true, false},
    {"BatchNormalization", plim__onnx_lower_batch_norm, 5, 5, "epsilon:f momentum:f spatial:i training_mode:i", 0, true},
    {"BitShift", plim__onnx_lower_bitshift, 2, 2, "direction:s", 0, false},
    {"BlackmanWindow", plim__onnx_lower_window, 1, 1, WINDOW_ATTRS, 2, true},
    {"Cast", plim__onnx_lower_cast, 1, 1, "to:i saturate:i", false, false},
    {"CastLike", plim__onnx_lower_cast, 2, 2, "saturate:i", true, true},
    EW("Ceil", CEIL),
    {"Celu", plim__onnx_lower_celu, 1, 1, "alpha:f", 0, false},
    {"Clip", plim__onnx_lower_clip, 1, 3, "min:f max:f", 0, false},
    {"Compress", plim__onnx_lower_compress, 2, 2, "axis:i", 0, false},
    {"Concat", plim__onnx_lower_concat, 1, ANY, "axis:i", 0, false},
    {"Constant", plim__onnx_lower_constant, 0, 0, "value:t value_float:f value_floats:F value_int:i value_ints:I", 0, true},
    {"ConstantOfShape", plim__onnx_lower_constant_of_shape, 1, 1, "value:t", 0, true},
    {"Conv", plim__onnx_lower_conv, 2, 3, CONV_ATTRS, 0, false},
    {"ConvInteger", plim__onnx_lower_conv_integer, 2, 4, CONV_ATTRS, 0, false},
    {"ConvTranspose", plim__onnx_lower_conv_transpose, 2, 3,
     "auto_pad:s dilations:I group:i kernel_shape:I output_padding:I output_shape:I pads:I strides:I", 0, false},
    EW("Cos", COS),
    EW("Cosh", COSH),
    {"CumSum", plim__onnx_lower_cumsum, 2, 2, "exclusive:i reverse:i", 0, false},
    {"DFT", plim__onnx_lower_dft, 1, 3, "axis:i inverse:i onesided:i", 0, false},
    {"DepthToSpace", plim__onnx_lower_depth_to_space, 1, 1, "blocksize:i mode:s", 0, false},
    {"DequantizeLinear", plim__onnx_lower_dequantize, 2, 3, "axis:i", 0, false},
    {"Div", plim__onnx_lower_divide, 2, 2, "", 0, false},
    {"Dropout", plim__onnx_lower_dropout, 1, 3, "ratio:f seed:i", 0, true},
    {"DynamicQuantizeLinear", plim__onnx_lower_dynamic_quantize, 1, 1, "", 0, false},
    {"Einsum", plim__onnx_lower_einsum, 1, ANY, "equation:s", 0, false},
    ACTIVATION("Elu", ELU, "alpha:f"),
    COMPARE("Equal", EQUAL),
    EW("Erf", ERF),
    EW("Exp", EXP),
    {"Expand", plim__onnx_lower_expand, 2, 2, "", 0, false},
    {"EyeLike", plim__onnx_lower_eyelike, 1, 1, "dtype:i k:i", 0, true},
    {"Flatten", plim__onnx_lower_flatten, 1, 1, "axis:i", 0, false},
    EW("Floor", FLOOR),
    {"GRU", plim__onnx_lower_rnn, 3, 6, RNN_ATTRS " linear_before_reset:i", 1, false},
    {"Gather", plim__onnx_lower_gather, 2, 2, "axis:i", 0, false},
    {"GatherElements", plim__onnx_lower_gather_elements, 2, 2, "axis:i", 0, false},
    {"GatherND", plim__onnx_lower_gather_nd, 2, 2, "batch_dims:i", 0, false},
    ACTIVATION("Gelu", GELU, "approximate:s"),
    {"Gemm", plim__onnx_lower_gemm, 2, 3, "alpha:f beta:f transA:i transB:i", 0, false},
    {"GlobalAveragePool", plim__onnx_lower_global_pool, 1, 1, "", true, false},
    {"GlobalMaxPool", plim__onnx_lower_global_pool, 1, 1, "", false, false},
    COMPARE("Greater", GREATER),
    COMPARE("GreaterOrEqual", GREATER_EQUAL),
    {"GridSample", plim__onnx_lower_grid_sample, 2, 2, "align_corners:i mode:s padding_mode:s", 0, false},
    {"GroupNormalization", plim__onnx_lower_group_norm, 3, 3, "epsilon:f num_groups:i stash_type:i", 0, false},
    {"HammingWindow", plim__onnx_lower_window, 1, 1, WINDOW_ATTRS, 1, true},
    {"HannWindow", plim__onnx_lower_window, 1, 1, WINDOW_ATTRS, 0, true},
    ACTIVATION("HardSigmoid", HARD_SIGMOID, "alpha:f beta:f"),
    ACTIVATION("HardSwish", HARD_SWISH, ""),
    {"Hardmax", plim__onnx_lower_hardmax, 1, 1, "axis:i", 0, false},
    {"Identity", plim__onnx_lower_identity, 1, 1, "", 0, true},
    {"InstanceNormalization", plim__onnx_lower_instance_norm, 3, 3, "epsilon:f", 0, false},
    {"IsInf", plim__onnx_lower_isinf, 1, 1, "detect_negative:i detect_positive:i", 0, false},
    {"IsNaN", plim__onnx_lower_elementwise, 1, 1, "", PLIM__EW_ISNAN, false},
    {"LRN", plim__onnx_lower_lrn, 1, 1, "alpha:f beta:f bias:f size:i", 0, false},
    {"LSTM", plim__onnx_lower_rnn, 3, 8, RNN_ATTRS " input_forget:i", 2, false},
    {"LayerNormalization", plim__onnx_lower_layer_norm, 2, 3, "axis:i epsilon:f stash_type:i", 0, false},
    ACTIVATION("LeakyRelu", LEAKY_RELU, "alpha:f"),
    COMPARE("Less", LESS),
    COMPARE("LessOrEqual", LESS_EQUAL),
    EW("Log", LOG),
    {"LogSoftmax", plim__onnx_lower_softmax, 1, 1, "axis:i", true, false},
    {"LpNormalization", plim__onnx_lower_lp_norm, 1, 1, "axis:i p:i", 0, false},
    {"MatMul", plim__onnx_lower_matmul, 2, 2, "", 0, false},
    {"MatMulInteger", plim__onnx_lower_matmul_integer, 2, 4, "", 0, false},
    {"Max", plim__onnx_lower_variadic, 1, ANY, "", PLIM__EW_MAXIMUM, false},
    {"MaxPool", plim__onnx_lower_pool, 1, 1, POOL_ATTRS, false, false},
    {"Mean", plim__onnx_lower_variadic, 1, ANY, "", PLIM__EW_DIV, false},
    {"MeanVarianceNormalization", plim__onnx_lower_mvn, 1, 1, "axes:I", 0, false},
    {"MelWeightMatrix", plim__onnx_lower_mel_weights, 5, 5, "output_datatype:i", 0, true},
    {"Min", plim__onnx_lower_variadic, 1, ANY, "", PLIM__EW_MINIMUM, false},
    ACTIVATION("Mish", MISH, ""),
    {"Mod", plim__onnx_lower_mod, 2, 2, "fmod:i", 0, false},
    ARITH("Mul", MUL),
    EW("Neg", NEG),
    {"NegativeLogLikelihoodLoss", plim__onnx_lower_nll_loss, 2, 3, "ignore_index:i reduction:s", 0, false},
    {"NonZero", plim__onnx_lower_nonzero, 1, 1, "", 0, true},
    {"Not", plim__onnx_lower_elementwise, 1, 1, "", PLIM__EW_NOT, false},
    {"OneHot", plim__onnx_lower_onehot, 3, 3, "axis:i", 0, false},
    {"Or", plim__onnx_lower_compare, 2, 2, "", PLIM__EW_OR, false},
    {"PRelu", plim__onnx_lower_prelu, 2, 2, "", 0, false},
    {"Pad", plim__onnx_lower_pad, 1, 4, "mode:s pads:I value:f", 0, false},
    {"Pow", plim__onnx_lower_power, 2, 2, "", 0, false},
    {"QLinearConv", plim__onnx_lower_qlinear_conv, 8, 9, CONV_ATTRS, 0, false},
    {"QLinearMatMul", plim__onnx_lower_qlinear_matmul, 8, 8, "", 0, false},
    {"QuantizeLinear", plim__onnx_lower_quantize, 2, 3, "axis:i saturate:i", 0, false},
    {"RNN", plim__onnx_lower_rnn, 3, 6, RNN_ATTRS, 0, false},
    {"Range", plim__onnx_lower_range, 3, 3, "", 0, true},
    EW("Reciprocal", RECIPROCAL),
    REDUCE("ReduceL1", 0),
    REDUCE("ReduceL2", 1),
    REDUCE("ReduceLogSum", 2),
    REDUCE("ReduceLogSumExp", 3),
    REDUCE("ReduceMax", 4),
    REDUCE("ReduceMean", 5),
    REDUCE("ReduceMin", 6),
    REDUCE("ReduceProd", 7),
    REDUCE("ReduceSum", 8),
    REDUCE("ReduceSumSquare", 9),
    ACTIVATION("Relu", RELU, ""),
    {"Reshape", plim__onnx_lower_reshape, 2, 2, "allowzero:i", 0, false},
    {"Resize", plim__onnx_lower_resize, 1, 4, SCALES " mode:s", false, false},
    {"ReverseSequence", plim__onnx_lower_reverse_sequence, 2, 2, "batch_axis:i time_axis:i", 0, false},
    EW("Round", ROUND),
    {"STFT", plim__onnx_lower_stft, 2, 4, "onesided:i", 0, false},
    {"Scatter", plim__onnx_lower_scatter_elements, 3, 3, "axis:i", 0, false},
    {"ScatterElements", plim__onnx_lower_scatter_elements, 3, 3, "axis:i reduction:s", 0, false},
    {"ScatterND", plim__onnx_lower_scatter_nd, 3, 3, "reduction:s", 0, false},
    ACTIVATION("Selu", SELU, "alpha:f gamma:f"),
    {"Shape", plim__onnx_lower_shape, 1, 1, "start:i end:i", 0, true},
    {"Shrink", plim__onnx_lower_shrink, 1, 1, "bias:f lambd:f", 0, false},
    ACTIVATION("Sigmoid", SIGMOID, ""),
    EW("Sign", SIGN),
    EW("Sin", SIN),
    EW("Sinh", SINH),
    {"Size", plim__onnx_lower_size, 1, 1, "", 0, true},
    {"Slice", plim__onnx_lower_slice, 1, 5, "axes:I ends:I starts:I", 0, false},
    {"Softmax", plim__onnx_lower_softmax, 1, 1, "axis:i", false, false},
    {"SoftmaxCrossEntropyLoss", plim__onnx_lower_softmax_loss, 2, 3, "ignore_index:i reduction:s", 0, false},
    ACTIVATION("Softplus", SOFTPLUS, ""),
    ACTIVATION("Softsign", SOFTSIGN, ""),
    {"SpaceToDepth", plim__onnx_lower_space_to_depth, 1, 1, "blocksize:i", 0, false},
    {"Split", plim__onnx_lower_split, 1, 2, "axis:i num_outputs:i split:I", 0, false},
    EW("Sqrt", SQRT),
    {"Squeeze", plim__onnx_lower_squeeze, 1, 2, "axes:I", 0, false},
    ARITH("Sub", SUB),
    {"Sum", plim__onnx_lower_variadic, 1, ANY, "", PLIM__EW_ADD, false},
    EW("Tan", TAN),
    ACTIVATION("Tanh", TANH, ""),
    {"ThresholdedRelu", plim__onnx_lower_thresholded, 1, 1, "alpha:f", 0, false},
    {"Tile", plim__onnx_lower_tile, 2, 2, "", 0, false},
    {"TopK", plim__onnx_lower_topk, 1, 2, "axis:i k:i largest:i sorted:i", 0, false},
    {"Transpose", plim__onnx_lower_transpose, 1, 1, "perm:I", 0, false},
    {"Trilu", plim__onnx_lower_trilu, 1, 2, "upper:i", 0, false},
    {"Unsqueeze", plim__onnx_lower_unsqueeze, 1, 2, "axes:I", 0, false},
    {"Upsample", plim__onnx_lower_resize, 1, 2, "mode:s scales:F", true, false},
    {"Where", plim__onnx_lower_where, 3, 3, "", 0, false},
    {"Xor", plim__onnx_lower_compare, 2, 2, "", PLIM__EW_XOR, false},
};

const plim__onnx_op *plim__onnx_op_of(const char *type)
{
    size_t lo = 0, hi = sizeof table / sizeof *table;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const int order = strcmp(type, table[mid].type);
        if (order == 0) return &table[mid];
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
    return NULL;
}

/* Operators whose meaning in set 7 is that of an earlier one: since which. Others had other attributes, or other defaults. */
static const struct { const char *type; int64_t opset; } early[] = {
    {"Abs", 6}, {"ArgMax", 1}, {"ArgMin", 1}, {"Ceil", 6}, {"Clip", 6}, {"Constant", 1}, {"Conv", 1}, {"ConvTranspose", 1}, {"DepthToSpace", 1},
    {"Elu", 6}, {"Exp", 6}, {"Flatten", 1}, {"Floor", 6}, {"Gather", 1}, {"GlobalAveragePool", 1}, {"GlobalMaxPool", 1}, {"HardSigmoid", 6},
    {"Identity", 1}, {"InstanceNormalization", 6}, {"LRN", 1}, {"LeakyRelu", 6}, {"Log", 6}, {"MatMul", 1}, {"MaxPool", 1}, {"Neg", 6}, {"Not", 1},
    {"Reciprocal", 6}, {"ReduceL1", 1}, {"ReduceL2", 1}, {"ReduceLogSum", 1}, {"ReduceLogSumExp", 1}, {"ReduceMax", 1}, {"ReduceMean", 1},
    {"ReduceMin", 1}, {"ReduceProd", 1}, {"ReduceSum", 1}, {"ReduceSumSquare", 1}, {"Relu", 6}, {"Reshape", 5}, {"Selu", 6}, {"Shape", 1},
    {"Sigmoid", 6}, {"Size", 1}, {"Slice", 1}, {"Softmax", 1}, {"Softplus", 1}, {"Softsign", 1}, {"SpaceToDepth", 1}, {"Sqrt", 6}, {"Squeeze", 1},
    {"Tanh", 6}, {"Transpose", 1}, {"Unsqueeze", 1},
};

bool plim__onnx_unchanged_since(const char *type, int64_t opset)
{
    for (size_t i = 0; i < sizeof early / sizeof *early; i++)
        if (!strcmp(type, early[i].type)) return opset >= early[i].opset;
    return false;
}

/* ------------------------------------------------------------------------------------------------------ attributes */

/* The letter behind "name:" in the row's list; 0: it is not there. */
static char letter_of(const char *attrs, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = attrs; n > 0 && (p = strstr(p, name)) != NULL; p += n)
        if ((p == attrs || p[-1] == ' ') && p[n] == ':') return p[n + 1];
    return 0;
}

plim_status plim__onnx_check_attr(const plim__onnx_op *op, const plim__onnx_attr *a, plim_error *err)
{
    static const char letters[] = {'?', 'f', 'i', 's', 't', '?', 'F', 'I'};
    char name[64];
    plim__array_quote(name, sizeof name, (const uint8_t *)a->name, strlen(a->name));
    const char want = letter_of(op->attrs, a->name), have = a->type < sizeof letters ? letters[a->type] : '?';
    PLIM_FAIL_IF(want == 0, err, PLIM_E_UNSUPPORTED, "attribute %s is not supported", name);
    PLIM_FAIL_IF(want != have || (have == 't' && !a->t), err, PLIM_E_FORMAT, "attribute %s is of type %u, which it may not have", name, a->type);
    return PLIM_OK;
}

const plim__onnx_attr *plim__onnx_attr_of(const plim__onnx_call *c, const char *name)
{
    for (uint32_t i = 0; i < c->node->n_attr; i++)
        if (!strcmp(c->node->attr[i].name, name)) return &c->node->attr[i];
    return NULL;
}

int64_t plim__onnx_int(const plim__onnx_call *c, const char *name, int64_t otherwise)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, name);
    return a ? a->i : otherwise;
}

double plim__onnx_float(const plim__onnx_call *c, const char *name, double otherwise)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, name);
    return a ? a->f : otherwise;
}

const char *plim__onnx_text(const plim__onnx_call *c, const char *name, const char *otherwise)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, name);
    return a ? a->s : otherwise;
}

plim_status plim__onnx_ints(const plim__onnx_call *c, const char *name, int64_t *out, uint32_t cap, uint32_t *n, plim_error *err)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, name);
    *n = a ? a->n_ints : 0;
    PLIM_FAIL_IF(*n > cap, err, PLIM_E_FORMAT, "attribute %s has %u numbers, at most %u are expected", name, *n, cap);
    if (*n) memcpy(out, a->ints, *n * sizeof *out);
    return PLIM_OK;
}

plim_status plim__onnx_ints_or_input(plim__onnx_call *c, const char *name, uint32_t k, int64_t *out, uint32_t cap, uint32_t *n, bool *given,
                                     plim_error *err)
{
    const bool attr = plim__onnx_attr_of(c, name) != NULL;
    *given = attr || plim__onnx_has(c, k);
    *n = 0;
    if (!*given) return PLIM_OK;
    return attr ? plim__onnx_ints(c, name, out, cap, n, err) : plim__onnx_given_ints(c, k, name, out, cap, n, err);
}

plim_status plim__onnx_refuse(const plim__onnx_call *c, const char *name, plim_error *err)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, name);
    char text[64] = "its default";
    if (a && a->type == PLIM__ONNX_STRING) plim__array_quote(text, sizeof text, (const uint8_t *)a->s, strlen(a->s));
    else if (a && a->type == PLIM__ONNX_INT) snprintf(text, sizeof text, "%lld", (long long)a->i);
    else if (a) snprintf(text, sizeof text, "%g", a->f);
    return plim__fail(err, PLIM_E_UNSUPPORTED, "attribute %s = %s is not supported", name, text);
}

plim_status plim__onnx_axis(int64_t axis, uint32_t rank, bool end, uint32_t *out, plim_error *err)
{
    const int64_t last = (int64_t)rank - !end;
    PLIM_FAIL_IF(axis < -(int64_t)rank || axis > last, err, PLIM_E_SHAPE, "axis %lld of %u dimensions", (long long)axis, rank);
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------------- operands */

plim_status plim__onnx_in(plim__onnx_call *c, uint32_t k, uint32_t *v, plim_error *err)
{
    plim__onnx_slot *s = plim__onnx_slot_in(c, k);
    PLIM_FAIL_IF(!s, err, PLIM_E_FORMAT, "input %u is missing", k);
    if (!c->folding) return plim__onnx_materialise(c->x, s, true, v, err);
    return plim__graph_const(c->g, s->host->dtype, &s->host->shape, s->host->data, v, err);
}

plim_status plim__onnx_in_float(plim__onnx_call *c, uint32_t k, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__onnx_in(c, k, v, err));
    const plim_dtype t = plim__onnx_type(c, *v);
    PLIM_FAIL_IF(!plim__dtype_is_float(t), err, PLIM_E_TYPE, "input %u is of %s, where floating-point numbers are needed", k, plim_dtype_name(t));
    return plim__op_cast(c->g, *v, plim__dtype_compute(t), v, err);
}

plim_status plim__onnx_given(plim__onnx_call *c, uint32_t k, const char *what, const plim__onnx_host **out, plim_error *err)
{
    plim__onnx_slot *s = plim__onnx_slot_in(c, k);
    PLIM_FAIL_IF(!s, err, PLIM_E_FORMAT, "input %u (%s) is missing", k, what);
    PLIM_TRY(plim__onnx_known(c->x, s, out, err));
    if (!*out && s->apart) *out = s->host;
    if (!*out && s->tensor) {
        plim_dtype dtype;
        uint64_t bytes;
        PLIM_TRY(plim__onnx_dtype(s->tensor->type, &dtype, err));
        PLIM_TRY(plim_shape_bytes(&bytes, &s->tensor->shape, dtype, err));
        if (bytes <= (s->param ? PLIM__ONNX_FOLD_BYTES : PLIM__ONNX_ASK_BYTES)) {
            PLIM_TRY(s->host ? PLIM_OK : plim__onnx_load(c->x, s->tensor, &s->host, err));
            *out = s->host;
        }
    }
    PLIM_FAIL_IF(!*out, err, PLIM_E_UNSUPPORTED, "input %u (%s) has to be known when the model is read", k, what);
    return PLIM_OK;
}

double plim__onnx_number(const plim__onnx_host *h, uint64_t i)
{
    double d;
    plim__convert(&d, PLIM_F64, (const char *)h->data + i * plim_dtype_bytes(h->dtype), h->dtype, 1);
    return d;
}

int64_t plim__onnx_integer(const plim__onnx_host *h, uint64_t i)
{
    int64_t n;
    plim__convert(&n, PLIM_I64, (const char *)h->data + i * plim_dtype_bytes(h->dtype), h->dtype, 1);
    return n;
}

plim_status plim__onnx_given_ints(plim__onnx_call *c, uint32_t k, const char *what, int64_t *out, uint32_t cap, uint32_t *n, plim_error *err)
{
    const plim__onnx_host *h;
    PLIM_TRY(plim__onnx_given(c, k, what, &h, err));
    PLIM_FAIL_IF(plim__dtype_is_float(h->dtype), err, PLIM_E_TYPE, "input %u (%s) is of %s, where integers are needed", k, what,
                 plim_dtype_name(h->dtype));
    PLIM_FAIL_IF(h->count > cap, err, PLIM_E_FORMAT, "input %u (%s) has %llu numbers, at most %u are expected", k, what,
                 (unsigned long long)h->count, cap);
    *n = (uint32_t)h->count;
    for (uint32_t i = 0; i < *n; i++) out[i] = plim__onnx_integer(h, i);
    return PLIM_OK;
}

plim_status plim__onnx_given_number(plim__onnx_call *c, uint32_t k, const char *what, double *out, plim_error *err)
{
    const plim__onnx_host *h;
    PLIM_TRY(plim__onnx_given(c, k, what, &h, err));
    PLIM_FAIL_IF(h->count != 1, err, PLIM_E_SHAPE, "input %u (%s) has %llu elements, not 1", k, what, (unsigned long long)h->count);
    *out = plim__onnx_number(h, 0);
    return PLIM_OK;
}

plim_status plim__onnx_out_like(plim__onnx_call *c, uint32_t j, uint32_t v, plim_error *err)
{
    uint32_t first;
    PLIM_TRY(plim__onnx_in(c, 0, &first, err));
    return plim__op_cast(c->g, v, plim__onnx_type(c, first), &c->out[j], err);
}

/* -------------------------------------------------------------------------------------------------- pieces of graph */

plim_status plim__onnx_ew(plim__onnx_call *c, plim__ew fn, const uint32_t *in, uint32_t n, uint32_t *v, plim_error *err)
{
    const uint32_t typed = fn == PLIM__EW_WHERE ? 1 : 0; /* where's first operand is a condition */
    const plim_dtype t = plim__onnx_type(c, in[typed]);
    for (uint32_t k = typed; k < n; k++)
        PLIM_FAIL_IF(plim__onnx_type(c, in[k]) != t, err, PLIM_E_TYPE, "operands of %s and %s", plim_dtype_name(t),
                     plim_dtype_name(plim__onnx_type(c, in[k])));
    const plim__ew_class cls = plim__ew_class_of(fn);
    const bool truth = cls == PLIM__EW_COMPARE || cls == PLIM__EW_LOGIC || cls == PLIM__EW_TEST;
    return plim__op_elementwise(c->g, fn, plim__dtype_compute(t), truth ? PLIM_BOOL : t, in, n, v, err);
}

plim_status plim__onnx_ew1(plim__onnx_call *c, plim__ew fn, uint32_t a, uint32_t *v, plim_error *err)
{
    return plim__onnx_ew(c, fn, &a, 1, v, err);
}

plim_status plim__onnx_ew2(plim__onnx_call *c, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v, plim_error *err)
{
    return plim__onnx_ew(c, fn, (const uint32_t[]){a, b}, 2, v, err);
}

plim_status plim__onnx_ew_number(plim__onnx_call *c, plim__ew fn, uint32_t a, double number, uint32_t *v, plim_error *err)
{
    uint32_t b;
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, a), number, &b, err));
    return plim__onnx_ew2(c, fn, a, b, v, err);
}

plim_status plim__onnx_constant(plim__onnx_call *c, plim_dtype dtype, double number, uint32_t *v, plim_error *err)
{
    uint64_t raw = 0;
    plim__convert(&raw, dtype, &number, PLIM_F64, 1);
    return plim__graph_const(c->g, dtype, &(plim_shape){0}, &raw, v, err);
}

plim_status plim__onnx_iota(plim__onnx_call *c, int64_t n, uint32_t rank, uint32_t d, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "more than %d dimensions", PLIM_MAX_RANK);
    PLIM_FAIL_IF(n < 0 || n > (int64_t)(PLIM__ONNX_ASK_BYTES / 8), err, PLIM_E_UNSUPPORTED, "a dimension of %lld is too long for this", (long long)n);
    plim_shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) s.dim[i] = i == d ? n : 1;
    int64_t *numbers = plim__new(&c->x->arena.alloc, (uint64_t)n, sizeof *numbers, err);
    if (!numbers) return PLIM_E_NOMEM;
    for (int64_t i = 0; i < n; i++) numbers[i] = i;
    const plim_status status = plim__graph_const(c->g, PLIM_I64, &s, numbers, v, err);
    plim__free(&c->x->arena.alloc, numbers);
    return status;
}

plim_status plim__onnx_product(const plim_shape *s, uint32_t from, uint32_t to, int64_t *out, plim_error *err)
{
    plim_shape part = {0};
    uint64_t n;
    for (uint32_t d = from; d < to; d++) part.dim[part.rank++] = s->dim[d];
    PLIM_TRY(plim_shape_count(&n, &part, err));
    *out = (int64_t)n;
    return PLIM_OK;
}

plim_status plim__onnx_per_channel(plim__onnx_call *c, uint32_t x, uint32_t rank, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_FAIL_IF(s.rank != 1 || rank < 2 || rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "%u dimensions where there is one number per channel", s.rank);
    plim_shape to = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) to.dim[d] = d == 1 ? s.dim[0] : 1;
    return plim__op_reshape(c->g, x, &to, v, err);
}

/* Sums are made in the compute type: f32 for half floats, i64 for integers. */
plim_status plim__onnx_sum(plim__onnx_call *c, uint32_t x, uint32_t mask, bool keepdims, bool mean, uint32_t *v, plim_error *err)
{
    const plim_dtype t = plim__onnx_type(c, x), wide = plim__dtype_compute(t);
    const plim_shape s = plim__onnx_shape(c, x);
    double count = 1; /* beside an empty dimension the others' product has no bound */
    for (uint32_t d = 0; d < s.rank; d++) count *= mask >> d & 1 ? (double)s.dim[d] : 1;
    *v = x;
    if (mask) PLIM_TRY(plim__op_reduce(c->g, PLIM__REDUCE_SUM, x, mask, keepdims, wide, v, err));
    if (mean && count != 1) {
        uint32_t by;
        PLIM_TRY(plim__onnx_constant(c, wide, count, &by, err));
        PLIM_TRY(plim__onnx_divide(c, *v, by, v, err));
    }
    return plim__op_cast(c->g, *v, t, v, err);
}
