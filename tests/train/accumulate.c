/* Gradient accumulation, averages of weights, and schedules, on every device found, against plain C in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "scratch_folder.h"
#include "train_fixture.h"

static const tuff_parameter_spec specs[] = {
    {"bias", {.rank = 1, .extent = {7}}}, {"weight", {.rank = 2, .extent = {31, 43}}}, {"scale", {.rank = 0}}};
enum { SPEC_COUNT = sizeof specs / sizeof *specs, PARTS = 3, STEPS = 4 };
static const double decay = 0.75;

static tuff_optimizer_options defaults(const tuff_loss_scaling *scaling)
{
    return (tuff_optimizer_options){.kind = TUFF_SGD,
                                    .learning_rate = 0.1,
                                    .momentum = 0.9,
                                    .accumulate = PARTS,
                                    .average_decay = decay,
                                    .loss_scaling = scaling};
}

static trainer make(tuff_device *device, const tuff_optimizer_options *options)
{
    return trainer_make(device, specs, SPEC_COUNT, &(trainer_options){.optimizer = options});
}

/* Computes an element and its average after so many steps. */
static void plain_run(int index, int64_t at, int steps, double *w, double *average)
{
    double m = 0;
    *w = (double)(float)trainer_value(index, at, 0);
    for (int step = 0; step < steps; step++) {
        double g = 0;
        for (int part = 0; part < PARTS; part++)
            g += trainer_value(index, at, step * PARTS + part + 1) / PARTS;
        m = 0.9 * m + g;
        *w -= 0.1 * m;
        *average = step == 0 ? *w : decay * *average + (1 - decay) * *w;
    }
}

static void compare(trainer *self, int steps)
{
    for (int index = 0; index < SPEC_COUNT; index++) {
        const int64_t count = tuff_shape_count(specs[index].shape);
        const size_t size = (size_t)count * sizeof(float);
        float *weights = trainer_weights(self, index), *averages = malloc(size);
        assert_non_null(averages);
        tuff_array *array = tuff_optimizer_average(self->optimizer, index);
        assert_true(tuff_shape_equal(tuff_array_shape(array), specs[index].shape));
        assert_int_equal(tuff_array_read(array, averages, size), TUFF_OK);
        for (int64_t i = 0; i < count; i++) {
            double w, average = 0;
            plain_run(index, i, steps, &w, &average);
            assert_true(fabs((double)weights[i] - w) <= 2e-6 * (fabs(w) + 0.5));
            assert_true(fabs((double)averages[i] - average) <= 2e-6 * (fabs(average) + 0.5));
        }
        free(weights);
        free(averages);
    }
    assert_null(tuff_optimizer_average(self->optimizer, SPEC_COUNT));
}

static int32_t read_count(tuff_array *array)
{
    int32_t count;
    assert_int_equal(tuff_array_read(array, &count, sizeof count), TUFF_OK);
    return count;
}

/* Returns the loss sum(w · g) before the step. */
static double plain_loss(int step)
{
    double sum = 0;
    for (int index = 0; index < SPEC_COUNT; index++)
        for (int64_t i = 0; i < tuff_shape_count(specs[index].shape); i++) {
            double w, average = 0;
            plain_run(index, i, step, &w, &average);
            for (int part = 0; part < PARTS; part++)
                sum += w * trainer_value(index, i, step * PARTS + part + 1) / PARTS;
        }
    return sum;
}

static void check_means(tuff_device *device)
{
    const tuff_optimizer_options options = defaults(NULL);
    trainer self = make(device, &options);
    for (int step = 0; step < STEPS; step++) {
        trainer_step(&self, step);
        assert_true(fabs((double)trainer_float(&self, "loss") - plain_loss(step)) <= 1e-3);
    }
    compare(&self, STEPS);
    assert_int_equal(read_count(tuff_optimizer_counter(self.optimizer)), STEPS);
    assert_int_equal(read_count(tuff_optimizer_batch_counter(self.optimizer)), STEPS * PARTS);
    trainer_drop(&self);
}

/* A part that overflows makes its whole step be skipped, and does not affect the next step. */
static void check_skips(tuff_device *device)
{
    const tuff_loss_scaling scaling = {.initial = 256};
    const tuff_optimizer_options options = defaults(&scaling);
    trainer self = make(device, &options);
    const float bad = INFINITY;
    trainer_step(&self, 0);
    for (int part = 0; part < PARTS; part++) {
        trainer_write_gradients(&self, part);
        if (part == 1)
            assert_int_equal(tuff_plan_write(self.plan, "scale", &bad, sizeof bad), TUFF_OK);
        assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    }
    assert_int_equal(tuff_plan_run(self.update), TUFF_OK);
    assert_true(trainer_float(&self, "scale") == 128);
    compare(&self, 1);
    trainer_step(&self, 1);
    compare(&self, 2);
    assert_int_equal(read_count(tuff_optimizer_counter(self.optimizer)), 2);
    assert_int_equal(read_count(tuff_optimizer_batch_counter(self.optimizer)), 3 * PARTS);
    trainer_drop(&self);
}

static void check_checkpoint(tuff_device *device)
{
    const char *path = scratch_path("accumulated");
    const tuff_optimizer_options options = defaults(&(tuff_loss_scaling){0});
    trainer whole = make(device, &options), rest = make(device, &options);
    trainer_step(&whole, 0);
    trainer_write_gradients(&whole, 5);
    assert_int_equal(tuff_checkpoint_save(path, whole.parameters, whole.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_plan_run(whole.plan), TUFF_OK);
    assert_int_equal(tuff_checkpoint_save(path, whole.parameters, whole.optimizer, NULL, NULL, 0), TUFF_E_USAGE);
    assert_int_equal(tuff_checkpoint_load(path, whole.parameters, whole.optimizer), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(path, rest.parameters, rest.optimizer), TUFF_OK);
    for (int step = 1; step < STEPS; step++) {
        trainer_step(&whole, step);
        trainer_step(&rest, step);
    }
    assert_true(trainer_same_bits(&whole, &rest, false));
    compare(&rest, STEPS);
    trainer_drop(&whole);
    trainer_drop(&rest);
}

/* A checkpoint can be loaded into an optimizer with another number of parts only between whole steps. */
static void check_other_parts(tuff_device *device)
{
    const char *path = scratch_path("other");
    tuff_optimizer_options options = defaults(NULL);
    trainer whole = make(device, &options);
    options.accumulate = 2;
    trainer other = make(device, &options);
    for (int step = 0; step < 2; step++) {
        trainer_step(&whole, step);
        assert_int_equal(tuff_checkpoint_save(path, whole.parameters, whole.optimizer, NULL, NULL, 0), TUFF_OK);
        assert_int_equal(tuff_checkpoint_load(path, other.parameters, other.optimizer),
                         step == 0 ? TUFF_E_USAGE : TUFF_OK);
        assert_int_equal(read_count(tuff_optimizer_batch_counter(other.optimizer)), step * 2 * PARTS);
    }
    assert_true(trainer_same_bits(&whole, &other, false));
    trainer_drop(&whole);
    trainer_drop(&other);
}

/* Gets the arrays that accumulate gradients, NULL for a slab without one. */
static int accumulated(const trainer *self, tuff_array **arrays, int most)
{
    const int count = self->parameters->slab_count;
    assert_true(count <= most);
    for (int i = 0; i < count; i++)
        arrays[i] = self->optimizer->gradient_ranges[i].accumulated;
    return count;
}

/* The old content of the accumulators, here NaN, does not affect a step, and no launch clears them: each part writes a
   slab's accumulator in one launch, and the update in none. */
static void check_first_part(tuff_device *device)
{
    const tuff_optimizer_options options = defaults(NULL);
    tuff_array *arrays[4];
    trainer self = make(device, &options);
    const int count = accumulated(&self, arrays, 4);
    if (!tuff__device_is_reference(device)) {
        assert_int_equal(trainer_count_writers(self.plan, arrays, count), count);
        assert_int_equal(trainer_count_writers(self.update, arrays, count), 0);
    }
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < count; i++) {
            const size_t size = (size_t)tuff_array_size(arrays[i]);
            unsigned char *bits = malloc(size);
            assert_non_null(bits);
            memset(bits, 0xff, size);
            assert_int_equal(tuff_array_write(arrays[i], bits, size), TUFF_OK);
            free(bits);
        }
        trainer_step(&self, step);
    }
    compare(&self, 2);
    trainer_drop(&self);
}

/* i: index of the parameter, for messages. */
static void expect_same(tuff_array *got, tuff_array *wanted, int i)
{
    float expected[31 * 43], read[31 * 43];
    const size_t size = (size_t)tuff_shape_count(specs[i].shape) * sizeof(float);
    assert_int_equal(tuff_array_read(wanted, expected, size), TUFF_OK);
    assert_int_equal(tuff_array_read(got, read, size), TUFF_OK);
    assert_memory_equal(read, expected, size);
}

/* Averages can be loaded as parameters; a frozen parameter has no average and is loaded itself. */
static void check_averages_load(tuff_device *device)
{
    static const char *const patterns[] = {"bias"};
    const char *path = scratch_path("averaged");
    const tuff_parameter_group groups[] = {{0}, {.frozen = true}};
    tuff_optimizer_options options = defaults(NULL);
    options.groups = groups;
    options.group_count = 2;
    trainer averaged = trainer_make(
        device, specs, SPEC_COUNT, &(trainer_options){.optimizer = &options, .patterns = patterns, .pattern_count = 1});
    tuff_parameters *loaded = tuff_parameters_create(device, specs, SPEC_COUNT);
    /* Before the first step there is no average: the parameters are saved instead. */
    assert_int_equal(tuff_checkpoint_save(path, averaged.parameters, averaged.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load_average(path, loaded), TUFF_OK);
    for (int i = 0; i < SPEC_COUNT; i++)
        expect_same(tuff_parameters_at(loaded, i, NULL), tuff_parameters_at(averaged.parameters, i, NULL), i);
    trainer_step(&averaged, 0);
    trainer_step(&averaged, 1);
    assert_int_equal(tuff_checkpoint_save(path, averaged.parameters, averaged.optimizer, NULL, NULL, 0), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load_average(path, loaded), TUFF_OK);
    for (int i = 0; i < SPEC_COUNT; i++) {
        tuff_array *average = tuff_optimizer_average(averaged.optimizer, i);
        assert_true((average == NULL) == (i == 0));
        expect_same(tuff_parameters_at(loaded, i, NULL),
                    average ? average : tuff_parameters_at(averaged.parameters, i, NULL), i);
    }
    assert_int_equal(tuff_checkpoint_save(path, averaged.parameters, NULL, NULL, NULL, 0), TUFF_OK);
    const uint64_t version = tuff_array_version(tuff_parameters_at(loaded, 0, NULL));
    assert_int_equal(tuff_checkpoint_load_average(path, loaded), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "has no averages"));
    assert_int_equal(tuff_array_version(tuff_parameters_at(loaded, 0, NULL)), version);
    trainer_drop(&averaged);
    tuff_parameters_destroy(loaded);
}

static void count_warnings(void *user, tuff_log_level level, const char *message)
{
    *(int *)user += level == TUFF_LOG_WARNING && strstr(message, "counts no batches") != NULL;
}

/* An optimizer that counts no batches says that those of the saved run are lost. */
static void check_lost_batches(tuff_device *device)
{
    const char *path = scratch_path("lost");
    tuff_optimizer_options options = defaults(NULL);
    trainer whole = make(device, &options);
    int warnings = 0;
    trainer_step(&whole, 0);
    assert_int_equal(tuff_checkpoint_save(path, whole.parameters, whole.optimizer, NULL, NULL, 0), TUFF_OK);
    options.accumulate = 0;
    tuff_optimizer *plain = tuff_optimizer_create(whole.parameters, &options);
    tuff_set_log(count_warnings, &warnings);
    assert_int_equal(tuff_checkpoint_load(path, whole.parameters, whole.optimizer), TUFF_OK);
    assert_int_equal(warnings, 0);
    assert_int_equal(tuff_checkpoint_load(path, whole.parameters, plain), TUFF_OK);
    assert_int_equal(warnings, 1);
    tuff_set_log(NULL, NULL);
    assert_int_equal(read_count(tuff_optimizer_batch_counter(plain)), 1);
    tuff_optimizer_destroy(plain);
    trainer_drop(&whole);
}

static void lost_batches_are_reported(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    check_lost_batches(device);
    tuff_device_close(device);
}

static void check_refusals(tuff_device *device)
{
    tuff_parameters *parameters = tuff_parameters_create(device, specs, SPEC_COUNT);
    tuff_optimizer *parts = tuff_optimizer_create(parameters, &(tuff_optimizer_options){.accumulate = 2});
    tuff_optimizer *plain = tuff_optimizer_create(parameters, NULL);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *loss = tuff_constant(graph, TUFF_F32, 1);
    assert_int_equal(tuff_optimizer_apply(parts, loss, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_optimizer_accumulate(plain, loss), TUFF_E_USAGE);
    assert_int_equal(tuff_optimizer_update(plain, graph, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_optimizer_update(parts, NULL, NULL), TUFF_E_USAGE);
    assert_null(tuff_optimizer_create(parameters, &(tuff_optimizer_options){.accumulate = -1}));
    assert_null(tuff_optimizer_create(parameters, &(tuff_optimizer_options){.average_decay = 1}));
    assert_null(tuff_optimizer_average(plain, 0));
    assert_null(tuff_optimizer_rate(plain));
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(parts);
    tuff_optimizer_destroy(plain);
    tuff_parameters_destroy(parameters);
}

static void steps_of_parts_take_the_mean_and_averages_follow(void **state)
{
    (void)state;
    for_drawn_devices(check_means);
}

static void the_first_part_writes_and_nothing_clears(void **state)
{
    (void)state;
    for_drawn_devices(check_first_part);
}

static void a_part_that_overflows_skips_its_step(void **state)
{
    (void)state;
    for_drawn_devices(check_skips);
}

static void checkpoints_are_written_between_steps(void **state)
{
    (void)state;
    for_drawn_devices(check_checkpoint);
}

static void another_number_of_parts_goes_on_at_a_whole_step(void **state)
{
    (void)state;
    for_drawn_devices(check_other_parts);
}

static void averages_are_loaded_as_parameters(void **state)
{
    (void)state;
    for_drawn_drivers(check_averages_load);
}

static void the_wrong_function_is_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_parts_take_the_mean_and_averages_follow),
        cmocka_unit_test(the_first_part_writes_and_nothing_clears),
        cmocka_unit_test(a_part_that_overflows_skips_its_step),
        cmocka_unit_test_setup_teardown(checkpoints_are_written_between_steps, scratch_folder_make,
                                        scratch_folder_remove),
        cmocka_unit_test_setup_teardown(another_number_of_parts_goes_on_at_a_whole_step, scratch_folder_make,
                                        scratch_folder_remove),
        cmocka_unit_test_setup_teardown(averages_are_loaded_as_parameters, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(lost_batches_are_reported, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(the_wrong_function_is_refused),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
