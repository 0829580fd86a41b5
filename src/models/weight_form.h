/* How a convolution's weights lie in memory: as the model's file has them, or in blocks of 16 outputs (and 16 channels), as the kernels want them
 * (ops.h, conv_blocked). Every parameter of a model has a form; whoever loads or saves it converts. */
#ifndef PLIM_MODELS_WEIGHT_FORM_H
#define PLIM_MODELS_WEIGHT_FORM_H

#include "core/shape.h"

#define PLIM__BLOCK 16

typedef enum plim__form_kind {
    PLIM__FORM_PLAIN,
    PLIM__FORM_BLOCKED,   /* [outputs / 16, channels / 16, rows, columns, 16 channels, 16 outputs] */
    PLIM__FORM_FIRST,     /* [outputs / 16, channels, rows, columns, 16 outputs]: of layers with few channels */
    PLIM__FORM_DEPTHWISE, /* [channels / 16, rows, columns, 16] */
} plim__form_kind;

typedef struct plim__weight_form {
    plim__form_kind kind;
    plim_shape plain;    /* as the file has it */
    uint8_t dim[4];      /* which of its dimensions are outputs, channels, rows, columns */
} plim__weight_form;

/** The shape in memory. Outputs and channels are filled up to whole blocks: with zeros. */
plim_shape plim__form_shape(const plim__weight_form *f);
bool plim__form_equal(const plim__weight_form *a, const plim__weight_form *b);
/** Where elements [first, first + n) of the file's order go: place[i] is the index in memory of element first + i. */
void plim__form_places(const plim__weight_form *f, uint64_t first, uint64_t n, uint64_t *place);

#endif
