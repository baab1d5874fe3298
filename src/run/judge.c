/* What a search is told about the candidates of a task, by lowering, compiling, running and timing them. */
#include <stdio.h>
#include <string.h>

#include "run/tuner_parts.h"

/* What all grounds of a graph may take of the device's memory, and at most. */
enum { SHARE_OF_MEMORY = 4 };
#define MOST_GROUND ((uint64_t)1 << 30)

static uint64_t ground_left(const tuner *of)
{
    const uint64_t share = tuff__device_info(of->device)->memory_size / SHARE_OF_MEMORY;
    const uint64_t most = share > 0 && share < MOST_GROUND ? share : MOST_GROUND;
    return most > of->ground_size ? most - of->ground_size : 0;
}

/* Whether what did not end in time ends at all: nothing may be measured beside it. */
static bool comes_back(const tuner *of)
{
    enum { MOST_WAITS = 3 };
    for (int i = 0; i < MOST_WAITS; ++i)
        if (tuff__wait(of->device) == TUFF_OK)
            return true;
    return false;
}

/* What a failure says about a candidate. */
static verdict verdict_of(tuner *of, tuff_status status)
{
    switch (status) {
    case TUFF_OK:
        return VERDICT_GOOD;
    case TUFF_E_COMPILE:
        return VERDICT_COMPILE;
    case TUFF_E_LIMIT:
    case TUFF_E_OOM_DEVICE:
        return VERDICT_LIMITS;
    case TUFF_E_UNSUPPORTED:
        return VERDICT_INVALID;
    case TUFF_E_DEVICE_LOST:
        of->lost = true;
        return VERDICT_LOST;
    case TUFF_E_TIMEOUT:
        of->lost = !comes_back(of);
        return VERDICT_HANG;
    default:
        return VERDICT_FAILED;
    }
}

static verdict lower_candidate(void *state, const choice *what, lowering *out)
{
    subject *of = state;
    *out = (lowering){.group_items = 1};
    const tuff_status status = tuff__trial_foresee(of->of->device, &of->of->plan->fusion, of->of->options, of->task,
                                                   what, &out->consulted, &out->program, &out->group_items);
    if (status == TUFF_E_LIMIT)
        return VERDICT_INVALID;
    if (status != TUFF_OK)
        return verdict_of(of->of, status);
    text name = {0};
    tuff__choice_format(what, &name);
    const hash128 environment = tuff__hash_text(of->of->environment_text);
    const tune_record *bad = tuff__store_bad(of->of->store, environment, of->hash, tuff__text_get(&name));
    tuff__text_free(&name);
    return bad != NULL && strcmp(bad->generator, of->generator) == 0 ? VERDICT_BARRED : VERDICT_GOOD;
}

/* Tells the journal what comes, so that a process that starts after a crash knows whom to blame. */
static tuff_status announce(const subject *of, const contender *who, journal_phase phase, bool durable)
{
    text name = {0};
    tuff__choice_format(&who->what, &name);
    tuff_status status = tuff__text_status(&name);
    if (status == TUFF_OK)
        status = tuff__journal_enter(of->of->journal, phase, of->of->environment_text, of->text, tuff__text_get(&name),
                                     durable);
    tuff__text_free(&name);
    return status == TUFF_E_IO ? TUFF_OK : status; /* a machine that goes down is not worth refusing to tune */
}

static verdict compile_candidate(void *state, const contender *who)
{
    subject *of = state;
    tuner *self = of->of;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = announce(of, who, JOURNAL_COMPILE, true);
    of->has_run[who->slot] = false;
    if (status == TUFF_OK && of->ground == NULL)
        status = tuff__ground_create(self->device, &self->plan->fusion, of->task, ground_left(self), &of->ground);
    const uint64_t before = of->ground == NULL ? 0 : tuff__ground_size(of->ground);
    if (status == TUFF_OK)
        status = tuff__trial_create(self->device, &self->plan->fusion, self->options, of->task, &who->what, of->ground,
                                    &of->slots[who->slot]);
    tuff__journal_leave(self->journal);
    self->stats.compiles++;
    self->stats.compile_nanoseconds += tuff__nanoseconds() - begin;
    if (of->ground != NULL)
        self->ground_size += tuff__ground_size(of->ground) - before;
    return verdict_of(self, status);
}

/* The first launch of all is the one that takes machines down. */
static tuff_status announce_run(subject *of, const contender *who, journal_phase phase)
{
    const bool first = !of->has_run[who->slot];
    of->has_run[who->slot] = true;
    return announce(of, who, first ? JOURNAL_FIRST_RUN : phase, first);
}

static verdict sample_candidate(void *state, const contender *who, int count, uint64_t limit, uint64_t *nanoseconds)
{
    subject *of = state;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = announce_run(of, who, JOURNAL_BENCH);
    if (status == TUFF_OK)
        status = tuff__trial_time(of->slots[who->slot], count, limit, nanoseconds);
    tuff__journal_leave(of->of->journal);
    of->of->stats.launches += (uint64_t)count;
    of->of->stats.sample_nanoseconds += tuff__nanoseconds() - begin;
    return verdict_of(of->of, status);
}

/* One run over poisoned results. */
static tuff_status run_clean(subject *of, const contender *who)
{
    TRY(tuff__ground_poison(of->ground));
    of->of->stats.launches++;
    return tuff__trial_run(of->slots[who->slot]);
}

static tuff_status check(subject *of, const contender *who, char *wrong, size_t size, bool *differs)
{
    *differs = false;
    TRY(run_clean(of, who));
    if (tuff__choice_count(&who->what) == 0)
        TRY(tuff__ground_keep(of->ground));
    TRY(tuff__ground_compare(of->ground, false, wrong, size));
    if (wrong[0] != '\0')
        return TUFF_OK;
    TRY(run_clean(of, who));
    TRY(tuff__ground_compare(of->ground, true, wrong, size));
    *differs = wrong[0] != '\0';
    return TUFF_OK;
}

static verdict verify_candidate(void *state, const contender *who, bool thorough)
{
    subject *of = state;
    char wrong[128] = "";
    bool differs = false;
    (void)thorough;
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = announce_run(of, who, JOURNAL_VERIFY);
    if (status == TUFF_OK)
        status = check(of, who, wrong, sizeof wrong, &differs);
    tuff__journal_leave(of->of->journal);
    of->of->stats.verify_nanoseconds += tuff__nanoseconds() - begin;
    if (status != TUFF_OK)
        return verdict_of(of->of, status);
    if (wrong[0] == '\0')
        return VERDICT_GOOD;
    (void)FAIL(TUFF_E_NUMERIC, "tune: %s", wrong);
    return differs ? VERDICT_RACE : VERDICT_WRONG;
}

static void release_candidate(void *state, const contender *who)
{
    subject *of = state;
    tuff__trial_destroy(of->slots[who->slot]);
    of->slots[who->slot] = NULL;
}

static bool is_over(void *state)
{
    const tuner *of = ((const subject *)state)->of;
    return of->stopped || of->lost || tuff__nanoseconds() >= of->limit;
}

judge tuff__judge_of(subject *of)
{
    return (judge){.state = of,
                   .lower = lower_candidate,
                   .compile = compile_candidate,
                   .sample = sample_candidate,
                   .verify = verify_candidate,
                   .release = release_candidate,
                   .is_over = is_over};
}

void tuff__judge_clear(subject *of)
{
    for (int i = 0; i < SEARCH_SLOTS; ++i)
        tuff__trial_destroy(of->slots[i]);
    memset(of->slots, 0, sizeof of->slots);
    if (of->ground != NULL)
        of->of->ground_size -= tuff__ground_size(of->ground);
    tuff__ground_destroy(of->ground);
    of->ground = NULL;
}
