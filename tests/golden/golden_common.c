/* Comparison with golden files: lines of output, and the elements of a file's tensors. */
#include "golden_common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"

void golden_row(golden_run *run, const char *tuning_task, const char *quantity, double deviation, double bar)
{
    const bool good = deviation <= bar;
    printf("%-26s %-28s %10.3g of %-8.3g %s\n", tuning_task, quantity, deviation, bar, good ? "ok" : "FAILED");
    if (good)
        run->passed++;
    else
        run->failed++;
}

void golden_broken(golden_run *run, const char *tuning_task)
{
    printf("%-26s FAILED: %s\n", tuning_task, tuff_error());
    run->failed++;
}

void golden_skip(golden_run *run, const char *tuning_task, const char *why)
{
    printf("%-26s skipped: %s\n", tuning_task, why);
    run->skipped++;
}

double golden_worse(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

double golden_element(const tuff_file_tensor *tensor, int64_t index)
{
    const size_t size = tuff_dtype_size(tensor->dtype);
    const unsigned char *at = (const unsigned char *)tensor->data + (size_t)index * size;
    double value = 0;
    if (tensor->dtype == TUFF_F64)
        memcpy(&value, at, sizeof value);
    else
        tuff__to_double(tensor->dtype, at, 1, &value);
    return value;
}

int64_t golden_count(const tuff_file_tensor *tensor)
{
    return tuff_shape_count(tensor->shape);
}

bool golden_find(const tuff_file *file, const char *prefix, const char *name, tuff_file_tensor *out)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return tuff_file_find(file, whole, out) == TUFF_OK;
}
