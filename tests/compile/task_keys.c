/* Keys of tasks tell apart what takes another kernel or another time, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compile/task_key.h"
#include "each_device.h"
#include "exec/plan.h"
#include "gpu_description.h"
#include "small_plans.h"

enum { BATCHES = 2, LENGTH = 24, HEADS = 4, WIDTH = 16 };

/* Returns the key of the attention in a graph that has no other. */
static tune_key key_of_attention(tuff_device *device, const tuff_attention_options *options, const int64_t *bias,
                                 tuff_precision factors)
{
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape shape = TUFF_SHAPE(BATCHES, LENGTH, HEADS, WIDTH);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, shape), *k = tuff_input(graph, "k", TUFF_F32, shape),
                *v = tuff_input(graph, "v", TUFF_F32, shape);
    tuff_attention_options chosen = *options;
    if (bias != NULL)
        chosen.bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(bias[0], bias[1], bias[2], LENGTH));
    tuff_output(graph, "y", tuff_attention(q, k, v, &chosen));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.describe_only = true, .matmul_precision = factors});
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    tune_key key = {.alignment = 0};
    int found = 0;
    for (int i = 0; i < plan->fusion.task_count; i++)
        if (plan->fusion.tasks[i].kind == TASK_ATTENTION) {
            assert_int_equal(tuff__task_key(&plan->fusion, i, &key), TUFF_OK);
            found++;
        }
    assert_int_equal(found, 1);
    destroy_plan(plan, graph);
    return key;
}

static bool are_equal(const tune_key *a, const tune_key *b)
{
    return a->structure == b->structure && strcmp(a->math, b->math) == 0 && strcmp(a->dtypes, b->dtypes) == 0;
}

/* A window makes an attention shorter, and a bias that many rows share has other loads and another gradient. */
static void compare_attentions(tuff_device *device)
{
    describe_as_gpu(device);
    const tuff_attention_options forms[] = {
        {.causal = true}, {.causal = false}, {.causal = true, .window = 4}, {.causal = true, .window = 8}};
    enum { FORMS = sizeof forms / sizeof *forms };
    const int64_t whole[] = {BATCHES, HEADS, LENGTH}, shared[] = {1, HEADS, 1};
    tune_key keys[FORMS];
    for (int i = 0; i < FORMS; i++) {
        keys[i] = key_of_attention(device, &forms[i], NULL, TUFF_PRECISION_F32);
        const tune_key again = key_of_attention(device, &forms[i], NULL, TUFF_PRECISION_F32);
        assert_true(are_equal(&keys[i], &again));
        for (int k = 0; k < i; k++)
            if (are_equal(&keys[i], &keys[k]))
                fail_msg("attentions %d and %d have one key", k, i);
    }
    const tune_key of_whole = key_of_attention(device, &forms[1], whole, TUFF_PRECISION_F32),
                   of_shared = key_of_attention(device, &forms[1], shared, TUFF_PRECISION_F32),
                   rounded = key_of_attention(device, &forms[1], NULL, TUFF_PRECISION_F16);
    assert_false(are_equal(&of_whole, &of_shared));
    assert_false(are_equal(&keys[1], &rounded)); /* it may run on matrix units */
}

static void attentions_of_other_work_have_other_keys(void **state)
{
    (void)state;
    for_drawn_drivers(compare_attentions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attentions_of_other_work_have_other_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
