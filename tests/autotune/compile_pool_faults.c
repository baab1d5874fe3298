/* Compiling ahead with compilers that refuse, are slow, kill the process or never return: OpenCL's calls are
   replaced. */
#define _DEFAULT_SOURCE 1
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile_pool_fixture.h"
#include "device/state.h"
#include "each_device.h"
#include "opencl_replaced.h"
#include "autotune/crash_history.h"
#include "small_plans.h"
#include "tune_fixture.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

/* Kills the process while two programs are being created. */
static cl_program CL_API_CALL create_deadly(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                            cl_int *error)
{
    static atomic_int inside;
    if (strstr(texts[0], "tuff_matmul")) {
        if (atomic_fetch_add(&inside, 1) + 1 >= 2)
            (void)raise(SIGKILL);
        tuff__sleep(2000000000); /* long enough for another thread to get here, on a busy machine too */
        atomic_fetch_sub(&inside, 1);
    }
    return real_creation(context, count, texts, sizes, error);
}

static void die_of_two(void)
{
    /* Time enough for a busy machine; the process dies sooner. */
    const tuff_compile_options patiently = {.tuning =
                                                &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 60000}};
    static product_result out;
    tuff_device *device = open_replaceable();
    if (!device)
        _exit(77);
    replace_creation(create_deadly);
    tuff__compile_pool_threads = THREADS;
    run_softmax_of_product(device, &patiently, &out);
    _exit(1);
}

/* All candidates in flight are recorded as crashed, but they count as one failure of the device, so that the next
   process continues. Must be the first test: a fork does not preserve what drivers have started. */
static void all_in_flight_are_recorded(void **state)
{
    (void)state;
    static product_result plain, tuned;
    int status, crashes;
    use_cache_subfolder("killed");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        die_of_two();
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(tuff__crash_history_recover(NULL, NULL, &crashes), TUFF_OK);
    print_message("    %d crashes\n", crashes);
    assert_in_range(crashes, 2, JOURNAL_PLACES);
    tuff_device *device = open_replaceable();
    run_softmax_of_product(device, &untuned, &plain);
    assert_true(run_softmax_of_product(device, &tuned_quickly, &tuned).measured >= 1);
    assert_true(are_close(&plain, &tuned));
    tuff_device_close(device);
}

/* Longer than other compilations need on a busy machine. */
#define TIMEOUT UINT64_C(6000000000)

/* Every second new text of a product is refused, beginning with the first. The texts are remembered. */
enum { MAX_SEEN = 256 };
static struct {
    mutex lock;
    uint64_t texts[MAX_SEEN];
    int count, twice;
} seen = {.lock = MUTEX_INITIALIZER};

static bool is_refused(uint64_t hash)
{
    int at = 0;
    tuff__lock(&seen.lock);
    while (at < seen.count && seen.texts[at] != hash)
        ++at;
    const bool is_new = at == seen.count, refused = at % 2 == 0;
    if (is_new && seen.count < MAX_SEEN)
        seen.texts[seen.count++] = hash;
    seen.twice += refused && !is_new;
    tuff__unlock(&seen.lock);
    return refused;
}

static cl_program CL_API_CALL create_unless_refused(cl_context context, cl_uint count, const char **texts,
                                                    const size_t *sizes, cl_int *error)
{
    static const char nothing[] = "this is no program";
    if (!strstr(texts[0], "tuff_matmul") || !is_refused(tuff__hash64(texts[0], strlen(texts[0]), 0)))
        return real_creation(context, count, texts, sizes, error);
    return real_creation(context, 1, (const char *[]){nothing}, NULL, error);
}

static void what_is_refused_is_not_asked_twice(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_cache_subfolder("refused");
    tuff__compile_pool_threads = THREADS;
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    tuning_session self;
    begin_tuner(&self, plan);
    replace_creation(create_unless_refused);
    int refused = 0;
    for (int i = 0; i < self.task_count; i++) {
        tuning_task *task = &self.tasks[i];
        const evaluator by = tuff__evaluator_for_task(task);
        search_candidate others[SEARCH_PREFETCH];
        const int count =
            strcmp(task->key.family, "matmul") == 0 ? draw_candidates(task, 0, others, SEARCH_PREFETCH) : 0;
        for (int k = 0; k < count; k++)
            by.expect(task, &others[k]);
        for (int k = 0; k < count; k++) {
            const tune_evaluation said = by.compile(task, &others[k]);
            assert_true(said == EVALUATION_GOOD || said == EVALUATION_COMPILE);
            if (said == EVALUATION_COMPILE)
                assert_non_null(strstr(tuff_error(), "tuff_matmul"));
            else
                by.release(task, &others[k]);
            refused += said == EVALUATION_COMPILE;
        }
    }
    restore_creation();
    end_tuner(&self);
    print_message("    %d refused\n", refused);
    assert_true(refused > 0);
    assert_int_equal(seen.twice, 0);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

static cl_program CL_API_CALL create_slowly(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                            cl_int *error)
{
    tuff__sleep(300000000);
    return real_creation(context, count, texts, sizes, error);
}

static tuning_task *find_product(tuning_session *session)
{
    for (int i = 0; i < session->task_count; i++)
        if (strcmp(session->tasks[i].key.family, "matmul") == 0)
            return &session->tasks[i];
    fail_msg("no matmul task");
    return NULL;
}

/* Counts the submissions while a compile step waits for a slow compiler. */
static int count_while_waiting(tuning_session *self)
{
    tuning_task *task = find_product(self);
    const evaluator by = tuff__evaluator_for_task(task);
    tuff_device_counters before, after;
    search_candidate defaults = {.slot = 0}, other;
    uint64_t time;
    assert_int_equal(by.compile(task, &defaults), EVALUATION_GOOD);
    assert_int_equal(by.sample(task, &defaults, 1, 0, &time), EVALUATION_GOOD);
    candidate_info made;
    assert_int_equal(by.lower(task, &defaults.config, &made), EVALUATION_GOOD);
    assert_int_equal(draw_candidates(task, made.program, &other, 1), 1);
    replace_creation(create_slowly);
    by.expect(task, &other);
    tuff__sleep(20000000);
    assert_int_equal(tuff_device_counters_get(tuff__session_device(self), &before), TUFF_OK);
    assert_int_equal(by.compile(task, &other), EVALUATION_GOOD);
    assert_int_equal(tuff_device_counters_get(tuff__session_device(self), &after), TUFF_OK);
    restore_creation();
    by.release(task, &other);
    by.release(task, &defaults);
    return (int)(after.submissions - before.submissions);
}

static void a_gpu_is_kept_running(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    tuff__compile_pool_threads = 1;
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        tuning_session self;
        use_cache_subfolder(is_gpu ? "running" : "at rest");
        begin_tuner(&self, plan);
        if (is_gpu) /* pretends to be one */
            self.measure_device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
        const int count = count_while_waiting(&self);
        print_message("    %d submissions\n", count);
        assert_true(is_gpu ? count > 20 : count < 10);
        end_tuner(&self);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

/* Returns how often a candidate's sample submits, right after another one and after a second without any: the least of
   three, because a sample that was interrupted is repeated. */
static void count_samples(tuning_session *self, uint64_t *right_after, uint64_t *idle)
{
    tuning_task *task = find_product(self);
    const evaluator by = tuff__evaluator_for_task(task);
    const search_candidate defaults = {.slot = 0};
    uint64_t time;
    *right_after = *idle = UINT64_MAX;
    assert_int_equal(by.compile(task, &defaults), EVALUATION_GOOD);
    assert_int_equal(by.sample(task, &defaults, 1, 0, &time), EVALUATION_GOOD);
    for (int i = 0; i < 6; i++) {
        tuff_device_counters before, after;
        uint64_t *least = i % 2 ? idle : right_after;
        assert_int_equal(tuff_device_counters_get(tuff__session_device(self), &before), TUFF_OK);
        self->last_run = tuff__nanoseconds() - (i % 2 ? 1000000000u : 0u);
        assert_int_equal(by.sample(task, &defaults, 1, 0, &time), EVALUATION_GOOD);
        assert_int_equal(tuff_device_counters_get(tuff__session_device(self), &after), TUFF_OK);
        const uint64_t count = after.submissions - before.submissions;
        *least = count < *least ? count : *least;
    }
    by.release(task, &defaults);
}

static void an_idle_gpu_is_warmed_up(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    for (int kind = 0; kind < 3; kind++) { /* a CPU, a GPU, a GPU that an application uses */
        tuning_session self;
        uint64_t right_after, idle;
        use_cache_subfolder(kind == 0 ? "cpu" : kind == 1 ? "gpu" : "used");
        begin_tuner(&self, plan);
        if (kind > 0)
            self.measure_device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
        self.is_background = kind == 2;
        count_samples(&self, &right_after, &idle);
        assert_true(kind == 1 ? idle > right_after : idle == right_after);
        end_tuner(&self);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

/* Compilations that do not slow the device down, as next to a GPU (here they sleep), are hidden behind measuring. The
   message shows how many more candidates are tried in the same time. */
static void slow_compilers_work_beside(void **state)
{
    (void)state;
    static product_result tuned;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    int tried[2];
    for (int i = 0; i < 2; i++) {
        use_cache_subfolder(i ? "hidden" : "waited for");
        tuff__compile_pool_threads = i ? THREADS : 0;
        replace_creation(create_slowly);
        const tuff_tune_stats stats = run_softmax_of_product(device, &tuned_quickly, &tuned);
        restore_creation();
        tried[i] = (int)stats.compiles;
        assert_true(i == 0 ? stats.prefetched == 0 : stats.prefetched > 0);
        print_message("    %d threads: %d candidates in %.1f s, of which %.1f s compiling\n",
                      tuff__compile_pool_threads, tried[i], (double)stats.nanoseconds * 1e-9,
                      (double)stats.compile_nanoseconds * 1e-9);
    }
    tuff_device_close(device);
}

/* After that the process measures nothing more. */
static void a_compiler_that_hangs_ahead_is_left(void **state)
{
    (void)state;
    static product_result plain, tuned;
    char environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_cache_subfolder("hang");
    run_softmax_of_product(device, &untuned, &plain);
    block_creation(4, "tuff_matmul");
    tuff__compile_pool_threads = THREADS;
    const uint64_t timeout = tuff__compile_timeout, begin = tuff__nanoseconds();
    tuff__compile_timeout = TIMEOUT;
    const tuff_tune_stats stats = run_softmax_of_product(device, &tuned_quickly, &tuned);
    const double seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    tuff__compile_timeout = timeout;
    print_message("    returned after %.1f s\n", seconds);
    assert_int_equal(stats.hangs, 1);
    assert_true(seconds < 60 && count_creations() >= 4 && stats.prefetched > 0);
    assert_true(are_close(&plain, &tuned));
    tune_store *store = open_device_store(device, environment);
    assert_non_null(find_store_record(store, RECORD_REJECTION, "hang"));
    tuff__store_close(store);
    assert_int_equal(run_softmax_of_product(device, &tuned_quickly, &tuned).measured, 0);
    release_creation();
    tuff_device_close(device);
}

/* Its candidate is rejected when the tuner ends; the others that are in the compiler then are not. */
static void what_hangs_unasked_for_is_rejected(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_cache_subfolder("unasked");
    tuff_array *weights = make_weights(device);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    const uint64_t timeout = tuff__compile_timeout;
    tuning_session self;
    tuff__compile_timeout = TIMEOUT;
    begin_tuner(&self, plan);
    block_creation(1, "tuff_matmul");
    for (int i = 0; i < self.task_count; i++) {
        tuning_task *task = &self.tasks[i];
        const evaluator by = tuff__evaluator_for_task(task);
        search_candidate others[2];
        const int count = strcmp(task->key.family, "matmul") == 0 ? draw_candidates(task, 0, others, 2) : 0;
        for (int k = 1; k < count; k++)
            by.expect(task, &others[k]);
    }
    tuff__sleep(200000000);
    const uint64_t begin = tuff__nanoseconds();
    for (int i = 0; i < self.task_count; i++)
        tuff__evaluator_clear(&self.tasks[i]);
    assert_true(tuff__nanoseconds() - begin < 500000000);
    tuff__compile_pool_close(&self);
    assert_true(self.lost && tuff__device_is_stuck(tuff__session_device(&self)));
    assert_int_equal(self.stats.hangs, 1);
    assert_non_null(find_store_record(self.store, RECORD_REJECTION, "hang"));
    tuff__compile_timeout = timeout;
    end_tuner(&self);
    release_creation();
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_in_flight_are_recorded),
        cmocka_unit_test(what_is_refused_is_not_asked_twice),
        cmocka_unit_test(a_gpu_is_kept_running),
        cmocka_unit_test(an_idle_gpu_is_warmed_up),
        cmocka_unit_test(slow_compilers_work_beside),
        /* These must be last: once a compiler hung, the process tunes no more. */
        cmocka_unit_test(a_compiler_that_hangs_ahead_is_left),
        cmocka_unit_test(what_hangs_unasked_for_is_rejected),
    };
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}

#else

int main(void)
{
    return 77;
}

#endif
