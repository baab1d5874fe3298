/* The log of candidates: what was tried, for people who ask why something won. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "run/tuner_parts.h"

void tuff__tuner_log_open(tuner *self)
{
    const char *where = self->options->tune_log;
    if (where == NULL || where[0] == '\0')
        return;
    self->log = strcmp(where, "-") == 0 ? stderr : fopen(where, "a");
    if (self->log == NULL)
        tuff__log(TUFF_LOG_WARNING, "tune: the log %.200s cannot be written: %s", where, strerror(errno));
}

void tuff__tuner_log_close(tuner *self)
{
    if (self->log == NULL)
        return;
    bool failed = ferror(self->log) != 0;
    if (self->log == stderr)
        failed |= fflush(self->log) != 0;
    else
        failed |= fclose(self->log) != 0;
    if (failed)
        tuff__log(TUFF_LOG_WARNING, "tune: the log %.200s was not written whole", self->options->tune_log);
    self->log = NULL;
}

void tuff__tuner_log_add(const subject *of, const choice *what, verdict found, uint64_t nanoseconds, int samples)
{
    const tuner *self = of->of;
    text name = {0};
    char reason[200] = "";
    if (self->log == NULL)
        return;
    if (found != VERDICT_GOOD && found != VERDICT_SLOW)
        (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    tuff__text_one_line(reason);
    tuff__choice_format(what, &name);
    (void)fprintf(self->log, "%.3f\t%s\t%" PRIu64 "\t%d\t%s\t%s\t%s\n",
                  (double)(tuff__nanoseconds() - self->begin) * 1e-9, tuff__verdict_text(found), nanoseconds, samples,
                  name.length > 0 ? tuff__text_get(&name) : "default", of->text, reason);
    tuff__text_free(&name);
}
