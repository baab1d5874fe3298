/* Computes gelu(x·w + b) in one fused kernel on any device, and prints it beside the result of a plain C loop.
   Usage: gelu [DEVICE], for example "opencl:0" or "vulkan". */
#include <math.h>
#include <stdio.h>
#include <tuff.h>

enum { ROWS = 64, INNER = 48, COLUMNS = 32 };

static float x[ROWS][INNER], w[INNER][COLUMNS], b[COLUMNS], y[ROWS][COLUMNS];

static double plain(int row, int column)
{
    double sum = b[column];
    for (int k = 0; k < INNER; k++)
        sum += (double)x[row][k] * (double)w[k][column];
    return 0.5 * sum * (1 + erf(sum / sqrt(2)));
}

static void fill(float *values, int count, double scale)
{
    for (int i = 0; i < count; i++)
        values[i] = (float)(scale * sin(i * 12.9898 + count));
}

static tuff_plan *compile(tuff_graph *graph)
{
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER));
    tuff_tensor *weight = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_tensor *bias = tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(COLUMNS));
    tuff_output(graph, "y", tuff_gelu(tuff_add(tuff_matmul(input, weight), bias)));
    return tuff_compile(graph, NULL);
}

int main(int count, char **words)
{
    fill(&x[0][0], ROWS * INNER, 1);
    fill(&w[0][0], INNER * COLUMNS, 0.3);
    fill(b, COLUMNS, 0.1);

    tuff_device *device = tuff_device_open(count > 1 ? words[1] : NULL);
    tuff_graph *graph = device ? tuff_graph_create(device) : NULL;
    tuff_plan *plan = graph ? compile(graph) : NULL;
    if (!plan || tuff_plan_write(plan, "x", x, sizeof x) || tuff_plan_write(plan, "w", w, sizeof w) ||
        tuff_plan_write(plan, "b", b, sizeof b) || tuff_plan_run(plan) || tuff_plan_read(plan, "y", y, sizeof y)) {
        fprintf(stderr, "gelu: %s: %s\n", tuff_status_name(tuff_last_status()), tuff_error());
        return 1;
    }

    double worst = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            worst = fmax(worst, fabs((double)y[row][column] - plain(row, column)));
    for (int column = 0; column < 4; column++)
        printf("y[0][%d]: %.6f, plain C: %.6f\n", column, (double)y[0][column], plain(0, column));
    printf("largest difference of %d elements: %.1e\n", ROWS * COLUMNS, worst);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
    return worst < 1e-5 ? 0 : 1;
}
