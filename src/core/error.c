/* The one place that every failure passes through. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static plim_status fail_v(plim_error *err, plim_status code, const char *where, const char *fmt, va_list args)
{
    if (!err || err->code != PLIM_OK) return code;
    err->code = code;
    vsnprintf(err->message, sizeof err->message, fmt, args);
    if (where) snprintf(err->where, sizeof err->where, "%s", where);
    return code;
}

plim_status plim__fail(plim_error *err, plim_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const plim_status status = fail_v(err, code, NULL, fmt, args);
    va_end(args);
    return status;
}

plim_status plim__fail_at(plim_error *err, plim_status code, const char *where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const plim_status status = fail_v(err, code, where, fmt, args);
    va_end(args);
    return status;
}

const char *plim_status_name(plim_status status)
{
    switch (status) {
#define NAME(x) case x: return #x;
    NAME(PLIM_OK)
    NAME(PLIM_E_INVALID) NAME(PLIM_E_SYNTAX) NAME(PLIM_E_TYPE) NAME(PLIM_E_SHAPE) NAME(PLIM_E_OVERFLOW)
    NAME(PLIM_E_FORMAT) NAME(PLIM_E_UNSUPPORTED)
    NAME(PLIM_E_NOMEM) NAME(PLIM_E_BUDGET)
    NAME(PLIM_E_IO) NAME(PLIM_E_NOSPACE) NAME(PLIM_E_CHANGED) NAME(PLIM_E_CANCELLED) NAME(PLIM_E_NUMBERS)
    NAME(PLIM_E_PLAN)
#undef NAME
    }
    return "PLIM_E_UNKNOWN";
}
