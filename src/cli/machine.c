/* See machine.h. Nothing is allocated: the description is in the verb's plim__cli_shared. */
#include "cli/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1 }; /* of what plim_machine_save writes */

/* The folder of cached files, as the XDG Base Directory Specification has it: a path that is not absolute counts as none. */
static bool cache_folder(char *path, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (xdg && xdg[0] == '/') n = snprintf(path, size, "%s/plimsoll", xdg);
    else if (home && home[0] == '/') n = snprintf(path, size, "%s/.cache/plimsoll", home);
    return n >= 0 && (size_t)n < size;
}

bool plim__cli_machine_path(char *path, size_t size, const plim_machine *m)
{
    if (!cache_folder(path, size)) return false;
    const size_t n = strlen(path);
    return (size_t)snprintf(path + n, size - n, "/machine-%016llx.json", (unsigned long long)plim_machine_hash(m)) < size - n;
}

static void use_cached(plim__cli_shared *shared)
{
    plim_machine here;
    plim_error err = {0};
    char path[sizeof shared->machine_from];
    if (plim_machine_identify(&here, ".", NULL) != PLIM_OK || !plim__cli_machine_path(path, sizeof path, &here)) return;
    if (access(path, F_OK) != 0) return;
    if (plim_machine_load(&shared->machine, path, &err) != PLIM_OK) {
        fprintf(stderr, "plimsoll: warning: the machine's description is not used: %s; plimsoll doctor makes a new one\n", err.message);
        return;
    }
    if (!plim_machine_same(&shared->machine, &here)) return; /* measured by another version */
    shared->set.machine = &shared->machine;
    snprintf(shared->machine_from, sizeof shared->machine_from, "%s", path);
}

bool plim__cli_machine(const plim__cli_command *cmd, plim__cli_shared *shared, int *leave)
{
    plim_error err = {0};
    snprintf(shared->machine_from, sizeof shared->machine_from, "defaults");
    if (shared->machine_file && shared->no_machine) {
        *leave = plim__cli_usage(cmd->name, "--machine and --no-machine exclude each other");
        return false;
    }
    if (shared->no_machine) return true;
    if (!shared->machine_file) {
        use_cached(shared);
        return true;
    }
    if (plim_machine_load(&shared->machine, shared->machine_file, &err) != PLIM_OK) {
        *leave = plim__cli_usage(cmd->name, "--machine: %s", err.message);
        return false;
    }
    shared->set.machine = &shared->machine;
    snprintf(shared->machine_from, sizeof shared->machine_from, "%s", shared->machine_file);
    return true;
}

/* Makes every folder on the way to the file. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

plim_status plim__cli_machine_keep(char *path, size_t size, const plim_machine *m, plim_error *err)
{
    if (!plim__cli_machine_path(path, size, m)) {
        err->code = PLIM_E_INVALID;
        snprintf(err->message, sizeof err->message, "neither XDG_CACHE_HOME nor HOME names a folder for the machine's description");
        return err->code;
    }
    make_folders(path);
    return plim_machine_save(m, path, err);
}

void plim__emit_machine_used(plim__emit *e, const plim__cli_shared *shared)
{
    plim__emit_string(e, "machine", "machine", shared->machine_from);
}

void plim__json_machine(plim__json *j, const char *key, const plim_machine *m)
{
    double value;
    char name[64];
    if (!m) return;
    plim__json_object(j, key);
    plim__json_uint(j, "format", FORMAT);
    plim__json_string(j, "version", m->version);
    plim__json_string(j, "date", m->date);
    plim__json_string(j, "cpu", m->cpu);
    plim__json_string(j, "level", m->level);
    plim__json_uint(j, "cpus", m->cpus);
    plim__json_string(j, "file_system", m->file_system);
    plim__json_string(j, "device", m->device);
    plim__json_uint(j, "threads", m->threads);
    plim__json_object(j, "numbers");
    for (uint32_t i = 0; plim_machine_number(m, i, &value, name); i++) plim__json_number(j, name, value);
    plim__json_end(j);
    plim__json_end(j);
}
