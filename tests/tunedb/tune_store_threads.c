/* A store that gave up waiting for its file's lock writes to a shard of its process; if another store of the same
   process compacts meanwhile, it takes nothing from the shard. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/file/lock.h"
#include "each_device.h"
#include "tunedb/store.h"

enum { RECORDS = 3000 };
static const char environment[] = "an environment";

static tune_store *open_store(const char *path)
{
    tune_store *out;
    assert_int_equal(tuff__store_open(path, &out), TUFF_OK);
    assert_int_equal(tuff__store_set_environment(out, environment), TUFF_OK);
    return out;
}

static tuff_status add(tune_store *store, int index)
{
    char op[32];
    (void)snprintf(op, sizeof op, "key %d", index);
    const tune_record record = tuff__record_make(RECORD_WIN, environment, op, "a=1");
    return tuff__store_add(store, &record);
}

static struct {
    tune_store *store;
    atomic_bool done;
    atomic_int failures;
} writer;

static void *write_many(void *unused)
{
    for (int i = 1; i < RECORDS; i++)
        atomic_fetch_add(&writer.failures, add(writer.store, i) != TUFF_OK);
    atomic_store(&writer.done, true);
    return unused;
}

static int count_wins(const tune_store *store)
{
    int wins = 0;
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));)
        wins += record->kind == RECORD_WIN;
    return wins;
}

static void compacting_takes_nothing_from_a_writer(void **state)
{
    (void)state;
    char path[600], lock[608];
    file_lock others;
    pthread_t thread;
    (void)snprintf(path, sizeof path, "%s/store.jsonl", cache_folder());
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    assert_int_equal(tuff__file_lock(lock, 0, &others), TUFF_OK);
    writer.store = open_store(path);
    assert_int_equal(add(writer.store, 0), TUFF_OK); /* the wait times out, and the store uses a shard from now on */
    tuff__file_unlock(&others);
    assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
    tune_store *compacted = open_store(path);
    int rounds = 0;
    while (!atomic_load(&writer.done) || rounds == 0) {
        assert_int_equal(tuff__store_compact(compacted, NULL, NULL), TUFF_OK);
        rounds++;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&writer.failures), 0);
    tuff__store_close(writer.store);
    assert_int_equal(tuff__store_compact(compacted, NULL, NULL), TUFF_OK);
    print_message("%d compactions during writes\n", rounds);
    assert_int_equal(count_wins(compacted), RECORDS);
    tuff__store_close(compacted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compacting_takes_nothing_from_a_writer)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
