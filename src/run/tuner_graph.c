/* How the graph is fused, as the first of a plan's keys: found, looked up before all others, which follow from it, and
   applied. graph_judge.c tries candidates. */
#include "run/tuner_parts.h"

#include <string.h>

#include "base/log.h"
#include "run/fit.h"
#include "run/graph_key.h"
#include "run/tuner.h"

tuff_status tuff__graph_add(tuner *self)
{
    const tune_key *key = &self->plan->graph_key;
    if (key->family[0] == '\0' || self->tasks_only)
        return TUFF_OK;
    if (!GROW(self->subjects, self->subject_count, self->subject_capacity))
        return TUFF_E_OOM_HOST;
    subject *of = &self->subjects[self->subject_count++];
    *of = (subject){.of = self, .key = *key, .hash = tuff__key_hash(key), .task = WHOLE_GRAPH, .tier = TIER_DEFAULT};
    of->calls = 1;
    of->chosen = self->plan->passes.by;
    tuff__key_text(key, of->text);
    tuff__generator_of(key->family, of->generator);
    return TUFF_OK;
}

subject *tuff__graph_subject(const tuner *self)
{
    return self->subject_count > 0 && self->subjects[0].task == WHOLE_GRAPH ? self->subjects : NULL;
}

bool tuff__graph_is_left(const subject *of)
{
    const tuner *self = of->of;
    return of->task == WHOLE_GRAPH && self->manifest != NULL &&
           tuff__store_pin(self->manifest, tuff__hash_text(self->environment_text), of->hash) == NULL;
}

bool tuff__graph_reads(const choice *what)
{
    for (int i = 0; i < TUNABLE_COUNT; ++i)
        if (tuff__choice_has(what, (tunable)i) && strcmp(tuff__tunable_info((tunable)i)->kernel, FUSION_FAMILY) != 0) {
            (void)FAIL(TUFF_E_UNSUPPORTED, "%s.%s says nothing of how a graph is fused",
                       tuff__tunable_info((tunable)i)->kernel, tuff__tunable_info((tunable)i)->name);
            return false;
        }
    return true;
}

bool tuff__graph_takes(const tuff_plan *plan, const choice *what)
{
    for (int i = 0; i < TUNABLE_COUNT; ++i)
        if (tuff__choice_has(what, (tunable)i) && !tuff__choice_has(&plan->passes.found, (tunable)i))
            return false;
    return true;
}

void tuff__graph_drop(tuner *self)
{
    const subject *of = tuff__graph_subject(self);
    if (of == NULL || of->wants_measuring || of->tier <= TIER_NEAREST || self->source == NULL)
        return;
    self->stats.hits[of->tier]--;
    if (of->miss >= 0)
        self->stats.misses[of->miss]--;
    self->stats.keys--;
    self->plan->graph_key.family[0] = '\0';
    memmove(self->subjects, self->subjects + 1, (size_t)--self->subject_count * sizeof *self->subjects);
    for (int i = 0; i < self->plan->fusion.task_count; ++i)
        self->subject_of[i] -= self->subject_of[i] > 0;
}

/* Whether its share of the budget is enough for compilers to make all kernels of the graph, as a rule. */
static bool has_time(const tuner *self)
{
    const uint64_t a_key = UINT64_C(100000000);
    return tuff__tune_options(self->options)->mode >= TUFF_TUNE_NORMAL &&
           self->budget / GRAPH_SHARE >= (uint64_t)self->subject_count * a_key;
}

void tuff__graph_settle(subject *of)
{
    const tuner *self = of->of;
    if (self->source == NULL)
        of->chosen = self->plan->passes.by;
    of->wants_measuring = of->wants_measuring && self->source != NULL && has_time(self);
}

/* Fuses the plan as was chosen; as usual where that cannot be. */
static tuff_status fuse_by(tuner *self, const choice *what)
{
    if (self->source == NULL || tuff__choice_equal(what, &self->plan->passes.by))
        return TUFF_OK;
    self->plan->passes.by = *what;
    const tuff_status status = tuff__fit(self->plan, self->source, self->options);
    if (status == TUFF_OK || status == TUFF_E_OOM_HOST || status == TUFF_E_DEVICE_LOST || self->manifest != NULL)
        return status;
    tuff__log(TUFF_LOG_WARNING, "tune: the graph is fused as usual, not by what was found: %s", tuff_error());
    self->plan->passes.by = (choice){.set = {0}};
    const tuff_status usual = tuff__fit(self->plan, self->source, self->options);
    self->source = NULL;
    return usual;
}

tuff_status tuff__graph_look_up(tuner *self)
{
    choice what = self->plan->passes.by;
    TRY(tuff__graph_add(self));
    if (self->subject_count > 0)
        self->subjects[0].was_told = true; /* once is enough: all keys are asked for behind this */
    tuff_status status = self->subject_count > 0 ? tuff__tuner_ask(self, self->subjects) : TUFF_OK;
    if (self->subject_count > 0)
        what = self->subjects[0].chosen;
    tuff__tuner_forget(self);
    return status == TUFF_OK ? fuse_by(self, &what) : status;
}

static tuff_status find_again(tuner *self)
{
    tuff__tuner_forget(self);
    TRY(tuff__tuner_find(self));
    return tuff__tuner_ask_all(self);
}

/* It was looked up before it was measured: that counts. */
static void keep_count(tuner *self, const subject *before, const subject *now)
{
    self->stats.hits[now->tier]--;
    self->stats.hits[before->tier]++;
    if (now->miss >= 0)
        self->stats.misses[now->miss]--;
    if (before->miss >= 0)
        self->stats.misses[before->miss]++;
}

tuff_status tuff__tuner_refit(tuner *self)
{
    const subject *of = tuff__graph_subject(self);
    if (of == NULL || self->source == NULL || tuff__choice_equal(&of->chosen, &self->plan->passes.by))
        return TUFF_OK;
    subject *before = tuff__memdup(of, sizeof *of);
    if (before == NULL)
        return TUFF_E_OOM_HOST;
    tuff_status status = fuse_by(self, &before->chosen);
    if (status == TUFF_OK)
        status = find_again(self);
    subject *now = status == TUFF_OK ? tuff__graph_subject(self) : NULL;
    if (now != NULL && self->source != NULL) {
        now->chosen = self->plan->passes.by; /* an unsettled race chooses the usual, whatever another memory says */
        now->was_measured = before->was_measured;
        now->wants_measuring = false;
        if (before->was_measured)
            keep_count(self, before, now);
    }
    tuff__free(before);
    return status;
}

tuff_status tuff__graph_give_up(tuner *self, tuff_status why, bool *done)
{
    tuff_plan *plan = self->plan;
    subject *of = tuff__graph_subject(self);
    *done = of != NULL && self->source != NULL && self->manifest == NULL && tuff__choice_count(&plan->passes.by) > 0;
    if (!*done)
        return TUFF_OK;
    tuff__log(TUFF_LOG_WARNING, "tune: the graph is fused as usual, not by what was found: %s", tuff_error());
    if (!of->is_pinned)
        tuff__tuner_reject(of, &plan->passes.by, why == TUFF_E_LIMIT ? VERDICT_LIMITS : VERDICT_COMPILE);
    tuff__unrecord(plan);
    plan->passes.by = (choice){.set = {0}};
    TRY(tuff__fit(plan, self->source, self->options));
    self->source = NULL; /* that is the last word */
    return find_again(self);
}
