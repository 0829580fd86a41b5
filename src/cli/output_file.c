#include "cli/output_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static plim_status fail(plim_error *err, const char *path, int why)
{
    const plim_status code = why == ENOSPC || why == EDQUOT ? PLIM_E_NOSPACE : PLIM_E_IO;
    if (err) {
        *err = (plim_error){.code = code};
        snprintf(err->message, sizeof err->message, "'%.300s' cannot be written: %s", path, strerror(why));
    }
    return code;
}

plim_status plim__output_file_open(plim__output_file *f, const char *path, plim_error *err)
{
    struct stat st;
    f->path = path;
    f->temp[0] = 0;
    f->out = NULL;
    const bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    const int n = direct ? 0 : snprintf(f->temp, sizeof f->temp, "%s.%ld.tmp", path, (long)getpid());
    if (n >= (int)sizeof f->temp) return fail(err, path, ENAMETOOLONG);
    f->out = fopen(direct ? path : f->temp, direct ? "we" : "wxe");
    return f->out ? PLIM_OK : fail(err, path, errno);
}

plim_status plim__output_file_finish(plim__output_file *f, plim_error *err)
{
    const bool direct = !f->temp[0];
    const bool failed_before = ferror(f->out); /* its errno is gone: what the last flush says is what is known */
    errno = 0;
    bool ok = fflush(f->out) == 0 && !failed_before && (direct || fsync(fileno(f->out)) == 0);
    int why = errno ? errno : EIO;
    if (fclose(f->out) && ok) ok = false, why = errno;
    f->out = NULL;
    if (ok && !direct && rename(f->temp, f->path)) ok = false, why = errno;
    if (ok) return PLIM_OK;
    if (!direct) unlink(f->temp);
    return fail(err, f->path, why);
}

void plim__output_file_drop(plim__output_file *f)
{
    if (!f->out) return;
    fclose(f->out);
    f->out = NULL;
    if (f->temp[0]) unlink(f->temp);
}
