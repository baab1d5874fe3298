/* The phase of every task: forward, backward or optimizer, however the compiler fused the nodes; and the start of each
   task on the device's clock in a profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

enum { ROWS = 13, INPUTS = 31, HIDDEN = 17, CLASSES = 7 };

static const tuff_parameter_spec specs[] = {
    {"first", {.rank = 2, .extent = {INPUTS, HIDDEN}}},
    {"second", {.rank = 2, .extent = {HIDDEN, CLASSES}}},
};

/* Number of tasks of a kind ("": of any) in each phase. */
typedef struct phase_counts {
    int of[3];
} phase_counts;

static phase_counts count_phases(const tuff_plan *plan, const char *kind)
{
    phase_counts counts = {{0}};
    tuff_plan_info info;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        assert_in_range(task.phase, TUFF_PHASE_FORWARD, TUFF_PHASE_OPTIMIZER);
        counts.of[task.phase] += kind[0] == 0 || strcmp(task.kind, kind) == 0;
    }
    return counts;
}

/* Two layers; the first one is a segment to recompute if `recompute` is set. */
static tuff_tensor *build_loss(tuff_graph *graph, tuff_parameters *parameters, bool recompute)
{
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INPUTS));
    tuff_tensor *labels = tuff_input(graph, "labels", TUFF_I32, TUFF_SHAPE(ROWS));
    tuff_tensor *first = tuff_array_tensor(graph, tuff_parameters_find(parameters, "first"));
    tuff_tensor *hidden = tuff_gelu(tuff_matmul(x, first));
    if (recompute)
        hidden = tuff_recompute(hidden, NULL, 0);
    tuff_tensor *second = tuff_array_tensor(graph, tuff_parameters_find(parameters, "second"));
    return tuff_cross_entropy(tuff_matmul(hidden, second), labels, -1, 0);
}

static tuff_plan *compile_step(tuff_graph *graph, tuff_fuse_mode fuse)
{
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.fuse = fuse, .family = TUFF_FAMILY_REGISTER});
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static void write_inputs(tuff_plan *plan)
{
    const int32_t labels[ROWS] = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5};
    write_steps(plan, "x", ROWS * INPUTS, 11, 7);
    assert_int_equal(tuff_plan_write(plan, "labels", labels, sizeof labels), TUFF_OK);
}

/* A step has two matmuls forward and three backward: the first layer's input has no gradient. */
static void check_step(tuff_device *device, tuff_fuse_mode fuse, bool recompute)
{
    tuff_parameters *parameters = tuff_parameters_create(device, specs, 2);
    tuff_optimizer *optimizer = tuff_optimizer_create(parameters, &(tuff_optimizer_options){.clip_norm = 1});
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *loss = build_loss(graph, parameters, recompute);
    assert_int_equal(tuff_optimizer_apply(optimizer, loss, NULL), TUFF_OK);
    assert_int_equal(tuff_graph_phase(graph, TUFF_PHASE_FORWARD), TUFF_PHASE_FORWARD);
    tuff_output(graph, "loss", loss);
    tuff_plan *plan = compile_step(graph, fuse);
    const phase_counts all = count_phases(plan, ""), matmuls = count_phases(plan, "matmul");
    assert_int_equal(matmuls.of[TUFF_PHASE_FORWARD], 2);
    assert_int_equal(matmuls.of[TUFF_PHASE_BACKWARD], 3 + recompute);
    assert_int_equal(matmuls.of[TUFF_PHASE_OPTIMIZER], 0);
    for (int phase = 0; phase < 3; phase++)
        assert_true(all.of[phase] > 0);
    tuff_plan_destroy(plan);
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(parameters);
}

static void check_phases(tuff_device *device)
{
    check_step(device, TUFF_FUSE_ALL, false);
    check_step(device, TUFF_FUSE_NONE, false);
    check_step(device, TUFF_FUSE_NONE, true);
}

static void a_step_has_three_phases(void **state)
{
    (void)state;
    for_drawn_drivers(check_phases);
}

/* An update that the program writes itself belongs to the backward pass, which it reads, unless the program names
   another phase. */
static void check_own_update(tuff_device *device, bool named)
{
    const float zeros[8] = {0};
    const int axis = 0;
    tuff_array *array = make_array(device, TUFF_F32, 8, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *w = tuff_array_tensor(graph, array), *gradient;
    tuff_tensor *loss = tuff_sum(tuff_exp(w), &axis, 1, false);
    assert_int_equal(tuff_gradients(loss, &w, 1, &gradient), TUFF_OK);
    if (named)
        assert_int_equal(tuff_graph_phase(graph, TUFF_PHASE_OPTIMIZER), TUFF_PHASE_FORWARD);
    tuff_assign(graph, array, tuff_sub(w, tuff_mul(gradient, tuff_constant(graph, TUFF_F32, 0.5))));
    if (named)
        assert_int_equal(tuff_graph_phase(graph, TUFF_PHASE_FORWARD), TUFF_PHASE_OPTIMIZER);
    tuff_output(graph, "loss", loss);
    tuff_plan *plan = compile_step(graph, TUFF_FUSE_NONE);
    const phase_counts all = count_phases(plan, "");
    assert_true(all.of[TUFF_PHASE_FORWARD] > 0);
    assert_int_equal(all.of[TUFF_PHASE_OPTIMIZER] > 0, named);
    assert_true(named || all.of[TUFF_PHASE_BACKWARD] > 0);
    tuff_plan_destroy(plan);
    tuff_array_destroy(array);
}

static void check_own_updates(tuff_device *device)
{
    check_own_update(device, false);
    check_own_update(device, true);
}

static void an_update_of_the_program_has_the_phase_it_names(void **state)
{
    (void)state;
    for_drawn_drivers(check_own_updates);
}

static void check_forward(tuff_device *device)
{
    tuff_parameters *parameters = tuff_parameters_create(device, specs, 2);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "loss", build_loss(graph, parameters, false));
    tuff_plan *plan = compile_step(graph, TUFF_FUSE_ALL);
    const phase_counts all = count_phases(plan, "");
    assert_true(all.of[TUFF_PHASE_FORWARD] > 0);
    assert_int_equal(all.of[TUFF_PHASE_BACKWARD] + all.of[TUFF_PHASE_OPTIMIZER], 0);
    tuff_plan_destroy(plan);
    tuff_parameters_destroy(parameters);
}

static void what_has_no_gradients_is_forward(void **state)
{
    (void)state;
    for_drawn_drivers(check_forward);
}

/* Tasks run one after another with barriers between them: none begins before the previous one ends, within the clock's
   resolution. */
static void check_starts(tuff_device *device)
{
    enum { RESOLUTION = 2000 };
    tuff_parameters *parameters = tuff_parameters_create(device, specs, 2);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "loss", build_loss(graph, parameters, false));
    tuff_plan *plan = compile_step(graph, TUFF_FUSE_NONE);
    tuff_plan_info info;
    tuff_task_info task;
    uint64_t end = 0;
    int begin = 0;
    write_inputs(plan);
    if (tuff_plan_profile(plan) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    while (tuff_plan_task(plan, begin, &task) == TUFF_OK && task.nanoseconds == 0)
        begin++; /* skips copies that are kept between runs */
    assert_int_equal(task.start, 0);
    for (int i = begin; i < info.task_count; i++) {
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        assert_true(task.start + RESOLUTION >= end);
        end = task.start + task.nanoseconds;
    }
    assert_true(end <= info.run_nanoseconds);
    tuff_plan_destroy(plan);
    tuff_parameters_destroy(parameters);
}

static void a_profile_tells_when_each_task_began(void **state)
{
    (void)state;
    for_drawn_drivers(check_starts);
}

/* A matmul's weight is kept as a copy in panels; a profiled run, too, sees new values of the weight. */
static void check_new_weights(tuff_device *device)
{
    enum { SIDE = 32 };
    static float weights[SIDE * SIDE], result[2][SIDE * SIDE];
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    tuff_output(graph, "y", tuff_matmul(x, tuff_array_tensor(graph, array)));
    tuff_plan *plan = compile_step(graph, TUFF_FUSE_ALL);
    write_steps(plan, "x", SIDE * SIDE, 11, 7);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SIDE * SIDE; i++)
            weights[i] = (float)(i % 5 + 8 * round);
        assert_int_equal(tuff_array_write(array, weights, sizeof weights), TUFF_OK);
        assert_int_equal(tuff_plan_profile(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", result[0], sizeof result[0]), TUFF_OK);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "y", result[1], sizeof result[1]), TUFF_OK);
        assert_memory_equal(result[0], result[1], sizeof result[0]);
    }
    tuff_plan_destroy(plan);
    tuff_array_destroy(array);
}

static void a_profiled_run_sees_new_weights(void **state)
{
    (void)state;
    for_drawn_drivers(check_new_weights);
}

static void phases_have_names(void **state)
{
    (void)state;
    assert_string_equal(tuff_phase_name(TUFF_PHASE_FORWARD), "forward");
    assert_string_equal(tuff_phase_name(TUFF_PHASE_BACKWARD), "backward");
    assert_string_equal(tuff_phase_name(TUFF_PHASE_OPTIMIZER), "optimizer");
    assert_string_equal(tuff_phase_name((tuff_phase)3), "unknown");
    assert_int_equal(tuff_graph_phase(NULL, TUFF_PHASE_BACKWARD), TUFF_PHASE_FORWARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_three_phases),
        cmocka_unit_test(an_update_of_the_program_has_the_phase_it_names),
        cmocka_unit_test(what_has_no_gradients_is_forward),
        cmocka_unit_test(a_profile_tells_when_each_task_began),
        cmocka_unit_test(a_profiled_run_sees_new_weights),
        cmocka_unit_test(phases_have_names),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
