/* What layers are made of, beside single rows: small compositions of ops, each of which passes gradients because its parts do.
 * Everything is in x's dtype (f32 or f64) unless said otherwise. */
#ifndef PLIM_OPS_LAYERS_H
#define PLIM_OPS_LAYERS_H

#include "ops/ops.h"

/* ---- activation.c */
typedef enum plim__activation {
    PLIM__RELU, PLIM__RELU6, PLIM__LEAKY_RELU, PLIM__ELU, PLIM__SELU, PLIM__GELU, PLIM__GELU_TANH, PLIM__SIGMOID, PLIM__HARD_SIGMOID, PLIM__SWISH,
    PLIM__HARD_SWISH, PLIM__TANH, PLIM__SOFTPLUS, PLIM__SOFTSIGN, PLIM__EXPONENTIAL, PLIM__MISH, PLIM__LINEAR
} plim__activation;
/** @param a, b  LEAKY_RELU, ELU: the slope a; HARD_SIGMOID: max(0, min(1, a*x + b)); SELU: a alpha, b gamma. Others do not look at them. */
plim_status plim__op_activation(plim_graph *g, plim__activation how, uint32_t x, double a, double b, uint32_t *v, plim_error *err);

/* ---- norm.c: scale and shift may be PLIM__NONE */
/** (x - mean) / sqrt(var + eps) * scale + shift with given mean and variance, all of extent C (dimension `channel`). */
plim_status plim__op_batch_norm(plim_graph *g, uint32_t x, uint32_t channel, uint32_t scale, uint32_t shift, uint32_t mean, uint32_t var, double eps,
                                uint32_t *v, plim_error *err);
/** The same with the statistics of x itself over all dimensions but `channel`. @param mean, var  of x, [C] (the variance divides by the count) */
plim_status plim__op_batch_norm_training(plim_graph *g, uint32_t x, uint32_t channel, uint32_t scale, uint32_t shift, double eps, uint32_t *v,
                                         uint32_t *mean, uint32_t *var, plim_error *err);
/** Over the dimensions from `first` on; scale and shift have those dimensions. */
plim_status plim__op_layer_norm(plim_graph *g, uint32_t x, uint32_t first, uint32_t scale, uint32_t shift, double eps, uint32_t *v, plim_error *err);
/** x [N, C, space...]: over space and the C/groups channels of each group (groups == C: instance norm); scale and shift [C]. */
plim_status plim__op_group_norm(plim_graph *g, uint32_t x, int64_t groups, uint32_t scale, uint32_t shift, double eps, uint32_t *v, plim_error *err);

/* ---- dropout.c */
/** x / (1 - rate) where a random number says so, else 0. */
plim_status plim__op_dropout(plim_graph *g, uint32_t x, double rate, uint32_t seed, uint32_t stream, uint32_t *v, plim_error *err);

/* ---- loss.c: a scalar, the mean over all elements (MSE, MAE, binary) or over all samples (cross-entropy) */
typedef enum plim__loss { PLIM__LOSS_MSE, PLIM__LOSS_MAE, PLIM__LOSS_BINARY, PLIM__LOSS_BINARY_LOGITS, PLIM__LOSS_CROSS, PLIM__LOSS_CROSS_LOGITS,
                          PLIM__LOSS_SPARSE, PLIM__LOSS_SPARSE_LOGITS } plim__loss;
/** @param y  predictions (probabilities, or logits); CROSS and SPARSE: classes in dimension `axis`
 *  @param target  of y's shape, any dtype; SPARSE: integers, without that dimension. A target that is no class adds nothing, but counts as a sample.
 *  Probabilities that a sigmoid or a softmax has just made are taken back to its logits; others are kept 1e-7 away from 0 and 1. */
plim_status plim__op_loss(plim_graph *g, plim__loss how, uint32_t y, uint32_t target, uint32_t axis, uint32_t *v, plim_error *err);

/* ---- scalar.c: constants and arithmetic that compositions are written in */
plim_status plim__op_scalar(plim_graph *g, plim_dtype dtype, double c, uint32_t *v, plim_error *err); /* a constant of rank 0 */
/** One elementwise function of operands of one float dtype, computed and given in it. */
plim_status plim__op_float1(plim_graph *g, plim__ew fn, uint32_t x, uint32_t *v, plim_error *err);
plim_status plim__op_float2(plim_graph *g, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v, plim_error *err);
/** fn(x, c) with a constant. */
plim_status plim__op_float_const(plim_graph *g, plim__ew fn, uint32_t x, double c, uint32_t *v, plim_error *err);
/** A comparison: bool out. */
plim_status plim__op_compare(plim_graph *g, plim__ew fn, uint32_t a, double c, uint32_t *v, plim_error *err);
/** a where test is not 0, else b: in a's dtype, f32 or f64. */
plim_status plim__op_where(plim_graph *g, uint32_t test, uint32_t a, uint32_t b, uint32_t *v, plim_error *err);
/** x where it lies between lo and hi, else the one that it is beyond. NaN stays. By comparisons, so that the gradient is known to be 0 at the limits
 *  and beyond them, as frameworks have it for their rectifiers. @param hi  INFINITY: no limit */
plim_status plim__op_limit(plim_graph *g, uint32_t x, double lo, double hi, uint32_t *v, plim_error *err);

#endif
