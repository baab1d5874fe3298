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
        if (tuff__choice_has(what, (tunable)i) && strcmp(tuff__tunable_info((tunable)i)->kernel, FUSION_FAMILY) != 0)
            return false;
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
    return self->options->tune >= TUFF_TUNE_NORMAL &&
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
    tuff_status status = self->subject_count > 0 ? tuff__tuner_ask(self, self->subjects) : TUFF_OK;
    if (self->subject_count > 0)
        what = self->subjects[0].chosen;
    tuff__tuner_forget(self);
    return status == TUFF_OK ? fuse_by(self, &what) : status;
}

tuff_status tuff__tuner_refit(tuner *self)
{
    const subject *of = tuff__graph_subject(self);
    if (of == NULL || self->source == NULL || tuff__choice_equal(&of->chosen, &self->plan->passes.by))
        return TUFF_OK;
    const bool was_measured = of->was_measured;
    const choice what = of->chosen;
    tuff__tuner_forget(self);
    TRY(fuse_by(self, &what));
    TRY(tuff__tuner_find(self));
    TRY(tuff__tuner_ask_all(self));
    subject *now = tuff__graph_subject(self);
    if (now != NULL && self->source != NULL) {
        now->chosen = self->plan->passes.by; /* an unsettled race chooses the usual, whatever another memory says */
        now->was_measured = was_measured;
        now->wants_measuring = false;
    }
    return TUFF_OK;
}
