/* Groups of parameters, clipping in all three ways, norms per tensor and group, and parameters in several slabs, on
   every device found, against plain C in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "gpu_description.h"
#include "scratch_folder.h"
#include "train_fixture.h"

static const tuff_parameter_spec specs[] = {
    {"a.bias", {.rank = 1, .extent = {7}}},           {"a.weight", {.rank = 2, .extent = {7, 5}}},
    {"fixed.weight", {.rank = 2, .extent = {6, 13}}}, {"b.weight", {.rank = 2, .extent = {3, 601}}},
    {"b.bias", {.rank = 1, .extent = {601}}},         {"gain", {.rank = 0}},
};
enum { SPEC_COUNT = sizeof specs / sizeof *specs, ELEMENTS_MAX = 1803, STEPS = 4 };

static const char *const patterns[] = {"*.bias,nothing", "fixed.*"};
static const tuff_parameter_group groups[] = {
    {.clip_norm = 20}, {.rate_factor = 0.5, .weight_decay = 0.3, .clip_norm = 3}, {.frozen = true}};

static int group_of(int index)
{
    return strstr(specs[index].name, ".bias") ? 1 : strstr(specs[index].name, "fixed") ? 2 : 0;
}

static double square_norm(int index, int round)
{
    double sum = 0;
    for (int64_t i = 0; i < tuff_shape_count(specs[index].shape); i++)
        sum += trainer_value(index, i, round + 1) * trainer_value(index, i, round + 1);
    return sum;
}

static double group_norm(int group, int round)
{
    double sum = 0;
    for (int i = 0; i < SPEC_COUNT; i++)
        sum += group_of(i) == group ? square_norm(i, round) : 0;
    return sqrt(sum);
}

static double factor_for(double limit, double norm)
{
    return limit > 0 ? fmin(1, limit / (norm + 1e-6)) : 1;
}

/* The parts of a step that are not elementwise. */
typedef struct plain_step {
    double factor[3], norm;
} plain_step;

static plain_step plain_clip(const tuff_optimizer_options *o, int round)
{
    plain_step made = {.norm = 0};
    double after = 0;
    for (int i = 0; i < 3; i++) {
        if (o->groups && o->groups[i].frozen)
            continue;
        const double norm = group_norm(i, round);
        made.factor[i] = factor_for(o->groups ? o->groups[i].clip_norm : 0, norm);
        made.norm += norm * norm;
        after += norm * norm * made.factor[i] * made.factor[i];
    }
    made.norm = sqrt(made.norm);
    for (int i = 0; i < 3; i++)
        made.factor[i] *= factor_for(o->clip_norm, sqrt(after));
    return made;
}

/* Computes a parameter after STEPS steps of AdamW. */
static void plain_run(const tuff_optimizer_options *o, int index, double *w)
{
    const int group = group_of(index);
    const bool frozen = o->groups && o->groups[group].frozen;
    const double share = o->groups && o->groups[group].rate_factor > 0 ? o->groups[group].rate_factor : 1;
    const double own = o->groups ? o->groups[group].weight_decay : 0;
    const double decay = specs[index].shape.rank >= 2 || o->decay_all ? (own > 0 ? own : o->weight_decay) : 0;
    for (int64_t i = 0; i < tuff_shape_count(specs[index].shape); i++) {
        double m = 0, v = 0;
        w[i] = (double)(float)trainer_value(index, i, 0);
        for (int round = 0; round < STEPS && !frozen; round++) {
            double g = (double)(float)trainer_value(index, i, round + 1) * plain_clip(o, round).factor[group];
            if (o->clip_value > 0)
                g = fmax(-o->clip_value, fmin(o->clip_value, g));
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            const double change = m / (1 - pow(0.9, round + 1)) / (sqrt(v / (1 - pow(0.999, round + 1))) + o->epsilon);
            w[i] -= o->learning_rate * share * decay * w[i];
            w[i] -= o->learning_rate * share * change;
        }
    }
}

static void compare(const trainer *self, const tuff_optimizer_options *o)
{
    double *wanted = malloc(ELEMENTS_MAX * sizeof *wanted);
    assert_non_null(wanted);
    for (int index = 0; index < SPEC_COUNT; index++) {
        float *got = trainer_weights(self, index);
        plain_run(o, index, wanted);
        for (int64_t i = 0; i < tuff_shape_count(specs[index].shape); i++)
            if (!(fabs((double)got[i] - wanted[i]) <= 2e-6 * (fabs(wanted[i]) + 0.5)))
                fail_msg("%s[%lld] is %.9g, not %.9g", specs[index].name, (long long)i, (double)got[i], wanted[i]);
        free(got);
    }
    free(wanted);
}

static tuff_optimizer_options defaults(void)
{
    return (tuff_optimizer_options){.learning_rate = 0.01,
                                    .epsilon = 1e-2, /* large enough that clipping has an effect */
                                    .weight_decay = 0.1,
                                    .decay_all = true,
                                    .clip_norm = 5,
                                    .clip_value = 0.15,
                                    .tensor_norms = true,
                                    .groups = groups,
                                    .group_count = 3};
}

static void check_norms(trainer *self, int round)
{
    float tensors[SPEC_COUNT], of_groups[3];
    tuff_plan *plan = self->plan;
    const tuff_optimizer_options options = defaults();
    assert_int_equal(tuff_plan_read(plan, "tensor_norms", tensors, sizeof tensors), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "group_norms", of_groups, sizeof of_groups), TUFF_OK);
    for (int i = 0; i < SPEC_COUNT; i++) {
        const double wanted = group_of(i) == 2 ? 0 : sqrt(square_norm(i, round));
        assert_true(fabs((double)tensors[i] - wanted) <= 1e-5 * wanted);
    }
    for (int i = 0; i < 3; i++) {
        const double wanted = i == 2 ? 0 : group_norm(i, round);
        assert_true(fabs((double)of_groups[i] - wanted) <= 1e-5 * wanted);
    }
    const double norm = plain_clip(&options, round).norm;
    assert_true(fabs((double)trainer_float(self, "norm") - norm) <= 1e-5 * norm);
}

static trainer make(tuff_device *device, const tuff_optimizer_options *options, int64_t slab_limit)
{
    const trainer_options with = {
        .optimizer = options, .patterns = patterns, .pattern_count = 2, .slab_limit = slab_limit};
    return trainer_make(device, specs, SPEC_COUNT, &with);
}

static void check_groups(tuff_device *device)
{
    const tuff_optimizer_options options = defaults();
    trainer self = make(device, &options, 0);
    assert_int_equal(self.parameters->slab_count, 1);
    assert_int_equal(self.optimizer->slab_range_count, 1); /* one range for all groups: one dispatch */
    for (int round = 0; round < STEPS; round++) {
        trainer_step(&self, round);
        check_norms(&self, round);
    }
    compare(&self, &options);
    trainer_drop(&self);
}

/* An optimizer without groups ignores the parameters' groups. */
static void check_plain(tuff_device *device)
{
    tuff_optimizer_options options = defaults();
    options.groups = NULL;
    options.group_count = 0;
    options.clip_norm = options.clip_value = 0;
    options.tensor_norms = false;
    trainer self = make(device, &options, 0);
    for (int round = 0; round < STEPS; round++)
        trainer_step(&self, round);
    compare(&self, &options);
    trainer_drop(&self);
}

/* Limits slabs as on a device that binds at most 2048 elements. */
static void check_slabs(tuff_device *device)
{
    const tuff_optimizer_options options = defaults();
    const char *path = scratch_path("slabs");
    trainer small = make(device, &options, 2048), whole = make(device, &options, 0);
    assert_true(small.parameters->slab_count > 1);
    for (int i = 0; i < small.parameters->slab_count; i++)
        assert_true(small.parameters->slabs[i].total <= 2048);
    for (int round = 0; round < STEPS; round++) {
        trainer_step(&small, round);
        check_norms(&small, round);
    }
    compare(&small, &options);
    assert_int_equal(tuff_checkpoint_save(path, small.parameters, small.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, whole.parameters, whole.optimizer), TUFF_OK);
    for (int i = 0; i < SPEC_COUNT; i++) {
        float *a = trainer_weights(&small, i), *b = trainer_weights(&whole, i);
        assert_memory_equal(a, b, (size_t)tuff_shape_count(specs[i].shape) * sizeof *a);
        free(a);
        free(b);
    }
    trainer_drop(&small);
    trainer_drop(&whole);
}

/* Every rule updates every parameter that is not frozen, in all slabs, and no other. */
static void check_rules_in_slabs(tuff_device *device)
{
    for (int kind = 0; kind < TUFF_OPTIMIZER_COUNT; kind++) {
        if (!tuff__device_is_reference(device) && !is_one_of_two_drawn(device, kind))
            continue;
        const tuff_optimizer_options options = {
            .kind = (tuff_optimizer_kind)kind, .learning_rate = 0.01, .groups = groups, .group_count = 3};
        trainer small = make(device, &options, 2048), whole = make(device, &options, 0);
        for (int round = 0; round < 3; round++) { /* an even number of sign steps could cancel out */
            trainer_step(&small, round);
            trainer_step(&whole, round);
        }
        for (int index = 0; index < SPEC_COUNT; index++) {
            float *a = trainer_weights(&small, index), *b = trainer_weights(&whole, index);
            const int64_t count = tuff_shape_count(specs[index].shape);
            int64_t moved = 0; /* a step may be smaller than an element's last bit */
            for (int64_t i = 0; i < count; i++) {
                assert_true(fabsf(a[i] - b[i]) <= 2e-5F);
                moved += b[i] != (float)trainer_value(index, i, 0);
            }
            if (group_of(index) == 2 ? moved > 0 : 2 * moved <= count)
                fail_msg("rule %d moves %lld of %lld elements of %s", kind, (long long)moved, (long long)count,
                         specs[index].name);
            free(a);
            free(b);
        }
        trainer_drop(&small);
        trainer_drop(&whole);
    }
}

/* Counts the launches that write a parameter, a moment or an average. */
static int count_updates(const trainer *self)
{
    enum { ARRAYS_MAX = 64 };
    tuff_array *arrays[ARRAYS_MAX];
    int count = 0;
    for (int i = 0; i < self->optimizer->slab_range_count; i++) {
        const slab_range *of = &self->optimizer->slab_ranges[i];
        assert_true(count + MOMENTS_MAX + 2 <= ARRAYS_MAX);
        arrays[count++] = of->weights;
        arrays[count++] = of->average;
        for (int k = 0; k < MOMENTS_MAX; k++)
            arrays[count++] = of->moments[k];
    }
    return trainer_count_writers(self->plan, arrays, count);
}

/* Counts the slabs with parameters that are not frozen. */
static int trained_slabs(const trainer *self)
{
    int count = 0;
    for (int i = 0; i < self->parameters->slab_count; i++)
        count += self->optimizer->gradient_ranges[i].end > self->optimizer->gradient_ranges[i].begin;
    return count;
}

/* The elementwise part of a rule is one dispatch per slab, whatever options are set. */
static void count_dispatches(tuff_device *device)
{
    static const tuff_optimizer_kind kinds[] = {TUFF_ADAMW, TUFF_SGD, TUFF_ADAM, TUFF_LION};
    const tuff_loss_scaling scaling = {.initial = 256};
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        const bool everything = i % 2 == 1;
        tuff_optimizer_options options = {.kind = kinds[i / 2], .learning_rate = 0.01};
        if (everything) {
            options = defaults();
            options.kind = kinds[i / 2];
            options.epsilon = 0;
            options.average_decay = 0.9;
            options.loss_scaling = &scaling;
        }
        options.momentum = options.kind == TUFF_SGD ? 0.9 : 0;
        for (int64_t limit = 0; limit <= 2048; limit += 2048) {
            trainer self = make(device, &options, limit);
            const int slabs = trained_slabs(&self), updates = count_updates(&self);
            assert_true((limit == 0) == (slabs == 1));
            if (updates != slabs)
                fail_msg("rule %d%s: %d dispatches for %d slabs", (int)options.kind,
                         everything ? " with everything on" : "", updates, slabs);
            trainer_drop(&self);
        }
    }
}

/* Nothing is compiled: the device is described as itself, and as a GPU. */
static void check_dispatches(tuff_device *device)
{
    const tuff_device_info own = *tuff__device_info(device);
    tuff__device_override_info(device, &own);
    count_dispatches(device);
    describe_as_gpu(device);
    count_dispatches(device);
}

static void check_refusals(tuff_device *device)
{
    const char *const nothing[] = {"none"}, *const two[] = {"*.bias", "*.weight"};
    assert_null(tuff_parameters_create_grouped(device, specs, SPEC_COUNT, nothing, 1));
    assert_non_null(strstr(tuff_error(), "no name matches the pattern \"none\""));
    assert_null(tuff_parameters_create_grouped(device, specs, SPEC_COUNT, NULL, 2));
    assert_null(tuff_parameters_create_grouped(device, specs, SPEC_COUNT, two, TUFF_MAX_GROUPS));
    assert_null(tuff__parameters_create(device, specs, SPEC_COUNT, NULL, 0, 1024));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_error(), "\"b.weight\" [3,601]"));
    tuff_parameters *parameters = tuff_parameters_create_grouped(device, specs, SPEC_COUNT, two, 2);
    const tuff_parameter_group all_frozen[] = {{.frozen = true}, {.frozen = true}, {.frozen = true}, {.frozen = false}};
    const tuff_optimizer_options wrong[] = {{.groups = all_frozen, .group_count = 3},
                                            {.groups = all_frozen, .group_count = 4},
                                            {.group_count = 1},
                                            {.groups = &(tuff_parameter_group){.rate_factor = -1}, .group_count = 1},
                                            {.groups = &(tuff_parameter_group){.clip_norm = NAN}, .group_count = 1},
                                            {.clip_value = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(tuff_optimizer_create(parameters, &wrong[i]));
        assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    }
    tuff_parameters_destroy(parameters);
}

static void groups_have_rates_decays_and_norms_of_their_own(void **state)
{
    (void)state;
    for_drawn_devices(check_groups);
}

static void an_optimizer_without_groups_treats_all_alike(void **state)
{
    (void)state;
    for_drawn_devices(check_plain);
}

static void several_slabs_are_as_good_as_one(void **state)
{
    (void)state;
    for_drawn_devices(check_slabs);
}

static void every_rule_takes_several_slabs(void **state)
{
    (void)state;
    for_each_device(check_rules_in_slabs);
}

static void elementwise_rules_take_one_dispatch_a_slab(void **state)
{
    (void)state;
    for_drawn_drivers(check_dispatches);
}

static void wrong_groups_are_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_rules_take_one_dispatch_a_slab),
        cmocka_unit_test(groups_have_rates_decays_and_norms_of_their_own),
        cmocka_unit_test(an_optimizer_without_groups_treats_all_alike),
        cmocka_unit_test_setup_teardown(several_slabs_are_as_good_as_one, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(every_rule_takes_several_slabs),
        cmocka_unit_test(wrong_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
