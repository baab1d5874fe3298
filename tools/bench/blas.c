/* OpenBLAS, or whichever BLAS is installed, as an implementation. It is loaded at run time; if there is none, the
   report says so, which is not an error. */
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "tools/bench/bench.h"

/* From cblas.h, where the values of the enumerations are fixed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void sgemm_function(int layout, int a_form, int b_form, int m, int n, int k, float alpha, const float *a,
                            int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);
typedef void sgemv_function(int layout, int form, int m, int n, float alpha, const float *a, int a_stride,
                            const float *x, int x_step, float beta, float *y, int y_step);

typedef struct blas {
    sgemm_function *sgemm;
    sgemv_function *sgemv;
    char name[64];
} blas;

typedef struct blas_product {
    bench_product product;
    float *a, *b, *c;
} blas_product;

/* Assigns a symbol to a function pointer: ISO C has no cast from the object pointer that dlsym returns. */
#define FUNCTION_OF(library, name, into)                        \
    do {                                                        \
        void *found_ = tuff__library_symbol((library), (name)); \
        *(void **)&(into) = found_;                             \
    } while (0)

/* Keeps name and version of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
static void name_blas(const char *configuration, char *name, size_t size)
{
    snprintf(name, size, "%s", configuration ? configuration : "BLAS (libblas.so.3)");
    char *blank = configuration ? strchr(name, ' ') : NULL;
    blank = blank ? strchr(blank + 1, ' ') : NULL;
    if (blank)
        *blank = 0;
}

static const blas *find_blas(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libblas.so.3"};
    static blas found;
    static bool tried;
    if (!tried) {
        const char *(*configuration)(void) = NULL;
        void *library = tuff__library_open(names, 2);
        tried = true;
        FUNCTION_OF(library, "cblas_sgemm", found.sgemm);
        FUNCTION_OF(library, "cblas_sgemv", found.sgemv);
        FUNCTION_OF(library, "openblas_get_config", configuration);
        name_blas(configuration ? configuration() : NULL, found.name, sizeof found.name);
    }
    return found.sgemm && found.sgemv ? &found : NULL;
}

const char *bench_blas_missing_reason(void)
{
    return find_blas() ? NULL : "OpenBLAS: cannot open libopenblas.so.0 or libblas.so.3 (Debian: libopenblas0)";
}

/* A single row is a matrix-vector product, for which BLAS has its own function. */
static tuff_status blas_run(void *self, int count, bench_sample *sample)
{
    const blas_product *p = self;
    const blas *library = find_blas();
    const int m = (int)p->product.m, n = (int)p->product.n, k = (int)p->product.k;
    const bool at = p->product.a_transposed, bt = p->product.b_transposed;
    (void)sample;
    for (int i = 0; i < count; i++) {
        if (m == 1)
            library->sgemv(ROW_MAJOR, bt ? NO_TRANSPOSE : TRANSPOSE, bt ? n : k, bt ? k : n, 1, p->b, bt ? k : n, p->a,
                           1, 0, p->c, 1);
        else
            library->sgemm(ROW_MAJOR, at ? TRANSPOSE : NO_TRANSPOSE, bt ? TRANSPOSE : NO_TRANSPOSE, m, n, k, 1, p->a,
                           at ? m : k, p->b, bt ? k : n, 0, p->c, n);
    }
    return TUFF_OK;
}

static tuff_status blas_read(void *self, float *values, int64_t count)
{
    const blas_product *p = self;
    for (int64_t i = 0; i < count; i++)
        values[i] = p->c[i];
    return TUFF_OK;
}

static void blas_destroy(void *self)
{
    blas_product *p = self;
    if (!p)
        return;
    tuff__free(p->a);
    tuff__free(p->b);
    tuff__free(p->c);
    tuff__free(p);
}

tuff_status bench_blas_add(bench_work *work, const bench_product *product)
{
    if (!find_blas())
        return TUFF_OK;
    bench_implementation *item = bench_add(work, BENCH_PEER, find_blas()->name);
    blas_product *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return tuff_last_status();
    item->self = made;
    item->run = blas_run;
    item->read = blas_read;
    item->destroy = blas_destroy;
    made->product = *product;
    made->a = tuff__alloc((size_t)(product->m * product->k) * sizeof(float));
    made->b = tuff__alloc((size_t)(product->k * product->n) * sizeof(float));
    made->c = tuff__calloc((size_t)(product->m * product->n), sizeof(float));
    if (!made->a || !made->b || !made->c)
        return TUFF_E_OOM_HOST;
    bench_fill(made->a, product->m * product->k, 1);
    bench_fill(made->b, product->k * product->n, 2);
    return TUFF_OK;
}
