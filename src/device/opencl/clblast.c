/* Matrix products by CLBlast, which is opened at run time, after an OpenCL loader was found, and never linked. */
#include <string.h>

#include "base/library.h"
#include "base/thread.h"
#include "device/opencl/api.h"

/* From clblast_c.h: the values of its enumerations are fixed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

clblast_api tuff__clblast;

static void load(void)
{
    static const char *const names[] = {"libclblast.so.1", "libclblast.so"};
    void *library = tuff__library_open(names, 2);
#define X(name, symbol)                                                        \
    {                                                                          \
        void *found = library ? tuff__library_symbol(library, #symbol) : NULL; \
        memcpy(&tuff__clblast.name, &found, sizeof tuff__clblast.name);        \
    }
    CLBLAST_CALLS(X)
#undef X
}

const char *tuff__cl_library_unavailable_reason(driver_device *device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)device;
    tuff__once(&once, load);
    const clblast_api *all = &tuff__clblast;
    return all->sgemm && all->sgemv && all->sgemm_batched && all->clear_cache && all->override
               ? NULL
               : "cannot open CLBlast: install libclblast.so.1 with CLBlastSgemmStridedBatched (Debian: libclblast1)";
}

/* CLBlast keeps programs, and with them contexts, until its cache is cleared. */
void tuff__cl_library_clear_cache(const driver_device *device)
{
    if (device->used_library)
        (void)tuff__clblast.clear_cache();
}

typedef struct operand {
    cl_mem memory;
    size_t start, line, step;
    int form;
} operand;

static operand operand_of(const command *work, int index)
{
    const buffer_binding *binding = &work->bindings[index];
    const library_matrix *matrix = &work->product.matrices[index];
    return (operand){.memory = binding->buffer->memory,
                     .start = (size_t)(binding->offset / sizeof(float)) + (size_t)matrix->start,
                     .line = (size_t)matrix->line,
                     .step = (size_t)matrix->step,
                     .form = matrix->transposed ? TRANSPOSE : NO_TRANSPOSE};
}

/* Returns the stride between the elements of a vector, which are one line in memory if its form is `lengthwise`, else
   one per line. */
static size_t vector_stride(const operand *side, int lengthwise)
{
    return side->form == lengthwise ? 1 : side->line;
}

/* Computes a result of one row or one column, with contiguous elements, as matrix · vector. The `m` and `n` of sgemv
   are the lines of the matrix in memory and their elements. */
static int multiply_vector(const library_product *product, const operand *x, const operand *y, const operand *result,
                           cl_command_queue *queue, cl_event *event)
{
    const size_t rows = (size_t)product->rows, columns = (size_t)product->columns, inner = (size_t)product->inner;
    const bool row = product->rows == 1;
    const operand *matrix = row ? y : x, *vector = row ? x : y;
    const size_t length = row ? columns : rows;
    const bool results_are_lines = row == (matrix->form == TRANSPOSE);
    return tuff__clblast.sgemv(ROW_MAJOR, results_are_lines ? NO_TRANSPOSE : TRANSPOSE,
                               results_are_lines ? length : inner, results_are_lines ? inner : length, 1,
                               matrix->memory, matrix->start, matrix->line, vector->memory, vector->start,
                               vector_stride(vector, row ? NO_TRANSPOSE : TRANSPOSE), 0, result->memory, result->start,
                               1, queue, event);
}

/* CLBlast's sgemv adds 0 times the old contents of the result, which may be NaN, so they are cleared. */
static int clear(const operand *result, size_t count, cl_command_queue queue)
{
    const float zero = 0;
    return tuff__cl.EnqueueFillBuffer(queue, result->memory, &zero, sizeof zero, result->start * sizeof zero,
                                      count * sizeof zero, 0, NULL, NULL);
}

static int multiply(const command *work, cl_command_queue *queue, cl_event *event)
{
    const library_product *gemm = &work->product;
    const operand x = operand_of(work, 0), y = operand_of(work, 1), result = operand_of(work, 2);
    const size_t m = (size_t)gemm->rows, n = (size_t)gemm->columns, k = (size_t)gemm->inner;
    if (gemm->batches > 1)
        return tuff__clblast.sgemm_batched(ROW_MAJOR, x.form, y.form, m, n, k, 1, x.memory, x.start, x.line, x.step,
                                           y.memory, y.start, y.line, y.step, 0, result.memory, result.start,
                                           result.line, result.step, (size_t)gemm->batches, queue, event);
    if (m == 1 || (n == 1 && result.line == 1)) {
        const int error = clear(&result, m * n, *queue);
        return error != CL_SUCCESS ? error : multiply_vector(gemm, &x, &y, &result, queue, event);
    }
    return tuff__clblast.sgemm(ROW_MAJOR, x.form, y.form, m, n, k, 1, x.memory, x.start, x.line, y.memory, y.start,
                               y.line, 0, result.memory, result.start, result.line, queue, event);
}

tuff_status tuff__cl_library_enqueue(const command *work, cl_command_queue queue, cl_event *event)
{
    const library_product *gemm = &work->product;
    if (event)
        *event = NULL;
    const int error = multiply(work, &queue, event);
    /* OpenCL's errors are passed on, also those of its vendors; CLBlast's own are below -1000. */
    if (error != 0 && (error > -1000 || tuff__cl_is_known_error(error)))
        return tuff__cl_fail(error, "CLBlast");
    if (error != 0 || (event && !*event))
        return FAIL(TUFF_E_UNSUPPORTED, "CLBlast: a matmul of %lld x %lld x %lld failed with error %d%s",
                    (long long)gemm->rows, (long long)gemm->columns, (long long)gemm->inner, error,
                    error ? "" : " and no event");
    return TUFF_OK;
}
