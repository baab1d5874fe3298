/* Candidates that are compiled ahead, by threads that a GPU's tuner would have and that tests give to any device: what
   they made is found and compiled no second time, what a compiler refuses is not asked of it again, and whoever ends, a
   search, a compiler or the process, leaves nothing behind but strikes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "run/ahead.h"
#include "run/strikes.h"
#include "small_plans.h"
#include "tune_fixture.h"

enum { THREADS = 3, ROWS = 24, INNER = 32, COLUMNS = 48 };

static const tuff_compile_options off = {.tune = TUFF_TUNE_OFF},
                                  quick = {.tune = TUFF_TUNE_QUICK, .tune_milliseconds = 6000};

static void use_folder(const char *name)
{
    static char folder[600];
    (void)snprintf(folder, sizeof folder, "%s/%s", cache_folder(), name);
    assert_int_equal(setenv("TUFF_CACHE_DIR", folder, 1), 0);
}

typedef struct answer {
    float y[ROWS * COLUMNS];
} answer;

static tuff_tune_stats compile_and_run(tuff_device *device, const tuff_compile_options *options, answer *out)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_output(graph, "y", tuff_softmax(tuff_matmul(x, w), -1));
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tuning(plan, &stats), TUFF_OK);
    write_steps(plan, "x", ROWS * INNER, 13, 8);
    write_steps(plan, "w", INNER * COLUMNS, 11, 16);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", out->y, sizeof out->y), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

static void expect_close(const answer *a, const answer *b)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(fabsf(a->y[i] - b->y[i]) <= 1e-5f);
}

/* Tasks of many kinds: products, what is behind and before them, rows, columns, updates in place, sorted sums. */
static tuff_plan *compile_many(tuff_graph *graph, tuff_array *weights)
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
    tuff_plan *plan = tuff_compile(graph, &off);
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

static void begin_tuner(tuner *self, tuff_plan *plan)
{
    *self = (tuner){.plan = plan, .options = &quick, .device = plan->device, .log = -1, .limit = UINT64_MAX};
    self->begin = tuff__nanoseconds();
    assert_int_equal(tuff__tuner_look_up(self), TUFF_OK);
    assert_int_equal(tuff__tuner_open(self), TUFF_OK);
}

static void end_tuner(tuner *self)
{
    for (int i = 0; i < self->subject_count; i++)
        tuff__judge_clear(&self->subjects[i]);
    tuff__tuner_close(self);
    assert_null(self->ahead);
    tuff__tuner_end(self);
}

static uint64_t count_compiled(const tuner *of)
{
    tuff_device_counters counters;
    assert_int_equal(tuff_device_count_work(tuff__tuner_bench(of), &counters), TUFF_OK);
    return counters.programs_compiled + counters.programs_from_disk;
}

/* A few choices that can be lowered, none of the default's kernels; how many there are. */
static int draw(subject *of, const judge *by, uint64_t usual, contender *out, int most)
{
    tune_space space = {0};
    lowering made;
    dice from = {of->hash.low};
    int count = 0;
    for (int i = 0; i < 40 && count < most; i++) {
        choice what = {.set = {0}};
        if (i > 0)
            tuff__space_random(&space, &from, &what);
        const bool can_be = by->lower(of, &what, &made) == VERDICT_GOOD;
        tuff__space_take(&space, &made.consulted);
        bool is_new = can_be && made.program != usual;
        for (int k = 0; k < count; k++)
            is_new = is_new && out[k].program != made.program;
        if (is_new)
            out[count] = (contender){.what = what, .program = made.program, .slot = 1 + count};
        count += is_new;
    }
    return count;
}

/* The default, then a few others of which each was compiled before its turn came; how many. */
static int find_compiled(subject *of)
{
    tuner *self = of->of;
    const judge by = tuff__judge_of(of);
    lowering made;
    contender usual = {.slot = 0}, others[THREADS];
    assert_int_equal(by.lower(of, &usual.what, &made), VERDICT_GOOD);
    assert_int_equal(by.compile(of, &usual), VERDICT_GOOD);
    const int count = draw(of, &by, made.program, others, THREADS);
    for (int i = 0; i < count; i++)
        by.expect(of, &others[i]);
    tuff__sleep(30000000);
    uint64_t took[THREADS];
    of->compile_limit = tuff__compile_patience;
    for (int i = 0; i < count; i++)
        (void)tuff__ahead_await(of, others[i].slot, NULL, &took[i]);
    const uint64_t before = count_compiled(self);
    int found = 0;
    for (int i = 0; i < count; i++) {
        assert_true(took[i] > 0);
        const verdict said = by.compile(of, &others[i]);
        found += said == VERDICT_GOOD;
        if (said != VERDICT_GOOD)
            print_message("    %s: %s\n", of->text, tuff_error());
        if (said == VERDICT_GOOD)
            by.release(of, &others[i]);
    }
    if (count_compiled(self) != before)
        fail_msg("%s: compiled twice", of->text);
    by.release(of, &usual);
    return found;
}

static void look_for_programs(tuff_device *device)
{
    static const float zeros[INNER * COLUMNS];
    tuff_array *weights = make_array(device, TUFF_F32, INNER * COLUMNS, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    tuner self;
    int found = 0;
    begin_tuner(&self, plan);
    assert_int_equal(tuff__ahead_count(self.ahead), THREADS);
    for (int i = 0; i < self.subject_count; i++)
        found += find_compiled(&self.subjects[i]);
    print_message("    %d keys, %d candidates were there before their turn\n", self.subject_count, found);
    assert_true(self.subject_count > 5 && found > self.subject_count);
    end_tuner(&self);
    assert_true(self.stats.compiled_ahead >= (uint64_t)found && self.stats.ahead_nanoseconds > 0);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void every_program_is_found(void **state)
{
    (void)state;
    use_folder("found");
    tuff__ahead_threads = THREADS;
    for_each_api(look_for_programs);
}

/* What is expected and never asked for is waited for at most while it is in the compiler. */
static void drop_at_once(tuff_device *device)
{
    static const float zeros[INNER * COLUMNS];
    tuff_array *weights = make_array(device, TUFF_F32, INNER * COLUMNS, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    for (int round = 0; round < 3; round++) {
        tuner self;
        contender others[SEARCH_AHEAD];
        begin_tuner(&self, plan);
        for (int i = 0; i < self.subject_count; i++) {
            subject *of = &self.subjects[i];
            const judge by = tuff__judge_of(of);
            const int count = draw(of, &by, 0, others, SEARCH_AHEAD);
            for (int k = 0; k < count; k++)
                by.expect(of, &others[k]);
            if (round == 1)
                tuff__sleep(2000000);
            for (int k = 0; k < count && round < 2; k++)
                by.release(of, &others[k]);
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
    use_folder("dropped");
    tuff__ahead_threads = THREADS;
    for_each_api(drop_at_once);
}

static bool count_down(void *user, const tuff_tune_progress *now)
{
    (void)now;
    return --*(int *)user > 0;
}

static void tune_with_threads(tuff_device *device)
{
    static answer plain, tuned;
    compile_and_run(device, &off, &plain);
    for (int threads = 0; threads <= THREADS; threads += THREADS) {
        char name[64];
        (void)snprintf(name, sizeof name, "%d threads on %s", threads, tuff__device_info(device)->selector);
        use_folder(name);
        tuff__ahead_threads = threads;
        const tuff_tune_stats stats = compile_and_run(device, &quick, &tuned);
        print_message("    %d threads: %.1f s, %d compiles, %d of them ahead\n", threads,
                      (double)stats.nanoseconds * 1e-9, (int)stats.compiles, (int)stats.compiled_ahead);
        assert_true(stats.measured >= 1);
        assert_int_equal(stats.wrong + stats.races + stats.hangs + stats.crashes, 0);
        assert_true(threads == 0 ? stats.compiled_ahead == 0 : stats.compiled_ahead > 0);
        assert_true(stats.compiled_ahead < stats.compiles);
        expect_close(&plain, &tuned);
    }
    /* Stopped after so many candidates. */
    for (int most = 1; most <= 7; most += 3) {
        int left = most;
        char name[64];
        (void)snprintf(name, sizeof name, "%d candidates on %s", most, tuff__device_info(device)->selector);
        use_folder(name);
        tuff_compile_options stopping = quick;
        stopping.tune_progress = count_down;
        stopping.tune_user = &left;
        compile_and_run(device, &stopping, &tuned);
        expect_close(&plain, &tuned);
    }
}

static void winners_are_right(void **state)
{
    (void)state;
    for_each_api(tune_with_threads);
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
    for (int i = 0; i < REQUESTS; i++)
        (void)tuff__program_prepare(self->device, &self->requests[(i + own) % REQUESTS],
                                    &self->got[own][(i + own) % REQUESTS]);
    return NULL;
}

/* Threads that make the same programs at once, while this one makes them too, get the same ones. */
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
    assert_int_equal(tuff_device_count_work(device, &before), TUFF_OK);
    for (int i = 0; i + 1 < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share, &all), 0);
    const int own = atomic_fetch_add(&all.next, 1);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(tuff__program_get(device, &all.requests[i], &all.got[own][i]), TUFF_OK);
    for (int i = 0; i + 1 < SHARERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(tuff_device_count_work(device, &after), TUFF_OK);
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
    use_folder("shared");
    for_each_api(share_programs);
}

static void nothing_is_shared_by_poses(tuff_device *device)
{
    const tuff_device_info same = *tuff__device_info(device);
    tuff__device_pose(device, &same);
    share_programs(device);
}

static void poses_share_too(void **state)
{
    (void)state;
    use_folder("poses");
    for_each_api(nothing_is_shared_by_poses);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

/* Ends the process while two programs are being created. */
static cl_program CL_API_CALL create_deadly(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                            cl_int *error)
{
    static atomic_int inside;
    if (strstr(texts[0], "tuff_matmul")) {
        if (atomic_fetch_add(&inside, 1) + 1 >= 2)
            (void)raise(SIGKILL);
        tuff__sleep(100000000);
        atomic_fetch_sub(&inside, 1);
    }
    return real_creation(context, count, texts, sizes, error);
}

static void die_of_two(void)
{
    static answer out;
    tuff_device *device = open_replaceable();
    if (!device)
        _exit(77);
    replace_creation(create_deadly);
    tuff__ahead_threads = THREADS;
    compile_and_run(device, &quick, &out);
    _exit(1);
}

/* Those in flight are struck, which is one strike of the device: the next process goes on. First of all tests: what
   drivers begin does not go through a fork. */
static void all_in_flight_are_struck(void **state)
{
    (void)state;
    static answer plain, tuned;
    int status, strikes;
    use_folder("killed");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        die_of_two();
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(tuff__strikes_recover(NULL, NULL, &strikes), TUFF_OK);
    print_message("    %d strikes\n", strikes);
    assert_in_range(strikes, 2, JOURNAL_PLACES);
    tuff_device *device = open_replaceable();
    compile_and_run(device, &off, &plain);
    assert_true(compile_and_run(device, &quick, &tuned).measured >= 1);
    expect_close(&plain, &tuned);
    tuff_device_close(device);
}

/* Refuses one in two texts of products, by their hash; remembers which. */
enum { REFUSED_MOST = 256 };
static struct {
    mutex lock;
    uint64_t texts[REFUSED_MOST];
    int count, twice;
} refusals = {.lock = MUTEX_INITIALIZER};

static cl_program CL_API_CALL create_unless_refused(cl_context context, cl_uint count, const char **texts,
                                                    const size_t *sizes, cl_int *error)
{
    const uint64_t hash = tuff__hash64(texts[0], strlen(texts[0]), 0);
    if (!strstr(texts[0], "tuff_matmul") || hash % 2 == 0)
        return real_creation(context, count, texts, sizes, error);
    tuff__lock(&refusals.lock);
    for (int i = 0; i < refusals.count; i++)
        refusals.twice += refusals.texts[i] == hash;
    if (refusals.count < REFUSED_MOST)
        refusals.texts[refusals.count++] = hash;
    tuff__unlock(&refusals.lock);
    static const char nothing[] = "this is no program";
    return real_creation(context, 1, (const char *[]){nothing}, NULL, error);
}

static void what_is_refused_is_not_asked_twice(void **state)
{
    (void)state;
    static const float zeros[INNER * COLUMNS];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_folder("refused");
    tuff__ahead_threads = THREADS;
    tuff_array *weights = make_array(device, TUFF_F32, INNER * COLUMNS, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    tuner self;
    begin_tuner(&self, plan);
    replace_creation(create_unless_refused);
    int refused = 0;
    for (int i = 0; i < self.subject_count; i++) {
        subject *of = &self.subjects[i];
        const judge by = tuff__judge_of(of);
        contender others[SEARCH_AHEAD];
        const int count = strcmp(of->key.family, "matmul") == 0 ? draw(of, &by, 0, others, SEARCH_AHEAD) : 0;
        for (int k = 0; k < count; k++)
            by.expect(of, &others[k]);
        for (int k = 0; k < count; k++) {
            const verdict said = by.compile(of, &others[k]);
            assert_true(said == VERDICT_GOOD || said == VERDICT_COMPILE);
            if (said == VERDICT_COMPILE)
                assert_non_null(strstr(tuff_error(), "tuff_matmul"));
            else
                by.release(of, &others[k]);
            refused += said == VERDICT_COMPILE;
        }
    }
    restore_creation();
    end_tuner(&self);
    print_message("    %d refused\n", refused);
    assert_true(refused > 0);
    assert_int_equal(refusals.twice, 0);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

/* Nothing is measured in the process from then on. */
static void a_compiler_that_hangs_ahead_is_left(void **state)
{
    (void)state;
    static answer plain, tuned;
    char environment[ENVIRONMENT_SIZE];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_folder("hang");
    compile_and_run(device, &off, &plain);
    hang_creation(4, "tuff_matmul");
    tuff__ahead_threads = THREADS;
    const uint64_t patience = tuff__compile_patience, begin = tuff__nanoseconds();
    tuff__compile_patience = 1500000000;
    const tuff_tune_stats stats = compile_and_run(device, &quick, &tuned);
    const double seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    tuff__compile_patience = patience;
    print_message("    back after %.1f s\n", seconds);
    assert_int_equal(stats.hangs, 1);
    assert_true(seconds < 60 && count_creations() >= 4 && stats.compiled_ahead > 0);
    expect_close(&plain, &tuned);
    tune_store *store = open_device_store(device, environment);
    assert_non_null(find_store_record(store, RECORD_BAD, "hang"));
    tuff__store_close(store);
    assert_int_equal(compile_and_run(device, &quick, &tuned).measured, 0);
    let_creation_go();
    tuff_device_close(device);
}

/* Its candidate is rejected when the tuner ends, and the others that are in the compiler then are not. */
static void what_hangs_unasked_for_is_rejected(void **state)
{
    (void)state;
    static const float zeros[INNER * COLUMNS];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    use_folder("unasked");
    tuff_array *weights = make_array(device, TUFF_F32, INNER * COLUMNS, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_many(graph, weights);
    const uint64_t patience = tuff__compile_patience;
    tuner self;
    tuff__compile_patience = 1500000000;
    begin_tuner(&self, plan);
    hang_creation(1, "tuff_matmul");
    for (int i = 0; i < self.subject_count; i++) {
        subject *of = &self.subjects[i];
        const judge by = tuff__judge_of(of);
        contender others[2];
        const int count = strcmp(of->key.family, "matmul") == 0 ? draw(of, &by, 0, others, 2) : 0;
        for (int k = 1; k < count; k++)
            by.expect(of, &others[k]);
    }
    tuff__sleep(200000000);
    const uint64_t begin = tuff__nanoseconds();
    for (int i = 0; i < self.subject_count; i++)
        tuff__judge_clear(&self.subjects[i]);
    assert_true(tuff__nanoseconds() - begin < 500000000);
    tuff__ahead_close(&self);
    assert_true(self.lost && tuff__device_is_stuck(tuff__tuner_bench(&self)));
    assert_int_equal(self.stats.hangs, 1);
    assert_non_null(find_store_record(self.store, RECORD_BAD, "hang"));
    tuff__compile_patience = patience;
    end_tuner(&self);
    let_creation_go();
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        cmocka_unit_test(all_in_flight_are_struck),
        cmocka_unit_test(what_is_refused_is_not_asked_twice),
#endif
        cmocka_unit_test(programs_are_shared),
        cmocka_unit_test(poses_share_too),
        cmocka_unit_test(every_program_is_found),
        cmocka_unit_test(what_is_expected_may_not_come),
        cmocka_unit_test(winners_are_right),
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        /* These at the end: where a compiler hung, a process tunes no more. */
        cmocka_unit_test(a_compiler_that_hangs_ahead_is_left),
        cmocka_unit_test(what_hangs_unasked_for_is_rejected),
#endif
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
