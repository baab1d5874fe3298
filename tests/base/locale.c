/* A program with a locale that has a decimal comma: kernels, files and graphs as text have the same bytes as without
   it. */
#define _POSIX_C_SOURCE 200809L
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/text.h"
#include "each_device.h"
#include "graph/graph.h"
#include "io/monitor.h"
#include "small_plans.h"

/* glibc's file LC_NUMERIC: the offsets of its six fields, and the fields. Written by hand, because systems without
   locale packages have no locale with a decimal comma. */
static const unsigned char comma_locale[] = {
    0x14, 0x11, 0x03, 0x20, 6, 0, 0, 0,   32, 0, 0, 0,  34, 0, 0, 0, 35, 0, 0, 0,   36,  0,   0,   0,   40,
    0,    0,    0,    44,   0, 0, 0, ',', 0,  0, 0, 44, 0,  0, 0, 0, 0,  0, 0, 'A', 'S', 'C', 'I', 'I', 0};

static int make_locale(void **state)
{
    char path[512];
    if (use_fresh_cache(state) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/comma", cache_folder());
    if (mkdir(path, 0700) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", cache_folder());
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(comma_locale, sizeof comma_locale, 1, file) != 1 || fclose(file) != 0)
        return -1;
    return setenv("LOCPATH", cache_folder(), 1);
}

static void set_comma(void)
{
    char shown[8] = "";
    if (setlocale(LC_NUMERIC, "comma") != NULL)
        (void)snprintf(shown, sizeof shown, "%.1f", 0.5);
    if (strcmp(shown, "0,5") != 0)
        skip();
}

static int set_c(void **state)
{
    (void)state;
    return setlocale(LC_NUMERIC, "C") == NULL ? -1 : 0;
}

static void numbers_have_a_point(void **state)
{
    (void)state;
    set_comma();
    assert_string_equal(NUMBER_TEXT('f', 1, -1.5), "-1.5");
    assert_string_equal(NUMBER_TEXT('e', 9, 1.0 / 3.0), "3.333333333e-01");
    assert_string_equal(NUMBER_TEXT('g', 9, 1e30), "1e+30");
    assert_string_equal(NUMBER_TEXT('g', 9, -HUGE_VAL), "-inf");
    static const struct {
        const char *source, *rest;
        double number;
    } tried[] = {{"1.5", "", 1.5},       {" -2.25e1s", "s", -22.5}, {"1,5", ",5", 1}, {".5", "", 0.5}, {"7", "", 7},
                 {"7.", "", 7},          {"1.5.5", ".5", 1.5},      {".", ".", 0},    {"x", "x", 0},   {"", "", 0},
                 {"1e400", "", HUGE_VAL}};
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        char *end;
        assert_true(tuff__parse_number(tried[i].source, &end) == tried[i].number);
        assert_string_equal(end, tried[i].rest);
    }
}

static void write_monitor(tuff_monitor_format format, text *out)
{
    char *items[] = {"loss", "rate"};
    const monitor_names names = {items, 2};
    tuff__monitor_record(format, &names, 1, (const tuff_scalar[]){{"loss", 2.5}, {"rate", 1e-3}}, 2, out);
}

static void files_of_monitors_have_points(void **state)
{
    (void)state;
    text csv = {0}, json = {0};
    set_comma();
    write_monitor(TUFF_MONITOR_CSV, &csv);
    write_monitor(TUFF_MONITOR_JSON_LINES, &json);
    assert_string_equal(tuff__text_get(&csv), "1,2.5,0.001\n");
    assert_string_equal(tuff__text_get(&json), "{\"step\": 1, \"loss\": 2.5, \"rate\": 0.001}\n");
    tuff__text_free(&csv);
    tuff__text_free(&json);
}

/* y = x / 3 + 1.5, with constants that are written in either format. */
static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(16));
    x = tuff_mul(x, tuff_constant(graph, TUFF_F32, 1.0 / 3.0));
    tuff_output(graph, "y", tuff_add(x, tuff_constant(graph, TUFF_F32, 1.5)));
    return graph;
}

/* Gets the text of the first kernel; checks the results on drivers. */
static void run_graph(tuff_device *device, text *out)
{
    float x[16], y[16];
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = compile_plan(graph);
    tuff_task_info info;
    assert_int_equal(tuff_plan_task(plan, 0, &info), TUFF_OK);
    tuff__text_add(out, "%s", info.source);
    for (int i = 0; i < 16; i++)
        x[i] = (float)i * 3;
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < 16; i++)
        assert_float_equal(y[i], (float)i + 1.5f, 1e-5);
    destroy_plan(plan, graph);
}

static void compare_kernels(tuff_device *device)
{
    text plain = {0}, with_comma = {0};
    (void)set_c(NULL);
    run_graph(device, &plain);
    set_comma();
    run_graph(device, &with_comma);
    assert_string_equal(tuff__text_get(&plain), tuff__text_get(&with_comma));
    tuff__text_free(&plain);
    tuff__text_free(&with_comma);
}

static void kernels_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    set_comma();
    for_drawn_drivers(compare_kernels);
}

static void graphs_as_text_have_points(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = make_graph(device);
    text out = {0};
    set_comma();
    tuff__graph_print(graph, &out);
    assert_non_null(strstr(tuff__text_get(&out), " 0.333333343"));
    tuff__text_free(&out);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(numbers_have_a_point, set_c),
        cmocka_unit_test_teardown(files_of_monitors_have_points, set_c),
        cmocka_unit_test_teardown(kernels_do_not_depend_on_the_locale, set_c),
        cmocka_unit_test_teardown(graphs_as_text_have_points, set_c),
    };
    return cmocka_run_group_tests(tests, make_locale, drop_cache);
}
