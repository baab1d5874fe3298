/* The learning rate of every step with every schedule, on every device found, against plain C in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "scratch_folder.h"
#include "train_fixture.h"

static const tuff_parameter_spec spec = {"w", {.rank = 1, .extent = {3}}};
enum { STEPS = 15 };

static double cosine(double part, double from, double to)
{
    return to + (from - to) * (1 + cos(3.141592653589793 * part)) / 2;
}

static double plain_rate(const tuff_optimizer_options *o, int steps_done)
{
    const double done = o->steps_per_epoch > 0 ? floor(steps_done / (double)o->steps_per_epoch) : steps_done;
    const double rate = o->learning_rate, warmup = (double)o->warmup_steps, total = (double)o->total_steps;
    const double part = fmin(1, (done - warmup) / (total - warmup));
    if (o->schedule == TUFF_SCHEDULE_ONE_CYCLE) {
        const double peak = warmup > 0 ? warmup : 0.3 * total;
        const double last = o->final_fraction > 0 ? o->final_fraction : 1 / 250000.0;
        return done < peak ? cosine(done / peak, rate / 25, rate)
                           : cosine(fmin(1, (done - peak) / (total - peak)), rate, rate * last);
    }
    if (done < warmup)
        return rate * (done + 1) / warmup;
    if (o->schedule == TUFF_SCHEDULE_LINEAR)
        return rate + part * rate * (o->final_fraction - 1);
    if (o->schedule == TUFF_SCHEDULE_COSINE || (o->schedule == TUFF_SCHEDULE_DEFAULT && total > 0))
        return cosine(part, rate, rate * o->final_fraction);
    return rate;
}

static trainer make(tuff_device *device, const tuff_optimizer_options *options)
{
    return trainer_make(device, &spec, 1, &(trainer_options){.optimizer = options});
}

static void check_schedule(tuff_device *device, const tuff_optimizer_options *options)
{
    trainer self = make(device, options);
    trainer_write_gradients(&self, 0);
    for (int step = 0; step < STEPS; step++) {
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
        const double got = (double)trainer_float(&self, "rate"), wanted = plain_rate(options, step);
        if (!(fabs(got - wanted) <= 2e-6 * options->learning_rate))
            fail_msg("schedule %d: the rate of step %d is %.9g, not %.9g", (int)options->schedule, step, got, wanted);
    }
    trainer_drop(&self);
}

/* Epochs begin at their exact step where f32 cannot tell steps apart. */
static void check_late_epochs(tuff_device *device)
{
    const tuff_optimizer_options options = {
        .learning_rate = 0.1, .schedule = TUFF_SCHEDULE_LINEAR, .total_steps = 100, .steps_per_epoch = 1000000};
    trainer self = make(device, &options);
    trainer_write_gradients(&self, 0);
    for (int32_t step = 33999998; step <= 34000001; step++) {
        assert_int_equal(tuff_array_write(tuff_optimizer_counter(self.optimizer), &step, sizeof step), TUFF_OK);
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
        const double got = (double)trainer_float(&self, "rate"), wanted = plain_rate(&options, step);
        if (!(fabs(got - wanted) <= 2e-6 * options.learning_rate))
            fail_msg("the rate of step %d is %.9g, not %.9g", (int)step, got, wanted);
    }
    trainer_drop(&self);
}

static void epochs_begin_on_time(void **state)
{
    (void)state;
    for_drawn_devices(check_late_epochs);
}

static void check_all(tuff_device *device)
{
    const tuff_optimizer_options all[] = {
        {.learning_rate = 0.1},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_CONSTANT, .warmup_steps = 4, .total_steps = 9},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_CONSTANT, .warmup_steps = 5, .total_steps = 4},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_LINEAR, .total_steps = 11, .final_fraction = 0.2},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_LINEAR, .warmup_steps = 3, .total_steps = 12},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_COSINE, .warmup_steps = 3, .total_steps = 12},
        {.learning_rate = 0.1, .total_steps = 12, .final_fraction = 0.5},
        {.learning_rate = 0.1, .schedule = TUFF_SCHEDULE_ONE_CYCLE, .total_steps = 13},
        {.learning_rate = 0.1,
         .schedule = TUFF_SCHEDULE_ONE_CYCLE,
         .warmup_steps = 5,
         .total_steps = 13,
         .final_fraction = 0.01},
        {.learning_rate = 0.1,
         .schedule = TUFF_SCHEDULE_LINEAR,
         .warmup_steps = 1,
         .total_steps = 4,
         .steps_per_epoch = 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_schedule(device, &all[i]);
}

/* No plan is recompiled for a new rate, and a checkpoint contains the rate that was written last. */
static void check_program(tuff_device *device)
{
    const tuff_optimizer_options options = {.kind = TUFF_SGD, .learning_rate = 0.5, .schedule = TUFF_SCHEDULE_PROGRAM};
    const char *path = scratch_path("rate");
    const float ones[3] = {1, 1, 1}, next = 0.125F;
    float rate;
    trainer self = make(device, &options), other = make(device, &options);
    assert_int_equal(tuff_plan_write(self.plan, "w", ones, sizeof ones), TUFF_OK);
    assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    assert_true(trainer_float(&self, "rate") == 0.5F);
    assert_int_equal(tuff_array_write(tuff_optimizer_rate(self.optimizer), &next, sizeof next), TUFF_OK);
    float *before = trainer_weights(&self, 0);
    assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    float *after = trainer_weights(&self, 0);
    for (int i = 0; i < 3; i++)
        assert_true(fabsf(before[i] - after[i] - next) <= 1e-6F);
    free(before);
    free(after);
    assert_int_equal(tuff_checkpoint_save(path, self.parameters, self.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, other.parameters, other.optimizer), TUFF_OK);
    assert_int_equal(tuff_array_read(tuff_optimizer_rate(other.optimizer), &rate, sizeof rate), TUFF_OK);
    assert_true(rate == next);
    /* A run with a fixed schedule may continue with rates that the program sets. */
    trainer fixed = make(device, &(tuff_optimizer_options){.kind = TUFF_SGD});
    assert_int_equal(tuff_checkpoint_save(path, fixed.parameters, fixed.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, other.parameters, other.optimizer), TUFF_OK);
    assert_int_equal(tuff_array_read(tuff_optimizer_rate(other.optimizer), &rate, sizeof rate), TUFF_OK);
    assert_true(rate == 0.5F);
    trainer_drop(&fixed);
    trainer_drop(&self);
    trainer_drop(&other);
}

static void check_refusals(tuff_device *device)
{
    const tuff_optimizer_options wrong[] = {
        {.schedule = TUFF_SCHEDULE_LINEAR},
        {.schedule = TUFF_SCHEDULE_COSINE},
        {.schedule = TUFF_SCHEDULE_ONE_CYCLE},
        {.schedule = (tuff_schedule)9},
        {.steps_per_epoch = -1},
        {.warmup_steps = 4, .total_steps = 4},
        {.total_steps = 1 << 24, .accumulate = 128},
        {.total_steps = 1 << 11, .accumulate = 1 << 10, .steps_per_epoch = 1 << 10}};
    /* The largest number of batches that can be counted, and schedules that need no end. */
    const tuff_optimizer_options right[] = {
        {.total_steps = 1 << 24, .accumulate = 127},
        {.schedule = TUFF_SCHEDULE_CONSTANT, .total_steps = 1 << 24, .accumulate = 128},
        {.schedule = TUFF_SCHEDULE_CONSTANT, .warmup_steps = 5, .total_steps = 4},
        {.schedule = TUFF_SCHEDULE_PROGRAM, .warmup_steps = 5, .total_steps = 4}};
    tuff_parameters *parameters = tuff_parameters_create(device, &spec, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(tuff_optimizer_create(parameters, &wrong[i]));
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        tuff_optimizer *made = tuff_optimizer_create(parameters, &right[i]);
        assert_non_null(made);
        tuff_optimizer_destroy(made);
    }
    tuff_parameters_destroy(parameters);
}

static void rates_follow_the_schedule(void **state)
{
    (void)state;
    for_drawn_devices(check_all);
}

static void a_program_may_write_the_rate(void **state)
{
    (void)state;
    for_drawn_devices(check_program);
}

static void schedules_without_an_end_are_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_the_schedule),
        cmocka_unit_test(epochs_begin_on_time),
        cmocka_unit_test_setup_teardown(a_program_may_write_the_rate, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(schedules_without_an_end_are_refused),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
