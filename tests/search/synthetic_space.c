/* Synthetic recordings. The logarithm of a time is a sum: a valley along each axis, a ridge for each pair of axes,
   cliffs where a resource is exhausted, and roughness of pairs and of single points. Each term comes from a hash of the
   family, partly combined with the device. */
#include "synthetic_space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

enum { MAX_AXES = 8, SAMPLES = 16 };

typedef struct family {
    const char *name;
    tunable axes[MAX_AXES];
    int defaults[MAX_AXES]; /* own defaults, because those of the table may change */
    int count;
    double valley, ridge, pair_roughness, roughness; /* weights */
    double cliff;                                    /* of registers; 0: none */
    double valid;                                    /* the fraction of local memory that is available */
    double nanoseconds;
} family;

static const family families[SYNTHETIC_FAMILIES] = {
    {.name = "blocks",
     .axes = {TUNABLE_matmul_local_block_rows, TUNABLE_matmul_local_block_columns, TUNABLE_matmul_local_step_k,
              TUNABLE_matmul_local_thread_rows, TUNABLE_matmul_local_thread_columns,
              TUNABLE_matmul_register_tile_columns, TUNABLE_attention_local_vectors, TUNABLE_matmul_subgroup_subgroups},
     .defaults = {64, 64, 16, 4, 4, 1, 4, 4},
     .count = 8,
     .valley = 0.2,
     .ridge = 0.1,
     .pair_roughness = 0.014,
     .roughness = 0.025,
     .cliff = 0.35,
     .valid = 0.55,
     .nanoseconds = 3e6},
    {.name = "tiles",
     .axes = {TUNABLE_matmul_register_local_size, TUNABLE_matmul_register_tile_rows,
              TUNABLE_matmul_register_tile_columns, TUNABLE_matmul_register_packed_rows, TUNABLE_row_register_parts,
              TUNABLE_matmul_gemv_step_k},
     .defaults = {8, 4, 1, 4, 1, 8},
     .count = 6,
     .valley = 0.35,
     .ridge = 0.2,
     .pair_roughness = 0.025,
     .roughness = 0.03,
     .cliff = 0.6,
     .valid = 0.6,
     .nanoseconds = 8e5},
    {.name = "flat",
     .axes = {TUNABLE_map_local_size, TUNABLE_map_item_elements, TUNABLE_column_register_rows_at_once,
              TUNABLE_column_register_vectors},
     .defaults = {128, 0, 1, 1},
     .count = 4,
     .valley = 0.25,
     .ridge = 0.15,
     .pair_roughness = 0.02,
     .roughness = 0.008,
     .cliff = 0.4,
     .valid = 0.8,
     .nanoseconds = 2e5},
};

/* Returns a number in [0, 1) that depends on all arguments. */
static double hashed(int a, int b, int c, int d, int e)
{
    const int all[] = {a, b, c, d, e};
    rng from = {tuff__hash64(all, sizeof all, 3)};
    return tuff__rng_uniform(&from);
}

/* Approximates a normal distribution with variance 1. */
static double normal_noise(rng *from)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += tuff__rng_uniform(from);
    return sum - 6;
}

static double hashed_noise(int a, int b, int c, int d, int e)
{
    const int all[] = {a, b, c, d, e};
    rng from = {tuff__hash64(all, sizeof all, 4)};
    return normal_noise(&from);
}

typedef struct place {
    int family, device;
    const struct family *rules;
    int index[MAX_AXES];                       /* indices into the axes' values */
    double part[MAX_AXES], defaults[MAX_AXES]; /* relative position along each axis, and that of the default */
} place;

/* Returns the optimum of an axis: not far from the default, and about a step from that of other devices of the
   family. */
static double optimum(const place *at, int axis)
{
    const double shared = 0.5 * at->defaults[axis] + 0.1 + 0.4 * hashed(1, at->family, axis, 0, 0);
    const double own = shared + 0.1 * hashed_noise(2, at->family, at->device, axis, 0);
    return own < 0 ? 0 : own > 1 ? 1 : own;
}

static double valleys(const place *at)
{
    double sum = 0;
    for (int i = 0; i < at->rules->count; i++) {
        const double away = fabs(at->part[i] - optimum(at, i));
        sum += (0.4 + 1.2 * hashed(3, at->family, i, 0, 0)) * pow(away, 1.4);
    }
    return at->rules->valley * sum;
}

static double pairs(const place *at)
{
    double ridges = 0, rough = 0;
    for (int i = 0; i < at->rules->count; i++)
        for (int j = 0; j < i; j++) {
            const double target = optimum(at, i) + optimum(at, j);
            const double away = at->part[i] + at->part[j] - target;
            const int one = i * 64 + at->index[i], other = j * 64 + at->index[j];
            if (hashed(4, at->family, i, j, 0) < 0.4)
                ridges += away * away;
            rough += 0.85 * hashed_noise(5, at->family, one, other, 0);
            rough += 0.53 * hashed_noise(6, at->family, one, other, at->device + 1);
        }
    return at->rules->ridge * ridges + at->rules->pair_roughness * rough;
}

/* Returns the use of a resource, 0 to 1. */
static double use_of(const place *at, int resource)
{
    double sum = 0, most = 0;
    for (int i = 0; i < at->rules->count; i++) {
        const double weight = hashed(7, at->family, i, resource, 0);
        sum += weight * at->part[i];
        most += weight;
    }
    return sum / most;
}

/* Beyond some use of registers they spill; the limit differs by device. */
static double cliffs(const place *at)
{
    const double limit = 0.5 + 0.2 * hashed(8, at->family, at->device, 0, 0), use = use_of(at, 0);
    return use > limit ? at->rules->cliff * (1 + 2 * (use - limit)) : 0;
}

static double roughness(const place *at, uint64_t number)
{
    return at->rules->roughness * hashed_noise(9, at->family, at->device, (int)number, 0);
}

/* Times scatter by 1 %, with occasional disturbances; the first sample is 0.8 to 4 times the others. */
static void make_times(double nanoseconds, rng *from, uint64_t *times)
{
    for (int i = 0; i < SAMPLES; i++) {
        double factor = 1 + 0.01 * normal_noise(from);
        if (tuff__rng_uniform(from) < 0.04)
            factor += 0.5 * tuff__rng_uniform(from);
        if (i == 0)
            factor *= tuff__rng_uniform(from) < 0.85 ? 0.9 + 0.4 * tuff__rng_uniform(from)
                                                     : 0.76 + 3.24 * tuff__rng_uniform(from);
        times[i] = (uint64_t)(nanoseconds * factor);
    }
}

static int index_of(const space_axis *axis, int value)
{
    int index = 0;
    while (axis->values[index] != value)
        index++;
    return index;
}

static void find_place(const tune_space *space, const tune_config *config, place *at)
{
    for (int i = 0; i < space->count; i++) {
        int k = 0;
        while (at->rules->axes[k] != space->axes[i].parameter)
            k++;
        const space_axis *axis = &space->axes[i];
        at->index[k] = index_of(axis, tuff__config_value(config, axis->parameter, axis->default_value));
        at->part[k] = (double)at->index[k] / (axis->count - 1);
        at->defaults[k] = (double)index_of(axis, axis->default_value) / (axis->count - 1);
    }
}

static void add_point(const tune_space *space, uint64_t number, int family_index, int device, recording *out)
{
    place at = {.family = family_index, .device = device, .rules = &families[family_index]};
    recorded_point point = {.program = number + 1};
    tuff__space_at(space, number, &point.config);
    find_place(space, &point.config, &at);
    const bool is_default = tuff__config_count(&point.config) == 0;
    /* Points that do not divide, two of three, and points that need more local memory than available are no kernels. */
    if (!is_default && (hashed(10, family_index, (int)number, 0, 0) < 0.6 || use_of(&at, 1) > at.rules->valid))
        return;
    uint64_t times[SAMPLES];
    rng from = {tuff__hash64(&number, sizeof number, (uint64_t)(family_index * 100 + device))};
    const double logarithm = valleys(&at) + pairs(&at) + cliffs(&at) + roughness(&at, number);
    make_times(at.rules->nanoseconds * exp(logarithm), &from, times);
    point.group_items = 1U << (at.index[0] < 10 ? at.index[0] : 10);
    point.count = SAMPLES;
    point.nanoseconds = times;
    assert_int_equal(recording_add(out, &point), TUFF_OK);
}

void synthetic_space(int family_index, int device, recording *out)
{
    const family *one = &families[family_index];
    tune_config defaults = {0};
    for (int i = 0; i < one->count; i++)
        tuff__config_set(&defaults, one->axes[i], one->defaults[i]);
    char name[32] = "device 0";
    name[7] = (char)('0' + device);
    assert_int_equal(recording_begin(out, one->name, name, &defaults, 0), TUFF_OK);
    tune_space space = {0};
    tuff__space_add_tunables(&space, &defaults);
    for (uint64_t number = 0; number < tuff__space_count(&space); number++)
        add_point(&space, number, family_index, device, out);
}

/* Returns the fraction of the best speed that a configuration reaches; 0 if there is no kernel for it. */
static double score(const recording *recorded, uint64_t best, const tune_config *config)
{
    const recorded_point *found = recording_find(recorded, config);
    return found ? (double)best / (double)found->median : 0;
}

/* Returns the fastest point of a recording that is slower than `after`. */
static const recorded_point *next_fastest(const recording *recorded, uint64_t after)
{
    const recorded_point *best = NULL;
    for (int i = 0; i < recorded->count; i++) {
        const uint64_t time = recorded->points[i].median;
        if (time > after && (!best || time < best->median))
            best = &recorded->points[i];
    }
    return best;
}

enum { BEST_OF_EACH = 12, POOL = BEST_OF_EACH * SYNTHETIC_DEVICES };

/* Collects the best points of all recordings but one, and the score of each of them on every recording. */
static int make_pool(const recording *recorded, int count, int but, tune_config *pool,
                     double (*scores)[SYNTHETIC_DEVICES])
{
    int size = 0;
    for (int i = 0; i < count; i++) {
        uint64_t after = 0;
        for (int j = 0; j < BEST_OF_EACH && i != but; j++) {
            const recorded_point *next = next_fastest(&recorded[i], after);
            after = next->median;
            pool[size++] = next->config;
        }
    }
    for (int j = 0; j < count; j++) {
        const uint64_t best = recording_best(&recorded[j]);
        for (int i = 0; i < size; i++)
            scores[i][j] = j == but ? 0 : score(&recorded[j], best, &pool[i]);
    }
    return size;
}

void synthetic_portfolio(const recording *recorded, int count, int but, tune_config *out)
{
    static tune_config pool[POOL];
    static double scores[POOL][SYNTHETIC_DEVICES];
    const int size = make_pool(recorded, count, but, pool, scores);
    double covered[SYNTHETIC_DEVICES] = {0};
    for (int k = 0; k < SYNTHETIC_PORTFOLIO; k++) {
        int best = 0;
        double best_gain = -1;
        for (int i = 0; i < size; i++) {
            double gain = 0;
            for (int j = 0; j < count; j++)
                gain += scores[i][j] > covered[j] ? scores[i][j] - covered[j] : 0;
            if (gain > best_gain) {
                best_gain = gain;
                best = i;
            }
        }
        out[k] = pool[best];
        for (int j = 0; j < count; j++)
            covered[j] = scores[best][j] > covered[j] ? scores[best][j] : covered[j];
    }
}
