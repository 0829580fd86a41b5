/* What is known of a model beside its plans: shared by the reports on it. */
#ifndef PLIM_REPORT_MODEL_REPORT_H
#define PLIM_REPORT_MODEL_REPORT_H

#include "plan/plan.h"
#include "session/model_program.h"

/** Which way a node works: "backward"; "update", when what it makes takes a state's place; else "forward". */
const char *plim__node_direction(const plim_graph *g, uint32_t node);
/** Fails unless `plan` is NULL or a plan of this model. */
plim_status plim__check_plan_of(const plim_model *m, const plim_plan *plan, plim_error *err);

#endif
