/* The tuner's records belong to the kernels that lowering and assembly wrote when they were measured. The hash of a
   family's kernel hash covers kernel texts and tunables; changes of code are covered by PASSES_VERSION of
   src/tunedb/kernel_hash.c, which must be raised by hand. This test knows the kernels that the current version writes
   for a training step, so that this is not forgotten. It uses fake devices, so that they are the same everywhere. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file/file.h"
#include "each_device.h"
#include "exec/plan.h"
#include "compile/task_key.h"
#include "small_plans.h"

#define TABLE TUFF_TEST_DATA "/generated.txt"

enum { FAMILIES = 7, ROWS = 48, WIDTH = 64, WORDS = 100 };

static const char *const families[FAMILIES] = {"matmul", "attention", "row", "column", "map", "scatter", "scan"};

static text now, before;

/* All kinds of tasks, forward and backward. */
static tuff_graph *make_step(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *table = tuff_input(graph, "table", TUFF_F32, TUFF_SHAPE(WORDS, WIDTH)),
                *words = tuff_input(graph, "words", TUFF_I32, TUFF_SHAPE(ROWS)),
                *targets = tuff_input(graph, "targets", TUFF_I32, TUFF_SHAPE(ROWS)),
                *gain = tuff_input(graph, "gain", TUFF_F32, TUFF_SHAPE(WIDTH)),
                *up = tuff_input(graph, "up", TUFF_F32, TUFF_SHAPE(WIDTH, 4 * WIDTH)),
                *down = tuff_input(graph, "down", TUFF_F32, TUFF_SHAPE(4 * WIDTH, WIDTH));
    tuff_tensor *x = tuff_rms_norm(tuff_embedding(table, words), gain, 1, 1e-5);
    tuff_tensor *heads = tuff_reshape(x, TUFF_SHAPE(1, ROWS, 4, WIDTH / 4));
    tuff_tensor *turned = tuff_rope(heads, TUFF_ROPE_HALF, 10000, 0, NULL);
    const tuff_attention_options causal = {.causal = true};
    x = tuff_add(x, tuff_reshape(tuff_attention(turned, turned, heads, &causal), TUFF_SHAPE(ROWS, WIDTH)));
    x = tuff_add(x, tuff_linear(tuff_gelu(tuff_linear(x, up, NULL)), down, NULL));
    tuff_tensor *logits = tuff_matmul(tuff_cumsum(x, 0), tuff_permute(table, (int[]){1, 0}));
    tuff_tensor *loss = tuff_cross_entropy(logits, targets, -1, 0);
    tuff_tensor *wrt[] = {table, gain, up, down}, *gradients[4];
    if (tuff_gradients(loss, wrt, 4, gradients) != TUFF_OK)
        fail_msg("%s", tuff_error());
    static const char *const names[] = {"dtable", "dgain", "dup", "ddown"};
    for (int i = 0; i < 4; i++)
        tuff_output(graph, names[i], gradients[i]);
    tuff_output(graph, "loss", loss);
    return graph;
}

static bool is_of_family(const tuff_plan *plan, const launch *kernel, const char *family)
{
    tune_key key;
    return kernel->task >= 0 && tuff__task_key(&plan->fusion, kernel->task, &key) == TUFF_OK &&
           strcmp(key.family, family) == 0;
}

static uint64_t hash_family(const tuff_plan *plan, const char *family, int *count)
{
    uint64_t hash = 0;
    *count = 0;
    for (int i = 0; i < plan->executable.command_count; i++) {
        const char *source = plan->executable.records[i].source;
        const launch *kernel = &plan->executable.launches.launches[i];
        const uint64_t sizes[] = {kernel->groups, kernel->local_size, kernel->setup, kernel->subgroup_size};
        if (!source || !is_of_family(plan, kernel, family))
            continue;
        hash = tuff__kernel_text_hash(source, tuff__hash64(sizes, sizeof sizes, hash));
        ++*count;
    }
    return hash;
}

static void add_lines(tuff_device *device, const char *as)
{
    tuff_graph *graph = make_step(device);
    tuff_plan *plan = compile_plan(graph);
    char kernel_hash[KERNEL_HASH_SIZE];
    int count;
    for (int i = 0; i < FAMILIES; i++) {
        const uint64_t hash = hash_family(plan, families[i], &count);
        if (count > 0)
            tuff__text_add(&now, "%s %s %s %d %016llx\n", as, families[i], tuff__kernel_hash(families[i], kernel_hash),
                           count, (unsigned long long)hash);
    }
    destroy_plan(plan, graph);
}

static void override_device(tuff_device *device)
{
    const bool is_vulkan = strncmp(tuff__device_info(device)->selector, "vulkan", 6) == 0;
    tuff_device_info as = {.device_class = TUFF_DEVICE_CPU,
                           .memory_size = (uint64_t)8 << 30,
                           .max_allocation = (uint64_t)2 << 30,
                           .max_binding = (uint64_t)1 << 30,
                           .offset_alignment = 64,
                           .local_memory_size = 32768,
                           .max_group_size = 256,
                           .compute_units = 8,
                           .max_bindings = 16,
                           .subgroup_size = 8,
                           .vector_width = 8,
                           .narrow_storage = true,
                           .int64 = true,
                           .proved = true,
                           .proved_subgroup_size = 8,
                           .proved_barrier = true,
                           .proved_narrow_storage = true,
                           .proved_nan = true,
                           .proved_negative_zero = true,
                           .proved_denormals = true};
    (void)snprintf(as.name, sizeof as.name, "nobody's");
    (void)snprintf(as.selector, sizeof as.selector, "%s", tuff__device_info(device)->selector);
    tuff__device_override_info(device, &as);
    add_lines(device, is_vulkan ? "vulkan-cpu" : "opencl-cpu");
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.subgroup_size = as.proved_subgroup_size = 32;
    as.vector_width = 1;
    as.subgroup_shuffle = true;
    as.exchange_form = TUFF_EXCHANGE_KHR;
    as.exchange_lanes = 16;
    tuff__device_override_info(device, &as);
    add_lines(device, is_vulkan ? "vulkan-gpu" : "opencl-gpu");
}

/* Returns the line of the table for the same device and family, or NULL. */
static const char *find_line(const char *line)
{
    const char *kernel_hash = strchr(strchr(line, ' ') + 1, ' ') + 1;
    const size_t length = (size_t)(kernel_hash - line);
    for (const char *at = tuff__text_get(&before); *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, length) == 0)
            return at;
    return NULL;
}

static bool is_same_line(const char *a, const char *b)
{
    const size_t length = strcspn(a, "\n");
    return strncmp(a, b, length) == 0 && b[length] == '\n';
}

/* Kernels may differ if the kernel hash does. */
static bool has_same_generator(const char *a, const char *b)
{
    return strncmp(strchr(strchr(a, ' ') + 1, ' '), strchr(strchr(b, ' ') + 1, ' '), KERNEL_HASH_SIZE) == 0;
}

static void new_kernels_have_new_generators(void **state)
{
    (void)state;
    int wrong = 0, stale = 0;
    for_each_api(override_device);
    if (getenv("TUFF_TEST_WRITES")) {
        assert_int_equal(tuff__file_write(TABLE, &(file_part){tuff__text_get(&now), now.length}, 1, false, false),
                         TUFF_OK);
        skip();
    }
    void *data = NULL;
    size_t size = 0;
    assert_int_equal(tuff__file_read(TABLE, 1 << 16, &data, &size), TUFF_OK);
    tuff__text_add(&before, "%.*s\n", (int)size, (const char *)data);
    tuff__free(data);
    for (const char *at = tuff__text_get(&now); *at; at = strchr(at, '\n') + 1) {
        const char *known = find_line(at);
        const bool is_forgotten = known && !is_same_line(known, at) && has_same_generator(known, at);
        stale += !known || (!is_same_line(known, at) && !is_forgotten);
        wrong += is_forgotten;
        if (is_forgotten)
            print_message("  the kernels changed, but their hash did not: %.*s\n", (int)strcspn(at, "\n"), at);
    }
    if (wrong > 0)
        fail_msg("raise PASSES_VERSION in src/tunedb/kernel_hash.c, then run this with TUFF_TEST_WRITES=1");
    if (stale > 0)
        fail_msg(
            "kernels and their hashes are new: run this with TUFF_TEST_WRITES=1 and commit tests/data/generated.txt");
}

static void comments_are_not_hashed(void **state)
{
    (void)state;
    const uint64_t plain = tuff__kernel_text_hash("a;\n  b;\n", 1);
    assert_true(tuff__kernel_text_hash("// head\na;\n\n    // why\n  b;\n", 1) == plain);
    assert_true(tuff__kernel_text_hash("a;\n  b;", 1) == plain);
    assert_true(tuff__kernel_text_hash("a;\n  c;\n", 1) != plain);
    assert_true(tuff__kernel_text_hash("//@ NAME:\na;\n  b;\n", 1) != plain);
    assert_true(tuff__kernel_text_hash("a; // behind code\n  b;\n", 1) != plain);
    assert_true(tuff__kernel_text_hash("a;\n  b;\n", 2) != plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_kernels_have_new_generators),
        cmocka_unit_test(comments_are_not_hashed),
    };
    const int failed = cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
    tuff__text_free(&now);
    tuff__text_free(&before);
    return failed;
}
