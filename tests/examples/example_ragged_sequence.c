/* The training program of the transformer over ragged contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "example_program.h"
#include "examples/common/build.h"

extern const example ragged_sequence_example;

/* Name of an input whose last element is set to wrong_value: the last sample has no token, or one that is not in the
   table. */
static const char *wrong_input;
static int32_t wrong_value;

static void write_wrong_value(const example_batch *batch)
{
    example_inputs list = {0};
    ragged_sequence_example.fill(batch);
    ragged_sequence_example.list_inputs(batch->config, batch->purpose, &list);
    for (int i = 0; i < list.count; i++)
        if (strcmp(list.specs[i].name, wrong_input) == 0)
            ((int32_t *)batch->inputs[i])[batch->count * tuff_shape_count(list.specs[i].shape) - 1] = wrong_value;
}

static void expect_refusal(const char *input, int32_t value, const char *message)
{
    example model = ragged_sequence_example;
    model.fill = write_wrong_value;
    wrong_input = input;
    wrong_value = value;
    for (int form = 0; form < 2; form++) {
        const char *const words[] = {"spoiled",
                                     "--device",
                                     "reference",
                                     "--set",
                                     "B=2",
                                     "--set",
                                     "K=2",
                                     "--set",
                                     "D=4",
                                     "--set",
                                     "n_heads=2",
                                     "--set",
                                     "F=4",
                                     "--set",
                                     "history=4",
                                     "--set",
                                     "warmup=0",
                                     "--steps",
                                     "1",
                                     "--set",
                                     "histories=1",
                                     "--form",
                                     form ? "optimized" : "baseline"};
        const int code = example_main(&model, (int)(sizeof words / sizeof *words), (char **)(uintptr_t)words);
        assert_int_equal(code, 1);
        if (!strstr(form ? tuff_error() : example_error(), message))
            fail_msg("%s instead of %s", form ? tuff_error() : example_error(), message);
    }
}

static void wrong_batches_are_refused(void **state)
{
    (void)state;
    expect_refusal("length", 0, "sequence empty");
    expect_refusal("length", 8, "too long");
    expect_refusal("gather_index", -1, "token index out of range");
    expect_refusal("gather_index", 2 * 3 + 2 + 3, "token index out of range");
    expect_refusal("type_index", 3, "unknown token type");
}

static void numbers_that_overflow_are_refused(void **state)
{
    (void)state;
    example_expect("--set", "histories=4294967296", 2, "histories must be at most 2147483647");
    example_expect("--set", "history=1e15", 2, "histories must be at most 2147483647");
}

int main(void)
{
    static const char *const tiny[] = {"--set",     "B=3",         "--set", "K=3",      "--set", "D=8",   "--set",
                                       "n_heads=2", "--set",       "F=8",   "--set",    "L=2",   "--set", "history=9",
                                       "--set",     "histories=2", "--set", "warmup=0", NULL};
    const struct CMUnitTest own[] = {cmocka_unit_test(wrong_batches_are_refused)};
    const int failures = cmocka_run_group_tests_name("batches of ragged_sequence", own, NULL, NULL);
    return failures + test_example_program(&(example_case){.model = &ragged_sequence_example,
                                                           .tiny = tiny,
                                                           .refused = "history=2",
                                                           .more = numbers_that_overflow_are_refused});
}
