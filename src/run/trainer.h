/* What a training is made of, for the files that do its parts. */
#ifndef PLIM_RUN_TRAINER_H
#define PLIM_RUN_TRAINER_H

#include "run/dataset.h"
#include "run/model_program.h"
#include "run/rate.h"

struct plim_trainer {
    plim__alloc alloc;
    plim__dataset data; /* the inputs, then the target */
    plim_model *model;
    plim_plan *plan;    /* open */
    char *model_path;
    plim__sample_order order;
    int64_t *row;       /* of the step under way: one per sample of a batch */
    uint64_t seed;
    uint64_t step, steps, per_epoch; /* done, in all, in one epoch: samples that fill no batch are left out, others each time */
    double rate;
    plim__rate_schedule schedule;
    plim_train_facts last;
};

/* ---- checkpoint.c */
/** What a checkpoint's plan was made with, where `set` leaves it open. */
plim_status plim__checkpoint_settings(plim_settings *set, const char *path, plim_error *err);
/** Loads everything from a checkpoint of this training. */
plim_status plim__trainer_resume(plim_trainer *t, const char *path, plim_error *err);

#endif
