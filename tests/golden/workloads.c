/* The training examples reproduce golden files made with PyTorch, in both forms. The reference device checks the
   mathematics of all forms. Because compiling takes most of the time, a run draws every second file, its driver and its
   form; variants of a file run on the reference device only. A thorough run leaves nothing out. A new example is a row
   in workload_table.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "workload_table.h"

enum { MAX_ROWS = 32 };

static int current;
static const tuff_file *current_file;

/* Opens a row's file in the tests' data, in the folder that TUFF_WORKLOADS names, or in shared/golden/workloads next to
   the repository. Returns NULL if none of them has it. */
static tuff_file *open_file(const workload *row)
{
    const char *source = getenv("TUFF_SOURCE"), *named = getenv("TUFF_WORKLOADS"), *data = getenv("TUFF_TEST_DATA");
    const struct {
        const char *folder, *rest;
    } places[] = {{data ? data : TUFF_TEST_DATA, "/golden/workloads"},
                  {named, ""},
                  {source ? source : TUFF_TEST_DATA "/../..", "/../shared/golden/workloads"}};
    tuff_file *file = NULL;
    for (int i = 0; i < 3 && !file; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s%s/%s.safetensors", places[i].folder ? places[i].folder : "", places[i].rest,
                 row->file);
        file = places[i].folder ? tuff_file_open(path) : NULL;
        if (!file && places[i].folder && tuff_last_status() != TUFF_E_IO) /* it exists, but is damaged */
            fail_msg("%s: %s", path, tuff_error());
    }
    return file;
}

static void check_on(tuff_device *device)
{
    const workload *row = &workload_table[current];
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    const bool all = is_thorough() || info.device_class == TUFF_DEVICE_REFERENCE;
    const int drawn = drawn_turn("form", current, 2);
    if (!all && (row->variant || drawn_turn("file", current, 2) == 1 || !is_drawn_for_device(device, current))) {
        leave_out_device("not drawn");
        return;
    }
    for (int form = 0; form < 2; form++)
        if (all || form == drawn) {
            const workload_counts counts = workload_check(row, current_file, device, form == 1);
            assert_true(counts.compared > 0);
            assert_int_equal(counts.failed, 0);
        }
}

static void forms_repeat_golden_file(void **state)
{
    current = (int)((const workload *)*state - workload_table);
    tuff_file *file = open_file(&workload_table[current]);
    if (!file)
        skip();
    current_file = file;
    for_each_device(check_on);
    tuff_file_close(file);
}

int main(void)
{
    struct CMUnitTest tests[MAX_ROWS];
    assert_true(workload_table_count <= MAX_ROWS);
    for (int i = 0; i < workload_table_count; i++)
        tests[i] = (struct CMUnitTest){.name = workload_table[i].file,
                                       .test_func = forms_repeat_golden_file,
                                       .initial_state = (void *)(uintptr_t)&workload_table[i]};
    return _cmocka_run_group_tests("workloads", tests, (size_t)workload_table_count, use_fresh_cache, drop_cache);
}
