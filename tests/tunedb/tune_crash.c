/* Tuning processes that die: of candidates that kill them, each of which may do so once; and at any moment, when only
   the candidate in flight may be lost. Combines search, journal and store as a tuner does, on a simulated device. */
#define _DEFAULT_SOURCE 1
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/search/fault_evaluator.h"
#include "journal_fixture.h"
#include "scratch_folder.h"
#include "tunedb/store.h"

static const char environment[] = "opencl; made-up device";
enum { KEYS = 5, MAX_KILLERS = 256 };

/* Shared memory that outlives the children. */
typedef struct board {
    _Atomic int wins, bads; /* written, that is, the call had returned */
    _Atomic int crashes, killer_count;
    _Atomic int kill_in;           /* steps until a process kills itself; 0: never */
    uint64_t killers[MAX_KILLERS]; /* hashes of key and candidate, in the order in which they killed */
    _Atomic bool done;
} board;

typedef struct tuning_session {
    board *on;
    tune_store *store;
    journal *own;
    fault_device device;
    evaluator inner;
    char op[32];
} tuning_session;

static tune_record record_of(record_kind kind, const char *op, const char *candidate)
{
    tune_record out = tuff__record_make(kind, environment, op, candidate);
    out.kernel_hash = "1";
    return out;
}

static void print_choice(const tune_config *config, char out[1024])
{
    text printed = {0};
    tuff__config_format(config, &printed);
    check(printed.length < 1024);
    memcpy(out, tuff__text_get(&printed), printed.length + 1);
    tuff__text_free(&printed);
}

static void add_bad(tuning_session *self, const char *op, const char *candidate, const char *reason, const char *phase)
{
    tune_record bad = record_of(RECORD_REJECTION, op, candidate);
    bad.reason = reason;
    bad.phase = phase;
    check(tuff__store_add(self->store, &bad) == TUFF_OK);
    self->on->bads++;
}

static tuff_status note_crash(const journal_crash *one, void *state)
{
    tuning_session *self = state;
    check(strcmp(one->environment, environment) == 0);
    self->on->crashes++;
    add_bad(self, one->op, one->candidate, one->rebooted ? "reboot" : "crash", tuff__journal_phase_text(one->phase));
    return TUFF_OK;
}

/* A default is never rejected. */
static tune_evaluation guarded_lower(void *state, const tune_config *config, candidate_info *out)
{
    tuning_session *self = state;
    char candidate[1024];
    print_choice(config, candidate);
    const hash128 where = tuff__hash_text(environment), key = tuff__hash_text(self->op);
    if (candidate[0] && tuff__store_rejection(self->store, where, key, candidate, NULL)) {
        (void)tuff__fail(TUFF_E_USAGE, "it is known to be bad");
        return EVALUATION_REJECTED;
    }
    return self->inner.lower(&self->device, config, out);
}

static void enter(tuning_session *self, journal_phase phase, const search_candidate *one)
{
    char candidate[1024];
    print_choice(&one->config, candidate);
    check(tuff__journal_enter(self->own, phase, environment, self->op, candidate, false) == TUFF_OK);
    if (self->on->kill_in && --self->on->kill_in == 0)
        (void)raise(SIGKILL);
}

/* Some candidates kill the process in the driver's compiler. */
static tune_evaluation guarded_compile(void *state, const search_candidate *candidate)
{
    tuning_session *self = state;
    enter(self, JOURNAL_COMPILE, candidate);
    if (fault_of(&self->device, &candidate->config) == FAULT_CRASHES) {
        const uint64_t name = tuff__config_hash(&candidate->config) ^ tuff__hash_text(self->op).low;
        check(self->on->killer_count < MAX_KILLERS);
        self->on->killers[self->on->killer_count++] = name;
        (void)raise(SIGKILL);
    }
    const tune_evaluation found = self->inner.compile(&self->device, candidate);
    tuff__journal_leave(self->own);
    return found;
}

static tune_evaluation guarded_sample(void *state, const search_candidate *candidate, int count, uint64_t limit,
                                      uint64_t *nanoseconds)
{
    tuning_session *self = state;
    enter(self, JOURNAL_BENCH, candidate);
    const tune_evaluation found = self->inner.sample(&self->device, candidate, count, limit, nanoseconds);
    tuff__journal_leave(self->own);
    return found;
}

static tune_evaluation guarded_verify(void *state, const search_candidate *candidate, bool thorough)
{
    tuning_session *self = state;
    enter(self, JOURNAL_VERIFY, candidate);
    const tune_evaluation found = self->inner.verify(&self->device, candidate, thorough);
    tuff__journal_leave(self->own);
    return found;
}

static void guarded_release(void *state, const search_candidate *candidate)
{
    tuning_session *self = state;
    self->inner.release(&self->device, candidate);
}

static void reject(void *user, const tune_config *config, tune_evaluation why)
{
    tuning_session *self = user;
    char candidate[1024];
    print_choice(config, candidate);
    add_bad(self, self->op, candidate, tuff__evaluation_text(why), "verify");
}

static void tune_key(tuning_session *self, int key, double killers)
{
    const evaluator by = {.state = self,
                          .lower = guarded_lower,
                          .compile = guarded_compile,
                          .sample = guarded_sample,
                          .verify = guarded_verify,
                          .release = guarded_release};
    search *searching;
    search_result found;
    self->device = (fault_device){.seed = (uint64_t)key + 1, .scatter = 0.01};
    self->device.share[FAULT_CRASHES] = killers;
    self->device.share[FAULT_WRONG] = 0.05;
    self->inner = fault_begin(&self->device);
    const search_settings settings = {.seed = 1, .rejected = reject, .user = self, .patience = killers > 0 ? 60 : 16};
    check(tuff__search_begin(&by, &settings, &searching) == TUFF_OK);
    check(tuff__search_step(searching, 1 << 20) == TUFF_OK);
    check(tuff__search_finish(searching, &found) == TUFF_OK);
    tuff__search_end(searching);
    check(found.is_final && self->device.broken == 0 && fault_of(&self->device, &found.winner) == SOUND);
    char candidate[1024];
    print_choice(&found.winner, candidate);
    tune_record win = record_of(RECORD_WIN, self->op, candidate);
    memcpy(win.nanoseconds, found.nanoseconds, sizeof win.nanoseconds);
    win.samples = (uint64_t)found.samples;
    win.default_nanoseconds = found.default_nanoseconds;
    check(tuff__store_add(self->store, &win) == TUFF_OK);
    self->on->wins++;
}

/* A process that tunes all keys that are not tuned yet. */
static void tune(board *on, int keys, double killers)
{
    tuning_session self = {.on = on};
    journal_counts found;
    check(tuff__store_open(scratch_path("store.jsonl"), &self.store) == TUFF_OK);
    check(tuff__store_set_environment(self.store, environment) == TUFF_OK);
    check(tuff__journal_recover(scratch_folder(), note_crash, &self, &found) == TUFF_OK);
    check(found.damaged == 0 && found.alive == 0);
    check(tuff__journal_open(scratch_folder(), &self.own) == TUFF_OK);
    check(tuff__journal_error(self.own)[0] == 0);
    for (int key = 0; key < keys; key++) {
        (void)snprintf(self.op, sizeof self.op, "key %d", key);
        if (!tuff__store_winner(self.store, tuff__hash_text(environment), tuff__hash_text(self.op), NULL))
            tune_key(&self, key, killers);
    }
    on->done = true;
    tuff__journal_close(self.own);
    tuff__store_close(self.store);
    _exit(0);
}

static pid_t begin(board *on, int keys, double killers)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        tune(on, keys, killers);
    return child;
}

typedef struct holdings {
    int wins, bads;
    store_counts counts;
} holdings;

static holdings count_holdings(void)
{
    holdings out = {0};
    tune_store *store;
    assert_int_equal(tuff__store_open(scratch_path("store.jsonl"), &store), TUFF_OK);
    for (int at = 0;;) {
        const tune_record *one = tuff__store_next(store, &at);
        tune_config config;
        if (!one)
            break;
        if (one->kind == RECORD_WIN || one->kind == RECORD_REJECTION)
            assert_int_equal(tuff__config_parse(one->candidate, &config), TUFF_OK);
        out.wins += one->kind == RECORD_WIN;
        out.bads += one->kind == RECORD_REJECTION;
    }
    out.counts = tuff__store_count(store);
    tuff__store_close(store);
    return out;
}

/* One program in twelve kills the process that compiles it. Each start knows the killers of all earlier ones. */
static void a_killer_kills_once(void **state)
{
    (void)state;
    board *on = share_memory(sizeof(board));
    int starts = 0;
    for (; !on->done && starts < MAX_KILLERS; starts++) {
        int status;
        const pid_t child = begin(on, KEYS, 1.0 / 12);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(on->done ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                             : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    assert_true(on->done);
    const int killers = on->killer_count;
    print_message("%d candidates killed their process, %d starts\n", killers, starts);
    assert_true(killers >= KEYS);
    assert_int_equal(starts, killers + 1);
    assert_int_equal(on->crashes, killers);
    for (int i = 0; i < killers; i++)
        for (int j = 0; j < i; j++)
            assert_true(on->killers[i] != on->killers[j]);
    assert_int_equal(count_holdings().wins, KEYS);
    assert_int_equal(count_holdings().counts.damaged, 0);
    assert_int_equal(count_files(), 0);
    unshare_memory(on, sizeof *on);
}

/* Killed 200 times, from outside at any moment or within a step: written records remain, the next start works, and
   blames one candidate at most. */
static void no_kill_loses_a_record(void **state)
{
    (void)state;
    enum { KILLS = 200 };
    board *on = share_memory(sizeof(board));
    rng from = {3};
    int tuned = 0;
    for (int i = 0; i < KILLS; i++) {
        const int crashes = on->crashes;
        on->kill_in = i % 2 ? 1 + tuff__rng_below(&from, 1000) : 0;
        const pid_t child = begin(on, 1 << 20, 0);
        if (i % 2 == 0) {
            (void)usleep((useconds_t)tuff__rng_below(&from, 8000));
            assert_int_equal(kill(child, SIGKILL), 0);
        }
        killed(child);
        const holdings now = count_holdings();
        assert_in_range(now.wins, on->wins, on->wins + 1);
        /* A default that was blamed is tried again, and may be blamed again. */
        const int bads = now.bads + (int)now.counts.superseded;
        assert_in_range(bads, on->bads, on->bads + 1);
        assert_true(now.counts.damaged <= (uint64_t)i + 1);
        assert_true(on->crashes <= crashes + 1);
        /* One record more may have been written when the kill came. */
        on->wins = tuned = now.wins;
        on->bads = bads;
    }
    print_message("%d kills: %d keys tuned, %d candidates blamed, %d lines torn\n", KILLS, tuned, (int)on->crashes,
                  (int)count_holdings().counts.damaged);
    assert_true(tuned > 50);
    assert_in_range(on->crashes, KILLS / 2 - 1, KILLS);
    unshare_memory(on, sizeof *on);
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_killer_kills_once),
        SCRATCH_TEST(no_kill_loses_a_record),
    };
    /* Ends a hang. */
    (void)alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
