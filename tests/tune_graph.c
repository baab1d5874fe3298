/* How a graph is fused, as a key: whole graphs are tried on a stage of their own, which leaves the program's arrays
   alone, takes no more memory than it may, and sees results that are wrong; what is found is remembered and used. */
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
#include "opencl_replaced.h"
#include "run/graph_key.h"
#include "run/plan.h"
#include "run/whole_parts.h"
#include "small_plans.h"
#include "tune_fixture.h"

enum { ROWS = 16, COLUMNS = 48 };
#define ROOM ((uint64_t)1 << 30)

typedef struct fixture {
    tuff_graph *graph;
    tuff_array *w, *sum;
} fixture;

static const tuff_compile_options usual_options = {.fuse = TUFF_FUSE_ALL};

/* A layer whose results several kernels could pass on in registers, and an array that grows by each run. */
static fixture make_fixture(tuff_device *device)
{
    static float w[COLUMNS * COLUMNS], sum[ROWS * COLUMNS];
    fixture out = {.graph = tuff_graph_create(device)};
    for (int i = 0; i < COLUMNS * COLUMNS; i++)
        w[i] = (float)(i % 23 - 11) / 32;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        sum[i] = (float)(i % 7);
    out.w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(COLUMNS, COLUMNS));
    out.sum = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
    assert_int_equal(tuff_array_write(out.w, w, sizeof w), TUFF_OK);
    assert_int_equal(tuff_array_write(out.sum, sum, sizeof sum), TUFF_OK);
    tuff_tensor *x = tuff_input(out.graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
    tuff_tensor *y = tuff_matmul(x, tuff_array_tensor(out.graph, out.w));
    tuff_tensor *norm = tuff_softmax(tuff_add(y, x), 1), *grown = tuff_array_tensor(out.graph, out.sum);
    tuff_assign(out.graph, out.sum, tuff_add(grown, tuff_mul(norm, norm)));
    tuff_output(out.graph, "norm", norm);
    tuff_output(out.graph, "top", tuff_reduce_max(tuff_tanh(norm), (int[]){0}, 1, false));
    assert_int_equal(tuff_graph_status(out.graph), TUFF_OK);
    return out;
}

static void drop_fixture(fixture *of)
{
    tuff_graph_destroy(of->graph);
    tuff_array_destroy(of->w);
    tuff_array_destroy(of->sum);
}

/* Whether the array that runs change holds what it did at first. */
static void expect_untouched(const fixture *of)
{
    float sum[ROWS * COLUMNS];
    assert_int_equal(tuff_array_read(of->sum, sum, sizeof sum), TUFF_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(sum[i] == (float)(i % 7));
}

/* Another way to fuse it, that makes other kernels. */
static choice find_other(stage *on)
{
    const choice usual = {.set = {0}};
    whole_form made, other;
    assert_int_equal(tuff__stage_foresee(on, &usual, &made), TUFF_OK);
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        choice by = {.set = {0}};
        if (!tuff__choice_has(&made.found, (tunable)i))
            continue;
        tuff__choice_set(&by, (tunable)i, 0);
        assert_int_equal(tuff__stage_foresee(on, &by, &other), TUFF_OK);
        if (other.kernels != made.kernels)
            return by;
    }
    fail_msg("there is one way only");
    return usual;
}

static void try_stage(tuff_device *device)
{
    fixture of = make_fixture(device);
    const choice usual = {.set = {0}};
    char wrong[128];
    bool same;
    uint64_t times[3];
    stage *on;
    whole *first, *second;
    tuff_device *bench = tuff_device_open(tuff__device_info(device)->selector);
    assert_non_null(bench);
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, 4096, NULL, &on), TUFF_E_LIMIT);
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, ROOM, NULL, &on), TUFF_OK);
    const choice by = find_other(on);
    assert_int_equal(tuff__whole_create(on, &usual, &first), TUFF_OK);
    assert_int_equal(tuff__whole_create(on, &by, &second), TUFF_OK);
    assert_int_equal(tuff__whole_time(first, 3, 0, times), TUFF_OK);
    assert_int_equal(tuff__whole_time(second, 3, 0, times), TUFF_OK);
    for (int i = 0; i < 3; i++)
        assert_true(times[i] > 0);
    assert_int_equal(tuff__whole_check(first, true, wrong, sizeof wrong), TUFF_OK);
    assert_int_equal(tuff__whole_repeat(first, &same), TUFF_OK);
    assert_true(same);
    assert_int_equal(tuff__whole_check(second, false, wrong, sizeof wrong), TUFF_OK);
    assert_string_equal(wrong, "");
    expect_untouched(&of);
    /* What the program does with its arrays meanwhile is not seen; what a kernel leaves out, or does twice, is. */
    float sum[ROWS * COLUMNS] = {0};
    assert_int_equal(tuff_array_write(of.sum, sum, sizeof sum), TUFF_OK);
    assert_int_equal(tuff__whole_check(second, false, wrong, sizeof wrong), TUFF_OK);
    assert_string_equal(wrong, "");
    for (int i = 0; i < on->result_count; i++) {
        result *one = &on->results[i];
        float *right = one->right;
        const float before = right[7];
        right[7] = before + (one->memory != NULL ? 0.5f : 2);
        assert_int_equal(tuff__whole_check(second, false, wrong, sizeof wrong), TUFF_OK);
        assert_true(strstr(wrong, one->memory != NULL ? "assigned array" : "output") == wrong);
        right[7] = before;
    }
    tuff__whole_destroy(first);
    tuff__whole_destroy(second);
    tuff__stage_destroy(on);
    tuff_device_close(bench);
    drop_fixture(&of);
}

static void the_stage_is_its_own(void **state)
{
    (void)state;
    for_each_driver(try_stage);
}

/* With memory for one plan they take turns; none is compiled twice. */
static void try_turns(tuff_device *device)
{
    fixture of = make_fixture(device);
    const choice usual = {.set = {0}};
    uint64_t time;
    stage *on;
    whole *first, *second;
    tuff_device *bench = tuff_device_open(tuff__device_info(device)->selector);
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, ROOM, NULL, &on), TUFF_OK);
    const choice by = find_other(on);
    assert_int_equal(tuff__whole_create(on, &usual, &first), TUFF_OK);
    assert_int_equal(tuff__whole_create(on, &by, &second), TUFF_OK);
    const uint64_t one = tuff__whole_size(first), other = tuff__whole_size(second), own = tuff__stage_size(on);
    tuff__whole_destroy(first);
    tuff__whole_destroy(second);
    tuff__stage_destroy(on);
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, own, NULL, &on), TUFF_OK);
    assert_int_equal(tuff__whole_create(on, &usual, &first), TUFF_E_OOM_DEVICE);
    tuff__stage_destroy(on);
    const uint64_t most = own + (one > other ? one : other);
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, most, NULL, &on), TUFF_OK);
    assert_int_equal(tuff__whole_create(on, &usual, &first), TUFF_OK);
    assert_int_equal(tuff__whole_create(on, &by, &second), TUFF_OK);
    const uint64_t compiled = bench->counters.programs_compiled + bench->counters.programs_from_disk;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tuff__whole_time(first, 1, 0, &time), TUFF_OK);
        assert_int_equal(tuff__whole_time(second, 1, 0, &time), TUFF_OK);
    }
    assert_int_equal(bench->counters.programs_compiled + bench->counters.programs_from_disk, compiled);
    program **kept;
    int count;
    tuff__whole_give_programs(first, &kept, &count);
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        tuff__program_release(bench, kept[i]);
    tuff__free(kept);
    tuff__whole_destroy(first);
    tuff__whole_destroy(second);
    tuff__stage_destroy(on);
    tuff_device_close(bench);
    drop_fixture(&of);
}

static void plans_make_way_for_each_other(void **state)
{
    (void)state;
    for_each_api(try_turns);
}

/* All that a trial of a graph asks for; false where host memory ran out. */
static bool try_all(tuff_graph *graph, tuff_device *bench, const choice *by)
{
    const choice usual = {.set = {0}};
    char wrong[128];
    bool same;
    uint64_t time;
    stage *on;
    whole *first = NULL, *second = NULL;
    if (tuff__stage_create(graph, bench, &usual_options, ROOM, NULL, &on) != TUFF_OK)
        return false;
    const bool good = tuff__whole_create(on, &usual, &first) == TUFF_OK &&
                      tuff__whole_check(first, true, wrong, sizeof wrong) == TUFF_OK &&
                      tuff__whole_create(on, by, &second) == TUFF_OK &&
                      tuff__whole_check(second, false, wrong, sizeof wrong) == TUFF_OK &&
                      tuff__whole_repeat(second, &same) == TUFF_OK && tuff__whole_time(second, 1, 0, &time) == TUFF_OK;
    tuff__whole_destroy(first);
    tuff__whole_destroy(second);
    tuff__stage_destroy(on);
    return good;
}

/* At places all over a trial, and from there on: nothing is lost, and the next trial is whole. */
static void try_without_memory(tuff_device *device)
{
    enum { PLACES = 24 };
    if (strcmp(tuff__device_language(device), "GLSL") != 0)
        return; /* the graphs are the same; here programs come from the disk */
    failing_memory_begin(0, false);
    tuff_device *home = tuff_device_open(tuff__device_info(device)->selector),
                *bench = tuff_device_open(tuff__device_info(device)->selector);
    fixture of = make_fixture(home);
    stage *on;
    assert_int_equal(tuff__stage_create(of.graph, bench, &usual_options, ROOM, NULL, &on), TUFF_OK);
    const choice by = find_other(on);
    tuff__stage_destroy(on);
    assert_true(try_all(of.graph, bench, &by));
    failing_memory_rearm(0, false);
    assert_true(try_all(of.graph, bench, &by));
    const int64_t requests = failing_memory_requests();
    for (int i = 0; i < 2 * PLACES; i++) {
        failing_memory_rearm(1 + requests * (i / 2) / PLACES, i % 2 == 1);
        (void)try_all(of.graph, bench, &by);
    }
    failing_memory_rearm(0, false);
    assert_true(try_all(of.graph, bench, &by));
    tuff_device_close(bench);
    drop_fixture(&of);
    tuff_device_close(home);
    (void)failing_memory_end();
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for_each_api(try_without_memory);
}

/* Whether the plan has a key of its fusion; what it runs with, and where that is from. */
static bool find_graph_key(tuff_plan *plan, tuff_plan_key_info *out)
{
    for (int i = 0; i < tuff_plan_key_count(plan); i++) {
        assert_int_equal(tuff_plan_key(plan, i, out), TUFF_OK);
        if (strncmp(out->key, FUSION_FAMILY " ", strlen(FUSION_FAMILY " ")) == 0)
            return true;
    }
    return false;
}

static tuff_plan *compile(tuff_graph *graph, const tuff_compile_options *options)
{
    tuff_plan *plan = tuff_compile(graph, options);
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    return plan;
}

static void try_tuning(tuff_device *device)
{
    fixture of = make_fixture(device);
    tuff_plan_key_info key;
    tuff_tune_stats stats;
    char environment[ENVIRONMENT_SIZE], found[TUNE_KEY_SIZE];
    const tuff_compile_options quick = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 400}},
                               normal = {.tuning =
                                             &(tuff_tune_options){.mode = TUFF_TUNE_NORMAL, .milliseconds = 16000}},
                               small = {.memory_budget = ROOM};
    /* Not in so little time, and what nothing is known of is no key. */
    tuff_plan *plan = compile(of.graph, &quick);
    assert_false(find_graph_key(plan, &key));
    tuff_plan_destroy(plan);
    plan = compile(of.graph, &normal);
    assert_true(find_graph_key(plan, &key));
    (void)snprintf(found, sizeof found, "%s", key.key);
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    assert_int_equal(stats.keys, tuff_plan_key_count(plan));
    assert_true(stats.measured > 0);
    assert_true(stats.wrong == 0 && stats.races == 0);
    tuff_plan_destroy(plan);
    expect_untouched(&of);
    tune_store *store = open_device_store(device, environment);
    const tune_record *win = tuff__store_win(store, tuff__hash_text(environment), tuff__hash_text(found), NULL);
    assert_non_null(win);
    assert_true(win->timed > 1 && win->default_nanoseconds > 0);
    tuff__store_close(store);
    plan = compile(of.graph, NULL);
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    assert_int_equal(stats.measured, 0);
    assert_true(find_graph_key(plan, &key));
    assert_string_equal(key.key, found);
    tuff_plan_destroy(plan);
    /* A budget of memory decides by itself. */
    plan = compile(of.graph, &small);
    assert_false(find_graph_key(plan, &key));
    tuff_plan_destroy(plan);
    drop_fixture(&of);
}

static void what_is_found_is_remembered(void **state)
{
    (void)state;
    for_each_api(try_tuning);
}

static void remember_other(tuff_device *device, const char *key, const choice *by, const char *generator)
{
    char environment[ENVIRONMENT_SIZE];
    text name = {0};
    tune_store *store = open_device_store(device, environment);
    tuff__choice_format(by, &name);
    tune_record win = tuff__record_of(RECORD_WIN, environment, key, tuff__text_get(&name));
    win.generator = generator;
    win.samples = 10;
    win.default_nanoseconds = 2000;
    win.time = 4000000000; /* newer than what was found here */
    for (int i = 0; i < 3; i++)
        win.nanoseconds[i] = 1000;
    assert_int_equal(tuff__store_describe(store, environment), TUFF_OK);
    assert_int_equal(tuff__store_add(store, &win), TUFF_OK);
    tuff__text_free(&name);
    tuff__store_close(store);
}

static void find_way(tuff_graph *graph, choice *by, char *key)
{
    stage *on;
    tune_key made;
    assert_int_equal(tuff__stage_create(graph, graph->device, &usual_options, ROOM, NULL, &on), TUFF_OK);
    *by = find_other(on);
    tuff__stage_destroy(on);
    find_fusion_key(graph, &made);
    (void)tuff__key_text(&made, key);
}

/* What another process found is used: also by a manifest, which then holds that, and not in deterministic mode. */
static void try_remembered(tuff_device *device)
{
    fixture of = make_fixture(device);
    choice by;
    char key[TUNE_KEY_SIZE], generator[GENERATOR_SIZE], manifest[300];
    tuff_plan_key_info info;
    const choice usual = {.set = {0}};
    find_way(of.graph, &by, key);
    remember_other(device, key, &by, tuff__generator_of(FUSION_FAMILY, generator));
    tuff_plan *plan = compile(of.graph, NULL);
    assert_true(find_graph_key(plan, &info));
    assert_true(tuff__choice_equal(&plan->passes.by, &by));
    (void)snprintf(manifest, sizeof manifest, "%s/manifest-%s", cache_folder(), tuff__device_info(device)->selector);
    uint64_t hash[2], again[2];
    assert_int_equal(tuff_plan_save_manifest(plan, manifest), TUFF_OK);
    assert_int_equal(tuff_plan_hash(plan, hash), TUFF_OK);
    write_steps(plan, "x", ROWS * COLUMNS, 13, 8);
    run_plan(plan);
    tuff_plan_destroy(plan);
    plan = compile(of.graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.deterministic = true}});
    assert_true(tuff__choice_equal(&plan->passes.by, &usual));
    tuff_plan_destroy(plan);
    remember_other(device, key, &usual, tuff__generator_of(FUSION_FAMILY, generator));
    plan = compile(of.graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.manifest = manifest}});
    assert_true(tuff__choice_equal(&plan->passes.by, &by));
    assert_int_equal(tuff_plan_hash(plan, again), TUFF_OK);
    assert_memory_equal(hash, again, sizeof hash);
    tuff_plan_destroy(plan);
    drop_fixture(&of);
}

static void what_is_remembered_is_used(void **state)
{
    (void)state;
    for_each_api(try_remembered);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

/* As a driver that has not the registers for kernels that it did not see before. */
enum { TEXTS = 32 };
static uint64_t known_texts[TEXTS];
static int known_count;
static bool refuses;

static cl_program CL_API_CALL create_known(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                           cl_int *error)
{
    static const char *nothing = "kernel void tuff( { no";
    const uint64_t hash = tuff__hash64(texts[0], strlen(texts[0]), 0);
    bool is_known = false;
    for (int i = 0; i < known_count; i++)
        is_known |= known_texts[i] == hash;
    if (!refuses && !is_known && known_count < TEXTS)
        known_texts[known_count++] = hash;
    if (!refuses || is_known)
        return real_creation(context, count, texts, sizes, error);
    return real_creation(context, 1, &nothing, NULL, error);
}

/* It makes way for the usual one, once and for all. */
static void a_refused_fusion_makes_way(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    fixture of = make_fixture(device);
    const choice usual = {.set = {0}};
    choice by;
    char key[TUNE_KEY_SIZE], generator[GENERATOR_SIZE], environment[ENVIRONMENT_SIZE];
    find_way(of.graph, &by, key);
    replace_creation(create_known);
    tuff_plan *plan = compile(of.graph, NULL);
    tuff_plan_destroy(plan);
    refuses = true;
    remember_other(device, key, &by, tuff__generator_of(FUSION_FAMILY, generator));
    for (int i = 0; i < 2; i++) {
        plan = compile(of.graph, NULL);
        assert_true(tuff__choice_equal(&plan->passes.by, &usual));
        write_steps(plan, "x", ROWS * COLUMNS, 13, 8);
        run_plan(plan);
        tuff_plan_destroy(plan);
    }
    restore_creation();
    tune_store *store = open_device_store(device, environment);
    assert_non_null(find_store_record(store, RECORD_BAD, "compile"));
    tuff__store_close(store);
    drop_fixture(&of);
    tuff_device_close(device);
}

#else

static void a_refused_fusion_makes_way(void **state)
{
    (void)state;
    skip();
}

#endif

/* Names and places of values do not count; extents are dims; another op is another structure. */
static void keys_say_what_a_graph_is(void **state)
{
    (void)state;
    tune_key keys[4];
    tuff_device *device = tuff_device_open("reference");
    for (int i = 0; i < 4; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, i == 1 ? "other" : "x", TUFF_F32, TUFF_SHAPE(i == 2 ? 6 : 8, 4));
        tuff_output(graph, "y", i == 3 ? tuff_exp(x) : tuff_tanh(x));
        tuff__graph_key(graph, &keys[i]);
        tuff_graph_destroy(graph);
    }
    assert_true(tuff__is_same_hash(tuff__key_hash(&keys[0]), tuff__key_hash(&keys[1])));
    assert_false(tuff__is_same_hash(tuff__key_hash(&keys[0]), tuff__key_hash(&keys[2])));
    assert_true(tuff__key_is_alike(&keys[0], &keys[2]));
    assert_false(tuff__key_is_alike(&keys[0], &keys[3]));
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_say_what_a_graph_is),
        cmocka_unit_test_setup_teardown(the_stage_is_its_own, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(plans_make_way_for_each_other, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(memory_may_run_out, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_is_found_is_remembered, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_is_remembered_is_used, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(a_refused_fusion_makes_way, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
