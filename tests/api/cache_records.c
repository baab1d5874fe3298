/* Records of a board that is not present. */
#define _POSIX_C_SOURCE 200809L
#include "cache_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_device.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tune_fixture.h"

const char *board_text(const char *version, char *buffer)
{
    tune_environment out = fixture_board;
    (void)snprintf(out.driver, sizeof out.driver, "AMD-APP %s", version);
    return tuff__environment_text(&out, buffer);
}

const char *product_key(int64_t rows, char *buffer)
{
    tune_key key = fixture_product;
    key.dims[0] = rows;
    return tuff__key_text(&key, buffer);
}

void add_record(const char *environment, record_kind kind, const char *key, const char *candidate, uint64_t median,
                uint64_t age)
{
    char today[KERNEL_HASH_SIZE];
    tune_store *store;
    tune_record record = tuff__record_make(kind, environment, key, candidate);
    record.kernel_hash = tuff__kernel_hash("matmul", today);
    record.time -= age;
    if (kind == RECORD_WIN) {
        const uint64_t times[] = {median - 1, median, median + 1};
        memcpy(record.nanoseconds, times, sizeof times);
        record.default_nanoseconds = 4000;
        record.samples = 20;
        record.runners_up[0] = ROWS(3);
    } else {
        record.reason = kind == RECORD_REJECTION ? "crash" : "user";
        record.phase = kind == RECORD_REJECTION ? "first-run" : "";
    }
    assert_int_equal(tuff__tune_open(environment, &store), TUFF_OK);
    assert_int_equal(tuff__store_add(store, &record), TUFF_OK);
    assert_string_equal(tuff__store_error(store), "");
    tuff__store_close(store);
}

const char *in_cache(const char *name)
{
    static char paths[8][700];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof *paths, "%s/%s", cache_folder(), name);
    return path;
}

void shell(const char *format, const char *place)
{
    char line[1500];
    (void)snprintf(line, sizeof line, format, place, place);
    assert_int_equal(system(line), 0);
}

int forget_all(void **state)
{
    (void)state;
    shell("rm -rf '%s'/*", cache_folder());
    return setenv("TUFF_CACHE_DIR", cache_folder(), 1) == 0 && setenv("TUFF_SHARE_DIR", in_cache("share"), 1) == 0 ? 0
                                                                                                                   : -1;
}

void fill_cache(void)
{
    add_record(BOARD("24.3"), RECORD_WIN, KEY(1024), ROWS(8), 1000, 0);
    add_record(BOARD("24.3"), RECORD_WIN, KEY(512), ROWS(6), 1600, 100 * DAY);
    add_record(BOARD("24.3"), RECORD_REJECTION, KEY(1024), ROWS(9), 0, 0);
    add_record(BOARD("24.3"), RECORD_PIN, KEY(64), ROWS(2), 0, 0);
    add_record(BOARD("23.1"), RECORD_WIN, KEY(256), ROWS(5), 1300, 200 * DAY);
}

tuff_cache *open_cache(const char *device)
{
    tuff_cache *cache = tuff_cache_open(device);
    if (!cache)
        fail_msg("%s", tuff_error());
    return cache;
}

int count_records(const tuff_cache *cache, int kind)
{
    tuff_cache_cursor at = {0};
    tuff_cache_record record;
    int count = 0;
    while (tuff_cache_next(cache, &at, &record))
        count += kind < 0 || (int)record.kind == kind;
    return count;
}

bool find_record(const tuff_cache *cache, tuff_cache_kind kind, const char *key, tuff_cache_record *out)
{
    tuff_cache_cursor at = {0};
    while (tuff_cache_next(cache, &at, out))
        if (out->kind == kind && strcmp(out->key, key) == 0)
            return true;
    return false;
}

int count_on_disk(const char *device, int kind)
{
    tuff_cache *cache = open_cache(device);
    const int count = count_records(cache, kind);
    tuff_cache_close(cache);
    return count;
}
