/* The program's side of a helper. Whatever goes wrong ends the helper, never the program: without one the plan's thread
   measures itself, or nothing more is measured. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "run/helper.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/log.h"
#include "graph/blob.h"
#include "run/helper_parts.h"
#include "run/strikes.h"
#include "run/wire.h"

#define SECOND UINT64_C(1000000000)
enum { MOST_STARTS = 3, MOST_MESSAGE = 1 << 24 };

/* The helper tells of itself several times a second, but not within a step that takes far too long. */
static uint64_t patience(void)
{
    const char *asked = getenv("TUFF_TUNE_WATCHDOG");
    const double seconds = asked == NULL ? 0 : strtod(asked, NULL);
    return seconds > 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e9) : 30 * SECOND;
}

/* The socket is closed under the lock too, so that whoever stops the thread never shuts another file. */
static int reap(background *self, uint64_t grace)
{
    tuff__lock(&self->lock);
    self->wire = -1;
    tuff__unlock(&self->lock);
    return tuff__helper_reap(&self->helper->process, grace);
}

void tuff__helper_free(background *self)
{
    if (self->helper == NULL)
        return;
    tuff__wire_free(&self->helper->in);
    tuff__free(self->helper);
    self->helper = NULL;
}

void tuff__helper_end(background *self)
{
    const uint64_t in_order = 10 * SECOND, at_once = 2 * SECOND, begin = tuff__nanoseconds();
    if (self->helper == NULL)
        return;
    const int fd = self->helper->process.fd;
    bool goes_on = !tuff__background_is_stopped(self) && tuff__wire_send(fd, WIRE_END, NULL) == TUFF_OK;
    while (goes_on && tuff__nanoseconds() - begin < in_order)
        goes_on = tuff__wire_receive(fd, MOST_MESSAGE, in_order, &self->helper->in) == TUFF_OK;
    (void)reap(self, at_once);
    tuff__helper_free(self);
}

void tuff__helper_hear_stats(background *self, byte_reader *from, tuff_tune_stats *out)
{
    size_t size;
    const void *found = tuff__take_bytes(from, &size);
    if (size != sizeof *out) {
        from->failed = true;
        return;
    }
    memcpy(out, found, sizeof *out);
    self->tuner->stats = self->helper->before;
    tuff__background_add(&self->tuner->stats, out);
}

static tuff_status answer(const background *self, bool yes)
{
    text body = {0};
    tuff__put_u8(&body, yes);
    const tuff_status status = tuff__wire_send(self->helper->process.fd, WIRE_ANSWER, &body);
    tuff__text_free(&body);
    return status;
}

static tuff_status hear_log(byte_reader *from)
{
    char line[TUFF_ERROR_SIZE * 2];
    const int level = tuff__take_below(from, TUFF_LOG_DEBUG + 1);
    tuff__take_text(from, line, sizeof line);
    TRY(tuff__reader_status(from, "the helper's message"));
    tuff__log((tuff_log_level)level, "%s", line);
    return TUFF_OK;
}

static tuff_status tell_progress(const background *self, byte_reader *from)
{
    char key[TUNE_KEY_SIZE], best[4096], rejection[256];
    tuff_tune_progress now = {.key = key, .best = best, .rejection = rejection};
    now.key_count = (int)tuff__take_u32(from);
    now.keys_done = (int)tuff__take_u32(from);
    now.seconds_left = tuff__take_double(from);
    tuff__take_text(from, key, sizeof key);
    tuff__take_text(from, best, sizeof best);
    now.default_nanoseconds = tuff__take_u64(from);
    now.best_nanoseconds = tuff__take_u64(from);
    now.candidates = (int)tuff__take_u32(from);
    now.rejected = (int)tuff__take_u32(from);
    tuff__take_text(from, rejection, sizeof rejection);
    TRY(tuff__reader_status(from, "the helper's progress"));
    const tuff_tune_options *tuning = tuff__tune_options(&self->options);
    if (tuning->progress != NULL && !tuning->progress(tuning->user, &now))
        self->tuner->stopped = true;
    return answer(self, !self->tuner->stopped);
}

static tuff_status let_wait(background *self, byte_reader *from);

/* The next message that is not served here. */
static tuff_status receive(background *self, wire_kind *kind)
{
    helper *with = self->helper;
    for (;;) {
        TRY(tuff__wire_receive(with->process.fd, MOST_MESSAGE, with->patience, &with->in));
        byte_reader from = tuff__wire_reader(&with->in);
        *kind = with->in.kind;
        if (*kind == WIRE_LOG)
            TRY(hear_log(&from));
        else if (*kind == WIRE_PROGRESS)
            TRY(tell_progress(self, &from));
        else if (*kind == WIRE_GIVE_WAY)
            TRY(let_wait(self, &from));
        else if (*kind != WIRE_ALIVE)
            return TUFF_OK;
    }
}

tuff_status tuff__helper_expect(background *self, wire_kind wanted, byte_reader *out)
{
    wire_kind kind;
    TRY(receive(self, &kind));
    if (kind != wanted)
        return FAIL(TUFF_E_FORMAT, "the helper says something else than it was asked");
    *out = tuff__wire_reader(&self->helper->in);
    return TUFF_OK;
}

/* Between two steps of the helper, as between two of a tuner in this thread. */
static tuff_status let_wait(background *self, byte_reader *from)
{
    text body = {0};
    tuff_tune_stats now;
    const uint64_t before = self->tuner->begin;
    const bool is_between = tuff__take_bool(from);
    tuff__helper_hear_stats(self, from, &now);
    TRY(tuff__reader_status(from, "the helper's stats"));
    if (is_between)
        tuff__background_publish(self);
    tuff__put_u8(&body, tuff__background_give_way(self, is_between));
    tuff__put_u64(&body, self->tuner->begin - before);
    const tuff_status status = tuff__wire_send(self->helper->process.fd, WIRE_GO, &body);
    tuff__text_free(&body);
    return status;
}

static tuff_status ask(background *self, wire_kind what, const text *body, bool *out)
{
    byte_reader from;
    TRY(tuff__wire_send(self->helper->process.fd, what, body));
    TRY(tuff__helper_expect(self, WIRE_ANSWER, &from));
    *out = tuff__take_bool(&from);
    return tuff__reader_status(&from, "the helper's answer");
}

/* A helper that is gone is noticed by what comes next. */
bool tuff__helper_take_silicon(background *self)
{
    bool taken = true;
    return ask(self, WIRE_TAKE, NULL, &taken) != TUFF_OK || taken;
}

void tuff__helper_leave_silicon(background *self)
{
    (void)tuff__wire_send(self->helper->process.fd, WIRE_LEAVE, NULL);
}

void tuff__helper_compile(background *self, const program_request *what)
{
    text body = {0};
    bool kept = false;
    if (!self->helper->has_cache)
        return;
    tuff__put_text(&body, what->name);
    tuff__put_text(&body, what->text);
    tuff__put_u32(&body, (uint32_t)what->buffer_count);
    tuff__put_u32(&body, (uint32_t)what->word_count);
    tuff__put_u32(&body, what->local_size);
    tuff__put_u32(&body, what->subgroup_size);
    if (ask(self, WIRE_COMPILE, &body, &kept) != TUFF_OK || !kept)
        tuff__log(TUFF_LOG_DEBUG, "tune: %s is not compiled ahead", what->name);
    tuff__text_free(&body);
}

static tuff_status put_job(background *self, text *graph, text *out)
{
    const tuner *of = self->tuner;
    static helper_job usual;
    helper_job *job = tuff__memdup(&usual, sizeof usual);
    if (job == NULL)
        return TUFF_E_OOM_HOST;
    self->helper->has_cache = tuff__cache_folder(job->cache, sizeof job->cache) == TUFF_OK;
    if (!self->helper->has_cache)
        job->cache[0] = '\0';
    (void)snprintf(job->selector, sizeof job->selector, "%s", tuff__device_info(self->plan->device)->selector);
    (void)snprintf(job->environment, sizeof job->environment, "%s", of->environment_text);
    job->options = self->options;
    job->buffer_limit = self->plan->fusion.buffer_limit;
    job->passes = self->plan->passes.by;
    job->graph_key = self->plan->graph_key;
    job->is_whole = self->whole != NULL;
    job->compile_patience = tuff__compile_patience;
    job->keys = tuff__helper_keys(of);
    tuff_status status = tuff__graph_write(self->whole != NULL ? self->whole : self->plan->graph, graph);
    job->graph = tuff__text_get(graph);
    job->graph_size = graph->length;
    if (status == TUFF_OK) {
        tuff__helper_put_job(out, job);
        status = tuff__text_status(out);
    }
    tuff__free(job);
    return status;
}

static tuff_status begin(background *self)
{
    text graph = {0}, body = {0};
    byte_reader from;
    char trouble[TUFF_ERROR_SIZE];
    tuff_status status = put_job(self, &graph, &body);
    tuff__text_free(&graph);
    if (status == TUFF_OK)
        status = tuff__wire_send(self->helper->process.fd, WIRE_BEGIN, &body);
    tuff__text_free(&body);
    TRY(status);
    self->gave_up = true; /* where it does not come back from the device, this process would not either */
    TRY(tuff__helper_expect(self, WIRE_READY, &from));
    tuff__take_text(&from, trouble, sizeof trouble);
    TRY(tuff__reader_status(&from, "the helper's answer"));
    self->gave_up = false;
    return trouble[0] == '\0' ? TUFF_OK : FAIL(TUFF_E_IO, "%s", trouble);
}

static tuff_status greet(background *self)
{
    byte_reader from;
    char build[WIRE_BUILD_SIZE], own[WIRE_BUILD_SIZE];
    TRY(tuff__helper_expect(self, WIRE_HELLO, &from));
    tuff__take_text(&from, build, sizeof build);
    TRY(tuff__reader_status(&from, "the helper's first word"));
    if (strcmp(build, tuff__wire_build(own)) != 0)
        return FAIL(TUFF_E_FORMAT, "it is of another build than this library (%s)", build);
    return begin(self);
}

/* Behind this a stop reaches whoever waits for the helper. */
static bool show_socket(background *self)
{
    tuff__lock(&self->lock);
    const bool goes_on = !self->stop;
    if (goes_on)
        self->wire = self->helper->process.fd;
    tuff__unlock(&self->lock);
    return goes_on;
}

static tuff_status start(background *self, const char *file)
{
    helper *with = tuff__calloc(1, sizeof *with);
    if (with == NULL)
        return TUFF_E_OOM_HOST;
    self->helper = with;
    with->process.fd = -1;
    with->before = self->tuner->stats;
    with->patience = patience();
    self->starts++;
    tuff_status status = tuff__helper_spawn(file, &with->process);
    if (status == TUFF_OK)
        status = show_socket(self) ? greet(self) : FAIL(TUFF_E_TIMEOUT, "it was stopped");
    if (status == TUFF_OK)
        return TUFF_OK;
    (void)reap(self, 0);
    tuff__helper_free(self);
    return status;
}

static const char *what_instead(const background *self)
{
    if (self->whole != NULL)
        return "nothing is measured";
    return self->gave_up || self->starts > 1 || tuff__tune_options(&self->options)->isolation == TUFF_ISOLATE_ON
               ? "nothing is measured in the background"
               : "a thread of this process measures instead";
}

/* Devices that the application made cannot be opened by others. */
tuff_status tuff__helper_start(background *self)
{
    static atomic_flag was_told = ATOMIC_FLAG_INIT;
    const bool is_needed = tuff__tune_options(&self->options)->isolation == TUFF_ISOLATE_ON;
    char file[4096];
    if (strstr(tuff__device_info(self->plan->device)->selector, ":wrapped") != NULL) {
        if (is_needed)
            tuff__log(TUFF_LOG_WARNING, "tune: no helper can open a device that the application made: %s",
                      what_instead(self));
        return TUFF_OK;
    }
    if (!tuff__helper_find(file, sizeof file)) {
        if (is_needed || !atomic_flag_test_and_set(&was_told))
            tuff__log(is_needed ? TUFF_LOG_WARNING : TUFF_LOG_INFO, "tune: there is no helper to tune with (%s): %s",
                      file[0] == '\0' ? "TUFF_HELPER is empty" : file, what_instead(self));
        return TUFF_OK;
    }
    tuff__background_leave_silicon(self);
    const tuff_status status = start(self, file);
    if (status == TUFF_OK || status == TUFF_E_OOM_HOST || tuff__background_is_stopped(self))
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    tuff__log(TUFF_LOG_WARNING, "tune: the helper %s is of no use: %s: %s", file, tuff_error(), what_instead(self));
    return TUFF_OK;
}

typedef struct finding {
    tuff_status status;
    bool lost;
} finding;

static tuff_status take_measured(subject *of, byte_reader *from, finding *out)
{
    background *self = of->of->user;
    char error[TUFF_ERROR_SIZE], candidate[4096];
    choice chosen;
    tuff_tune_stats now;
    out->status = (tuff_status)tuff__take_u32(from);
    tuff__take_text(from, error, sizeof error);
    out->lost = tuff__take_bool(from);
    of->of->keys_done = (int)tuff__take_u32(from);
    const bool was_measured = tuff__take_bool(from);
    const int tier = tuff__take_below(from, TIER_DEFAULT + 1);
    tuff__take_text(from, candidate, sizeof candidate);
    tuff__helper_hear_stats(self, from, &now);
    TRY(tuff__reader_status(from, "what the helper found"));
    TRY(tuff__choice_parse(candidate, &chosen));
    of->chosen = chosen;
    of->tier = (tune_tier)tier;
    of->was_measured |= was_measured;
    if (out->status != TUFF_OK)
        (void)FAIL(out->status, "%s", error);
    return TUFF_OK;
}

static tuff_status ask_to_measure(subject *of, uint64_t budget, finding *out)
{
    background *self = of->of->user;
    byte_reader from;
    text body = {0};
    tuff__put_u32(&body, (uint32_t)(of - of->of->subjects));
    tuff__put_u64(&body, budget);
    tuff__put_u64(&body, of->of->later);
    tuff__put_u32(&body, (uint32_t)of->of->keys_wanted);
    tuff__put_u32(&body, (uint32_t)of->of->keys_done);
    tuff_status status = tuff__wire_send(self->helper->process.fd, WIRE_MEASURE, &body);
    tuff__text_free(&body);
    TRY(status);
    TRY(tuff__helper_expect(self, WIRE_MEASURED, &from));
    return take_measured(of, &from, out);
}

static void tell_of_end(const char *what, tuff_status why, int status)
{
    char how[64] = "ended";
    if (why == TUFF_E_TIMEOUT)
        (void)snprintf(how, sizeof how, "showed no sign of life");
    else if (status != -1 && WIFSIGNALED(status))
        (void)snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
    else if (status != -1 && WIFEXITED(status))
        (void)snprintf(how, sizeof how, "ended with code %d", WEXITSTATUS(status));
    tuff__log(TUFF_LOG_WARNING, "tune: the helper %s while it measured %s: what it was at is left out", how, what);
}

/* Blames the candidate, so that the next helper leaves it out. */
tuff_status tuff__helper_bury(background *self, const char *what, tuff_status why)
{
    enum { CLOSING = 200000000 };
    tuner *of = self->tuner;
    int strikes;
    const int status = reap(self, why == TUFF_E_TIMEOUT ? 0 : CLOSING);
    tuff__helper_free(self);
    if (self->holds_turn)
        tuff__background_leave_silicon(self);
    if (tuff__background_is_stopped(self))
        return TUFF_OK;
    tell_of_end(what, why, status);
    TRY(tuff__strikes_recover(of->store, of->environment_text, &strikes));
    of->stats.crashes += (uint64_t)strikes;
    return TUFF_OK;
}

/* What was struck by the helper itself is not known here yet. */
tuff_status tuff__helper_start_again(background *self)
{
    const bool may = self->starts < MOST_STARTS && !tuff__background_is_stopped(self);
    TRY(tuff__tuner_look_again(self->tuner));
    if (!may || !tuff__tuner_may_measure(self->tuner)) {
        if (!tuff__background_is_stopped(self))
            tuff__log(TUFF_LOG_WARNING, "tune: %s ends after %d helpers",
                      self->whole != NULL ? "measuring" : "tuning in the background", self->starts);
        self->gave_up = true;
        return TUFF_OK;
    }
    TRY(tuff__helper_start(self));
    self->gave_up = self->helper == NULL; /* after a crash this process takes no such risk */
    return TUFF_OK;
}

tuff_status tuff__helper_replace(background *self)
{
    (void)reap(self, 0);
    tuff__helper_free(self);
    if (self->holds_turn)
        tuff__background_leave_silicon(self);
    return tuff__helper_start_again(self);
}

tuff_status tuff__helper_measure(subject *of, uint64_t budget)
{
    background *self = of->of->user;
    of->of->begin = tuff__nanoseconds();
    for (;;) {
        finding found = {.status = TUFF_OK};
        const tuff_status status = ask_to_measure(of, budget, &found);
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status == TUFF_OK && found.lost)
            return tuff__helper_replace(self);
        if (status == TUFF_OK)
            return found.status;
        TRY(tuff__helper_bury(self, of->text, status));
        TRY(tuff__helper_start_again(self));
        if (self->gave_up || !tuff__background_give_way(self, true))
            return TUFF_OK;
        of->of->stats.measured -= of->of->stats.measured > 0; /* the same one again */
    }
}
