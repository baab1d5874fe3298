/* With TUFF_UPLOAD_AHEAD the next batch is sent to the device before the current step ends. The test wraps the driver
   and holds each step back until that upload was submitted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "device/state.h"
#include "each_device.h"
#include "small_plans.h"

enum { COUNT = 256, STEPS = 4 };

/* The wrapper around the driver. */
static struct {
    const driver *calls; /* the real driver */
    driver watched;
    _Atomic int sent;       /* batches that were sent ahead */
    bool holds;             /* hold the next submission back */
    driver_recording *held; /* the submission held back; NULL: none */
} between;

static tuff_status count_sent(driver_device *device, driver_staging *to, uint64_t size)
{
    const tuff_status status = between.calls->staging_send(device, to, size);
    between.sent += status == TUFF_OK;
    return status;
}

static tuff_status hold_back(driver_device *device, driver_recording *recorded)
{
    if (!between.holds)
        return between.calls->submit(device, recorded);
    between.holds = false;
    between.held = recorded;
    return TUFF_OK;
}

static void stand_between(tuff_device *device)
{
    between.calls = device->driver;
    between.watched = *between.calls;
    between.watched.staging_send = count_sent;
    between.watched.submit = hold_back;
    between.sent = 0;
    device->driver = &between.watched;
}

static void let_go(tuff_device *device)
{
    assert_non_null(between.held);
    assert_int_equal(tuff__device_begin_work(device), TUFF_OK);
    assert_int_equal(tuff__device_end_work(device, between.calls->submit(device->handle, between.held)), TUFF_OK);
    between.held = NULL;
}

static bool await_sent(int count)
{
    const uint64_t millisecond = 1000000;
    for (int i = 0; i < 20000 && between.sent < count; i++)
        tuff__sleep(millisecond);
    return between.sent >= count;
}

static tuff_status fill(void *user, tuff_batch_target *target)
{
    int32_t *to = target->data[0];
    (void)user;
    for (int i = 0; i < COUNT; i++)
        to[i] = (int32_t)(target->number * 1000 + i);
    return TUFF_OK;
}

static tuff_loader *make_loader(tuff_device *device, tuff_upload upload)
{
    const tuff_field field = {.name = "x", .dtype = TUFF_I32, .shape = TUFF_SHAPE(COUNT)};
    tuff_loader *loader = tuff_loader_create(
        device,
        &(tuff_loader_options){.fields = &field, .field_count = 1, .batch_size = 1, .batch = fill, .upload = upload});
    if (!loader)
        fail_msg("%s", tuff_error());
    return loader;
}

static void run_steps(tuff_device *device, tuff_plan *plan, tuff_upload upload)
{
    tuff_loader *loader = make_loader(device, upload);
    for (int step = 0; step < STEPS; step++) {
        int32_t sum;
        assert_int_equal(tuff_loader_next(loader, plan, NULL), TUFF_OK);
        between.holds = true;
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        /* Those of all steps so far, and the next one. */
        const bool is_ahead = upload != TUFF_UPLOAD_AHEAD || await_sent(step + 2);
        let_go(device);
        if (!is_ahead)
            fail_msg("%s: before step %d ended, batch %d was not sent", tuff__device_info(device)->selector, step,
                     step + 1);
        assert_int_equal(tuff_plan_read(plan, "sum", &sum, sizeof sum), TUFF_OK);
        assert_int_equal(sum, step * 1000 * COUNT + COUNT * (COUNT - 1) / 2);
    }
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static void check_overlap(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_I32, TUFF_SHAPE(1, COUNT));
    tuff_output(graph, "sum", tuff_sum(x, (int[]){0, 1}, 2, false));
    tuff_plan *plan = compile_plan(graph);
    stand_between(device);
    run_steps(device, plan, TUFF_UPLOAD_AHEAD);
    between.sent = 0;
    run_steps(device, plan, TUFF_UPLOAD_IN_ORDER);
    assert_int_equal(between.sent, 0);
    device->driver = between.calls;
    destroy_plan(plan, graph);
}

static void the_next_batch_is_sent_before_the_step_ends(void **state)
{
    (void)state;
    for_each_driver(check_overlap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_batch_is_sent_before_the_step_ends),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
