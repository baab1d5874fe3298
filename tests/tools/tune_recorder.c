/* Recordings made by bench/recorder/recorder.h on simulated devices whose times are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "bench/recorder/recorder.h"
#include "bench/recorder/replay.h"
#include "bench/recorder/tasks.h"
#include "tests/search/fault_evaluator.h"

static const tune_config defaults;

static void begin(recording *recorded)
{
    assert_int_equal(recording_begin(recorded, "made-up", "a device", &defaults, 0), TUFF_OK);
}

static recorder_counts record(fault_device *device, int points, const tune_config *also, int also_count,
                              recording *into)
{
    const evaluator by = fault_begin(device);
    const recorder_settings settings = {
        .points = points, .samples = 5, .seconds = 1e6, .extra = also, .extra_count = also_count, .seed = 3};
    recorder_counts counts;
    assert_int_equal(recorder_run(&by, &settings, into, &counts), TUFF_OK);
    assert_int_equal(device->broken, 0);
    assert_int_equal(device->live_count, 0);
    assert_true(device->live_most <= SEARCH_SLOTS);
    return counts;
}

/* Returns the largest relative error of a recorded median, normalized by the default's time. */
static double worst_error(const fault_device *device, const recording *recorded)
{
    const double here = (double)recording_find(recorded, &defaults)->median,
                 there = (double)fault_time(device, &defaults);
    double worst = 0;
    for (int i = 0; i < recorded->count; i++) {
        const recorded_point *one = &recorded->points[i];
        if (one->result != EVALUATION_GOOD)
            continue;
        const double error = (double)one->median / here / ((double)fault_time(device, &one->config) / there) - 1;
        worst = error > worst ? error : -error > worst ? -error : worst;
    }
    return worst;
}

static void times_are_those_of_the_device(void **state)
{
    (void)state;
    fault_device device = {.scatter = 0.01, .seed = 5};
    recording recorded;
    begin(&recorded);
    const recorder_counts counts = record(&device, 120, NULL, 0, &recorded);
    assert_int_equal(recorded.count, 120);
    assert_int_equal(counts.added, 120);
    assert_int_equal(counts.known + counts.rejected, 0);
    assert_true(counts.not_lowered > 0);
    assert_int_equal(tuff__config_count(&recorded.points[0].config), 0);
    assert_true(tuff__config_count(&recorded.defaults) == 5);
    for (int i = 0; i < recorded.count; i++)
        assert_int_equal(recorded.points[i].count, 5);
    assert_true(worst_error(&device, &recorded) < 0.04);
    recording_free(&recorded);
}

/* A device that becomes twice as slow halfway, and whose clock then drifts. */
static void drift_is_taken_out(void **state)
{
    (void)state;
    fault_device device = {.scatter = 0.01, .seed = 6, .step_at = 900, .step_factor = 2, .drift = 1e-5};
    recording recorded;
    begin(&recorded);
    const recorder_counts counts = record(&device, 120, NULL, 0, &recorded);
    assert_true(counts.drift > 1.8);
    assert_true(worst_error(&device, &recorded) < 0.08);
    recording_free(&recorded);
}

static void rejected_ones_are_written_with_the_reason(void **state)
{
    (void)state;
    fault_device device = {.seed = 7, .share = {[FAULT_WRONG] = 0.1, [FAULT_RACES] = 0.1, [FAULT_COMPILE] = 0.1}};
    recording recorded;
    int found[EVALUATION_COUNT] = {0};
    begin(&recorded);
    const recorder_counts counts = record(&device, 150, NULL, 0, &recorded);
    for (int i = 0; i < recorded.count; i++) {
        static const tune_evaluation expected[FAULT_COUNT] = {
            [FAULT_WRONG] = EVALUATION_WRONG, [FAULT_RACES] = EVALUATION_RACE, [FAULT_COMPILE] = EVALUATION_COMPILE};
        assert_int_equal(recorded.points[i].result, expected[fault_of(&device, &recorded.points[i].config)]);
        assert_int_equal(recorded.points[i].count > 0, recorded.points[i].result == EVALUATION_GOOD);
        found[recorded.points[i].result]++;
    }
    assert_true(found[EVALUATION_WRONG] > 2 && found[EVALUATION_RACE] > 2 && found[EVALUATION_COMPILE] > 2);
    assert_int_equal(counts.rejected, recorded.count - found[EVALUATION_GOOD]);
    recording_free(&recorded);
}

static void a_wrong_default_ends_it(void **state)
{
    (void)state;
    fault_device device = {.default_fault = FAULT_WRONG};
    const evaluator by = fault_begin(&device);
    const recorder_settings settings = {.points = 20, .samples = 5, .seconds = 1e6};
    recorder_counts counts;
    recording recorded;
    begin(&recorded);
    assert_int_equal(recorder_run(&by, &settings, &recorded, &counts), TUFF_E_NUMERIC);
    assert_int_equal(recorded.count, 0);
    assert_int_equal(device.live_count, 0);
    recording_free(&recorded);
}

/* A search on the recording comes as close to the best as one on the device. */
static void what_a_search_climbs_is_in_it(void **state)
{
    (void)state;
    fault_device device = {.scatter = 0.01, .seed = 8};
    recording recorded;
    begin(&recorded);
    record(&device, 150, NULL, 0, &recorded);
    double share = 0;
    int64_t asked = 0, unrecorded = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        replay table;
        search *self;
        search_result found;
        const evaluator by = replay_begin(&table, &recorded, seed + 1);
        const search_settings settings = {.patience = -1, .max_compiles = 48, .seed = seed};
        assert_int_equal(tuff__search_begin(&by, &settings, &self), TUFF_OK);
        assert_int_equal(tuff__search_step(self, 48), TUFF_OK);
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        tuff__search_end(self);
        assert_int_equal(table.broken + replay_live_count(&table), 0);
        share += (double)recording_best(&recorded) / (double)recording_find(&recorded, &found.winner)->median / 10;
        asked += table.lowered;
        unrecorded += table.unrecorded;
    }
    print_message("%.3f of the best; %lld of %lld candidates were not recorded\n", share, (long long)unrecorded,
                  (long long)asked);
    assert_true(share > 0.95);
    assert_true(unrecorded > 0 && unrecorded < asked);
    recording_free(&recorded);
}

/* Recorded points are kept, and new ones are comparable with them even though the device has become slower. */
static void a_recording_is_added_to(void **state)
{
    (void)state;
    fault_device fast = {.scatter = 0.005, .seed = 9}, slow = {.scatter = 0.005, .seed = 9, .step_factor = 3};
    slow.step_at = 1;
    recording recorded;
    tune_config also[3] = {defaults, defaults, defaults};
    begin(&recorded);
    record(&fast, 40, NULL, 0, &recorded);
    int count = 0;
    for (int rows = 2; rows <= 16 && count < 3; rows *= 2) {
        tuff__config_set(&also[count], TUNABLE_matmul_register_tile_rows, rows);
        tuff__config_set(&also[count], TUNABLE_matmul_gemv_step_k, 4);
        count += recording_find(&recorded, &also[count]) == NULL;
    }
    assert_int_equal(count, 3);
    const recorder_counts counts = record(&slow, 40, also, count, &recorded);
    assert_int_equal(counts.known, 40);
    assert_true(counts.added > 0 && counts.added <= 3);
    assert_int_equal(recorded.count, 40 + counts.added);
    assert_true(worst_error(&fast, &recorded) < 0.05);
    recording_free(&recorded);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    int64_t failing = 1;
    for (bool failed = true; failed; failing++) {
        fault_device device = {.seed = 10};
        const evaluator by = fault_begin(&device);
        const recorder_settings settings = {.points = 20, .samples = 2, .seconds = 1e6};
        recorder_counts counts;
        recording recorded;
        begin(&recorded);
        failing_memory_begin(failing, failing % 2);
        const tuff_status status = recorder_run(&by, &settings, &recorded, &counts);
        recording made = recorded;
        failed = failing_memory_hit();
        assert_int_equal(status, failed ? TUFF_E_OOM_HOST : TUFF_OK);
        assert_int_equal(made.count > 0, !failed);
        assert_int_equal(device.live_count, 0);
        if (!failed)
            recording_free(&recorded);
        (void)failing_memory_end();
        if (failed)
            recording_free(&recorded);
    }
    assert_true(failing > 5);
}

/* Names contain the family, and none occurs twice. */
static void tasks_are_named_by_their_family(void **state)
{
    (void)state;
    for (const record_task *task = record_tasks; task->name; task++) {
        const size_t length = strlen(task->family);
        assert_int_equal(strncmp(task->name, task->family, length), 0);
        assert_int_equal(task->name[length], '-');
        for (const record_task *other = record_tasks; other != task; other++)
            assert_string_not_equal(other->name, task->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_the_device),
        cmocka_unit_test(drift_is_taken_out),
        cmocka_unit_test(rejected_ones_are_written_with_the_reason),
        cmocka_unit_test(a_wrong_default_ends_it),
        cmocka_unit_test(what_a_search_climbs_is_in_it),
        cmocka_unit_test(a_recording_is_added_to),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(tasks_are_named_by_their_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
