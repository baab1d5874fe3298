/* The thread that tunes a plan in the background: starts it, runs its loop over keys and compilations, and ends it with
   the plan or the process. idle_gate.c decides when it may work, hot_swap.c puts its results to use. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/background_state.h"

/* All that have a thread, so that they can be ended at exit. Background threads never take this lock. */
static struct {
    mutex lock;
    background *first;
    bool is_registered;
    pid_t process;
} registry = {.lock = MUTEX_INITIALIZER};

bool tuff__background_is_stopped(background *self)
{
    tuff__lock(&self->lock);
    const bool stop = self->stop;
    tuff__unlock(&self->lock);
    return stop;
}

void tuff__background_sleep(background *self, uint64_t nanoseconds)
{
    const struct timespec deadline = tuff__time_after(nanoseconds);
    tuff__lock(&self->lock);
    if (!self->stop)
        (void)pthread_cond_timedwait(&self->changed, &self->lock, &deadline);
    tuff__unlock(&self->lock);
}

static void end_all(void);

/* A compiler may create static objects at its first use and destroy them at exit before handlers that were registered
   earlier are called. Programs usually come from the disk, so the first use may be in this thread. Therefore end_all is
   registered once more afterwards, and so runs first. */
void tuff__background_register_exit_handler(background *self)
{
    self->exit_handler_renewed = self->exit_handler_renewed || atexit(end_all) == 0;
}

void tuff__background_publish(background *self)
{
    tuff__lock(&self->lock);
    self->stats = self->tuning_session.stats;
    self->stats.nanoseconds = self->spent;
    self->stats.background_keys_left = self->keys_left;
    tuff__unlock(&self->lock);
}

/* A key and its approximate share of a run's time. */
typedef struct weighted_key {
    int tuning_task;
    double weight;
} weighted_key;

static int compare_heaviest_first(const void *a, const void *b)
{
    const weighted_key *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->tuning_task - y->tuning_task;
}

static int list_keys_to_measure(const background *self, weighted_key *out)
{
    const tuning_session *session = &self->tuning_session;
    int count = 0;
    for (int i = 0; i < session->task_count; ++i)
        if (session->tasks[i].wants_measuring)
            out[count++] = (weighted_key){i, 1 + (double)session->tasks[i].calls * session->tasks[i].weight};
    qsort(out, (size_t)count, sizeof *out, compare_heaviest_first);
    return count;
}

/* Half of the remaining budget is shared out by weight, half equally. */
static uint64_t share_of(const background *self, const weighted_key *keys, int count, uint64_t budget)
{
    const uint64_t left = budget > self->spent ? budget - self->spent : 0;
    double weight = 0;
    for (int i = 0; i < count; ++i)
        weight += keys[i].weight;
    return (uint64_t)((double)left * (keys[0].weight / weight + 1.0 / count) / 2);
}

/* A persistent kernel is compiled as a whole for each swap, so a plan that has one is swapped once, at the end. */
static bool is_swap_due(const background *self)
{
    return !self->has_persistent_kernel &&
           tuff__nanoseconds() - self->last_prepared >= BACKGROUND_ACTIVE_FACTOR * atomic_load(&tuff__background_idle);
}

static tuff_status measure(background *self, const weighted_key *keys, int count)
{
    tuning_session *session = &self->tuning_session;
    const uint64_t budget = tuff__tune_budget(&self->tuning);
    session->keys_wanted = count;
    self->last_prepared = tuff__nanoseconds();
    for (int i = 0; i < count && !session->stopped && !session->lost && !tuff__worker_gave_up(self->worker); ++i) {
        self->keys_left = count - i;
        if (!tuff__background_yield(self, true) || !tuff__session_may_measure(session))
            break;
        const uint64_t share = share_of(self, keys + i, count - i, budget);
        if (share == 0)
            break;
        session->remaining_budget = budget > self->spent + share ? budget - self->spent - share : 0;
        tuning_task *next = &session->tasks[keys[i].tuning_task];
        const tuff_status status = tuff__worker_measure_task(self->worker, next, share);
        self->spent += tuff__nanoseconds() - session->begin;
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status != TUFF_OK)
            tuff__log(TUFF_LOG_WARNING, "tune: a key is skipped: %s", tuff_error());
        self->keys_left = i + 1 < count ? count - i - 1 : 1;
        tuff__background_publish(self);
        if (is_swap_due(self) && !session->lost)
            TRY(tuff__background_prepare_swap(self));
    }
    return tuff__background_is_stopped(self) || session->lost ? TUFF_OK : tuff__background_prepare_swap(self);
}

/* Notes what the plan was compiled with; its keys are in the same order as the session's tasks. */
static tuff_status record_running(background *self)
{
    const tuff_plan *plan = self->plan;
    const int count = self->tuning_session.task_count;
    self->running = tuff__calloc((size_t)count + 1, sizeof *self->running);
    if (self->running == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count && i < plan->keys.count; ++i)
        (void)tuff__config_parse(plan->keys.items[i].candidate, &self->running[i]);
    return TUFF_OK;
}

static tuff_status tune_keys(background *self, weighted_key *keys)
{
    const int count = list_keys_to_measure(self, keys);
    if (count == 0 && !tuff__background_has_new_choices(self))
        return TUFF_OK;
    TRY(tuff__worker_start(self->worker));
    return tuff__worker_is_running(self->worker) ? measure(self, keys, count) : TUFF_OK;
}

static tuff_status tune(background *self)
{
    tuning_session *session = &self->tuning_session;
    TRY(tuff__session_look_up(session));
    TRY(record_running(self));
    weighted_key *keys = tuff__calloc((size_t)session->task_count + 1, sizeof *keys);
    if (keys == NULL)
        return TUFF_E_OOM_HOST;
    const tuff_status status = tune_keys(self, keys);
    tuff__free(keys);
    return status;
}

static void *run_tuning(void *state)
{
    background *self = state;
    tuff_status status = TUFF_OK;
    if (tuff__background_yield(self, true))
        status = tune(self);
    if (status != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: background tuning stopped: %s", tuff_error());
    tuff__background_unlock_device(self);
    tuff__worker_end(self->worker);
    self->keys_left = 0;
    tuff__background_publish(self);
    tuff__session_close_stores(&self->tuning_session);
    return NULL;
}

static void request_stop(background *self)
{
    tuff__lock(&self->lock);
    self->stop = true;
    (void)pthread_cond_broadcast(&self->changed);
    tuff__unlock(&self->lock);
    if (self->worker != NULL)
        tuff__worker_interrupt(self->worker);
}

/* Call with the list's lock held. */
static void join_thread(background *self)
{
    if (self->is_joined || pthread_equal(self->thread, pthread_self()))
        return;
    request_stop(self);
    (void)pthread_join(self->thread, NULL);
    self->is_joined = true;
}

/* Exit handler: ends all threads before the drivers are torn down. A forked child has none of these threads. */
static void end_all(void)
{
    tuff__lock(&registry.lock);
    for (background *one = registry.first; one != NULL && registry.process == getpid(); one = one->next_in_list)
        request_stop(one);
    for (background *one = registry.first; one != NULL && registry.process == getpid(); one = one->next_in_list)
        join_thread(one);
    tuff__unlock(&registry.lock);
}

/* Called after the device was opened, so that end_all runs before the exit handlers that its driver registered. */
static bool run_thread(background *self)
{
    tuff__lock(&registry.lock);
    registry.is_registered = registry.is_registered || atexit(end_all) == 0;
    registry.process = getpid();
    const bool runs = registry.is_registered && tuff__thread_start(&self->thread, 0, run_tuning, self) == 0;
    self->is_joined = !runs;
    if (runs) {
        self->next_in_list = registry.first;
        registry.first = self;
    }
    tuff__unlock(&registry.lock);
    return runs;
}

static tuff_status initialize(background *self, tuff_plan *plan, const tuff_compile_options *options)
{
    const worker_host host = {.yield = tuff__background_yield,
                              .publish = tuff__background_publish,
                              .is_stopped = tuff__background_is_stopped,
                              .unlock_device = tuff__background_unlock_device,
                              .self = self};
    self->plan = plan;
    self->has_persistent_kernel = plan->executable.persistent.commands != NULL;
    self->options = *options;
    self->keys_left = plan->tuning.background_keys_left;
    self->stats = (tuff_tune_stats){.background_keys_left = self->keys_left};
    self->tuning = *tuff__tune_options(options); /* the caller's struct will be gone when this is used */
    self->options.tuning = &self->tuning;
    if (self->tuning.log != NULL) {
        self->tuning.log = self->log = tuff__strdup(self->tuning.log);
        if (self->log == NULL)
            return TUFF_E_OOM_HOST;
    }
    self->tuning_session = (tuning_session){
        .fusion = &plan->fusion, .options = &self->options, .device = plan->device, .log = -1, .is_background = true};
    return tuff__worker_create(&self->tuning_session, &plan->passes.chosen, &host, &self->worker);
}

static void unlink_from_list(background *self)
{
    for (background **at = &registry.first; *at != NULL; at = &(*at)->next_in_list)
        if (*at == self) {
            *at = self->next_in_list;
            return;
        }
}

static void stop(void *state)
{
    background *self = state;
    request_stop(self);
    tuff__lock(&registry.lock);
    unlink_from_list(self);
    tuff__unlock(&registry.lock);
    if (!self->is_joined)
        (void)pthread_join(self->thread, NULL);
    self->is_joined = true;
    tuff__background_discard_next(self);
}

static void free_all(void *state)
{
    background *self = state;
    tuff__session_close_stores(&self->tuning_session);
    tuff__worker_destroy(self->worker);
    tuff__free(self->running);
    tuff__free(self->log);
    tuff__mutex_condition_destroy(&self->lock, &self->changed);
    tuff__free(self);
}

static void add_stats(void *state, tuff_tune_stats *stats)
{
    background *self = state;
    tuff__lock(&self->lock);
    stats->swaps = self->swaps;
    stats->background_keys_left = self->stats.background_keys_left;
    tuff__tune_stats_add(stats, &self->stats);
    tuff__unlock(&self->lock);
}

tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options)
{
    if (plan->tuning.background_keys_left == 0)
        return TUFF_OK;
    if (tuff__tune_options(options)->isolation == TUFF_ISOLATE_OFF) {
        tuff__log(TUFF_LOG_WARNING, "tune: nothing is measured in the background: that needs a worker process, which "
                                    "TUFF_ISOLATE_OFF forbids");
        plan->tuning.background_keys_left = 0;
        return TUFF_OK;
    }
    background *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    if (tuff__mutex_condition_create(&self->lock, &self->changed) != 0) {
        tuff__free(self);
        return FAIL(TUFF_E_OOM_HOST, "compile: cannot create a lock: out of memory");
    }
    self->is_joined = true;
    plan->observer.self = self;
    plan->observer.stop = stop;
    plan->observer.free = free_all;
    plan->observer.count = add_stats;
    TRY(initialize(self, plan, options));
    plan->observer.before_run = tuff__background_swap;
    if (!run_thread(self)) {
        tuff__log(TUFF_LOG_WARNING, "tune: cannot start a thread for background tuning");
        self->stats.background_keys_left = 0;
    }
    return TUFF_OK;
}
