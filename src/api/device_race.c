/* tuff_device_open_fastest: runs a workload of the program on each device and caches the winner, and the devices on
   which a process died. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file/lock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "autotune/crash_history.h"
#include "tuff/profile.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/key.h"
#include "search/times.h"

/* A device is timed ROUNDS times, unless its second run took MAX_SLOWDOWN times as long as that of the fastest. Results
   and crashes are believed for DAYS, since drivers and machines change. */
enum { MAX_ENTRANTS = 16, ROUNDS = 5, MAX_SLOWDOWN = 4, MAX_PATH = FOLDER_SIZE + 64, DAYS = 30, DAY = 24 * 60 * 60 };

typedef struct entrant {
    tuff_device_info info;
    char environment[ENVIRONMENT_SIZE];
    tuff_device *device;
    tuff_plan *plan;
    void *state;
    bool runs; /* takes part in the race */
    uint64_t times[ROUNDS];
    int count;
    uint64_t nanoseconds;
} entrant;

typedef struct race_state {
    const tuff_device_race *race;
    entrant *entrants;
    int count;
    char path[MAX_PATH];    /* path of the result file; empty if there is no cache */
    char key[TUNE_KEY_SIZE]; /* the race, as a key of the tuner's cache */
    journal *journal;
    int left_out;
    file_lock locks[MAX_ENTRANTS]; /* of the devices in the race */
    int lock_count;
} race_state;

/* Crashes are recorded like those of candidates: the race is a key, the device's candidate its default. */
static void make_key(race_state *self)
{
    tune_key key = {.family = RACE_FAMILY, .dims = {1}, .dim_count = 1, .alignment = 1};
    key.structure = tuff__hash64(self->race->name, strlen(self->race->name), 0);
    tuff__key_text(&key, self->key);
}

/* A time in the future comes from a clock that was wrong once. Such a crash counts: ignoring it could end the process.
   */
static tuff_status has_crashed(const race_state *self, const entrant *racer, bool *crashed)
{
    tune_store *store;
    const uint64_t now = (uint64_t)time(NULL);
    TRY(tuff__tune_open(racer->environment, &store));
    const tune_record *bad =
        tuff__store_rejection(store, tuff__hash_text(racer->environment), tuff__hash_text(self->key), "", NULL);
    *crashed = bad != NULL && (bad->time > now || now - bad->time < (uint64_t)DAYS * DAY);
    tuff__store_close(store);
    return TUFF_OK;
}

/* Devices are described here and opened only in qualify, after the journal has been entered: opening may crash, too. */
static tuff_status find_entrants(race_state *self)
{
    for (int i = 0; i < tuff_device_count() && self->count < MAX_ENTRANTS; ++i) {
        entrant *racer = &self->entrants[self->count];
        tune_environment parts;
        if (tuff_device_describe_at(i, &racer->info) != TUFF_OK || racer->info.device_class == TUFF_DEVICE_REFERENCE)
            continue;
        tuff__environment_from_info(&racer->info, &parts);
        tuff__environment_text(&parts, racer->environment);
        bool crashed;
        TRY(has_crashed(self, racer, &crashed));
        self->left_out += crashed;
        self->count += !crashed;
    }
    return TUFF_OK;
}

/* Notes in the journal that from here on the device may end the process. Errors of the journal are ignored. */
static void enter_journal(const race_state *self, journal_phase phase, const entrant *racer)
{
    (void)tuff__journal_enter(self->journal, phase, racer->environment, self->key, "", phase == JOURNAL_FIRST_RUN);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names the result file by a hash of everything the result depends on: the workload, this version, and the devices in
   any order. */
static tuff_status make_result_path(race_state *self)
{
    const char *environments[MAX_ENTRANTS];
    char folder[FOLDER_SIZE];
    text key = {0};
    for (int i = 0; i < self->count; ++i)
        environments[i] = self->entrants[i].environment;
    qsort(environments, (size_t)self->count, sizeof *environments, compare_texts);
    tuff__text_add(&key, "%s\n%s\n", tuff_version(), self->race->name);
    for (int i = 0; i < self->count; ++i)
        tuff__text_add(&key, "%s\n", environments[i]);
    const tuff_status status = tuff__text_status(&key);
    if (status == TUFF_OK && tuff__tune_folder(folder, sizeof folder) == TUFF_OK) {
        const hash128 hash = tuff__hash_text(tuff__text_get(&key));
        (void)snprintf(self->path, sizeof self->path, "%s/fastest-%016" PRIx64 "%016" PRIx64 ".txt", folder, hash.high,
                       hash.low);
    }
    tuff__text_free(&key);
    return status;
}

/* Reads the cached result: a line with seconds since 1970, the time of a run, that of the runner-up, and the
   runner-up's selector or "-"; then a line with the winner's environment. NULL if there is no valid result. */
static entrant *read_cached_result(const race_state *self, tuff_device_race_result *result)
{
    enum { LIMIT = 4096 };
    void *data;
    size_t size;
    uint64_t when, fastest, next;
    char selector[32] = "";
    if (self->path[0] == '\0' || tuff__cache_read(self->path, LIMIT, &data, &size) != TUFF_OK)
        return NULL;
    entrant *found = NULL;
    char *line = strchr(data, '\n');
    const uint64_t now = (uint64_t)time(NULL);
    if (line != NULL &&
        sscanf(data, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %31s", &when, &fastest, &next, selector) == 4 &&
        /* A result from the future would never expire. */
        when <= now && now - when < (uint64_t)DAYS * DAY) {
        char *environment = line + 1;
        environment[strcspn(environment, "\n")] = '\0';
        for (int i = 0; i < self->count && found == NULL; ++i)
            if (strcmp(self->entrants[i].environment, environment) == 0)
                found = &self->entrants[i];
    }
    tuff__free(data);
    if (found != NULL) {
        *result = (tuff_device_race_result){
            .is_cached = true, .nanoseconds = fastest, .runner_up_nanoseconds = next, .left_out = self->left_out};
        (void)snprintf(result->runner_up, sizeof result->runner_up, "%s", strcmp(selector, "-") == 0 ? "" : selector);
    }
    return found;
}

/* A result that cannot be cached is no failure: the next start runs the race again. */
static void write_cached_result(const race_state *self, const entrant *winner, const tuff_device_race_result *result)
{
    text lines = {0};
    if (self->path[0] == '\0')
        return;
    tuff__text_add(&lines, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n%s\n", (uint64_t)time(NULL), result->nanoseconds,
                   result->runner_up_nanoseconds, result->runner_up[0] == '\0' ? "-" : result->runner_up,
                   winner->environment);
    const file_part part = {tuff__text_get(&lines), lines.length};
    if (tuff__text_status(&lines) != TUFF_OK || tuff__file_write(self->path, &part, 1, false, false) != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "fastest: the result is not cached: %s", tuff_error());
    tuff__text_free(&lines);
}

/* Times submission and waiting as well, since a step of the program pays for them, too. */
static tuff_status run_once(entrant *racer, uint64_t *nanoseconds)
{
    const uint64_t begin = tuff__nanoseconds();
    TRY(tuff_plan_run(racer->plan));
    TRY(tuff_plan_wait(racer->plan));
    *nanoseconds = tuff__nanoseconds() - begin;
    return TUFF_OK;
}

/* The first run includes one-time costs; the second shows whether the device is worth more runs. */
static void qualify(const race_state *self, entrant *racer)
{
    enter_journal(self, JOURNAL_FIRST_RUN, racer);
    racer->device = tuff_device_open(racer->info.selector);
    if (racer->device != NULL)
        racer->plan = self->race->setup(racer->device, self->race->user, &racer->state);
    racer->runs = racer->plan != NULL && run_once(racer, &racer->nanoseconds) == TUFF_OK &&
                  run_once(racer, &racer->nanoseconds) == TUFF_OK;
    tuff__journal_leave(self->journal);
    if (!racer->runs)
        tuff__log(TUFF_LOG_INFO, "fastest: skipping %s: %s", racer->info.selector, tuff_error());
}

/* Drivers crash in tear-down as well, so this also happens under an entry of the journal. */
static void release_entrant(const race_state *self, entrant *racer, bool close_device)
{
    if (racer->device == NULL)
        return;
    enter_journal(self, JOURNAL_BENCH, racer);
    if (racer->plan != NULL || racer->state != NULL)
        self->race->teardown(racer->plan, self->race->user, racer->state);
    racer->plan = NULL;
    racer->state = NULL;
    if (close_device) {
        tuff_device_close(racer->device);
        racer->device = NULL;
    }
    tuff__journal_leave(self->journal);
}

static entrant *find_fastest(const race_state *self, const entrant *excluded)
{
    entrant *best = NULL;
    for (int i = 0; i < self->count; ++i) {
        entrant *racer = &self->entrants[i];
        if (racer->runs && racer != excluded && (best == NULL || racer->nanoseconds < best->nanoseconds))
            best = racer;
    }
    return best;
}

/* The devices of one card in several APIs have one lock, which can be taken only once. */
static bool contains(char (*paths)[FOLDER_SIZE], int count, const char *path)
{
    for (int i = 0; i < count; ++i)
        if (strcmp(paths[i], path) == 0)
            return true;
    return false;
}

/* Locks the devices against other measurements. Returns false if another process is measuring on one of them. */
static bool lock_devices(race_state *self)
{
    char(*paths)[FOLDER_SIZE] = tuff__calloc(MAX_ENTRANTS, sizeof *paths);
    bool is_alone = paths != NULL;
    for (int i = 0; is_alone && i < self->count; ++i) {
        tune_environment parts;
        char *path = paths[self->lock_count];
        if (tuff__environment_parse(self->entrants[i].environment, &parts) != TUFF_OK ||
            !tuff__tune_lock_path(&parts, path, FOLDER_SIZE) || contains(paths, self->lock_count, path))
            continue;
        const tuff_status status = tuff__file_lock(path, 0, &self->locks[self->lock_count]);
        is_alone = status != TUFF_E_TIMEOUT;
        self->lock_count += status == TUFF_OK;
    }
    tuff__free(paths);
    return is_alone;
}

static void unlock_devices(race_state *self)
{
    while (self->lock_count > 0)
        tuff__file_unlock(&self->locks[--self->lock_count]);
}

/* Goes round by round instead of device by device, so that a change of clock rate or load hits all of them alike. The
   median counts: single runs are disturbed by whatever else the machine does. */
static void run_rounds(race_state *self)
{
    const entrant *first = find_fastest(self, NULL);
    const uint64_t limit = first == NULL ? 0 : MAX_SLOWDOWN * first->nanoseconds;
    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < self->count; ++i) {
            entrant *racer = &self->entrants[i];
            if (!racer->runs || racer->nanoseconds > limit)
                continue;
            enter_journal(self, JOURNAL_BENCH, racer);
            if (run_once(racer, &racer->times[racer->count]) == TUFF_OK)
                ++racer->count;
            else
                racer->runs = false;
            tuff__journal_leave(self->journal);
        }
    for (int i = 0; i < self->count; ++i) {
        uint64_t quartiles[3];
        if (self->entrants[i].count == 0)
            continue;
        tuff__times_quartiles(self->entrants[i].times, self->entrants[i].count, quartiles);
        self->entrants[i].nanoseconds = quartiles[1];
    }
}

static entrant *run_race(race_state *self, tuff_device_race_result *result)
{
    char folder[FOLDER_SIZE];
    const bool has_folder = tuff__tune_folder(folder, sizeof folder) == TUFF_OK;
    if (tuff__journal_open(has_folder ? folder : NULL, &self->journal) != TUFF_OK)
        return NULL;
    for (int i = 0; i < self->count; ++i)
        qualify(self, &self->entrants[i]);
    const bool is_alone = lock_devices(self);
    run_rounds(self);
    unlock_devices(self);
    entrant *winner = find_fastest(self, NULL);
    const entrant *next = find_fastest(self, winner);
    for (int i = 0; i < self->count; ++i)
        result->candidate_count += self->entrants[i].plan != NULL;
    for (int i = 0; i < self->count; ++i)
        release_entrant(self, &self->entrants[i], &self->entrants[i] != winner);
    if (winner == NULL)
        return NULL;
    result->nanoseconds = winner->nanoseconds;
    if (next != NULL) {
        result->runner_up_nanoseconds = next->nanoseconds;
        (void)snprintf(result->runner_up, sizeof result->runner_up, "%s", next->info.selector);
    }
    if (is_alone)
        write_cached_result(self, winner, result);
    else
        tuff__log(TUFF_LOG_INFO, "fastest: the result is not cached: another process is measuring on these devices");
    return winner;
}

static tuff_device *open_fastest(race_state *self, tuff_device_race_result *result)
{
    make_key(self);
    if (tuff__crash_history_recover(NULL, NULL, NULL) != TUFF_OK || find_entrants(self) != TUFF_OK)
        return NULL;
    result->left_out = self->left_out;
    if (self->count == 0) {
        FAIL(TUFF_E_NO_DEVICE, self->left_out == 0
                                   ? "fastest: no OpenCL or Vulkan device was found"
                                   : "fastest: every device has crashed a process in this race: run tuff cache verify "
                                     "--retry to try them again");
        return NULL;
    }
    if (make_result_path(self) != TUFF_OK)
        return NULL;
    entrant *winner = self->count == 1 ? self->entrants : read_cached_result(self, result);
    if (winner != NULL)
        winner->device = tuff_device_open(winner->info.selector);
    /* The device that won earlier may be in use or gone today. That must not stop the program while others remain; with
       one device there is nothing to race, and its error is the result. */
    if (winner == NULL || (winner->device == NULL && self->count > 1)) {
        if (winner != NULL)
            tuff__log(TUFF_LOG_INFO, "fastest: cannot open the cached device: %s", tuff_error());
        *result = (tuff_device_race_result){.left_out = self->left_out};
        winner = run_race(self, result);
    }
    if (winner == NULL)
        return NULL;
    (void)snprintf(result->selector, sizeof result->selector, "%s", winner->info.selector);
    return winner->device;
}

tuff_device *tuff_device_open_fastest(const tuff_device_race *race, tuff_device_race_result *result)
{
    tuff_device_race_result unused;
    result = result == NULL ? &unused : result;
    *result = (tuff_device_race_result){.candidate_count = 0};
    if (race == NULL || race->name == NULL || race->setup == NULL || race->teardown == NULL) {
        FAIL(TUFF_E_USAGE, "fastest: a race needs a name, setup and teardown");
        return NULL;
    }
    race_state self = {.race = race, .entrants = tuff__calloc(MAX_ENTRANTS, sizeof *self.entrants)};
    if (self.entrants == NULL)
        return NULL;
    tuff_device *device = open_fastest(&self, result);
    tuff__journal_close(self.journal);
    tuff__free(self.entrants);
    return device;
}
