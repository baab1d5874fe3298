/* The thread that tunes a plan in the background, how it begins and how it ends. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "run/background_parts.h"

/* All that have a thread, for the end of the process. Threads of the background never take this lock. */
static struct {
    mutex lock;
    background *first;
    bool is_registered;
    pid_t process;
} all = {.lock = MUTEX_INITIALIZER};

bool tuff__background_is_stopped(background *self)
{
    tuff__lock(&self->lock);
    const bool stop = self->stop;
    tuff__unlock(&self->lock);
    return stop;
}

void tuff__background_sleep(background *self, uint64_t nanoseconds)
{
    const uint64_t until = tuff__nanoseconds() + nanoseconds, second = UINT64_C(1000000000);
    const struct timespec deadline = {(time_t)(until / second), (long)(until % second)};
    tuff__lock(&self->lock);
    if (!self->stop)
        (void)pthread_cond_timedwait(&self->changed, &self->lock, &deadline);
    tuff__unlock(&self->lock);
}

static void end_all(void);

/* A compiler may make objects at its first use, and take them down before what was registered earlier: here that use
   can be the tuner's, since programs come from the disk. So the end is registered once more behind it. */
static void register_behind_compiler(background *self)
{
    if (!self->is_behind && self->tuner->stats.compiles > 0)
        self->is_behind = atexit(end_all) == 0;
}

void tuff__background_publish(background *self)
{
    register_behind_compiler(self);
    tuff__lock(&self->lock);
    self->stats = self->tuner->stats;
    self->stats.nanoseconds = self->spent;
    self->stats.background_keys_left = self->left;
    tuff__unlock(&self->lock);
}

static void give_way(tuner *of, bool is_between)
{
    background *self = of->user;
    if (is_between)
        tuff__background_publish(self);
    (void)tuff__background_give_way(self, is_between);
}

/* A key and about what it is of a run: by the bytes that its kernels move; an operation is worth an eighth of one. */
typedef struct weighted {
    int subject;
    double weight;
} weighted;

static int heavier_first(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->subject - y->subject;
}

/* The keys that want measuring. Before anything is offered: the plan is as it was compiled. */
static int list_wanted(const background *self, weighted *out)
{
    const tuner *of = self->tuner;
    const tuff_plan *plan = self->plan;
    int count = 0;
    for (int i = 0; i < of->subject_count; ++i)
        out[i] = (weighted){.subject = i, .weight = 1};
    for (int i = plan->made.setup_count; i < plan->made.command_count; ++i) {
        const task_record *record = &plan->made.records[i];
        const int task = plan->made.lowered.launches[i].task, key = task < 0 ? -1 : of->subject_of[task];
        if (key >= 0)
            out[key].weight += (double)(record->bytes_read + record->bytes_written) + record->operations / 8;
    }
    for (int i = 0; i < of->subject_count; ++i)
        if (of->subjects[i].wants_measuring)
            out[count++] = out[i];
    qsort(out, (size_t)count, sizeof *out, heavier_first);
    return count;
}

/* Half of what is left of the budget goes by weight, half to all alike. */
static uint64_t share_of(const background *self, const weighted *keys, int count, uint64_t whole)
{
    const uint64_t left = whole > self->spent ? whole - self->spent : 0;
    double weight = 0;
    for (int i = 0; i < count; ++i)
        weight += keys[i].weight;
    return (uint64_t)((double)left * (keys[0].weight / weight + 1.0 / count) / 2);
}

static bool is_due(const background *self)
{
    return tuff__nanoseconds() - self->offered >= BACKGROUND_AT_WORK * atomic_load(&tuff__background_idle);
}

static tuff_status measure(background *self, const weighted *keys, int count)
{
    tuner *of = self->tuner;
    const uint64_t whole = tuff__tune_budget(tuff__tune_options(&self->options));
    of->keys_wanted = count;
    self->offered = tuff__nanoseconds();
    for (int i = 0; i < count && !of->stopped && !of->lost && !self->gave_up; ++i) {
        self->left = count - i;
        if (!tuff__background_give_way(self, true) || !tuff__tuner_may_measure(of))
            break;
        const uint64_t share = share_of(self, keys + i, count - i, whole);
        if (share == 0)
            break;
        of->later = whole > self->spent + share ? whole - self->spent - share : 0;
        subject *next = &of->subjects[keys[i].subject];
        const tuff_status status =
            self->helper != NULL ? tuff__helper_measure(next, share) : tuff__tuner_measure_one(next, share);
        self->spent += tuff__nanoseconds() - of->begin;
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status != TUFF_OK)
            tuff__log(TUFF_LOG_WARNING, "tune: a key is left out: %s", tuff_error());
        self->left = i + 1 < count ? count - i - 1 : 1;
        tuff__background_publish(self);
        if (is_due(self) && !of->lost)
            TRY(tuff__background_offer(self));
    }
    return tuff__background_is_stopped(self) || of->lost ? TUFF_OK : tuff__background_offer(self);
}

/* What the plan was compiled with: its keys are found in the same order here. */
static tuff_status note_running(background *self)
{
    const tuff_plan *plan = self->plan;
    const int count = self->tuner->subject_count;
    self->running = tuff__calloc((size_t)count + 1, sizeof *self->running);
    if (self->running == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count && i < plan->made.key_count; ++i)
        (void)tuff__choice_parse(plan->made.keys[i].candidate, &self->running[i]);
    return TUFF_OK;
}

/* The program's device is left alone, down to the memory that lowering asks for. */
static bool open_bench(background *self)
{
    tuner *of = self->tuner;
    tuff__tuner_open_bench(of);
    if (of->bench != NULL)
        of->device = of->bench;
    else
        tuff__log(TUFF_LOG_WARNING, "tune: nothing is measured in the background: %s cannot be opened a second time",
                  tuff__device_info(of->device)->name);
    return of->bench != NULL;
}

/* Where there is anything to do, somebody who does it: a helper, or this thread with a bench. */
static tuff_status find_hands(background *self, bool is_asked_for, bool *out)
{
    *out = true;
    if (!is_asked_for)
        return TUFF_OK;
    if (tuff__tune_options(&self->options)->isolation != TUFF_ISOLATE_OFF) {
        TRY(tuff__helper_start(self));
        *out = !tuff__background_is_stopped(self);
        if (self->helper != NULL || !*out)
            return TUFF_OK;
    }
    *out = !self->gave_up && tuff__tune_options(&self->options)->isolation != TUFF_ISOLATE_ON &&
           (self->tuner->bench != NULL || open_bench(self));
    return *out ? tuff__tuner_open(self->tuner) : TUFF_OK;
}

static tuff_status tune_keys(background *self, weighted *keys)
{
    const int count = list_wanted(self, keys);
    bool goes_on;
    TRY(find_hands(self, count > 0 || tuff__background_is_other(self), &goes_on));
    return goes_on ? measure(self, keys, count) : TUFF_OK;
}

static tuff_status tune(background *self)
{
    tuner *of = self->tuner;
    if (tuff__tune_options(&self->options)->isolation == TUFF_ISOLATE_OFF && !open_bench(self))
        return TUFF_OK;
    TRY(tuff__tuner_look_up(of));
    TRY(note_running(self));
    weighted *keys = tuff__calloc((size_t)of->subject_count + 1, sizeof *keys);
    if (keys == NULL)
        return TUFF_E_OOM_HOST;
    const tuff_status status = tune_keys(self, keys);
    tuff__free(keys);
    return status;
}

static void *work(void *state)
{
    background *self = state;
    tuner *of = self->tuner;
    tuff_status status = TUFF_OK;
    if (tuff__background_give_way(self, true))
        status = tune(self);
    if (status != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: tuning in the background ended: %s", tuff_error());
    tuff__background_leave_silicon(self);
    tuff__helper_end(self);
    tuff__tuner_close(of);
    if (of->store != NULL && self->starts == 0)
        tuff__tuner_tidy(of);
    self->left = 0;
    tuff__background_publish(self);
    tuff__tuner_end(of);
    return NULL;
}

static void tell_to_stop(background *self)
{
    tuff__lock(&self->lock);
    self->stop = true;
    if (self->wire >= 0)
        (void)shutdown(self->wire, SHUT_RDWR); /* whoever waits for the helper wakes, and so does that */
    (void)pthread_cond_broadcast(&self->changed);
    tuff__unlock(&self->lock);
}

/* The list's lock is held. */
static void end_thread(background *self)
{
    if (self->is_joined || pthread_equal(self->thread, pthread_self()))
        return;
    tell_to_stop(self);
    (void)pthread_join(self->thread, NULL);
    self->is_joined = true;
}

/* At the end of the process: drivers are taken down next. A forked child has no such threads. */
static void end_all(void)
{
    tuff__lock(&all.lock);
    for (background *one = all.first; one != NULL && all.process == getpid(); one = one->next_one)
        tell_to_stop(one);
    for (background *one = all.first; one != NULL && all.process == getpid(); one = one->next_one)
        end_thread(one);
    tuff__unlock(&all.lock);
}

/* Signals are for the program's threads. */
static int create_thread(background *self)
{
    sigset_t every, before;
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &before);
    const int error = pthread_create(&self->thread, NULL, work, self);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Behind the opening of the device, so that what its driver has registered comes later. */
static bool run_thread(background *self)
{
    tuff__lock(&all.lock);
    all.is_registered = all.is_registered || atexit(end_all) == 0;
    all.process = getpid();
    const bool runs = all.is_registered && create_thread(self) == 0;
    self->is_joined = !runs;
    if (runs) {
        self->next_one = all.first;
        all.first = self;
    }
    tuff__unlock(&all.lock);
    return runs;
}

bool tuff__background_prepare(background *self)
{
    const bool good = tuff__condition_create(&self->changed) == 0;
    if (good && tuff__mutex_create(&self->lock) != 0) {
        (void)pthread_cond_destroy(&self->changed);
        return false;
    }
    return good;
}

void tuff__background_dismantle(background *self)
{
    (void)pthread_cond_destroy(&self->changed);
    tuff__mutex_destroy(&self->lock);
}

static tuff_status fill(background *self, tuff_plan *plan, const tuff_compile_options *options)
{
    self->plan = plan;
    self->tuner = &self->own;
    self->options = *options;
    self->left = plan->tuning.background_keys_left;
    self->stats = (tuff_tune_stats){.background_keys_left = self->left};
    self->tuning = *tuff__tune_options(options); /* the caller's is gone by the time that this is used */
    self->options.tuning = &self->tuning;
    if (self->tuning.log != NULL) {
        self->tuning.log = self->log = tuff__strdup(self->tuning.log);
        if (self->log == NULL)
            return TUFF_E_OOM_HOST;
    }
    self->silicon.fd = self->wire = -1;
    self->next = (tuff_plan){.device = plan->device, .graph = plan->graph, .is_tunable = true};
    self->next.barrier_everywhere = plan->barrier_everywhere;
    self->next.passes = plan->passes;
    self->next.graph_key = plan->graph_key;
    self->own = (tuner){.plan = &self->next,
                        .options = &self->options,
                        .device = plan->device,
                        .log = -1,
                        .give_way = give_way,
                        .user = self};
    tuff__environment_of(tuff__device_info(plan->device), &self->own.environment);
    return tuff__fusion_borrow(&plan->fusion, &self->next.fusion);
}

tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options)
{
    if (plan->tuning.background_keys_left == 0)
        return TUFF_OK;
    background *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    if (!tuff__background_prepare(self)) {
        tuff__free(self);
        return FAIL(TUFF_E_OOM_HOST, "compile: no memory for a lock");
    }
    self->is_joined = true;
    plan->background = self;
    TRY(fill(self, plan, options));
    if (!run_thread(self)) {
        tuff__log(TUFF_LOG_WARNING, "tune: there is no thread to tune in the background");
        self->stats.background_keys_left = 0;
    }
    return TUFF_OK;
}

static void leave_list(background *self)
{
    for (background **at = &all.first; *at != NULL; at = &(*at)->next_one)
        if (*at == self) {
            *at = self->next_one;
            return;
        }
}

void tuff__background_stop(background *self)
{
    if (self == NULL)
        return;
    tell_to_stop(self);
    tuff__lock(&all.lock);
    leave_list(self);
    tuff__unlock(&all.lock);
    if (!self->is_joined)
        (void)pthread_join(self->thread, NULL);
    self->is_joined = true;
    tuff__background_revoke(self);
}

void tuff__background_free(background *self)
{
    if (self == NULL)
        return;
    tuff__tuner_end(self->tuner);
    tuff__plan_keys_free(&self->next);
    tuff__fusion_give_back(&self->next.fusion);
    tuff__free(self->running);
    tuff__free(self->log);
    tuff__background_dismantle(self);
    tuff__free(self);
}

void tuff__background_add(tuff_tune_stats *to, const tuff_tune_stats *more)
{
    to->measured += more->measured;
    to->improved += more->improved;
    to->skipped += more->skipped;
    to->compiles += more->compiles;
    to->launches += more->launches;
    to->wrong += more->wrong;
    to->races += more->races;
    to->limits += more->limits;
    to->slow += more->slow;
    to->spills += more->spills;
    to->crashes += more->crashes;
    to->hangs += more->hangs;
    to->nanoseconds += more->nanoseconds;
    to->compile_nanoseconds += more->compile_nanoseconds;
    to->sample_nanoseconds += more->sample_nanoseconds;
    to->verify_nanoseconds += more->verify_nanoseconds;
    to->lock_waits += more->lock_waits;
    to->prefetched += more->prefetched;
    to->prefetch_nanoseconds += more->prefetch_nanoseconds;
}

void tuff__background_count(background *self, tuff_tune_stats *stats)
{
    if (self == NULL)
        return;
    tuff__lock(&self->lock);
    stats->swaps = self->swaps;
    stats->background_keys_left = self->stats.background_keys_left;
    tuff__background_add(stats, &self->stats);
    tuff__unlock(&self->lock);
}
