/* The tuner's evaluator on kernels that do not do their work correctly, on a device of each API. The driver's table is
   replaced, and the memory that a run wrote is modified after it, so that the kernels of a task, whatever they are,
   seem to omit elements, store zeros, write into other buffers, differ from run to run, or be wrong for other extents
   only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "autotune/plan_tasks.h"
#include "autotune/session.h"
#include "small_plans.h"

/* The change to the last result of a recording; to the largest if one kernel has several. */
typedef enum fault_kind {
    NOTHING,
    LEAVE_OUT, /* elements keep the values from before the run */
    ZERO,      /* elements are 0 */
    DIFFER     /* in every other run the lowest bit of each element is flipped */
} fault_kind;

static struct {
    fault_kind kind;
    uint64_t first, count;   /* elements of four bytes, relative to the result; beyond its end nothing is changed */
    uint64_t least, most;    /* bytes of the results that are changed; most 0: any size */
    int64_t beside;          /* bytes from the result to the place of the change */
    uint64_t slow_part;      /* nanoseconds that commands with as few groups as a part seem to take; 0: unchanged */
    int timeouts;            /* number of waits that time out before one succeeds */
    int submissions, wholes; /* of recordings with dispatches; those that ran all groups */
    uint64_t groups;         /* of the first of these */
} fault;

typedef struct noted {
    driver_recording *recorded;
    buffer_binding result;
    uint64_t groups;
    int commands;
} noted;

static driver real, faulty;
static noted recordings[512];
static int recording_count;

static noted *find_recording(const driver_recording *recorded)
{
    for (int i = recording_count - 1; i >= 0; i--)
        if (recordings[i].recorded == recorded)
            return &recordings[i];
    return NULL;
}

static tuff_status record_noting(driver_device *device, const command *commands, int count, bool timed,
                                 driver_recording **out)
{
    const tuff_status status = real.recording_create(device, commands, count, timed, out);
    noted entry = {.recorded = status == TUFF_OK ? *out : NULL, .commands = count};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < commands[i].binding_count && commands[i].kind == COMMAND_DISPATCH; k++) {
            entry.groups += k == 0 ? commands[i].group_count : 0;
            if (commands[i].bindings[k].written && commands[i].bindings[k].size >= entry.result.size)
                entry.result = commands[i].bindings[k];
        }
    if (entry.recorded != NULL && entry.result.size > 0)
        recordings[recording_count++ % (int)(sizeof recordings / sizeof *recordings)] = entry;
    return status;
}

static tuff_status change(driver_device *device, driver_recording *of_run, const noted *entry)
{
    const uint64_t start = entry->result.offset + (uint64_t)fault.beside + 4 * fault.first;
    const size_t size = 4 * (size_t)fault.count;
    char *bytes = calloc(1, size);
    assert_non_null(bytes);
    tuff_status status =
        fault.kind == LEAVE_OUT ? real.buffer_read(device, entry->result.buffer, start, bytes, size) : TUFF_OK;
    if (status == TUFF_OK)
        status = real.submit(device, of_run);
    if (status == TUFF_OK && fault.kind == DIFFER)
        status = real.buffer_read(device, entry->result.buffer, start, bytes, size);
    for (size_t i = 0; i < size && fault.kind == DIFFER; i += 4)
        bytes[i] ^= (char)(fault.submissions % 2);
    if (status == TUFF_OK)
        status = real.buffer_write(device, entry->result.buffer, start, bytes, size);
    free(bytes);
    return status;
}

static tuff_status submit_with_fault(driver_device *device, driver_recording *of_run)
{
    const noted *entry = find_recording(of_run);
    if (entry == NULL)
        return real.submit(device, of_run);
    if (fault.submissions++ == 0)
        fault.groups = entry->groups;
    fault.wholes += entry->groups > fault.groups;
    const bool is_hit = fault.kind != NOTHING && entry->result.size >= fault.least &&
                        (fault.most == 0 || entry->result.size <= fault.most) &&
                        4 * (fault.first + fault.count) <= entry->result.size;
    return is_hit ? change(device, of_run, entry) : real.submit(device, of_run);
}

static tuff_status read_faulty_times(driver_device *device, driver_recording *of_run, uint64_t *nanoseconds)
{
    const noted *entry = find_recording(of_run);
    const tuff_status status = real.timestamps(device, of_run, nanoseconds);
    for (int i = 0; entry != NULL && i < entry->commands && fault.slow_part > 0 && entry->groups <= fault.groups; i++)
        nanoseconds[i] = fault.slow_part;
    return fault.slow_part > 0 ? TUFF_OK : status;
}

static tuff_status wait_too_long(driver_device *device)
{
    if (fault.timeouts == 0)
        return real.wait(device);
    fault.timeouts--;
    return tuff__fail(TUFF_E_TIMEOUT, "the wait timed out");
}

static void begin_fault(tuff_device *device)
{
    memset(&fault, 0, sizeof fault);
    recording_count = 0;
    real = *device->driver;
    faulty = real;
    faulty.recording_create = record_noting;
    faulty.submit = submit_with_fault;
    faulty.timestamps = read_faulty_times;
    faulty.wait = wait_too_long;
    device->driver = &faulty;
}

/* The evaluator of one task of a graph, with its default compiled. */
typedef struct stage {
    tuff_device *device;
    tuff_graph *graph;
    tuff_plan *plan;
    plan_tasks *tasks;
    evaluator by;
    search_candidate defaults, other;
} stage;

static void open_stage(tuff_device *device, tuff_graph *graph, const char *family, stage *out)
{
    const tuff_compile_options off = {.fuse = TUFF_FUSE_ALL, .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    int chosen = -1;
    *out = (stage){.device = device, .graph = graph, .other = {.slot = 1}};
    out->plan = tuff_compile(graph, &off);
    if (out->plan == NULL)
        fail_msg("%s", tuff_error());
    begin_fault(device);
    assert_int_equal(tuff__plan_tasks_create(out->plan, &out->tasks), TUFF_OK);
    for (int i = 0; i < tuff__plan_tasks_count(out->tasks); i++)
        if (strcmp(tuff__plan_tasks_key(out->tasks, i)->family, family) == 0)
            chosen = i;
    if (chosen < 0)
        fail_msg("no key of family %s", family);
    out->by = tuff__plan_tasks_evaluator(out->tasks, chosen);
    if (out->by.compile(out->by.state, &out->defaults) != EVALUATION_GOOD)
        fail_msg("%s", tuff_error());
}

static void close_stage(const stage *scene)
{
    scene->by.release(scene->by.state, &scene->defaults);
    tuff__plan_tasks_destroy(scene->tasks);
    scene->device->driver = &real;
    destroy_plan(scene->plan, scene->graph);
    scene->device->driver =
        tuff__device_language(scene->device)[0] == 'G' ? &tuff__driver_vulkan : &tuff__driver_opencl;
}

/* Compiles a kernel other than the default. */
static void compile_other(stage *scene)
{
    static const char *const kernels[] = {"task.family=2", "task.family=1;task.lanes=4", "task.family=1"};
    candidate_info defaults, made;
    assert_int_equal(scene->by.lower(scene->by.state, &scene->defaults.config, &defaults), EVALUATION_GOOD);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (tuff__config_parse(kernels[i], &scene->other.config) == TUFF_OK &&
            scene->by.lower(scene->by.state, &scene->other.config, &made) == EVALUATION_GOOD &&
            made.program != defaults.program && scene->by.compile(scene->by.state, &scene->other) == EVALUATION_GOOD)
            return;
    fail_msg("no candidate with another kernel: %s", tuff_error());
}

static void expect_evaluation(const stage *scene, const search_candidate *candidate, bool thorough,
                              tune_evaluation expected, const char *says)
{
    const tune_evaluation found = scene->by.verify(scene->by.state, candidate, thorough);
    if (found != expected)
        fail_msg("%s, not %s: %s", tuff__evaluation_text(found), tuff__evaluation_text(expected), tuff_error());
    if (says != NULL && strstr(tuff_error(), says) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", tuff_error(), says);
}

static void expect_default(const stage *scene, tune_evaluation expected, const char *says)
{
    expect_evaluation(scene, &scene->defaults, false, expected, says);
}

/* So many elements that the host checks a sample only, and a place that it has no reason to check. */
enum { ROWS = 1201, COLUMNS = 1103, ASIDE = 421 * COLUMNS + 637, HOLE = 3 };
static const tuff_shape whole = {2, {ROWS, COLUMNS}};

static tuff_graph *make_map(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", tuff_mul(tuff_input(graph, "x", TUFF_F32, whole), tuff_input(graph, "w", TUFF_F32, whole)));
    return graph;
}

static void leave_out(tuff_device *device)
{
    stage on;
    open_stage(device, make_map(device), "map", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.kind = LEAVE_OUT;
    static const uint64_t places[][2] = {{ASIDE, 1}, {ASIDE, HOLE}, {ROWS * COLUMNS / 2, ROWS * COLUMNS / 3}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        fault.first = places[i][0];
        fault.count = places[i][1];
        expect_default(&on, EVALUATION_WRONG, "is not written");
    }
    fault.kind = ZERO;
    fault.first = ASIDE;
    fault.count = HOLE;
    expect_default(&on, EVALUATION_WRONG, "on the host");
    fault.kind = NOTHING;
    expect_default(&on, EVALUATION_GOOD, NULL);
    close_stage(&on);
}

static void what_the_host_does_not_look_at_is_written(void **state)
{
    (void)state;
    for_drawn_api(0, leave_out);
}

/* In-place update of w: omitted elements keep their old values. */
static void leave_out_in_place(tuff_device *device)
{
    stage on;
    tuff_array *w = tuff_array_create(device, TUFF_F32, whole);
    assert_non_null(w);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, whole);
    tuff_assign(graph, w, tuff_sub(tuff_array_tensor(graph, w), tuff_mul(x, x)));
    open_stage(device, graph, "map", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.kind = LEAVE_OUT;
    fault.first = ASIDE;
    fault.count = HOLE;
    expect_default(&on, EVALUATION_WRONG, "on the host");
    close_stage(&on);
    tuff_array_destroy(w);
}

static void what_is_changed_in_place_is_changed(void **state)
{
    (void)state;
    for_drawn_api(1, leave_out_in_place);
}

/* One in sixteen is true: fewer than the elements that rounding could flip near a comparison. */
static void store_zeros(tuff_device *device)
{
    stage on;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, whole);
    tuff_output(graph, "y", tuff_less(tuff_constant(graph, TUFF_F32, 0.9), x));
    open_stage(device, graph, "map", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.kind = ZERO;
    fault.count = ROWS * COLUMNS;
    expect_default(&on, EVALUATION_WRONG, "are wrong");
    close_stage(&on);
}

static void results_that_are_all_zero_are_seen(void **state)
{
    (void)state;
    for_drawn_api(2, store_zeros);
}

/* The host would have to compute all random numbers, which are too many; it computes a smaller product instead. */
static void store_no_product(tuff_device *device)
{
    enum { SIDE = 512, INNER = 16 };
    stage on;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, INNER)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, SIDE));
    tuff_output(graph, "y", tuff_mul(tuff_matmul(x, w), tuff_random(graph, TUFF_SHAPE(SIDE, SIDE))));
    open_stage(device, graph, "matmul", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.kind = ZERO;
    fault.count = SIDE * SIDE;
    fault.least = 4 * SIDE * SIDE;
    expect_default(&on, EVALUATION_WRONG, "all elements of a result are 0");
    close_stage(&on);
}

static void results_that_the_host_cannot_do_are_not_all_zero(void **state)
{
    (void)state;
    for_drawn_api(3, store_no_product);
}

/* A row task and a product write separate columns of one concat. */
static void write_beside(tuff_device *device)
{
    enum { SIDE = 64, HALF = SIDE / 2 };
    stage on;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(SIDE, HALF));
    tuff_tensor *left = tuff_slice(x, (int64_t[]){0, 0}, (int64_t[]){SIDE, HALF}, (int64_t[]){1, 1});
    tuff_tensor *parts[] = {tuff_softmax(left, 1), tuff_matmul(x, w)};
    tuff_tensor *joined = tuff_concat(parts, 2, 1);
    tuff_output(graph, "y", tuff_matmul(joined, x));
    tuff_output(graph, "z", joined);
    open_stage(device, graph, "row", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.count = 1;
    fault.kind = ZERO;
    fault.first = HALF + 3;
    expect_default(&on, EVALUATION_WRONG, "another task stores it");
    fault.kind = LEAVE_OUT;
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.first = SIDE + 3;
    expect_default(&on, EVALUATION_WRONG, "is not written");
    close_stage(&on);
}

static void parts_of_a_whole_are_looked_at_one_by_one(void **state)
{
    (void)state;
    for_drawn_api(4, write_beside);
}

/* Softmax compares its sums with 0, so that rounding could decide what depends on it; the tolerance must stay small. */
static void store_zeros_in_compared_rows(tuff_device *device)
{
    enum { SIDE = 64 };
    stage on;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", tuff_softmax(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE)), 1));
    open_stage(device, graph, "row", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.kind = ZERO;
    fault.count = SIDE;
    fault.first = 20 * SIDE;
    expect_default(&on, EVALUATION_WRONG, "on the host");
    close_stage(&on);
}

static void comparisons_excuse_little(void **state)
{
    (void)state;
    for_drawn_api(5, store_zeros_in_compared_rows);
}

/* Differences in the last bit: accepted as rounding if they are the same in all runs. */
static void differ(tuff_device *device)
{
    stage on;
    open_stage(device, make_map(device), "map", &on);
    fault.kind = DIFFER;
    fault.first = ASIDE;
    fault.count = 1;
    expect_default(&on, EVALUATION_RACE, "two runs differ");
    fault.kind = NOTHING;
    expect_default(&on, EVALUATION_GOOD, NULL);
    compile_other(&on);
    expect_evaluation(&on, &on.other, false, EVALUATION_GOOD, NULL);
    fault.kind = DIFFER;
    expect_evaluation(&on, &on.other, false, EVALUATION_RACE, "two runs differ");
    on.by.release(on.by.state, &on.other);
    close_stage(&on);
}

static void two_runs_are_compared_to_the_bit(void **state)
{
    (void)state;
    for_drawn_api(6, differ);
}

/* A candidate's results are compared with the default's. */
static void store_wrong_values(tuff_device *device)
{
    stage on;
    open_stage(device, make_map(device), "map", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    compile_other(&on);
    expect_evaluation(&on, &on.other, false, EVALUATION_GOOD, NULL);
    fault.kind = ZERO;
    fault.first = ASIDE;
    fault.count = 1;
    expect_evaluation(&on, &on.other, false, EVALUATION_WRONG, "should be");
    fault.kind = LEAVE_OUT;
    expect_evaluation(&on, &on.other, false, EVALUATION_WRONG, "is not written");
    on.by.release(on.by.state, &on.other);
    close_stage(&on);
}

static void candidates_are_held_against_the_default(void **state)
{
    (void)state;
    for_drawn_api(7, store_wrong_values);
}

/* Results smaller than the task's come from the check at other extents. */
static void store_wrong_values_elsewhere(tuff_device *device)
{
    stage on;
    open_stage(device, make_map(device), "map", &on);
    expect_default(&on, EVALUATION_GOOD, NULL);
    compile_other(&on);
    fault.kind = ZERO;
    fault.count = 100;
    fault.most = 4 * ROWS * COLUMNS - 4;
    expect_evaluation(&on, &on.other, false, EVALUATION_GOOD, NULL);
    expect_evaluation(&on, &on.other, true, EVALUATION_WRONG, "with other extents");
    fault.kind = NOTHING;
    expect_evaluation(&on, &on.other, true, EVALUATION_GOOD, NULL);
    on.by.release(on.by.state, &on.other);
    close_stage(&on);
}

static void winners_are_run_at_odd_extents(void **state)
{
    (void)state;
    for_drawn_api(8, store_wrong_values_elsewhere);
}

static void run_a_part_first(tuff_device *device)
{
    stage on;
    uint64_t time;
    open_stage(device, make_map(device), "map", &on);
    assert_int_equal(on.by.sample(on.by.state, &on.defaults, 1, 0, &time), EVALUATION_GOOD);
    assert_true(fault.wholes > 0); /* more groups than the first run had */
    compile_other(&on);
    fault.submissions = fault.wholes = 0;
    fault.slow_part = UINT64_C(60000000000);
    assert_int_equal(on.by.sample(on.by.state, &on.other, 1, 0, &time), EVALUATION_SLOW);
    assert_int_equal(fault.submissions, 1);
    assert_int_equal(fault.wholes, 0);
    on.by.release(on.by.state, &on.other);
    close_stage(&on);
}

static void a_part_of_the_groups_runs_first(void **state)
{
    (void)state;
    for_drawn_api(9, run_a_part_first);
}

static const char *reason_of_default(const tuning_task *task)
{
    const tune_record *bad = tuff__store_rejection(
        task->session->store, tuff__hash_text(task->session->environment_text), task->hash, "", task->kernel_hash);
    return bad == NULL ? "" : bad->reason;
}

/* A process that is suspended for a while, for instance by a terminal. */
static void pause_within_a_run(tuff_device *device)
{
    stage on;
    open_stage(device, make_map(device), "map", &on);
    tuning_task *task = on.by.state;
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.timeouts = 1;
    expect_default(&on, EVALUATION_SLOW, "the wait timed out");
    assert_false(task->session->lost);
    expect_default(&on, EVALUATION_GOOD, NULL);
    fault.timeouts = 100;
    expect_default(&on, EVALUATION_HANG, NULL);
    assert_true(task->session->lost);
    fault.timeouts = 0;
    task->session->lost = false;
    close_stage(&on);
}

static void what_ends_after_all_does_not_hang(void **state)
{
    (void)state;
    for_drawn_api(10, pause_within_a_run);
}

/* The device is reset while the default runs. */
static void lose_with_the_default(tuff_device *device)
{
    static const char *const reasons[] = {"suspected", "suspected twice", "crash"};
    stage on;
    open_stage(device, make_map(device), "map", &on);
    tuning_task *task = on.by.state;
    assert_string_equal(reason_of_default(task), "");
    for (int i = 0; i < 3; i++) {
        tuff__session_reject(task, &on.defaults.config, i == 1 ? EVALUATION_HANG : EVALUATION_LOST);
        assert_string_equal(reason_of_default(task), reasons[i]);
    }
    close_stage(&on);
}

static void a_default_is_suspected_first(void **state)
{
    (void)state;
    for_drawn_api(11, lose_with_the_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_host_does_not_look_at_is_written),
        cmocka_unit_test(what_is_changed_in_place_is_changed),
        cmocka_unit_test(results_that_are_all_zero_are_seen),
        cmocka_unit_test(results_that_the_host_cannot_do_are_not_all_zero),
        cmocka_unit_test(parts_of_a_whole_are_looked_at_one_by_one),
        cmocka_unit_test(comparisons_excuse_little),
        cmocka_unit_test(two_runs_are_compared_to_the_bit),
        cmocka_unit_test(candidates_are_held_against_the_default),
        cmocka_unit_test(winners_are_run_at_odd_extents),
        cmocka_unit_test(a_part_of_the_groups_runs_first),
        cmocka_unit_test(what_ends_after_all_does_not_hang),
        cmocka_unit_test(a_default_is_suspected_first),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
