/* The effect of environment variables on the tuner: modes, budgets, seeds and the log, if the program allows them; an
   invalid value leads to a single warning. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

static const char *const names[] = {"TUFF_TUNE", "TUFF_TUNE_BUDGET_MS", "TUFF_TUNE_SEED", "TUFF_TUNE_LOG"};

static int warnings;
static char last_warning[300];

static void record_message(void *user, tuff_log_level level, const char *text)
{
    (void)user;
    warnings += level == TUFF_LOG_WARNING;
    if (level == TUFF_LOG_WARNING)
        (void)snprintf(last_warning, sizeof last_warning, "%s", text);
}

static int forget_environment(void **state)
{
    char line[600];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(unsetenv(names[i]), 0);
    (void)snprintf(line, sizeof line, "rm -rf '%s/tune'", cache_folder());
    assert_int_equal(system(line), 0);
    warnings = 0;
    tuff_set_log(record_message, NULL);
    return 0;
}

static int end_hearing(void **state)
{
    (void)state;
    tuff_set_log(NULL, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(unsetenv(names[i]), 0);
    return 0;
}

static tuff_tune_stats compile(tuff_device *device, const tuff_compile_options *options)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(24, 40)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(40, 56));
    tuff_output(graph, "y", tuff_softmax(tuff_gelu(tuff_matmul(x, w)), 1));
    tuff_output(graph, "sums", tuff_cumsum(x, 1));
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void use_modes(tuff_device *device)
{
    (void)forget_environment(NULL);
    assert_int_equal(compile(device, NULL).measured, 0);
    set("TUFF_TUNE", "quick");
    set("TUFF_TUNE_BUDGET_MS", "1");
    const tuff_tune_stats brief = compile(device, NULL);
    assert_true(brief.measured > 0);
    assert_true(brief.compiles <= 1); /* time ends with the first candidate */
    assert_int_equal(
        compile(device,
                &(tuff_compile_options){.tuning = &(tuff_tune_options){.environment = TUFF_TUNE_ENVIRONMENT_NONE}})
            .measured,
        0);
    assert_int_equal(
        compile(device, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}}).measured, 0);
    const tuff_compile_options off = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF, .environment = TUFF_TUNE_ENVIRONMENT_ALL}};
    assert_true(compile(device, &off).measured > 0);
    set("TUFF_TUNE", "off");
    const tuff_compile_options quick = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 5000}};
    assert_true(compile(device, &quick).compiles > 1); /* the program's own budget and mode apply */
    assert_int_equal(warnings, 0);
}

static void modes_and_budgets_are_obeyed(void **state)
{
    (void)state;
    for_drawn_api(0, use_modes);
}

static void use_wrong_values(tuff_device *device)
{
    static bool warned;
    (void)forget_environment(NULL);
    set("TUFF_TUNE", "fast");
    set("TUFF_TUNE_BUDGET_MS", "4294967296");
    set("TUFF_TUNE_SEED", "-1");
    assert_int_equal(compile(device, NULL).measured, 0);
    assert_int_equal(compile(device, NULL).measured, 0);
    assert_int_equal(warnings, warned ? 0 : 3);
    if (!warned)
        assert_string_equal(last_warning,
                            "tune: ignoring TUFF_TUNE_SEED=-1: expected a whole number from 0 to 4294967295");
    warned = true;
}

static void wrong_values_are_one_warning(void **state)
{
    (void)state;
    for_each_api(use_wrong_values);
}

static void log_path(char *out, size_t size)
{
    (void)snprintf(out, size, "%s/log", cache_folder());
}

/* Gets the second candidate for the cumulative sums, which have no portfolio: it is the search's first random
   choice. */
static int read_log(char *second, size_t size)
{
    char path[300], line[4096], keys[16][600];
    int lines = 0, count = 0, seen[16] = {0};
    log_path(path, sizeof path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    second[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        char *parts[7] = {NULL}, *at = line;
        for (int i = 0; i < 7; i++) {
            parts[i] = at;
            at = i < 6 ? strchr(at, '\t') : at;
            if (!at)
                fail_msg("a line of %d members: %s", i + 1, line);
            if (i < 6)
                *at++ = '\0';
        }
        assert_true(strcmp(parts[1], "good") != 0 || (atoll(parts[2]) > 0 && atoi(parts[3]) > 0));
        int key = 0;
        while (key < count && strcmp(keys[key], parts[5]) != 0)
            key++;
        assert_true(key < 16);
        if (key == count)
            (void)snprintf(keys[count++], sizeof keys[0], "%s", parts[5]);
        if (seen[key]++ == 0)
            assert_string_equal(parts[4], "default");
        else if (seen[key] == 2 && strncmp(parts[5], "scan ", 5) == 0)
            (void)snprintf(second, size, "%s", parts[4]);
        lines++;
    }
    (void)fclose(file);
    assert_int_equal(remove(path), 0);
    return lines;
}

/* Stops tuning by the number of candidates, because times differ between machines. */
static bool stop_at_second(void *user, const tuff_tune_progress *now)
{
    (void)user;
    return strncmp(now->key, "scan ", 5) != 0 || now->candidates < 2;
}

/* There is a log line per candidate; the same seed gives the same random choices, another seed different ones. */
static void log_and_repeat(tuff_device *device)
{
    static const char *const seeds[] = {"7", "7", "8"};
    static char second[3][8192];
    char path[300];
    for (int i = 0; i < 3; i++) {
        (void)forget_environment(NULL);
        log_path(path, sizeof path);
        set("TUFF_TUNE_LOG", path);
        set("TUFF_TUNE_SEED", seeds[i]);
        const tuff_compile_options options = {
            .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 60000, .progress = stop_at_second}};
        const tuff_tune_stats stats = compile(device, &options);
        const int lines = read_log(second[i], sizeof second[i]);
        assert_true(lines > stats.keys);
        assert_true((uint64_t)lines <= stats.compiles);
    }
    assert_true(second[0][0] != '\0');
    assert_string_equal(second[0], second[1]);
    assert_string_not_equal(second[0], second[2]);
}

static void candidates_are_logged(void **state)
{
    (void)state;
    for_drawn_api(1, log_and_repeat);
}

static void an_impossible_log_is_a_warning(void **state)
{
    (void)state;
    (void)forget_environment(NULL);
    tuff_device *device = tuff_device_open(NULL);
    if (device == NULL)
        skip();
    const tuff_compile_options options = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 50, .log = "/dev/null/nowhere"}};
    assert_true(compile(device, &options).measured > 0);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "/dev/null/nowhere"));
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes_and_budgets_are_obeyed, NULL, end_hearing),
        cmocka_unit_test_setup_teardown(wrong_values_are_one_warning, NULL, end_hearing),
        cmocka_unit_test_setup_teardown(candidates_are_logged, NULL, end_hearing),
        cmocka_unit_test_setup_teardown(an_impossible_log_is_a_warning, NULL, end_hearing),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
