/* The places of stores, and the tiers of a lookup: which record is used, and why those of the tiers above were not. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "scratch_folder.h"
#include "kernels/config.h"
#include "tunedb/folder.h"
#include "tunedb/lookup.h"
#include "tune_fixture.h"

/* A lookup in two stores of its own, and the candidates that it may use. */
typedef struct scene {
    tune_environment here;
    tune_key key;
    tune_store *user, *shipped;
    tune_lookup_result result;
} scene;

static bool is_choice(const char *candidate, void *state)
{
    tune_config parsed;
    (void)state;
    return tuff__config_parse(candidate, &parsed) == TUFF_OK;
}

static void begin(scene *self)
{
    *self = (scene){.here = fixture_board, .key = fixture_product};
    assert_int_equal(tuff__store_open(NULL, &self->user), TUFF_OK);
    assert_int_equal(tuff__store_open(NULL, &self->shipped), TUFF_OK);
}

static void end(scene *self)
{
    tuff__store_close(self->user);
    tuff__store_close(self->shipped);
}

static tune_record record_of(record_kind kind, const tune_environment *where, const char *op, const char *candidate)
{
    return (tune_record){.kind = kind,
                         .environment = tuff__hash_text(ENVIRONMENT_TEXT(where)),
                         .key = tuff__hash_text(op),
                         .op = op,
                         .kernel_hash = kind == RECORD_WIN ? "today" : "",
                         .candidate = candidate,
                         .nanoseconds = {90, 100, 110},
                         .samples = 20,
                         .default_nanoseconds = 200,
                         .runners_up = {"", "", ""},
                         .cold = "",
                         .end = "",
                         .source = "live",
                         .library = "",
                         .reason = kind == RECORD_REJECTION ? "crash"
                                   : kind == RECORD_PIN     ? "user"
                                                            : "",
                         .phase = kind == RECORD_REJECTION ? "first-run" : "",
                         .time = 1800000000};
}

static void put(tune_store *store, const tune_environment *where, tune_record record)
{
    assert_int_equal(tuff__store_set_environment(store, ENVIRONMENT_TEXT(where)), TUFF_OK);
    assert_int_equal(tuff__store_add(store, &record), TUFF_OK);
}

static void put_win(tune_store *store, const tune_environment *where, const tune_key *key, const char *candidate)
{
    char op[TUNE_KEY_SIZE];
    put(store, where, record_of(RECORD_WIN, where, tuff__key_text(key, op), candidate));
}

static tune_lookup_request request_of(const scene *self, const tune_store **stores)
{
    static const char *const portfolio[] = {"matmul_register.tile_rows=4", "matmul_register.tile_rows=16"};
    stores[0] = self->user;
    stores[1] = self->shipped;
    return (tune_lookup_request){.key = &self->key,
                                 .environment = &self->here,
                                 .kernel_hash = "today",
                                 .stores = stores,
                                 .store_count = 2,
                                 .portfolio = portfolio,
                                 .portfolio_count = 2,
                                 .is_usable = is_choice};
}

static void run_lookup(scene *self)
{
    const tune_store *stores[2];
    const tune_lookup_request request = request_of(self, stores);
    tuff__tune_lookup(&request, &self->result);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        assert_int_equal(self->result.why[tier][0] != 0, tier <= (int)self->result.tier);
}

static void expect(scene *self, tune_tier tier, const char *candidate, const char *why)
{
    run_lookup(self);
    assert_int_equal(self->result.tier, tier);
    assert_string_equal(self->result.candidate, candidate);
    if (!strstr(self->result.why[tier], why))
        fail_msg("\"%s\" lacks \"%s\"", self->result.why[tier], why);
}

#define ROWS(n) "matmul_register.tile_rows=" #n

static void tiers_are_asked_in_order(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    tune_environment other = fixture_board;
    tune_key near = fixture_product;
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    assert_int_equal(now.result.seed_count, 2);

    snprintf(other.device, sizeof other.device, "AMD Radeon (RADV GFX1100)");
    snprintf(other.backend, sizeof other.backend, "vulkan");
    other.units = 48;
    put_win(now.shipped, &other, &fixture_product, ROWS(5));
    expect(&now, TIER_SEED, "", "1 seeds for a search");
    assert_string_equal(now.result.seeds[0], ROWS(5));
    assert_int_equal(now.result.seed_count, 3);

    near.dims[1] = 4096;
    near.alignment = 8;
    put_win(now.user, &fixture_board, &near, ROWS(6));
    expect(&now, TIER_NEAREST, ROWS(6), "1024x4096x768");
    assert_string_equal(now.result.seeds[0], ROWS(5)); /* the same key elsewhere comes before another key here */

    other = fixture_board;
    snprintf(other.driver, sizeof other.driver, "AMD-APP 23.0");
    put_win(now.shipped, &other, &fixture_product, ROWS(7));
    expect(&now, TIER_OTHER_DRIVER, ROWS(7), "another driver");

    put_win(now.shipped, &fixture_board, &fixture_product, ROWS(8));
    expect(&now, TIER_SAME, ROWS(8), "20 samples");
    put_win(now.user, &fixture_board, &fixture_product, ROWS(9));
    expect(&now, TIER_SAME, ROWS(9), "20 samples");

    put(now.shipped, &other, record_of(RECORD_PIN, &other, KEY_TEXT(&fixture_product), ROWS(10)));
    expect(&now, TIER_OVERRIDE, ROWS(10), "pinned by user");
    put(now.user, &fixture_board, record_of(RECORD_PIN, &fixture_board, KEY_TEXT(&fixture_product), ""));
    expect(&now, TIER_OVERRIDE, "", "pinned by user");
    end(&now);
}

/* The user's store lacks the line of another driver's environment, which the shipped one has. */
static void any_store_may_describe_an_environment(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_environment other = fixture_board;
    snprintf(other.driver, sizeof other.driver, "AMD-APP 23.0");
    put(now.user, &fixture_board, record_of(RECORD_WIN, &other, tuff__key_text(&fixture_product, op), ROWS(6)));
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    put_win(now.shipped, &other, &fixture_product, ROWS(7));
    expect(&now, TIER_OTHER_DRIVER, ROWS(6), "another driver");
    end(&now);
}

static void the_default_is_always_there(void **state)
{
    (void)state;
    tune_lookup_result result;
    tuff__tune_lookup(&(tune_lookup_request){.key = &fixture_product, .environment = &fixture_board}, &result);
    assert_int_equal(result.tier, TIER_DEFAULT);
    assert_string_equal(result.candidate, "");
    assert_int_equal(result.seed_count, 0);
    tuff__tune_lookup(
        &(tune_lookup_request){.key = &fixture_product, .environment = &fixture_board, .override_candidate = ROWS(3)},
        &result);
    assert_int_equal(result.tier, TIER_OVERRIDE);
    assert_string_equal(result.candidate, ROWS(3));
}

static void what_may_not_run_is_passed_over(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    (void)tuff__key_text(&fixture_product, op);
    tune_record win = record_of(RECORD_WIN, &fixture_board, op, ROWS(8));
    win.runners_up[0] = "nonsense.tile=3";
    win.runners_up[1] = ROWS(6);
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SAME, ROWS(8), "measured here");
    put(now.shipped, &fixture_board, record_of(RECORD_REJECTION, &fixture_board, op, ROWS(8)));
    expect(&now, TIER_SAME, ROWS(6), "because the winner cannot be used: crash in first-run");
    put(now.user, &fixture_board, record_of(RECORD_REJECTION, &fixture_board, op, ROWS(6)));
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    assert_non_null(strstr(now.result.why[TIER_SAME], "nor a runner-up can be used"));
    assert_int_equal(now.result.miss, MISS_UNUSABLE);

    put(now.user, &fixture_board, record_of(RECORD_REJECTION, &fixture_board, op, ROWS(4)));
    run_lookup(&now);
    assert_int_equal(now.result.seed_count, 1); /* one of the portfolio is rejected, too */

    put(now.user, &fixture_board, record_of(RECORD_PIN, &fixture_board, op, "matmul_register.tile_rows=4000"));
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    assert_non_null(strstr(now.result.why[TIER_OVERRIDE], "cannot be used"));
    assert_non_null(strstr(now.result.why[TIER_OVERRIDE], "tile_rows=4000"));
    end(&now);
}

/* Winners that were rejected later in the place where they were found: under another driver, or for other dims. */
static void what_was_rejected_elsewhere_is_passed_over(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_key near = fixture_product;
    tune_environment older = fixture_board;
    near.dims[1] = 4096;
    (void)tuff__key_text(&near, op);
    put_win(now.user, &fixture_board, &near, ROWS(6));
    put(now.user, &fixture_board, record_of(RECORD_REJECTION, &fixture_board, op, ROWS(8)));
    expect(&now, TIER_NEAREST, ROWS(6), "1024x4096x768");
    put(now.user, &fixture_board, record_of(RECORD_REJECTION, &fixture_board, op, ROWS(6)));
    run_lookup(&now);
    assert_true(now.result.tier > TIER_NEAREST);
    assert_non_null(strstr(now.result.why[TIER_NEAREST], "cannot be used: crash in first-run"));

    snprintf(older.driver, sizeof older.driver, "AMD-APP 23.0");
    (void)tuff__key_text(&fixture_product, op);
    tune_record win = record_of(RECORD_WIN, &older, op, ROWS(7));
    win.runners_up[0] = ROWS(5);
    put(now.shipped, &older, win);
    expect(&now, TIER_OTHER_DRIVER, ROWS(7), "another driver");
    put(now.user, &older, record_of(RECORD_REJECTION, &older, op, ROWS(7)));
    expect(&now, TIER_OTHER_DRIVER, ROWS(5), "another driver");
    end(&now);
}

/* A rejection of other kernel texts, or a mere suspicion, bars nothing today. */
static void what_may_be_right_again_runs(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_record bad = record_of(RECORD_REJECTION, &fixture_board, tuff__key_text(&fixture_product, op), ROWS(8));
    put_win(now.user, &fixture_board, &fixture_product, ROWS(8));
    bad.kernel_hash = "older";
    put(now.user, &fixture_board, bad);
    expect(&now, TIER_SAME, ROWS(8), "measured here");
    bad.kernel_hash = "today";
    bad.reason = tuff__suspicions[1];
    put(now.user, &fixture_board, bad);
    expect(&now, TIER_SAME, ROWS(8), "measured here");
    bad.reason = "crash";
    put(now.user, &fixture_board, bad);
    run_lookup(&now);
    assert_int_equal(now.result.miss, MISS_UNUSABLE);
    end(&now);
}

/* After an update of tuff the local winner belongs to older kernel texts, unlike the shipped one. */
static void shipped_winners_of_today_come_before_old_ones(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_record win = record_of(RECORD_WIN, &fixture_board, tuff__key_text(&fixture_product, op), ROWS(8));
    win.source = "shipped";
    put(now.shipped, &fixture_board, win);
    expect(&now, TIER_SAME, ROWS(8), "shipped with tuff");
    win.source = "live";
    win.candidate = ROWS(6);
    win.kernel_hash = "older";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SAME, ROWS(8), "shipped with tuff");
    win.kernel_hash = "today";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SAME, ROWS(6), "measured here");
    end(&now);
}

/* The runners-up of the best seed are seeds as well. */
static void runners_up_are_seeds(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_environment other = fixture_board;
    snprintf(other.backend, sizeof other.backend, "vulkan");
    tune_record win = record_of(RECORD_WIN, &other, tuff__key_text(&fixture_product, op), ROWS(8));
    win.runners_up[0] = ROWS(6);
    win.runners_up[1] = ROWS(8);
    win.runners_up[2] = ROWS(7);
    put(now.user, &other, win);
    run_lookup(&now);
    assert_int_equal(now.result.tier, TIER_SEED);
    assert_string_equal(now.result.seeds[0], ROWS(8));
    assert_string_equal(now.result.seeds[1], ROWS(6));
    assert_string_equal(now.result.seeds[2], ROWS(7));
    assert_int_equal(now.result.seed_count, 5);
    end(&now);
}

/* A search that continues gets the seeds of a new one, and keeps its winner until it has found a better one. */
static void a_winner_can_get_seeds(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    tune_environment other = fixture_board;
    snprintf(other.backend, sizeof other.backend, "vulkan");
    put_win(now.shipped, &other, &fixture_product, ROWS(5));
    put_win(now.user, &fixture_board, &fixture_product, ROWS(8));
    expect(&now, TIER_SAME, ROWS(8), "measured here");
    assert_int_equal(now.result.seed_count, 0);
    const tune_store *stores[2];
    const tune_lookup_request request = request_of(&now, stores);
    tuff__tune_lookup_seeds(&request, &now.result);
    assert_int_equal(now.result.tier, TIER_SAME);
    assert_string_equal(now.result.candidate, ROWS(8));
    assert_string_equal(now.result.record->candidate, ROWS(8));
    assert_int_equal(now.result.seed_count, 3);
    assert_string_equal(now.result.seeds[0], ROWS(5));
    assert_string_equal(now.result.seeds[1], ROWS(4));
    assert_string_equal(now.result.seeds[2], ROWS(16));
    end(&now);
}

static void seeds_are_not_run_with(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_record win = record_of(RECORD_WIN, &fixture_board, tuff__key_text(&fixture_product, op), ROWS(8));
    win.source = "seed";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SEED, "", "1 seeds for a search");
    assert_non_null(strstr(now.result.why[TIER_SAME], "only a seed"));
    assert_int_equal(now.result.miss, MISS_SEED);
    assert_string_equal(now.result.seeds[0], ROWS(8));
    end(&now);

    begin(&now);
    win.source = "live";
    win.kernel_hash = "older";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SEED, "", "1 seeds for a search");
    assert_non_null(strstr(now.result.why[TIER_SAME], "other kernel texts (older; current: today)"));
    assert_int_equal(now.result.miss, MISS_OTHER_KERNELS);
    end(&now);
}

/* With a manifest nothing else counts, and a key that it lacks is a deviation. */
static void a_manifest_is_the_last_word(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    (void)tuff__key_text(&fixture_product, op);
    put_win(now.user, &fixture_board, &fixture_product, ROWS(8));
    put(now.shipped, &fixture_board, record_of(RECORD_PIN, &fixture_board, op, ROWS(5)));
    tune_environment other = fixture_board;
    snprintf(other.driver, sizeof other.driver, "AMD-APP 23.0");
    tune_lookup_request request = {.key = &now.key,
                                   .environment = &fixture_board,
                                   .manifest = now.shipped,
                                   .override_candidate = ROWS(4),
                                   .stores = (const tune_store *const[]){now.user},
                                   .store_count = 1,
                                   .is_usable = is_choice};
    tuff__tune_lookup(&request, &now.result);
    assert_int_equal(now.result.tier, TIER_OVERRIDE);
    assert_false(now.result.deviates);
    assert_string_equal(now.result.candidate, ROWS(5));
    request.environment = &other;
    tuff__tune_lookup(&request, &now.result);
    assert_true(now.result.deviates);
    assert_string_equal(now.result.candidate, "");
    assert_non_null(strstr(now.result.why[TIER_OVERRIDE], "has no entry for the key"));
    request.environment = &fixture_board;
    put(now.shipped, &fixture_board, record_of(RECORD_PIN, &fixture_board, op, "gone.tile=5"));
    tuff__tune_lookup(&request, &now.result);
    assert_true(now.result.deviates);
    assert_non_null(strstr(now.result.why[TIER_OVERRIDE], "unknown tunable 'gone.tile'"));
    end(&now);
}

static void the_default_is_no_seed(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    char op[TUNE_KEY_SIZE];
    tune_record win = record_of(RECORD_WIN, &fixture_board, tuff__key_text(&fixture_product, op), "");
    win.kernel_hash = "older";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    win.kernel_hash = "today";
    put(now.user, &fixture_board, win);
    expect(&now, TIER_SAME, "", "measured here");
    end(&now);
}

static void near_keys_must_fit(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    tune_key near = fixture_product;
    near.dims[0] = 512;
    now.key.alignment = 8;
    put_win(now.user, &fixture_board, &near, ROWS(6)); /* aligned to 16 */
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    near.alignment = 8;
    near.dims[0] = 500; /* less than half */
    put_win(now.user, &fixture_board, &near, ROWS(7));
    expect(&now, TIER_PORTFOLIO, "", "2 candidates");
    near.dims[0] = 600;
    put_win(now.user, &fixture_board, &near, ROWS(9));
    expect(&now, TIER_NEAREST, ROWS(9), "600x3072x768");
    near.dims[0] = 1000;
    put_win(now.user, &fixture_board, &near, ROWS(10));
    expect(&now, TIER_NEAREST, ROWS(10), "1000x3072x768");
    near.structure++;
    near.dims[0] = 1023;
    put_win(now.user, &fixture_board, &near, ROWS(11));
    expect(&now, TIER_NEAREST, ROWS(10), "1000x3072x768");
    end(&now);
}

static void the_best_seeds_are_kept(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    for (int i = 0; i < 20; i++) {
        tune_environment other = fixture_board;
        char candidate[64];
        snprintf(other.device, sizeof other.device, "gfx1100 number %d", i);
        other.device_id = 0x7400 + (uint32_t)i;
        other.units = (uint32_t)(96 + 10 * (19 - i));
        snprintf(candidate, sizeof candidate, "matmul_register.tile_rows=%d", 1 + i);
        put_win(now.user, &other, &fixture_product, candidate);
    }
    expect(&now, TIER_SEED, "", "8 seeds for a search");
    for (int i = 0; i < TUNE_SEEDS; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "matmul_register.tile_rows=%d", 20 - i);
        assert_string_equal(now.result.seeds[i], wanted);
    }
    end(&now);
}

static void stores_live_in_the_cache_folder(void **state)
{
    (void)state;
    char path[FOLDER_SIZE], wanted[FOLDER_SIZE], name[STORE_NAME_SIZE];
    tune_environment other = fixture_board;
    assert_int_equal(setenv("TUFF_CACHE_DIR", scratch_path("cache"), 1), 0);
    assert_int_equal(setenv("TUFF_SHARE_DIR", scratch_path("share"), 1), 0);
    assert_int_equal(tuff__tune_store_path(ENVIRONMENT_TEXT(&fixture_board), path, sizeof path), TUFF_OK);
    snprintf(wanted, sizeof wanted, "%s/tune/v1/opencl-gfx1100-", scratch_path("cache"));
    assert_memory_equal(path, wanted, strlen(wanted));
    assert_int_equal(strlen(path), strlen(wanted) + strlen("12345678.jsonl"));
    snprintf(other.device, sizeof other.device, "%s",
             "Some / Device (TM) <2>; ../ é of a very long name that has no end and goes on "
             "for more than any file may be called");
    assert_null(strchr(tuff__tune_store_name(ENVIRONMENT_TEXT(&other), name), '/'));
    assert_non_null(strstr(name, "opencl-some-device-tm-2-"));
    assert_non_null(strstr(tuff__tune_store_name("what is no environment", name), "device-"));

    tune_stores stores;
    tune_store *store = NULL;
    snprintf(other.device, sizeof other.device, "gfx1030");
    put_win((assert_int_equal(tuff__tune_open(ENVIRONMENT_TEXT(&fixture_board), &store), TUFF_OK), store),
            &fixture_board, &fixture_product, ROWS(8));
    tuff__store_close(store);
    put_win((assert_int_equal(tuff__tune_open(ENVIRONMENT_TEXT(&other), &store), TUFF_OK), store), &other,
            &fixture_product, ROWS(9));
    tuff__store_close(store);
    /* The first file is shipped as well, under the number of another driver. */
    size_t size = 0;
    (void)tuff__tune_store_name(ENVIRONMENT_TEXT(&fixture_board), name);
    snprintf(path, sizeof path, "cache/tune/v1/%s", name);
    char *bytes = scratch_read(path, &size);
    assert_non_null(bytes);
    assert_int_equal(mkdir(scratch_path("share"), 0755), 0);
    assert_int_equal(mkdir(scratch_path("share/tune"), 0755), 0);
    scratch_write("share/tune/opencl-gfx1100-01234567.jsonl", bytes, size);
    scratch_write("share/tune/opencl-gfx900-01234567.jsonl", bytes, size);
    free(bytes);
    assert_int_equal(tuff__tune_open_stores(ENVIRONMENT_TEXT(&fixture_board), false, &stores), TUFF_OK);
    assert_int_equal(stores.count, 2);
    tuff__tune_close_stores(&stores);
    assert_int_equal(tuff__tune_open_stores(ENVIRONMENT_TEXT(&fixture_board), true, &stores), TUFF_OK);
    assert_int_equal(stores.count, 3);
    tuff__tune_close_stores(&stores);
    /* Versions in names are ignored: what is shipped for another version applies. */
    snprintf(other.device, sizeof other.device, "llvmpipe (LLVM 19.1.7, 256 bits)");
    scratch_write("share/tune/opencl-llvmpipe-llvm-15-0-6-256-bits-01234567.jsonl", "", 0);
    assert_int_equal(tuff__tune_open_stores(ENVIRONMENT_TEXT(&other), false, &stores), TUFF_OK);
    assert_int_equal(stores.count, 2);
    tuff__tune_close_stores(&stores);
}

static int warnings;

static void count_warnings(void *user, tuff_log_level level, const char *said)
{
    (void)user;
    warnings += level == TUFF_LOG_WARNING && strstr(said, "results are not saved: ") != NULL;
}

static void keep_a_win_in_memory(const char *reason)
{
    tune_stores stores;
    assert_int_equal(tuff__tune_open_stores(ENVIRONMENT_TEXT(&fixture_board), true, &stores), TUFF_OK);
    assert_int_equal(stores.count, 1);
    assert_non_null(strstr(tuff__store_error(stores.items[0]), reason));
    put_win(stores.items[0], &fixture_board, &fixture_product, ROWS(8));
    assert_non_null(tuff__store_winner(stores.items[0], tuff__hash_text(ENVIRONMENT_TEXT(&fixture_board)),
                                       tuff__key_hash(&fixture_product), NULL));
    tuff__tune_close_stores(&stores);
}

/* Without a writable folder there is a log line, and a store in memory; without one on purpose, only the store. */
static void without_a_folder_stores_live_in_memory(void **state)
{
    (void)state;
    warnings = 0;
    tuff_set_log(count_warnings, NULL);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    keep_a_win_in_memory("TUFF_CACHE_DIR is empty");
    assert_int_equal(warnings, 0);
    assert_int_equal(unsetenv("TUFF_CACHE_DIR"), 0);
    const char *home = getenv("HOME"), *shared = getenv("XDG_CACHE_HOME");
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    keep_a_win_in_memory("HOME is not an absolute path");
    assert_true(warnings > 0);
    tuff_set_log(NULL, NULL);
    if (home)
        (void)setenv("HOME", home, 1);
    if (shared)
        (void)setenv("XDG_CACHE_HOME", shared, 1);
}

/* Whatever is damaged, a lookup returns the default or a candidate that was written for the key. */
static void damage_gives_no_wrong_candidate(void **state)
{
    (void)state;
    scene now;
    begin(&now);
    tune_store *store = NULL;
    tune_key near = fixture_product;
    near.dims[0] = 2048;
    assert_int_equal(tuff__store_open(scratch_path("whole.jsonl"), &store), TUFF_OK);
    put_win(store, &fixture_board, &near, ROWS(7));
    put_win(store, &fixture_board, &fixture_product, ROWS(8));
    put(store, &fixture_board, record_of(RECORD_PIN, &fixture_board, KEY_TEXT(&near), ROWS(9)));
    tuff__store_close(store);
    size_t size = 0;
    int hits = 0;
    char *bytes = scratch_read("whole.jsonl", &size);
    assert_non_null(bytes);
    for (size_t i = 0; i < 2 * size; i++) {
        const size_t at = i / 2;
        bytes[at] = (char)(bytes[at] ^ (1 << at % 8));
        scratch_write("damaged.jsonl", bytes, i % 2 ? at : size);
        bytes[at] = (char)(bytes[at] ^ (1 << at % 8));
        tuff__store_close(now.user);
        assert_int_equal(tuff__store_load(scratch_path("damaged.jsonl"), &now.user), TUFF_OK);
        run_lookup(&now);
        const char *got = now.result.candidate;
        assert_true(!got[0] || strcmp(got, now.result.tier == TIER_SAME ? ROWS(8) : ROWS(7)) == 0);
        hits += got[0] != 0;
    }
    assert_true(hits > (int)size); /* a damaged line loses only itself */
    free(bytes);
    end(&now);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUFF_CACHE_DIR", scratch_path("cache"), 1), 0);
    assert_int_equal(setenv("TUFF_SHARE_DIR", scratch_path("share"), 1), 0);
    for (int device = 0; device < 2; device++) {
        tune_environment where = fixture_board;
        tune_store *store = NULL;
        where.units += (uint32_t)device;
        assert_int_equal(tuff__tune_open(ENVIRONMENT_TEXT(&where), &store), TUFF_OK);
        put_win(store, &where, &fixture_product, ROWS(8));
        tuff__store_close(store);
    }
    for (int64_t failing = 1; failing < 10000; failing++) {
        tune_stores stores = {0};
        failing_memory_begin(failing, false);
        const tuff_status status = tuff__tune_open_stores(ENVIRONMENT_TEXT(&fixture_board), true, &stores);
        if (status == TUFF_OK)
            tuff__tune_close_stores(&stores);
        const bool hit = failing_memory_end();
        assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
        if (!hit)
            return;
    }
    fail();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tiers_are_asked_in_order),
        TEST(any_store_may_describe_an_environment),
        TEST(the_default_is_always_there),
        TEST(what_may_not_run_is_passed_over),
        TEST(what_was_rejected_elsewhere_is_passed_over),
        TEST(what_may_be_right_again_runs),
        TEST(shipped_winners_of_today_come_before_old_ones),
        TEST(runners_up_are_seeds),
        TEST(a_winner_can_get_seeds),
        TEST(seeds_are_not_run_with),
        TEST(a_manifest_is_the_last_word),
        TEST(the_default_is_no_seed),
        TEST(near_keys_must_fit),
        TEST(the_best_seeds_are_kept),
        TEST(stores_live_in_the_cache_folder),
        TEST(without_a_folder_stores_live_in_memory),
        TEST(damage_gives_no_wrong_candidate),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("tune_lookup", tests, NULL, NULL);
}
