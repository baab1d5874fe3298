/* Training programs from the command line to their files and messages. */
#define _XOPEN_SOURCE 700
#include "example_program.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff/io.h"

static const example_case *tested;
static char printed[65536]; /* output of the last program on both streams */

static void keep_stream(int stream, int *kept, int file)
{
    *kept = dup(stream);
    assert_true(*kept >= 0);
    assert_true(dup2(file, stream) >= 0);
}

static void restore_stream(int stream, int kept)
{
    assert_true(dup2(kept, stream) >= 0);
    close(kept);
}

/* Runs the program with the given words. Returns its exit code. */
static int run_words(int count, char **words)
{
    int kept[2];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    keep_stream(STDOUT_FILENO, &kept[0], fileno(file));
    keep_stream(STDERR_FILENO, &kept[1], fileno(file));
    const int code = example_main(tested->model, count, words);
    fflush(NULL);
    restore_stream(STDOUT_FILENO, kept[0]);
    restore_stream(STDERR_FILENO, kept[1]);
    rewind(file);
    printed[fread(printed, 1, sizeof printed - 1, file)] = 0;
    fclose(file);
    return code;
}

/* Runs the program with the tiny configuration, then the given words up to NULL. */
static int run_list(const char *first, va_list arguments)
{
    char *words[64] = {(char *)(uintptr_t)tested->model->name};
    int count = 1;
    for (const char *const *word = tested->tiny; *word && count < 32; word++)
        words[count++] = (char *)(uintptr_t)*word;
    for (const char *word = first; word && count < 63; word = va_arg(arguments, const char *))
        words[count++] = (char *)(uintptr_t)word;
    return run_words(count, words);
}

static int run(const char *first, ...)
{
    va_list arguments;
    va_start(arguments, first);
    const int code = run_list(first, arguments);
    va_end(arguments);
    return code;
}

static void expect(int code, int wanted, const char *text)
{
    if (code != wanted || (text && !strstr(printed, text)))
        fail_msg("%s: exit code %d instead of %d, or without \"%s\" in: %s", tested->model->name, code, wanted,
                 text ? text : "", printed);
}

static const char *path_of(const char *name)
{
    static char paths[8][128];
    static int next;
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s/%s", cache_folder(), name);
    return paths[next];
}

static long size_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fclose(file);
    return size;
}

/* Returns all bytes of a file, which the caller frees. */
static char *bytes_of(const char *path, long *size)
{
    *size = size_of(path);
    if (*size < 0)
        fail_msg("%s was not written", path);
    char *bytes = malloc((size_t)*size + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, (size_t)*size, file), *size);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

/* Returns the loss in the last line of a log, its second column. */
static double last_loss(const char *path)
{
    long size = 0;
    double loss = NAN;
    char *text = bytes_of(path, &size), *line = text;
    for (char *end = strchr(line, '\n'); end && end[1]; end = strchr(line, '\n'))
        line = end + 1;
    const char *comma = strchr(line, ',');
    if (comma)
        loss = strtod(comma + 1, NULL);
    free(text);
    return loss;
}

static void forms_train_alike(void **state)
{
    double losses[2];
    (void)state;
    for (int form = 0; form < 2; form++) {
        const char *log = path_of(form ? "optimized.csv" : "baseline.csv");
        expect(run("--device", "reference", "--steps", "4", "--log-every", "4", "--form",
                   form ? "optimized" : "baseline", "--log", log, NULL),
               0, "peak memory");
        losses[form] = last_loss(log);
    }
    assert_true(fabs(losses[0] - losses[1]) <= 1e-5 * fabs(losses[1]));
}

static void train_on(tuff_device *device)
{
    static const char *const precisions[] = {"f32", "f16", "bf16"};
    const int drawn = drawn_turn("precision and form of an example", 0, 6);
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (!is_drawn_for_device(device, 0)) {
        leave_out_device("not drawn");
        return;
    }
    for (int i = 0; i < 6; i++) {
        if (!is_thorough() && i != drawn)
            continue;
        const char *log = path_of("driver.csv");
        const char *form = i < 3 ? "optimized" : "baseline";
        expect(run("--device", info.selector, "--steps", "4", "--log-every", "2", "--form", form, "--precision",
                   precisions[i % 3], "--log", log, NULL),
               0, "peak memory");
        const double loss = last_loss(log), wanted = last_loss(path_of("optimized.csv"));
        if (!(fabs(loss - wanted) <= (i % 3 == 0 ? 1e-3 : 0.1) * fabs(wanted) + 1e-3))
            fail_msg("%s, %s, %s: loss %g instead of %g", info.selector, form, precisions[i % 3], loss, wanted);
    }
}

static void drivers_train(void **state)
{
    (void)state;
    if (tuff_device_count() < 2 || (tested->is_slow_to_compile && !is_thorough()))
        skip();
    if (!is_thorough() && tested->turns > 1 && drawn_turn("drivers train", 0, tested->turns) != 0)
        skip();
    /* --log-every must match, because the means over two steps are compared. */
    expect(run("--device", "reference", "--steps", "4", "--log-every", "2", "--log", path_of("optimized.csv"), NULL), 0,
           NULL);
    for_each_driver(train_on);
}

/* With accumulation, validations and loss scaling. */
static void resumed_run_ends_with_the_same_bits(void **state)
{
    const char *accumulate = tested->is_never_accumulated ? "accumulate=1" : "accumulate=2";
    long size = 0, same = 0;
    (void)state;
    expect(run("--device", "reference", "--set", accumulate, "--precision", "f16", "--steps", "4", "--validate-every",
               "2", "--validation-batches", "1", "--save", path_of("whole"), "--log", path_of("whole.csv"), NULL),
           0, "validation loss");
    expect(run("--device", "reference", "--set", accumulate, "--precision", "f16", "--steps", "4", "--validate-every",
               "2", "--validation-batches", "1", "--save-every", "3", "--save", path_of("part"), NULL),
           0, NULL);
    /* The checkpoint before the last one is of step 3. */
    expect(run("--device", "reference", "--set", accumulate, "--precision", "f16", "--steps", "4", "--validate-every",
               "2", "--validation-batches", "1", "--resume", path_of("part.prev"), "--save", path_of("resumed"), NULL),
           0, NULL);
    char *whole = bytes_of(path_of("whole"), &size), *resumed = bytes_of(path_of("resumed"), &same);
    assert_int_equal(size, same);
    assert_memory_equal(whole, resumed, (size_t)size);
    free(whole);
    free(resumed);
    assert_true(size_of(path_of("whole.best")) > 0);
    assert_true(last_loss(path_of("whole.csv")) > -1e9);
}

/* Sends Ctrl-C once the first checkpoint is there. */
static void *interrupt(void *path)
{
    while (size_of(path) < 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    (void)kill(getpid(), SIGINT);
    return NULL;
}

/* An interrupted training ends after its step, with a checkpoint from which it can go on. */
static void interrupted_run_is_saved(void **state)
{
    pthread_t thread;
    long long steps = 0;
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("interrupted"));
    assert_int_equal(pthread_create(&thread, NULL, interrupt, path), 0);
    expect(run("--device", "reference", "--steps", "1000000", "--log-every", "1000000", "--save-every", "2", "--save",
               path, NULL),
           0, "stopped by Ctrl-C after step ");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sscanf(strstr(printed, "after step "), "after step %lld", &steps), 1);
    assert_true(steps >= 2);
    assert_non_null(strstr(printed, "peak memory"));
    char more[24], line[64];
    snprintf(more, sizeof more, "%lld", steps + 1);
    snprintf(line, sizeof line, "step %lld/%lld", steps + 1, steps + 1);
    expect(run("--device", "reference", "--steps", more, "--resume", path, NULL), 0, line);
}

static void report_and_graph_are_written(void **state)
{
    long size = 0;
    (void)state;
    expect(run("--device", "reference", "--steps", "3", "--log-every", "1", "--report", path_of("page.html"),
               "--save-graph", path_of("step.graph"), NULL),
           0, NULL);
    tuff_device *device = tuff_device_open("reference");
    tuff_graph_file_info info;
    tuff_graph *graph = tuff_graph_load(device, path_of("step.graph"), &info);
    if (!graph)
        fail_msg("%s", tuff_error());
    assert_string_equal(info.name, "train");
    assert_true(tuff_graph_array_count(graph) > 1);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
    char *page = bytes_of(path_of("page.html"), &size);
    assert_non_null(strstr(page, "<polyline"));
    assert_non_null(strstr(page, "</table>"));
    free(page);
}

/* Whether the batches of an input, [3, B, ...], are not all equal. */
static bool batches_differ(const tuff_file_tensor *tensor)
{
    const size_t part = (size_t)tensor->size / 3;
    const char *bytes = tensor->data;
    return memcmp(bytes, bytes + part, part) != 0 && memcmp(bytes + part, bytes + 2 * part, part) != 0;
}

static void weights_and_batches_are_written(void **state)
{
    const char *path = path_of("run.batches");
    example_inputs list = {0};
    int batches = 0, weights = 0, different = 0;
    (void)state;
    expect(run("--device", "reference", "--steps", "3", "--save-batches", path, NULL), 0, NULL);
    tested->model->list_inputs(tested->model->small, EXAMPLE_TRAIN, &list);
    tuff_file *file = tuff_file_open(path);
    if (!file)
        fail_msg("%s", tuff_error());
    assert_string_equal(tuff_file_metadata(file, "example"), tested->model->name);
    assert_string_equal(tuff_file_metadata(file, "steps"), "3");
    for (int i = 0; i < tuff_file_count(file); i++) {
        tuff_file_tensor tensor;
        assert_int_equal(tuff_file_tensor_at(file, i, &tensor), TUFF_OK);
        weights += strncmp(tensor.name, "param.", 6) == 0;
        for (int k = 0; k < list.count; k++)
            if (strncmp(tensor.name, "input.", 6) == 0 && strcmp(tensor.name + 6, list.specs[k].name) == 0) {
                assert_int_equal(tensor.dtype, list.specs[k].dtype);
                assert_int_equal(tensor.shape.rank, list.specs[k].shape.rank + (list.specs[k].is_fixed ? 0 : 2));
                batches++;
                different += !list.specs[k].is_fixed && tensor.shape.extent[0] == 3 && batches_differ(&tensor);
            }
    }
    assert_int_equal(batches, list.count);
    assert_true(weights > 1);
    assert_true(list.specs[0].is_fixed || different > 0);
    tuff_file_close(file);
}

static void options_without_effect_are_refused(void **state)
{
    (void)state;
    const char *words[] = {tested->model->name, "--check", "1", "--precision", "f16"};
    expect(run_words(5, (char **)(uintptr_t)words), 2, "--precision: has no effect with --check");
    expect(run("--check", "1", NULL), 2, "--set: has no effect with --check");
    expect(run("--bench", "--save", path_of("absent"), NULL), 2, "--save: has no effect with --bench");
    expect(run("--bench", "--validate-every", "1", NULL), 2, "--validate-every: has no effect");
    expect(run("--save-batches", path_of("absent"), "--resume", path_of("x"), NULL), 2, "--resume: has no effect");
    expect(run("--save-every", "1", NULL), 2, "needs --save");
    expect(run("--validation-batches", "1", NULL), 2, "needs --validate-every");
}

static void wrong_use_is_one_line(void **state)
{
    (void)state;
    expect(run("--help", NULL), 0, "--precision");
    expect(run("--spoons", "3", NULL), 2, "unknown option");
    expect(run("--steps", NULL), 2, "expected an integer");
    expect(run("--steps", "0", NULL), 2, "at least 1 and at most 1099511627776");
    expect(run("--seed", "4294967296", NULL), 2, "at least 0 and at most 4294967295");
    expect(run("--set", "accumulate=4294967298", NULL), 2, "accumulate must be at most");
    expect(run("--steps", "3x", NULL), 2, "expected an integer");
    expect(run("--form", "best", NULL), 2, "baseline|optimized");
    expect(run("--config", "huge", NULL), 2, "small|original");
    expect(run("--precision", "f8", NULL), 2, "f32|f16|bf16");
    expect(run("--set", "no_such_number=1", NULL), 2, "unknown setting");
    expect(run("--set", "B", NULL), 2, "NAME=VALUE");
    expect(run("--set", "B=1.5", NULL), 2, "invalid value");
    expect(run("--set", "dropout=1", NULL), 2, "dropout");
    expect(run("--set", "lr=nan", NULL), 2, "invalid value");
    expect(run("--set", tested->refused, NULL), 2, "configuration");
}

/* Runs with two options that name one file, and checks that it is refused and still has its bytes. */
static void expect_kept(const char *first, const char *path, const char *second, const char *same)
{
    long size = 0;
    char *before = bytes_of(path, &size);
    expect(run("--device", "reference", "--steps", "1", first, path, second, same, NULL), 2, "are the same file");
    char *after = bytes_of(path, &size);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void files_of_a_run_are_distinct(void **state)
{
    static const char *const outputs[] = {"--save", "--report", "--save-graph"};
    char other[256];
    (void)state;
    snprintf(other, sizeof other, "%s/./kept", cache_folder());
    FILE *file = fopen(path_of("kept"), "w");
    assert_non_null(file);
    assert_true(fputs("kept", file) >= 0);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 3; i++) {
        expect_kept("--log", path_of("kept"), outputs[i], other);
        if (i > 0)
            expect_kept("--resume", path_of("kept"), outputs[i], other);
        if (tested->model->open_file)
            expect_kept("--data", path_of("kept"), outputs[i], other);
    }
    expect(run("--steps", "1", "--report", path_of("absent"), "--save-graph", path_of("absent"), NULL), 2,
           "are the same file");
    expect(run("--steps", "1", "--save", path_of("absent"), "--log", path_of("absent.prev"), NULL), 2, "absent.prev");
    assert_true(size_of(path_of("absent")) < 0);
}

static void failures_are_one_line(void **state)
{
    (void)state;
    expect(run("--device", "abacus:0", NULL), 1, "TUFF_E_NO_DEVICE");
    expect(run("--device", "reference", "--resume", "/nonexistent/x", NULL), 1, "/nonexistent/x");
    expect(run("--device", "reference", "--steps", "1", "--log", "/nonexistent/x", NULL), 1, "cannot write --log");
    expect(run("--device", "reference", "--steps", "1", "--save", "/nonexistent/x", NULL), 1, "cannot write --save /");
    expect(run("--device", "reference", "--steps", "1", "--report", "/nonexistent/x", NULL), 1, "No such file");
    expect(run("--device", "reference", "--steps", "1", "--save-batches", "/nonexistent/x", NULL), 1,
           "cannot write --save-batches");
    expect(run("--device", "reference", "--steps", "1", "--save", path_of("one"), NULL), 0, NULL);
    expect(run("--device", "reference", "--seed", "9", "--resume", path_of("one"), NULL), 1, "is a checkpoint of");
    expect(run("--device", "reference", "--steps", "1", "--resume", path_of("one"), NULL), 1, "leaves nothing to do");
    expect(run("--device", "reference", "--steps", "1", "--save", cache_folder(), NULL), 1, "Is a directory");
    expect(run("--device", "reference", "--steps", "1", "--report", "/dev/full", NULL), 1,
           "--report /dev/full: No space");
    assert_non_null(strstr(printed, "peak memory"));
    expect(run("--device", "reference", "--set", "lr=1e30", "--set", "clip_norm=0", "--steps", "2", NULL), 0, NULL);
}

static void check_on(tuff_device *device)
{
    tuff_device_info info;
    char seed[32];
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)(test_seed() % 1000000));
    const bool is_reference = info.device_class == TUFF_DEVICE_REFERENCE;
    if (!is_reference && !is_thorough()) {
        leave_out_device("in a thorough run only");
        return;
    }
    const char *words[] = {tested->model->name,     "--device", info.selector, "--seed", seed, "--check",
                           is_reference ? "2" : "4"};
    expect(run_words(sizeof words / sizeof *words, (char **)(uintptr_t)words), 0, "all within");
}

static void random_configurations_agree_with_the_reference(void **state)
{
    (void)state;
    for_each_device(check_on);
}

void example_expect(const char *option, const char *value, int code, const char *text)
{
    expect(run("--device", "reference", "--steps", "1", option, value, NULL), code, text);
}

void example_expect_all(int code, const char *text, const char *first, ...)
{
    va_list arguments;
    va_start(arguments, first);
    expect(run_list(first, arguments), code, text);
    va_end(arguments);
}

void example_expect_one_line(void)
{
    if (strchr(printed, '\n') != printed + strlen(printed) - 1)
        fail_msg("%s: not one line: %s", tested->model->name, printed);
}

static void example_has_tests_of_its_own(void **state)
{
    if (tested->more)
        tested->more(state);
}

int test_example_program(const example_case *given)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_train_alike),
        cmocka_unit_test(drivers_train),
        cmocka_unit_test(resumed_run_ends_with_the_same_bits),
        cmocka_unit_test(interrupted_run_is_saved),
        cmocka_unit_test(report_and_graph_are_written),
        cmocka_unit_test(weights_and_batches_are_written),
        cmocka_unit_test(options_without_effect_are_refused),
        cmocka_unit_test(wrong_use_is_one_line),
        cmocka_unit_test(files_of_a_run_are_distinct),
        cmocka_unit_test(failures_are_one_line),
        cmocka_unit_test(random_configurations_agree_with_the_reference),
        cmocka_unit_test(example_has_tests_of_its_own),
    };
    tested = given;
    return cmocka_run_group_tests_name(given->model->name, tests, use_fresh_cache, drop_cache);
}
