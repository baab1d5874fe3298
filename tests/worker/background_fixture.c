/* A plan that is tuned in the background, under the test's control: see background_fixture.h. */
#include "background_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "worker/background.h"
#include "autotune/session.h"
#include "tune_fixture.h"

const char *const remembered_product = "matmul.copy_y=2;matmul_register.packed_rows=4;task.family=1";
const char *const remembered_row = "row_register.local_size=2;task.family=1;task.lanes=4";

static float x_at(int i)
{
    return (float)(i % 13 - 6) / 8;
}

static float w_at(int i)
{
    return (float)(i % 11 - 5) / 16;
}

void plan_begin(subject_plan *self, tuff_device *device)
{
    *self = (subject_plan){.device = device};
    self->w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(PLAN_INNER, PLAN_COLUMNS));
    self->count = tuff_array_create(device, TUFF_F32, TUFF_SCALAR);
    self->graph = tuff_graph_create(device);
    if (!self->w || !self->count || !self->graph)
        fail_msg("%s", tuff_error());
    plan_write_w(self, 1);
    tuff_graph *graph = self->graph;
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(PLAN_ROWS, PLAN_INNER));
    tuff_tensor *y = tuff_gelu(tuff_matmul(x, tuff_array_tensor(graph, self->w)));
    tuff_tensor *one = tuff_constant(graph, TUFF_F32, 1);
    tuff_output(graph, "y", y);
    tuff_output(graph, "p", tuff_softmax(y, 1));
    tuff_output(graph, "count", tuff_assign(graph, self->count, tuff_add(tuff_array_tensor(graph, self->count), one)));
}

bool plan_compile(subject_plan *self, const tuff_compile_options *options)
{
    self->plan = tuff_compile(self->graph, options);
    return self->plan;
}

void plan_write_x(subject_plan *self)
{
    float x[PLAN_ROWS * PLAN_INNER];
    for (int i = 0; i < PLAN_ROWS * PLAN_INNER; i++)
        x[i] = x_at(i);
    assert_int_equal(tuff_plan_write(self->plan, "x", x, sizeof x), TUFF_OK);
}

void plan_write_w(subject_plan *self, float scale)
{
    float w[PLAN_INNER * PLAN_COLUMNS];
    self->scale = scale;
    for (int i = 0; i < PLAN_INNER * PLAN_COLUMNS; i++)
        w[i] = scale * w_at(i);
    assert_int_equal(tuff_array_write(self->w, w, sizeof w), TUFF_OK);
}

/* Computes y and p on the host. */
static void compute(float scale, double *out)
{
    double *p = out + PLAN_ROWS * PLAN_COLUMNS;
    for (int i = 0; i < PLAN_ROWS; i++) {
        double sum = 0;
        for (int j = 0; j < PLAN_COLUMNS; j++) {
            double y = 0;
            for (int k = 0; k < PLAN_INNER; k++)
                y += (double)x_at(i * PLAN_INNER + k) * (double)(scale * w_at(k * PLAN_COLUMNS + j));
            y = y / 2 * (1 + erf(y / sqrt(2)));
            out[i * PLAN_COLUMNS + j] = y;
            sum += p[i * PLAN_COLUMNS + j] = exp(y);
        }
        for (int j = 0; j < PLAN_COLUMNS; j++)
            p[i * PLAN_COLUMNS + j] /= sum;
    }
}

void plan_read(subject_plan *self, float *out)
{
    const size_t half = sizeof *out * PLAN_RESULTS / 2;
    assert_int_equal(tuff_plan_read(self->plan, "y", out, half), TUFF_OK);
    assert_int_equal(tuff_plan_read(self->plan, "p", out + PLAN_RESULTS / 2, half), TUFF_OK);
}

void plan_run(subject_plan *self, int count)
{
    static double expected[PLAN_RESULTS];
    static float results[PLAN_RESULTS];
    float counted = 0;
    if (tuff_plan_run(self->plan) != TUFF_OK)
        fail_msg("%s", tuff_error());
    compute(self->scale, expected);
    plan_read(self, results);
    for (int i = 0; i < PLAN_RESULTS; i++)
        if (!(fabs(results[i] - expected[i]) <= 1e-5))
            fail_msg("result %d is %.9g, not %.9g", i, (double)results[i], expected[i]);
    assert_int_equal(tuff_plan_read(self->plan, "count", &counted, sizeof counted), TUFF_OK);
    assert_true(counted == (float)count);
    assert_int_equal(tuff_array_read(self->count, &counted, sizeof counted), TUFF_OK);
    assert_true(counted == (float)count);
}

void plan_end(subject_plan *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_array_destroy(self->w);
    tuff_array_destroy(self->count);
    self->plan = NULL;
}

tuff_tune_stats plan_stats(const subject_plan *self)
{
    tuff_tune_stats stats;
    assert_int_equal(tuff_plan_tune_stats(self->plan, &stats), TUFF_OK);
    return stats;
}

tuff_tune_stats plan_await(const subject_plan *self)
{
    const uint64_t begin = tuff__nanoseconds();
    tuff_tune_stats stats = plan_stats(self);
    while (stats.background_keys_left > 0 && tuff__nanoseconds() - begin < 120000 * MILLISECOND) {
        tuff__sleep(5 * MILLISECOND);
        stats = plan_stats(self);
    }
    assert_int_equal(stats.background_keys_left, 0);
    return stats;
}

static void add_winner(tune_store *store, const char *environment, const char *key, const char *candidate)
{
    char kernel_hash[KERNEL_HASH_SIZE];
    tune_record win = tuff__record_make(RECORD_WIN, environment, key, candidate);
    tune_key parsed;
    assert_int_equal(tuff__key_parse(key, &parsed), TUFF_OK);
    win.kernel_hash = tuff__kernel_hash(parsed.family, kernel_hash);
    win.samples = 10;
    win.default_nanoseconds = 2000;
    for (int i = 0; i < 3; i++)
        win.nanoseconds[i] = 1000;
    assert_int_equal(tuff__store_add(store, &win), TUFF_OK);
}

void plan_remember(subject_plan *self)
{
    char environment[ENVIRONMENT_SIZE];
    tune_store *store = open_device_store(self->device, environment);
    assert_int_equal(tuff__store_set_environment(store, environment), TUFF_OK);
    int found = 0;
    for (int i = 0; i < tuff_plan_key_count(self->plan); i++) {
        tuff_plan_key_info key;
        assert_int_equal(tuff_plan_key(self->plan, i, &key), TUFF_OK);
        const bool is_product = strncmp(key.key, "matmul ", 7) == 0, is_row = strncmp(key.key, "row ", 4) == 0;
        const char *candidate = is_product ? remembered_product : is_row ? remembered_row : "";
        found += is_product || is_row;
        add_winner(store, environment, key.key, candidate);
    }
    assert_int_equal(found, 2);
    tuff__store_close(store);
}

void forget_stores(void)
{
    char line[600];
    (void)snprintf(line, sizeof line, "rm -rf '%s/tune'", cache_folder());
    assert_int_equal(system(line), 0);
}

void lock_device(tuff_device *device, file_lock *out)
{
    tuning_session session = {.device = device};
    tuff__environment_from_info(tuff__device_info(device), &session.environment);
    assert_true(tuff__session_try_lock_device(&session, out));
    assert_true(out->fd >= 0);
}

void set_idle(uint64_t nanoseconds)
{
    atomic_store(&tuff__background_idle, nanoseconds);
}
