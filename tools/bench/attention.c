/* Causal attention, forward, and forward with backward: tuff_attention against the same composed of matmuls, a mask and
   a softmax, fused and unfused. Only half of the square of scores is counted. Also the last query alone, as when a
   model generates text. */
#include <math.h>

#include "tools/bench/plan.h"

typedef struct attention_work {
    int64_t batch, heads, width, length, queries;
    bool backward, composed;
} attention_work;

static tuff_tensor *swap_axes(tuff_tensor *x, int a, int b)
{
    int order[] = {0, 1, 2, 3};
    order[a] = b;
    order[b] = a;
    return tuff_permute(x, order);
}

/* q, k and v are [B,T,H,D]. */
static tuff_tensor *compose_attention(bench_plan *self, tuff_tensor *const *qkv, const attention_work *work)
{
    const tuff_shape square = TUFF_SHAPE(work->queries, work->length);
    tuff_tensor *q = swap_axes(qkv[0], 1, 2), *k = swap_axes(qkv[1], 1, 2), *v = swap_axes(qkv[2], 1, 2);
    tuff_tensor *scale = tuff_constant(self->graph, TUFF_F32, 1 / sqrt((double)work->width));
    tuff_tensor *scores = tuff_mul(tuff_matmul(q, swap_axes(k, 2, 3)), scale);
    if (work->queries > 1) {
        tuff_tensor *later = tuff_less(tuff_iota(self->graph, square, 0), tuff_iota(self->graph, square, 1));
        scores = tuff_where(later, tuff_constant(self->graph, TUFF_F32, -INFINITY), scores);
    }
    return swap_axes(tuff_matmul(tuff_softmax(scores, -1), v), 1, 2);
}

static void build_attention(bench_plan *self, const void *problem)
{
    const attention_work *work = problem;
    tuff_tensor *qkv[3];
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? work->queries : work->length;
        qkv[i] = bench_operand_input(self, TUFF_SHAPE(work->batch, rows, work->heads, work->width), (uint32_t)i + 1);
    }
    tuff_tensor *y = work->composed ? compose_attention(self, qkv, work)
                                    : tuff_attention(qkv[0], qkv[1], qkv[2], &(tuff_attention_options){.causal = true});
    if (work->backward)
        tuff_output(self->graph, "y", y);
    self->result = work->backward ? bench_backward(self, y, qkv, 3) : y;
}

/* Bytes of the inputs and outputs: the least memory traffic possible. */
static double operand_bytes(const attention_work *work)
{
    const double heads = 4.0 * (double)(work->batch * work->heads), width = (double)work->width;
    const double queries = heads * (double)work->queries, keys = heads * (double)work->length;
    return (work->backward ? 2 : 1) * (2 * queries + 2 * keys) * width + queries;
}

static tuff_status add_forms(bench *self, bench_work *work, attention_work *attended, bool all)
{
    TRY(bench_plan_add(self, work, "tuff", TUFF_FUSE_ALL, build_attention, attended));
    TRY(bench_plan_add_tuned(self, work, build_attention, attended));
    TRY(bench_plan_facts(work));
    bench_add_fact(work, "inputs, outputs, log-sum-exp", operand_bytes(attended), "B");
    if (!all)
        return TUFF_OK;
    attended->composed = true;
    TRY(bench_plan_add(self, work, "written out", TUFF_FUSE_ALL, build_attention, attended));
    TRY(bench_plan_facts(work));
    TRY(bench_plan_add(self, work, "written out, unfused", TUFF_FUSE_NONE, build_attention, attended));
    return bench_plan_facts(work);
}

static tuff_status measure_length(bench *self, int64_t batch, int64_t heads, int64_t width, int64_t length, bool all)
{
    for (int backward = 0; backward < 2; backward++) {
        attention_work attended = {batch, heads, width, length, length, backward != 0, false};
        bench_work work;
        if (!bench_begin(self, &work, "attention", "B%d H%d D%d T%d%s", (int)batch, (int)heads, (int)width, (int)length,
                         backward ? " backward too" : ""))
            continue;
        work.operations =
            2.0 * (double)(batch * heads * width) * (double)length * (double)length * (backward ? 3.5 : 1);
        work.bytes = operand_bytes(&attended);
        TRY(bench_run_work(self, &work, add_forms(self, &work, &attended, all)));
    }
    return TUFF_OK;
}

static tuff_status measure_last_query(bench *self, int64_t batch, int64_t heads, int64_t width, int64_t length)
{
    attention_work attended = {batch, heads, width, length, 1, false, false};
    bench_work work;
    if (!bench_begin(self, &work, "attention", "B%d H%d D%d T%d last query", (int)batch, (int)heads, (int)width,
                     (int)length))
        return TUFF_OK;
    work.operations = 4.0 * (double)(batch * heads * width) * (double)length;
    work.bytes = operand_bytes(&attended);
    return bench_run_work(self, &work, add_forms(self, &work, &attended, true));
}

/* Composed of single ops, a length of 8192 needs gigabytes for scores that a model does not read afterwards. There only
   tuff_attention is measured. */
tuff_status bench_attention(bench *self)
{
    if (self->quick) {
        TRY(measure_length(self, 1, 2, 16, 40, true));
        return measure_last_query(self, 1, 2, 16, 40);
    }
    for (int64_t length = 256; length <= 2048; length *= length == 256 ? 4 : 2)
        TRY(measure_length(self, 4, 6, 64, length, true));
    for (int64_t width = 64; width <= 128 && self->info.device_class == TUFF_DEVICE_GPU_DISCRETE; width *= 2)
        TRY(measure_length(self, 4, 16, width, 2048, false));
    TRY(measure_last_query(self, 1, 12, 64, 4096));
    TRY(measure_last_query(self, 16, 12, 64, 4096));
    return measure_length(self, 1, 6, 64, 8192, false);
}
