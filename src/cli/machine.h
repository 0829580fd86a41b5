/* Which machine description a command uses, where doctor keeps one, and how it is printed.
 *
 *     --machine FILE   this one
 *     --no-machine     the library's defaults
 *     neither          $XDG_CACHE_HOME/plimsoll/machine-<hash>.json (~/.cache without it), if doctor has measured this machine and the file system of the
 *                      current folder; else the defaults
 */
#ifndef PLIM_CLI_MACHINE_H
#define PLIM_CLI_MACHINE_H

#include "cli/cli.h"

/** For verbs with PLIM__CLI_MACHINE, after plim__cli_parse: loads the description into shared->machine and points shared->set at it. A cached file that is damaged is
 *  ignored, with a warning; one that was named is an error. @return false when the verb should leave with *leave: a message was printed */
bool plim__cli_machine(const plim__cli_command *cmd, plim__cli_shared *shared, int *leave);
/** The cached file of a description. @return false where the environment names no folder for it */
bool plim__cli_machine_path(char *path, size_t size, const plim_machine *m);
/** Saves it there, and makes the folders. */
plim_status plim__cli_machine_keep(char *path, size_t size, const plim_machine *m, plim_error *err);

/** Names the description that was used: its file, or "defaults". */
void plim__emit_machine_used(plim__emit *e, const plim__cli_shared *shared);
/** A description as an object, as plim_machine_save writes it. Nothing for NULL. */
void plim__json_machine(plim__json *j, const char *key, const plim_machine *m);

#endif
