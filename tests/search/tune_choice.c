/* Candidates, their texts, and the search spaces that contain them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "search/space.h"

/* Returns the text of a configuration in one of two alternating buffers. */
static const char *text_of(const tune_config *config)
{
    static char buffers[2][4096];
    static int turn;
    char *buffer = buffers[turn++ % 2];
    text out = {0};
    tuff__config_format(config, &out);
    assert_int_equal(tuff__text_status(&out), TUFF_OK);
    assert_true(out.length < sizeof buffers[0]);
    memcpy(buffer, tuff__text_get(&out), out.length + 1);
    tuff__text_free(&out);
    return buffer;
}

static void texts_are_sorted_and_read_back(void **state)
{
    (void)state;
    tune_config config = {0}, again;
    assert_string_equal(text_of(&config), "");
    tuff__config_set(&config, TUNABLE_matmul_register_tile_rows, 8);
    tuff__config_set(&config, TUNABLE_matmul_register_local_size, 4);
    tuff__config_set(&config, TUNABLE_attention_local_keys, 16);
    tuff__config_set(&config, TUNABLE_map_item_elements, 0);
    assert_string_equal(text_of(&config), "attention_local.keys=16;map.item_elements=0;matmul_register.local_size=4;"
                                          "matmul_register.tile_rows=8");
    assert_int_equal(tuff__config_count(&config), 4);
    assert_int_equal(tuff__config_parse(text_of(&config), &again), TUFF_OK);
    assert_true(tuff__config_equal(&config, &again));
    assert_true(tuff__config_hash(&config) == tuff__config_hash(&again));
    tuff__config_unset(&again, TUNABLE_map_item_elements);
    assert_false(tuff__config_equal(&config, &again));
    assert_true(tuff__config_hash(&config) != tuff__config_hash(&again));
    assert_int_equal(tuff__config_value(&again, TUNABLE_matmul_register_tile_rows, 3), 8);
    assert_int_equal(tuff__config_value(&again, TUNABLE_map_item_elements, 3), 3);
    assert_int_equal(tuff__config_parse("matmul_register.tile_rows=8;map.local_size=2", &again), TUFF_OK);
    assert_string_equal(text_of(&again), "map.local_size=2;matmul_register.tile_rows=8");
    assert_int_equal(tuff__config_parse("", &again), TUFF_OK);
    assert_int_equal(tuff__config_count(&again), 0);
}

/* A configuration of all tunables, with random values, survives the conversion to text and back. */
static void every_tunable_has_a_text(void **state)
{
    (void)state;
    rng from = {7};
    for (int round = 0; round < 200; round++) {
        tune_config config = {0}, again;
        for (int i = 0; i < TUNABLE_COUNT; i++) {
            const tunable_info *info = tuff__tunable_info((tunable)i);
            int value;
            do
                value = info->min + tuff__rng_below(&from, info->max - info->min + 1);
            while (!tuff__tunable_accepts((tunable)i, value));
            if (round == 0 || tuff__rng_below(&from, 2))
                tuff__config_set(&config, (tunable)i, value);
        }
        assert_int_equal(tuff__config_parse(text_of(&config), &again), TUFF_OK);
        assert_true(tuff__config_equal(&config, &again));
        assert_string_equal(text_of(&config), text_of(&again));
    }
}

/* Names of an earlier version can be read, and are written as today's names. */
static void former_names_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *former, *now;
    } cases[] = {
        {"fusion.pieces=0", "fusion.split_k=0"},
        {"map.stream_mebibytes=16;map.local_size=8", "map.local_size=8;map.nontemporal_mib=16"},
        {"row_register.ahead_bytes=4096", "row_register.prefetch_bytes=4096"},
        {"attention_register.keys_at_once=2", "attention_register.key_unroll=2"},
        {"matmul_thin.local_size=8;matmul_thin.span=256;matmul_thin.step_k=4",
         "matmul_gemv.local_size=8;matmul_gemv.span=256;matmul_gemv.step_k=4"},
    };
    tune_config former, now;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tuff__config_parse(cases[i].former, &former), TUFF_OK);
        assert_int_equal(tuff__config_parse(cases[i].now, &now), TUFF_OK);
        assert_true(tuff__config_equal(&former, &now));
        assert_string_equal(text_of(&former), cases[i].now);
        assert_true(tuff__has_former_name(cases[i].former) && !tuff__has_former_name(cases[i].now));
    }
    assert_int_equal(tuff__config_parse("fusion.pieces=0;fusion.split_k=0", &now), TUFF_E_FORMAT);
    assert_int_equal(tuff__config_parse("map.span=4", &now), TUFF_E_UNSUPPORTED);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        tuff_status status;
        const char *message;
    } cases[] = {
        {"matmul_register.height=8", TUFF_E_UNSUPPORTED, "unknown tunable 'matmul_register.height'"},
        {"matmul_register.tile_row=8", TUFF_E_UNSUPPORTED, "unknown tunable"},
        {"matmul_register.tile_rowss=8", TUFF_E_UNSUPPORTED, "unknown tunable"},
        {"matmul_registertile_rows=8", TUFF_E_UNSUPPORTED, "unknown tunable"},
        {"map.local_size=2;new.thing=1", TUFF_E_UNSUPPORTED, "'new.thing'"},
        {"matmul_register.tile_rows=33", TUFF_E_LIMIT, "tile_rows=33 is outside the range 1 to 32"},
        {"matmul_register.tile_rows=0", TUFF_E_LIMIT, "1 to 32"},
        {"attention_local.queries=20", TUFF_E_LIMIT, "queries=20 is not a power of two"},
        {"attention_local.vectors=3", TUFF_E_LIMIT, "vectors=3 is not a power of two"},
        {"map.item_elements=9999999", TUFF_E_LIMIT, "0 to 65536"},
        {"map.item_elements=99999999999999999999", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=-1", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=04", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=4 ", TUFF_E_FORMAT, "expected kernel.name=value"},
        {" map.local_size=4", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=4;", TUFF_E_FORMAT, "expected kernel.name=value"},
        {";map.local_size=4", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=4;;map.least_elements=4", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=4;map.local_size=4", TUFF_E_FORMAT, "set twice"},
        {"map.local_size", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"=4", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"map.local_size=4x", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"Map.local_size=4", TUFF_E_FORMAT, "expected kernel.name=value"},
        {"\xff", TUFF_E_FORMAT, "expected kernel.name=value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tune_config out;
        memset(&out, 1, sizeof out);
        assert_int_equal(tuff__config_parse(cases[i].source, &out), cases[i].status);
        assert_non_null(strstr(tuff_error(), cases[i].message));
        assert_int_equal(tuff__config_count(&out), 0);
    }
}

/* Every prefix and every changed byte is either read or refused; if it is read, its text reads back the same. */
static void damaged_texts_do_no_harm(void **state)
{
    (void)state;
    static const char whole[] = "map.item_elements=512;matmul_register.local_size=4;matmul_register.tile_rows=8";
    int read = 0;
    for (size_t at = 0; at < sizeof whole; at++)
        for (int byte = 0; byte < 256; byte++) {
            char damaged[sizeof whole];
            memcpy(damaged, whole, sizeof whole);
            damaged[at] = (char)byte;
            damaged[sizeof whole - 1] = 0;
            tune_config out, again;
            if (tuff__config_parse(damaged, &out))
                continue;
            read++;
            assert_int_equal(tuff__config_parse(text_of(&out), &again), TUFF_OK);
            assert_true(tuff__config_equal(&out, &again));
        }
    assert_true(read > 256);
}

static void a_text_without_memory_says_so(void **state)
{
    (void)state;
    tune_config config = {0};
    tuff__config_set(&config, TUNABLE_map_local_size, 4);
    text out = {0};
    failing_memory_begin(1, true);
    tuff__config_format(&config, &out);
    assert_int_equal(tuff__text_status(&out), TUFF_E_OOM_HOST);
    tuff__text_free(&out);
    assert_true(failing_memory_end());
}

static const space_axis *axis_of(const tune_space *space, tunable parameter)
{
    for (int i = 0; i < space->count; i++)
        if (space->axes[i].parameter == parameter)
            return &space->axes[i];
    fail_msg("no such axis");
    return NULL;
}

static void assert_values(const space_axis *axis, int default_value, const int *values, int count)
{
    assert_int_equal(axis->default_value, default_value);
    assert_int_equal(axis->count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(axis->values[i], values[i]);
}

static tune_space make_space(void)
{
    tune_config used_tunables = {0};
    tuff__config_set(&used_tunables, TUNABLE_matmul_register_tile_rows, 5);
    tuff__config_set(&used_tunables, TUNABLE_matmul_register_tile_columns, 2);
    tuff__config_set(&used_tunables, TUNABLE_matmul_register_local_size, 8);
    tuff__config_set(&used_tunables, TUNABLE_row_register_private_bytes, 49152);
    tune_space space = {0};
    assert_int_equal(tuff__space_add_tunables(&space, &used_tunables), 4);
    return space;
}

static void axes_have_the_values_worth_trying(void **state)
{
    (void)state;
    tune_space space = make_space();
    assert_values(axis_of(&space, TUNABLE_matmul_register_tile_rows), 5, (int[]){1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32},
                  11);
    assert_values(axis_of(&space, TUNABLE_matmul_register_tile_columns), 2, (int[]){1, 2, 3, 4, 6, 8}, 6);
    assert_values(axis_of(&space, TUNABLE_matmul_register_local_size), 8, (int[]){1, 2, 4, 8, 16, 32, 64, 128, 256}, 9);
    const space_axis *bytes = axis_of(&space, TUNABLE_row_register_private_bytes);
    assert_int_equal(bytes->count, 19);
    assert_int_equal(bytes->values[0], 0);
    assert_int_equal(bytes->values[1], 1);
    assert_int_equal(bytes->values[16], 32768);
    assert_int_equal(bytes->values[17], 49152);
    assert_int_equal(bytes->values[18], 65536);
    assert_true(tuff__space_count(&space) == 11 * 6 * 9 * 19);
    /* Known axes are kept, new ones are added. */
    tune_config more = {0};
    tuff__config_set(&more, TUNABLE_matmul_register_tile_rows, 6);
    tuff__config_set(&more, TUNABLE_map_local_size, 64);
    assert_int_equal(tuff__space_add_tunables(&space, &more), 1);
    assert_int_equal(space.count, 5);
    assert_int_equal(axis_of(&space, TUNABLE_matmul_register_tile_rows)->default_value, 5);
}

/* Every tunable of the table makes an axis that contains its defaults, increasing, within the range. */
static void every_tunable_makes_an_axis(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        tune_config all = {0};
        for (int i = 0; i < TUNABLE_COUNT; i++)
            tuff__config_set(&all, (tunable)i, tuff__tunable_info((tunable)i)->values[kind]);
        tune_space space = {0};
        assert_int_equal(tuff__space_add_tunables(&space, &all), TUNABLE_COUNT);
        assert_true(tuff__space_count(&space) == UINT64_MAX);
        for (int i = 0; i < TUNABLE_COUNT; i++) {
            const space_axis *axis = &space.axes[i];
            const tunable_info *info = tuff__tunable_info(axis->parameter);
            bool has_default = false;
            for (int j = 0; j < axis->count; j++) {
                assert_in_range(axis->values[j], info->min, info->max);
                assert_true(j == 0 || axis->values[j] > axis->values[j - 1]);
                has_default = has_default || axis->values[j] == axis->default_value;
            }
            assert_true(has_default);
            assert_true(axis->count > 1);
            assert_int_equal(axis->values[axis->count - 1], info->max);
        }
    }
}

static void points_are_counted_and_all_differ(void **state)
{
    (void)state;
    tune_space space = {0};
    tune_config used_tunables = {0};
    tuff__config_set(&used_tunables, TUNABLE_matmul_local_block_rows, 64);
    tuff__config_set(&used_tunables, TUNABLE_matmul_local_step_k, 16);
    tuff__config_set(&used_tunables, TUNABLE_matmul_local_thread_rows, 4);
    tuff__space_add_tunables(&space, &used_tunables);
    assert_true(tuff__space_count(&space) == 4 * 4 * 3);
    tune_config points[48];
    int defaults = 0;
    for (int i = 0; i < 48; i++) {
        tuff__space_at(&space, (uint64_t)i, &points[i]);
        defaults += tuff__config_count(&points[i]) == 0;
        for (int j = 0; j < i; j++)
            assert_false(tuff__config_equal(&points[i], &points[j]));
    }
    assert_int_equal(defaults, 1);
    int hits[48] = {0};
    rng from = {1};
    for (int i = 0; i < 4800; i++) {
        tune_config random;
        tuff__space_random(&space, &from, &random);
        int j = 0;
        while (j < 48 && !tuff__config_equal(&random, &points[j]))
            j++;
        assert_true(j < 48);
        hits[j]++;
    }
    for (int i = 0; i < 48; i++)
        assert_in_range(hits[i], 50, 150);
}

static void moves_go_to_the_next_value(void **state)
{
    (void)state;
    const tune_space space = make_space();
    assert_int_equal(tuff__space_moves(&space), 8);
    int axis = 0;
    while (space.axes[axis].parameter != TUNABLE_matmul_register_tile_rows)
        axis++;
    tune_config config = {0};
    assert_true(tuff__space_move(&space, 2 * axis, &config));
    assert_string_equal(text_of(&config), "matmul_register.tile_rows=6");
    /* A move back to the default value leaves nothing set. */
    assert_true(tuff__space_move(&space, 2 * axis + 1, &config));
    assert_string_equal(text_of(&config), "");
    tuff__config_set(&config, TUNABLE_matmul_register_tile_rows, 20);
    assert_true(tuff__space_move(&space, 2 * axis + 1, &config));
    assert_string_equal(text_of(&config), "matmul_register.tile_rows=16");
    tuff__config_set(&config, TUNABLE_matmul_register_tile_rows, 32);
    assert_false(tuff__space_move(&space, 2 * axis, &config));
    tuff__config_set(&config, TUNABLE_matmul_register_tile_rows, 1);
    assert_false(tuff__space_move(&space, 2 * axis + 1, &config));
    assert_string_equal(text_of(&config), "matmul_register.tile_rows=1");
}

static void choices_from_elsewhere_are_fitted(void **state)
{
    (void)state;
    const tune_space space = make_space();
    tune_config config;
    assert_int_equal(
        tuff__config_parse("matmul_register.tile_rows=10;matmul_register.tile_columns=2;map.local_size=8", &config),
        TUFF_OK);
    tuff__config_set(&config, TUNABLE_matmul_register_local_size, 200);
    tuff__space_fit(&space, &config);
    assert_string_equal(text_of(&config), "matmul_register.local_size=256;matmul_register.tile_rows=8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_sorted_and_read_back),
        cmocka_unit_test(every_tunable_has_a_text),
        cmocka_unit_test(former_names_are_read),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(damaged_texts_do_no_harm),
        cmocka_unit_test(a_text_without_memory_says_so),
        cmocka_unit_test(axes_have_the_values_worth_trying),
        cmocka_unit_test(every_tunable_makes_an_axis),
        cmocka_unit_test(points_are_counted_and_all_differ),
        cmocka_unit_test(moves_go_to_the_next_value),
        cmocka_unit_test(choices_from_elsewhere_are_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
