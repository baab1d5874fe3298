/* Running out of host memory at each allocation of a training script on the reference device: parameters, optimizer,
   graph, plan, steps, checkpoints. Each failure is reported, nothing leaks, a failed load changes nothing, and the next
   run of the script is correct. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "failing_memory.h"
#include "scratch_folder.h"
#include "tuff.h"

enum { ROWS = 3, COLUMNS = 5 };

typedef struct script {
    tuff_device *device;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
    float bias[COLUMNS]; /* after the steps */
} script;

static tuff_status made(const void *object)
{
    return object ? TUFF_OK : tuff_last_status();
}

static tuff_status make_model(script *self)
{
    const tuff_parameter_spec specs[] = {{"bias", TUFF_SHAPE(COLUMNS)}, {"weight", TUFF_SHAPE(ROWS, COLUMNS)}};
    const tuff_optimizer_options options = {.clip_norm = 1, .weight_decay = 0.1, .warmup_steps = 1, .total_steps = 4};
    self->parameters = tuff_parameters_create(self->device, specs, 2);
    TRY(made(self->parameters));
    self->optimizer = tuff_optimizer_create(self->parameters, &options);
    return made(self->optimizer);
}

static tuff_status make_plan(script *self)
{
    self->graph = tuff_graph_create(self->device);
    TRY(made(self->graph));
    tuff_tensor *weight = tuff_array_tensor(self->graph, tuff_parameters_find(self->parameters, "weight"));
    tuff_tensor *bias = tuff_array_tensor(self->graph, tuff_parameters_find(self->parameters, "bias"));
    tuff_tensor *x = tuff_input(self->graph, "x", TUFF_F32, TUFF_SHAPE(2, ROWS));
    tuff_tensor *y = tuff_linear(x, weight, bias);
    TRY(tuff_optimizer_apply(self->optimizer, tuff_mse(y, tuff_constant(self->graph, TUFF_F32, 1)), NULL));
    self->plan = tuff_compile(self->graph, NULL);
    return made(self->plan);
}

static tuff_status train(script *self)
{
    const float x[2 * ROWS] = {1, -2, 3, 0.5F, 4, -1};
    TRY(tuff_plan_write(self->plan, "x", x, sizeof x));
    TRY(tuff_plan_run(self->plan));
    TRY(tuff_plan_run(self->plan));
    return tuff_array_read(tuff_parameters_find(self->parameters, "bias"), self->bias, sizeof self->bias);
}

static tuff_status keep(script *self)
{
    const char *const keys[] = {"note"}, *const texts[] = {"memory"};
    const char *path = scratch_path("checkpoint");
    TRY(tuff_checkpoint_save(path, self->parameters, self->optimizer, keys, texts, 1));
    return tuff_checkpoint_load(path, self->parameters, self->optimizer);
}

static void clean_up(script *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_optimizer_destroy(self->optimizer);
    tuff_parameters_destroy(self->parameters);
}

static tuff_status run_script(tuff_device *device, script *self)
{
    tuff_status (*const stages[])(script *) = {make_model, make_plan, train, keep};
    tuff_status status = TUFF_OK;
    *self = (script){.device = device};
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status == TUFF_OK; i++)
        status = stages[i](self);
    clean_up(self);
    return status;
}

/* Each allocation fails in turn, alone and with all later ones. */
static void every_request_may_fail(void **state)
{
    (void)state;
    script wanted, got;
    int64_t sites = 0;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    assert_int_equal(run_script(device, &wanted), TUFF_OK);
    for (int sticky = 0; sticky < 2; sticky++) {
        bool reached = true;
        for (int64_t failing = 1; reached; failing++) {
            failing_memory_begin(failing, sticky != 0);
            const tuff_status status = run_script(device, &got);
            reached = failing_memory_end();
            assert_int_equal(status, reached ? TUFF_E_OOM_HOST : TUFF_OK);
            sites = failing;
        }
        assert_int_equal(run_script(device, &got), TUFF_OK);
        assert_memory_equal(got.bias, wanted.bias, sizeof wanted.bias);
    }
    assert_true(sites > 200);
    tuff_device_close(device);
}

/* A load that runs out of memory leaves parameters, moments and the counter unchanged. */
static void a_failed_load_changes_nothing(void **state)
{
    (void)state;
    script self = {.device = tuff_device_open("reference")};
    float before[COLUMNS], after[COLUMNS];
    bool reached = true;
    assert_non_null(self.device);
    assert_int_equal(make_model(&self), TUFF_OK);
    assert_int_equal(make_plan(&self), TUFF_OK);
    assert_int_equal(keep(&self), TUFF_OK);
    assert_int_equal(train(&self), TUFF_OK);
    memcpy(before, self.bias, sizeof before);
    for (int64_t failing = 1; reached; failing++) {
        failing_memory_begin(failing, false);
        const tuff_status status = tuff_checkpoint_load(scratch_path("checkpoint"), self.parameters, self.optimizer);
        reached = failing_memory_end();
        assert_int_equal(status, reached ? TUFF_E_OOM_HOST : TUFF_OK);
        tuff_array *bias = tuff_parameters_find(self.parameters, "bias");
        assert_int_equal(tuff_array_read(bias, after, sizeof after), TUFF_OK);
        assert_int_equal(memcmp(before, after, sizeof after) == 0, reached);
    }
    clean_up(&self);
    tuff_device_close(self.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_request_may_fail, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(a_failed_load_changes_nothing, scratch_folder_make, scratch_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
