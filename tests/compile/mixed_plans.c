/* Mixed precision as plans show it: what of a language model's training step has 16 bits in memory, on a device that
   poses as a GPU, and what keeps 32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "tools/model/graphs.h"

static void pose_as_gpu(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.compute_units = 32;
    as.max_group_size = 1024;
    as.local_memory_size = 65536;
    as.vector_width = 1;
    as.loop_limit = 0;
    as.max_binding = (uint64_t)1 << 30;
    as.subgroup_size = as.proved_subgroup_size = 32;
    as.subgroup_shuffle = as.narrow_storage = as.proved_narrow_storage = true;
    as.cooperative_matrix = 2;
    tuff__device_pose(device, &as);
}

/* A training step of a model, with all that it needs. */
typedef struct step {
    language_model model;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
} step;

static step make_step(tuff_device *device, const model_config *config, const tuff_compile_options *options)
{
    step made = {.optimizer = NULL};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 1000);
    assert_int_equal(model_create(device, config, &made.model), TUFF_OK);
    made.optimizer = tuff_optimizer_create(made.model.parameters, &rule);
    assert_non_null(made.optimizer);
    made.graph = train_graph(device, &made.model, made.optimizer, 8);
    assert_non_null(made.graph);
    made.plan = tuff_compile(made.graph, options);
    if (!made.plan)
        fail_msg("%s", tuff_error());
    return made;
}

static void drop_step(step *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
}

static void dump(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    for (int i = 0; i < list->launch_count; i++) {
        const launch *kernel = &list->launches[i];
        printf("%d %s %s:", i, kernel->body, plan->executable.records[i].label);
        for (int k = 0; k < kernel->chain.buffer_count; k++) {
            const chain_buffer *b = &kernel->chain.buffers[k];
            const memory_buffer *m = &list->buffers[b->id];
            printf(" %s%s%d:%s[%lld]%s", b->read ? "r" : "", b->written ? "w" : "", b->id, tuff_dtype_name(m->dtype),
                   (long long)m->count, m->fixed ? "F" : "");
        }
        printf("\n");
    }
}

static const model_config configs[] = {
    {.form = MODEL_GPT, .layers = 6, .heads = 4, .width = 384, .context = 128, .vocabulary = 256},
    {.form = MODEL_GPT, .layers = 6, .heads = 6, .width = 384, .context = 256, .vocabulary = 256},
    {.form = MODEL_LLAMA, .layers = 6, .heads = 6, .width = 384, .context = 128, .vocabulary = 256, .key_value_heads=2, .hidden=1024}};
static void measure_step(tuff_device *device)
{
    pose_as_gpu(device);
    for (int c = 0; c < 3; c++) {
    const model_config six_layers = configs[c];
    step plain = make_step(device, &six_layers, &(tuff_compile_options){.fuse = TUFF_FUSE_ALL});
    tuff_plan_info of_plain, info;
    assert_int_equal(tuff_plan_describe(plain.plan, &of_plain), TUFF_OK);
    static const tuff_family families[] = {TUFF_FAMILY_DEVICE, TUFF_FAMILY_LOCAL, TUFF_FAMILY_SUBGROUP, TUFF_FAMILY_COOPERATIVE};
    for (int i = 0; i < 4; i++)
        for (int p = TUFF_PRECISION_F16; p <= TUFF_PRECISION_BF16; p++) {
            step mixed = make_step(device, &six_layers, &(tuff_compile_options){.family = families[i], .precision = (tuff_precision)p});
            assert_int_equal(tuff_plan_describe(mixed.plan, &info), TUFF_OK);
            printf("family %d precision %d: %d of %d, %llu of %llu, tasks %d of %d\n", families[i], p, info.narrow_matmul_count, info.matmul_count,
                   (unsigned long long)info.memory_peak, (unsigned long long)of_plain.memory_peak, info.task_count, of_plain.task_count);
            if (i == 0 && p == 1)
                (void)dump;
            drop_step(&mixed);
        }
    drop_step(&plain);
    }
}

static void a_training_step_is_stored_with_16_bits(void **state)
{
    (void)state;
    for_each_driver(measure_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_training_step_is_stored_with_16_bits, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
