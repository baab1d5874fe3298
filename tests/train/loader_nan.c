/* NaN in a loader's data, on every device found: with loss scaling the step is skipped and the training goes on, until
   there are too many; without it the report of the step shows the NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

enum { WIDTH = 5, BATCH = 4, SAMPLES = 400 };

/* The samples from first_bad on have a NaN in one of their numbers. */
typedef struct source {
    int64_t first_bad, last_bad;
} source;

static tuff_status fill(void *user, tuff_sample *sample)
{
    const source *self = user;
    float *row = sample->data[0];
    for (int i = 0; i < WIDTH; i++)
        row[i] = (float)((sample->index * 7 + i * 3) % 11 - 5) * 0.125F;
    if (sample->index >= self->first_bad && sample->index <= self->last_bad)
        row[sample->index % WIDTH] = NAN;
    return TUFF_OK;
}

typedef struct run {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
    tuff_loader *loader;
} run;

static tuff_plan *compile(tuff_device *device, const run *self)
{
    const int axis = 1, first = 0;
    tuff_optimizer_tensors made;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_graph_step(graph, tuff_optimizer_batch_counter(self->optimizer));
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(BATCH, WIDTH));
    tuff_tensor *w = tuff_array_tensor(graph, tuff_parameters_at(self->parameters, 0, NULL));
    tuff_tensor *off = tuff_sub(tuff_sum(tuff_mul(x, w), &axis, 1, false), tuff_constant(graph, TUFF_F32, 1));
    tuff_tensor *loss = tuff_mean(tuff_mul(off, off), &first, 1, false);
    assert_int_equal(tuff_optimizer_apply(self->optimizer, loss, &made), TUFF_OK);
    tuff_output(graph, "loss", loss);
    tuff_output(graph, "norm", made.gradient_norm);
    tuff_output(graph, "skipped", made.skipped);
    tuff_output(graph, "scale", made.loss_scale);
    tuff_plan *plan = tuff_compile(graph, NULL);
    tuff_graph_destroy(graph);
    return plan;
}

static run make(tuff_device *device, source *from, const tuff_loss_scaling *scaling)
{
    const tuff_parameter_spec spec = {"w", {.rank = 1, .extent = {WIDTH}}};
    const tuff_field field = {.name = "x", .dtype = TUFF_F32, .shape = {.rank = 1, .extent = {WIDTH}}};
    const tuff_optimizer_options options = {.learning_rate = 0.01, .clip_norm = 1, .loss_scaling = scaling};
    run self = {.parameters = tuff_parameters_create(device, &spec, 1)};
    self.optimizer = tuff_optimizer_create(self.parameters, &options);
    self.loader = tuff_loader_create(device, &(tuff_loader_options){.fields = &field,
                                                                    .field_count = 1,
                                                                    .batch_size = BATCH,
                                                                    .sample_count = SAMPLES,
                                                                    .workers = 2,
                                                                    .sample = fill,
                                                                    .user = from});
    self.plan = self.loader && self.optimizer ? compile(device, &self) : NULL;
    if (!self.plan)
        fail_msg("%s", tuff_error());
    return self;
}

static void drop(run *self)
{
    (void)tuff_loader_destroy(self->loader);
    tuff_plan_destroy(self->plan);
    tuff_optimizer_destroy(self->optimizer);
    tuff_parameters_destroy(self->parameters);
}

static void take_steps(run *self, int steps)
{
    for (int i = 0; i < steps; i++) {
        assert_int_equal(tuff_loader_next(self->loader, self->plan, NULL), TUFF_OK);
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
    }
}

static float read_float(run *self, const char *name)
{
    float value;
    assert_int_equal(tuff_plan_read(self->plan, name, &value, sizeof value), TUFF_OK);
    return value;
}

static int32_t skipped(run *self)
{
    int32_t value;
    assert_int_equal(tuff_plan_read(self->plan, "skipped", &value, sizeof value), TUFF_OK);
    return value;
}

static void read_weights(run *self, float out[WIDTH])
{
    assert_int_equal(tuff_array_read(tuff_parameters_at(self->parameters, 0, NULL), out, WIDTH * sizeof *out), TUFF_OK);
}

static void check_scaled(tuff_device *device)
{
    source from = {3 * BATCH + 1, 3 * BATCH + 1};
    run self = make(device, &from, &(tuff_loss_scaling){0});
    float before[WIDTH], after[WIDTH];
    take_steps(&self, 3);
    read_weights(&self, before);
    assert_true(isfinite(read_float(&self, "loss")) && read_float(&self, "scale") == 0x1p16F);
    take_steps(&self, 1);
    read_weights(&self, after);
    assert_memory_equal(before, after, sizeof before);
    assert_true(isnan(read_float(&self, "loss")) && read_float(&self, "scale") == 0x1p15F);
    assert_int_equal(skipped(&self), 1);
    assert_int_equal(tuff_optimizer_check(self.optimizer), TUFF_OK);
    take_steps(&self, 1);
    read_weights(&self, after);
    assert_true(isfinite(read_float(&self, "loss")) && memcmp(before, after, sizeof before) != 0);
    assert_int_equal(skipped(&self), 1);
    drop(&self);
}

/* If all data are bad, a lower scale does not help: the error says where to look. */
static void check_all_bad(tuff_device *device)
{
    source from = {2 * BATCH, SAMPLES};
    run self = make(device, &from, &(tuff_loss_scaling){0});
    float before[WIDTH], after[WIDTH];
    take_steps(&self, 2);
    read_weights(&self, before);
    take_steps(&self, 32);
    assert_int_equal(tuff_optimizer_check(self.optimizer), TUFF_E_NUMERIC);
    assert_non_null(strstr(tuff_error(), "look for NaN in the data"));
    read_weights(&self, after);
    assert_memory_equal(before, after, sizeof before);
    drop(&self);
}

static void check_plain(tuff_device *device)
{
    source from = {3 * BATCH + 1, 3 * BATCH + 1};
    run self = make(device, &from, NULL);
    float weights[WIDTH];
    take_steps(&self, 3);
    read_weights(&self, weights);
    assert_true(isfinite(read_float(&self, "loss")) && isfinite(read_float(&self, "norm")) && isfinite(weights[0]));
    take_steps(&self, 1);
    assert_true(isnan(read_float(&self, "loss")) && isnan(read_float(&self, "norm")));
    assert_int_equal(skipped(&self), 0);
    take_steps(&self, 1); /* the weights stay NaN, so that later reports show it, too */
    assert_true(isnan(read_float(&self, "loss")));
    drop(&self);
}

static void with_scaling_the_step_is_skipped(void **state)
{
    (void)state;
    for_drawn_devices(check_scaled);
}

static void with_scaling_too_many_are_an_error_that_names_the_data(void **state)
{
    (void)state;
    for_drawn_devices(check_all_bad);
}

static void without_scaling_loss_and_norm_tell(void **state)
{
    (void)state;
    for_drawn_devices(check_plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_scaling_the_step_is_skipped),
        cmocka_unit_test(with_scaling_too_many_are_an_error_that_names_the_data),
        cmocka_unit_test(without_scaling_loss_and_norm_tell),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
