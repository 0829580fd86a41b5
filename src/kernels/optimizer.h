/* One step of an optimizer, element by element. With g' = g + l2*p:
 *
 *     SGD        p - rate*g'
 *     MOMENTUM   v = beta1*v + g';                                           p - rate*v
 *     NESTEROV   v = beta1*v + g';                                           p - rate*(g' + beta1*v)
 *     ADAM       m = beta1*m + (1 - beta1)*g', v = beta2*v + (1 - beta2)*g'^2; shrink*p - rate * m*fix1 / (sqrt(v*fix2) + eps)
 *     RMSPROP    v = beta1*v + (1 - beta1)*g'^2;                             p - rate*g' / (sqrt(v) + eps)
 *
 * Outputs may lie exactly on the inputs that they replace. Any strides; f32 or f64. Serial, nothing is allocated or kept; 40 KiB of stack. */
#ifndef PLIM_KERNELS_OPTIMIZER_H
#define PLIM_KERNELS_OPTIMIZER_H

#include "kernels/view.h"

typedef enum plim__update { PLIM__UPDATE_SGD, PLIM__UPDATE_MOMENTUM, PLIM__UPDATE_NESTEROV, PLIM__UPDATE_ADAM, PLIM__UPDATE_RMSPROP,
                           PLIM__UPDATE_COUNT } plim__update;

typedef struct plim__update_by {
    double rate, l2, shrink;
    double beta1, beta2, eps;
    double fix1, fix2; /* 1 / (1 - beta**step) */
} plim__update_by;

/** @param out  p, then the states; @param in  p, g, then the states. One dtype and one box. @param states  0 to 2 */
void plim__update_run(plim__update how, const plim__update_by *by, const plim__view *out, const plim__view *in, uint32_t states);

/* ---- inner loops over dense operands, in f32 and f64 */
typedef void plim__update_lane(void *const *out, const void *const *in, const plim__update_by *by, int64_t n);
extern plim__update_lane *const plim__update_lanes_base[2][PLIM__UPDATE_COUNT], *const plim__update_lanes_v3[2][PLIM__UPDATE_COUNT];

#endif
