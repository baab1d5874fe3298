/* Memory of more elements than 32 bits count, on devices whose kernels are given all of a buffer: what they would have
   to count to beyond that is placed elsewhere, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/lower.h"

#define GIB ((uint64_t)1 << 30)
#define LIMIT ((int64_t)1 << 31) /* elements */

enum { BUFFERS = 4 };

/* Four tensors that one launch uses, of two fifths of 2^31 elements each: kernels reach all elements of all of them. */
static void temporaries_end_where_kernels_can_count_to(void **state)
{
    (void)state;
    const tuff_dtype dtypes[] = {TUFF_BOOL, TUFF_F16, TUFF_F32};
    for (int d = 0; d < 3; d++) {
        tuff_device_info info = {.max_allocation = 32 * GIB, .max_binding = 32 * GIB};
        memory_buffer buffers[BUFFERS];
        launch work = {.kind = LAUNCH_KERNEL, .chain.buffer_count = BUFFERS};
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = (memory_buffer){.dtype = dtypes[d], .count = LIMIT / 5 * 2, .parent = -1};
            work.chain.buffers[i].id = i;
        }
        /* Without a budget nothing is allocated. */
        launch_list list = {.buffers = buffers, .buffer_count = BUFFERS, .launches = &work, .launch_count = 1};
        list.policy.target.info = &info;
        assert_int_equal(tuff__plan_memory(&list), TUFF_OK);
        int behind = 0;
        for (int i = 0; i < BUFFERS; i++) {
            const uint64_t at = buffers[i].planned & (((uint64_t)1 << 48) - 1);
            assert_true(at / tuff_dtype_size(dtypes[d]) + (uint64_t)buffers[i].count < (uint64_t)LIMIT);
            behind += at > 0;
        }
        assert_int_equal(behind, BUFFERS / 2); /* two fit a block */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporaries_end_where_kernels_can_count_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
