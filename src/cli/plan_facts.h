/* What every verb that plans says of its plan. */
#ifndef PLIM_CLI_PLAN_FACTS_H
#define PLIM_CLI_PLAN_FACTS_H

#include "cli/emit.h"

/** The model's name and size, and what is done with it. */
void plim__emit_model(plim__emit *e, const plim_model_info *m);
/** The budget, whether it fits, the planned peak and its parts, what is read and written. */
void plim__emit_budget(plim__emit *e, const plim_facts *f);
void plim__emit_moves(plim__emit *e, const plim_facts *f);
/** The step at which memory is highest and what is alive there; as text the largest five. */
void plim__emit_peak(plim__emit *e, const plim_facts *f);
/** How long a run took and what it touched. */
void plim__emit_run(plim__emit *e, const plim_run_facts *r, const plim_facts *planned);
/** The outputs: name, file, shape, dtype. */
void plim__emit_outputs(plim__emit *e, const plim_plan *plan);
/** What a script that asked for JSON needs to know when nothing fits, as an object of its own on stdout. */
void plim__emit_refusal(const char *verb, const plim_error *err);
/** The plan's loops, stages and slots on stderr. */
void plim__cli_schedule(const plim_plan *plan);

#endif
