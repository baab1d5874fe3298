/* A cache of records that no device here made, for tests of those who read it. */
#ifndef TESTS_CACHE_RECORDS_H
#define TESTS_CACHE_RECORDS_H

#include "tuff/cache.h"
#include "tunedb/record.h"

enum { DAY = 24 * 60 * 60 };
#define ROWS(n) "matmul_register.tile_rows=" #n

/* The environment of a board that is not here, under a version of its driver, "24.3". buffer: as ENVIRONMENT_TEXT. */
const char *board_text(const char *version, char *buffer);
#define BOARD(driver) board_text((driver), (char[1024]){0})
/* The key of a product of so many rows. buffer: TUNE_KEY_SIZE bytes. */
const char *product_key(int64_t rows, char *buffer);
#define KEY(rows) product_key((rows), (char[512]){0})

/* Writes a record as a program that tunes would; median in nanoseconds, the default's are 4000; age in seconds. */
void add_record(const char *environment, record_kind kind, const char *key, const char *candidate, uint64_t median,
                uint64_t age);
/* Two winners of a driver 24.3, 1024 and 512 rows, of which the second is 100 days old, a rejected candidate of the
   first, a pin for 64 rows; and one winner of a driver 23.1, for 256 rows, 200 days old. */
void fill_cache(void);

/* In the folder of use_fresh_cache; in one of eight buffers that take turns. */
const char *in_cache(const char *name);
/* A command of the shell with a path, twice. */
void shell(const char *format, const char *place);
/* A set-up of cmocka's: nothing is known, and nothing shipped. */
int forget_all(void **state);

/* Fails the test where it cannot be opened. */
tuff_cache *open_cache(const char *device);
/* Of a kind, or of all kinds where it is negative. */
int count_records(const tuff_cache *cache, int kind);
int count_on_disk(const char *device, int kind);
bool find_record(const tuff_cache *cache, tuff_cache_kind kind, const char *key, tuff_cache_record *out);

#endif
