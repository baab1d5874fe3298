/* The tuner's cache queried through devices and plans: the candidate of a key and the reason for it, pins that plans
   use, and pins that cannot be compiled. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache_records.h"
#include "each_device.h"
#include "small_plans.h"
#include "tunedb/environment.h"

/* A product followed by a row task. */
static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(24, 40)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(40, 56));
    tuff_output(graph, "p", tuff_softmax(tuff_matmul(x, w), 1));
    return graph;
}

static int find_key(tuff_plan *plan, const char *family, tuff_plan_key_info *out)
{
    for (int i = 0; i < tuff_plan_key_count(plan); i++) {
        assert_int_equal(tuff_plan_key(plan, i, out), TUFF_OK);
        if (strncmp(out->key, family, strlen(family)) == 0)
            return i;
    }
    fail_msg("the plan has no %s", family);
    return -1;
}

static const char tiles[] = "matmul_register.rows=5;matmul_register.vectors=1;task.family=1";

static void explain_and_pin(tuff_device *device)
{
    tune_environment parts;
    tuff_cache_match match;
    tuff_plan_key_info key;
    (void)forget_all(NULL);
    tuff__environment_from_info(tuff__device_info(device), &parts);
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = compile_plan(graph), *pinned;
    const int product = find_key(plan, "matmul ", &key);
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_lookup(cache, device, key.key, &match), TUFF_OK);
    assert_string_equal(match.origin, "default");
    assert_false(match.has_record);
    assert_int_equal(tuff_cache_pin_plan(cache, plan, product, "row_register.no_such=1"), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_cache_pin_plan(cache, plan, product, "scan.local_size=64"), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_cache_pin_plan(cache, plan, 99, tiles), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_pin_plan(cache, plan, product, tiles), TUFF_OK);
    assert_int_equal(tuff_cache_lookup(cache, device, key.key, &match), TUFF_OK);
    assert_string_equal(match.origin, "override");
    assert_string_equal(match.candidate, tiles);
    assert_true(match.has_record && match.record.kind == TUFF_CACHE_PIN);
    assert_int_equal(tuff_cache_lookup_plan(cache, plan, product, &match), TUFF_OK);
    assert_string_equal(match.candidate, "");
    assert_string_equal(match.origin, "default");
    assert_non_null(strstr(match.why, "override"));
    pinned = compile_plan(graph);
    assert_int_equal(tuff_cache_lookup_plan(cache, pinned, find_key(pinned, "matmul ", &key), &match), TUFF_OK);
    assert_string_equal(match.candidate, tiles);
    assert_string_equal(match.origin, "override");
    assert_true(match.has_record && match.record.kind == TUFF_CACHE_PIN);
    int count;
    assert_int_equal(tuff_cache_unpin(cache, device, key.key, &count), TUFF_OK);
    assert_int_equal(count, 1);
    add_record(ENVIRONMENT_TEXT(&parts), RECORD_WIN, key.key, tiles, 1000, 0);
    tuff_cache_close(cache);
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_lookup(cache, device, key.key, &match), TUFF_OK);
    assert_string_equal(match.origin, "same");
    assert_true(match.record.gain == 4 && match.record.samples == 20 && match.record.file == 0);
    tuff_cache *narrow = open_cache("no such driver");
    assert_int_equal(tuff_cache_file_count(narrow), 0);
    assert_int_equal(tuff_cache_lookup(narrow, device, key.key, &match), TUFF_OK);
    assert_true(match.has_record && match.record.file == -1);
    tuff_cache_close(narrow);
    assert_int_equal(tuff_cache_pin(cache, device, key.key, "", NULL), TUFF_OK);
    tuff_plan_destroy(pinned);
    pinned = compile_plan(graph);
    (void)find_key(pinned, "matmul ", &key);
    assert_string_equal(key.candidate, "");
    assert_string_equal(key.origin, "override");
    tuff_cache_close(cache);
    tuff_plan_destroy(pinned);
    destroy_plan(plan, graph);
}

static void devices_and_plans_are_asked(void **state)
{
    (void)state;
    for_drawn_drivers(explain_and_pin);
}

static void the_reference_device_has_no_records(void **state)
{
    (void)state;
    tuff_cache_match match;
    tuff_cache *cache = open_cache(NULL);
    tuff_device *host = tuff_device_open("reference");
    assert_int_equal(tuff_cache_lookup(cache, host, KEY(8), &match), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_cache_lookup(cache, NULL, KEY(8), &match), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_lookup_plan(cache, NULL, 0, &match), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_pin_plan(cache, NULL, 0, tiles), TUFF_E_USAGE);
    tuff_graph *graph = make_graph(host);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_cache_lookup_plan(cache, plan, 0, &match), TUFF_E_USAGE);
    destroy_plan(plan, graph);
    tuff_device_close(host);
    tuff_cache_close(cache);
}

static void a_bad_key_is_told(tuff_device *device)
{
    tuff_cache_match match;
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_lookup(cache, device, "no key", &match), TUFF_E_FORMAT);
    tuff_cache_close(cache);
}

static void keys_are_checked(void **state)
{
    (void)state;
    for_drawn_drivers(a_bad_key_is_told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_and_plans_are_asked, forget_all),
        cmocka_unit_test_setup(the_reference_device_has_no_records, forget_all),
        cmocka_unit_test_setup(keys_are_checked, forget_all),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
