/* The computation of vulkan_interop.c and opencl_interop.c: the application's step writes x, tuff computes y = gelu(x w
   + b), and the step turns it into 2 y + i % 17, which the host checks. */
#ifndef TUFF_EXAMPLES_INTEROP_MODEL_H
#define TUFF_EXAMPLES_INTEROP_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tuff.h>

enum { ROWS = 64, INNER = 96, COLUMNS = 128 };

static float w[INNER][COLUMNS], b[COLUMNS];

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, *tuff_error() ? tuff_error() : "failed");
    exit(1);
}

static void fill_weights(void)
{
    for (int k = 0; k < INNER; k++)
        for (int j = 0; j < COLUMNS; j++)
            w[k][j] = (float)((k * 7 + j * 3) % 11 - 5) / 64;
    for (int j = 0; j < COLUMNS; j++)
        b[j] = (float)(j % 5 - 2) / 4;
}

static tuff_plan *compile(tuff_graph *graph, tuff_array *x, tuff_array *y)
{
    tuff_tensor *weight = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_tensor *bias = tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(COLUMNS));
    tuff_tensor *sum = tuff_add(tuff_matmul(tuff_array_tensor(graph, x), weight), bias);
    (void)tuff_assign(graph, y, tuff_gelu(sum));
    tuff_plan *plan = tuff_compile(graph, NULL);
    need(plan != NULL, "tuff_compile");
    need(tuff_plan_write(plan, "w", w, sizeof w) == TUFF_OK, "w");
    need(tuff_plan_write(plan, "b", b, sizeof b) == TUFF_OK, "b");
    return plan;
}

/* Returns the largest difference from the same computation in double on the host. */
static double check(const float *result)
{
    double worst = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double sum = b[j];
            for (int k = 0; k < INNER; k++)
                sum += 0.125 * ((i * INNER + k) % 17) * w[k][j];
            const double y = 0.5 * sum * (1 + erf(sum * sqrt(0.5)));
            worst = fmax(worst, fabs(2 * y + (i * COLUMNS + j) % 17 - result[i * COLUMNS + j]));
        }
    return worst;
}

/* Prints the result and returns the exit code. */
static int report(double worst)
{
    printf("%d numbers, the largest difference is %.1e\n", ROWS * COLUMNS, worst);
    return worst < 1e-3 ? 0 : 1;
}

#endif
