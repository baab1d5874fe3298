/* Recordings in memory: builds them point by point, and finds points by their candidate. recording_file.c reads and
   writes files. */
#include "bench/recorder/recording.h"

#include <string.h>

#include "search/times.h"

tuff_status recording_begin(recording *self, const char *name, const char *device, const tune_config *defaults,
                            uint64_t roofline)
{
    *self = (recording){.defaults = *defaults, .roofline = roofline};
    self->name = tuff__arena_strdup(&self->memory, name);
    self->device = tuff__arena_strdup(&self->memory, device);
    return self->name && self->device ? TUFF_OK : TUFF_E_OOM_HOST;
}

void recording_free(recording *self)
{
    tuff__free(self->points);
    tuff__free(self->index);
    tuff__arena_free(&self->memory);
    *self = (recording){0};
}

/* Returns the slot of a candidate in the hash table, or the free one for it. */
static int *find_place(const recording *self, const tune_config *candidate)
{
    const uint64_t hash = tuff__config_hash(candidate), mask = (uint64_t)self->index_size - 1;
    for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
        int *place = &self->index[at];
        if (!*place || tuff__config_equal(&self->points[*place - 1].config, candidate))
            return place;
    }
}

/* Grows the hash table, if necessary, so that at most half of it is in use. */
static tuff_status make_room(recording *self)
{
    if (2 * (self->count + 1) <= self->index_size)
        return TUFF_OK;
    const int before = self->index_size, size = before ? 2 * before : 64;
    int *fresh = tuff__calloc((size_t)size, sizeof *fresh);
    if (!fresh)
        return TUFF_E_OOM_HOST;
    tuff__free(self->index);
    self->index = fresh;
    self->index_size = size;
    for (int i = 0; i < self->count; i++)
        *find_place(self, &self->points[i].config) = i + 1;
    return TUFF_OK;
}

uint64_t recording_median(const uint64_t *times, int count)
{
    if (count < 2)
        return count ? times[0] : 0;
    return tuff__times_median(times + 1, count - 1 < MAX_TIMES ? count - 1 : MAX_TIMES);
}

tuff_status recording_add(recording *self, const recorded_point *point)
{
    TRY(make_room(self));
    int *place = find_place(self, &point->config);
    if (*place)
        return FAIL(TUFF_E_USAGE, "recording: candidate %d occurs twice", *place);
    recorded_point copy = *point;
    copy.nanoseconds = NULL;
    copy.median = recording_median(point->nanoseconds, point->count);
    if (point->count) {
        uint64_t *times = tuff__arena_alloc(&self->memory, (size_t)point->count * sizeof *times);
        if (!times)
            return TUFF_E_OOM_HOST;
        memcpy(times, point->nanoseconds, (size_t)point->count * sizeof *times);
        copy.nanoseconds = times;
    }
    if (!GROW(self->points, self->count, self->capacity))
        return TUFF_E_OOM_HOST;
    self->points[self->count++] = copy;
    *place = self->count;
    return TUFF_OK;
}

const recorded_point *recording_find(const recording *self, const tune_config *candidate)
{
    if (!self->count)
        return NULL;
    const int found = *find_place(self, candidate);
    return found ? &self->points[found - 1] : NULL;
}

tune_config recording_reduce(const recording *self, const tune_config *candidate)
{
    tune_config out = {0};
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable one = (tunable)i;
        if (tuff__config_has(candidate, one) && tuff__config_has(&self->defaults, one) &&
            candidate->values[one] != self->defaults.values[one])
            tuff__config_set(&out, one, candidate->values[one]);
    }
    return out;
}

uint64_t recording_best(const recording *self)
{
    uint64_t best = 0;
    for (int i = 0; i < self->count; i++) {
        const uint64_t time = self->points[i].median;
        if (time && (!best || time < best))
            best = time;
    }
    return best;
}
