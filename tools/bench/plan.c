/* Plans as implementations. Operands are written once; a run is a replay, and the wait comes after the last run. */
#include "tools/bench/plan.h"

#include <string.h>

#include "base/thread.h"
#include "base/alloc.h"
#include "device/device.h"

static bench_operand *new_operand(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed)
{
    static bench_operand spare;
    if (self->operand_count == BENCH_OPERANDS) {
        self->status = FAIL(TUFF_E_LIMIT, "bench: a work has at most %d operands", BENCH_OPERANDS);
        return &spare;
    }
    bench_operand *made = &self->operands[self->operand_count++];
    *made = (bench_operand){.dtype = dtype, .shape = shape, .seed = seed};
    return made;
}

/* Truncates, like float_to_f16. */
static uint16_t float_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint16_t float_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff;
    if (exponent < 113) /* values that would be denormal become zero here */
        return (uint16_t)sign;
    return (uint16_t)(sign | ((exponent - 112) << 10) | (bits >> 13 & 0x3ff));
}

/* Returns the operand's values in their storage format; freed by the caller, NULL if out of memory. */
static void *values_of(const bench_operand *operand, size_t *size)
{
    const int64_t count = tuff_shape_count(operand->shape);
    *size = (size_t)count * tuff_dtype_size(operand->dtype);
    void *values = tuff__alloc(*size);
    for (int64_t i = 0; values && i < count; i++) {
        const float value = bench_value(operand->seed, i);
        if (operand->dtype == TUFF_F32)
            ((float *)values)[i] = value;
        else if (operand->dtype == TUFF_F16)
            ((uint16_t *)values)[i] = float_to_f16(value);
        else if (operand->dtype == TUFF_BF16)
            ((uint16_t *)values)[i] = float_to_bf16(value);
        else
            ((int32_t *)values)[i] = (int32_t)((double)(value + 1) * 0.5 * (double)operand->limit);
    }
    return values;
}

tuff_tensor *bench_input(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed)
{
    bench_operand *made = new_operand(self, dtype, shape, seed);
    snprintf(made->name, sizeof made->name, "x%d", self->operand_count);
    return tuff_input(self->graph, made->name, dtype, shape);
}

tuff_tensor *bench_operand_input(bench_plan *self, tuff_shape shape, uint32_t seed)
{
    static const tuff_dtype dtypes[] = {
        [TUFF_PRECISION_F32] = TUFF_F32, [TUFF_PRECISION_F16] = TUFF_F16, [TUFF_PRECISION_BF16] = TUFF_BF16};
    return tuff_cast(bench_input(self, dtypes[self->precision], shape, seed), TUFF_F32);
}

tuff_tensor *bench_indices(bench_plan *self, tuff_shape shape, int64_t limit, uint32_t seed)
{
    tuff_tensor *made = bench_input(self, TUFF_I32, shape, seed);
    self->operands[self->operand_count - 1].limit = limit;
    return made;
}

static tuff_status write_array(tuff_array *array, const bench_operand *operand)
{
    size_t size = 0;
    void *values = values_of(operand, &size);
    const tuff_status status = values ? tuff_array_write(array, values, size) : TUFF_E_OOM_HOST;
    tuff__free(values);
    return status;
}

tuff_tensor *bench_weight(bench_plan *self, tuff_dtype dtype, tuff_shape shape, uint32_t seed)
{
    const bench_operand *made = new_operand(self, dtype, shape, seed);
    tuff_array *array = self->status == TUFF_OK ? tuff_array_create(self->device, dtype, shape) : NULL;
    if (!array) {
        self->status = tuff_last_status();
        return tuff_constant(self->graph, dtype, 0);
    }
    self->arrays[self->array_count++] = array;
    self->status = write_array(array, made);
    return tuff_array_tensor(self->graph, array);
}

tuff_tensor *bench_backward(bench_plan *self, tuff_tensor *y, tuff_tensor *const *wrt, int count)
{
    tuff_tensor *gradients[BENCH_OPERANDS];
    char name[32];
    int axes[TUFF_MAX_RANK];
    const int rank = tuff_tensor_shape(y).rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    if (rank > 0)
        y = tuff_sum(tuff_mul(y, bench_input(self, TUFF_F32, tuff_tensor_shape(y), 99)), axes, rank, false);
    const tuff_status status = tuff_gradients(y, wrt, count, gradients);
    if (status != TUFF_OK) {
        self->status = status;
        return y;
    }
    for (int i = 1; i < count; i++) {
        snprintf(name, sizeof name, "gradient%d", i);
        tuff_output(self->graph, name, gradients[i]);
    }
    return gradients[0];
}

/* Measures only the submissions. Waits in between, outside the measured time, so that no call waits for room in the
   queue. */
static tuff_status submit_runs(const bench_plan *self, int count, bench_sample *sample)
{
    enum { AT_ONCE = 4 };
    uint64_t spent = 0;
    for (int i = 0; i < count; i++) {
        const uint64_t begin = tuff__nanoseconds();
        TRY(tuff_plan_run(self->plan));
        spent += tuff__nanoseconds() - begin;
        if (i % AT_ONCE == AT_ONCE - 1)
            TRY(tuff_plan_wait(self->plan));
    }
    sample->seconds = (double)spent * 1e-9;
    return tuff_plan_wait(self->plan);
}

static tuff_status plan_run(void *self, int count, bench_sample *sample)
{
    const bench_plan *made = self;
    if (made->only_submits)
        return submit_runs(made, count, sample);
    for (int i = 0; i < count; i++) {
        TRY(tuff_plan_run(made->plan));
        if (made->waits)
            TRY(tuff_plan_wait(made->plan));
    }
    return tuff_plan_wait(made->plan);
}

static tuff_status plan_read(void *self, float *values, int64_t count)
{
    return tuff_plan_read(((bench_plan *)self)->plan, "result", values, (size_t)count * sizeof *values);
}

static void plan_destroy(void *object)
{
    bench_plan *self = object;
    if (!self)
        return;
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    for (int i = 0; i < self->array_count; i++)
        tuff_array_destroy(self->arrays[i]);
    tuff__free(self);
}

static tuff_status write_inputs(bench_plan *self)
{
    for (int i = 0; i < self->operand_count; i++) {
        size_t size = 0;
        if (!self->operands[i].name[0])
            continue;
        void *values = values_of(&self->operands[i], &size);
        const tuff_status status =
            values ? tuff_plan_write(self->plan, self->operands[i].name, values, size) : TUFF_E_OOM_HOST;
        tuff__free(values);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status build_plan(bench_plan *self, const tuff_compile_options *options, bench_builder build,
                              const void *problem)
{
    tuff_compile_options precise = *options;
    precise.precision = self->precision;
    self->graph = tuff_graph_create(self->device);
    if (!self->graph)
        return tuff_last_status();
    build(self, problem);
    TRY(self->status);
    tuff_output(self->graph, "result", self->result);
    self->plan = tuff_compile(self->graph, &precise);
    return self->plan ? write_inputs(self) : tuff_last_status();
}

static tuff_status add_plan(bench *self, bench_work *work, bench_implementation *item,
                            const tuff_compile_options *options, bench_builder build, const void *problem)
{
    bench_plan *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return tuff_last_status();
    item->self = made;
    item->run = plan_run;
    item->read = plan_read;
    item->destroy = plan_destroy;
    made->device = self->device;
    made->precision = (tuff_precision)self->precision;
    TRY(build_plan(made, options, build, problem));
    if (work->result_count == 0)
        work->result_count = tuff_shape_count(tuff_tensor_shape(made->result));
    return TUFF_OK;
}

tuff_status bench_plan_add(bench *self, bench_work *work, const char *name, tuff_fuse_mode fuse, bench_builder build,
                           const void *problem)
{
    const tuff_compile_options options = {.fuse = fuse, .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    return add_plan(self, work, bench_add(work, BENCH_TUFF, name), &options, build, problem);
}

const char *bench_clblast_missing_reason(const bench *self)
{
    return tuff__device_library_unavailable_reason(self->device);
}

tuff_status bench_plan_add_clblast(bench *self, bench_work *work, bench_builder build, const void *problem)
{
    const tuff_compile_options options = {.matmul_library = TUFF_MATMUL_CLBLAST};
    if (bench_clblast_missing_reason(self))
        return TUFF_OK;
    return add_plan(self, work, bench_add(work, BENCH_PEER, "CLBlast"), &options, build, problem);
}

tuff_status bench_plan_compare(bench_work *work, const tuff_plan *baseline, const tuff_plan *tuned)
{
    uint64_t hashes[2][2];
    TRY(tuff_plan_hash(baseline, hashes[0]));
    TRY(tuff_plan_hash(tuned, hashes[1]));
    bench_add_fact(work, "tuning changed the plan", memcmp(hashes[0], hashes[1], sizeof hashes[0]) != 0, "");
    return TUFF_OK;
}

tuff_status bench_plan_add_tuned(bench *self, bench_work *work, bench_builder build, const void *problem)
{
    tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    if (self->tune.mode < TUFF_TUNE_QUICK)
        return TUFF_OK;
    tuning_apply(&self->tune, &options);
    const tuff_status status =
        add_plan(self, work, bench_add(work, BENCH_TUFF, "tuff, tuned"), &options, build, problem);
    if (status != TUFF_OK)
        return status;
    const bench_plan *baseline = work->items[work->count - 2].self, *tuned = work->items[work->count - 1].self;
    (void)tuning_end(&self->tune, tuned->plan);
    return bench_plan_compare(work, baseline->plan, tuned->plan);
}

tuff_status bench_plan_facts(bench_work *work)
{
    const bench_implementation *item = &work->items[work->count - 1];
    const bench_plan *made = item->self;
    tuff_plan_info info;
    char name[96];
    TRY(tuff_plan_describe(made->plan, &info));
    snprintf(name, sizeof name, "%s: dispatches", item->name);
    bench_add_fact(work, name, info.dispatch_count, "");
    snprintf(name, sizeof name, "%s: intermediates", item->name);
    bench_add_fact(work, name, (double)info.memory_peak, "B");
    return TUFF_OK;
}

tuff_status bench_plan_pair_facts(bench_work *work, const tuff_plan *fused, const tuff_plan *unfused)
{
    const tuff_plan *const plans[] = {fused, unfused};
    static const char *const names[][2] = {{"dispatches", "memory of intermediates, peak"},
                                           {"dispatches, unfused", "memory of intermediates, unfused"}};
    for (int i = 0; i < 2; i++) {
        tuff_plan_info info;
        TRY(tuff_plan_describe(plans[i], &info));
        bench_add_fact(work, names[i][0], info.dispatch_count, "");
        bench_add_fact(work, names[i][1], (double)info.memory_peak, "B");
    }
    return TUFF_OK;
}

tuff_status bench_plan_add_both(bench *self, bench_work *work, bench_builder build, const void *problem)
{
    TRY(bench_plan_add(self, work, "tuff", TUFF_FUSE_ALL, build, problem));
    TRY(bench_plan_add_tuned(self, work, build, problem));
    return bench_plan_add(self, work, "tuff, unfused", TUFF_FUSE_NONE, build, problem);
}
