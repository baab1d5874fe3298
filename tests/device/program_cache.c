/* The cache folder: entries are read back complete or not at all, and programs work whatever the folder's state. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "device/cache/program_cache.h"
#include "device/state.h"
#include "each_device.h"

enum { HASH_AT = 24, KEY_AT = 40 };

static const cache_key key = {"program", "tuff, some driver of some version\nkernel one\n"};

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static bytes read_file(const char *path)
{
    bytes read = {malloc(1 << 22), 0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_non_null(read.data);
    read.size = fread(read.data, 1, 1 << 22, file);
    fclose(file);
    return read;
}

static void write_file(const char *path, const unsigned char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Corrects the hash of a changed entry. */
static void rehash(bytes entry)
{
    memset(entry.data + HASH_AT, 0, 16);
    hash128 hash = tuff__hash(entry.data, entry.size);
    for (int i = 0; i < 8; i++) {
        entry.data[HASH_AT + i] = (unsigned char)(hash.low >> (8 * i));
        entry.data[HASH_AT + 8 + i] = (unsigned char)(hash.high >> (8 * i));
    }
}

/* Stores an entry of size bytes under key, alone in the folder, and returns its path. */
static void store_entry(size_t size, char *path, size_t path_size)
{
    unsigned char *payload = malloc(size);
    assert_non_null(payload);
    for (size_t i = 0; i < size; i++)
        payload[i] = (unsigned char)(i * i + 7);
    tuff__program_cache_store(key, (blob){payload, size});
    free(payload);
    assert_int_equal(count_cache_files(".program", path, path_size), 1);
}

static bool loads(void)
{
    blob payload;
    bool found = tuff__program_cache_load(key, &payload);
    assert_int_equal(found, payload.data != NULL);
    tuff__free(payload.data);
    return found;
}

static void an_entry_comes_back_whole(void **state)
{
    (void)state;
    char path[512];
    blob payload;
    store_entry(100000, path, sizeof path);
    assert_true(tuff__program_cache_load(key, &payload));
    assert_int_equal(payload.size, 100000);
    for (size_t i = 0; i < payload.size; i++)
        assert_int_equal(((unsigned char *)payload.data)[i], (unsigned char)(i * i + 7));
    tuff__free(payload.data);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    cache_key other = {"program", "tuff, some driver of some version\nkernel two\n"};
    assert_false(tuff__program_cache_load(other, &payload));
    tuff__program_cache_drop(key);
    assert_false(loads());
    assert_int_equal(count_cache_files(".program", NULL, 0), 0);
}

static void the_header_is_as_described(void **state)
{
    (void)state;
    char path[512];
    store_entry(300, path, sizeof path);
    bytes entry = read_file(path);
    size_t length = strlen(key.text);
    assert_int_equal(entry.size, KEY_AT + length + 300);
    assert_int_equal(entry.data[8] | entry.data[9] << 8 | entry.data[10] << 16 | entry.data[11] << 24, 1);
    assert_int_equal(entry.data[12] | entry.data[13] << 8, KEY_AT + length);
    assert_int_equal(entry.data[16] | entry.data[17] << 8, 300);
    assert_memory_equal(entry.data + KEY_AT, key.text, length);
    unsigned char stored[16];
    memcpy(stored, entry.data + HASH_AT, 16);
    rehash(entry);
    assert_memory_equal(stored, entry.data + HASH_AT, 16);
    free(entry.data);
    tuff__program_cache_drop(key);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    char path[512];
    store_entry(200, path, sizeof path);
    bytes entry = read_file(path);
    for (size_t i = 0; i < entry.size * 8; i++) {
        entry.data[i / 8] ^= (unsigned char)(1u << i % 8);
        write_file(path, entry.data, entry.size);
        if (loads())
            fail_msg("accepted with bit %zu of byte %zu flipped", i % 8, i / 8);
        entry.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    write_file(path, entry.data, entry.size);
    assert_true(loads());
    free(entry.data);
    tuff__program_cache_drop(key);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    char path[512];
    store_entry(200, path, sizeof path);
    bytes entry = read_file(path);
    for (size_t size = 0; size < entry.size; size++) {
        write_file(path, entry.data, size);
        if (loads())
            fail_msg("accepted when cut to %zu bytes", size);
    }
    entry.data[entry.size] = 0;
    write_file(path, entry.data, entry.size + 1);
    assert_false(loads());
    free(entry.data);
    tuff__program_cache_drop(key);
}

/* Entries that are complete with a correct hash, but not the requested one. */
static void a_stale_entry_is_refused(void **state)
{
    (void)state;
    char path[512];
    store_entry(200, path, sizeof path);
    bytes entry = read_file(path);
    /* The key contains another driver version. */
    entry.data[KEY_AT + 3] ^= 1;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    assert_false(loads());
    entry.data[KEY_AT + 3] ^= 1;
    /* Another format version. */
    entry.data[8]++;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    assert_false(loads());
    entry.data[8]--;
    /* A shorter key; the rest of it counts as payload. */
    entry.data[12]--;
    entry.data[16]++;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    assert_false(loads());
    entry.data[12]++;
    entry.data[16]--;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    assert_true(loads());
    free(entry.data);
    tuff__program_cache_drop(key);
}

static void what_is_not_ours_alone_is_refused(void **state)
{
    (void)state;
    char path[512], other[600];
    store_entry(200, path, sizeof path);
    snprintf(other, sizeof other, "%s.other", path);
    assert_true(loads());
    assert_int_equal(chmod(path, 0666), 0);
    assert_false(loads());
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(link(path, other), 0);
    assert_false(loads());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_false(loads());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(loads());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(loads());
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(other, path), 0);
    assert_true(loads());
    /* The folder itself is accessible to others. */
    assert_int_equal(chmod(cache_folder(), 0777), 0);
    assert_false(loads());
    assert_int_equal(chmod(cache_folder(), 0700), 0);
    tuff__program_cache_drop(key);
}

/* A file that is larger than any program is not read. */
static void a_huge_entry_is_refused(void **state)
{
    (void)state;
    char path[512];
    store_entry(200, path, sizeof path);
    assert_int_equal(truncate(path, (off_t)10 << 30), 0);
    assert_false(loads());
    tuff__program_cache_drop(key);
}

/* Checks the kernel's result and whether its program was compiled or came from disk. */
static void use_program(tuff_device *device, uint64_t compiled, uint64_t from_disk)
{
    uint32_t words[64];
    test_kernel kernel;
    tuff_device_counters before, after;
    storage *memory = make_words(device, 64);
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    make_kernel(device, &kernel, "squares", "x[i] = i * i;");
    command dispatch = dispatch_over(device, &kernel, memory, 64);
    run_commands(&dispatch, 1, device, 1);
    read_words(device, memory, words, 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(words[i], i * i);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.programs_compiled - before.programs_compiled, compiled);
    assert_int_equal(after.programs_from_disk - before.programs_from_disk, from_disk);
    tuff__programs_store(device, &kernel.program, 1, true, UINT64_MAX);
    tuff__program_release(device, kernel.program);
    tuff__storage_release(memory);
}

static void forget_programs(void)
{
    forget_cache_files(".seen");
    forget_cache_files(".program");
}

static void change_byte(const char *path, size_t from_end)
{
    bytes entry = read_file(path);
    entry.data[entry.size - 1 - from_end] ^= 0x10;
    write_file(path, entry.data, entry.size);
    free(entry.data);
}

static void check_disk(tuff_device *device)
{
    char path[512];
    forget_programs();
    use_program(device, 1, 0);
    assert_int_equal(count_cache_files(".program", path, sizeof path), 1);
    assert_int_equal(count_cache_files(".seen", NULL, 0), 0);
    use_program(device, 0, 1);
    change_byte(path, 0);
    use_program(device, 1, 0);
    use_program(device, 0, 1);
    assert_int_equal(count_cache_files(".program", NULL, 0), 1);
}

static void programs_come_from_disk(void **state)
{
    (void)state;
    for_each_driver(check_disk);
}

static const driver *real;

static const char *other_identity(driver_device *device)
{
    (void)device;
    return "the same device behind a newer driver";
}

static const char *other_options(driver_device *device)
{
    (void)device;
    return "-cl-fast-relaxed-math";
}

/* Creates a program, checks whether it was compiled, and releases it. */
static void make_once(tuff_device *device, const program_request *request, bool compiled)
{
    tuff_device_counters before, after;
    program *made;
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    assert_int_equal(tuff__program_get(device, request, &made), TUFF_OK);
    tuff__programs_store(device, &made, 1, true, UINT64_MAX);
    tuff__program_release(device, made);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.programs_compiled - before.programs_compiled, compiled);
    assert_int_equal(after.programs_from_disk - before.programs_from_disk, !compiled);
}

/* Changes everything that a program's bytes depend on, one thing after the other: each change leads to a new
   program. */
static void check_key(tuff_device *device)
{
    test_kernel kernel;
    const program_request request = test_request(device, &kernel, "squares", "x[i] = i * i;");
    forget_programs();
    make_once(device, &request, true);
    make_once(device, &request, false);
    real = device->driver;
    driver changed = *real;
    device->driver = &changed;
    changed.identity = other_identity;
    make_once(device, &request, true);
    changed = *real;
    changed.build_options = other_options;
    make_once(device, &request, true);
    changed = *real;
    changed.name = "another API";
    make_once(device, &request, true);
    device->driver = real;
    test_kernel cubes;
    const program_request other = test_request(device, &cubes, "squares", "x[i] = i * i * i;");
    make_once(device, &other, true);
    make_once(device, &request, false);
}

static int created;

/* Creates no program and ignores the cached bytes. */
static tuff_status create_nothing(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **out)
{
    (void)request;
    created += cached.size == 0;
    if (cached.size == 0 && made)
        *made = (blob){tuff__memdup("bytes", 5), 5};
    *out = (driver_program *)device;
    return TUFF_OK;
}

static void drop_nothing(driver_device *device, driver_program *built)
{
    (void)device, (void)built;
}

static void get_once(tuff_device *device, const program_request *request, int expected)
{
    program *made;
    created = 0;
    assert_int_equal(tuff__program_get(device, request, &made), TUFF_OK);
    tuff__program_release(device, made);
    assert_int_equal(created, expected);
}

/* The same for the fields of the request other than its text; the text need not contain them. */
static void check_request_key(tuff_device *device)
{
    test_kernel kernel;
    const program_request defaults = test_request(device, &kernel, "squares", "x[i] = i * i;");
    program_request others[] = {defaults, defaults, defaults, defaults, defaults};
    others[0].name = "other";
    others[1].buffer_count++;
    others[2].word_count++;
    others[3].local_size /= 2;
    others[4].subgroup_size = tuff__device_info(device)->subgroup_size;
    forget_programs();
    real = device->driver;
    driver changed = *real;
    changed.program_create = create_nothing;
    changed.program_destroy = drop_nothing;
    changed.is_binary_costly = NULL;
    device->driver = &changed;
    get_once(device, &defaults, 1);
    get_once(device, &defaults, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (i < 4 || others[i].subgroup_size > 0)
            get_once(device, &others[i], 1);
    device->driver = real;
    forget_programs();
}

/* Parts of the key that a test cannot change: the text of the key must contain them. */
static void check_key_text(tuff_device *device)
{
    char path[512], first[200], last[200];
    test_kernel kernel;
    const program_request request = test_request(device, &kernel, "squares", "x[i] = i * i;");
    const hash128 hash = tuff__hash(request.text, strlen(request.text));
    forget_programs();
    make_once(device, &request, true);
    assert_int_equal(count_cache_files(".program", path, sizeof path), 1);
    bytes entry = read_file(path);
    (void)snprintf(first, sizeof first, "tuff %s, key 1, pointers of %zu bytes\n%s\n", tuff_version(), sizeof(void *),
                   device->driver->name);
    (void)snprintf(last, sizeof last, "text %016llx%016llx of %zu bytes\n", (unsigned long long)hash.high,
                   (unsigned long long)hash.low, strlen(request.text));
    const size_t end = (size_t)(entry.data[12] | entry.data[13] << 8);
    assert_true(end > KEY_AT + strlen(first) + strlen(last) && end < entry.size);
    assert_memory_equal(entry.data + KEY_AT, first, strlen(first));
    assert_memory_equal(entry.data + end - strlen(last), last, strlen(last));
    free(entry.data);
}

static void choose_optimizer(bool is_on)
{
    assert_int_equal(setenv("TUFF_DRIVER_OPTIMIZER", is_on ? "1" : "0", 1), 0);
}

/* The same device with its driver's optimizer on and off: neither takes the other's programs, and the driver's name,
   by which tuning records are found, differs. */
static void check_optimizer(tuff_device *device)
{
    const bool was_on = tuff__driver_optimizer_is_on();
    const char *selector = tuff__device_info(device)->selector;
    tuff_device *by_state[2];
    for (int is_on = 0; is_on < 2; is_on++) {
        choose_optimizer(is_on);
        by_state[is_on] = tuff_device_open(selector);
        assert_non_null(by_state[is_on]);
    }
    forget_programs();
    for (int is_on = 0; is_on < 2; is_on++) {
        use_program(by_state[is_on], 1, 0);
        use_program(by_state[is_on], 0, 1);
    }
    const char *plain = tuff__device_info(by_state[1])->driver, *other = tuff__device_info(by_state[0])->driver;
    assert_memory_equal(plain, other, strlen(plain));
    assert_string_equal(other + strlen(plain), ", optimizer off");
    assert_string_equal(tuff__device_info(device)->driver, was_on ? plain : other);
    for (int i = 0; i < 2; i++)
        tuff_device_close(by_state[i]);
    choose_optimizer(was_on);
}

static void all_that_bytes_depend_on_is_in_the_key(void **state)
{
    (void)state;
    for_each_driver(check_key);
    for_each_driver(check_request_key);
    for_each_driver(check_key_text);
    for_each_driver(check_optimizer);
}

static int refused, seen;

static tuff_status refuse_cached(driver_device *device, const program_request *request, blob cached, blob *made,
                                 driver_program **out)
{
    seen += cached.size > 0;
    if (cached.size > 0 && refused > 0) {
        refused--;
        return tuff__fail(TUFF_E_COMPILE, "a binary of another world");
    }
    return real->program_create(device, request, cached, made, out);
}

static void check_refused_binary(tuff_device *device)
{
    char path[512];
    driver choosy = *device->driver;
    real = device->driver;
    choosy.program_create = refuse_cached;
    forget_programs();
    use_program(device, 1, 0);
    device->driver = &choosy;
    seen = 0;
    refused = 1;
    use_program(device, 1, 0);
    assert_int_equal(refused, 0);
    assert_int_equal(seen, 1);
    use_program(device, 0, 1);
    assert_int_equal(seen, 2);
    /* A damaged entry never reaches the driver. */
    assert_int_equal(count_cache_files(".program", path, sizeof path), 1);
    change_byte(path, 3);
    use_program(device, 1, 0);
    assert_int_equal(seen, 2);
    device->driver = real;
}

static void a_binary_that_the_driver_refuses_is_made_anew(void **state)
{
    (void)state;
    for_each_driver(check_refused_binary);
}

static int (*real_open)(const char *path, int flags, mode_t mode);

static int open_for_reading_only(const char *path, int flags, mode_t mode)
{
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT)) {
        errno = EROFS;
        return -1;
    }
    return real_open(path, flags, mode);
}

static void check_read_only(tuff_device *device)
{
    forget_programs();
    real_open = tuff__file.open;
    tuff__file.open = open_for_reading_only;
    use_program(device, 1, 0);
    use_program(device, 1, 0);
    tuff__file.open = real_open;
    assert_int_equal(count_cache_files(".program", NULL, 0), 0);
    assert_int_equal(count_cache_files("", NULL, 0), /* . and .. */
                     count_cache_files(".device", NULL, 0) + count_cache_files(".seen", NULL, 0) + 2);
    use_program(device, 1, 0);
    tuff__file.open = open_for_reading_only;
    use_program(device, 0, 1);
    tuff__file.open = real_open;
}

static void a_read_only_folder_is_read(void **state)
{
    (void)state;
    for_each_driver(check_read_only);
}

static void check_off(tuff_device *device)
{
    forget_programs();
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    use_program(device, 1, 0);
    use_program(device, 1, 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "/dev/null/nowhere", 1), 0);
    use_program(device, 1, 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
    assert_int_equal(count_cache_files(".program", NULL, 0), 0);
}

static void check_compiles(tuff_device *device)
{
    use_program(device, 1, 0);
    use_program(device, 1, 0);
}

static void the_cache_may_be_off(void **state)
{
    (void)state;
    for_each_driver(check_off);
    /* Without a cache the self-test runs, too. */
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    for_each_driver(check_compiles);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static tuff_device_info open_and_describe(const char *selector)
{
    tuff_device_info info;
    tuff_device *device = tuff_device_open(selector);
    assert_non_null(device);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    tuff_device_close(device);
    return info;
}

static void expect_same_proofs(tuff_device_info a, tuff_device_info b)
{
    assert_true(a.proved && b.proved);
    assert_int_equal(a.proved_subgroup_size, b.proved_subgroup_size);
    assert_int_equal(a.proved_barrier, b.proved_barrier);
    assert_int_equal(a.proved_narrow_storage, b.proved_narrow_storage);
    assert_int_equal(a.proved_nan, b.proved_nan);
    assert_int_equal(a.proved_negative_zero, b.proved_negative_zero);
    assert_int_equal(a.proved_denormals, b.proved_denormals);
    assert_int_equal(a.narrow_storage, b.narrow_storage);
    assert_int_equal(a.half_arithmetic, b.half_arithmetic);
    assert_int_equal(a.int64, b.int64);
    assert_int_equal(a.subgroup_shuffle, b.subgroup_shuffle);
    assert_int_equal(a.cooperative_matrix, b.cooperative_matrix);
    assert_int_equal(a.matrix_warpgroup, b.matrix_warpgroup);
    assert_int_equal(a.matrix_group_sizes, b.matrix_group_sizes);
    assert_int_equal(a.matrix_group_sizes_bf16, b.matrix_group_sizes_bf16);
    assert_int_equal(a.exchange_form, b.exchange_form);
    assert_int_equal(a.exchange_lanes, b.exchange_lanes);
    assert_int_equal(a.loop_limit, b.loop_limit);
}

/* Checks which features of a device are proved by the probes, by its record, by a damaged record, and by one that is
   wrong. */
static void check_record(const char *selector, const tuff_device_info *claims)
{
    enum { RECORD_SIZE = 18 };
    char path[512];
    forget_cache_files(".device");
    tuff_device_info proved = open_and_describe(selector);
    assert_true(proved.proved_barrier);
    assert_true(proved.proved_narrow_storage || !claims->narrow_storage);
    assert_int_equal(proved.narrow_storage, proved.proved_narrow_storage);
    assert_int_equal(count_cache_files(".device", path, sizeof path), 1);
    expect_same_proofs(proved, open_and_describe(selector));
    bytes entry = read_file(path);
    size_t record = entry.size - RECORD_SIZE;
    change_byte(path, 4);
    expect_same_proofs(proved, open_and_describe(selector));
    bytes mended = read_file(path);
    assert_int_equal(mended.size, entry.size);
    assert_memory_equal(mended.data, entry.data, entry.size);
    free(mended.data);
    /* A valid record is trusted: it turns barriers off. */
    entry.data[record + 1] = 0;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    assert_false(open_and_describe(selector).proved_barrier);
    /* Values that no self-test writes are not trusted. */
    entry.data[record + 1] = 9;
    rehash(entry);
    write_file(path, entry.data, entry.size);
    expect_same_proofs(proved, open_and_describe(selector));
    /* A record cannot enable features that the driver does not report. */
    memset(entry.data + record, 1, RECORD_SIZE);
    rehash(entry);
    write_file(path, entry.data, entry.size);
    tuff_device_info granted = open_and_describe(selector);
    assert_int_equal(granted.half_arithmetic, claims->half_arithmetic);
    assert_int_equal(granted.narrow_storage, claims->narrow_storage);
    assert_int_equal(granted.int64, claims->int64);
    assert_int_equal(granted.subgroup_shuffle, claims->subgroup_shuffle);
    assert_int_equal(granted.cooperative_matrix, claims->cooperative_matrix);
    assert_int_equal(granted.exchange_form, claims->exchange_form);
    assert_int_equal(granted.matrix_group_sizes, 0);
    assert_int_equal(granted.matrix_group_sizes_bf16, 0);
    free(entry.data);
    forget_cache_files(".device");
}

static void what_a_device_proved_is_recorded(void **state)
{
    (void)state;
    if (tuff_device_count() == 1)
        skip();
    for (int i = 0; i < tuff_device_count() - 1; i++) {
        tuff_device_info claims;
        assert_int_equal(tuff_device_describe_at(i, &claims), TUFF_OK);
        print_message("  %s: %s\n", claims.selector, claims.name);
        check_record(claims.selector, &claims);
    }
}

/* Stores a program of that size, last used so many days ago. */
static void keep_old(const char *text, size_t size, int days)
{
    char *data = calloc(1, size);
    assert_non_null(data);
    const cache_key old = {"program", text};
    tuff__program_cache_store(old, (blob){data, size});
    free(data);
    const struct timespec then = {.tv_sec = time(NULL) - days * (time_t)86400};
    char path[4096];
    const hash128 hash = tuff__hash(text, strlen(text));
    (void)snprintf(path, sizeof path, "%s/%016llx%016llx.program", cache_folder(), (unsigned long long)hash.high,
                   (unsigned long long)hash.low);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){then, then}, 0), 0);
}

static bool is_kept(const char *kind, const char *text)
{
    blob payload;
    const bool found = tuff__program_cache_load((cache_key){kind, text}, &payload);
    tuff__free(payload.data);
    return found;
}

static int refuse_removal(const char *path)
{
    (void)path;
    errno = EACCES;
    return -1;
}

/* Trims the cache to half of the limit if it is larger, the least recently used programs first; other files are
   kept. */
static void old_programs_make_way(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    tuff__program_cache_trim(0);
    tuff__program_cache_store((cache_key){"device", "a record"}, (blob){(void *)(uintptr_t) "record", 6});
    for (int i = 0; i < 4; i++)
        keep_old(names[i], 100000, 40 - 10 * i);
    tuff__program_cache_trim(500000);
    for (int i = 0; i < 4; i++)
        assert_true(is_kept("program", names[i]));
    tuff__file.unlink = refuse_removal;
    tuff__program_cache_trim(300000);
    tuff__file.unlink = unlink;
    assert_true(is_kept("program", "a"));
    keep_old("a", 100000, 40); /* its time of last use was just updated by a read */
    tuff__program_cache_trim(380000);
    assert_false(is_kept("program", "a"));
    assert_true(is_kept("device", "a record"));
    tuff__program_cache_store((cache_key){"seen", "e"}, (blob){NULL, 0});
    assert_true(is_kept("seen", "e"));
    tuff__program_cache_trim(2 * 100000);
    assert_true(is_kept("seen", "e"));
    int kept = 0;
    for (int i = 0; i < 4; i++)
        kept += is_kept("program", names[i]);
    assert_int_equal(kept, 1);
    tuff__program_cache_trim(0); /* marks go, too */
    assert_false(is_kept("seen", "e"));
    assert_true(is_kept("device", "a record"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_comes_back_whole),
        cmocka_unit_test(the_header_is_as_described),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_stale_entry_is_refused),
        cmocka_unit_test(what_is_not_ours_alone_is_refused),
        cmocka_unit_test(a_huge_entry_is_refused),
        cmocka_unit_test(programs_come_from_disk),
        cmocka_unit_test(all_that_bytes_depend_on_is_in_the_key),
        cmocka_unit_test(a_binary_that_the_driver_refuses_is_made_anew),
        cmocka_unit_test(a_read_only_folder_is_read),
        cmocka_unit_test(the_cache_may_be_off),
        cmocka_unit_test(what_a_device_proved_is_recorded),
        cmocka_unit_test(old_programs_make_way),
    };
    return cmocka_run_group_tests_name("program_cache", tests, use_empty_cache, drop_cache);
}
