/* The tuner's cache as programs see it: every function of tuff/cache.h with valid and invalid input, invalid files,
   folders that cannot be written, lines of later versions, devices that are not present, and running out of memory. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/crc.h"
#include "cache_records.h"
#include "each_device.h"
#include "failing_memory.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    tuff_cache_file_info info;
    tuff_cache_record record;
    tuff_cache_cursor at = {0};
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_file_count(cache), 0);
    assert_int_equal(tuff_cache_file(cache, 0, &info), TUFF_E_USAGE);
    assert_false(tuff_cache_next(cache, &at, &record));
    tuff_cache_close(cache);
    tuff_cache_close(NULL);
    assert_int_equal(tuff_cache_file_count(NULL), -1);
    assert_int_equal(tuff_cache_file(NULL, 0, &info), TUFF_E_USAGE);
    assert_false(tuff_cache_next(NULL, &at, &record));
    assert_null(tuff_cache_open("opencl:999"));
    assert_non_null(strstr(tuff_error(), "opencl:999"));
}

static void records_are_seen(void **state)
{
    (void)state;
    tuff_cache_file_info info;
    tuff_cache_record record;
    fill_cache();
    tuff_cache *cache = open_cache("24.3");
    assert_int_equal(tuff_cache_file_count(cache), 1);
    assert_int_equal(tuff_cache_file(cache, 0, &info), TUFF_OK);
    assert_string_equal(info.device, "gfx1100");
    assert_string_equal(info.driver, "AMD-APP 24.3");
    assert_string_equal(info.environment, BOARD("24.3"));
    assert_string_equal(info.error, "");
    assert_int_equal(info.winners, 2);
    assert_int_equal(info.rejected, 1);
    assert_int_equal(info.pins, 1);
    assert_false(info.is_shipped);
    assert_true(info.bytes > 400 && info.newest > 0);
    assert_true(find_record(cache, TUFF_CACHE_WINNER, KEY(512), &record));
    assert_string_equal(record.candidate, ROWS(6));
    assert_string_equal(record.runners_up[0], ROWS(3));
    assert_string_equal(record.environment, BOARD("24.3"));
    assert_string_equal(record.source, "live");
    assert_int_equal(record.nanoseconds[1], 1600);
    assert_true(record.gain == 2.5 && record.samples == 20 && strlen(record.digits) == 32);
    assert_true(find_record(cache, TUFF_CACHE_REJECTED, KEY(1024), &record));
    assert_string_equal(record.reason, "crash");
    assert_string_equal(record.phase, "first-run");
    assert_true(find_record(cache, TUFF_CACHE_PIN, KEY(64), &record));
    assert_int_equal(record.file, 0);
    tuff_cache_close(cache);
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_file_count(cache), 2);
    assert_int_equal(count_records(cache, -1), 5);
    tuff_cache_close(cache);
    assert_int_equal(count_on_disk("GFX1100", TUFF_CACHE_WINNER), 3);
    assert_int_equal(count_on_disk("vulkan:gfx1100", -1), 0);
}

static void folders_and_files_may_be_unusable(void **state)
{
    (void)state;
    tuff_cache_file_info info;
    fill_cache();
    tuff_cache *cache = open_cache("24.3");
    assert_int_equal(tuff_cache_file(cache, 0, &info), TUFF_OK);
    shell("mv '%s' aside && mkfifo '%s'", info.path);
    tuff_cache *other = open_cache("gfx1100"), *again = open_cache(NULL);
    assert_int_equal(tuff_cache_file_count(other), 2);
    int troubled = 0;
    for (int i = 0; i < 2; i++) {
        tuff_cache_file_info one;
        assert_int_equal(tuff_cache_file(other, i, &one), TUFF_OK);
        troubled += strstr(one.error, "not a regular file") != NULL;
    }
    assert_int_equal(troubled, 1);
    assert_int_equal(count_records(again, -1), 1);
    assert_int_equal(tuff_cache_verify(again, NULL, NULL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_prune(again, NULL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_forget_rejected(again, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_pin(again, NULL, KEY(256), ROWS(4), NULL), TUFF_OK);
    tuff_cache_close(again);
    tuff_cache_close(other);
    shell("rm aside '%s'", info.path);
    tuff_cache_close(cache);
    shell(": >'%s/plain'", cache_folder());
    assert_int_equal(setenv("TUFF_CACHE_DIR", in_cache("plain"), 1), 0);
    assert_null(tuff_cache_open(NULL));
    assert_non_null(strstr(tuff_error(), "plain"));
}

static void a_pin_stays_until_it_is_taken_away(void **state)
{
    (void)state;
    tuff_cache_record record;
    int count;
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), ROWS(4) ";matmul_register.local_size=2", &count), TUFF_OK);
    assert_int_equal(count, 1);
    assert_true(find_record(cache, TUFF_CACHE_PIN, KEY(1024), &record));
    assert_string_equal(record.candidate, "matmul_register.local_size=2;" ROWS(4));
    assert_string_equal(record.reason, "user");
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), "", &count), TUFF_OK);
    assert_true(find_record(cache, TUFF_CACHE_PIN, KEY(1024), &record));
    assert_string_equal(record.candidate, "");
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(4096), ROWS(4), &count), TUFF_OK);
    assert_int_equal(count, 0);
    assert_int_equal(count_on_disk(NULL, TUFF_CACHE_PIN), 2);
    assert_int_equal(tuff_cache_unpin(cache, NULL, KEY(1024), &count), TUFF_OK);
    assert_int_equal(count, 1);
    assert_false(find_record(cache, TUFF_CACHE_PIN, KEY(1024), &record));
    assert_int_equal(tuff_cache_unpin(cache, NULL, KEY(1024), &count), TUFF_OK);
    assert_int_equal(count, 0);
    assert_int_equal(count_on_disk(NULL, TUFF_CACHE_PIN), 1);
    assert_int_equal(count_on_disk(NULL, -1), 5);
    tuff_cache_close(cache);
}

static void impossible_pins_are_refused(void **state)
{
    (void)state;
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_pin(cache, NULL, "matmul | nothing", ROWS(4), NULL), TUFF_E_FORMAT);
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), "nonsense", NULL), TUFF_E_FORMAT);
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), "matmul_register.height=8", NULL), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), ROWS(4000), NULL), TUFF_E_LIMIT);
    assert_int_equal(tuff_cache_pin(cache, NULL, KEY(1024), ROWS(9), NULL), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "crash in first-run"));
    assert_int_equal(tuff_cache_pin(NULL, NULL, KEY(1024), ROWS(4), NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_pin(cache, NULL, NULL, ROWS(4), NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_unpin(cache, NULL, "no key", NULL), TUFF_E_FORMAT);
    assert_int_equal(tuff_cache_unpin(NULL, NULL, KEY(1024), NULL), TUFF_E_USAGE);
    tuff_device *host = tuff_device_open("reference");
    assert_int_equal(tuff_cache_pin(cache, host, KEY(1024), ROWS(4), NULL), TUFF_E_UNSUPPORTED);
    tuff_device_close(host);
    assert_int_equal(count_on_disk(NULL, -1), 5);
    tuff_cache_file_info info;
    assert_int_equal(tuff_cache_file(cache, 1, &info), TUFF_OK);
    shell("rm -f '%s.lock' && mkdir '%s.lock'", info.path);
    const char *key = strstr(info.driver, "24.3") ? KEY(1024) : KEY(256);
    assert_int_equal(tuff_cache_pin(cache, NULL, key, ROWS(4), NULL), TUFF_E_IO);
    tuff_cache_close(cache);
    assert_int_equal(count_on_disk(NULL, TUFF_CACHE_PIN), 1);
}

static void what_is_exported_can_be_imported(void **state)
{
    (void)state;
    tuff_cache_exported out;
    tuff_cache_imported in;
    char *all = strdup(in_cache("all")), *anonymous = strdup(in_cache("anonymous")), *lock = strdup(in_cache("lock"));
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_export(cache, all, TUFF_CACHE_EXPORT_ALL, &out), TUFF_OK);
    assert_true(out.winners == 3 && out.rejected == 1 && out.pins == 1 && out.environments == 2);
    assert_int_equal(tuff_cache_export(cache, anonymous, TUFF_CACHE_EXPORT_ANONYMOUS, &out), TUFF_OK);
    assert_true(out.winners == 3 && out.pins == 0);
    assert_int_equal(tuff_cache_export(cache, lock, TUFF_CACHE_EXPORT_MANIFEST, &out), TUFF_OK);
    assert_true(out.winners == 0 && out.rejected == 0 && out.pins == 4);
    assert_int_equal(tuff_cache_import(cache, all, false, &in), TUFF_OK);
    assert_true(in.skipped == 5 && in.imported == 0 && in.other_devices == 0);
    tuff_cache_close(cache);
    shell("rm -rf '%s/tune'", cache_folder());
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_import(cache, all, true, &in), TUFF_OK);
    assert_true(in.other_devices == 3 && in.skipped == 0);
    tuff_cache_record record;
    assert_true(find_record(cache, TUFF_CACHE_WINNER, KEY(1024), &record));
    assert_string_equal(record.source, "seed");
    tuff_cache_close(cache);
    shell("rm -rf '%s/tune'", cache_folder());
    cache = open_cache("23.1");
    assert_int_equal(tuff_cache_import(cache, all, false, NULL), TUFF_OK);
    assert_int_equal(count_records(cache, -1), 1);
    assert_int_equal(count_on_disk(NULL, -1), 1);
    assert_true(find_record(cache, TUFF_CACHE_WINNER, KEY(256), &record));
    assert_string_equal(record.source, "import");
    tuff_cache_close(cache);
    cache = open_cache("24.3");
    assert_int_equal(tuff_cache_import(cache, all, false, NULL), TUFF_OK);
    assert_true(find_record(cache, TUFF_CACHE_REJECTED, KEY(1024), &record));
    assert_true(record.time + DAY < (uint64_t)time(NULL)); /* not a failure of the last day */
    tuff_cache_close(cache);
    free(all);
    free(anonymous);
    free(lock);
}

static void add_line(const char *path, const char *json)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    (void)fprintf(file, "%08x %s\n", (unsigned)tuff__crc32(json, strlen(json)), json);
    (void)fclose(file);
}

static void strange_files_are_told(void **state)
{
    (void)state;
    tuff_cache_imported in;
    char *good = strdup(in_cache("good")), *fifo = strdup(in_cache("fifo"));
    fill_cache();
    tuff_cache *cache = open_cache("23.1");
    assert_int_equal(tuff_cache_export(cache, in_cache("no/such"), TUFF_CACHE_EXPORT_ALL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_export(cache, good, (tuff_cache_export_kind)7, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_export(cache, NULL, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_export(cache, good, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_OK);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(tuff_cache_import(cache, fifo, false, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_export(cache, fifo, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_merge((const char *[]){good, fifo}, 2, in_cache("out"), NULL, NULL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_verify_file(fifo, NULL, NULL, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_import(cache, in_cache("nowhere"), false, NULL), TUFF_E_IO);
    assert_int_equal(tuff_cache_import(cache, NULL, false, NULL), TUFF_E_USAGE);
    tuff_cache_close(cache);
    add_line(good, "{\"t\":\"later\",\"x\":[1]}");
    add_line(good, "{\"t\":\"win\",\"k\":\"00\"}");
    shell("rm -rf '%s/tune'", cache_folder());
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_import(cache, good, false, &in), TUFF_OK);
    assert_true(in.unknown == 1 && in.damaged == 1 && in.other_devices == 1);
    assert_int_equal(count_records(cache, -1), 1);
    tuff_cache_close(cache);
    free(good);
    free(fifo);
}

typedef struct conflict {
    int count;
    uint64_t kept, left_out;
} conflict;

static void note_conflict(void *user, const tuff_cache_record *kept, const tuff_cache_record *left_out)
{
    conflict *conflict_found = user;
    conflict_found->count++;
    conflict_found->kept = kept->nanoseconds[1];
    conflict_found->left_out = left_out->nanoseconds[1];
}

static void better_evidence_is_kept(void **state)
{
    (void)state;
    tuff_cache_merged merged;
    conflict seen = {0};
    char *a = strdup(in_cache("a")), *b = strdup(in_cache("b"));
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_export(cache, a, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_OK);
    tuff_cache_close(cache);
    add_record(BOARD("24.3"), RECORD_WIN, KEY(512), ROWS(7), 1500, 0);
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_export(cache, b, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_OK);
    tuff_cache_close(cache);
    const char *files[] = {a, b};
    assert_int_equal(tuff_cache_merge(files, 2, a, note_conflict, &seen, &merged), TUFF_OK);
    assert_true(merged.winners == 3 && merged.conflicts == 1 && merged.damaged == 0);
    assert_true(seen.count == 1 && seen.kept == 1500 && seen.left_out == 1600);
    assert_int_equal(tuff_cache_merge(files, 1, b, NULL, NULL, NULL), TUFF_OK);
    assert_int_equal(tuff_cache_merge(files, 0, b, NULL, NULL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_merge((const char *[]){a, NULL}, 2, b, NULL, NULL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_merge(files, 2, in_cache("no/such"), NULL, NULL, NULL), TUFF_E_IO);
    free(a);
    free(b);
}

/* Adds a winner of KEY(128); kernel_hash: NULL for today's. */
static void add_from(const char *source, const char *kernel_hash, uint64_t samples, const char *candidate,
                     uint64_t median)
{
    char today[KERNEL_HASH_SIZE];
    tune_store *store;
    tune_record record = tuff__record_make(RECORD_WIN, BOARD("24.3"), KEY(128), candidate);
    record.kernel_hash = kernel_hash ? kernel_hash : tuff__kernel_hash("matmul", today);
    record.source = source;
    record.samples = samples;
    record.nanoseconds[1] = median;
    record.default_nanoseconds = 4000;
    assert_int_equal(tuff__tune_open(BOARD("24.3"), &store), TUFF_OK);
    assert_int_equal(tuff__store_add(store, &record), TUFF_OK);
    assert_string_equal(tuff__store_error(store), "");
    tuff__store_close(store);
}

static char *export_and_forget(const char *name)
{
    char *path = strdup(in_cache(name));
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_export(cache, path, TUFF_CACHE_EXPORT_ALL, NULL), TUFF_OK);
    tuff_cache_close(cache);
    shell("rm -rf '%s/tune'", cache_folder());
    return path;
}

/* What was measured on the spot is kept, even if an imported winner has more samples. */
static void the_order_of_files_does_not_matter(void **state)
{
    (void)state;
    add_from("live", NULL, 10, ROWS(4), 1500);
    char *live = export_and_forget("live");
    add_from("import", NULL, 30, ROWS(5), 1400);
    char *imported = export_and_forget("imported");
    for (int first = 0; first < 2; first++) {
        conflict seen = {0};
        const char *files[] = {first == 0 ? live : imported, first == 0 ? imported : live};
        assert_int_equal(tuff_cache_merge(files, 2, in_cache("merged"), note_conflict, &seen, NULL), TUFF_OK);
        assert_true(seen.count == 1 && seen.kept == 1500 && seen.left_out == 1400);
    }
    free(live);
    free(imported);
}

/* A newer seed of other kernel texts decides nothing, and hides no winner. */
static void seeds_hide_no_winner_from_manifests(void **state)
{
    (void)state;
    tuff_cache_exported out;
    add_from("live", NULL, 20, ROWS(4), 1500);
    add_from("seed", "0123456789abcdef", 20, ROWS(5), 1400);
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_export(cache, in_cache("lock"), TUFF_CACHE_EXPORT_MANIFEST, &out), TUFF_OK);
    assert_true(out.pins == 1 && out.left_out == 0);
    tuff_cache_close(cache);
}

static void what_is_old_goes(void **state)
{
    (void)state;
    tuff_cache_pruned found;
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    tuff_cache_prune_options old = {.older_seconds = 90 * DAY, .dry_run = true};
    assert_int_equal(tuff_cache_prune(cache, &old, &found), TUFF_OK);
    assert_true(found.dropped == 2 && found.kept == 3);
    assert_int_equal(count_on_disk(NULL, -1), 5);
    old.dry_run = false;
    assert_int_equal(tuff_cache_prune(cache, &old, &found), TUFF_OK);
    assert_true(found.dropped == 2 && found.bytes_after < found.bytes_before);
    assert_int_equal(count_records(cache, -1), 3);
    assert_int_equal(count_on_disk(NULL, -1), 3);
    assert_int_equal(tuff_cache_prune(cache, NULL, &found), TUFF_OK);
    assert_int_equal(found.dropped, 0);
    assert_int_equal(tuff_cache_prune(NULL, NULL, NULL), TUFF_E_USAGE);
    add_record(BOARD("23.1"), RECORD_WIN, KEY(256), ROWS(5), 1300, 20 * DAY);
    tuff_cache_close(cache);
    cache = open_cache("24.3");
    assert_int_equal(tuff_cache_prune(cache, &(tuff_cache_prune_options){.old_drivers = true}, &found), TUFF_OK);
    assert_true(found.dropped == 0 && found.kept == 3);
    tuff_cache_close(cache);
    cache = open_cache("23.1");
    assert_int_equal(tuff_cache_prune(cache, &(tuff_cache_prune_options){.old_drivers = true}, &found), TUFF_OK);
    assert_true(found.dropped == 1 && found.kept == 0);
    tuff_cache_close(cache);
    cache = open_cache(NULL);
    assert_int_equal(tuff_cache_prune(cache, &(tuff_cache_prune_options){.max_bytes = 1}, &found), TUFF_OK);
    assert_int_equal(count_records(cache, TUFF_CACHE_PIN), 1);
    assert_int_equal(count_records(cache, -1), 1);
    tuff_cache_close(cache);
}

typedef struct findings_seen {
    int count, line;
    char subject[64];
} findings_seen;

static void note_finding(void *user, const char *path, int line, const char *subject, const char *detail)
{
    findings_seen *host = user;
    assert_non_null(detail);
    assert_true(path[0] != '\0');
    host->count++;
    host->line = line;
    (void)snprintf(host->subject, sizeof host->subject, "%s", subject);
}

static void every_line_is_checked(void **state)
{
    (void)state;
    tuff_cache_verify_result found;
    tuff_cache_file_info info;
    findings_seen seen = {0};
    int count;
    fill_cache();
    tuff_cache *cache = open_cache(NULL);
    assert_int_equal(tuff_cache_verify(cache, note_finding, &seen, &found), TUFF_OK);
    assert_true(seen.count == 0 && found.ok == 7);
    add_record(BOARD("24.3"), RECORD_WIN, KEY(1024), ROWS(9), 900, 0);
    assert_int_equal(tuff_cache_verify(cache, note_finding, &seen, &found), TUFF_OK);
    assert_true(seen.count == 1 && found.rejected == 1);
    assert_string_equal(seen.subject, "a winner that was rejected");
    tuff_cache_close(cache);
    cache = open_cache("24.3");
    assert_int_equal(tuff_cache_file(cache, 0, &info), TUFF_OK);
    add_line(info.path, "{\"t\":\"later\"}");
    assert_int_equal(tuff_cache_verify(cache, note_finding, &seen, &found), TUFF_OK);
    assert_true(found.unknown == 1 && found.damaged == 0);
    assert_int_equal(seen.line, 7);
    assert_int_equal(tuff_cache_verify_file(info.path, note_finding, &seen, &found), TUFF_OK);
    assert_true(found.rejected == 1);
    assert_int_equal(tuff_cache_verify_file(NULL, NULL, NULL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_verify(NULL, NULL, NULL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_cache_forget_rejected(cache, &count), TUFF_OK);
    assert_int_equal(count, 1);
    assert_int_equal(count_on_disk(NULL, TUFF_CACHE_REJECTED), 0);
    assert_int_equal(tuff_cache_verify(cache, NULL, NULL, &found), TUFF_OK);
    assert_int_equal(found.rejected, 0);
    assert_int_equal(tuff_cache_forget_rejected(NULL, NULL), TUFF_E_USAGE);
    tuff_cache_close(cache);
}

/* Calls everything that a program may call; stops at the first failure. */
static tuff_status do_all(const char *file)
{
    tuff_cache_imported in;
    tuff_cache *cache = tuff_cache_open(NULL);
    if (!cache)
        return TUFF_E_OOM_HOST;
    tuff_status status = tuff_cache_pin(cache, NULL, KEY(1024), ROWS(4), NULL);
    if (status == TUFF_OK)
        status = tuff_cache_export(cache, file, TUFF_CACHE_EXPORT_MANIFEST, NULL);
    if (status == TUFF_OK)
        status = tuff_cache_import(cache, file, false, &in);
    if (status == TUFF_OK)
        status = tuff_cache_merge((const char *[]){file, file}, 2, file, note_conflict, &(conflict){0}, NULL);
    if (status == TUFF_OK)
        status = tuff_cache_verify(cache, note_finding, &(findings_seen){0}, NULL);
    if (status == TUFF_OK)
        status = tuff_cache_prune(
            cache, &(tuff_cache_prune_options){.older_seconds = DAY, .old_drivers = true, .max_bytes = 1 << 20}, NULL);
    if (status == TUFF_OK)
        status = tuff_cache_forget_rejected(cache, NULL);
    if (status == TUFF_OK)
        status = tuff_cache_unpin(cache, NULL, KEY(1024), NULL);
    tuff_cache_close(cache);
    return status;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    char *file = strdup(in_cache("file"));
    const int step = is_thorough() ? 1 : 4; /* each call waits for the disk */
    int failures = 0;
    (void)tuff_device_count(); /* drivers stay loaded */
    for (int64_t failing = 1 + drawn_turn("failing", 0, step);; failing += step) {
        (void)forget_all(NULL);
        fill_cache();
        failing_memory_begin(failing, failing / step % 2);
        const tuff_status status = do_all(file);
        const int64_t live = failing_memory_live();
        const bool hit = failing_memory_end();
        assert_int_equal(live, 0);
        assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
        if (!hit)
            break;
        failures++;
    }
    print_message("%d requests failed\n", failures);
    assert_true(failures * step > 100);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_known_at_first, forget_all),
        cmocka_unit_test_setup(records_are_seen, forget_all),
        cmocka_unit_test_setup(folders_and_files_may_be_unusable, forget_all),
        cmocka_unit_test_setup(a_pin_stays_until_it_is_taken_away, forget_all),
        cmocka_unit_test_setup(impossible_pins_are_refused, forget_all),
        cmocka_unit_test_setup(what_is_exported_can_be_imported, forget_all),
        cmocka_unit_test_setup(strange_files_are_told, forget_all),
        cmocka_unit_test_setup(better_evidence_is_kept, forget_all),
        cmocka_unit_test_setup(the_order_of_files_does_not_matter, forget_all),
        cmocka_unit_test_setup(seeds_hide_no_winner_from_manifests, forget_all),
        cmocka_unit_test_setup(what_is_old_goes, forget_all),
        cmocka_unit_test_setup(every_line_is_checked, forget_all),
        cmocka_unit_test_setup(memory_may_run_out, forget_all),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
