/* The reasons to reject candidates, on a device of each API. The test simulates kernels that omit results, write beyond
   the buffer, differ from run to run, or round slightly differently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "failing_memory.h"
#include "fusions.h"
#include "measure/oracle.h"
#include "measure/candidate_run.h"
#include "tuff/nn.h"

/* Not a multiple of the guards' size. */
enum { COUNT = 999, BEYOND = 256 };
static const tuff_compile_options default_options = {.fuse = TUFF_FUSE_ALL};

/* The results of a task with one output, where its kernels would write them. */
typedef struct place {
    tuff_device *device;
    test_buffers *on;
    const memory_buffer *results;
    float right[COUNT];
    bool is_exact; /* the task's results do not depend on the order of its sums */
    int tasks;
} place;

static void write_at(const place *at, int64_t offset, const void *data, size_t size)
{
    const uint64_t start = (uint64_t)((int64_t)at->results->offset + offset);
    assert_int_equal(tuff__storage_write(at->device, at->results->storage, start, data, size), TUFF_OK);
}

/* Simulates a correct run; the caller then changes something. */
static void play(const place *at)
{
    assert_int_equal(tuff__test_buffers_poison(at->on), TUFF_OK);
    write_at(at, 0, at->right, sizeof at->right);
}

static void expect(const place *at, bool exactly, const char *says)
{
    char wrong[128] = "?";
    assert_int_equal(tuff__test_buffers_compare(at->on, exactly, wrong, sizeof wrong), TUFF_OK);
    if (says == NULL ? wrong[0] != '\0' : strstr(wrong, says) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", says == NULL ? "" : says, wrong);
}

static void each_left_out_element_is_seen(const place *at)
{
    const uint32_t poison = 0x7FE1DEADu;
    static const int indices[] = {0, 1, 500, COUNT - 1};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        play(at);
        write_at(at, 4 * (int64_t)indices[i], &poison, sizeof poison);
        expect(at, false, "is not written");
    }
    assert_int_equal(tuff__test_buffers_poison(at->on), TUFF_OK); /* a kernel that does nothing */
    expect(at, false, "element 0 is not written");
}

/* Any single word before or after the results. */
static void each_word_beyond_is_seen(const place *at)
{
    static const int64_t places[] = {
        -BEYOND, -128, -4, 4 * (int64_t)COUNT, 4 * (int64_t)COUNT + 100, 4 * (int64_t)COUNT + BEYOND - 4};
    const float stray = 1.5f;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint32_t guard;
        play(at);
        expect(at, false, NULL);
        const uint64_t start = (uint64_t)((int64_t)at->results->offset + places[i]);
        assert_int_equal(tuff__storage_read(at->device, at->results->storage, start, &guard, sizeof guard), TUFF_OK);
        write_at(at, places[i], &stray, sizeof stray);
        expect(at, false, "outside a buffer");
        expect(at, true, "outside a buffer");
        write_at(at, places[i], &guard, sizeof guard);
        expect(at, false, NULL);
    }
}

static void runs_that_differ_are_seen(const place *at)
{
    play(at);
    expect(at, false, NULL);
    play(at);
    expect(at, true, NULL);
    float other; /* the nearest other float */
    uint32_t bits;
    memcpy(&bits, &at->right[COUNT - 1], sizeof bits);
    bits ^= 1;
    memcpy(&other, &bits, sizeof other);
    play(at);
    write_at(at, 4 * (int64_t)(COUNT - 1), &other, sizeof other);
    expect(at, true, "two runs differ");
    play(at);
    write_at(at, 4 * (int64_t)(COUNT - 1), &other, sizeof other);
    expect(at, false, at->is_exact ? "element 998 is" : NULL); /* else this counts as rounding */
}

static void wrong_numbers_are_seen(const place *at)
{
    static const float factors[] = {1.001f, 0.0f, -1.0f};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const float wrong = at->right[7] * factors[i];
        play(at);
        write_at(at, 28, &wrong, sizeof wrong);
        expect(at, false, "element 7 is");
    }
    const uint32_t endless = 0x7F800000u, nan = 0x7FC00000u;
    play(at);
    write_at(at, 0, &endless, sizeof endless);
    expect(at, false, "element 0 is");
    play(at);
    write_at(at, 0, &nan, sizeof nan);
    expect(at, false, "element 0 is");
}

static void try_task(const struct fusion *fusion, int task, const char *key, void *state)
{
    place *at = state;
    launch_list made;
    const tune_config none = {.set = {0}};
    (void)key;
    at->tasks++;
    assert_int_equal(tuff__test_buffers_create(at->device, fusion, task, 1 << 20, &at->on), TUFF_OK);
    if (!at->is_exact)
        tuff__test_buffers_use_full_significands(at->on); /* results may then differ by rounding */
    assert_int_equal(tuff__lower_task(at->device, fusion, &default_options, task, &none, NULL, &made), TUFF_OK);
    assert_int_equal(tuff__test_buffers_place(at->on, &made), TUFF_OK);
    at->results = &made.buffers[fusion->tasks[task].roots[0]->id];
    assert_int_equal(tuff__buffer_size(at->results), sizeof at->right);
    for (int i = 0; i < COUNT; i++)
        at->right[i] = (float)(i % 5 + 1) / 3;
    play(at);
    assert_int_equal(tuff__test_buffers_keep(at->on), TUFF_OK);
    expect(at, false, NULL);
    each_left_out_element_is_seen(at);
    each_word_beyond_is_seen(at);
    runs_that_differ_are_seen(at);
    wrong_numbers_are_seen(at);
    tuff__test_buffers_destroy(at->on);
    tuff__launch_list_free(&made);
}

static uint64_t structure_of(const tune_key *key)
{
    return key->structure;
}

static void play_kernels(tuff_device *device)
{
    for (int exact = 0; exact < 2; exact++) {
        place at = {.device = device, .is_exact = exact};
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, exact ? TUFF_SHAPE(3, 8) : TUFF_SHAPE(COUNT)),
                    *y = tuff_input(graph, "y", TUFF_F32, exact ? TUFF_SHAPE(8, COUNT / 3) : TUFF_SHAPE(COUNT));
        tuff_output(graph, "z", exact ? tuff_matmul(x, y) : tuff_mul(x, y));
        for_each_task(graph, &default_options, structure_of, try_task, &at);
        assert_int_equal(at.tasks, 1);
    }
}

static void what_is_wrong_with_a_run_is_seen(void **state)
{
    (void)state;
    for_drawn_api(0, play_kernels);
}

/* The random data for a graph's one task include negative numbers unless an op forbids them. */
typedef struct data_seen {
    tuff_device *device;
    bool has_negative, has_positive;
} data_seen;

static void check_data(const struct fusion *fusion, int task, const char *key, void *state)
{
    data_seen *seen = state;
    test_buffers *on;
    launch_list made;
    const tune_config none = {.set = {0}};
    (void)key;
    assert_int_equal(tuff__test_buffers_create(seen->device, fusion, task, 1 << 20, &on), TUFF_OK);
    assert_int_equal(tuff__lower_task(seen->device, fusion, &default_options, task, &none, NULL, &made), TUFF_OK);
    assert_int_equal(tuff__test_buffers_place(on, &made), TUFF_OK);
    for (int i = 0; i < fusion->tasks[task].read_count; i++)
        for (int k = 0; k < COUNT; k++) {
            double value = 0;
            assert_true(tuff__test_buffers_read_input(on, fusion->tasks[task].reads[i]->id, k, &value));
            seen->has_negative |= value < 0;
            seen->has_positive |= value > 0;
        }
    tuff__test_buffers_destroy(on);
    tuff__launch_list_free(&made);
}

static data_seen data_of(tuff_device *device, tuff_tensor *(*op)(tuff_tensor *x))
{
    data_seen seen = {.device = device};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", op(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(COUNT))));
    for_each_task(graph, &default_options, structure_of, check_data, &seen);
    assert_true(seen.has_positive);
    return seen;
}

static void check_signs(tuff_device *device)
{
    assert_true(data_of(device, tuff_gelu).has_negative);
    assert_true(data_of(device, tuff_relu).has_negative);
    assert_false(data_of(device, tuff_log).has_negative);
    assert_false(data_of(device, tuff_rsqrt).has_negative);
}

static void kernels_meet_both_signs(void **state)
{
    (void)state;
    for_drawn_api(1, check_signs);
}

/* An oracle that runs out of host memory reports that, and says nothing about the kernel: for every allocation. */
typedef tuff_status (*oracle_call)(const place *at, const struct fusion *fusion, int task, char *wrong, size_t size);

static tuff_status judge_as_it_is(const place *at, const struct fusion *fusion, int task, char *wrong, size_t size)
{
    return tuff__oracle_check(at->device, at->on, fusion, task, wrong, size);
}

static tuff_status judge_at_odd_extents(const place *at, const struct fusion *fusion, int task, char *wrong,
                                        size_t size)
{
    const tune_config none = {.set = {0}};
    return tuff__oracle_check_ragged(at->device, fusion, &default_options, task, &none, at->on, wrong, size);
}

/* A driver whose results are all wrong: an oracle that finds no error did not check. */
static driver lying;

static tuff_status read_nonsense(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                 uint64_t size)
{
    (void)device, (void)buffer, (void)offset;
    memset(data, 0x47, size);
    return TUFF_OK;
}

/* Each allocation fails once. If its failure has no effect, the oracle must have checked the results. */
static void run_out(const place *at, const struct fusion *fusion, int task, oracle_call call, bool is_wrong)
{
    int failures = 0;
    for (int64_t failing = 1;; failing++) {
        char wrong[128] = "?";
        failing_memory_begin(failing, failing % 2);
        const tuff_status status = call(at, fusion, task, wrong, sizeof wrong);
        const int64_t left = failing_memory_live();
        const bool hit = failing_memory_end(), has_looked = status == TUFF_OK && is_wrong == (wrong[0] != '\0');
        if (!has_looked && !(hit && status == TUFF_E_OOM_HOST && wrong[0] == '\0'))
            fail_msg("request %lld: %s, \"%s\"", (long long)failing, tuff_status_name(status), wrong);
        assert_true(left == 0 || is_wrong); /* buffers of the device are created and destroyed */
        failures += status != TUFF_OK;
        if (!hit)
            break;
    }
    print_message("    %d requests failed\n", failures);
    assert_true(failures > 20);
}

static void run_oracle_out_of_memory(const struct fusion *fusion, int task, const char *key, void *state)
{
    place *at = state;
    candidate_run *one;
    const tune_config none = {.set = {0}};
    char wrong[128];
    (void)key;
    at->tasks++;
    assert_int_equal(tuff__test_buffers_create(at->device, fusion, task, 64 << 20, &at->on), TUFF_OK);
    assert_int_equal(lower_and_create(at->device, fusion, task, &none, at->on, &one), TUFF_OK);
    assert_int_equal(tuff__test_buffers_poison(at->on), TUFF_OK);
    assert_int_equal(tuff__candidate_run_once(one), TUFF_OK);
    assert_int_equal(tuff__test_buffers_keep(at->on), TUFF_OK);
    assert_int_equal(judge_at_odd_extents(at, fusion, task, wrong, sizeof wrong), TUFF_OK); /* compiles its programs */
    run_out(at, fusion, task, judge_as_it_is, false);
    const driver *const real = at->device->driver;
    lying = *real;
    lying.buffer_read = read_nonsense;
    at->device->driver = &lying;
    run_out(at, fusion, task, judge_at_odd_extents, true);
    at->device->driver = real;
    tuff__candidate_run_destroy(one);
    tuff__test_buffers_destroy(at->on);
}

/* So many elements that they are sampled. */
static void run_out_on(tuff_device *device)
{
    place at = {.device = device};
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape shape = TUFF_SHAPE(1024, 640);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, shape), *y = tuff_input(graph, "y", TUFF_F32, shape);
    tuff_output(graph, "z", tuff_mul(tuff_exp(x), tuff_reshape(y, shape)));
    for_each_task(graph, &default_options, structure_of, run_oracle_out_of_memory, &at);
    assert_int_equal(at.tasks, 1);
}

static void memory_of_the_oracle_may_run_out(void **state)
{
    (void)state;
    for_drawn_api(2, run_out_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_a_run_is_seen),
        cmocka_unit_test(kernels_meet_both_signs),
        cmocka_unit_test(memory_of_the_oracle_may_run_out),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
