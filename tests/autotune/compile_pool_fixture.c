/* Fixtures for tests of compiling ahead; compile_pool_fixture.h describes them. */
#define _POSIX_C_SOURCE 200809L
#include "compile_pool_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

const tuff_compile_options untuned = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}},
                           tuned_quickly = {.tuning =
                                                &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 6000}};

tuff_plan *compile_many(tuff_graph *graph, tuff_array *weights)
{
    tuff_tensor *w = tuff_array_tensor(graph, weights), *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)),
                *rows = tuff_input(graph, "rows", TUFF_I32, TUFF_SHAPE(ROWS)), *gradient;
    tuff_tensor *y =
        tuff_gelu(tuff_matmul(tuff_layer_norm(x, NULL, NULL, 1, 1e-5), tuff_reshape(w, TUFF_SHAPE(INNER, COLUMNS))));
    tuff_tensor *loss = tuff_sum(tuff_mul(tuff_softmax(y, -1), y), (int[]){0, 1}, 2, false);
    assert_int_equal(tuff_gradients(loss, &w, 1, &gradient), TUFF_OK);
    tuff_output(graph, "new", tuff_assign(graph, weights, tuff_sub(w, gradient)));
    tuff_output(graph, "sum", tuff_sum(y, (int[]){0}, 1, false));
    tuff_output(graph, "sorted", tuff_scatter_add_rows(x, rows, tuff_neg(x), 0));
    tuff_tensor *heads = tuff_reshape(y, TUFF_SHAPE(1, 2, ROWS, COLUMNS / 2));
    tuff_output(graph, "attended", tuff_attention(heads, heads, heads, NULL));
    tuff_plan *plan = tuff_compile(graph, &untuned);
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

tuff_array *make_weights(tuff_device *device)
{
    static const float zeros[INNER * COLUMNS];
    return make_array(device, TUFF_F32, INNER * COLUMNS, zeros);
}

void begin_tuner(tuning_session *self, tuff_plan *plan)
{
    *self = (tuning_session){
        .fusion = &plan->fusion, .options = &tuned_quickly, .device = plan->device, .log = -1, .limit = UINT64_MAX};
    self->begin = tuff__nanoseconds();
    assert_int_equal(tuff__session_look_up(self), TUFF_OK);
    assert_int_equal(tuff__session_open_device(self), TUFF_OK);
}

void end_tuner(tuning_session *self)
{
    for (int i = 0; i < self->task_count; i++)
        tuff__evaluator_clear(&self->tasks[i]);
    tuff__session_close_device(self);
    assert_null(self->compile_pool);
    tuff__session_close_stores(self);
}

int draw_candidates(tuning_task *task, uint64_t defaults, search_candidate *out, int most)
{
    const evaluator by = tuff__evaluator_for_task(task);
    tune_space space = {0};
    candidate_info made;
    rng from = {task->hash.low};
    int count = 0;
    for (int i = 0; i < 40 && count < most; i++) {
        tune_config tried = {.set = {0}};
        if (i > 0)
            tuff__space_random(&space, &from, &tried);
        const bool can_be = by.lower(task, &tried, &made) == EVALUATION_GOOD;
        tuff__space_add_tunables(&space, &made.used_tunables);
        bool is_new = can_be && made.program != defaults;
        for (int k = 0; k < count; k++)
            is_new = is_new && out[k].program != made.program;
        if (is_new)
            out[count] = (search_candidate){.config = tried, .program = made.program, .slot = 1 + count};
        count += is_new;
    }
    return count;
}
