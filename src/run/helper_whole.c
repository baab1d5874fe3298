/* All of a graph measured in helpers, for a compilation that waits (TUFF_ISOLATE_ON). A helper finds the keys, looks
   them up and measures as the compilation itself would; what it chose is taken over. */
#include "run/helper.h"

#include <string.h>

#include "base/log.h"
#include "run/helper_parts.h"

/* What a helper chose for a key. */
typedef struct finding {
    hash128 key;
    bool was_measured;
    tune_tier tier;
    choice chosen;
} finding;

typedef struct report {
    tuff_status status;
    char error[TUFF_ERROR_SIZE];
    bool lost;
    tuff_tune_stats stats;
    finding *all; /* owned */
    int count;
} report;

static tuff_status take_finding(byte_reader *from, finding *out)
{
    char candidate[4096];
    out->key.low = tuff__take_u64(from);
    out->key.high = tuff__take_u64(from);
    out->was_measured = tuff__take_bool(from);
    out->tier = (tune_tier)tuff__take_below(from, TIER_DEFAULT + 1);
    tuff__take_text(from, candidate, sizeof candidate);
    return tuff__choice_parse(candidate, &out->chosen);
}

static tuff_status take_report(background *self, byte_reader *from, report *out)
{
    enum { LEAST = 8 + 8 + 1 + 4 };
    out->status = (tuff_status)tuff__take_u32(from);
    tuff__take_text(from, out->error, sizeof out->error);
    out->lost = tuff__take_bool(from);
    tuff__helper_hear_stats(self, from, &out->stats);
    out->count = tuff__take_count(from, LEAST);
    out->all = tuff__calloc((size_t)out->count + 1, sizeof *out->all);
    if (out->all == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < out->count; ++i)
        TRY(take_finding(from, &out->all[i]));
    return tuff__reader_status(from, "what the helper found");
}

static tuff_status ask_to_measure(background *self, uint64_t budget, report *out)
{
    byte_reader from;
    text body = {0};
    tuff__put_u64(&body, budget);
    const tuff_status status = tuff__wire_send(self->helper->process.fd, WIRE_MEASURE_ALL, &body);
    tuff__text_free(&body);
    TRY(status);
    TRY(tuff__helper_expect(self, WIRE_MEASURED_ALL, &from));
    return take_report(self, &from, out);
}

/* NULL where the helper does not know the key. */
static const finding *choose(const report *from, subject *of)
{
    for (int i = 0; i < from->count; ++i) {
        const finding *found = &from->all[i];
        if (!tuff__is_same_hash(found->key, of->hash))
            continue;
        of->chosen = found->chosen;
        of->tier = found->tier;
        of->was_measured = found->was_measured;
        of->wants_measuring = false;
        return found;
    }
    return NULL;
}

/* The other keys follow from how the graph is fused. */
static tuff_status take_over(tuner *of, const report *from)
{
    bool is_complete = true;
    TRY(tuff__tuner_look_again(of));
    subject *graph = tuff__graph_subject(of);
    if (graph != NULL)
        (void)choose(from, graph);
    of->refitted = tuff__tuner_refit(of);
    for (int i = 0; i < of->subject_count && of->refitted == TUFF_OK; ++i)
        if (of->subjects[i].task != WHOLE_GRAPH)
            is_complete &= choose(from, &of->subjects[i]) != NULL;
    if (is_complete) {
        memcpy(of->stats.hits, from->stats.hits, sizeof of->stats.hits);
        memcpy(of->stats.misses, from->stats.misses, sizeof of->stats.misses);
    }
    return TUFF_OK;
}

/* What helpers remembered before they were ended. */
static tuff_status take_remembered(tuner *of)
{
    TRY(tuff__tuner_look_again(of));
    of->refitted = tuff__tuner_refit(of);
    return TUFF_OK;
}

/* done: there is a report, and it was taken over. */
static tuff_status measure_once(background *self, uint64_t budget, bool *done)
{
    report found = {.all = NULL};
    tuff_status status = ask_to_measure(self, budget, &found);
    *done = status == TUFF_OK && !found.lost;
    if (*done) {
        status = take_over(self->tuner, &found);
        if (found.status != TUFF_OK)
            tuff__log(TUFF_LOG_WARNING, "tune: measuring ended: %s", found.error);
    } else if (status == TUFF_OK) {
        status = tuff__helper_replace(self);
    } else if (status != TUFF_E_OOM_HOST) {
        status = tuff__helper_bury(self, "the graph", status);
        if (status == TUFF_OK)
            status = tuff__helper_start_again(self);
    }
    tuff__free(found.all);
    return status;
}

static tuff_status measure(background *self)
{
    tuner *of = self->tuner;
    bool done = false;
    TRY(tuff__helper_start(self));
    while (self->helper != NULL && !done && !of->stopped) {
        const uint64_t spent = tuff__nanoseconds() - of->begin;
        if (spent >= of->budget)
            break;
        TRY(measure_once(self, of->budget - spent, &done));
    }
    return done || self->starts == 0 ? TUFF_OK : take_remembered(of);
}

tuff_status tuff__helper_measure_whole(tuner *of)
{
    background *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    if (!tuff__background_prepare(self)) {
        tuff__free(self);
        return FAIL(TUFF_E_OOM_HOST, "compile: no memory for a lock");
    }
    self->plan = of->plan;
    self->options = *of->options;
    self->tuner = of;
    self->whole = of->source != NULL ? of->source : of->plan->graph;
    self->silicon.fd = self->wire = -1;
    const tuff_status status = measure(self);
    tuff__helper_end(self);
    tuff__background_dismantle(self);
    tuff__free(self);
    return status;
}
