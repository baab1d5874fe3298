/* Running out of host memory while graphs are built, differentiated, compiled and run: for each allocation of a script
   of calls the script runs again with that allocation failing, alone and with all later ones. No call may crash, no
   memory may leak, the error must be reported, and the same script without failures must then give the same bits as
   before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "each_device.h"
#include "failing_memory.h"
#include "tuff.h"

/* The objects that a script creates besides its graph; some are NULL after running out of memory. */
typedef struct owned_objects {
    tuff_array *slab, *parts[2];
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
} owned_objects;

static void destroy_owned_objects(owned_objects *made)
{
    for (int i = 0; i < 2; i++)
        tuff_array_destroy(made->parts[i]);
    tuff_array_destroy(made->slab);
    tuff_optimizer_destroy(made->optimizer);
    tuff_parameters_destroy(made->parameters);
}

typedef void (*graph_script)(tuff_graph *graph, tuff_device *device, owned_objects *made);

static tuff_tensor *input(tuff_graph *graph, tuff_shape shape)
{
    return tuff_input(graph, "x", TUFF_F32, shape);
}

static void elementwise(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *x = input(graph, TUFF_SHAPE(3, 4)),
                *row = tuff_slice(x, (int64_t[]){2, 3}, (int64_t[]){1, -1}, (int64_t[]){-1, -1});
    tuff_tensor *table = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(2, 2), (float[]){1, 2, 3, 4});
    table = tuff_reshape(tuff_mul(table, table), TUFF_SHAPE(1, 4));
    tuff_output(graph, "y", tuff_cast(tuff_gelu(tuff_add(tuff_add(x, row), table)), TUFF_F16));
    tuff_output(graph, "z",
                tuff_where(tuff_less(x, row), tuff_dropout(x, 0.5),
                           tuff_rope(tuff_reshape(x, TUFF_SHAPE(1, 3, 1, 4)), TUFF_ROPE_HALF, 100, 0, NULL)));
}

static void norm_and_gradient(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *gradient, *x = input(graph, TUFF_SHAPE(2, 5));
    tuff_tensor *y = tuff_softmax(tuff_layer_norm(x, NULL, NULL, 1, 1e-5), 1);
    if (tuff_gradients(tuff_sum(tuff_mul(y, x), (int[]){0, 1}, 2, false), &x, 1, &gradient) == TUFF_OK)
        tuff_output(graph, "gradient", gradient);
    tuff_output(graph, "y", y);
}

static void product_and_gradient(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *gradient, *x = input(graph, TUFF_SHAPE(4, 6));
    tuff_tensor *y = tuff_matmul(x, tuff_permute(x, (int[]){1, 0}));
    tuff_tensor *parts[] = {tuff_relu(y), tuff_exp(x), x, tuff_tanh(x)};
    if (tuff_gradients(tuff_mean(y, (int[]){0, 1}, 2, false), &x, 1, &gradient) == TUFF_OK)
        tuff_output(graph, "gradient", gradient);
    tuff_output(graph, "y", tuff_concat(parts, 4, 1));
}

static void segments(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *gradient, *x = input(graph, TUFF_SHAPE(4, 4));
    tuff_tensor *inner = tuff_softmax(tuff_matmul(x, tuff_tanh(x)), 1);
    tuff_tensor *y = tuff_recompute(tuff_exp(tuff_recompute(inner, &x, 1)), &x, 1);
    if (tuff_gradients(tuff_mean(y, (int[]){0, 1}, 2, false), &x, 1, &gradient) == TUFF_OK)
        tuff_output(graph, "gradient", gradient);
}

/* Compiled with a budget that requires recomputation. */
static void deep(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    float numbers[4 * 32];
    for (int i = 0; i < 4 * 32; i++)
        numbers[i] = (float)(i % 5) / 8 - 0.25F;
    tuff_tensor *up = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(4, 32), numbers);
    tuff_tensor *down = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(32, 4), numbers);
    tuff_tensor *gradient, *x = input(graph, TUFF_SHAPE(64, 4)), *y = x;
    for (int i = 0; i < 4; i++)
        y = tuff_add(y, tuff_matmul(tuff_tanh(tuff_matmul(y, up)), down));
    if (tuff_gradients(tuff_mean(y, (int[]){0, 1}, 2, false), &x, 1, &gradient) == TUFF_OK)
        tuff_output(graph, "gradient", tuff_slice(gradient, (int64_t[]){0, 0}, (int64_t[]){5, 2}, NULL));
}

static void lookups(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *gradient, *x = input(graph, TUFF_SHAPE(5, 5));
    tuff_tensor *indices = tuff_constant_data(graph, TUFF_I32, TUFF_SHAPE(3), (int32_t[]){4, 0, 4});
    tuff_tensor *loss = tuff_cross_entropy(tuff_gather_rows(x, indices, 0), indices, -1, 0);
    if (tuff_gradients(loss, &x, 1, &gradient) == TUFF_OK)
        tuff_output(graph, "gradient", gradient);
    tuff_output(graph, "sums", tuff_cumsum(tuff_pad(x, (int64_t[]){0, 1}, (int64_t[]){1, 0}, 0), 0));
}

static void long_reductions(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    (void)device, (void)made;
    tuff_tensor *x = input(graph, TUFF_SHAPE(2, 3000));
    tuff_output(graph, "sum", tuff_sum(tuff_mul(x, x), (int[]){0, 1}, 2, false));
    tuff_output(graph, "max", tuff_reduce_max(x, (int[]){1}, 1, true));
    tuff_output(graph, "last", tuff_slice(tuff_cumsum(x, 1), (int64_t[]){0, 2990}, (int64_t[]){2, 3000}, NULL));
    tuff_output(graph, "columns", tuff_sum(tuff_reshape(x, TUFF_SHAPE(3000, 2)), (int[]){0}, 1, false));
}

static void assigns(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    tuff_tensor *x = input(graph, TUFF_SHAPE(4));
    made->slab = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(8));
    for (int i = 0; i < 2 && made->slab; i++)
        made->parts[i] = tuff_array_view(made->slab, 4 * i, TUFF_SHAPE(4));
    if (!made->parts[0] || !made->parts[1])
        return;
    tuff_tensor *a = tuff_array_tensor(graph, made->parts[0]), *b = tuff_array_tensor(graph, made->parts[1]);
    tuff_output(graph, "random", tuff_random(graph, TUFF_SHAPE(3)));
    tuff_output(graph, "new", tuff_assign(graph, made->parts[0], tuff_add(b, x)));
    tuff_assign(graph, made->parts[1], tuff_sub(a, x));
}

static void training(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    const tuff_parameter_spec specs[] = {{"w", TUFF_SHAPE(3, 2)}, {"b", TUFF_SHAPE(2)}};
    made->parameters = tuff_parameters_create(device, specs, 2);
    made->optimizer = made->parameters ? tuff_optimizer_create(made->parameters, NULL) : NULL;
    if (!made->optimizer)
        return;
    tuff_graph_step(graph, tuff_optimizer_counter(made->optimizer));
    tuff_tensor *w = tuff_array_tensor(graph, tuff_parameters_at(made->parameters, 0, NULL));
    tuff_tensor *b = tuff_array_tensor(graph, tuff_parameters_at(made->parameters, 1, NULL));
    tuff_tensor *x = input(graph, TUFF_SHAPE(2, 3));
    tuff_tensor *loss = tuff_mse(tuff_linear(x, w, b), tuff_slice(x, (int64_t[]){0, 0}, (int64_t[]){2, 2}, NULL));
    if (tuff_optimizer_apply(made->optimizer, loss, NULL) == TUFF_OK)
        tuff_output(graph, "loss", loss);
}

/* Three matmuls that are merged into one, like their gradients. */
static void siblings(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    const tuff_shape shape = TUFF_SHAPE(2, 8);
    const tuff_parameter_spec specs[] = {{"first", TUFF_SHAPE(3, 8)}, {"q", shape}, {"k", shape}, {"v", shape}};
    tuff_tensor *x = input(graph, TUFF_SHAPE(2, 3)), *loss = NULL;
    made->parameters = tuff_parameters_create(device, specs, 4);
    made->optimizer = made->parameters ? tuff_optimizer_create(made->parameters, NULL) : NULL;
    if (!made->optimizer)
        return;
    tuff_graph_step(graph, tuff_optimizer_counter(made->optimizer));
    x = tuff_matmul(x, tuff_array_tensor(graph, tuff_parameters_at(made->parameters, 0, NULL)));
    for (int i = 1; i < 4; i++) {
        tuff_tensor *w = tuff_array_tensor(graph, tuff_parameters_at(made->parameters, i, NULL));
        tuff_tensor *y = tuff_tanh(tuff_matmul(x, tuff_permute(w, (int[]){1, 0})));
        tuff_tensor *sum = tuff_mean(tuff_mul(y, y), (int[]){0, 1}, 2, false);
        loss = loss ? tuff_add(loss, sum) : sum;
    }
    if (tuff_optimizer_apply(made->optimizer, loss, NULL) == TUFF_OK)
        tuff_output(graph, "loss", loss);
}

/* Operands that are computed where they are loaded, with weights precomputed into both kinds of copies. */
static void producers(tuff_graph *graph, tuff_device *device, owned_objects *made)
{
    const tuff_parameter_spec specs[] = {{"plain", TUFF_SHAPE(12, 5)}, {"turned", TUFF_SHAPE(5, 12)}};
    tuff_tensor *x = input(graph, TUFF_SHAPE(2, 12)), *factor = tuff_constant(graph, TUFF_F32, 0.5);
    made->parameters = tuff_parameters_create(device, specs, 2);
    if (!made->parameters)
        return;
    tuff_tensor *plain = tuff_array_tensor(graph, tuff_parameters_at(made->parameters, 0, NULL));
    tuff_tensor *turned = tuff_array_tensor(graph, tuff_parameters_at(made->parameters, 1, NULL));
    turned = tuff_permute(tuff_mul(turned, factor), (int[]){1, 0});
    tuff_output(graph, "y",
                tuff_add(tuff_matmul(tuff_neg(x), tuff_mul(plain, factor)), tuff_matmul(tuff_relu(x), turned)));
}

static const struct {
    const char *name;
    graph_script build;
    size_t input_size;
    uint64_t budget; /* of device memory; 0: none */
} scripts[] = {
    {"elementwise", elementwise, 12, 0},
    {"norm and gradient", norm_and_gradient, 10, 0},
    {"product and gradient", product_and_gradient, 24, 0},
    {"segments", segments, 16, 0},
    {"deep", deep, 256, 30 << 10},
    {"lookups", lookups, 25, 0},
    {"long reductions", long_reductions, 6000, 0},
    {"assigns", assigns, 4, 0},
    {"training", training, 6, 0},
    {"siblings", siblings, 6, 0},
    {"producers", producers, 24, 0},
};

#define RESULT_SIZE 1024

/* Runs the plan and reads all outputs of the graph by their known names. */
static tuff_status use_plan(tuff_plan *plan, size_t input_size, unsigned char *results)
{
    static const struct {
        const char *name;
        size_t size;
    } outputs[] = {{"y", 24},        {"y", 40},        {"y", 4 * 22 * 4}, {"z", 48},
                   {"gradient", 40}, {"gradient", 64}, {"gradient", 96},  {"gradient", 100},
                   {"sums", 144},    {"sum", 4},       {"max", 8},        {"last", 80},
                   {"columns", 8},   {"random", 12},   {"new", 16},       {"loss", 4}};
    static float data[6000];
    for (size_t i = 0; i < input_size; i++)
        data[i] = (float)(i % 7) / 4 - 1;
    TRY(tuff_plan_write(plan, "x", data, input_size * sizeof *data));
    TRY(tuff_plan_run(plan));
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        const tuff_status status = tuff_plan_read(plan, outputs[i].name, results, outputs[i].size);
        if (status != TUFF_OK && status != TUFF_E_USAGE)
            return status;
        results += status == TUFF_OK ? outputs[i].size : 0;
    }
    return TUFF_OK;
}

/* Runs the whole script; returns TUFF_OK if every call succeeded. */
static tuff_status run_script(int index, tuff_device *device, unsigned char *results)
{
    owned_objects made = {.slab = NULL};
    memset(results, 0, RESULT_SIZE);
    tuff_graph *graph = tuff_graph_create(device);
    if (graph)
        scripts[index].build(graph, device, &made);
    const tuff_compile_options options = {.memory_budget = scripts[index].budget};
    tuff_plan *plan = graph ? tuff_compile(graph, &options) : NULL;
    tuff_status status = plan ? use_plan(plan, scripts[index].input_size, results) : tuff_last_status();
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    destroy_owned_objects(&made);
    return status;
}

typedef struct attempt {
    int script;
    tuff_device *device;
    unsigned char expected[RESULT_SIZE];
} attempt;

/* The error is out of memory, or wrong usage if the script lacks its array or parameters and so an output. */
static bool is_expected(tuff_status status)
{
    return status == TUFF_E_OOM_HOST || status == TUFF_E_USAGE;
}

/* Makes request number failing fail. Returns false if the script makes fewer requests. */
static bool fail_one(const attempt *one, int64_t failing, bool sticky)
{
    unsigned char results[RESULT_SIZE];
    const char *name = scripts[one->script].name;
    failing_memory_rearm(failing, sticky);
    const tuff_status status = run_script(one->script, one->device, results);
    const bool hit = failing_memory_hit();
    failing_memory_rearm(0, false);
    if (status == TUFF_OK && memcmp(results, one->expected, RESULT_SIZE) != 0)
        fail_msg("%s, request %lld: wrong results", name, (long long)failing);
    if (status != TUFF_OK && (!hit || !is_expected(status)))
        fail_msg("%s, request %lld: %s: %s", name, (long long)failing, tuff_status_name(status), tuff_error());
    if (!hit)
        return false;
    if (run_script(one->script, one->device, results) != TUFF_OK)
        fail_msg("%s, after request %lld: %s", name, (long long)failing, tuff_error());
    if (memcmp(results, one->expected, RESULT_SIZE) != 0)
        fail_msg("%s, after request %lld: wrong results", name, (long long)failing);
    return true;
}

/* Makes every allocation of a script fail in turn. */
static void fail_script(int script, tuff_device *device)
{
    attempt one = {.script = script, .device = device};
    unsigned char again[RESULT_SIZE];
    for (int i = 0; i < 2; i++)
        if (run_script(script, device, i == 0 ? one.expected : again) != TUFF_OK)
            fail_msg("%s: %s", scripts[script].name, tuff_error());
    assert_memory_equal(again, one.expected, RESULT_SIZE);
    int64_t failing = 1;
    while (fail_one(&one, failing, false))
        failing++;
    for (int64_t i = 1; i < failing; i++)
        assert_true(fail_one(&one, i, true));
    assert_true(failing > 20);
    print_message("    %s: %lld requests\n", scripts[script].name, (long long)failing - 1);
}

/* Keeps a plan of the same graph, so that its programs stay in memory instead of being loaded from disk in each run. A
   device may pool memory; when it is closed, all must have been freed. */
static void try_script(int script, const char *name)
{
    owned_objects made = {.slab = NULL};
    tuff_device_count(); /* the list of devices lives as long as the process */
    failing_memory_begin(0, false);
    tuff_device *device = tuff_device_open(name);
    if (!device && tuff_last_status() == TUFF_E_NO_DEVICE) {
        failing_memory_end();
        skip();
    }
    tuff_graph *graph = tuff_graph_create(device);
    scripts[script].build(graph, device, &made);
    tuff_plan *keeper = tuff_compile(graph, &(tuff_compile_options){.memory_budget = scripts[script].budget});
    if (!keeper)
        fail_msg("%s: %s", scripts[script].name, tuff_error());
    fail_script(script, device);
    tuff_plan_destroy(keeper);
    tuff_graph_destroy(graph);
    destroy_owned_objects(&made);
    tuff_device_close(device);
    if (failing_memory_live() != 0)
        fail_msg("%s: %lld blocks were not freed", scripts[script].name, (long long)failing_memory_live());
    failing_memory_end();
}

/* Runs every script, or draws a third of them. */
static void try_device(const char *name, bool all)
{
    for (int i = 0; i < (int)(sizeof scripts / sizeof scripts[0]); i++)
        if (all || is_thorough() || drawn_turn("scripts", i, 3) == 0)
            try_script(i, name);
}

static void memory_may_run_out_for_the_reference(void **state)
{
    (void)state;
    try_device("reference", true);
}

static void memory_may_run_out_for_a_driver(void **state)
{
    (void)state;
    try_device("opencl:portable", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_may_run_out_for_the_reference),
        cmocka_unit_test(memory_may_run_out_for_a_driver),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
