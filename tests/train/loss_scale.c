/* Loss scaling on every device found: what makes a step be skipped, what a skipped step changes, and how the scale
   changes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "scratch_folder.h"
#include "train_fixture.h"

/* More than a chunk of a slab, a vector, a scalar, an empty one, and a matrix of one tile plus a row. */
static const tuff_parameter_spec specs[] = {
    {"bias", {.rank = 1, .extent = {7}}},          {"weight", {.rank = 2, .extent = {17, 5}}},
    {"empty", {.rank = 2, .extent = {0, 3}}},      {"scale", {.rank = 0}},
    {"kernel", {.rank = 3, .extent = {3, 5, 70}}},
};
enum { SPEC_COUNT = sizeof specs / sizeof *specs };

static trainer make(tuff_device *device, tuff_optimizer_kind kind, const tuff_loss_scaling *scaling)
{
    const tuff_optimizer_options options = {.kind = kind,
                                            .learning_rate = 0.01,
                                            .momentum = 0.9,
                                            .weight_decay = 0.1,
                                            .clip_norm = 1,
                                            .warmup_steps = 2,
                                            .total_steps = 40,
                                            .average_decay = 0.5,
                                            .loss_scaling = scaling};
    return trainer_make(device, specs, SPEC_COUNT, &(trainer_options){.optimizer = &options});
}

static void set_scale(trainer *self, float scale)
{
    assert_int_equal(tuff_array_write(self->optimizer->scale, &scale, sizeof scale), TUFF_OK);
}

/* Returns an infinity or a NaN: infinities of either sign, NaNs of different payloads. */
static float not_finite(int64_t draw)
{
    static const uint32_t kinds[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7fffffffu};
    float value;
    memcpy(&value, &kinds[draw % 5], sizeof value);
    return value;
}

/* Tries one at every position of a gradient. */
static void plant_in(trainer *self, int index, const char *before, size_t size)
{
    const int64_t count = tuff_shape_count(specs[index].shape);
    float *gradient = malloc((size_t)count * sizeof *gradient + 1);
    assert_non_null(gradient);
    for (int64_t at = 0; at < count; at++) {
        for (int64_t i = 0; i < count; i++)
            gradient[i] = i == at ? not_finite(at + index) : (float)trainer_value(index, i, 9);
        set_scale(self, 1024);
        assert_int_equal(tuff_plan_write(self->plan, specs[index].name, gradient, (size_t)count * sizeof *gradient),
                         TUFF_OK);
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
        size_t now_size;
        char *now = trainer_bits(self, true, &now_size);
        if (now_size != size || memcmp(now, before, size) != 0)
            fail_msg("%s[%lld]: the state changed", specs[index].name, (long long)at);
        free(now);
        if (trainer_float(self, "scale") != 512)
            fail_msg("%s[%lld]: unexpected loss scale %g", specs[index].name, (long long)at,
                     (double)trainer_float(self, "scale"));
    }
    free(gradient);
    trainer_write_gradients(self, 3);
}

static void check_positions(tuff_device *device)
{
    trainer self = make(device, TUFF_ADAMW, &(tuff_loss_scaling){0});
    size_t size;
    int64_t positions = 0;
    int32_t counts[3], done;
    for (int round = 0; round < 3; round++)
        trainer_step(&self, round);
    char *before = trainer_bits(&self, true, &size);
    trainer_write_gradients(&self, 3);
    for (int i = 0; i < SPEC_COUNT; i++) {
        plant_in(&self, i, before, size);
        positions += tuff_shape_count(specs[i].shape);
    }
    assert_int_equal(tuff_array_read(self.optimizer->scale_counts, counts, sizeof counts), TUFF_OK);
    assert_int_equal(counts[1], positions);
    assert_int_equal(tuff_array_read(tuff_optimizer_counter(self.optimizer), &done, sizeof done), TUFF_OK);
    assert_int_equal(done, 3);
    assert_int_equal(tuff_array_read(tuff_optimizer_batch_counter(self.optimizer), &done, sizeof done), TUFF_OK);
    assert_int_equal(done, 3 + positions);
    assert_int_equal(tuff_plan_run(self.plan), TUFF_OK); /* the next good step updates the parameters */
    char *after = trainer_bits(&self, true, &size);
    assert_true(memcmp(before, after, size) != 0);
    free(before);
    free(after);
    trainer_drop(&self);
}

/* Every slab is checked. */
static void check_slabs(tuff_device *device)
{
    const tuff_optimizer_options options = {.kind = TUFF_SGD, .loss_scaling = &(tuff_loss_scaling){0}};
    const tuff_parameter_spec each[] = {
        {"first", TUFF_SHAPE(700)}, {"second", TUFF_SHAPE(800)}, {"third", TUFF_SHAPE(900)}};
    trainer self = trainer_make(device, each, 3, &(trainer_options){.optimizer = &options, .slab_limit = 1024});
    assert_int_equal(self.parameters->slab_count, 3);
    for (int i = 0; i < 3; i++) {
        float gradient[900] = {[699] = INFINITY};
        trainer_write_gradients(&self, 0);
        assert_int_equal(tuff_plan_write(self.plan, each[i].name, gradient,
                                         (size_t)tuff_shape_count(each[i].shape) * sizeof *gradient),
                         TUFF_OK);
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
        assert_int_equal(trainer_int(&self, "skipped"), i + 1);
    }
    trainer_drop(&self);
}

/* Each rule has its own state. */
static void check_rules(tuff_device *device)
{
    for (int kind = 0; kind < TUFF_OPTIMIZER_COUNT; kind++) {
        if (!tuff__device_is_reference(device) && !is_one_of_two_drawn(device, kind))
            continue;
        trainer self = make(device, (tuff_optimizer_kind)kind, &(tuff_loss_scaling){0});
        size_t size, now_size;
        trainer_step(&self, 0);
        char *before = trainer_bits(&self, true, &size);
        const float bad = INFINITY;
        trainer_write_gradients(&self, 1);
        assert_int_equal(tuff_plan_write(self.plan, "scale", &bad, sizeof bad), TUFF_OK);
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
        char *now = trainer_bits(&self, true, &now_size);
        assert_int_equal(now_size, size);
        assert_memory_equal(now, before, size);
        free(now);
        free(before);
        trainer_drop(&self);
    }
}

/* Scaling by a power of two is exact; only the order in which the norm is summed differs. */
static void check_same_as_without(tuff_device *device)
{
    trainer scaled = make(device, TUFF_ADAMW, &(tuff_loss_scaling){.interval = 3});
    trainer plain = make(device, TUFF_ADAMW, NULL);
    for (int round = 0; round < 7; round++) {
        trainer_step(&scaled, round);
        trainer_step(&plain, round);
        const float norm = trainer_float(&plain, "norm");
        assert_true(fabsf(trainer_float(&scaled, "norm") - norm) <= 1e-6F * norm);
        assert_true(trainer_float(&scaled, "rate") == trainer_float(&plain, "rate"));
    }
    assert_true(trainer_float(&scaled, "scale") == 0x1p18F);
    assert_true(trainer_float(&plain, "scale") == 1);
    for (int i = 0; i < SPEC_COUNT; i++) {
        float *a = trainer_weights(&scaled, i), *b = trainer_weights(&plain, i);
        for (int64_t at = 0; at < tuff_shape_count(specs[i].shape); at++)
            assert_true(fabsf(a[at] - b[at]) <= 1e-6F);
        free(a);
        free(b);
    }
    trainer_drop(&scaled);
    trainer_drop(&plain);
}

static void check_growth(tuff_device *device)
{
    trainer self = make(device, TUFF_SGD, &(tuff_loss_scaling){.high = 0x1.8p16});
    trainer_write_gradients(&self, 0);
    for (int step = 0; step < 1999; step++)
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    assert_true(trainer_float(&self, "scale") == 0x1p16F);
    assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    assert_true(trainer_float(&self, "scale") == 0x1.8p16F);
    trainer_drop(&self);
}

static void run_bad(trainer *self, int steps)
{
    const float bad = NAN;
    trainer_write_gradients(self, 0);
    assert_int_equal(tuff_plan_write(self->plan, "scale", &bad, sizeof bad), TUFF_OK);
    for (int step = 0; step < steps; step++)
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
}

/* The error stays until it is reported, even if a good step follows. */
static void check_limit(tuff_device *device)
{
    trainer self = make(device, TUFF_ADAMW, &(tuff_loss_scaling){.low = 4});
    run_bad(&self, 31);
    assert_int_equal(tuff_optimizer_check(self.optimizer), TUFF_OK);
    trainer_step(&self, 1);
    assert_int_equal(trainer_int(&self, "in_row"), 0);
    run_bad(&self, 32);
    assert_true(trainer_float(&self, "scale") == 4);
    trainer_step(&self, 1);
    assert_int_equal(trainer_int(&self, "in_row"), 32);
    assert_int_equal(trainer_int(&self, "skipped"), 63);
    assert_int_equal(tuff_optimizer_check(self.optimizer), TUFF_E_NUMERIC);
    assert_non_null(strstr(tuff_error(), "32 steps in a row"));
    assert_int_equal(tuff_optimizer_check(self.optimizer), TUFF_OK);
    trainer_drop(&self);
}

static void check_checkpoint(tuff_device *device)
{
    const tuff_loss_scaling scaling = {.interval = 2, .initial = 64};
    const char *path = scratch_path("scaled");
    trainer whole = make(device, TUFF_ADAMW, &scaling), rest = make(device, TUFF_ADAMW, &scaling);
    trainer plain = make(device, TUFF_ADAMW, NULL);
    trainer_step(&whole, 0);
    run_bad(&whole, 2);
    trainer_step(&whole, 1);
    assert_int_equal(tuff_checkpoint_save(path, whole.parameters, whole.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, rest.parameters, rest.optimizer), TUFF_OK);
    assert_true(trainer_same_bits(&whole, &rest, false));
    for (int round = 2; round < 6; round++) {
        trainer_step(&whole, round);
        trainer_step(&rest, round);
    }
    assert_true(trainer_same_bits(&whole, &rest, false));
    assert_true(trainer_float(&rest, "scale") == 64); /* halved twice, doubled twice */
    assert_int_equal(tuff_checkpoint_save(path, plain.parameters, plain.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, rest.parameters, rest.optimizer), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "has no tensor \"optimizer.loss_scale\""));
    assert_true(trainer_same_bits(&whole, &rest, false));
    trainer_drop(&whole);
    trainer_drop(&rest);
    trainer_drop(&plain);
}

static void check_refusals(tuff_device *device)
{
    const tuff_loss_scaling wrong[] = {{.initial = NAN}, {.initial = 1, .low = 2}, {.growth = 0.5},   {.backoff = 2},
                                       {.interval = -1}, {.skip_limit = -1},       {.high = INFINITY}};
    tuff_parameters *parameters = tuff_parameters_create(device, specs, SPEC_COUNT);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(tuff_optimizer_create(parameters, &(tuff_optimizer_options){.loss_scaling = &wrong[i]}));
        assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    }
    assert_int_equal(tuff_optimizer_check(NULL), TUFF_E_USAGE);
    tuff_parameters_destroy(parameters);
}

static void hot_path_stays_on_the_device(tuff_device *device)
{
    tuff_device_counters before, after;
    trainer self = make(device, TUFF_ADAMW, &(tuff_loss_scaling){0});
    trainer_step(&self, 0);
    assert_int_equal(tuff_plan_wait(self.plan), TUFF_OK);
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    for (int step = 0; step < 10; step++)
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.reads, before.reads);
    assert_int_equal(after.writes, before.writes);
    assert_int_equal(after.bytes_allocated, before.bytes_allocated);
    trainer_drop(&self);
}

static void one_number_that_is_none_skips_the_step_wherever_it_is(void **state)
{
    (void)state;
    for_drawn_devices(check_positions);
}

static void one_number_that_is_none_skips_the_step_in_whichever_slab(void **state)
{
    (void)state;
    for_drawn_devices(check_slabs);
}

static void a_skipped_step_leaves_the_state_of_every_rule_alone(void **state)
{
    (void)state;
    for_each_device(check_rules);
}

static void scaling_changes_a_good_step_by_rounding_only(void **state)
{
    (void)state;
    for_drawn_devices(check_same_as_without);
}

static void the_scale_grows_after_2000_good_steps_within_its_bounds(void **state)
{
    (void)state;
    for_drawn_devices(check_growth);
}

static void too_many_skipped_steps_in_a_row_are_an_error(void **state)
{
    (void)state;
    for_drawn_devices(check_limit);
}

static void a_checkpoint_holds_the_scale(void **state)
{
    (void)state;
    for_drawn_devices(check_checkpoint);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_refusals);
}

static void the_host_reads_and_allocates_nothing(void **state)
{
    (void)state;
    for_drawn_devices(hot_path_stays_on_the_device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_number_that_is_none_skips_the_step_wherever_it_is),
        cmocka_unit_test(one_number_that_is_none_skips_the_step_in_whichever_slab),
        cmocka_unit_test(a_skipped_step_leaves_the_state_of_every_rule_alone),
        cmocka_unit_test(scaling_changes_a_good_step_by_rounding_only),
        cmocka_unit_test(the_scale_grows_after_2000_good_steps_within_its_bounds),
        cmocka_unit_test(too_many_skipped_steps_in_a_row_are_an_error),
        cmocka_unit_test_setup_teardown(a_checkpoint_holds_the_scale, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(the_host_reads_and_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
