/* The device that candidates run on: opening a separate one, its peak rate, time limits for compilers, the lock between
   processes, and when measuring is forbidden because candidates crashed before. */
#include <inttypes.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "measure/peak.h"
#include "autotune/session.h"
#include "autotune/guard.h"

#define SECOND UINT64_C(1000000000)
enum { SLOWEST = sizeof((tuning_session *)NULL)->slow_compiles / sizeof(uint64_t) };

static atomic_bool was_warned;

uint64_t tuff__compile_timeout = 30 * SECOND;

tuff_device *tuff__session_device(const tuning_session *self)
{
    return self->measure_device != NULL ? self->measure_device : self->device;
}

bool tuff__session_is_on_gpu(const tuning_session *self)
{
    const tuff_device_class class = tuff__device_info(tuff__session_device(self))->device_class;
    return class != TUFF_DEVICE_CPU && class != TUFF_DEVICE_OTHER;
}

/* Devices that the application made cannot be opened again. A device that the selector opens is not used if its name or
   driver differs from the plan's. If the driver's compiler does not return from the self-test, it would not return from
   candidates either, so nothing is measured. */
void tuff__session_open_own_device(tuning_session *self)
{
    const tuff_device_info *info = tuff__device_info(self->device);
    if (strstr(info->selector, ":wrapped") != NULL)
        return;
    tuff_device *made = tuff__device_open_limited(info->selector, tuff__compile_timeout);
    if (made == NULL) {
        self->lost = self->had_own_device = tuff_last_status() == TUFF_E_DEVICE_LOST;
        return;
    }
    if (strcmp(tuff__device_info(made)->name, info->name) != 0 ||
        strcmp(tuff__device_info(made)->driver, info->driver) != 0) {
        tuff_device_close(made);
        return;
    }
    tuff__device_collect_spill_statistics(made);
    self->measure_device = made;
    self->had_own_device = true;
}

void tuff__session_close_own_device(tuning_session *self)
{
    tuff__cache_flush_pool_free(&self->pool);
    tuff__peak_destroy(self->operations);
    self->operations = NULL;
    self->has_no_peak = false;
    tuff_device_close(self->measure_device);
    self->measure_device = NULL;
}

/* Returns how long a warm-up may take: not much of a short budget. */
static uint64_t longest_warm_up(const tuning_session *self)
{
    const uint64_t now = tuff__nanoseconds(), left = self->limit > now ? self->limit - now : 0;
    return left / 4 < PEAK_LONGEST_WARM_UP ? left / 4 : PEAK_LONGEST_WARM_UP;
}

/* Makes self->operations if it does not exist, and runs it. It remains NULL if the rate cannot be measured. Fails only
   if the device is lost or does not respond. */
static tuff_status run_operations(tuning_session *self)
{
    if (self->has_no_peak)
        return TUFF_OK;
    tuff_status status = self->operations == NULL
                             ? tuff__peak_create(tuff__session_device(self), PEAK_OPERATIONS, &self->operations)
                             : TUFF_OK;
    if (status == TUFF_OK)
        status = tuff__peak_warm(self->operations, longest_warm_up(self));
    if (status == TUFF_OK)
        return TUFF_OK;
    tuff__log(TUFF_LOG_DEBUG, "tune: cannot measure the peak rate of the device: %s", tuff_error());
    tuff__peak_destroy(self->operations);
    self->operations = NULL;
    self->has_no_peak = true;
    return status == TUFF_E_DEVICE_LOST || status == TUFF_E_TIMEOUT ? status : TUFF_OK;
}

static bool is_in_use(const tuning_session *self)
{
    return self->is_background || self->yield != NULL;
}

tuff_status tuff__session_warm_up(tuning_session *self)
{
    enum { IDLE = 20000000 }; /* ns */
    if (!tuff__session_is_on_gpu(self) || is_in_use(self) || tuff__nanoseconds() - self->last_run < IDLE)
        return TUFF_OK;
    atomic_store(&tuff__tune_step_begin, tuff__nanoseconds());
    const tuff_status status = run_operations(self);
    atomic_store(&tuff__tune_step_begin, 0);
    self->lost |= status != TUFF_OK;
    return status;
}

uint64_t tuff__session_roofline(tuning_task *task)
{
    tuning_session *self = task->session;
    const tune_key *key = &task->key;
    double operations = 2;
    if (strcmp(key->family, "matmul") != 0 || strncmp(key->dtypes, "f32,f32,", 8) != 0 ||
        strcmp(key->math, "strict") != 0)
        return 0;
    if (self->operations == NULL && !(tuff__session_is_on_gpu(self) && is_in_use(self)))
        self->lost |= run_operations(self) != TUFF_OK;
    const double rate = self->operations != NULL ? tuff__peak_measured(self->operations) : 0;
    for (int i = 0; i < key->dim_count; ++i)
        operations *= (double)key->dims[i];
    return rate > 0 ? (uint64_t)(operations / rate * 1e9) : 0;
}

/* The limit is four times the 90th percentile, from the slowest of the first few dozen; at least 5 seconds. */
void tuff__session_note_compile(tuning_session *self, uint64_t nanoseconds)
{
    enum { ENOUGH = 10, RECENT = 10 * SLOWEST };
    if (self->compile_count++ >= RECENT || self->measure_device == NULL || self->lost)
        return;
    for (int i = 0; i < SLOWEST; ++i)
        if (nanoseconds > self->slow_compiles[i]) {
            const uint64_t passed = self->slow_compiles[i];
            self->slow_compiles[i] = nanoseconds;
            nanoseconds = passed;
        }
    if (self->compile_count < ENOUGH)
        return;
    const uint64_t limit = 4 * self->slow_compiles[self->compile_count / 10 - 1];
    self->compile_limit = limit < 5 * SECOND ? 5 * SECOND : limit;
}

/* Giving up a compiler loses the device, so a slow compiler is waited for as long as there is time. */
void tuff__session_limit_compile(tuning_task *task)
{
    const tuning_session *self = task->session;
    const uint64_t now = tuff__nanoseconds(), left = self->limit > now ? self->limit - now : 0;
    const uint64_t own = 4 * task->default_compile;
    uint64_t limit = self->compile_limit > own ? self->compile_limit : own;
    limit = left > limit ? left : limit;
    task->compile_limit = self->compile_limit > 0 && limit < tuff__compile_timeout ? limit : tuff__compile_timeout;
    if (self->measure_device != NULL && !self->lost && self->compile_limit > 0)
        tuff__device_limit_compiles(self->measure_device, task->compile_limit);
}

enum { DAY = 24 * 60 * 60 };

/* Whether a record is of a failure within the day after `since`. Times in the future, which a wrong clock may have
   left, do not count. */
static bool is_failure(const tune_record *record, hash128 environment, uint64_t since)
{
    return record->kind == RECORD_REJECTION && tuff__is_same_hash(record->environment, environment) &&
           record->time >= since && record->time - since <= DAY &&
           (strcmp(record->reason, "crash") == 0 || strcmp(record->reason, "hang") == 0 ||
            strcmp(record->reason, "reboot") == 0 || strcmp(record->reason, "lost") == 0);
}

enum { MAX_FAILURES = 2 };

/* Whether the failure belongs to a compile-ahead thread of a process that has another failure which counts. All
   failures of one process have the same time; only one of them counts. */
static bool is_redundant_failure(const tuning_session *self, const tune_record *failure, hash128 environment,
                                 uint64_t since)
{
    int at = 0;
    bool before = true;
    if (strcmp(failure->phase, tuff__journal_phase_text(JOURNAL_COMPILE_AHEAD)) != 0)
        return false;
    for (const tune_record *one; (one = tuff__store_next(self->store, &at)) != NULL;) {
        before = before && one != failure;
        const bool is_ahead = strcmp(one->phase, failure->phase) == 0;
        if (one != failure && one->time == failure->time && (before || !is_ahead) &&
            is_failure(one, environment, since))
            return true;
    }
    return false;
}

/* Counts the failures of the last day. Candidates that were in flight together are one failure. */
static int count_failures(const tuning_session *self)
{
    const hash128 environment = tuff__hash_text(self->environment_text);
    const uint64_t now = (uint64_t)time(NULL), since = now > DAY ? now - DAY : 0;
    int failures = 0, at = 0;
    for (const tune_record *one; (one = tuff__store_next(self->store, &at)) != NULL;)
        failures += is_failure(one, environment, since) && !is_redundant_failure(self, one, environment, since);
    return failures;
}

bool tuff__session_may_measure(const tuning_session *self)
{
    if (atomic_load(&tuff__tune_is_off))
        return false;
    if (self->survives_crashes)
        return true;
    const int failures = count_failures(self);
    if (failures >= MAX_FAILURES && !atomic_exchange(&was_warned, true))
        tuff__log(
            TUFF_LOG_WARNING,
            "tune: candidates crashed, hung or lost the device %d times within a day: graphs are compiled without "
            "tuning on %s. 'tuff cache verify --retry' allows tuning again; 'tuff tune warm' tunes in a separate "
            "process",
            failures, tuff__device_info(self->device)->name);
    return failures < MAX_FAILURES;
}

static bool waits_for_others(void)
{
    const char *value = getenv("TUFF_TUNE_WAIT");
    return value != NULL && strcmp(value, "1") == 0;
}

/* Waits in slices, so that the caller can stop it. */
static bool wait_for_device(tuning_session *self, const char *place, file_lock *out)
{
    const uint64_t slice = SECOND / 5, begin = tuff__nanoseconds(), most = 700 * SECOND;
    const tuff_tune_options *tuning = tuff__tune_options(self->options);
    const tuff_tune_progress waiting = {
        .key = "waiting for another process that is measuring on this device", .best = "", .rejection = ""};
    while (tuff__file_lock(place, slice, out) == TUFF_E_TIMEOUT) {
        self->stopped = tuning->progress != NULL && !tuning->progress(tuning->user, &waiting);
        if (self->stopped || tuff__nanoseconds() - begin > most)
            return false;
    }
    return true;
}

/* place: FOLDER_SIZE bytes; set if the function returns false. */
static bool try_lock(const tuning_session *self, char *place, file_lock *out)
{
    out->fd = -1;
    return !tuff__tune_lock_path(&self->environment, place, FOLDER_SIZE) ||
           tuff__file_lock(place, 0, out) != TUFF_E_TIMEOUT;
}

bool tuff__session_try_lock_device(const tuning_session *self, file_lock *out)
{
    char place[FOLDER_SIZE];
    return try_lock(self, place, out);
}

bool tuff__session_lock_device(tuning_session *self, file_lock *out, bool *waited)
{
    char place[FOLDER_SIZE];
    *waited = false;
    if (try_lock(self, place, out))
        return true;
    self->stats.lock_waits++;
    if (!waits_for_others()) {
        tuff__log(TUFF_LOG_INFO, "tune: another process is measuring on this device: only cached results are used. Set "
                                 "TUFF_TUNE_WAIT=1 to wait for it");
        return false;
    }
    *waited = wait_for_device(self, place, out);
    if (!*waited)
        tuff__file_unlock(out);
    return *waited;
}

void tuff__session_disable_measuring(void)
{
    if (!atomic_exchange(&tuff__tune_is_off, true))
        tuff__log(TUFF_LOG_WARNING, "tune: tuning is off for the rest of this process: %s", tuff_error());
}
