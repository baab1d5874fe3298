/* Matrix products: B as an input, whose packing is part of the time, or as an array, which the compiler may pack once;
   A or B transposed; one row times many columns, in f32 and f16. */
#include "tools/bench/plan.h"

typedef struct product_work {
    bench_product product;
    bool weight;
    tuff_dtype dtype; /* of B */
} product_work;

static tuff_tensor *transposed_if(tuff_tensor *x, bool transposed)
{
    static const int order[] = {1, 0};
    return transposed ? tuff_permute(x, order) : x;
}

static void build_product(bench_plan *self, const void *problem)
{
    const product_work *work = problem;
    const bench_product *product = &work->product;
    const tuff_shape a_shape =
        product->a_transposed ? TUFF_SHAPE(product->k, product->m) : TUFF_SHAPE(product->m, product->k);
    const tuff_shape b_shape =
        product->b_transposed ? TUFF_SHAPE(product->n, product->k) : TUFF_SHAPE(product->k, product->n);
    tuff_tensor *a = bench_operand_input(self, a_shape, 1);
    tuff_tensor *b = work->weight              ? bench_weight(self, work->dtype, b_shape, 2)
                     : work->dtype == TUFF_F32 ? bench_operand_input(self, b_shape, 2)
                                               : bench_input(self, work->dtype, b_shape, 2);
    if (work->dtype != TUFF_F32)
        b = tuff_cast(b, TUFF_F32);
    self->result = tuff_matmul(transposed_if(a, product->a_transposed), transposed_if(b, product->b_transposed));
}

static tuff_status add_all(bench *self, bench_work *work, product_work *product)
{
    product->weight = false;
    TRY(bench_plan_add(self, work, "tuff", TUFF_FUSE_ALL, build_product, product));
    TRY(bench_plan_add_tuned(self, work, build_product, product));
    product->weight = true;
    TRY(bench_plan_add(self, work, "tuff, B a weight", TUFF_FUSE_ALL, build_product, product));
    if (product->dtype != TUFF_F32 || self->precision != TUFF_PRECISION_F32)
        return TUFF_OK;
    TRY(bench_blas_add(work, &product->product));
    return bench_plan_add_clblast(self, work, build_product, product);
}

static tuff_status measure_product(bench *self, product_work *product)
{
    const bench_product *matmul = &product->product;
    const double m = (double)matmul->m, n = (double)matmul->n, k = (double)matmul->k;
    bench_work work;
    if (!bench_begin(self, &work, "matmul", "%dx%dx%d%s%s%s", (int)matmul->m, (int)matmul->n, (int)matmul->k,
                     matmul->a_transposed ? " A^T" : "", matmul->b_transposed ? " B^T" : "",
                     product->dtype == TUFF_F16 ? " f16" : ""))
        return TUFF_OK;
    work.operations = 2 * m * n * k;
    work.bytes = 4 * (m * k + m * n) + k * n * (double)tuff_dtype_size(product->dtype);
    if (self->precision == TUFF_PRECISION_F32)
        work.tolerance = product->dtype == TUFF_F32 ? 1e-4 : 1e-3;
    return bench_run_work(self, &work, add_all(self, &work, product));
}

/* Measures the product as is, with A transposed, and with B transposed. */
static tuff_status measure_transposed(bench *self, int64_t m, int64_t n, int64_t k)
{
    for (int form = 0; form < 3; form++) {
        product_work product = {.product = {m, n, k, form == 1, form == 2}};
        TRY(measure_product(self, &product));
    }
    return TUFF_OK;
}

tuff_status bench_matmul(bench *self)
{
    static const int shapes[][3] = {{256, 256, 256},    {512, 512, 512},   {1024, 1024, 1024},
                                    {2048, 2048, 2048}, {512, 2304, 768},  {512, 3072, 768},
                                    {512, 768, 3072},   {1024, 1152, 384}, {12, 32, 65536}};
    product_work row = {.product = {1, 50257, 768, false, false}}, half = {.product = {1, 50257, 768, false, false}};
    half.dtype = TUFF_F16;
    if (self->quick)
        return measure_transposed(self, 64, 64, 64);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        TRY(measure_transposed(self, shapes[i][0], shapes[i][1], shapes[i][2]));
    for (int64_t side = 4096; side <= 8192 && self->info.device_class == TUFF_DEVICE_GPU_DISCRETE; side *= 2)
        TRY(measure_transposed(self, side, side, side));
    TRY(measure_product(self, &row));
    return measure_product(self, &half);
}
