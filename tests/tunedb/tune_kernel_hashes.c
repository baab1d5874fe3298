/* Builds of tuff with different kernel texts that share a cache: each finds its own measurements, and only rejections
   of its own kernels, or of no particular ones, bar a candidate. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scratch_folder.h"
#include "kernels/config.h"
#include "tunedb/lookup.h"
#include "tune_fixture.h"

static const char *const kernel_hashes[] = {"first", "second", "third", "fourth"};

static tune_store *open_store(void)
{
    tune_store *store;
    assert_int_equal(tuff__store_open(scratch_path("device.jsonl"), &store), TUFF_OK);
    assert_int_equal(tuff__store_set_environment(store, ENVIRONMENT_TEXT(&fixture_board)), TUFF_OK);
    return store;
}

static void add(tune_store *store, record_kind kind, const char *kernel_hash, int rows)
{
    char candidate[64];
    (void)snprintf(candidate, sizeof candidate, "matmul_register.tile_rows=%d", rows);
    tune_record record =
        tuff__record_make(kind, ENVIRONMENT_TEXT(&fixture_board), KEY_TEXT(&fixture_product), candidate);
    record.kernel_hash = kernel_hash;
    record.reason = kind == RECORD_REJECTION ? "wrong" : "";
    record.phase = kind == RECORD_REJECTION ? "verify" : "";
    record.source = kind == RECORD_WIN ? "live" : "";
    record.samples = 10;
    record.nanoseconds[0] = record.nanoseconds[1] = record.nanoseconds[2] = 100;
    record.default_nanoseconds = 200;
    assert_int_equal(tuff__store_add(store, &record), TUFF_OK);
}

static bool is_choice(const char *candidate, void *state)
{
    tune_config parsed;
    (void)state;
    return tuff__config_parse(candidate, &parsed) == TUFF_OK;
}

/* Returns the rows of the winner that a build with these kernels gets, 0 if there is none of its own. */
static int lookup_rows(const tune_store *store, const char *kernel_hash)
{
    tune_lookup_result result;
    tuff__tune_lookup(&(tune_lookup_request){.key = &fixture_product,
                                             .environment = &fixture_board,
                                             .kernel_hash = kernel_hash,
                                             .stores = &store,
                                             .store_count = 1,
                                             .is_usable = is_choice},
                      &result);
    int rows = 0;
    return result.tier == TIER_SAME && sscanf(result.candidate, "matmul_register.tile_rows=%d", &rows) == 1 ? rows : 0;
}

static int count(const tune_store *store)
{
    int at = 0, records = 0;
    while (tuff__store_next(store, &at))
        records++;
    return records;
}

static tune_store *open_again(tune_store *store)
{
    tuff__store_close(store);
    return open_store();
}

static void builds_take_turns(void **state)
{
    (void)state;
    tune_store *store = open_store();
    for (int turn = 1; turn <= 5; turn++) {
        for (int i = 0; i < 2; i++) {
            if (turn > 1)
                assert_int_equal(lookup_rows(store, kernel_hashes[i]), (turn - 1) * 4 + i * 2);
            add(store, RECORD_WIN, kernel_hashes[i], turn * 4 + i * 2);
            store = open_again(store);
        }
        assert_int_equal(count(store), 3); /* one of them is the environment */
    }
    assert_int_equal(lookup_rows(store, "third"), 0);
    assert_int_equal(tuff__store_compact(store, NULL, NULL), TUFF_OK);
    assert_int_equal(tuff__store_count(store).superseded, 0);
    store = open_again(store);
    assert_int_equal(lookup_rows(store, "first"), 20);
    assert_int_equal(lookup_rows(store, "second"), 22);
    tuff__store_close(store);
}

/* Upgrades leave a limited number of records: the kernel hash that was measured least recently is dropped. */
static void a_few_are_kept(void **state)
{
    (void)state;
    tune_store *store = open_store();
    for (int i = 0; i < 4; i++)
        add(store, RECORD_WIN, kernel_hashes[i], 4 + 4 * i);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(lookup_rows(store, "first"), 0);
        for (int i = 1; i < 4; i++)
            assert_int_equal(lookup_rows(store, kernel_hashes[i]), 4 + 4 * i);
        assert_int_equal(count(store), 4);
        store = open_again(store);
    }
    add(store, RECORD_WIN, "second", 32);
    add(store, RECORD_WIN, "first", 24);
    assert_int_equal(lookup_rows(store, "third"), 0);
    assert_int_equal(lookup_rows(store, "second"), 32);
    assert_int_equal(lookup_rows(store, "first"), 24);
    tuff__store_close(store);
}

/* The winner is the same candidate for all. */
static void rejections_are_of_kernels(void **state)
{
    (void)state;
    tune_store *store = open_store();
    for (int i = 0; i < 3; i++)
        add(store, RECORD_WIN, kernel_hashes[i], 8);
    add(store, RECORD_REJECTION, "first", 8);
    add(store, RECORD_REJECTION, "second", 8);
    store = open_again(store);
    assert_int_equal(lookup_rows(store, "first"), 0);
    assert_int_equal(lookup_rows(store, "second"), 0);
    assert_int_equal(lookup_rows(store, "third"), 8);
    add(store, RECORD_REJECTION, "", 8);
    add(store, RECORD_REJECTION, "first", 8);
    store = open_again(store);
    assert_int_equal(lookup_rows(store, "third"), 0);
    tuff__store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(builds_take_turns, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(a_few_are_kept, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(rejections_are_of_kernels, scratch_folder_make, scratch_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
