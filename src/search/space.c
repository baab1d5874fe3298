/* The search space of a key: the values of each axis, and enumerating, drawing, fitting and moving points. */
#include "search/space.h"

#include <limits.h>
#include <string.h>

static bool is_worth_trying(tunable parameter, int value)
{
    const tunable_info *info = tuff__tunable_info(parameter);
    if (value < info->min || value > info->max)
        return false;
    if (tuff__tunable_is_choice(parameter))
        return true;
    /* Tiles may also be 3, 6, 12, 24, ...: three quarters of a power of two. */
    return (value & (value - 1)) == 0 ||
           (tuff__tunable_is_loop(parameter) && value % 3 == 0 && (value / 3 & (value / 3 - 1)) == 0);
}

/* Doubling from 64 on skips no power of two up to 65536, where ranges end. */
static int next_value(int value)
{
    return value < 64 ? value + 1 : value * 2;
}

static void make_axis(space_axis *self, tunable parameter, int default_value)
{
    const tunable_info *info = tuff__tunable_info(parameter);
    *self = (space_axis){.parameter = parameter, .default_value = default_value};
    bool placed = false;
    for (int value = info->min > 64 ? 64 : info->min; value <= info->max; value = next_value(value)) {
        if (!placed && default_value <= value) {
            self->values[self->count++] = default_value;
            placed = true;
        }
        if (value != default_value && is_worth_trying(parameter, value) && self->count < AXIS_VALUES - 1)
            self->values[self->count++] = value;
    }
    if (!placed)
        self->values[self->count++] = default_value;
}

static const space_axis *find_axis(const tune_space *self, tunable parameter)
{
    for (int i = 0; i < self->count; i++)
        if (self->axes[i].parameter == parameter)
            return &self->axes[i];
    return NULL;
}

int tuff__space_add_tunables(tune_space *self, const tune_config *used_tunables)
{
    const int before = self->count;
    for (int index = 0; index < TUNABLE_COUNT; index++)
        if (tuff__config_has(used_tunables, (tunable)index) && !find_axis(self, (tunable)index))
            make_axis(&self->axes[self->count++], (tunable)index, used_tunables->values[index]);
    return self->count - before;
}

uint64_t tuff__space_count(const tune_space *self)
{
    uint64_t count = 1;
    for (int i = 0; i < self->count; i++) {
        const uint64_t values = (uint64_t)self->axes[i].count;
        count = count > UINT64_MAX / values ? UINT64_MAX : count * values;
    }
    return count;
}

static void assign(const space_axis *axis, int value, tune_config *out)
{
    if (value == axis->default_value)
        tuff__config_unset(out, axis->parameter);
    else
        tuff__config_set(out, axis->parameter, value);
}

void tuff__space_at(const tune_space *self, uint64_t index, tune_config *out)
{
    *out = (tune_config){0};
    for (int i = 0; i < self->count; i++) {
        const uint64_t values = (uint64_t)self->axes[i].count;
        assign(&self->axes[i], self->axes[i].values[index % values], out);
        index /= values;
    }
}

void tuff__space_random(const tune_space *self, rng *from, tune_config *out)
{
    *out = (tune_config){0};
    for (int i = 0; i < self->count; i++) {
        const space_axis *axis = &self->axes[i];
        assign(axis, axis->values[tuff__rng_below(from, axis->count)], out);
    }
}

static int nearest_value(const space_axis *axis, int value)
{
    int nearest = axis->values[0];
    for (int i = 1; i < axis->count; i++) {
        const int candidate = axis->values[i];
        const int distance = candidate > value ? candidate - value : value - candidate;
        const int best = nearest > value ? nearest - value : value - nearest;
        if (distance < best)
            nearest = candidate;
    }
    return nearest;
}

void tuff__space_fit(const tune_space *self, tune_config *config)
{
    const tune_config before = *config;
    *config = (tune_config){0};
    for (int i = 0; i < self->count; i++) {
        const space_axis *axis = &self->axes[i];
        if (tuff__config_has(&before, axis->parameter))
            assign(axis, nearest_value(axis, before.values[axis->parameter]), config);
    }
}

int tuff__space_moves(const tune_space *self)
{
    return 2 * self->count;
}

bool tuff__space_move(const tune_space *self, int move, tune_config *config)
{
    const space_axis *axis = &self->axes[move / 2];
    const int value = tuff__config_value(config, axis->parameter, axis->default_value);
    const bool down = move % 2;
    int i = down ? axis->count - 1 : 0;
    while (i >= 0 && i < axis->count && (down ? axis->values[i] >= value : axis->values[i] <= value))
        i += down ? -1 : 1;
    if (i < 0 || i == axis->count)
        return false;
    assign(axis, axis->values[i], config);
    return true;
}
