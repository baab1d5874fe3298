/* The status and message of each thread's last failure. Nothing here allocates, so that running out of memory can be
   reported too. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static _Thread_local char message[TUFF_ERROR_SIZE];
static _Thread_local tuff_status last_status;

static const char *const names[] = {
#define X(name, text) "TUFF_" #name,
    TUFF_STATUS_MAP(X)
#undef X
};

static const char *const texts[] = {
#define X(name, text) text,
    TUFF_STATUS_MAP(X)
#undef X
};

static bool status_is_known(tuff_status status)
{
    return (size_t)status < sizeof names / sizeof names[0];
}

const char *tuff_status_name(tuff_status status)
{
    return status_is_known(status) ? names[status] : "TUFF_E_UNKNOWN";
}

const char *tuff_error(void)
{
    return message;
}

tuff_status tuff__fail_list(tuff_status status, const char *format, va_list list)
{
    /* The arguments may point into the old message. */
    char fresh[TUFF_ERROR_SIZE];
    if (vsnprintf(fresh, sizeof fresh, format, list) < 0 || !fresh[0])
        (void)snprintf(fresh, sizeof fresh, "%s", status_is_known(status) ? texts[status] : "unknown error");
    tuff__text_one_line(fresh);
    memcpy(message, fresh, sizeof message);
    last_status = status;
    return status;
}

tuff_status tuff__fail(tuff_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tuff_status result = tuff__fail_list(status, format, list);
    va_end(list);
    return result;
}

void tuff__error_save(saved_error *out)
{
    out->status = last_status;
    memcpy(out->message, message, sizeof message);
}

void tuff__error_restore(const saved_error *saved)
{
    last_status = saved->status;
    memcpy(message, saved->message, sizeof message);
}

tuff_status tuff_last_status(void)
{
    return last_status;
}

tuff_status tuff__failure_status(void)
{
    return last_status == TUFF_OK ? TUFF_E_OOM_HOST : last_status;
}
