/* Training steps of a small GPT under the Khronos validation layer with synchronization validation, on every Vulkan
   device, with host-visible memory and without, and with the kernels for CPUs and for GPUs: on a CPU nothing else shows
   barriers that are missing or name the wrong stages or accesses. Skipped if the layer is missing. The layer of
   tools/setup-drivers takes precedence over the system's. */
#define _POSIX_C_SOURCE 200809L
#include "vulkan_fixture.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include "each_device.h"
#include "tools/model/graphs.h"

enum { BATCH = 2, CONTEXT = 12, VOCABULARY = 31, STEPS = 2 };
#define LONGEST_WAIT UINT64_C(240000000000) /* ns */

static void run_steps(tuff_plan *plan)
{
    int32_t windows[BATCH * (CONTEXT + 1)];
    float report[3];
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH * (CONTEXT + 1); i++)
            windows[i] = (i * 7 + step) % VOCABULARY;
        ok(tuff_plan_write(plan, "windows", windows, sizeof windows));
        ok(tuff_plan_run(plan));
        ok(tuff_plan_read(plan, "report", report, sizeof report));
        assert_true(report[0] > 0 && report[0] < 10);
    }
}

static void train(tuff_device *device, tuff_family family)
{
    const model_config config = {.layers = 1, .heads = 2, .width = 16, .context = CONTEXT, .vocabulary = VOCABULARY};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 100);
    const tuff_compile_options options = {.family = family, .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    language_model model;
    ok(model_create(device, &config, &model));
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
    assert_non_null(optimizer);
    tuff_graph *graph = train_graph(device, &model, optimizer, BATCH);
    assert_non_null(graph);
    tuff_plan *plan = tuff_compile(graph, &options);
    if (!plan)
        fail_msg("%s", tuff_error());
    run_steps(plan);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
}

/* Each device with the kernels for CPUs or with those for GPUs, or with both in a thorough run. For the latter it
   pretends to be a GPU, but it compiles a kernel when it first runs, which may take a busy CPU longer than a GPU may go
   without progress. */
static void the_layer_has_nothing_to_say_of_training(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++)
        for (int discrete = 0; discrete < 2; discrete++) {
            char selector[32];
            if (!is_thorough() && drawn_turn("family", i, 2) != discrete)
                continue;
            (void)snprintf(selector, sizeof selector, "vulkan:%d", i);
            lies.discrete = discrete;
            tuff_device *device = tuff_device_open(selector);
            if (!device)
                fail_msg("%s", tuff_error());
            tuff__device_set_timeout(device, LONGEST_WAIT);
            train(device, discrete ? TUFF_FAMILY_LOCAL : TUFF_FAMILY_REGISTER);
            tuff_device_close(device);
            lies.discrete = false;
            assert_int_equal(validation_messages, 0);
        }
}

int main(void)
{
    const char *layers = getenv("TUFF_VALIDATION_LAYERS");
    if (layers && layers[0])
        setenv("VK_LAYER_PATH", layers, 1);
    const int code = vulkan_start();
    if (code != 0)
        return code;
    if (!validated || !has_compiler) {
        puts(validated ? "no GLSL compiler" : "no validation layer");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layer_has_nothing_to_say_of_training),
        cmocka_unit_test(no_validation_messages),
    };
    return cmocka_run_group_tests_name("vulkan_training", tests, use_fresh_cache, drop_cache);
}

#else

int main(void)
{
    puts("built without Vulkan");
    return 77;
}

#endif
