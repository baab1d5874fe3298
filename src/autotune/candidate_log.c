/* The log of candidates (TUFF_TUNE_LOG, tuff_tune_options.log): a line for every candidate that was tried, for people
   who want to know why one won. tuff/tune.h documents the columns. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/log.h"
#include "autotune/session.h"

void tuff__session_log_open(tuning_session *self)
{
    const char *where = tuff__tune_options(self->options)->log;
    self->log = -1;
    self->opened = tuff__nanoseconds();
    if (where == NULL || where[0] == '\0')
        return;
    where = strcmp(where, "-") == 0 ? "/dev/stderr" : where;
    self->log = tuff__file.open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (self->log < 0)
        tuff__log(TUFF_LOG_WARNING, "tune: cannot open the log %.200s: %s", where, strerror(errno));
}

void tuff__session_log_close(tuning_session *self)
{
    if (self->log >= 0)
        (void)tuff__file.close(self->log);
    self->log = -1;
}

/* Writes a line with a single call, so that lines of several processes do not mix. */
static void write_line(tuning_session *self, const text *line)
{
    const size_t size = line->length;
    if (tuff__file.write(self->log, tuff__text_get(line), size) == (ssize_t)size)
        return;
    tuff__log(TUFF_LOG_WARNING, "tune: cannot write to the log %.200s any more",
              tuff__tune_options(self->options)->log);
    tuff__session_log_close(self);
}

void tuff__session_log_add(const tuning_task *task, const tune_config *config, tune_evaluation result,
                           uint64_t nanoseconds, int samples)
{
    tuning_session *self = task->session;
    text name = {0}, line = {0};
    char reason[200] = "";
    if (self->log < 0)
        return;
    if (result != EVALUATION_GOOD && result != EVALUATION_SLOW)
        (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    tuff__text_one_line(reason);
    tuff__config_format(config, &name);
    const double seconds = tuff__seconds_since(self->opened);
    tuff__text_add(&line, "%s\t%s\t%" PRIu64 "\t%d\t%s\t%s\t%s\n", NUMBER_TEXT('f', 3, seconds),
                   tuff__evaluation_text(result), nanoseconds, samples,
                   name.length > 0 ? tuff__text_get(&name) : "default", task->text, reason);
    if (tuff__text_status(&line) == TUFF_OK)
        write_line(self, &line);
    tuff__text_free(&line);
    tuff__text_free(&name);
}
