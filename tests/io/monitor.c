/* Monitors: the content of their files, read by a separate reader; continuing after a resumed run; disks that fill up
   at any moment. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/file/file.h"
#include "faulty_files.h"
#include "scratch_folder.h"
#include "tuff/monitor.h"

static const char *const names[] = {"loss", "rate, \"peak\"", "memory"};

static tuff_monitor *open_at(tuff_monitor_format format, const char *name, bool append, int64_t first_step)
{
    return tuff_monitor_open(&(tuff_monitor_options){.format = format,
                                                     .path = scratch_path(name),
                                                     .names = names,
                                                     .count = 3,
                                                     .append = append,
                                                     .first_step = first_step});
}

static tuff_monitor *open_well(tuff_monitor_format format, const char *name, bool append, int64_t first_step)
{
    tuff_monitor *monitor = open_at(format, name, append, first_step);
    if (!monitor)
        fail_msg("%s", tuff_error());
    return monitor;
}

static void write_steps(tuff_monitor *monitor, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        const tuff_scalar scalars[] = {{names[0], 1.0 / (double)step}, {names[2], 5e9 + (double)step}};
        assert_int_equal(tuff_monitor_write(monitor, step, scalars, 2), TUFF_OK);
    }
}

static void expect_file(const char *name, const char *expected)
{
    size_t size;
    char *found = scratch_read(name, &size);
    assert_non_null(found);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(found, expected, size);
    free(found);
}

static void csv_has_a_column_for_each_name(void **state)
{
    (void)state;
    tuff_monitor *monitor = open_well(TUFF_MONITOR_CSV, "log.csv", false, 0);
    const tuff_scalar all[] = {{names[2], 4294967297.0}, {names[1], -INFINITY}, {names[0], 0.1}};
    const tuff_scalar one[] = {{names[1], NAN}};
    assert_int_equal(tuff_monitor_write(monitor, 1, all, 3), TUFF_OK);
    assert_int_equal(tuff_monitor_write(monitor, 12345678901, one, 1), TUFF_OK);
    assert_int_equal(tuff_monitor_write(monitor, 0, NULL, 0), TUFF_OK);
    expect_file("log.csv", "step,loss,\"rate, \"\"peak\"\"\",memory\n1,0.1,-inf,4294967297\n12345678901,,nan,\n0,,,\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

static void json_lines_have_the_scalars_that_are_given(void **state)
{
    (void)state;
    tuff_monitor *monitor = open_well(TUFF_MONITOR_JSON_LINES, "log", false, 0);
    const tuff_scalar all[] = {{names[0], 2.5}, {names[1], INFINITY}};
    assert_int_equal(tuff_monitor_write(monitor, 7, all, 2), TUFF_OK);
    expect_file("log", "{\"step\": 7, \"loss\": 2.5, \"rate, \\\"peak\\\"\": null}\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

/* An event as this test's reader decodes it. */
typedef struct event {
    double wall_time;
    int64_t step;
    char version[32];
    int session_status; /* 0: none */
    int value_count;
    char tags[3][32];
    float values[3];
} event;

/* Computes the CRC bit by bit, from the polynomial x^32 + x^28 + x^27 + ... of RFC 3720, in reverse. */
static uint32_t slow_crc32c(const unsigned char *data, size_t size)
{
    uint32_t rest = UINT32_MAX;
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t low = (rest ^ (uint32_t)(data[i] >> bit)) & 1;
            rest = rest >> 1 ^ (low ? 0x82f63b78u : 0);
        }
    return ~rest;
}

static uint32_t word_at(const unsigned char *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static void expect_crc(const unsigned char *data, size_t size, uint32_t stored)
{
    const uint32_t turned = stored - 0xa282ead8u;
    assert_int_equal(turned << 15 | turned >> 17, slow_crc32c(data, size));
}

static uint64_t take_varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void take_text(const unsigned char **at, uint64_t size, char *out)
{
    assert_true(size < 32);
    memcpy(out, *at, size);
    out[size] = 0;
    *at += size;
}

static void parse_value(const unsigned char *at, const unsigned char *end, event *out)
{
    const int index = out->value_count++;
    assert_true(index < 3);
    while (at < end) {
        const uint64_t tag = take_varint(&at);
        if (tag == (1 << 3 | 2)) {
            const uint64_t size = take_varint(&at);
            take_text(&at, size, out->tags[index]);
        } else {
            assert_int_equal(tag, 2 << 3 | 5);
            const uint32_t bits = word_at(at);
            memcpy(&out->values[index], &bits, sizeof bits);
            at += 4;
        }
    }
    assert_ptr_equal(at, end);
}

static void parse_summary(const unsigned char *at, const unsigned char *end, event *out)
{
    while (at < end) {
        assert_int_equal(take_varint(&at), 1 << 3 | 2);
        const uint64_t size = take_varint(&at);
        parse_value(at, at + size, out);
        at += size;
    }
    assert_ptr_equal(at, end);
}

static void parse_event(const unsigned char *at, const unsigned char *end, event *out)
{
    *out = (event){.step = 0};
    while (at < end) {
        const uint64_t tag = take_varint(&at);
        if (tag == (1 << 3 | 1)) {
            memcpy(&out->wall_time, at, sizeof out->wall_time);
            at += 8;
        } else if (tag == (2 << 3 | 0)) {
            out->step = (int64_t)take_varint(&at);
        } else {
            const uint64_t size = take_varint(&at);
            assert_int_equal(tag & 7, 2);
            if (tag >> 3 == 3)
                take_text(&(const unsigned char *){at}, size, out->version);
            else if (tag >> 3 == 5)
                parse_summary(at, at + size, out);
            else
                assert_int_equal(tag >> 3, 7);
            if (tag >> 3 == 7) {
                assert_int_equal(at[0], 1 << 3 | 0);
                out->session_status = at[1];
            }
            at += size;
        }
    }
    assert_ptr_equal(at, end);
}

/* Reads the events of a file, at most `most`; fails on anything that is not a complete TFRecord. */
static int parse_file(const char *name, event *events, int most)
{
    size_t size;
    int count = 0;
    char *data = scratch_read(name, &size);
    assert_non_null(data);
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    while (at < end) {
        assert_true(end - at >= 16 && count < most);
        const uint64_t length = (uint64_t)word_at(at) | (uint64_t)word_at(at + 4) << 32;
        assert_true(length <= (uint64_t)(end - at) - 16);
        expect_crc(at, 8, word_at(at + 8));
        expect_crc(at + 12, (size_t)length, word_at(at + 12 + length));
        parse_event(at + 12, at + 12 + length, &events[count++]);
        at += 16 + length;
    }
    free(data);
    return count;
}

/* Returns the path of an event file by its position in the folder. */
static const char *event_file(const char *folder, int index)
{
    static char found[512];
    char command[512];
    (void)snprintf(command, sizeof command, "ls %s/%s | sed -n %dp", scratch_folder(), folder, index + 1);
    FILE *list = popen(command, "r");
    char line[300] = "";
    assert_non_null(list);
    assert_non_null(fgets(line, sizeof line, list));
    pclose(list);
    line[strcspn(line, "\n")] = 0;
    (void)snprintf(found, sizeof found, "%s/%s", folder, line);
    return found;
}

static void an_event_file_is_made_of_tfrecords(void **state)
{
    (void)state;
    event events[8];
    tuff_monitor *monitor = open_well(TUFF_MONITOR_TENSORBOARD, "runs/deep/one", false, 0);
    const tuff_scalar first[] = {{names[0], 0.1}, {names[1], NAN}}, second[] = {{names[2], 3e9}};
    assert_int_equal(tuff_monitor_write(monitor, 1, first, 2), TUFF_OK);
    assert_int_equal(tuff_monitor_write(monitor, 300, second, 1), TUFF_OK);
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    const char *file = event_file("runs/deep/one", 0);
    assert_non_null(strstr(file, "/events.out.tfevents."));
    assert_int_equal(parse_file(file, events, 8), 3);
    assert_string_equal(events[0].version, "brain.Event:2");
    assert_int_equal(events[1].step, 1);
    assert_int_equal(events[1].value_count, 2);
    assert_string_equal(events[1].tags[0], names[0]);
    assert_true(events[1].values[0] == 0.1f);
    assert_string_equal(events[1].tags[1], names[1]);
    assert_true(isnan(events[1].values[1]));
    assert_int_equal(events[2].step, 300);
    assert_true(events[2].values[0] == 3e9f);
    for (int i = 0; i < 3; i++)
        assert_true(events[i].wall_time > 1.6e9 && events[i].wall_time < 1e11 && events[i].session_status == 0);
}

/* Both runs begin within a second, but have separate files. */
static void a_resumed_run_makes_tensorboard_drop_later_steps(void **state)
{
    (void)state;
    event events[8];
    for (int run = 0; run < 2; run++) {
        tuff_monitor *monitor = open_well(TUFF_MONITOR_TENSORBOARD, "runs", run == 1, 2);
        write_steps(monitor, run == 1 ? 3 : 1, 4);
        assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    }
    assert_int_equal(parse_file(event_file("runs", 0), events, 8), 5);
    assert_int_equal(parse_file(event_file("runs", 1), events, 8), 4);
    assert_int_equal(events[1].session_status, 1);
    assert_int_equal(events[1].step, 3);
    assert_int_equal(events[2].step, 3);
}

/* TensorBoard reads event files in the order of their names. A new file comes after existing ones, even those of a
   process with a larger number in the same second, or of a clock that was ahead. */
static void a_later_event_file_is_behind_what_a_folder_has(void **state)
{
    (void)state;
    event events[8];
    assert_int_equal(tuff__file.mkdir(scratch_path("runs"), 0700), 0);
    scratch_write("runs/events.out.tfevents.4102444800.z.9.9", "", 0);
    scratch_write("runs/events.out.tfevents.41024448001.no.second", "", 0);
    scratch_write("runs/events.out.tfevents.9999999999", "", 0);
    for (int run = 0; run < 2; run++) {
        tuff_monitor *monitor = open_well(TUFF_MONITOR_TENSORBOARD, "runs", false, 0);
        write_steps(monitor, 1, run + 1);
        assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    }
    assert_non_null(strstr(event_file("runs", 0), ".4102444800.z.9.9"));
    assert_non_null(strstr(event_file("runs", 2), ".4102444801."));
    assert_int_equal(parse_file(event_file("runs", 2), events, 8), 2);
    assert_non_null(strstr(event_file("runs", 3), ".4102444802."));
    assert_int_equal(parse_file(event_file("runs", 3), events, 8), 3);
}

static void a_resumed_run_replaces_later_lines(void **state)
{
    (void)state;
    tuff_monitor *monitor = open_well(TUFF_MONITOR_CSV, "log.csv", true, 0); /* the file does not exist yet */
    write_steps(monitor, 1, 4);
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    monitor = open_well(TUFF_MONITOR_CSV, "log.csv", true, 2);
    write_steps(monitor, 3, 3);
    expect_file("log.csv", "step,loss,\"rate, \"\"peak\"\"\",memory\n1,1,,5000000001\n2,0.5,,5000000002\n"
                           "3,0.333333333,,5000000003\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    static const char other[] = "{\"step\": 1, \"x\": 1}\n{\"note\": 9}\n{\"step\": 5, \"x\": 1}\n{\"step\": 6, \"x\"";
    scratch_write("log", other, sizeof other - 1);
    monitor = open_well(TUFF_MONITOR_JSON_LINES, "log", true, 5); /* the torn line is removed */
    expect_file("log", "{\"step\": 1, \"x\": 1}\n{\"note\": 9}\n{\"step\": 5, \"x\": 1}\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    monitor = open_well(TUFF_MONITOR_JSON_LINES, "log", false, 5);
    expect_file("log", "");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

static void other_columns_are_left_alone(void **state)
{
    (void)state;
    static const char other[] = "step,accuracy\n1,0.5\n";
    scratch_write("log.csv", other, sizeof other - 1);
    assert_null(open_at(TUFF_MONITOR_CSV, "log.csv", true, 0));
    assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "its columns are different"));
    expect_file("log.csv", other);
}

static void expect_refusal(const tuff_monitor_options *options, const char *reason)
{
    assert_null(tuff_monitor_open(options));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), reason));
}

static void wrong_use_is_an_error(void **state)
{
    (void)state;
    static char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    const char *path = scratch_path("log");
    const char *const twice[] = {"a", "a"}, *const empty[] = {""}, *const missing[] = {NULL}, *const line[] = {"a\nb"};
    const char *const step[] = {"step"}, *const longer[] = {long_name}, *const latin[] = {"loss \xff"};
    expect_refusal(NULL, "missing");
    expect_refusal(&(tuff_monitor_options){.path = NULL}, "missing");
    expect_refusal(&(tuff_monitor_options){.path = path, .count = 1}, "missing");
    expect_refusal(&(tuff_monitor_options){.path = path, .format = (tuff_monitor_format)3}, "unknown format 3");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = twice, .count = 2}, "duplicate name");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = empty, .count = 1}, "empty");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = missing, .count = 1}, "NULL");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = line, .count = 1}, "control character");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = latin, .count = 1}, "UTF-8");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = step, .count = 1}, "reserved for the step");
    expect_refusal(&(tuff_monitor_options){.path = path, .names = longer, .count = 1}, "longer");
    assert_string_equal(scratch_list(), "");
    assert_null(open_at(TUFF_MONITOR_CSV, "no/such/folder", false, 0));
    assert_int_equal(tuff_last_status(), TUFF_E_IO);
    tuff_monitor *monitor = open_well(TUFF_MONITOR_CSV, "log", false, 0);
    const tuff_scalar unknown = {"accuracy", 1}, nameless = {NULL, 1};
    assert_int_equal(tuff_monitor_write(monitor, 1, &unknown, 1), TUFF_E_USAGE);
    assert_int_equal(tuff_monitor_write(monitor, 1, &nameless, 1), TUFF_E_USAGE);
    assert_int_equal(tuff_monitor_write(monitor, 1, NULL, 1), TUFF_E_USAGE);
    assert_int_equal(tuff_monitor_write(NULL, 1, NULL, 0), TUFF_E_USAGE);
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
    assert_int_equal(tuff_monitor_close(NULL), TUFF_OK);
}

/* Whichever operation fails: an error, or everything was written, and no torn record. */
static void fail_at(tuff_monitor_format format, fault_kind kind, int failing, bool *hit)
{
    static const char *const files[] = {"log.csv", "log", "events"};
    int written = 0;
    faulty_files_begin(kind, failing, false);
    tuff_monitor *monitor = open_at(format, files[format], false, 0);
    for (int step = 1; step <= 3 && monitor; step++)
        written += tuff_monitor_write(monitor, step, &(tuff_scalar){names[0], 1}, 1) == TUFF_OK;
    const tuff_status closed = tuff_monitor_close(monitor);
    assert_int_equal(faulty_files_open(), 0);
    *hit = faulty_files_end();
    const bool harmless =
        kind == FAULT_SHORT || kind == FAULT_EINTR || (kind == FAULT_EMPTY && strcmp(faulty_files_hit(), "write") != 0);
    assert_true(!*hit || harmless || !monitor || written < 3 || closed != TUFF_OK);
    assert_true(!harmless || (monitor && written == 3 && closed == TUFF_OK));
    if (!monitor)
        return;
    event events[8];
    size_t size;
    if (format == TUFF_MONITOR_TENSORBOARD) {
        assert_int_equal(parse_file(event_file("events", 0), events, 8), 1 + written);
        return;
    }
    char *data = scratch_read(files[format], &size);
    int lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    assert_int_equal(lines, written + (format == TUFF_MONITOR_CSV));
    assert_true(size == 0 || data[size - 1] == '\n');
    free(data);
}

static void a_full_disk_leaves_whole_records(void **state)
{
    const fault_kind kinds[] = {FAULT_ENOSPC, FAULT_EIO, FAULT_SHORT, FAULT_EMPTY, FAULT_EINTR};
    for (int format = 0; format < 3; format++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            bool hit = true;
            for (int failing = 1; hit; failing++) {
                assert_int_equal(scratch_folder_make(state), 0);
                fail_at((tuff_monitor_format)format, kinds[kind], failing, &hit);
                assert_int_equal(scratch_folder_remove(state), 0);
            }
        }
}

/* The next record follows the last complete one. */
static void a_record_that_failed_leaves_nothing(void **state)
{
    (void)state;
    const tuff_scalar scalar = {names[0], 0.25};
    tuff_monitor *monitor = open_well(TUFF_MONITOR_CSV, "log.csv", false, 0);
    assert_int_equal(tuff_monitor_write(monitor, 1, &scalar, 1), TUFF_OK);
    for (int failing = 1; failing <= 2; failing++) {
        faulty_files_begin(failing == 1 ? FAULT_ENOSPC : FAULT_EMPTY, 1, false);
        assert_int_equal(tuff_monitor_write(monitor, 2, &scalar, 1), TUFF_E_IO);
        assert_non_null(strstr(tuff_error(), "log.csv"));
        assert_true(faulty_files_end());
    }
    assert_int_equal(tuff_monitor_write(monitor, 3, &scalar, 1), TUFF_OK);
    expect_file("log.csv", "step,loss,\"rate, \"\"peak\"\"\",memory\n1,0.25,,\n3,0.25,,\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

/* A disk with room for half of a record, simulated by a limit on file sizes. */
static void half_a_record_is_cut_off(void **state)
{
    (void)state;
    const tuff_scalar scalar = {names[0], 0.25};
    struct rlimit limit, tight;
    tuff_monitor *monitor = open_well(TUFF_MONITOR_JSON_LINES, "log", false, 0);
    assert_int_equal(tuff_monitor_write(monitor, 1, &scalar, 1), TUFF_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    tight = (struct rlimit){.rlim_cur = 35, .rlim_max = limit.rlim_max};
    void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const tuff_status status = tuff_monitor_write(monitor, 2, &scalar, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, before);
    assert_int_equal(status, TUFF_E_IO);
    expect_file("log", "{\"step\": 1, \"loss\": 0.25}\n");
    assert_int_equal(tuff_monitor_write(monitor, 3, &scalar, 1), TUFF_OK);
    expect_file("log", "{\"step\": 1, \"loss\": 0.25}\n{\"step\": 3, \"loss\": 0.25}\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

static int broken_truncations;
static int (*real_ftruncate)(int fd, off_t size);

static int ftruncate_fails(int fd, off_t size)
{
    if (broken_truncations-- <= 0)
        return real_ftruncate(fd, size);
    errno = EIO;
    return -1;
}

static ssize_t (*real_write)(int fd, const void *data, size_t size);
static int writes;

/* Writes half of the data, then fails. */
static ssize_t write_half(int fd, const void *data, size_t size)
{
    if (writes++ == 0)
        return real_write(fd, data, size / 2);
    errno = ENOSPC;
    return -1;
}

/* A torn record that could not be removed at once is removed before the next one, or nothing is written. */
static void half_a_record_is_cut_off_later(void **state)
{
    (void)state;
    const tuff_scalar scalar = {names[0], 0.25};
    const file_operations genuine = tuff__file;
    tuff_monitor *monitor = open_well(TUFF_MONITOR_JSON_LINES, "log", false, 0);
    real_ftruncate = genuine.ftruncate;
    real_write = genuine.write;
    assert_int_equal(tuff_monitor_write(monitor, 1, &scalar, 1), TUFF_OK);
    broken_truncations = 2;
    writes = 0;
    tuff__file.ftruncate = ftruncate_fails;
    tuff__file.write = write_half;
    const tuff_status torn = tuff_monitor_write(monitor, 2, &scalar, 1);
    tuff__file.write = real_write;
    const tuff_status still = tuff_monitor_write(monitor, 3, &scalar, 1);
    const tuff_status whole = tuff_monitor_write(monitor, 4, &scalar, 1);
    writes = 0;
    tuff__file.write = write_half;
    const tuff_status again = tuff_monitor_write(monitor, 5, &scalar, 1);
    tuff__file = genuine;
    assert_int_equal(torn, TUFF_E_IO);
    assert_int_equal(still, TUFF_E_IO);
    assert_int_equal(whole, TUFF_OK);
    assert_int_equal(again, TUFF_E_IO);
    expect_file("log", "{\"step\": 1, \"loss\": 0.25}\n{\"step\": 4, \"loss\": 0.25}\n");
    assert_int_equal(tuff_monitor_close(monitor), TUFF_OK);
}

static void a_device_without_room_is_told(void **state)
{
    (void)state;
    struct stat found;
    if (stat("/dev/full", &found) != 0)
        skip();
    assert_null(tuff_monitor_open(&(tuff_monitor_options){.path = "/dev/full", .names = names, .count = 3}));
    assert_int_equal(tuff_last_status(), TUFF_E_IO);
    assert_non_null(strstr(tuff_error(), "/dev/full: No space left on device"));
}

static void crc32c_has_its_known_values(void **state)
{
    (void)state;
    unsigned char bytes[100] = {0};
    assert_int_equal(tuff__crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(tuff__crc32c(bytes, 32), 0x8a9136aau); /* RFC 3720, B.4 */
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof bytes; size++)
        assert_int_equal(tuff__crc32c(bytes, size), slow_crc32c(bytes, size));
    assert_int_equal(tuff__crc32("123456789", 9), 0xcbf43926u);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(csv_has_a_column_for_each_name),
        IN_FOLDER(json_lines_have_the_scalars_that_are_given),
        IN_FOLDER(an_event_file_is_made_of_tfrecords),
        IN_FOLDER(a_resumed_run_makes_tensorboard_drop_later_steps),
        IN_FOLDER(a_later_event_file_is_behind_what_a_folder_has),
        IN_FOLDER(a_resumed_run_replaces_later_lines),
        IN_FOLDER(other_columns_are_left_alone),
        IN_FOLDER(wrong_use_is_an_error),
        cmocka_unit_test(a_full_disk_leaves_whole_records),
        IN_FOLDER(a_record_that_failed_leaves_nothing),
        IN_FOLDER(half_a_record_is_cut_off),
        IN_FOLDER(half_a_record_is_cut_off_later),
        IN_FOLDER(a_device_without_room_is_told),
        cmocka_unit_test(crc32c_has_its_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
