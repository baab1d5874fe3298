/* The application's log callback. A lock protects callback and user together; the callback is called without it, so
   that it may call the library. */
#include "base/log.h"

#include <stdio.h>

#include "base/text.h"
#include "base/thread.h"

#define LOG_SIZE 4096

static mutex guard = MUTEX_INITIALIZER;
static tuff_log_callback current_callback;
static void *current_user;

void tuff_set_log(tuff_log_callback callback, void *user)
{
    tuff__lock(&guard);
    current_callback = callback;
    current_user = user;
    tuff__unlock(&guard);
}

void tuff__log(tuff_log_level level, const char *format, ...)
{
    tuff__lock(&guard);
    tuff_log_callback callback = current_callback;
    void *user = current_user;
    tuff__unlock(&guard);
    if (!callback)
        return;
    char line[LOG_SIZE];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (length < 0)
        return;
    tuff__text_one_line(line);
    callback(user, level, line);
}
