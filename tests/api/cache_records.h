/* A cache with records of devices that are not present, for tests of code that reads it. */
#ifndef TESTS_CACHE_RECORDS_H
#define TESTS_CACHE_RECORDS_H

#include "tuff/cache.h"
#include "tunedb/record.h"

enum { DAY = 24 * 60 * 60 };
#define ROWS(n) "matmul_register.tile_rows=" #n

/* Returns the environment of a fake board with a driver version such as "24.3". buffer: as for ENVIRONMENT_TEXT. */
const char *board_text(const char *version, char *buffer);
#define BOARD(driver) board_text((driver), (char[1024]){0})
/* Returns the key of a product with so many rows. buffer: TUNE_KEY_SIZE bytes. */
const char *product_key(int64_t rows, char *buffer);
#define KEY(rows) product_key((rows), (char[512]){0})

/* Stores a record as a tuning program would; median in nanoseconds, compared with 4000 of the default; age in
   seconds. */
void add_record(const char *environment, record_kind kind, const char *key, const char *candidate, uint64_t median,
                uint64_t age);
/* For driver 24.3: two winners, for 1024 rows and, 100 days old, for 512 rows, a rejected candidate for 1024 rows, and
   a pin for 64 rows. For driver 23.1: a winner for 256 rows, 200 days old. */
void fill_cache(void);

/* Returns a path in the folder of use_fresh_cache, in one of eight rotating buffers. */
const char *in_cache(const char *name);
/* Runs a shell command; the format may contain the path up to twice. */
void shell(const char *format, const char *place);
/* A cmocka set-up: an empty cache without shipped records. */
int forget_all(void **state);

/* Fails the test if it cannot be opened. */
tuff_cache *open_cache(const char *device);
/* Count records of a kind, or all records if it is negative. */
int count_records(const tuff_cache *cache, int kind);
int count_on_disk(const char *device, int kind);
bool find_record(const tuff_cache *cache, tuff_cache_kind kind, const char *key, tuff_cache_record *out);

#endif
