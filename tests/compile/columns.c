/* Column sums that a row task could compute as well: the decision whether to split rows into blocks, and of what size,
   depends on the tasks only, and a block size divides the split axis of every sum. A training step of small GPTs of odd
   sizes compiles to tasks that compute everything that they store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/fuse/fuse.h"
#include "compile/rewrite/matmul_merge.h"
#include "compile/rewrite/simplify.h"
#include "each_device.h"
#include "graph/blob/blob.h"
#include "hard_graphs.h"
#include "tools/model/graphs.h"

static void fuse_graph(tuff_graph *graph, tuff_graph **simple, struct fusion *out)
{
    static const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    *simple = tuff__simplify(graph, false);
    assert_non_null(*simple);
    assert_int_equal(tuff__merge_matmuls(*simple, NULL, NULL), TUFF_OK);
    assert_int_equal(tuff__fuse(*simple, &options, MAX_BINDINGS, NULL, out), TUFF_OK);
}

/* Returns the extent of the innermost axis that a sum reduces. */
static int64_t cut_extent(const node *sum)
{
    const tuff_shape *shape = &sum->inputs[0]->shape;
    int axis = shape->rank - 1;
    while ((sum->attributes.axes >> axis & 1) == 0 || shape->extent[axis] == 1)
        axis--;
    return shape->extent[axis];
}

/* Returns the number of pairs of tasks that can be fused, whole or in blocks. A block size must divide the axis that it
   splits. */
static int check_pairs(const struct fusion *fusion)
{
    int fits = 0;
    for (int row = 0; row < fusion->task_count; row++)
        for (int column = 0; column < fusion->task_count; column++) {
            const struct task *task_at = &fusion->tasks[column];
            int64_t rows = 7919;
            const column_fit fit = tuff__fit_columns(fusion, &fusion->tasks[row], task_at, &rows);
            fits += fit != COLUMNS_DO_NOT_FIT;
            for (int i = 0; i < task_at->reduction_count && fit == COLUMNS_FIT_IN_BLOCKS; i++)
                assert_true(rows > 0 && cut_extent(task_at->reductions[i]) % rows == 0);
        }
    return fits;
}

/* Checks that every node that splitting created is one that a builder could have created: a reshape keeps the number of
   elements. */
static void check_nodes(const tuff_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        assert_true(tuff__node_is_valid(graph->nodes[i]));
}

static int check_graph(tuff_graph *graph)
{
    tuff_graph *simple;
    struct fusion fusion;
    bool changed;
    fuse_graph(graph, &simple, &fusion);
    const int fits = check_pairs(&fusion);
    assert_int_equal(tuff__cut_columns(&fusion, &changed), TUFF_OK);
    check_nodes(simple);
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    return fits;
}

static void small_models(tuff_device *device)
{
    static const struct {
        int64_t layers, heads, width, context, batch;
    } sizes[] = {{1, 1, 18, 13, 5}, {2, 1, 32, 32, 4}, {3, 3, 33, 29, 3}, {1, 2, 96, 50, 2}, {1, 5, 120, 90, 6}};
    int fits = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const model_config config = {.layers = sizes[i].layers,
                                     .heads = sizes[i].heads,
                                     .width = sizes[i].width,
                                     .context = sizes[i].context,
                                     .vocabulary = 64};
        const tuff_optimizer_options rule = model_optimizer_options(1e-3, 100);
        language_model model;
        assert_int_equal(model_create(device, &config, &model), TUFF_OK);
        tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
        assert_non_null(optimizer);
        tuff_graph *graph = train_graph(device, &model, optimizer, sizes[i].batch);
        assert_non_null(graph);
        fits += check_graph(graph);
        tuff_graph_destroy(graph);
        tuff_optimizer_destroy(optimizer);
        model_destroy(&model);
    }
    if (tuff__device_info(device)->device_class == TUFF_DEVICE_CPU)
        assert_true(fits > 0);
}

static void blocks_divide_what_they_cut(void **state)
{
    (void)state;
    for_drawn_drivers(small_models);
}

static void sums_of_two_shapes(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    find_hard_graph("columns of two shapes")(graph, NULL);
    check_graph(graph); /* no block size divides both */
    tuff_graph_destroy(graph);
}

static void sums_of_two_shapes_are_cut_alike(void **state)
{
    (void)state;
    for_drawn_drivers(sums_of_two_shapes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_divide_what_they_cut),
        cmocka_unit_test(sums_of_two_shapes_are_cut_alike),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
