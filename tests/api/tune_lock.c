/* Deterministic plans: with one manifest, twenty processes have the same plan hash and bit-identical results, whatever
   their caches contain; in deterministic mode the content of a cache changes no bit; any deviation from a manifest is
   an error that names the key. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file/lock.h"
#include "base/hash.h"
#include "each_device.h"
#include "small_plans.h"
#include "tunedb/folder.h"
#include "tune_fixture.h"

enum { ROWS = 24, INNER = 200, COLUMNS = 128, PROCESSES = 20 };

/* A matmul, rows and a sum over columns: kernels whose sums can be split in many ways. */
static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_tensor *y = tuff_gelu(tuff_matmul(x, w));
    tuff_output(graph, "p", tuff_softmax(y, 1));
    tuff_output(graph, "s", tuff_sum(tuff_exp(y), (const int[]){0}, 1, false));
    return graph;
}

typedef struct outcome {
    hash128 bits;
    uint64_t plan[2];
} outcome;

static outcome run_graph(tuff_plan *plan)
{
    static float x[ROWS * INNER], w[INNER * COLUMNS], out[ROWS * COLUMNS + COLUMNS];
    outcome made;
    for (int i = 0; i < ROWS * INNER; i++)
        x[i] = (float)(i * 7919 % 8191) / 8191;
    for (int i = 0; i < INNER * COLUMNS; i++)
        w[i] = (float)(i * 10477 % 65521) / 65521 / 16;
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "p", out, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "s", out + ROWS * COLUMNS, sizeof(float) * COLUMNS), TUFF_OK);
    made.bits = tuff__hash(out, sizeof out);
    assert_int_equal(tuff_plan_hash(plan, made.plan), TUFF_OK);
    return made;
}

static outcome compile_and_run(tuff_device *device, const tuff_compile_options *options, const char *lock,
                               tuff_tune_stats *stats)
{
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    const outcome made = run_graph(plan);
    assert_int_equal(tuff_plan_tune_stats(plan, stats), TUFF_OK);
    if (lock)
        assert_int_equal(tuff_plan_save_manifest(plan, lock), TUFF_OK);
    destroy_plan(plan, graph);
    return made;
}

static bool is_same(const outcome *a, const outcome *b)
{
    return memcmp(&a->bits, &b->bits, sizeof a->bits) == 0 && memcmp(a->plan, b->plan, sizeof a->plan) == 0;
}

static void remove_stores(void)
{
    char line[600];
    (void)snprintf(line, sizeof line, "rm -rf '%s/tune'", cache_folder());
    assert_int_equal(system(line), 0);
}

static const char *manifest(void)
{
    static char path[300];
    (void)snprintf(path, sizeof path, "%s/manifest", cache_folder());
    return path;
}

/* Pins a candidate for each of the plan's keys of a family. Returns the number of pins. */
static int pin_all(tuff_device *device, const char *family, const char *candidate)
{
    char environment[ENVIRONMENT_SIZE];
    int pins = 0;
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    tune_store *store = open_device_store(device, environment);
    assert_int_equal(tuff__store_set_environment(store, environment), TUFF_OK);
    for (int i = 0; i < tuff_plan_key_count(plan); i++) {
        tuff_plan_key_info key;
        assert_int_equal(tuff_plan_key(plan, i, &key), TUFF_OK);
        assert_true(key.calls > 0);
        if (strncmp(key.key, family, strlen(family)) != 0)
            continue;
        const tune_record pin = tuff__record_make(RECORD_PIN, environment, key.key, candidate);
        assert_int_equal(tuff__store_add(store, &pin), TUFF_OK);
        pins++;
    }
    tuff__store_close(store);
    destroy_plan(plan, graph);
    return pins;
}

/* Runs in the child process, with a manifest; prints "CHILD", the plan's hash, that of the results, and the number of
   keys measured. */
static int be_child(const char *selector, const char *path)
{
    tuff_device *device = tuff_device_open(selector);
    tuff_tune_stats stats;
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_MAX, .manifest = path}};
    assert_non_null(device);
    const outcome made = compile_and_run(device, &options, NULL, &stats);
    printf("CHILD %016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64 " %d\n", made.plan[0], made.plan[1],
           made.bits.high, made.bits.low, stats.measured);
    tuff_device_close(device);
    return 0;
}

static outcome run_child(const char *selector, const char *cache)
{
    char line[1400], self[400], output[300];
    outcome made;
    int measured = -1;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    (void)snprintf(line, sizeof line, "TUFF_CACHE_DIR='%s' '%s' child %s '%s'", cache, self, selector, manifest());
    FILE *child = popen(line, "r");
    assert_non_null(child);
    bool found = false;
    while (fgets(output, sizeof output, child))
        found = found || sscanf(output, "CHILD %16" SCNx64 "%16" SCNx64 " %16" SCNx64 "%16" SCNx64 " %d", &made.plan[0],
                                &made.plan[1], &made.bits.high, &made.bits.low, &measured) == 5;
    assert_int_equal(pclose(child), 0);
    assert_true(found);
    assert_int_equal(measured, 0);
    return made;
}

static void lock_and_repeat(tuff_device *device)
{
    tuff_device_info info;
    tuff_tune_stats stats;
    char fresh[400];
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    remove_stores();
    (void)remove(manifest());
    const tuff_compile_options off = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    const outcome defaults = compile_and_run(device, &off, NULL, &stats);
    assert_true(pin_all(device, "row ", "task.family=1;task.lanes=4;row_register.local_size=2") > 0);
    assert_true(pin_all(device, "matmul ", "task.family=1;matmul_register.rows=3;matmul_register.vectors=1") > 0);
    const outcome locked = compile_and_run(device, NULL, manifest(), &stats);
    assert_false(is_same(&defaults, &locked));
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_PIN], 2 + (stats.hits[TUFF_TUNE_HIT_PIN] > 2));
    remove_stores();
    for (int i = 0; i < PROCESSES; i++) {
        (void)snprintf(fresh, sizeof fresh, "%s/fresh%d", cache_folder(), i);
        if (i % 2)
            assert_int_equal(mkdir(fresh, 0700), 0);
        const outcome made = run_child(info.selector, i % 2 ? fresh : cache_folder());
        assert_true(is_same(&made, &locked));
        (void)snprintf(fresh, sizeof fresh, "rm -rf '%s/fresh%d'", cache_folder(), i);
        assert_int_equal(system(fresh), 0);
    }
}

static void a_manifest_is_the_same_everywhere(void **state)
{
    (void)state;
    for_drawn_api(0, lock_and_repeat);
}

static void expect_deviation(tuff_device *device, const tuff_compile_options *options, const char *subject)
{
    tuff_graph *graph = make_graph(device);
    assert_null(tuff_compile(graph, options));
    if (!strstr(tuff_error(), subject))
        fail_msg("\"%s\" does not say \"%s\"", tuff_error(), subject);
    tuff_graph_destroy(graph);
}

/* Rewrites the manifest with one change to one line: another candidate or kernel hash, or the line is missing. */
static void damage_record(const char *family, const char *candidate, const char *kernel_hash)
{
    tune_store *store;
    const tune_record *one;
    text lines = {0};
    assert_int_equal(tuff__store_load(manifest(), &store), TUFF_OK);
    for (int at = 0; (one = tuff__store_next(store, &at));) {
        tune_record copy = *one;
        const bool is_it = one->kind == RECORD_PIN && strncmp(one->op, family, strlen(family)) == 0;
        if (is_it && !candidate && !kernel_hash)
            continue;
        copy.candidate = is_it && candidate ? candidate : one->candidate;
        copy.kernel_hash = is_it && kernel_hash ? kernel_hash : one->kernel_hash;
        assert_int_equal(tuff__record_write(&copy, &lines), TUFF_OK);
    }
    FILE *file = fopen(manifest(), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(tuff__text_get(&lines), 1, lines.length, file), lines.length);
    assert_int_equal(fclose(file), 0);
    tuff__text_free(&lines);
    tuff__store_close(store);
}

static void deviate(tuff_device *device)
{
    tuff_tune_stats stats;
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.manifest = manifest()}},
                               unfused = {.fuse = TUFF_FUSE_NONE,
                                          .tuning = &(tuff_tune_options){.manifest = manifest()}};
    remove_stores();
    (void)remove(manifest());
    expect_deviation(device, &options, "manifest");
    compile_and_run(device, NULL, manifest(), &stats);
    expect_deviation(device, &unfused, "a manifest needs the default");
    compile_and_run(device, &options, manifest(), &stats);
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_PIN], stats.keys);
    damage_record("matmul", "matmul_register.rows=99", NULL);
    expect_deviation(device, &options, "the manifest's candidate cannot be used");
    expect_deviation(device, &options, ": matmul ");
    damage_record("matmul", "", "00000000");
    expect_deviation(device, &options, "the manifest was made for other kernel texts (00000000");
    damage_record("row", NULL, NULL);
    damage_record("matmul", NULL, NULL);
    expect_deviation(device, &options, "the manifest has no entry for the key in this environment: ");
    compile_and_run(device, NULL, manifest(), &stats);
    compile_and_run(device, &options, NULL, &stats);
    FILE *file = fopen(manifest(), "a");
    assert_non_null(file);
    assert_true(fputs("nonsense\n", file) > 0);
    assert_int_equal(fclose(file), 0);
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_save_manifest(plan, manifest()), TUFF_E_FORMAT);
    assert_int_equal(tuff_plan_save_manifest(plan, "/dev/null/nowhere"), TUFF_E_IO);
    destroy_plan(plan, graph);
}

static void deviations_are_errors(void **state)
{
    (void)state;
    for_drawn_api(1, deviate);
}

/* Pins that sum in another order change bits, but not in deterministic mode; pins with the same order are used in
   it. */
static void stay_deterministic(tuff_device *device)
{
    tuff_tune_stats stats;
    const tuff_compile_options off = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}},
                               deterministic = {
                                   .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .deterministic = true}};
    remove_stores();
    const outcome defaults = compile_and_run(device, &off, NULL, &stats);
    outcome made = compile_and_run(device, &deterministic, NULL, &stats);
    assert_true(is_same(&defaults, &made));
    assert_int_equal(stats.measured, 0);
    assert_true(pin_all(device, "row ", "task.family=2;task.lanes=4;row_local.local_size=8") > 0);
    made = compile_and_run(device, NULL, NULL, &stats);
    assert_true(stats.hits[TUFF_TUNE_HIT_PIN] > 0);
    assert_memory_not_equal(&defaults.bits, &made.bits, sizeof defaults.bits);
    made = compile_and_run(device, &deterministic, NULL, &stats);
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_PIN], 0);
    assert_int_equal(stats.measured, 0);
    assert_true(is_same(&defaults, &made));
    assert_true(pin_all(device, "row ", "row_register.local_size=2;row_register.private_bytes=1024") > 0);
    made = compile_and_run(device, &deterministic, NULL, &stats);
    assert_true(stats.hits[TUFF_TUNE_HIT_PIN] > 0);
    assert_memory_equal(&defaults.bits, &made.bits, sizeof defaults.bits);
    assert_memory_not_equal(defaults.plan, made.plan, sizeof defaults.plan);
}

static void what_is_remembered_changes_no_bit(void **state)
{
    (void)state;
    for_drawn_api(3, stay_deterministic);
}

static file_operations genuine;
static int saves_under_lock;

/* No other process may read the manifest that is about to be replaced. */
static int rename_locked(const char *from, const char *to)
{
    char name[320];
    file_lock other;
    (void)snprintf(name, sizeof name, "%s.lock", manifest());
    const tuff_status status = tuff__file_lock(name, 0, &other);
    tuff__file_unlock(&other);
    saves_under_lock += strcmp(to, manifest()) == 0 && status == TUFF_E_TIMEOUT;
    return genuine.rename(from, to);
}

static int have_no_locks(int fd, int operation)
{
    (void)fd, (void)operation;
    errno = ENOLCK;
    return -1;
}

static tuff_status save_rows(tuff_device *device, int64_t rows)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(rows, 64));
    tuff_output(graph, "y", tuff_softmax(x, 1));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_key_count(plan), 1);
    const tuff_status status = tuff_plan_save_manifest(plan, manifest());
    destroy_plan(plan, graph);
    return status;
}

static int count_pins(void)
{
    tune_store *store;
    int pins = 0, at = 0;
    assert_int_equal(tuff__store_load(manifest(), &store), TUFF_OK);
    for (const tune_record *one; (one = tuff__store_next(store, &at));)
        pins += one->kind == RECORD_PIN;
    tuff__store_close(store);
    return pins;
}

static void save_in_turns(tuff_device *device)
{
    (void)unlink(manifest());
    saves_under_lock = 0;
    genuine = tuff__file;
    tuff__file.rename = rename_locked;
    const tuff_status first = save_rows(device, 3), second = save_rows(device, 300);
    tuff__file.rename = genuine.rename;
    tuff__file.flock = have_no_locks;
    const tuff_status unlocked = save_rows(device, 30000);
    tuff__file = genuine;
    assert_true(first == TUFF_OK && second == TUFF_OK && unlocked == TUFF_OK);
    assert_int_equal(saves_under_lock, 2);
    assert_int_equal(count_pins(), 3);
}

static void a_manifest_is_written_by_one_at_a_time(void **state)
{
    (void)state;
    for_drawn_api(4, save_in_turns);
}

enum { OF_X, OF_Y, SCALED_BY_2, SCALED_BY_3, ADDED_TO_A, ADDED_TO_B, KINDS };

/* Hashes plans whose kernels are equal. */
static void hash_kind(tuff_device *device, tuff_array *const *arrays, int kind, uint64_t hash[2])
{
    const tuff_compile_options apart = {.fuse = TUFF_FUSE_NONE};
    const float numbers[] = {kind == SCALED_BY_2 ? 2 : 3, 5};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2)), *y = tuff_exp(x), *z;
    tuff_tensor *a = tuff_array_tensor(graph, arrays[0]), *b = tuff_array_tensor(graph, arrays[1]);
    if (kind < SCALED_BY_2)
        z = tuff_sin(kind == OF_X ? x : y);
    else
        z = kind < ADDED_TO_A ? tuff_mul(x, tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(2), numbers))
                              : tuff_add(x, kind == ADDED_TO_A ? a : b);
    tuff_output(graph, "y", y);
    tuff_output(graph, "z", z);
    tuff_output(graph, "a", tuff_neg(a));
    tuff_output(graph, "b", tuff_neg(b));
    tuff_plan *plan = tuff_compile(graph, &apart);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_hash(plan, hash), TUFF_OK);
    destroy_plan(plan, graph);
}

static void tell_apart(tuff_device *device)
{
    const float zeros[2] = {0};
    tuff_array *arrays[2] = {make_array(device, TUFF_F32, 2, zeros), make_array(device, TUFF_F32, 2, zeros)};
    uint64_t hashes[KINDS][2];
    for (int i = 0; i < KINDS; i++) {
        uint64_t again[2];
        hash_kind(device, arrays, i, hashes[i]);
        hash_kind(device, arrays, i, again);
        assert_memory_equal(hashes[i], again, sizeof again);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(hashes[i], hashes[k], sizeof again);
    }
    tuff_array_destroy(arrays[0]);
    tuff_array_destroy(arrays[1]);
}

static void other_operands_are_another_plan(void **state)
{
    (void)state;
    for_drawn_api(2, tell_apart);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    uint64_t hash[2];
    tuff_plan_key_info key;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan =
        tuff_compile(graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.deterministic = true}});
    assert_non_null(plan);
    assert_int_equal(tuff_plan_key_count(plan), 0);
    assert_int_equal(tuff_plan_key_count(NULL), -1);
    assert_int_equal(tuff_plan_key(plan, 0, &key), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_key(NULL, 0, &key), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_hash(plan, hash), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff_plan_hash(NULL, hash), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_save_manifest(plan, NULL), TUFF_E_USAGE);
    destroy_plan(plan, graph);
    tuff_device_close(device);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_is_the_same_everywhere), cmocka_unit_test(deviations_are_errors),
        cmocka_unit_test(what_is_remembered_changes_no_bit), cmocka_unit_test(a_manifest_is_written_by_one_at_a_time),
        cmocka_unit_test(other_operands_are_another_plan),   cmocka_unit_test(wrong_use_is_refused),
    };
    if (count == 4 && strcmp(arguments[1], "child") == 0)
        return be_child(arguments[2], arguments[3]);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
