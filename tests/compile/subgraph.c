/* Excerpts of tasks: the samples of a task have the same values as in the whole, shapes shrink consistently, and
   running out of memory leaks nothing. Runs on the host only. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/rewrite/simplify.h"
#include "failing_memory.h"
#include "compile/subgraph.h"
#include "exec/reference.h"
#include "tuff.h"

static const tuff_compile_options default_options = {.fuse = TUFF_FUSE_ALL};

/* Biases of all scores, and broadcast over batches or over heads and queries; their gradients are sums over the
   broadcast axes. */
static void add_biased(tuff_graph *graph, tuff_tensor *heads)
{
    static const char *const names[][3] = {{"b0", "ab0", "db0"}, {"b1", "ab1", "db1"}, {"b2", "ab2", "db2"}};
    const tuff_shape shapes[] = {TUFF_SHAPE(5, 6, 24, 24), TUFF_SHAPE(6, 24, 24), TUFF_SHAPE(5, 1, 1, 24)};
    for (int i = 0; i < 3; i++) {
        tuff_tensor *bias = tuff_input(graph, names[i][0], TUFF_F32, shapes[i]), *gradient;
        tuff_tensor *y = tuff_attention(heads, heads, heads, &(tuff_attention_options){.bias = bias, .causal = i == 1});
        tuff_output(graph, names[i][1], y);
        assert_int_equal(tuff_gradients(tuff_sum(tuff_mul(y, y), (int[]){0, 1, 2, 3}, 4, false), &bias, 1, &gradient),
                         TUFF_OK);
        tuff_output(graph, names[i][2], gradient);
    }
}

/* Rows by index, elements each by its own index, and a scatter that adds to rows. */
static void add_lookups(tuff_graph *graph, tuff_tensor *table)
{
    tuff_tensor *rows = tuff_input(graph, "i", TUFF_I32, TUFF_SHAPE(30)),
                *each = tuff_input(graph, "j", TUFF_I32, TUFF_SHAPE(36, 20)),
                *source = tuff_input(graph, "t", TUFF_F32, TUFF_SHAPE(30, 48));
    tuff_tensor *column = tuff_expand(tuff_reshape(rows, TUFF_SHAPE(30, 1)), TUFF_SHAPE(30, 48));
    tuff_output(graph, "g0", tuff_exp(tuff_gather_rows(table, rows, 0)));
    tuff_output(graph, "g1", tuff_exp(tuff_gather(table, each, 1)));
    tuff_output(graph, "u", tuff_scatter_add(table, column, tuff_exp(source), 0));
}

/* A matmul after a reshape, with an epilogue; rows; columns; attention, with a bias too; slices; elements by index. */
static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(5, 24, 36)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(36, 48)),
                *b = tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(48));
    tuff_tensor *product = tuff_add(tuff_matmul(tuff_reshape(x, TUFF_SHAPE(120, 36)), w), b);
    tuff_tensor *y = tuff_reshape(tuff_gelu(product), TUFF_SHAPE(5, 24, 48));
    tuff_output(graph, "y", y);
    tuff_output(graph, "p", tuff_softmax(y, 2));
    tuff_output(graph, "c", tuff_sum(tuff_mul(y, y), (int[]){0, 1}, 2, false));
    tuff_tensor *heads = tuff_reshape(y, TUFF_SHAPE(5, 24, 6, 8));
    tuff_output(graph, "a", tuff_attention(heads, heads, heads, NULL));
    tuff_tensor *part = tuff_slice(y, (int64_t[]){0, 3, 0}, (int64_t[]){5, 20, 48}, (int64_t[]){1, 1, 1});
    tuff_output(graph, "s", tuff_exp(part));
    tuff_output(graph, "f", tuff_exp(tuff_reshape(tuff_neg(x), TUFF_SHAPE(120, 36))));
    add_biased(graph, heads);
    add_lookups(graph, w);
    return graph;
}

typedef struct compiled {
    tuff_device *device;
    tuff_graph *source, *simple;
    struct fusion fusion;
} compiled;

static void compile_as(tuff_graph *(*make)(tuff_device *), compiled *out)
{
    out->device = tuff_device_open("reference");
    assert_non_null(out->device);
    out->source = make(out->device);
    if (tuff_graph_status(out->source) != TUFF_OK)
        fail_msg("%s", tuff_graph_error(out->source));
    out->simple = tuff__simplify(out->source, false);
    assert_non_null(out->simple);
    assert_int_equal(tuff__fuse(out->simple, &default_options, MAX_BINDINGS, NULL, &out->fusion), TUFF_OK);
}

static void compile(compiled *out)
{
    compile_as(make_graph, out);
}

static void discard(compiled *one)
{
    tuff__fusion_free(&one->fusion);
    tuff_graph_destroy(one->simple);
    tuff_graph_destroy(one->source);
    tuff_device_close(one->device);
}

/* Returns a number that depends only on the node and the element; indices are in range. */
static double element(const node *source, int64_t at)
{
    if (source->outputs[0].dtype == TUFF_I32)
        return (double)((uint64_t)(at * 7919 + source->id * 104729) % 17);
    return (double)((uint64_t)(at * 7919 + source->id * 104729) % 17) / 8 - 1;
}

/* Returns the index in the whole node of element i of the excerpt. */
static int64_t place_of(const subgraph *self, const node *source, int64_t i)
{
    const tuff_shape shape = tuff__subgraph_shape(self, source), whole = source->outputs[0].shape;
    int64_t at = 0, stride = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        at += tuff__subgraph_task_index(self, source, axis, i % shape.extent[axis]) * stride;
        i /= shape.extent[axis];
        stride *= whole.extent[axis];
    }
    return at;
}

/* Evaluates an excerpt on the host; *out gets one block per root. */
static tuff_status evaluate(const subgraph *self, tuff_device *device, double **out)
{
    char name[16];
    tuff_graph *graph;
    reference_plan *plan;
    TRY(tuff__subgraph_graph(self, device, false, &graph));
    const tuff_status made = tuff__reference_create(graph, &plan);
    if (made != TUFF_OK) {
        tuff_graph_destroy(graph);
        return made;
    }
    tuff_status status = TUFF_OK;
    for (int i = 0; i < tuff__subgraph_read_count(self) && status == TUFF_OK; i++) {
        const node *at = tuff__subgraph_read(self, i);
        const int64_t count = tuff_shape_count(tuff__subgraph_shape(self, at));
        double *values = malloc(((size_t)count + 1) * sizeof *values);
        for (int64_t k = 0; k < count; k++)
            values[k] = element(at, place_of(self, at, k));
        status = tuff__reference_write_double(plan, tuff__subgraph_name('r', i, name), values);
        free(values);
    }
    if (status == TUFF_OK)
        status = tuff__reference_run(plan);
    for (int i = 0; i < tuff__subgraph_root_count(self) && status == TUFF_OK; i++) {
        const tuff_shape shape = tuff__subgraph_shape(self, tuff__subgraph_root(self, i));
        out[i] = calloc((size_t)tuff_shape_count(shape) + 1, sizeof **out);
        status = tuff__reference_read_double(plan, tuff__subgraph_name('o', i, name), out[i]);
    }
    tuff__reference_destroy(plan);
    return status;
}

static void expect_sample(const subgraph *self, tuff_device *device, double *const *whole)
{
    double *some[MAX_OUTPUTS] = {NULL};
    assert_int_equal(evaluate(self, device, some), TUFF_OK);
    for (int i = 0; i < tuff__subgraph_root_count(self); i++) {
        const node *at = tuff__subgraph_root(self, i);
        const int64_t count = tuff_shape_count(tuff__subgraph_shape(self, at));
        for (int64_t k = 0; k < count; k++) {
            const double expected = whole[i][place_of(self, at, k)];
            if (!(fabs(some[i][k] - expected) <= 1e-12 * fmax(1, fabs(expected))))
                fail_msg("%%%d, element %lld: %.17g, not %.17g", at->id, (long long)k, some[i][k], expected);
        }
        free(some[i]);
    }
}

static void samples_are_of_the_whole(void **state)
{
    (void)state;
    compiled one;
    int smaller = 0;
    compile(&one);
    for (int task = 0; task < one.fusion.task_count; task++) {
        subgraph *self;
        double *whole[MAX_OUTPUTS] = {NULL};
        assert_int_equal(tuff__subgraph_create(&one.fusion, task, &self), TUFF_OK);
        const double cost = tuff__subgraph_cost(self);
        assert_int_equal(evaluate(self, one.device, whole), TUFF_OK);
        for (int most = 16; most > 1; most /= 2) {
            assert_int_equal(tuff__subgraph_sample(self, most), TUFF_OK);
            assert_true(tuff__subgraph_cost(self) <= cost);
            expect_sample(self, one.device, whole);
        }
        smaller += tuff__subgraph_cost(self) < cost / 2;
        for (int i = 0; i < MAX_OUTPUTS; i++)
            free(whole[i]);
        tuff__subgraph_destroy(self);
    }
    print_message("%d of %d tasks can be sampled\n", smaller, one.fusion.task_count);
    assert_true(smaller > one.fusion.task_count / 2);
    discard(&one);
}

static bool has_place(const subgraph *self, const node *at, int axis, int64_t place)
{
    const int64_t count = tuff__subgraph_shape(self, at).extent[axis];
    for (int64_t i = 0; i < count; i++)
        if (tuff__subgraph_task_index(self, at, axis, i) == place)
            return true;
    return false;
}

/* A sample contains the ends and the middle of each axis, and each requested element, also through reshapes. */
static void samples_have_what_they_should(void **state)
{
    (void)state;
    compiled one;
    int sampled = 0;
    compile(&one);
    for (int task = 0; task < one.fusion.task_count; task++)
        for (int most = 16; most > 1; most /= 2) {
            subgraph *self;
            assert_int_equal(tuff__subgraph_create(&one.fusion, task, &self), TUFF_OK);
            const node *root = tuff__subgraph_root(self, 0);
            const tuff_shape shape = root->outputs[0].shape;
            assert_int_equal(tuff__subgraph_sample(self, most), TUFF_OK);
            for (int axis = 0; axis < shape.rank; axis++) {
                assert_true(has_place(self, root, axis, 0));
                assert_true(has_place(self, root, axis, shape.extent[axis] - 1));
                sampled += tuff__subgraph_shape(self, root).extent[axis] < shape.extent[axis];
            }
            int64_t place[TUFF_MAX_RANK] = {0};
            for (int axis = 0; axis < shape.rank; axis++)
                place[axis] = (shape.extent[axis] * 5 + axis) / 8;
            tuff__subgraph_require_sample(self, root, place);
            assert_int_equal(tuff__subgraph_sample(self, most), TUFF_OK);
            for (int axis = 0; axis < shape.rank; axis++)
                assert_true(has_place(self, root, axis, place[axis]));
            tuff__subgraph_destroy(self);
        }
    assert_true(sampled > 20);
    discard(&one);
}

static void extents_shrink_together(void **state)
{
    (void)state;
    compiled one;
    int smaller = 0;
    compile(&one);
    for (int task = 0; task < one.fusion.task_count; task++) {
        subgraph *self;
        double *out[MAX_OUTPUTS] = {NULL};
        assert_int_equal(tuff__subgraph_create(&one.fusion, task, &self), TUFF_OK);
        smaller += tuff__subgraph_shrink(self, 19);
        assert_int_equal(evaluate(self, one.device, out), TUFF_OK); /* fails if the shapes do not match */
        for (int i = 0; i < tuff__subgraph_root_count(self); i++) {
            const tuff_shape shape = tuff__subgraph_shape(self, tuff__subgraph_root(self, i));
            for (int axis = 0; axis < shape.rank; axis++)
                assert_true(shape.extent[axis] <= tuff__subgraph_root(self, i)->outputs[0].shape.extent[axis]);
            free(out[i]);
        }
        tuff__subgraph_destroy(self);
    }
    assert_true(smaller > one.fusion.task_count / 2);
    discard(&one);
}

/* An embedding of GPT's size with its gradient, and a bias of long sequences: too large for the host to evaluate
   whole. */
static tuff_graph *make_large(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape long_q = TUFF_SHAPE(2, 1024, 4, 64);
    tuff_tensor *table = tuff_input(graph, "t", TUFF_F32, TUFF_SHAPE(50257, 768)),
                *rows = tuff_input(graph, "i", TUFF_I32, TUFF_SHAPE(8192)),
                *source = tuff_input(graph, "s", TUFF_F32, TUFF_SHAPE(8192, 768)),
                *q = tuff_input(graph, "q", TUFF_F32, long_q),
                *bias = tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(1, 4, 1024, 1024));
    tuff_output(graph, "g", tuff_exp(tuff_gather_rows(table, rows, 0)));
    tuff_output(graph, "u", tuff_scatter_add_rows(table, rows, source, 0));
    tuff_output(graph, "a", tuff_attention(q, q, q, &(tuff_attention_options){.bias = bias}));
    return graph;
}

static void what_is_large_can_be_judged(void **state)
{
    (void)state;
    compiled one;
    int sampled = 0, ragged = 0;
    compile_as(make_large, &one);
    for (int task = 0; task < one.fusion.task_count; task++) {
        const task_kind kind = one.fusion.tasks[task].kind;
        subgraph *self;
        assert_int_equal(tuff__subgraph_create(&one.fusion, task, &self), TUFF_OK);
        assert_int_equal(tuff__subgraph_sample(self, 4), TUFF_OK); /* only the columns are sampled; all terms of a
                                                                      column are kept */
        sampled += kind != TASK_ATTENTION && tuff__subgraph_cost(self) < 3e6;
        ragged += tuff__subgraph_shrink(self, 67) && tuff__subgraph_cost(self) < 2e7;
        tuff__subgraph_destroy(self);
    }
    assert_int_equal(sampled, 2);
    assert_int_equal(ragged, one.fusion.task_count);
    discard(&one);
}

static tuff_status go_through(const compiled *one, int task)
{
    subgraph *self;
    tuff_graph *graph = NULL;
    TRY(tuff__subgraph_create(&one->fusion, task, &self));
    tuff_status status = tuff__subgraph_sample(self, 4);
    if (status == TUFF_OK)
        status = tuff__subgraph_graph(self, one->device, false, &graph);
    if (status == TUFF_OK) {
        tuff_graph_destroy(graph);
        (void)tuff__subgraph_shrink(self, 19);
    }
    tuff__subgraph_destroy(self);
    return status;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    compiled one;
    compile(&one);
    int failures = 0;
    for (int task = 0; task < one.fusion.task_count; task++)
        for (int64_t failing = 1;; failing++) {
            failing_memory_begin(failing, failing % 2);
            const tuff_status status = go_through(&one, task);
            const bool hit = failing_memory_end();
            assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
            if (!hit)
                break;
            failures++;
        }
    print_message("%d requests failed\n", failures);
    assert_true(failures > 50);
    discard(&one);
}

/* Reshapes of tensors without elements: the extents do not determine which axes correspond. */
static tuff_graph *make_empty(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(0, 3)),
                *y = tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(5, 0));
    tuff_output(graph, "turned", tuff_sum(tuff_exp(tuff_reshape(tuff_exp(x), TUFF_SHAPE(3, 0))), (int[]){1}, 1, false));
    tuff_output(graph, "other", tuff_sum(tuff_exp(tuff_reshape(tuff_exp(y), TUFF_SHAPE(0, 7))), (int[]){0}, 1, false));
    return graph;
}

static void what_is_empty_has_excerpts(void **state)
{
    (void)state;
    compiled one;
    compile_as(make_empty, &one);
    assert_true(one.fusion.task_count > 0);
    for (int task = 0; task < one.fusion.task_count; task++) {
        subgraph *self;
        assert_int_equal(tuff__subgraph_create(&one.fusion, task, &self), TUFF_OK);
        assert_int_equal(tuff__subgraph_sample(self, 4), TUFF_OK);
        tuff__subgraph_destroy(self);
    }
    discard(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_of_the_whole),   cmocka_unit_test(samples_have_what_they_should),
        cmocka_unit_test(extents_shrink_together),    cmocka_unit_test(what_is_large_can_be_judged),
        cmocka_unit_test(what_is_empty_has_excerpts), cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
