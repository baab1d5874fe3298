/* Barriers derived from read and write sets, and recordings on every driver: dispatches of more than 65,535 groups,
   forced splits, copies, fills, chains that are replayed, timestamps, and programs that are shared or do not
   compile. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#endif

/* Fake buffers: hazards only compare their addresses. */
static driver_buffer *imaginary(int index)
{
    static char places[4];
    return (driver_buffer *)(void *)&places[index];
}

static command command_over(command_kind kind, int count, const buffer_binding *bindings)
{
    command made = {.kind = kind, .binding_count = count};
    for (int i = 0; i < count; i++)
        made.bindings[i] = bindings[i];
    return made;
}

static buffer_binding reads(int buffer, uint64_t offset, uint64_t size)
{
    return (buffer_binding){imaginary(buffer), offset, size, false};
}

static buffer_binding writes(int buffer, uint64_t offset, uint64_t size)
{
    return (buffer_binding){imaginary(buffer), offset, size, true};
}

static command dispatch_of(buffer_binding a, buffer_binding b)
{
    const buffer_binding bindings[] = {a, b};
    return command_over(COMMAND_DISPATCH, 2, bindings);
}

static command copy_of(buffer_binding from, buffer_binding to)
{
    const buffer_binding bindings[] = {from, to};
    return command_over(COMMAND_COPY, 2, bindings);
}

static bool needs_barrier(command first, command second)
{
    command commands[] = {first, second};
    tuff__set_barriers(commands, 2, false);
    assert_false(commands[0].barrier);
    return commands[1].barrier;
}

static void barriers_stand_where_ranges_conflict(void **state)
{
    (void)state;
    command writer = dispatch_of(reads(0, 0, 64), writes(1, 0, 64));
    assert_true(needs_barrier(writer, dispatch_of(reads(1, 0, 64), writes(2, 0, 64))));
    assert_true(needs_barrier(writer, dispatch_of(reads(2, 0, 64), writes(0, 0, 64))));
    assert_true(needs_barrier(writer, dispatch_of(reads(2, 0, 64), writes(1, 0, 64))));
    assert_false(needs_barrier(writer, dispatch_of(reads(0, 0, 64), writes(2, 0, 64))));
    assert_false(needs_barrier(writer, dispatch_of(reads(1, 64, 64), writes(0, 64, 64))));
    assert_true(needs_barrier(writer, dispatch_of(reads(1, 60, 64), writes(2, 0, 64))));
    assert_true(needs_barrier(dispatch_of(reads(0, 0, 4), writes(1, 60, 64)), writer));
    assert_false(needs_barrier(dispatch_of(reads(0, 0, 4), writes(1, 64, 64)), writer));
}

static void copies_write_their_last_binding(void **state)
{
    (void)state;
    /* A copy has fixed read and write sets; the flags of its bindings are ignored. */
    command copy = copy_of(reads(0, 0, 64), reads(1, 0, 64));
    command reader = dispatch_of(reads(1, 0, 64), writes(2, 0, 64));
    assert_true(needs_barrier(copy, reader));
    assert_false(needs_barrier(copy, dispatch_of(reads(0, 0, 64), writes(2, 0, 64))));
    const buffer_binding filled = reads(1, 0, 64);
    assert_true(needs_barrier(command_over(COMMAND_FILL_ZERO, 1, &filled), reader));
    command commands[] = {copy, reader};
    tuff__set_barriers(commands, 2, false);
    assert_true(commands[1].after_copy);
    assert_false(commands[1].after_dispatch);
}

/* A barrier before a copy does not order later dispatches: these still need a barrier of their own. */
static void what_copies_see_dispatches_do_not(void **state)
{
    (void)state;
    command commands[] = {dispatch_of(reads(0, 0, 64), writes(1, 0, 64)), copy_of(reads(1, 0, 64), writes(2, 0, 64)),
                          dispatch_of(reads(1, 0, 64), writes(3, 0, 64)),
                          dispatch_of(reads(1, 0, 64), writes(3, 64, 64)), copy_of(reads(2, 0, 64), writes(2, 64, 64))};
    tuff__set_barriers(commands, 5, false);
    assert_true(commands[1].barrier && commands[1].after_dispatch && !commands[1].after_copy);
    assert_true(commands[2].barrier && commands[2].after_dispatch && commands[2].after_copy);
    assert_false(commands[3].barrier);
    assert_true(commands[4].barrier && commands[4].after_copy && commands[4].after_dispatch);
    tuff__set_barriers(commands, 5, true);
    assert_false(commands[0].barrier);
    for (int i = 1; i < 5; i++)
        assert_true(commands[i].barrier);
}

/* Each work-item adds to its own word: if a group is left out, its words are too low; if it runs twice, too high. */
static void check_groups(tuff_device *device)
{
    const uint32_t counts[] = {1, 31, 33, 65535 * 32, 65536 * 32 + 1, 200003 * 32 + 5};
    uint32_t most = counts[5];
    uint32_t *words = calloc(most, sizeof *words);
    storage *memory = make_words(device, most);
    test_kernel kernel;
    assert_non_null(words);
    make_kernel(device, &kernel, "own_word", "x[i] += i * 3u + 1u;");
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        memset(words, 0, most * sizeof *words);
        write_words(device, memory, words, most);
        command dispatch = dispatch_over(device, &kernel, memory, counts[c]);
        run_commands(&dispatch, 1, device, 1);
        read_words(device, memory, words, most);
        for (uint32_t i = 0; i < most; i++)
            if (words[i] != (i < counts[c] ? i * 3 + 1 : 0))
                fail_msg("%u items: word %u is %u", counts[c], i, words[i]);
    }
    tuff__program_release(device, kernel.program);
    tuff__storage_release(memory);
    free(words);
}

static void every_group_runs_once(void **state)
{
    (void)state;
    for_each_driver(check_groups);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static void check_splits(tuff_device *device)
{
    tuff__cl_group_limit = 9973;
    check_groups(device);
    tuff__cl_group_limit = 0;
}
#endif

static void splits_cover_every_group(void **state)
{
    (void)state;
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
    for_each_driver(check_splits);
#else
    skip();
#endif
}

static void check_transfers(tuff_device *device)
{
    enum { COUNT = 1000 };
    uint32_t words[COUNT], expected[COUNT];
    storage *from = make_words(device, COUNT), *to = make_words(device, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        words[i] = i + 1;
        expected[i] = i >= 200 && i < 700 ? i - 200 + 100 + 1 : 0;
    }
    write_words(device, from, words, COUNT);
    const buffer_binding ranges[] = {buffer_range(from, 400, 2000, false), buffer_range(to, 800, 2000, true)};
    const buffer_binding hole = buffer_range(to, 1200, 4, true);
    command commands[] = {command_over(COMMAND_COPY, 2, ranges), command_over(COMMAND_FILL_ZERO, 1, &hole)};
    run_commands(commands, 2, device, 2);
    assert_true(commands[1].barrier);
    read_words(device, to, words, COUNT);
    expected[300] = 0;
    assert_memory_equal(words, expected, sizeof words);
    tuff__storage_release(from);
    tuff__storage_release(to);
}

static void copies_and_fills_move_their_ranges(void **state)
{
    (void)state;
    for_each_driver(check_transfers);
}

/* A long chain in which each command depends on the one before, replayed, with writes and reads between the runs. */
static void check_chain(tuff_device *device, bool everywhere)
{
    enum { COUNT = 4096, LENGTH = 40, RUNS = 3 };
    static uint32_t words[COUNT], expected[COUNT];
    command commands[2 * LENGTH];
    test_kernel add, turn;
    recording *recorded = NULL;
    storage *memory = make_words(device, COUNT);
    make_kernel(device, &add, "add", "x[i] = x[i] * 5u + i;");
    make_kernel(device, &turn, "turn", "x[i] = (x[i] << 7) | (x[i] >> 25);");
    for (int i = 0; i < LENGTH; i++) {
        commands[2 * i] = dispatch_over(device, &add, memory, COUNT);
        commands[2 * i + 1] = dispatch_over(device, &turn, memory, COUNT);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        expected[i] = words[i] = i * 77;
    write_words(device, memory, words, COUNT);
    assert_int_equal(tuff__recording_create(device, commands, 2 * LENGTH, everywhere, false, &recorded), TUFF_OK);
    for (int run = 0; run < RUNS; run++) {
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
        for (int step = 0; step < 2 * LENGTH; step++)
            for (uint32_t i = 0; i < COUNT; i++) {
                expected[i] = expected[i] * 5 + i;
                expected[i] = expected[i] << 7 | expected[i] >> 25;
            }
        read_words(device, memory, words, COUNT);
        assert_memory_equal(words, expected, sizeof words);
        expected[run] = words[run] = 1;
        write_words(device, memory, words, COUNT);
    }
    /* Destroys the recording while its submission is pending. */
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, add.program);
    tuff__program_release(device, turn.program);
    tuff__storage_release(memory);
}

static void check_chains(tuff_device *device)
{
    check_chain(device, false);
    check_chain(device, true);
}

static void a_recording_replays_in_order(void **state)
{
    (void)state;
    for_each_driver(check_chains);
}

/* More submissions than any queue of events holds, without a wait between them. */
static void check_many(tuff_device *device)
{
    enum { SUBMISSIONS = 700 };
    uint32_t word = 0;
    test_kernel count_up;
    recording *recorded = NULL;
    tuff_device_counters counters;
    storage *memory = make_words(device, 1);
    make_kernel(device, &count_up, "count_up", "x[i] += 1u;");
    command dispatch = dispatch_over(device, &count_up, memory, 1);
    assert_int_equal(tuff__recording_create(device, &dispatch, 1, false, false, &recorded), TUFF_OK);
    for (int i = 0; i < SUBMISSIONS; i++)
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    read_words(device, memory, &word, 1);
    assert_int_equal(word, SUBMISSIONS);
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.submissions, SUBMISSIONS);
    assert_int_equal(counters.dispatches, SUBMISSIONS);
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, count_up.program);
    tuff__storage_release(memory);
}

static void submissions_need_no_wait_between(void **state)
{
    (void)state;
    for_each_driver(check_many);
}

static void check_timestamps(tuff_device *device)
{
    enum { COUNT = 1 << 18 };
    static uint32_t words[COUNT];
    uint64_t nanoseconds[3] = {0};
    test_kernel busy;
    recording *recorded = NULL, *plain = NULL;
    storage *memory = make_words(device, COUNT);
    make_kernel(device, &busy, "busy", "for (uint k = 0u; k < 100u; k++) x[i] = x[i] * 1664525u + 1013904223u;");
    const buffer_binding last = buffer_range(memory, 0, 4, true);
    command commands[] = {dispatch_over(device, &busy, memory, COUNT), dispatch_over(device, &busy, memory, 32),
                          command_over(COMMAND_FILL_ZERO, 1, &last)};
    assert_int_equal(tuff__recording_create(device, commands, 3, false, true, &recorded), TUFF_OK);
    assert_int_equal(tuff__timestamps(device, recorded, nanoseconds), TUFF_E_USAGE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    if (tuff__timestamps(device, recorded, nanoseconds) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_true(nanoseconds[0] > 0);
    assert_true(nanoseconds[0] < 10000000000u);
    const uint64_t first = nanoseconds[0];
    assert_int_equal(tuff__start_times(device, recorded, nanoseconds), TUFF_OK);
    assert_int_equal(nanoseconds[0], 0);
    assert_true(nanoseconds[1] + 2000 >= first); /* a barrier orders them, within the clock's resolution */
    assert_true(nanoseconds[2] >= nanoseconds[1]);
    read_words(device, memory, words, COUNT);
    assert_int_equal(words[0], 0);
    /* Words that only the first command changes saw two runs of a hundred steps each. */
    uint32_t expected = 0;
    for (int k = 0; k < 200; k++)
        expected = expected * 1664525u + 1013904223u;
    assert_int_equal(words[COUNT - 1], expected);
    assert_int_equal(tuff__recording_create(device, commands, 1, false, false, &plain), TUFF_OK);
    assert_int_equal(tuff__submit(device, plain), TUFF_OK);
    assert_int_equal(tuff__timestamps(device, plain, nanoseconds), TUFF_E_USAGE);
    assert_int_equal(tuff__start_times(device, plain, nanoseconds), TUFF_E_USAGE);
    tuff__recording_destroy(device, plain);
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, busy.program);
    tuff__storage_release(memory);
}

static void timed_recordings_tell_the_time(void **state)
{
    (void)state;
    for_each_driver(check_timestamps);
}

static void check_programs(tuff_device *device)
{
    tuff_device_counters before, after;
    test_kernel kernel, other;
    program *again = NULL, *none = NULL;
    make_kernel(device, &kernel, "shared_one", "x[i] = 1u;");
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    program_request request = test_request(device, &other, "shared_one", "x[i] = 1u;");
    assert_int_equal(tuff__program_get(device, &request, &again), TUFF_OK);
    assert_ptr_equal(again, kernel.program);
    make_kernel(device, &other, "shared_one", "x[i] = 2u;");
    assert_ptr_not_equal(other.program, kernel.program);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    /* Another device of the same model may have stored the second program in the cache. */
    assert_int_equal(after.programs_compiled + after.programs_from_disk,
                     before.programs_compiled + before.programs_from_disk + 1);
    tuff__program_release(device, again);
    tuff__program_release(device, kernel.program);
    tuff__program_release(device, other.program);
    assert_null(device->programs);

    request = test_request(device, &kernel, "broken_kernel", "x[i] = no_such_thing;");
    assert_int_equal(tuff__program_get(device, &request, &none), TUFF_E_COMPILE);
    assert_null(none);
    assert_non_null(strstr(tuff_error(), "broken_kernel"));
    assert_non_null(strstr(tuff_error(), "no_such_thing"));
    assert_null(strchr(tuff_error(), '\n'));
    request = test_request(device, &kernel, "large", "x[i] = 1u;");
    request.local_size = tuff__device_info(device)->max_group_size + 1;
    assert_int_equal(tuff__program_get(device, &request, &none), TUFF_E_LIMIT);
    request.local_size = TEST_GROUP;
    request.buffer_count = 100;
    assert_int_equal(tuff__program_get(device, &request, &none), TUFF_E_LIMIT);
    request.text = NULL;
    assert_int_equal(tuff__program_get(device, &request, &none), TUFF_E_USAGE);
    assert_null(device->programs);
}

static void programs_are_shared_or_refused(void **state)
{
    (void)state;
    for_each_driver(check_programs);
}

static void expect_refusal(tuff_device *device, command wrong, tuff_status status)
{
    recording *recorded = NULL;
    assert_int_equal(tuff__recording_create(device, &wrong, 1, false, false, &recorded), status);
    assert_null(recorded);
}

static void check_wrong_commands(tuff_device *device)
{
    test_kernel kernel;
    recording *empty = NULL;
    storage *memory = make_words(device, 64);
    make_kernel(device, &kernel, "fine", "x[i] = 1u;");
    command fine = dispatch_over(device, &kernel, memory, 64), wrong = fine;
    wrong.program = NULL;
    expect_refusal(device, wrong, TUFF_E_USAGE);
    wrong = fine;
    wrong.group_count = 0;
    expect_refusal(device, wrong, TUFF_E_USAGE);
    wrong.group_count = (uint64_t)1 << 32;
    expect_refusal(device, wrong, TUFF_E_LIMIT);
    wrong = fine;
    wrong.binding_count = MAX_BINDINGS + 1;
    expect_refusal(device, wrong, TUFF_E_LIMIT);
    wrong = fine;
    wrong.bindings[0].buffer = NULL;
    expect_refusal(device, wrong, TUFF_E_USAGE);
    const buffer_binding odd = buffer_range(memory, 2, 8, true);
    expect_refusal(device, command_over(COMMAND_FILL_ZERO, 1, &odd), TUFF_E_USAGE);
    const buffer_binding unequal[] = {buffer_range(memory, 0, 8, false), buffer_range(memory, 8, 12, true)};
    expect_refusal(device, command_over(COMMAND_COPY, 2, unequal), TUFF_E_USAGE);
    expect_refusal(device, command_over(COMMAND_COPY, 1, unequal), TUFF_E_USAGE);
    /* A recording may be empty. */
    assert_int_equal(tuff__recording_create(device, NULL, 0, false, true, &empty), TUFF_OK);
    assert_int_equal(tuff__submit(device, empty), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    assert_int_equal(tuff__timestamps(device, empty, NULL), TUFF_OK);
    tuff__recording_destroy(device, empty);
    tuff__recording_destroy(device, NULL);
    tuff__program_release(device, kernel.program);
    tuff__program_release(device, NULL);
    tuff__storage_release(memory);
    tuff__storage_release(NULL);
}

static void wrong_commands_are_refused(void **state)
{
    (void)state;
    for_each_driver(check_wrong_commands);
}

static void the_reference_device_takes_no_kernels(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    test_kernel kernel;
    recording *recorded = NULL;
    program_request request = test_request(device, &kernel, "any", "x[i] = 1u;");
    assert_int_equal(tuff__program_get(device, &request, &kernel.program), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff__recording_create(device, NULL, 0, false, false, &recorded), TUFF_E_UNSUPPORTED);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_stand_where_ranges_conflict),
        cmocka_unit_test(copies_write_their_last_binding),
        cmocka_unit_test(what_copies_see_dispatches_do_not),
        cmocka_unit_test(every_group_runs_once),
        cmocka_unit_test(splits_cover_every_group),
        cmocka_unit_test(copies_and_fills_move_their_ranges),
        cmocka_unit_test(a_recording_replays_in_order),
        cmocka_unit_test(submissions_need_no_wait_between),
        cmocka_unit_test(timed_recordings_tell_the_time),
        cmocka_unit_test(programs_are_shared_or_refused),
        cmocka_unit_test(wrong_commands_are_refused),
        cmocka_unit_test(the_reference_device_takes_no_kernels),
    };
    return cmocka_run_group_tests_name("commands", tests, use_fresh_cache, drop_cache);
}
