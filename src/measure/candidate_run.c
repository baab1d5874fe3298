/* A candidate_run owns an executable of one task over test buffers, and recordings of it with timestamps: one for each
   place in the pool of cold weights. Short runs are repeated within a recording, because timers are coarse. */
#include "measure/candidate_run.h"

#include <string.h>

#include "base/log.h"
#include "measure/cache_flush.h"

/* Timers are trusted for runs of this length; shorter runs are repeated. */
enum { MIN_NANOSECONDS = 200000, MAX_REPEATS = 64 };

struct candidate_run {
    tuff_device *device;
    const struct fusion *fusion; /* borrowed */
    executable executable;
    recording *timed[COLD_PLACES]; /* starting at each place; made on first use */
    uint64_t *stamps;
    int command_count, repeats; /* of a timed recording */
    cache_flush_pool *pool;     /* borrowed */
    flushed_weights weights;
    int places;        /* places in the pool */
    uint64_t expected; /* nanoseconds of one run; 0: not known */
};

/* Recordings name memory and repeats, so none survives a change of either. */
static void drop_recordings(candidate_run *self)
{
    for (int i = 0; i < COLD_PLACES; ++i) {
        tuff__recording_destroy(self->device, self->timed[i]);
        self->timed[i] = NULL;
    }
}

void tuff__candidate_run_destroy(candidate_run *self)
{
    if (self == NULL)
        return;
    drop_recordings(self);
    tuff__executable_free(&self->executable);
    tuff__free(self->stamps);
    tuff__free(self);
}

/* Records the commands of a run as often as they are repeated, each with its weights at the following place. */
static tuff_status record_from(candidate_run *self, int place)
{
    const int count = self->executable.command_count - self->executable.setup_count;
    command *all = tuff__calloc((size_t)self->command_count + 1, sizeof *all);
    if (all == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < self->repeats; ++i) {
        command *one = all + (size_t)i * (size_t)count;
        memcpy(one, self->executable.commands + self->executable.setup_count, (size_t)count * sizeof *one);
        if (self->places > 1)
            tuff__cache_flush_bind(&self->weights, self->pool, (place + i) % self->places, one, count);
    }
    const tuff_status status =
        tuff__recording_create(self->device, all, self->command_count, true, true, &self->timed[place]);
    tuff__free(all);
    return status;
}

/* Sets the number of runs per submission. */
static tuff_status set_repeats(candidate_run *self, int repeats)
{
    const int count = (self->executable.command_count - self->executable.setup_count) * repeats;
    uint64_t *stamps = tuff__calloc((size_t)count + 1, sizeof *stamps);
    if (stamps == NULL)
        return TUFF_E_OOM_HOST;
    drop_recordings(self);
    tuff__free(self->stamps);
    self->stamps = stamps;
    self->command_count = count;
    self->repeats = repeats;
    return TUFF_OK;
}

/* Returns the recording for the next place in the pool; made on first use. */
static tuff_status next_recording(candidate_run *self, recording **out)
{
    const int place =
        self->places > 1 ? tuff__cache_flush_next(self->pool, self->places, self->weights.size, self->repeats) : 0;
    if (self->timed[place] == NULL)
        TRY(record_from(self, place));
    *out = self->timed[place];
    return TUFF_OK;
}

/* Memory of the pool may hold old results. With a pattern in it, a kernel that reads what it never wrote gives wrong
   results instead. */
static tuff_status poison_scratch(const launch_list *list)
{
    static const uint32_t poison = 0x7FE1DEAD;
    for (int i = 0; i < list->block_count; ++i)
        TRY(tuff__storage_fill(list->device, list->blocks[i], 0, tuff__storage_size(list->blocks[i]), &poison,
                               sizeof poison));
    return TUFF_OK;
}

/* The order is fixed: memory is planned before it is poisoned, and poisoned before setup copies weights into it. */
static tuff_status build(candidate_run *self, test_buffers *buffers)
{
    TRY(tuff__test_buffers_place(buffers, &self->executable.launches));
    TRY(tuff__plan_memory(&self->executable.launches));
    TRY(poison_scratch(&self->executable.launches));
    TRY(tuff__executable_record(&self->executable, NULL));
    if (self->executable.setup != NULL)
        TRY(tuff__submit(self->device, self->executable.setup));
    tuff__cache_flush_find(&self->executable, &self->weights);
    self->places = tuff__cache_flush_places(&self->weights, self->pool);
    if (self->places > 1 && tuff__cache_flush_pool_fill(self->device, self->pool) != TUFF_OK) {
        tuff__log(TUFF_LOG_DEBUG, "tune: weights are not kept out of the caches during timing: %s", tuff_error());
        self->places = 1;
    }
    return set_repeats(self, 1);
}

tuff_status tuff__candidate_run_create(launch_list *launches, test_buffers *buffers, cache_flush_pool *pool,
                                       candidate_run **out)
{
    candidate_run *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL) {
        tuff__launch_list_free(launches);
        return TUFF_E_OOM_HOST;
    }
    self->device = launches->device;
    self->fusion = launches->fusion;
    self->pool = pool;
    self->executable.launches = *launches;
    *launches = (launch_list){.device = NULL};
    const tuff_status status = build(self, buffers);
    if (status != TUFF_OK) {
        tuff__candidate_run_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

/* Sets the timeout for runs that should take `expected` nanoseconds; 0: unknown. It is longer on CPUs, which do not
   hang but may be busy with other processes. */
static void set_timeout(const candidate_run *self, uint64_t expected)
{
    const uint64_t least =
        tuff__device_info(self->device)->device_class == TUFF_DEVICE_CPU ? UINT64_C(10000000000) : UINT64_C(2000000000);
    /* Generous, because a candidate may be many times slower than the default and still be worth a time. */
    const uint64_t wanted = 50 * expected;
    tuff__device_set_timeout(self->device, expected == 0 ? 0 : wanted > least ? wanted : least);
}

/* Measures one submission and returns the time of one repeat. Uses the host's clock if the device has none. */
static tuff_status time_once(candidate_run *self, uint64_t *nanoseconds)
{
    recording *timed;
    TRY(next_recording(self, &timed));
    set_timeout(self, self->expected * (uint64_t)self->repeats);
    uint64_t sum = 0, passed;
    bool has_stamps;
    TRY(tuff__submit_timed(self->device, timed, self->stamps, &has_stamps, &passed));
    for (int i = 0; i < self->command_count && has_stamps; ++i)
        sum += self->stamps[i];
    *nanoseconds = (sum > 0 ? sum : passed) / (uint64_t)self->repeats;
    self->expected = *nanoseconds;
    return TUFF_OK;
}

/* The kernels of a scatter use counts of preceding kernels, which must be complete. */
static bool can_run_in_part(const candidate_run *self)
{
    for (int i = 0; i < self->executable.launches.launch_count; ++i) {
        const int task = self->executable.launches.launches[i].task;
        if (task < 0 || self->fusion->tasks[task].kind == TASK_SCATTER)
            return false;
    }
    return true;
}

/* A library compiles its kernels in its first call. */
static bool calls_library(const candidate_run *self)
{
    for (int i = self->executable.setup_count; i < self->executable.command_count; ++i)
        if (self->executable.commands[i].kind == COMMAND_LIBRARY_GEMM)
            return true;
    return false;
}

/* Returns a sixteenth of a kernel's groups, but enough for every compute unit to have some. */
static uint64_t partial_groups(const candidate_run *self, uint64_t groups)
{
    enum { SHARE = 16, GROUPS_PER_UNIT = 2 };
    const uint64_t wave = (uint64_t)tuff__device_info(self->device)->compute_units * GROUPS_PER_UNIT;
    const uint64_t part = (groups + SHARE - 1) / SHARE;
    return part > wave ? part : wave < groups ? wave : groups;
}

/* Runs the first groups of each kernel, and predicts the time of all in proportion. */
static tuff_status time_part(candidate_run *self, command *part, uint64_t *stamps, int count, double *predicted)
{
    recording *made = NULL;
    const command *whole = self->executable.commands + self->executable.setup_count;
    uint64_t passed;
    bool has_stamps;
    TRY(tuff__recording_create(self->device, part, count, true, true, &made));
    const tuff_status status = tuff__submit_timed(self->device, made, stamps, &has_stamps, &passed);
    for (int i = 0; i < count && status == TUFF_OK; ++i) {
        const double share =
            part[i].kind == COMMAND_DISPATCH ? (double)whole[i].group_count / (double)part[i].group_count : 1;
        *predicted += share * (has_stamps ? (double)stamps[i] : (double)passed / count);
    }
    tuff__recording_destroy(self->device, made);
    return status;
}

/* A bad candidate could run for minutes, or into the watchdog of a display driver. A sixteenth of it shows that in
   time. A library's first call compiles, so it runs twice, and only the second call counts. */
tuff_status tuff__candidate_run_probe(candidate_run *self, uint64_t default_time, uint64_t *nanoseconds)
{
    const int count = self->executable.command_count - self->executable.setup_count;
    *nanoseconds = 0;
    if (!can_run_in_part(self) || count == 0)
        return TUFF_OK;
    double predicted = 0;
    command *part =
        tuff__memdup(self->executable.commands + self->executable.setup_count, (size_t)count * sizeof *part);
    uint64_t *stamps = tuff__calloc((size_t)count, sizeof *stamps);
    tuff_status status = part == NULL || stamps == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (int i = 0; i < count && status == TUFF_OK; ++i)
        if (part[i].kind == COMMAND_DISPATCH)
            part[i].group_count = partial_groups(self, part[i].group_count);
    set_timeout(self, calls_library(self) ? 0 : default_time);
    if (status == TUFF_OK && calls_library(self))
        status = time_part(self, part, stamps, count, &predicted);
    predicted = 0;
    if (status == TUFF_OK)
        status = time_part(self, part, stamps, count, &predicted);
    tuff__free(part);
    tuff__free(stamps);
    self->expected = *nanoseconds = (uint64_t)predicted;
    return status;
}

bool tuff__candidate_run_is_cold(const candidate_run *self)
{
    return self->places > 1;
}

/* A kernel that does nothing, or whose driver lost it, must not win. */
bool tuff__candidate_run_is_too_fast(const candidate_run *self, uint64_t nanoseconds)
{
    const tuff_device_info *info = tuff__device_info(self->device);
    /* Operations per unit and nanosecond: several times what any unit has today. */
    const double unit = info->device_class == TUFF_DEVICE_CPU ? 2048 : 32768;
    double operations = 0;
    for (int i = 0; i < self->executable.launches.launch_count; ++i)
        operations += self->executable.launches.launches[i].operations;
    return info->compute_units > 0 && operations > unit * info->compute_units * (double)nanoseconds;
}

uint64_t tuff__candidate_run_spilled(const candidate_run *self)
{
    uint64_t most = 0;
    for (int i = 0; i < self->executable.command_count; ++i) {
        program *one = self->executable.programs[i];
        const uint64_t bytes = one == NULL ? 0 : tuff__program_spilled_bytes(self->device, one);
        most = bytes > most ? bytes : most;
    }
    return most;
}

tuff_status tuff__candidate_run_time(candidate_run *self, int count, uint64_t limit, uint64_t *nanoseconds)
{
    for (int i = 0; i < count; ++i) {
        TRY(time_once(self, &nanoseconds[i]));
        const uint64_t took = nanoseconds[i] == 0 ? 1 : nanoseconds[i];
        if (self->repeats == 1 && took < MIN_NANOSECONDS) {
            const uint64_t wanted = MIN_NANOSECONDS / took + 1;
            TRY(set_repeats(self, wanted > MAX_REPEATS ? MAX_REPEATS : (int)wanted));
            TRY(time_once(self, &nanoseconds[i]));
        }
        /* Far slower than the best already: more runs would not change the verdict. */
        for (int k = i + 1; k < count && limit > 0 && nanoseconds[i] > limit; ++k)
            nanoseconds[k] = nanoseconds[i];
        if (limit > 0 && nanoseconds[i] > limit)
            break;
    }
    return TUFF_OK;
}

tuff_status tuff__candidate_run_once(candidate_run *self)
{
    set_timeout(self, self->expected);
    TRY(tuff__submit(self->device, self->executable.recording));
    return tuff__wait(self->device);
}
