/* What a training is made of, for the files that do its parts. */
#ifndef PLIM_SESSION_TRAINER_H
#define PLIM_SESSION_TRAINER_H

#include "session/dataset.h"
#include "session/model_program.h"
#include "session/rate.h"

/** The model over other samples, all of them, as it infers: a program of its own that runs between steps, in the part of the training's memory that no
 *  step needs from one to the next. */
typedef struct plim__validation {
    plim__dataset data; /* the inputs, then the target */
    plim_model *model;  /* NULL: there is none */
    plim_plan *plan;    /* open while it runs only */
    uint64_t at;        /* where its arena begins in the one that both share */
} plim__validation;

struct plim_trainer {
    plim__alloc alloc;
    plim__dataset data; /* the inputs, then the target */
    plim_model *model;
    plim_plan *plan;    /* open */
    plim__validation validation;
    void *arena;        /* that training and validation share; NULL: there is no validation */
    uint64_t arena_bytes;
    char *model_path;
    plim__sample_order order;
    int64_t *row;       /* of the step under way: one per sample of a batch; NULL where batches are filled */
    plim_batch_fill fill; /* NULL: rows of files */
    void *fill_ctx;
    plim_batch_part *part; /* what is filled: inputs, then the target */
    uint64_t seed;
    uint64_t step, steps, per_epoch; /* done, in all, in one epoch: samples that fill no batch are left out, others each time */
    double rate;
    plim__rate_schedule schedule;
    plim_train_facts last;
};

/** A result that is a single number; NaN where there is none. */
double plim__trainer_number(const plim_plan *plan, uint32_t value);

/* ---- checkpoint.c */
/** What a checkpoint's plans were made with, where `set` leaves it open: the same settings give the same plans. */
plim_status plim__checkpoint_settings(plim_settings *set, const char *path, plim_error *err);
/** Loads everything from a checkpoint of this training. */
plim_status plim__trainer_resume(plim_trainer *t, const char *path, plim_error *err);

/* ---- trainer_plan.c */
/** Plans the training, and the validation where one is asked for, inside one budget. */
plim_status plim__trainer_plan(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err);

/* ---- validation.c */
/** Reads the model as it infers, for the samples that the options name. */
plim_status plim__validation_read(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err);
void plim__validation_free(plim__validation *v, const plim__alloc *a);

#endif
