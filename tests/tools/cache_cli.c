/* Adds one record to a store as a program would, and prints the store's file and the key's digits; cache_cli.sh creates
   its stores with it. Usage:

   cache_cli KIND DEVICE DRIVER ROWS CANDIDATE [MICROSECONDS SAMPLES DAYS GENERATOR]

   cache_cli op ENVIRONMENT KEY CANDIDATE

   KIND is win, seed, bad or pin; the key is a matmul of ROWS rows; DAYS is the record's age, GENERATOR "today" or
   another text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tune_fixture.h"

static const char *argument(int count, char **arguments, int index, const char *defaults)
{
    return index < count ? arguments[index] : defaults;
}

static tune_environment environment_of(const char *device, const char *driver)
{
    tune_environment out = fixture_board;
    snprintf(out.device, sizeof out.device, "%s", device);
    snprintf(out.driver, sizeof out.driver, "AMD-APP %s", driver);
    return out;
}

static record_kind kind_of(const char *name)
{
    return strcmp(name, "bad") == 0 ? RECORD_REJECTION : strcmp(name, "pin") == 0 ? RECORD_PIN : RECORD_WIN;
}

static uint64_t number(const char *digits)
{
    return strtoull(digits, NULL, 10);
}

static int add(const char *environment, const tune_record *record)
{
    tune_store *store = NULL;
    if (tuff__tune_open(environment, &store) != TUFF_OK || tuff__store_add(store, record) != TUFF_OK ||
        tuff__store_error(store)[0]) {
        fprintf(stderr, "cache_cli: %s\n", store ? tuff__store_error(store) : tuff_error());
        return 1;
    }
    printf("%s %016" PRIx64 "%016" PRIx64 "\n", tuff__store_file(store), record->key.high, record->key.low);
    tuff__store_close(store);
    return 0;
}

/* Adds a winner of any key, as if it had been measured here and now. */
static int add_op(char **arguments)
{
    char today[KERNEL_HASH_SIZE];
    tune_key key;
    if (tuff__key_parse(arguments[3], &key) != TUFF_OK)
        return 2;
    tune_record record = tuff__record_make(RECORD_WIN, arguments[2], arguments[3], arguments[4]);
    record.kernel_hash = tuff__kernel_hash(key.family, today);
    record.nanoseconds[0] = record.nanoseconds[1] = record.nanoseconds[2] = 1000;
    record.default_nanoseconds = 2000;
    record.samples = 60;
    return add(arguments[2], &record);
}

int main(int count, char **arguments)
{
    char op[TUNE_KEY_SIZE], today[KERNEL_HASH_SIZE], environment[ENVIRONMENT_SIZE];
    if (count == 5 && strcmp(arguments[1], "op") == 0)
        return add_op(arguments);
    if (count < 6)
        return 2;
    const tune_environment where = environment_of(arguments[2], arguments[3]);
    const tune_key key = {.family = "matmul",
                          .structure = 1,
                          .dtypes = "f32",
                          .layout = "NN",
                          .dims = {(int64_t)number(arguments[4]), 768, 768},
                          .dim_count = 3,
                          .alignment = 16,
                          .math = "fast"};
    const record_kind kind = kind_of(arguments[1]);
    const uint64_t time_taken = 1000 * number(argument(count, arguments, 6, "100"));
    const char *kernel_hash = argument(count, arguments, 9, "today");
    const tune_record record = {
        .kind = kind,
        .environment = tuff__hash_text(tuff__environment_text(&where, environment)),
        .key = tuff__key_hash(&key),
        .op = tuff__key_text(&key, op),
        .kernel_hash = strcmp(kernel_hash, "today") == 0 ? tuff__kernel_hash("matmul", today) : kernel_hash,
        .candidate = arguments[5],
        .nanoseconds = {time_taken * 9 / 10, time_taken, time_taken * 11 / 10},
        .samples = number(argument(count, arguments, 7, "20")),
        .default_nanoseconds = 400000,
        .runners_up = {"matmul_register.tile_rows=3", "", ""},
        .cold = "w",
        .end = "",
        .source = strcmp(arguments[1], "seed") == 0 ? "seed" : "live",
        .library = "0.1.0",
        .timed = 12,
        .spread = {time_taken * 9 / 10, 2 * time_taken, 3 * time_taken, 5 * time_taken, 20 * time_taken},
        .reason = kind == RECORD_REJECTION ? "crash"
                  : kind == RECORD_PIN     ? "user"
                                           : "",
        .phase = kind == RECORD_REJECTION ? "first-run" : "",
        .time = (uint64_t)time(NULL) - 86400 * number(argument(count, arguments, 8, "0"))};
    return add(environment, &record);
}
