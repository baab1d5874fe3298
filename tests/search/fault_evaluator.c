/* A simulated device. Its programs have five tunables; hashes decide which combinations are no kernel, and which have a
   fault. */
#include "fault_evaluator.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

enum { N = FAULT_MATRIX, CANARY = 0x5ca1ab1e, POISON = 0x7fc0dead };

static const struct {
    tunable parameter;
    int default_value;
    double best; /* base-2 logarithm */
} axes[] = {{TUNABLE_matmul_register_local_size, 64, 5},
            {TUNABLE_matmul_register_tile_rows, 4, 3},
            {TUNABLE_matmul_register_tile_columns, 1, 1.6},
            {TUNABLE_matmul_gemv_step_k, 8, 2},
            {TUNABLE_row_register_parts, 1, 2}};
enum { AXES = sizeof axes / sizeof *axes };

static uint64_t hash_of(const fault_device *self, const tune_config *config)
{
    int values[AXES];
    for (int i = 0; i < AXES; i++)
        values[i] = tuff__config_value(config, axes[i].parameter, axes[i].default_value);
    return tuff__hash64(values, sizeof values, self->seed);
}

static bool is_default(const tune_config *config)
{
    for (int i = 0; i < AXES; i++)
        if (tuff__config_value(config, axes[i].parameter, axes[i].default_value) != axes[i].default_value)
            return false;
    return true;
}

fault fault_of(const fault_device *self, const tune_config *config)
{
    if (is_default(config))
        return self->default_fault;
    rng from = {hash_of(self, config) + 1};
    double at = tuff__rng_uniform(&from);
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (i != SOUND && at < self->share[i])
            return (fault)i;
        at -= i == SOUND ? 0 : self->share[i];
    }
    return SOUND;
}

/* Returns a factor such that no single or double move from the default crosses the wall. */
static double wall(const tune_config *config)
{
    const int group = tuff__config_value(config, axes[0].parameter, axes[0].default_value);
    const int rows = tuff__config_value(config, axes[1].parameter, axes[1].default_value);
    return group == 16 ? 3 : group < 16 && rows >= 8 ? 0.4 : 1;
}

uint64_t fault_time(const fault_device *self, const tune_config *config)
{
    double sum = 0;
    for (int i = 0; i < AXES; i++)
        sum += fabs(log2(tuff__config_value(config, axes[i].parameter, axes[i].default_value)) - axes[i].best);
    rng from = {hash_of(self, config)};
    const double rough = 0.1 * tuff__rng_uniform(&from);
    const double faulty = fault_of(self, config) != SOUND && self->faulty_speed > 0 ? self->faulty_speed : 1;
    const double others = is_default(config) || self->others <= 0 ? 1 : self->others;
    const double walled = self->walled ? wall(config) : 1;
    return (uint64_t)(1e6 * faulty * others * walled * exp((0.12 * sum + rough) * (1 - self->flatness)));
}

static tune_evaluation lower(void *state, const tune_config *config, candidate_info *out)
{
    const fault_device *self = state;
    const uint64_t hash = hash_of(self, config);
    if (hash % 4 == 0 && !is_default(config)) {
        (void)FAIL(TUFF_E_USAGE, "fault evaluator: the tile does not divide the size");
        return EVALUATION_INVALID;
    }
    *out =
        (candidate_info){.program = hash | 1,
                         .group_items = (uint32_t)tuff__config_value(config, axes[0].parameter, axes[0].default_value)};
    out->cost = self->foresight != 0 ? pow((double)fault_time(self, config), self->foresight) : 0;
    for (int i = 0; i < AXES; i++)
        tuff__config_set(&out->used_tunables, axes[i].parameter, axes[i].default_value);
    return EVALUATION_GOOD;
}

static tune_evaluation broken(fault_device *self)
{
    self->broken++;
    (void)FAIL(TUFF_E_USAGE, "fault evaluator: calls in the wrong order");
    return EVALUATION_FAILED;
}

static tune_evaluation report_evaluation(tune_evaluation found)
{
    (void)FAIL(TUFF_E_COMPILE, "fault evaluator: %s", tuff__evaluation_text(found));
    return found;
}

static void expect(void *state, const search_candidate *candidate)
{
    fault_device *self = state;
    if (candidate->slot < 0 || candidate->slot >= SEARCH_SLOTS || self->is_live[candidate->slot] ||
        self->is_expected[candidate->slot]) {
        self->broken++;
        return;
    }
    self->is_expected[candidate->slot] = true;
    self->live[candidate->slot] = candidate->config;
    self->expected++;
    self->expected_most = self->expected > self->expected_most ? self->expected : self->expected_most;
}

/* Whether a candidate was expected in its slot, or could have been. */
static bool is_drawn_for_device(fault_device *self, const search_candidate *candidate)
{
    if (candidate->slot < 0 || candidate->slot >= SEARCH_SLOTS || self->is_live[candidate->slot] || self->is_down)
        return false;
    const bool was_expected = self->is_expected[candidate->slot];
    self->is_expected[candidate->slot] = false;
    self->expected -= was_expected;
    return !was_expected || tuff__config_equal(&self->live[candidate->slot], &candidate->config);
}

static tune_evaluation compile(void *state, const search_candidate *candidate)
{
    fault_device *self = state;
    if (!is_drawn_for_device(self, candidate))
        return broken(self);
    self->clock += self->compile_cost;
    self->compiled++;
    const uint64_t name = hash_of(self, &candidate->config);
    self->compiled_log = tuff__hash64(&name, sizeof name, self->compiled_log);
    const fault has = fault_of(self, &candidate->config);
    if (has == FAULT_LIMITS || has == FAULT_COMPILE)
        return report_evaluation(has == FAULT_LIMITS ? EVALUATION_LIMITS : EVALUATION_COMPILE);
    self->live[candidate->slot] = candidate->config;
    self->is_live[candidate->slot] = true;
    self->live_count++;
    self->live_most = self->live_count > self->live_most ? self->live_count : self->live_most;
    return EVALUATION_GOOD;
}

static uint64_t spilled(void *state, const search_candidate *candidate)
{
    fault_device *self = state;
    if (candidate->slot < 0 || candidate->slot >= SEARCH_SLOTS || !self->is_live[candidate->slot])
        self->broken++;
    return self->spills(self, &candidate->config);
}

static bool is_right_slot(const fault_device *self, const search_candidate *candidate)
{
    return candidate->slot >= 0 && candidate->slot < SEARCH_SLOTS && self->is_live[candidate->slot] && !self->is_down &&
           tuff__config_equal(&self->live[candidate->slot], &candidate->config);
}

/* Returns how a launch ends if it gives no results. A hang is waited for until the deadline, or the end of the
   budget. */
static tune_evaluation launch(fault_device *self, fault has)
{
    if (has == FAULT_HANGS) {
        const uint64_t left = self->budget > self->clock ? self->budget - self->clock : 0;
        self->clock += self->budget && left < self->deadline ? left : self->deadline;
        self->hangs++;
        self->is_down = self->no_hang_recovery;
        return report_evaluation(EVALUATION_HANG);
    }
    if (has == FAULT_CRASHES) {
        self->is_down = self->no_hang_recovery;
        return report_evaluation(EVALUATION_CRASH);
    }
    if (has == FAULT_LOSES) {
        self->is_down = true;
        return report_evaluation(EVALUATION_LOST);
    }
    return EVALUATION_GOOD;
}

static double normal_noise(rng *from)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += tuff__rng_uniform(from);
    return sum - 6;
}

static double time_now(fault_device *self, const tune_config *config)
{
    const int64_t taken = self->samples_taken++;
    const double slower =
        (1 + self->drift * (double)taken) * (self->step_at && taken >= self->step_at ? self->step_factor : 1);
    const double busy = self->burst > 0 && taken / 23 % 2 == 1 ? self->burst : 1;
    const double shared = self->second > 0 && tuff__rng_uniform(&self->random) < 0.5 ? self->second : 1;
    return (double)fault_time(self, config) * slower * busy * shared *
           (1 + self->scatter * normal_noise(&self->random));
}

static tune_evaluation sample(void *state, const search_candidate *candidate, int count, uint64_t limit,
                              uint64_t *nanoseconds)
{
    (void)limit;
    fault_device *self = state;
    if (!is_right_slot(self, candidate))
        return broken(self);
    const fault has = fault_of(self, &candidate->config);
    const tune_evaluation found = launch(self, has);
    for (int i = 0; i < count && found == EVALUATION_GOOD; i++) {
        nanoseconds[i] = (uint64_t)time_now(self, &candidate->config);
        self->clock += nanoseconds[i];
        if (has == FAULT_ZERO)
            nanoseconds[i] = 0;
    }
    return found;
}

/* Computes a product of small integers, exact in any order. The fault is in the results, so that the check has to find
   it. */
static void run(fault_device *self, fault has, int depth)
{
    int32_t *out = self->memory + N;
    for (int i = 0; i < N - (has == FAULT_PARTIAL); i++)
        for (int j = 0; j < N; j++) {
            int32_t sum = 0;
            for (int k = 0; k < depth; k++)
                sum += ((i * 7 + k * 3) % 3 - 1) * ((k * 5 + j) % 3 - 1);
            out[i * N + j] = sum;
        }
    const bool is_off =
        has == FAULT_WRONG || (has == FAULT_RACES && self->runs % 2 == 0) || (has == FAULT_RAGGED && depth != N);
    if (is_off)
        out[N * N - 3] += 1;
    if (has == FAULT_OUTSIDE)
        out[N * N] = 0;
    self->runs++;
}

static void prepare(fault_device *self)
{
    for (int i = 0; i < N * N + 2 * N; i++)
        self->memory[i] = i < N || i >= N * N + N ? CANARY : POISON;
}

static tune_evaluation look(fault_device *self, fault has, int depth)
{
    int32_t expected[N * N], first[N * N];
    prepare(self);
    run(self, SOUND, depth);
    memcpy(expected, self->memory + N, sizeof expected);
    for (int turn = 0; turn < 2; turn++) {
        prepare(self);
        run(self, has, depth);
        for (int i = 0; i < N; i++)
            if (self->memory[i] != CANARY || self->memory[N * N + N + i] != CANARY)
                return report_evaluation(EVALUATION_WRONG);
        if (turn && memcmp(first, self->memory + N, sizeof first) != 0)
            return report_evaluation(EVALUATION_RACE);
        memcpy(first, self->memory + N, sizeof first);
    }
    return memcmp(expected, first, sizeof first) == 0 ? EVALUATION_GOOD : report_evaluation(EVALUATION_WRONG);
}

static tune_evaluation verify(void *state, const search_candidate *candidate, bool thorough)
{
    fault_device *self = state;
    if (!is_right_slot(self, candidate))
        return broken(self);
    const fault has = fault_of(self, &candidate->config);
    const bool is_caught = has >= FAULT_WRONG && has <= FAULT_OUTSIDE;
    const bool is_faulty = is_caught || (has == FAULT_RAGGED && thorough);
    self->clock += 2 * fault_time(self, &candidate->config);
    tune_evaluation found = launch(self, has);
    if (found == EVALUATION_GOOD)
        found = look(self, has, N);
    if (found == EVALUATION_GOOD && thorough)
        found = look(self, has, N - 3);
    self->verified_faulty += is_faulty;
    self->verified_sound += has == SOUND;
    self->passed_faulty += is_faulty && found == EVALUATION_GOOD;
    self->refused_sound += has == SOUND && found != EVALUATION_GOOD;
    return found;
}

static void release(void *state, const search_candidate *candidate)
{
    fault_device *self = state;
    if (candidate->slot < 0 || candidate->slot >= SEARCH_SLOTS ||
        (!self->is_live[candidate->slot] && !self->is_expected[candidate->slot])) {
        self->broken++;
        return;
    }
    self->expected -= self->is_expected[candidate->slot];
    self->live_count -= self->is_live[candidate->slot];
    self->is_expected[candidate->slot] = self->is_live[candidate->slot] = false;
}

static bool is_over(void *state)
{
    const fault_device *self = state;
    return self->is_down || (self->budget && self->clock >= self->budget);
}

evaluator fault_begin(fault_device *self)
{
    self->random = (rng){self->seed};
    return (evaluator){.state = self,
                       .lower = lower,
                       .compile = compile,
                       .spilled = self->spills ? spilled : NULL,
                       .expect = expect,
                       .sample = sample,
                       .verify = verify,
                       .release = release,
                       .is_over = is_over};
}
