/* Stored winners under changed conditions: a driver that refuses them, another driver version, more time to search,
   processes that died of them. None of this may prevent a plan. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "opencl_replaced.h"
#include "small_plans.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/journal.h"
#include "tune_fixture.h"

enum { ROWS = 24, COLUMNS = 56 };

static const char tiles[] = "matmul_register.rows=5;matmul_register.vectors=1;task.family=1",
                  blocks[] = "task.family=2", other_tiles[] = "matmul_register.rows=3;task.family=1";

typedef struct outcome {
    tuff_tune_stats stats;
    char product[200], origin[32]; /* the product's candidate, and its origin */
    float p[ROWS * COLUMNS];
} outcome;

static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, 40)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(40, COLUMNS));
    tuff_output(graph, "p", tuff_softmax(tuff_matmul(x, w), 1));
    return graph;
}

static void read_keys(tuff_plan *plan, outcome *out)
{
    for (int i = 0; i < tuff_plan_key_count(plan); i++) {
        tuff_plan_key_info key;
        assert_int_equal(tuff_plan_key(plan, i, &key), TUFF_OK);
        if (strncmp(key.key, "matmul ", 7) != 0)
            continue;
        (void)snprintf(out->product, sizeof out->product, "%s", key.candidate);
        (void)snprintf(out->origin, sizeof out->origin, "%s", key.origin);
    }
}

/* Compiles and runs a plan whose run may fail. Returns the run's status. */
static tuff_status compile_and_try_run(tuff_device *device, const tuff_compile_options *options, outcome *out)
{
    *out = (outcome){.product = "", .origin = ""};
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &out->stats), TUFF_OK);
    read_keys(plan, out);
    write_steps(plan, "x", ROWS * 40, 13, 8);
    write_steps(plan, "w", 40 * COLUMNS, 11, 16);
    const tuff_status status = tuff_plan_run(plan);
    if (status == TUFF_OK)
        assert_int_equal(tuff_plan_read(plan, "p", out->p, sizeof out->p), TUFF_OK);
    destroy_plan(plan, graph);
    return status;
}

static outcome compile(tuff_device *device, const tuff_compile_options *options)
{
    outcome out;
    if (compile_and_try_run(device, options, &out) != TUFF_OK)
        fail_msg("%s", tuff_error());
    return out;
}

static void expect_close(const outcome *a, const outcome *b)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(a->p[i] - b->p[i] < 1e-5f && b->p[i] - a->p[i] < 1e-5f);
}

/* Gets the text of the plan's key of a family. */
static void find_key(tuff_device *device, const char *family, char *out)
{
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = compile_plan(graph);
    out[0] = 0;
    for (int i = 0; i < tuff_plan_key_count(plan); i++) {
        tuff_plan_key_info key;
        assert_int_equal(tuff_plan_key(plan, i, &key), TUFF_OK);
        if (strncmp(key.key, family, strlen(family)) == 0)
            (void)snprintf(out, TUNE_KEY_SIZE, "%s", key.key);
    }
    assert_true(out[0] != 0);
    destroy_plan(plan, graph);
}

/* Stores a winner with runners-up for an environment. */
static void remember(record_kind kind, const char *environment, const char *key, const char *const *candidates,
                     const char *end)
{
    tune_store *store;
    tune_key parsed;
    char kernel_hash[KERNEL_HASH_SIZE];
    assert_int_equal(tuff__tune_open(environment, &store), TUFF_OK);
    tune_record made = tuff__record_make(kind, environment, key, candidates[0]);
    assert_int_equal(tuff__key_parse(key, &parsed), TUFF_OK);
    if (kind == RECORD_WIN) {
        made.kernel_hash = tuff__kernel_hash(parsed.family, kernel_hash);
        for (int i = 0; i < RUNNERS_UP && candidates[i + 1]; i++)
            made.runners_up[i] = candidates[i + 1];
        made.samples = 4;
        made.default_nanoseconds = 2000;
        made.budget_milliseconds = 300;
        made.end = end;
        for (int i = 0; i < 3; i++)
            made.nanoseconds[i] = 1000;
    }
    assert_int_equal(tuff__store_add(store, &made), TUFF_OK);
    tuff__store_close(store);
}

static const char *environment_of(tuff_device *device, const char *version, char *out)
{
    tune_environment parts;
    tuff__environment_from_info(tuff__device_info(device), &parts);
    if (version)
        (void)snprintf(parts.driver, sizeof parts.driver, "%s", version);
    return tuff__environment_text(&parts, out);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static __typeof__(tuff__cl.EnqueueNDRangeKernel) real_launch;
static __typeof__(tuff__cl.CreateKernel) real_kernel;

/* Opens a device whose calls can be replaced, and gets its environment and the product's key as texts; returns NULL if
   there is none. */
static tuff_device *open_with_key(const char *folder, char *key, char *environment)
{
    tuff_device *device = open_replaceable();
    if (!device)
        return NULL;
    use_cache_subfolder(folder);
    find_key(device, "matmul ", key);
    environment_of(device, NULL, environment);
    return device;
}

static void expect_bad(tuff_device *device, char *environment, const char *reason, const char *phase)
{
    tune_store *store = open_device_store(device, environment);
    const tune_record *bad = find_store_record(store, RECORD_REJECTION, reason);
    assert_non_null(bad);
    assert_string_equal(bad->candidate, blocks);
    assert_string_equal(bad->phase, phase);
    tuff__store_close(store);
}

static void expect_none_bad(tuff_device *device, char *environment)
{
    tune_store *store = open_device_store(device, environment);
    assert_null(find_store_record(store, RECORD_REJECTION, NULL));
    tuff__store_close(store);
}

/* Refuses a kernel, as a driver without enough registers or time for it would. */
static cl_program CL_API_CALL refuse_blocks(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                            cl_int *error)
{
    static const char *nothing = "kernel void tuff_matmul_local( { no";
    if (strstr(texts[0], "tuff_matmul_local"))
        return real_creation(context, 1, &nothing, NULL, error);
    return real_creation(context, count, texts, sizes, error);
}

static void a_refused_winner_makes_way(void **state)
{
    (void)state;
    char key[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_with_key("plain", key, environment);
    if (!device)
        skip();
    const outcome plain = compile(device, NULL);

    use_cache_subfolder("whole");
    remember(RECORD_WIN, environment, key, (const char *[]){blocks, tiles, NULL}, "");
    const outcome whole = compile(device, NULL);
    assert_string_equal(whole.product, blocks);
    use_cache_subfolder("runner-up");
    remember(RECORD_WIN, environment, key, (const char *[]){blocks, tiles, NULL}, "");
    replace_creation(refuse_blocks);
    const outcome next = compile(device, NULL), again = compile(device, NULL);
    restore_creation();
    assert_string_equal(next.product, tiles);
    assert_string_equal(next.origin, "same");
    assert_int_equal(next.stats.limits, 1);
    assert_string_equal(again.product, tiles);
    assert_int_equal(again.stats.limits, 0); /* it was remembered */
    expect_close(&plain, &whole);
    expect_close(&plain, &next);
    expect_bad(device, environment, "compile", "compile");

    use_cache_subfolder("alone");
    remember(RECORD_WIN, environment, key, (const char *[]){blocks, NULL}, "");
    replace_creation(refuse_blocks);
    const outcome alone = compile(device, NULL);
    restore_creation();
    assert_string_equal(alone.product, "");
    assert_string_equal(alone.origin, "default");
    expect_close(&plain, &alone);
    tuff_device_close(device);
}

static cl_kernel unwanted;
static cl_int refusal = CL_OUT_OF_RESOURCES;
static bool is_lost; /* the device, together with the refusal */

static cl_kernel CL_API_CALL note_blocks(cl_program from, const char *name, cl_int *error)
{
    cl_kernel made = real_kernel(from, name, error);
    if (strstr(name, "matmul_local"))
        unwanted = made;
    else if (made == unwanted)
        unwanted = NULL;
    return made;
}

static cl_int CL_API_CALL refuse_marker(cl_command_queue queue, cl_uint count, const cl_event *before, cl_event *event)
{
    (void)queue, (void)count, (void)before, (void)event;
    return CL_OUT_OF_RESOURCES;
}

/* Fails the launch, as a driver that finds out late what a kernel needs. */
static cl_int CL_API_CALL refuse_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                        const size_t *offset, const size_t *global, const size_t *local, cl_uint count,
                                        const cl_event *before, cl_event *event)
{
    if (kernel == unwanted && is_lost)
        tuff__cl.EnqueueMarkerWithWaitList = refuse_marker;
    if (kernel == unwanted)
        return refusal;
    return real_launch(queue, kernel, dimensions, offset, global, local, count, before, event);
}

static void refuse_launches(bool refuse)
{
    if (refuse) {
        real_launch = tuff__cl.EnqueueNDRangeKernel;
        real_kernel = tuff__cl.CreateKernel;
    }
    tuff__cl.EnqueueNDRangeKernel = refuse ? refuse_launch : real_launch;
    tuff__cl.CreateKernel = refuse ? note_blocks : real_kernel;
}

/* The run returns an error that says so, nothing else is blamed, and the next plan uses the runner-up; a pin is
   kept. */
static void a_winner_that_is_not_launched_makes_way(void **state)
{
    (void)state;
    char key[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_with_key("launch-plain", key, environment);
    if (!device)
        skip();
    const outcome plain = compile(device, NULL);

    use_cache_subfolder("launch");
    remember(RECORD_WIN, environment, key, (const char *[]){blocks, tiles, NULL}, "");
    outcome refused;
    refuse_launches(true);
    const tuff_status status = compile_and_try_run(device, NULL, &refused);
    assert_int_equal(status, TUFF_E_OOM_DEVICE);
    assert_non_null(strstr(tuff_error(), blocks));
    assert_non_null(strstr(tuff_error(), "CL_OUT_OF_RESOURCES"));
    assert_string_equal(refused.product, blocks);
    const outcome next = compile(device, NULL);
    assert_string_equal(next.product, tiles);
    assert_int_equal(next.stats.limits, 0); /* it was not requested again */
    expect_close(&plain, &next);
    expect_bad(device, environment, "limits", "launch");

    use_cache_subfolder("launch-pinned");
    remember(RECORD_PIN, environment, key, (const char *[]){blocks, NULL}, "");
    assert_int_equal(compile_and_try_run(device, NULL, &refused), TUFF_E_OOM_DEVICE);
    refuse_launches(false);
    expect_none_bad(device, environment);
    const outcome taken = compile(device, NULL);
    assert_string_equal(taken.product, blocks);
    tuff_device_close(device);
}

static cl_int CL_API_CALL refuse_all(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint count, const cl_event *before,
                                     cl_event *event)
{
    (void)queue, (void)kernel, (void)dimensions, (void)offset, (void)global, (void)local, (void)count, (void)before;
    (void)event;
    return CL_OUT_OF_RESOURCES;
}

/* A launch that fails for lack of memory, or like every call once the device is lost. */
static void fail_blameless(const char *folder, cl_int how, bool loses, tuff_status expected)
{
    char key[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_with_key(folder, key, environment);
    if (!device)
        skip();
    outcome failed;
    const __typeof__(tuff__cl.EnqueueMarkerWithWaitList) real_marker = tuff__cl.EnqueueMarkerWithWaitList;
    remember(RECORD_WIN, environment, key, (const char *[]){blocks, tiles, NULL}, "");
    device->handle->is_cpu = !loses; /* the driver code does not check CPUs for being lost */
    refusal = how;
    refuse_launches(true);
    is_lost = loses;
    const tuff_status status = compile_and_try_run(device, NULL, &failed);
    tuff__cl.EnqueueMarkerWithWaitList = real_marker;
    refuse_launches(false);
    refusal = CL_OUT_OF_RESOURCES;
    is_lost = false;
    assert_string_equal(failed.product, blocks);
    assert_int_equal(status, expected);
    expect_none_bad(device, environment);
    tuff_device_close(device);
}

static void a_lost_device_and_full_memory_blame_no_winner(void **state)
{
    (void)state;
    fail_blameless("launch-full", CL_MEM_OBJECT_ALLOCATION_FAILURE, false, TUFF_E_OOM_DEVICE);
    fail_blameless("launch-lost", CL_OUT_OF_RESOURCES, true, TUFF_E_DEVICE_LOST);
}

/* If an input is an output, a launch that belongs to no task copies it. */
static void a_launch_of_no_task_blames_nothing(void **state)
{
    (void)state;
    const uint16_t half[8] = {0};
    char environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_cache_subfolder("no task");
    environment_of(device, NULL, environment);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(8)));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", half, sizeof half), TUFF_OK);
    real_launch = tuff__cl.EnqueueNDRangeKernel;
    tuff__cl.EnqueueNDRangeKernel = refuse_all;
    const tuff_status status = tuff_plan_run(plan);
    tuff__cl.EnqueueNDRangeKernel = real_launch;
    assert_int_equal(status, TUFF_E_OOM_DEVICE);
    expect_none_bad(device, environment);
    destroy_plan(plan, graph);
    tuff_device_close(device);
}

/* It is unknown how much of a failed run was done: copies that other plans made of its arrays are invalid. */
static void a_failed_run_may_have_changed_arrays(void **state)
{
    (void)state;
    const float one = 1;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_cache_subfolder("failed");
    tuff_array *array = make_array(device, TUFF_F32, 1, &one);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1));
    tuff_assign(graph, array, tuff_add(tuff_array_tensor(graph, array), x));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", &one, sizeof one), TUFF_OK);
    const uint64_t version = tuff_array_version(array);
    real_launch = tuff__cl.EnqueueNDRangeKernel;
    tuff__cl.EnqueueNDRangeKernel = refuse_all;
    const tuff_status status = tuff_plan_run(plan);
    tuff__cl.EnqueueNDRangeKernel = real_launch;
    assert_int_equal(status, TUFF_E_OOM_DEVICE);
    assert_true(tuff_array_version(array) > version);
    destroy_plan(plan, graph);
    tuff_array_destroy(array);
    tuff_device_close(device);
}

/* A pin is kept: the next driver may accept it. */
static void a_refused_pin_makes_way(void **state)
{
    (void)state;
    char key[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_with_key("pinned", key, environment);
    if (!device)
        skip();
    remember(RECORD_PIN, environment, key, (const char *[]){blocks, NULL}, "");
    replace_creation(refuse_blocks);
    const outcome refused = compile(device, NULL);
    restore_creation();
    assert_string_equal(refused.product, "");
    expect_none_bad(device, environment);
    const outcome taken = compile(device, NULL);
    assert_string_equal(taken.product, blocks);
    assert_string_equal(taken.origin, "override");
    tuff_device_close(device);
}

#endif

/* The winner of the driver's last version is used at once, even if this version already has other winners; then it is
   raced against the default, together with its runners-up only. */
static void meet_update(tuff_device *device)
{
    const tuff_compile_options quick = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 60000}};
    char key[TUNE_KEY_SIZE], row[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE], older[ENVIRONMENT_SIZE];
    use_cache_subfolder(tuff__device_info(device)->selector);
    find_key(device, "matmul ", key);
    find_key(device, "row ", row);
    environment_of(device, NULL, environment);
    environment_of(device, "last year's", older);
    remember(RECORD_WIN, environment, row, (const char *[]){"", NULL}, "");
    remember(RECORD_WIN, older, key, (const char *[]){tiles, blocks, other_tiles, NULL}, "");
    const outcome cached = compile(device, NULL);
    assert_string_equal(cached.product, tiles);
    assert_string_equal(cached.origin, "other driver");
    assert_int_equal(cached.stats.measured, 0);
    const outcome raced = compile(device, &quick);
    assert_int_equal(raced.stats.measured, 1);
    assert_true(raced.stats.compiles >= 2 && raced.stats.compiles <= 4);
    const outcome settled = compile(device, &quick);
    assert_int_equal(settled.stats.measured, 0);
    assert_string_equal(settled.product, raced.product);
    expect_close(&cached, &settled);
}

static void an_update_is_met(void **state)
{
    (void)state;
    for_drawn_api(0, meet_update);
}

static bool did_patience_end(tuff_device *device, char *environment, const char *key)
{
    tune_store *store = open_device_store(device, environment);
    const tune_record *win = tuff__store_winner(store, tuff__hash_text(environment), tuff__hash_text(key), NULL);
    assert_non_null(win);
    const bool did = strcmp(win->end, "patience") == 0;
    tuff__store_close(store);
    return did;
}

/* A search that ran out of time continues if there is much more time, and not otherwise; one that ended by patience
   continues if that is greater. */
static void continue_search(tuff_device *device)
{
    char key[TUNE_KEY_SIZE], row[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE], folder[64];
    (void)snprintf(folder, sizeof folder, "time %s", tuff__device_info(device)->selector);
    use_cache_subfolder(folder);
    find_key(device, "matmul ", key);
    find_key(device, "row ", row);
    environment_of(device, NULL, environment);
    remember(RECORD_WIN, environment, row, (const char *[]){"", NULL}, "patience");
    remember(RECORD_WIN, environment, key, (const char *[]){tiles, other_tiles, NULL}, "budget");
    tuff_tune_options tuning = {.mode = TUFF_TUNE_QUICK, .milliseconds = 300};
    const tuff_compile_options options = {.tuning = &tuning};
    assert_int_equal(compile(device, &options).stats.measured, 0);
    tuning.milliseconds = 599;
    assert_int_equal(compile(device, &options).stats.measured, 0);
    tuning.milliseconds = 3000;
    const outcome more = compile(device, &options);
    assert_int_equal(more.stats.measured, 1);
    assert_true(more.stats.compiles > 1);
    tuning.mode = TUFF_TUNE_MAX;
    tuning.milliseconds = 400;
    const int patient = 1 + did_patience_end(device, environment, key);
    assert_int_equal(compile(device, &options).stats.measured, patient);
}

static void more_time_is_used(void **state)
{
    (void)state;
    for_drawn_api(1, continue_search);
}

/* A process that dies while it tries the default of a key. */
static void die_of_default(const char *environment, const char *key)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char folder[FOLDER_SIZE];
        journal *own;
        const bool is_open = tuff__tune_folder(folder, sizeof folder) == TUFF_OK &&
                             tuff__journal_open(folder, &own) == TUFF_OK &&
                             tuff__journal_enter(own, JOURNAL_FIRST_RUN, environment, key, "", false) == TUFF_OK;
        _exit(is_open ? 9 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 9);
}

/* A default that was running when its process ended once or twice is still used: there may be another cause. */
static void crash_in_default(tuff_device *device)
{
    char key[TUNE_KEY_SIZE], environment[ENVIRONMENT_SIZE], folder[64];
    (void)snprintf(folder, sizeof folder, "deaths %s", tuff__device_info(device)->selector);
    use_cache_subfolder(folder);
    find_key(device, "matmul ", key);
    environment_of(device, NULL, environment);
    const outcome before = compile(device, NULL);
    assert_int_equal(before.stats.crashes, 0);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(compile(device, NULL).product, "");
        die_of_default(environment, key);
        assert_int_equal(compile(device, NULL).stats.crashes, 1);
    }
    const outcome after = compile(device, NULL);
    assert_int_equal(after.stats.crashes, 0);
    assert_true(after.product[0] != 0);
    expect_close(&before, &after);
    tune_store *store = open_device_store(device, environment);
    const tune_record *bad = find_store_record(store, RECORD_REJECTION, "crash");
    assert_non_null(bad);
    assert_string_equal(bad->candidate, "");
    tuff__store_close(store);
}

static void a_default_that_kills_is_left(void **state)
{
    (void)state;
    for_drawn_api(2, crash_in_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        cmocka_unit_test(a_refused_winner_makes_way),
        cmocka_unit_test(a_winner_that_is_not_launched_makes_way),
        cmocka_unit_test(a_lost_device_and_full_memory_blame_no_winner),
        cmocka_unit_test(a_launch_of_no_task_blames_nothing),
        cmocka_unit_test(a_failed_run_may_have_changed_arrays),
        cmocka_unit_test(a_refused_pin_makes_way),
#endif
        cmocka_unit_test(an_update_is_met),
        cmocka_unit_test(more_time_is_used),
        cmocka_unit_test(a_default_that_kills_is_left),
    };
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
