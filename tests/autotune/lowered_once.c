/* A candidate is lowered once, when a search requests it; compiling ahead and running reuse these launches. Searches of
   several kinds of tasks run on a device of each API, with and without threads that compile ahead, through an evaluator
   that counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compile_pool_fixture.h"
#include "autotune/lowered.h"
#include "each_device.h"
#include "small_plans.h"

enum { COMPILES = 6, MAX_ASKED = 2048, EVERY = 3 }; /* EVERY: one of so many tasks is searched */

/* Wraps a task's evaluator. */
typedef struct counting {
    evaluator inner;
    tuning_session *session;
    tune_config asked[MAX_ASKED], compiled[COMPILES + 1]; /* asked: requested and still kept */
    int asked_count, compiled_count;
    int again, expected, most_kept; /* again: requested once more without being lowered */
} counting;

static int find(const tune_config *all, int count, const tune_config *config)
{
    for (int i = 0; i < count; i++)
        if (tuff__config_equal(&all[i], config))
            return i;
    return -1;
}

static tune_evaluation lower_counting(void *state, const tune_config *config, candidate_info *out)
{
    counting *self = state;
    const uint64_t before = self->session->lowerings;
    const tune_evaluation found = self->inner.lower(self->inner.state, config, out);
    const bool is_known = find(self->asked, self->asked_count, config) >= 0;
    const uint64_t lowered = self->session->lowerings - before;
    assert_true(lowered == 0 || (lowered == 1 && !is_known));
    self->again += lowered == 0;
    assert_true(self->asked_count < MAX_ASKED);
    if (!is_known)
        self->asked[self->asked_count++] = *config;
    if (self->session->lowered_count > self->most_kept)
        self->most_kept = self->session->lowered_count;
    return found;
}

static void forget_counting(void *state, const tune_config *config)
{
    counting *self = state;
    const int at = find(self->asked, self->asked_count, config);
    self->inner.forget(self->inner.state, config);
    assert_true(at >= 0);
    self->asked[at] = self->asked[--self->asked_count];
}

static void expect_counting(void *state, const search_candidate *candidate)
{
    counting *self = state;
    const uint64_t before = self->session->lowerings;
    self->inner.expect(self->inner.state, candidate);
    assert_true(self->session->lowerings == before);
    self->expected++;
}

static tune_evaluation compile_counting(void *state, const search_candidate *candidate)
{
    counting *self = state;
    const uint64_t before = self->session->lowerings;
    const tune_evaluation found = self->inner.compile(self->inner.state, candidate);
    const bool is_first = find(self->compiled, self->compiled_count, &candidate->config) < 0;
    assert_int_equal(self->session->lowerings - before, is_first ? 0 : 1);
    if (is_first && self->compiled_count < COMPILES)
        self->compiled[self->compiled_count++] = candidate->config;
    return found;
}

static tune_evaluation sample_counting(void *state, const search_candidate *candidate, int count, uint64_t limit,
                                       uint64_t *nanoseconds)
{
    const counting *self = state;
    return self->inner.sample(self->inner.state, candidate, count, limit, nanoseconds);
}

static tune_evaluation verify_counting(void *state, const search_candidate *candidate, bool thorough)
{
    const counting *self = state;
    return self->inner.verify(self->inner.state, candidate, thorough);
}

static void release_counting(void *state, const search_candidate *candidate)
{
    const counting *self = state;
    self->inner.release(self->inner.state, candidate);
}

static bool is_over(void *state)
{
    const counting *self = state;
    return self->inner.is_over(self->inner.state);
}

static void search_task(tuning_task *task, counting *self)
{
    *self = (counting){.inner = tuff__evaluator_for_task(task), .session = task->session};
    const evaluator by = {.state = self,
                          .lower = lower_counting,
                          .forget = forget_counting,
                          .compile = compile_counting,
                          .expect = expect_counting,
                          .sample = sample_counting,
                          .verify = verify_counting,
                          .release = release_counting,
                          .is_over = is_over};
    const search_settings settings = {.prefetch = tuff__compile_pool_count(task->session->compile_pool),
                                      .max_compiles = COMPILES,
                                      .seed = task->hash.low};
    search *searching;
    assert_int_equal(tuff__search_begin(&by, &settings, &searching), TUFF_OK);
    assert_int_equal(tuff__search_step(searching, COMPILES), TUFF_OK);
    tuff__search_end(searching);
    tuff__evaluator_clear(task);
    for (int i = 0; i < task->session->lowered_count; i++)
        assert_ptr_not_equal(task->session->lowered[i]->task, task);
}

static void search_all(tuff_device *device)
{
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    for (int threads = 0; threads <= THREADS; threads += THREADS) {
        tuning_session session;
        int compiled = 0, expected = 0, again = 0, most_kept = 0;
        static counting one;
        tuff__compile_pool_threads = threads;
        begin_tuner(&session, plan);
        for (int i = 0; i < session.task_count; i += EVERY) {
            search_task(&session.tasks[i], &one);
            compiled += one.compiled_count;
            expected += one.expected;
            again += one.again;
            most_kept = one.most_kept > most_kept ? one.most_kept : most_kept;
        }
        print_message(
            "    %d threads: %d lowerings, %d candidates compiled, %d expected, %d asked for again, at most %d "
            "kept\n",
            threads, (int)session.lowerings, compiled, expected, again, most_kept);
        assert_true(compiled >= session.task_count);
        assert_true(threads == 0 ? expected == 0 : expected > 0);
        assert_true(again > 0 && most_kept <= MAX_LOWERED);
        end_tuner(&session);
        assert_int_equal(session.lowered_count, 0);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void a_candidate_is_lowered_once(void **state)
{
    (void)state;
    use_cache_subfolder("once");
    for_drawn_api(0, search_all);
}

/* If there are more candidates than may be kept, the least recently used are dropped, and lowered again on request. */
static void keep_few(tuff_device *device)
{
    enum { MANY = MAX_LOWERED + 8 };
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    tuning_session session;
    tuff__compile_pool_threads = 0;
    begin_tuner(&session, plan);
    tuning_task *task = &session.tasks[0];
    tune_config config = {.set = {0}};
    task_estimate estimate;
    for (int i = 0; i < MANY; i++) {
        tuff__config_set(&config, TUNABLE_COUNT - 1, i); /* the task does not read this tunable: all kernels are equal
                                                            */
        assert_int_equal(tuff__lowered_estimate(task, &config, &estimate), TUFF_OK);
        assert_int_equal(session.lowered_count, i < MAX_LOWERED ? i + 1 : MAX_LOWERED);
    }
    assert_int_equal(session.lowerings, MANY);
    assert_int_equal(tuff__lowered_estimate(task, &config, &estimate), TUFF_OK);
    assert_int_equal(session.lowerings, MANY);
    tuff__config_set(&config, TUNABLE_COUNT - 1, 0);
    assert_int_equal(tuff__lowered_estimate(task, &config, &estimate), TUFF_OK);
    assert_int_equal(session.lowerings, MANY + 1);
    lowered_candidate *taken;
    assert_int_equal(tuff__lowered_get(task, &config, &taken), TUFF_OK);
    assert_int_equal(session.lowerings, MANY + 1);
    assert_int_equal(session.lowered_count, MAX_LOWERED - 1);
    tuff__lowered_free(taken);
    end_tuner(&session);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void few_are_kept(void **state)
{
    (void)state;
    use_cache_subfolder("few");
    for_drawn_api(1, keep_few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_candidate_is_lowered_once), cmocka_unit_test(few_are_kept)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
