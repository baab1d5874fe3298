/* Candidates that are compiled ahead of their turn, by threads as a GPU's tuner has them and as the tests give to any
   device. What they compiled is reused instead of compiled again, whatever the kernels; tuning ends as it does without
   them; and candidates that are never requested, or requested by several at once, leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "compile_pool_fixture.h"
#include "autotune/lowered.h"
#include "each_device.h"
#include "small_plans.h"

static uint64_t count_compiled(const tuning_session *session)
{
    tuff_device_counters counters;
    assert_int_equal(tuff_device_counters_get(tuff__session_device(session), &counters), TUFF_OK);
    return counters.programs_compiled + counters.programs_from_disk;
}

/* Compiles the default, then a few others, each of which must have been compiled ahead. Returns their number. */
static int find_compiled(tuning_task *task)
{
    tuning_session *self = task->session;
    const evaluator by = tuff__evaluator_for_task(task);
    candidate_info made;
    search_candidate defaults = {.slot = 0}, others[THREADS];
    assert_int_equal(by.lower(task, &defaults.config, &made), EVALUATION_GOOD);
    assert_int_equal(by.compile(task, &defaults), EVALUATION_GOOD);
    const int count = draw_candidates(task, made.program, others, THREADS);
    for (int i = 0; i < count; i++)
        by.expect(task, &others[i]);
    tuff__sleep(30000000);
    uint64_t took[THREADS];
    task->compile_limit = tuff__compile_timeout;
    for (int i = 0; i < count; i++) {
        lowered_candidate *lowered;
        (void)tuff__compile_pool_await(task, others[i].slot, NULL, &took[i], &lowered);
        tuff__lowered_free(lowered);
    }
    const uint64_t before = count_compiled(self);
    int found = 0;
    for (int i = 0; i < count; i++) {
        assert_true(took[i] > 0);
        const tune_evaluation said = by.compile(task, &others[i]);
        found += said == EVALUATION_GOOD;
        if (said != EVALUATION_GOOD)
            print_message("    %s: %s\n", task->text, tuff_error());
        if (said == EVALUATION_GOOD)
            by.release(task, &others[i]);
    }
    if (count_compiled(self) != before)
        fail_msg("%s: compiled twice", task->text);
    by.release(task, &defaults);
    return found;
}

static void check_programs(tuff_device *device)
{
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    tuning_session self;
    int found = 0;
    begin_tuner(&self, plan);
    assert_int_equal(tuff__compile_pool_count(self.compile_pool), THREADS);
    for (int i = 0; i < self.task_count; i++)
        found += find_compiled(&self.tasks[i]);
    print_message("    %d keys, %d candidates were compiled ahead of their turn\n", self.task_count, found);
    assert_true(self.task_count > 5 && found > self.task_count);
    end_tuner(&self);
    assert_true(self.stats.prefetched >= (uint64_t)found && self.stats.prefetch_nanoseconds > 0);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void every_program_is_found(void **state)
{
    (void)state;
    use_cache_subfolder("found");
    tuff__compile_pool_threads = THREADS;
    for_drawn_api(0, check_programs);
}

/* A candidate that is compiled ahead but never requested is waited for only while it is in the compiler. */
static void drop_at_once(tuff_device *device)
{
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    for (int round = 0; round < 3; round++) {
        tuning_session self;
        search_candidate others[SEARCH_PREFETCH];
        begin_tuner(&self, plan);
        for (int i = 0; i < self.task_count; i++) {
            tuning_task *task = &self.tasks[i];
            const evaluator by = tuff__evaluator_for_task(task);
            const int count = draw_candidates(task, 0, others, SEARCH_PREFETCH);
            for (int k = 0; k < count; k++)
                by.expect(task, &others[k]);
            if (round == 1)
                tuff__sleep(2000000);
            for (int k = 0; k < count && round < 2; k++)
                by.release(task, &others[k]);
        }
        end_tuner(&self);
        assert_int_equal(self.stats.hangs, 0);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void what_is_expected_may_not_come(void **state)
{
    (void)state;
    use_cache_subfolder("dropped");
    tuff__compile_pool_threads = THREADS;
    for_drawn_api(1, drop_at_once);
}

static bool count_down(void *user, const tuff_tune_progress *now)
{
    (void)now;
    return --*(int *)user > 0;
}

static void tune_with_threads(tuff_device *device)
{
    static product_result plain, tuned;
    run_softmax_of_product(device, &untuned, &plain);
    for (int threads = 0; threads <= THREADS; threads += THREADS) {
        char name[64];
        (void)snprintf(name, sizeof name, "%d threads on %s", threads, tuff__device_info(device)->selector);
        use_cache_subfolder(name);
        tuff__compile_pool_threads = threads;
        const tuff_tune_stats stats = run_softmax_of_product(device, &tuned_quickly, &tuned);
        print_message("    %d threads: %.1f s, %d compiles, %d of them ahead\n", threads,
                      (double)stats.nanoseconds * 1e-9, (int)stats.compiles, (int)stats.prefetched);
        assert_true(stats.measured >= 1);
        assert_int_equal(stats.wrong + stats.races + stats.hangs + stats.crashes, 0);
        assert_true(threads == 0 ? stats.prefetched == 0 : stats.prefetched > 0);
        assert_true(stats.prefetched < stats.compiles);
        assert_true(are_close(&plain, &tuned));
    }
    /* Stopped after so many candidates. */
    for (int most = 1; most <= 7; most += 3) {
        int left = most;
        char name[64];
        (void)snprintf(name, sizeof name, "%d candidates on %s", most, tuff__device_info(device)->selector);
        use_cache_subfolder(name);
        tuff_tune_options stopping = *tuned_quickly.tuning;
        stopping.progress = count_down;
        stopping.user = &left;
        run_softmax_of_product(device, &(tuff_compile_options){.tuning = &stopping}, &tuned);
        assert_true(are_close(&plain, &tuned));
    }
}

static void winners_are_right(void **state)
{
    (void)state;
    for_drawn_api(1, tune_with_threads);
}

enum { REQUESTS = 12, SHARERS = 4 };

typedef struct sharing {
    tuff_device *device;
    program *got[SHARERS][REQUESTS];
    test_kernel kernels[REQUESTS];
    program_request requests[REQUESTS];
    _Atomic int next;
} sharing;

static void *share(void *user)
{
    sharing *self = user;
    const int own = atomic_fetch_add(&self->next, 1);
    _Atomic uint64_t begun = 0;
    for (int i = 0; i < REQUESTS; i++)
        (void)tuff__program_prepare(self->device, &self->requests[(i + own) % REQUESTS], &begun,
                                    &self->got[own][(i + own) % REQUESTS]);
    return NULL;
}

/* Threads that create the same programs as this one at the same time get the same objects. */
static void share_programs(tuff_device *device)
{
    static sharing all;
    pthread_t threads[SHARERS - 1];
    tuff_device_counters before, after;
    all = (sharing){.device = device};
    for (int i = 0; i < REQUESTS; i++) {
        char statement[64];
        (void)snprintf(statement, sizeof statement, "x[i] = %du;", i);
        all.requests[i] = test_request(device, &all.kernels[i], "test_share", statement);
    }
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    for (int i = 0; i + 1 < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share, &all), 0);
    const int own = atomic_fetch_add(&all.next, 1);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(tuff__program_get(device, &all.requests[i], &all.got[own][i]), TUFF_OK);
    for (int i = 0; i + 1 < SHARERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.programs_compiled - before.programs_compiled + after.programs_from_disk -
                         before.programs_from_disk,
                     REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        for (int k = 0; k < SHARERS; k++) {
            assert_ptr_equal(all.got[k][i], all.got[0][i]);
            tuff__program_release(device, all.got[k][i]);
        }
    for (int i = 0; i < REQUESTS; i++)
        assert_false(tuff__program_is_loaded(device, &all.requests[i]));
}

static void programs_are_shared(void **state)
{
    (void)state;
    use_cache_subfolder("shared");
    for_drawn_api(2, share_programs);
}

static void overridden_device_shares(tuff_device *device)
{
    const tuff_device_info same = *tuff__device_info(device);
    tuff__device_override_info(device, &same);
    share_programs(device);
}

static void overridden_devices_share_too(void **state)
{
    (void)state;
    use_cache_subfolder("overridden");
    for_drawn_api(3, overridden_device_shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_shared),    cmocka_unit_test(overridden_devices_share_too),
        cmocka_unit_test(every_program_is_found), cmocka_unit_test(what_is_expected_may_not_come),
        cmocka_unit_test(winners_are_right),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
