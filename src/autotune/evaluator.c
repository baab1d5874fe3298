/* The evaluator of a task's candidates: the functions of search.h that lower, compile, time and verify them on the
   session's measuring device. It owns the runs in the task's slots and the task's test buffers. lowered.c keeps
   launches until they are compiled, compile_pool.c compiles ahead, src/measure runs and checks. Every step that may
   crash is entered in the journal first. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "autotune/compile_pool.h"
#include "autotune/lowered.h"
#include "measure/oracle.h"
#include "autotune/session.h"
#include "autotune/guard.h"

/* The part of the device's memory that all test buffers of a graph may use, and the maximum (tuff/tune.h), which is
   lower on a CPU, whose memory is the machine's. */
enum { SHARE_OF_MEMORY = 4 };
#define MAX_TEST_BUFFERS ((uint64_t)8 << 30)
#define MAX_HOST_TEST_BUFFERS ((uint64_t)1 << 30)

/* Returns the number of bytes that further test buffers may take. */
static uint64_t room_for_buffers(const tuning_session *session)
{
    const tuff_device_info *info = tuff__device_info(tuff__session_device(session));
    const uint64_t share = info->memory_size / SHARE_OF_MEMORY;
    uint64_t most = info->device_class == TUFF_DEVICE_CPU ? MAX_HOST_TEST_BUFFERS : MAX_TEST_BUFFERS;
    if (tuff__tune_options(session->options)->memory > 0)
        most = tuff__tune_options(session->options)->memory;
    if (share > 0 && share < most)
        most = share;
    const uint64_t taken = session->test_buffers_size + session->pool.size;
    return most > taken ? most - taken : 0;
}

/* Whether a run that exceeded its time ends after all. Until then nothing else can be measured. */
static bool ends_late(const tuning_session *session)
{
    enum { MAX_WAITS = 3 };
    for (int i = 0; i < MAX_WAITS; ++i)
        if (tuff__wait(tuff__session_device(session)) == TUFF_OK)
            return true;
    return false;
}

/* Returns what a failure says about a candidate. */
static tune_evaluation evaluation_of(tuning_session *session, tuff_status status)
{
    switch (status) {
    case TUFF_OK:
        return EVALUATION_GOOD;
    case TUFF_E_COMPILE:
        return EVALUATION_COMPILE;
    case TUFF_E_LIMIT:
        return EVALUATION_LIMITS;
    case TUFF_E_OOM_DEVICE:
        return EVALUATION_NO_MEMORY;
    case TUFF_E_UNSUPPORTED:
        return EVALUATION_INVALID;
    case TUFF_E_DEVICE_LOST:
        session->lost = true;
        return tuff__device_is_stuck(tuff__session_device(session)) ? EVALUATION_HANG : EVALUATION_LOST;
    case TUFF_E_TIMEOUT:
        /* A run that ends after all may have been suspended, with the process or the machine: that is not recorded. */
        session->lost = !ends_late(session);
        return session->lost ? EVALUATION_HANG : EVALUATION_SLOW;
    default:
        return EVALUATION_FAILED;
    }
}

/* Whether the candidate was rejected earlier. */
static bool is_rejected(const tuning_task *task, const tune_config *config)
{
    text name = {0};
    tuff__config_format(config, &name);
    const tune_stores *stores = &task->session->stores;
    const hash128 environment = tuff__hash_text(task->session->environment_text);
    const bool rejected = tuff__stores_rejection((const tune_store *const *)stores->items, stores->count, environment,
                                                 task->hash, tuff__text_get(&name), task->kernel_hash) != NULL;
    tuff__text_free(&name);
    return rejected;
}

static tune_evaluation lower_candidate(void *state, const tune_config *config, candidate_info *out)
{
    tuning_task *task = state;
    task_estimate made;
    const tuff_status status = tuff__lowered_estimate(task, config, &made);
    *out = (candidate_info){made.kernels, made.items, made.used_tunables, made.cost};
    if (status == TUFF_E_LIMIT)
        return EVALUATION_INVALID;
    if (status != TUFF_OK)
        return evaluation_of(task->session, status);
    tune_config tried = *config;
    tuff__config_trim(&tried, &made.used_tunables);
    return is_rejected(task, &tried) ? EVALUATION_REJECTED : EVALUATION_GOOD;
}

static void leave_step(const tuning_session *session)
{
    tuff__journal_leave(session->journal);
    atomic_store(&tuff__tune_step_begin, 0);
}

/* Enters the step in the journal, so that a process that starts after a crash knows which candidate to blame. */
static tuff_status enter_step(const tuning_task *task, const search_candidate *candidate, journal_phase phase,
                              bool durable)
{
    atomic_store(&tuff__tune_step_begin, tuff__nanoseconds());
    return tuff__session_enter_journal(task, 0, phase, &candidate->config, durable);
}

/* Reserves the size of the pool for the first candidate. If there is no room, weights stay in the caches. */
static cache_flush_pool *flush_pool_of(tuning_session *self)
{
    const uint64_t size = tuff__cache_flush_pool_size(tuff__session_device(self));
    if (!self->has_pool && size <= room_for_buffers(self) / 2)
        self->pool.size = size;
    self->has_pool = true;
    return &self->pool;
}

static void forget_candidate(void *state, const tune_config *config)
{
    tuff__lowered_drop(state, config);
}

static void expect_candidate(void *state, const search_candidate *candidate)
{
    tuff__compile_pool_expect(state, candidate);
}

/* Runs the default, which is always in slot 0, while a GPU waits for a compiler, so that its clocks do not drop. Only
   if runs are short. */
static void keep_gpu_busy(tuning_task *task)
{
    const uint64_t short_run = UINT64_C(10000000);
    const search_candidate defaults = {.slot = 0};
    if (task->slots[0] == NULL || !task->has_run[0] || task->default_nanoseconds >= short_run)
        return;
    if (enter_step(task, &defaults, JOURNAL_BENCH, false) == TUFF_OK)
        (void)tuff__candidate_run_once(task->slots[0]);
    task->session->last_run = tuff__nanoseconds();
    tuff__journal_leave(task->session->journal);
}

/* Places the launches on the task's test buffers, compiles what no thread compiled, and records the run. Takes
   ownership of lowered; NULL: not lowered yet. */
static tuff_status create_run(tuning_task *task, const search_candidate *candidate, lowered_candidate *lowered)
{
    tuning_session *self = task->session;
    tuff_status status = TUFF_OK;
    if (task->test_buffers == NULL)
        status = tuff__test_buffers_create(tuff__session_device(self), self->fusion, task->task, room_for_buffers(self),
                                           &task->test_buffers);
    const uint64_t before = task->test_buffers == NULL ? 0 : tuff__test_buffers_size(task->test_buffers);
    if (status == TUFF_OK && lowered == NULL)
        status = tuff__lowered_get(task, &candidate->config, &lowered);
    if (status == TUFF_OK)
        status = tuff__candidate_run_create(&lowered->launches, task->test_buffers, flush_pool_of(self),
                                            &task->slots[candidate->slot]);
    tuff__lowered_free(lowered);
    if (task->test_buffers != NULL)
        self->test_buffers_size += tuff__test_buffers_size(task->test_buffers) - before;
    return status;
}

static tune_evaluation compile_candidate(void *state, const search_candidate *candidate)
{
    tuning_task *task = state;
    tuning_session *self = task->session;
    const uint64_t begin = tuff__nanoseconds();
    uint64_t pool_nanoseconds;
    lowered_candidate *lowered;
    atomic_store(&tuff__tune_step_begin, begin);
    tuff__session_limit_compile(task);
    tuff_status status = tuff__compile_pool_await(
        task, candidate->slot, tuff__session_is_on_gpu(self) ? keep_gpu_busy : NULL, &pool_nanoseconds, &lowered);
    if (status == TUFF_OK)
        status = enter_step(task, candidate, JOURNAL_COMPILE, true);
    task->has_run[candidate->slot] = false;
    if (status == TUFF_OK)
        status = create_run(task, candidate, lowered);
    else
        tuff__lowered_free(lowered);
    tuff__compile_pool_drop(task, candidate->slot);
    leave_step(self);
    const uint64_t passed = tuff__nanoseconds() - begin;
    self->stats.compiles++;
    self->stats.compile_nanoseconds += passed;
    tuff__session_note_compile(self, passed > pool_nanoseconds ? passed : pool_nanoseconds);
    if (tuff__config_count(&candidate->config) == 0)
        task->default_compile = passed;
    task->lacks_memory = status == TUFF_E_OOM_DEVICE && tuff__config_count(&candidate->config) == 0;
    return evaluation_of(self, status);
}

static uint64_t spilled_by_candidate(void *state, const search_candidate *candidate)
{
    const tuning_task *task = state;
    return tuff__candidate_run_spilled(task->slots[candidate->slot]);
}

/* It is usually the first launch that takes a machine down, so the journal entry must survive that. */
static tuff_status enter_run_step(tuning_task *task, const search_candidate *candidate, journal_phase phase)
{
    const bool first = !task->has_run[candidate->slot];
    task->has_run[candidate->slot] = true;
    return enter_step(task, candidate, first ? JOURNAL_FIRST_RUN : phase, first);
}

/* Returns the time from which a run counts as slow, given the default's: eight times that, but at least 20 ms. At most
   100 ms, because operating systems consider a GPU that is busy for longer as hung, unless the default itself takes
   about as long. */
static uint64_t slow_threshold(uint64_t default_time)
{
    enum { TIMES = 8 };
    const uint64_t least = UINT64_C(20000000), most = UINT64_C(100000000);
    if (TIMES * default_time <= most)
        return TIMES * default_time > least ? TIMES * default_time : least;
    return default_time + default_time / 2 > most ? default_time + default_time / 2 : most;
}

/* Runs a part of the groups first. A candidate that would take far longer than the default is not run in full. */
static tuff_status probe(tuning_task *task, const search_candidate *candidate, bool *is_slow)
{
    uint64_t predicted;
    TRY(tuff__candidate_run_probe(task->slots[candidate->slot], task->default_nanoseconds, &predicted));
    *is_slow = tuff__config_count(&candidate->config) > 0 && task->default_nanoseconds > 0 &&
               predicted > slow_threshold(task->default_nanoseconds);
    return TUFF_OK;
}

static tuff_status take_samples(tuning_task *task, const search_candidate *candidate, int count, uint64_t limit,
                                uint64_t *nanoseconds, tune_evaluation *result)
{
    bool is_slow = false;
    candidate_run *one = task->slots[candidate->slot];
    const bool first = !task->has_run[candidate->slot];
    TRY(enter_run_step(task, candidate, JOURNAL_BENCH));
    if (first)
        TRY(probe(task, candidate, &is_slow));
    if (is_slow) {
        *result = EVALUATION_SLOW;
        return TUFF_OK;
    }
    TRY(tuff__candidate_run_time(one, count, limit, nanoseconds));
    task->session->last_run = tuff__nanoseconds();
    for (int i = 0; i < count; ++i)
        if (tuff__candidate_run_is_too_fast(one, nanoseconds[i]))
            *result = EVALUATION_TIMER;
    if (tuff__config_count(&candidate->config) == 0) {
        task->default_nanoseconds = nanoseconds[0];
        task->is_cold = tuff__candidate_run_is_cold(one);
    }
    return TUFF_OK;
}

static tune_evaluation sample_candidate(void *state, const search_candidate *candidate, int count, uint64_t limit,
                                        uint64_t *nanoseconds)
{
    tuning_task *task = state;
    tune_evaluation result = EVALUATION_GOOD;
    const uint64_t begin = tuff__nanoseconds();
    if (tuff__session_warm_up(task->session) != TUFF_OK)
        return EVALUATION_FAILED; /* no candidate's doing */
    const tuff_status status = take_samples(task, candidate, count, limit, nanoseconds, &result);
    leave_step(task->session);
    task->session->stats.launches += (uint64_t)count;
    task->session->stats.sample_nanoseconds += tuff__nanoseconds() - begin;
    if (result == EVALUATION_TIMER)
        (void)FAIL(TUFF_E_NUMERIC, "tune: the measured time is shorter than the hardware allows");
    if (result == EVALUATION_SLOW)
        (void)FAIL(TUFF_E_NUMERIC, "tune: a partial run predicts that it takes far longer than the default");
    return status == TUFF_OK ? result : evaluation_of(task->session, status);
}

/* Runs once, with the results filled with a pattern before, so that elements that are not written are detected. */
static tuff_status run_clean(tuning_task *task, const search_candidate *candidate)
{
    TRY(tuff__test_buffers_poison(task->test_buffers));
    task->session->stats.launches++;
    return tuff__candidate_run_once(task->slots[candidate->slot]);
}

/* Verifies the candidate on a task of other extents. If there is no such task, keeps the evaluation so far. kept: see
   tuff__oracle_check_ragged. */
static tuff_status check_ragged(tuning_task *task, const search_candidate *candidate, const test_buffers *kept,
                                char *fault, size_t size)
{
    tuning_session *self = task->session;
    const tuff_status status = tuff__oracle_check_ragged(tuff__session_device(self), self->fusion, self->options,
                                                         task->task, &candidate->config, kept, fault, size);
    if (status != TUFF_E_UNSUPPORTED && status != TUFF_E_LIMIT && status != TUFF_E_OOM_DEVICE)
        return status;
    tuff__log(TUFF_LOG_DEBUG, "tune: %s is not verified with other extents: %s", task->text, tuff_error());
    return TUFF_OK;
}

/* Compares the results that are kept as the reference with the host's. */
static tuff_status check_kept(tuning_task *task, const search_candidate *candidate, char *fault, size_t size)
{
    const tuning_session *self = task->session;
    const tuff_status status =
        tuff__oracle_check(tuff__session_device(self), task->test_buffers, self->fusion, task->task, fault, size);
    return status == TUFF_E_UNSUPPORTED ? check_ragged(task, candidate, task->test_buffers, fault, size) : status;
}

static tuff_status check(tuning_task *task, const search_candidate *candidate, bool is_baseline, char *fault,
                         size_t size, bool *differs)
{
    *differs = false;
    TRY(run_clean(task, candidate));
    if (is_baseline)
        TRY(tuff__test_buffers_keep(task->test_buffers));
    TRY(tuff__test_buffers_compare(task->test_buffers, false, fault, size));
    if (fault[0] != '\0')
        return TUFF_OK;
    TRY(run_clean(task, candidate));
    TRY(tuff__test_buffers_compare(task->test_buffers, true, fault, size));
    *differs = fault[0] != '\0';
    if (!is_baseline)
        return TUFF_OK;
    char unwritten[128];
    TRY(tuff__test_buffers_check_written(task->test_buffers, unwritten, sizeof unwritten));
    if (unwritten[0] != '\0') { /* poison differs between runs, which is no race */
        snprintf(fault, size, "%s", unwritten);
        *differs = false;
    }
    return fault[0] == '\0' ? check_kept(task, candidate, fault, size) : TUFF_OK;
}

static tune_evaluation verify(tuning_task *task, const search_candidate *candidate, bool is_baseline, bool thorough)
{
    char fault[128] = "";
    bool differs = false;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = enter_run_step(task, candidate, JOURNAL_VERIFY);
    if (status == TUFF_OK && !thorough)
        status = check(task, candidate, is_baseline, fault, sizeof fault, &differs);
    else if (status == TUFF_OK)
        status = check_ragged(task, candidate, NULL, fault, sizeof fault);
    leave_step(task->session);
    task->session->stats.verify_nanoseconds += tuff__nanoseconds() - begin;
    if (status != TUFF_OK)
        return evaluation_of(task->session, status);
    if (fault[0] == '\0')
        return EVALUATION_GOOD;
    (void)FAIL(TUFF_E_NUMERIC, "tune: %s%s", thorough ? "with other extents: " : "", fault);
    return differs ? EVALUATION_RACE : EVALUATION_WRONG;
}

/* Only the default is a baseline. */
static tune_evaluation verify_candidate(void *state, const search_candidate *candidate, bool thorough)
{
    return verify(state, candidate, tuff__config_count(&candidate->config) == 0, thorough);
}

tune_evaluation tuff__evaluator_verify_baseline(tuning_task *task, const search_candidate *candidate)
{
    return verify(task, candidate, true, false);
}

static void release_candidate(void *state, const search_candidate *candidate)
{
    tuning_task *task = state;
    tuff__compile_pool_drop(task, candidate->slot);
    tuff__candidate_run_destroy(task->slots[candidate->slot]);
    task->slots[candidate->slot] = NULL;
}

static bool is_over(void *state)
{
    tuning_session *session = ((tuning_task *)state)->session;
    if (session->yield != NULL)
        session->yield(session, false);
    return session->stopped || session->lost || tuff__nanoseconds() >= session->limit;
}

evaluator tuff__evaluator_for_task(tuning_task *task)
{
    return (evaluator){.state = task,
                       .lower = lower_candidate,
                       .compile = compile_candidate,
                       .spilled = spilled_by_candidate,
                       .forget = forget_candidate,
                       .expect = expect_candidate,
                       .sample = sample_candidate,
                       .verify = verify_candidate,
                       .release = release_candidate,
                       .is_over = is_over};
}

void tuff__evaluator_clear(tuning_task *task)
{
    for (int i = 0; i < SEARCH_SLOTS; ++i) {
        tuff__compile_pool_drop(task, i);
        tuff__candidate_run_destroy(task->slots[i]);
    }
    tuff__lowered_clear(task);
    memset(task->slots, 0, sizeof task->slots);
    if (task->test_buffers != NULL)
        task->session->test_buffers_size -= tuff__test_buffers_size(task->test_buffers);
    tuff__test_buffers_destroy(task->test_buffers);
    task->test_buffers = NULL;
}
