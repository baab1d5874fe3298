/* Ops over the rows of a matrix, forward and backward, against the copy kernel. Data that must be read or written is
   counted once. Backward takes the input and the gradient of the output, and computes the gradients of the input, gain
   and bias. */
#include "tools/bench/plan.h"

#define EPSILON 1e-5

typedef struct row_op {
    const char *name;
    tuff_tensor *(*build)(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, tuff_tensor *targets);
    int parameters; /* 1: gain; 2: gain and bias */
    bool has_targets;
    double forward, backward; /* number of matrices moved through memory */
} row_op;

typedef struct row_work {
    const row_op *op;
    int64_t rows, columns;
    bool backward;
} row_work;

static tuff_tensor *softmax(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, tuff_tensor *targets)
{
    (void)gain, (void)bias, (void)targets;
    return tuff_softmax(x, -1);
}

static tuff_tensor *layer_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, tuff_tensor *targets)
{
    (void)targets;
    return tuff_layer_norm(x, gain, bias, 1, EPSILON);
}

static tuff_tensor *rms_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, tuff_tensor *targets)
{
    (void)bias, (void)targets;
    return tuff_rms_norm(x, gain, 1, EPSILON);
}

static tuff_tensor *cross_entropy(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, tuff_tensor *targets)
{
    (void)gain, (void)bias;
    return tuff_cross_entropy(x, targets, -1, 0);
}

static void build_rows(bench_plan *self, const void *problem)
{
    const row_work *work = problem;
    const row_op *op = work->op;
    tuff_tensor *wrt[3] = {bench_input(self, TUFF_F32, TUFF_SHAPE(work->rows, work->columns), 1)};
    for (int i = 1; i <= op->parameters; i++)
        wrt[i] = bench_weight(self, TUFF_F32, TUFF_SHAPE(work->columns), (uint32_t)i + 1);
    tuff_tensor *targets = op->has_targets ? bench_indices(self, TUFF_SHAPE(work->rows), work->columns, 7) : NULL;
    tuff_tensor *y = op->build(wrt[0], wrt[1], wrt[2], targets);
    self->result = work->backward ? bench_backward(self, y, wrt, 1 + op->parameters) : y;
}

static tuff_status measure_rows(bench *self, const row_work *one)
{
    bench_work work;
    if (!bench_begin(self, &work, "norms", "%s%s %dx%d", one->op->name, one->backward ? " backward" : "",
                     (int)one->rows, (int)one->columns))
        return TUFF_OK;
    work.bytes =
        4.0 * (double)one->rows * (double)one->columns * (one->backward ? one->op->backward : one->op->forward);
    return bench_run_work(self, &work, bench_plan_add_both(self, &work, build_rows, one));
}

tuff_status bench_norms(bench *self)
{
    static const row_op ops[] = {{"softmax", softmax, 0, false, 2, 3},
                                 {"layer norm", layer_norm, 2, false, 2, 3},
                                 {"rms norm", rms_norm, 1, false, 2, 3},
                                 {"cross-entropy", cross_entropy, 0, true, 1, 2}};
    static const int shapes[][2] = {{4096, 4096}, {65536, 384}}, quick[][2] = {{64, 100}};
    const int(*const list)[2] = self->quick ? quick : shapes;
    const int count = self->quick ? 1 : 2;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int k = 0; k < count; k++)
            for (int backward = 0; backward < 2; backward++)
                TRY(measure_rows(self, &(row_work){&ops[i], list[k][0], list[k][1], backward != 0}));
    return TUFF_OK;
}
