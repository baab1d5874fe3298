/* The training examples repeat golden files made with PyTorch, in both forms. The mathematics of a form is held on the
   reference device; of the files a run draws one of two for a driver, which it draws as well as the form, because
   compiling takes the time; variants of a file are for the reference device. A thorough run leaves nothing out. A new
   example is a row of the table, and a function where its configuration has other names than the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "workload.h"

extern const example dotgat_example, k1_tree_example;

static void configure_dotgat(const tuff_file *file, void *config)
{
    const char *shared = tuff_file_metadata(file, "shared_v"), *loss = tuff_file_metadata(file, "loss");
    assert_true(example_set(&dotgat_example, config, "own_values", shared && strcmp(shared, "false") == 0));
    assert_true(example_set(&dotgat_example, config, "argmax", loss && strcmp(loss, "mse") != 0));
}

#define BARS_OF_MOST                                                                                                 \
    {                                                                                                                \
        .out = 2e-5, .gradient = 2e-5, .loss = 1e-5, .norm = 1e-5, .noise = 1e-5, .threshold = 1e-4, .close1 = 0.01, \
        .far1 = 2.1, .close10 = 0.05, .far10 = 21                                                                    \
    }
/* Softmax ignores the bias of keys, the second third. */
#define K1_TREE                                                                                              \
    .model = &k1_tree_example, .prefix = "", .zero_ending = "in_proj.bias", .zero_part = 1, .zero_parts = 3, \
    .bars = BARS_OF_MOST
static const workload rows[] = {
    {.file = "1_dotgat", .model = &dotgat_example, .prefix = "", .configure = configure_dotgat, .bars = BARS_OF_MOST},
    {.file = "5_k1_a", .numbers = {{"tree", 0}}, K1_TREE},
    {.file = "5_k1_b", .numbers = {{"tree", 1}}, K1_TREE},
    {.file = "5_k1_b", .variant = "_sum_subtree", .numbers = {{"tree", 1}, {"subtree", 1}}, K1_TREE},
    {.file = "5_k1_b", .variant = "_l2_own", .numbers = {{"tree", 1}, {"l2", 1}}, K1_TREE},
    {.file = "5_k1_b", .variant = "_l2_subtree", .numbers = {{"tree", 1}, {"l2", 1}, {"subtree", 1}}, K1_TREE},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int current;

static void check_on(tuff_device *device)
{
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    const bool all = is_thorough() || info.device_class == TUFF_DEVICE_REFERENCE;
    const int drawn = drawn_turn("form", current, 2);
    if (!all && (rows[current].variant || drawn_turn("file", current, 2) == 1 || !is_its_turn(device, current) ||
                 !is_turn_of_api(device, current))) {
        leave_out_device("not drawn");
        return;
    }
    for (int form = 0; form < 2; form++)
        if (all || form == drawn)
            workload_check(&rows[current], device, form == 1);
}

static void forms_repeat_golden_file(void **state)
{
    current = (int)((const workload *)*state - rows);
    if (!workload_exists(&rows[current]))
        skip();
    for_each_device(check_on);
}

int main(void)
{
    struct CMUnitTest tests[ROWS];
    for (int i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].file, .test_func = forms_repeat_golden_file, .initial_state = (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests_name("workloads", tests, use_fresh_cache, drop_cache);
}
