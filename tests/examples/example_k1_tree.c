/* The training program of the tree of blocks, and the texts that it reads. */
#define _XOPEN_SOURCE 700
#include "example_program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"
#include "examples/common/texts.h"
#include "scratch_folder.h"

extern const example k1_tree_example;

/* Writes a text that cycles through different words; form contains a letter and the white space after it. */
static void write_text(const char *name, int words, int distinct, const char *form)
{
    char text[8192];
    size_t used = 0;
    for (int i = 0; i < words; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, form, i % distinct % 26 + 'a', i % 7 == 0 ? '\n' : ' ');
    assert_true(used < sizeof text);
    scratch_write(name, text, used);
}

static void texts_are_numbered_by_their_first(void **state)
{
    char paths[512];
    (void)state;
    write_text("long", 60, 3, "%c%c");
    tuff_device *device = tuff_device_open("reference");
    /* a, b and c are equally frequent, and two of them are in the vocabulary. */
    write_text("again", 60, 3, "%cX%c");
    (void)snprintf(paths, sizeof paths, "%s,%s", scratch_path("long"), scratch_path("again"));
    example_texts *texts = example_texts_read(device, "test", paths, 2, EXAMPLE_SPECIAL_WORDS + 2);
    assert_non_null(texts);
    assert_int_equal(texts->count, 2);
    assert_int_equal(texts->windows[1], 58);
    for (int i = 0; i < 60; i++)
        assert_int_equal(texts->words[i], i % 3 == 2 ? EXAMPLE_UNKNOWN : EXAMPLE_SPECIAL_WORDS + i % 3);
    assert_int_equal(texts->words[texts->first[1]], EXAMPLE_UNKNOWN); /* ax */
    example_texts_destroy(texts);
    tuff_device_close(device);
}

/* Runs the program on the texts; printed gets both output streams. */
static int run_on(const char *paths, const char *batch, char *printed, size_t size)
{
    const char *const words[] = {"k1_tree", "--data",   paths,   "--device", "reference", "--steps", "3",
                                 "--set",   "lr=1e-30", "--set", "S=4",      "--set",     batch,     "--set",
                                 "V=8",     "--set",    "D=4",   "--set",    "n=1",       "--set",   "F=3",
                                 "--set",   "depth=2",  "--set", "top_k=2"};
    const int count = sizeof words / sizeof *words, kept[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    const int code = example_main(&k1_tree_example, count, (char **)(uintptr_t)words);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        (void)dup2(kept[i], i == 0 ? STDOUT_FILENO : STDERR_FILENO);
        close(kept[i]);
    }
    rewind(file);
    printed[fread(printed, 1, size - 1, file)] = 0;
    fclose(file);
    return code;
}

static void bad_texts_are_one_line(void **state)
{
    char paths[512], printed[8192];
    (void)state;
    write_text("short", 30, 5, "%c%c");
    write_text("good", 200, 5, "%c%c");
    scratch_write("empty", "", 0);
    assert_int_equal(run_on(scratch_path("good"), "B=2", printed, sizeof printed), 0);
    assert_non_null(strstr(printed, "text 1 of 1"));
    (void)snprintf(paths, sizeof paths, "%s,%s", scratch_path("good"), scratch_path("good"));
    assert_int_equal(run_on(paths, "B=2", printed, sizeof printed), 0);
    assert_non_null(strstr(printed, "forgotten"));
    scratch_write("binary", "a b c\0d", 7);
    const char *const bad[] = {"short", "empty", "missing", "binary"}, *const why[] = {"too short", "too short",
                                                                                       "No such file", "byte 5 is 0"};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(paths, sizeof paths, "%s,%s", scratch_path("good"), scratch_path(bad[i]));
        assert_int_equal(run_on(paths, "B=2", printed, sizeof printed), 1);
        assert_non_null(strstr(printed, bad[i]));
        assert_non_null(strstr(printed, why[i]));
        assert_true(strchr(printed, '\n') == printed + strlen(printed) - 1);
    }
}

/* The text has 4 held-out windows. Without training, their mean loss does not depend on the size of a batch. */
static void held_out_windows_count_equally(void **state)
{
    char printed[8192];
    double perplexities[2] = {0};
    (void)state;
    write_text("good", 200, 5, "%c%c");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_on(scratch_path("good"), i ? "B=3" : "B=4", printed, sizeof printed), 0);
        const char *found = strstr(printed, "perplexity ");
        assert_non_null(found);
        perplexities[i] = strtod(found + strlen("perplexity "), NULL);
    }
    assert_true(perplexities[0] > 1);
    assert_true(fabs(perplexities[1] - perplexities[0]) <= 2e-3);
}

static void words_of_files_are_not_saved(void **state)
{
    char path[256];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/batches", cache_folder());
    example_expect_all(1, "would not save the words", "--device", "reference", "--data", "/dev/null", "--save-batches",
                       path, NULL);
}

int main(void)
{
    static const char *const tiny[] = {"--set", "B=2",         "--set", "S=5",     "--set", "V=9",   "--set",
                                       "D=4",   "--set",       "n=2",   "--set",   "F=3",   "--set", "depth=2",
                                       "--set", "branching=1", "--set", "top_k=1", NULL};
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_numbered_by_their_first),
                                       cmocka_unit_test(bad_texts_are_one_line),
                                       cmocka_unit_test(held_out_windows_count_equally)};
    const int failed = cmocka_run_group_tests_name("texts", tests, scratch_folder_make, scratch_folder_remove);
    return failed + test_example_program(&(example_case){.model = &k1_tree_example,
                                                         .tiny = tiny,
                                                         .refused = "top_k=3",
                                                         .more = words_of_files_are_not_saved,
                                                         .turns = 4});
}
