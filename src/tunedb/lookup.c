/* Lookup, tier by tier. Winners of this key in this environment are found by hash. The tiers below need a pass over all
   records, which is made only if the first tiers find nothing. The reason for each tier's result is recorded too; `tuff
   cache explain` prints it. */
#include "tunedb/lookup.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NEIGHBOURS = 16, WHY_SIZE = 160 };

/* An environment found in the stores, compared with the request's. */
typedef struct neighbour {
    hash128 hash;
    likeness like;
    double unit_distance; /* absolute log2 of the ratio of compute units */
} neighbour;

typedef struct seed {
    const tune_record *record;
    double rank; /* lower is better */
} seed;

typedef struct lookup {
    const tune_lookup_request *request;
    tune_lookup_result *out;
    hash128 key, environment;
    neighbour neighbours[MAX_NEIGHBOURS];
    int neighbour_count;
    const tune_record *other_driver, *nearest;
    double distance; /* of nearest */
    seed seeds[TUNE_SEEDS];
    int seed_count;
} lookup;

const char *tuff__tier_text(tune_tier tier)
{
    static const char *const texts[TIER_COUNT] = {"override", "same",      "other driver", "nearest",
                                                  "seed",     "portfolio", "default"};
    return texts[tier];
}

#define SET_REASON(self, tier, ...) (void)snprintf((self)->out->why[tier], TUNE_REASON_SIZE, __VA_ARGS__)

static bool is_current(const lookup *self, const tune_record *record)
{
    return (!self->request->kernel_hash || strcmp(record->kernel_hash, self->request->kernel_hash) == 0) &&
           !tuff__record_is_seed(record);
}

/* Whether a candidate was not rejected for a key in an environment; if it was, `why` gets the reason. */
static bool is_permitted(const lookup *self, hash128 environment, hash128 key, const char *candidate, char *why)
{
    const tune_lookup_request *request = self->request;
    const tune_record *rejection = tuff__stores_rejection(request->stores, request->store_count, environment, key,
                                                          candidate, request->kernel_hash);
    if (rejection)
        (void)snprintf(why, WHY_SIZE, "%.40s in %.40s", rejection->reason,
                       rejection->phase[0] ? rejection->phase : "use");
    return !rejection;
}

/* Whether the candidate may run here; if not, `why` gets the reason. */
static bool may_run(const lookup *self, const char *candidate, char *why)
{
    if (!is_permitted(self, self->environment, self->key, candidate, why))
        return false;
    if (!self->request->is_usable || self->request->is_usable(candidate, self->request->state))
        return true;
    (void)snprintf(why, WHY_SIZE, "%.150s", tuff_error());
    return false;
}

/* Whether a record's candidate was rejected neither here nor where the record was made: if it was found wrong there
   after it had won, it is no better here. */
static bool may_run_from(const lookup *self, const tune_record *record, const char *candidate, char *why)
{
    return may_run(self, candidate, why) && is_permitted(self, record->environment, record->key, candidate, why);
}

/* Returns the record's winner, or the first of its runners-up that may run. NULL if none may; `why` then has the
   winner's reason. */
static const char *find_runnable(const lookup *self, const tune_record *record, char *why)
{
    char later[WHY_SIZE];
    why[0] = 0;
    if (may_run_from(self, record, record->candidate, why))
        return record->candidate;
    for (int i = 0; i < RUNNERS_UP; i++)
        if (record->runners_up[i][0] && may_run_from(self, record, record->runners_up[i], later))
            return record->runners_up[i];
    return NULL;
}

static void set_result(lookup *self, tune_tier tier, const char *candidate, const tune_record *record)
{
    self->out->tier = tier;
    self->out->candidate = candidate;
    self->out->record = record;
}

/* Returns an environment's text from the first store that has it undamaged, or NULL. */
static const char *find_environment(const lookup *self, hash128 environment)
{
    const char *found = NULL;
    for (int i = 0; i < self->request->store_count && !found; i++)
        found = tuff__store_environment(self->request->stores[i], environment);
    return found;
}

static const neighbour *find_neighbour(lookup *self, hash128 environment, neighbour *scratch)
{
    tune_environment parts;
    for (int i = 0; i < self->neighbour_count; i++)
        if (tuff__is_same_hash(self->neighbours[i].hash, environment))
            return &self->neighbours[i];
    neighbour *out = self->neighbour_count < MAX_NEIGHBOURS ? &self->neighbours[self->neighbour_count++] : scratch;
    *out = (neighbour){.hash = environment, .like = LIKENESS_NONE};
    const char *source = find_environment(self, environment);
    if (tuff__is_same_hash(environment, self->environment)) {
        out->like = LIKENESS_SAME;
    } else if (source && tuff__environment_parse(source, &parts) == TUFF_OK) {
        out->like = tuff__environment_compare(self->request->environment, &parts);
        if (parts.units > 0 && self->request->environment->units > 0)
            out->unit_distance = fabs(log2((double)parts.units / self->request->environment->units));
    }
    return out;
}

/* Inserts a seed in order, keeping only the best. The default is never a seed: every search starts with it. */
static void add_seed(lookup *self, const tune_record *record, double rank)
{
    int at = self->seed_count;
    if (!record->candidate[0])
        return;
    while (at > 0 && self->seeds[at - 1].rank > rank)
        at--;
    if (at == TUNE_SEEDS)
        return;
    const int moved = self->seed_count < TUNE_SEEDS ? self->seed_count - at : TUNE_SEEDS - 1 - at;
    memmove(&self->seeds[at + 1], &self->seeds[at], (size_t)moved * sizeof *self->seeds);
    self->seeds[at] = (seed){record, rank};
    self->seed_count += self->seed_count < TUNE_SEEDS;
}

/* Ranks of seeds. Distances are added to them: RANK_ARCHITECTURE leaves room for the difference in compute units, and
   RANK_DIMS for a distance of up to 1 per dim. */
enum { RANK_OLD_TEXTS, RANK_SEED, RANK_DRIVER, RANK_BACKEND, RANK_ARCHITECTURE, RANK_DIMS = 20 };

static void weigh_same_key(lookup *self, const tune_record *record, const neighbour *from)
{
    switch (from->like) {
    case LIKENESS_SAME:
        if (!is_current(self, record))
            add_seed(self, record, tuff__record_is_seed(record) ? RANK_SEED : RANK_OLD_TEXTS);
        break;
    case LIKENESS_OTHER_DRIVER:
        if (is_current(self, record) && (!self->other_driver || record->time > self->other_driver->time))
            self->other_driver = record;
        add_seed(self, record, RANK_DRIVER);
        break;
    case LIKENESS_OTHER_BACKEND:
        add_seed(self, record, RANK_BACKEND);
        break;
    case LIKENESS_ARCHITECTURE:
        add_seed(self, record, RANK_ARCHITECTURE + fmin(from->unit_distance, 9));
        break;
    case LIKENESS_NONE:
        break;
    }
}

static void weigh_other_key(lookup *self, const tune_record *record, const neighbour *from)
{
    tune_key key;
    if (from->like > LIKENESS_OTHER_DRIVER || tuff__key_parse(record->op, &key) != TUFF_OK ||
        !tuff__key_is_alike(self->request->key, &key))
        return;
    const double distance = tuff__key_distance(self->request->key, &key);
    if (distance < 0 || key.alignment > self->request->key->alignment)
        return;
    if (from->like == LIKENESS_SAME && is_current(self, record) && (!self->nearest || distance < self->distance)) {
        self->nearest = record;
        self->distance = distance;
    }
    add_seed(self, record, RANK_DIMS + distance + (from->like == LIKENESS_SAME ? 0 : TUNE_KEY_DIMS));
}

static void weigh_all(lookup *self)
{
    neighbour scratch;
    for (int i = 0; i < self->request->store_count; i++) {
        const tune_record *record;
        for (int at = 0; (record = tuff__store_next(self->request->stores[i], &at));) {
            if (record->kind != RECORD_WIN)
                continue;
            const neighbour *from = find_neighbour(self, record->environment, &scratch);
            if (tuff__is_same_hash(record->key, self->key))
                weigh_same_key(self, record, from);
            else
                weigh_other_key(self, record, from);
        }
    }
}

/* Finds a pin of this environment, else the newest one of the same device under another driver. */
static const tune_record *find_pin(lookup *self)
{
    const tune_record *best = NULL, *record;
    neighbour scratch;
    for (int i = 0; i < self->request->store_count; i++)
        if ((record = tuff__store_pin(self->request->stores[i], self->environment, self->key)))
            return record;
    for (int i = 0; i < self->request->store_count; i++)
        for (int at = 0; (record = tuff__store_next(self->request->stores[i], &at));)
            if (record->kind == RECORD_PIN && tuff__is_same_hash(record->key, self->key) &&
                find_neighbour(self, record->environment, &scratch)->like == LIKENESS_OTHER_DRIVER &&
                (!best || record->time > best->time))
                best = record;
    return best;
}

/* A pin is deliberate, so rejections do not undo it; but a pin that cannot be used must not keep the task from
   running. */
static bool lookup_override(lookup *self)
{
    if (self->request->override_candidate) {
        set_result(self, TIER_OVERRIDE, self->request->override_candidate, NULL);
        SET_REASON(self, TIER_OVERRIDE, "requested by the caller");
        return true;
    }
    const tune_record *pin = find_pin(self);
    if (!pin) {
        SET_REASON(self, TIER_OVERRIDE, "no pin");
        return false;
    }
    if (self->request->is_usable && !self->request->is_usable(pin->candidate, self->request->state)) {
        SET_REASON(self, TIER_OVERRIDE, "the pin cannot be used: %.200s", tuff_error());
        self->out->ignores_pin = true;
        return false;
    }
    set_result(self, TIER_OVERRIDE, pin->candidate, pin);
    SET_REASON(self, TIER_OVERRIDE, "pinned by %.40s", pin->reason[0] ? pin->reason : "hand");
    return true;
}

/* The manifest is authoritative: if it has no entry, or none that can be used, the task deviates from it, and the
   default must not pass as the manifest's choice. */
static void lookup_manifest(lookup *self)
{
    const tune_record *pin = tuff__store_pin(self->request->manifest, self->environment, self->key);
    const bool is_old = pin && pin->kernel_hash[0] && self->request->kernel_hash &&
                        strcmp(pin->kernel_hash, self->request->kernel_hash) != 0;
    if (pin && !is_old &&
        (!self->request->is_usable || self->request->is_usable(pin->candidate, self->request->state))) {
        set_result(self, TIER_OVERRIDE, pin->candidate, pin);
        SET_REASON(self, TIER_OVERRIDE, "locked by the manifest");
        return;
    }
    self->out->tier = TIER_OVERRIDE;
    self->out->deviates = true;
    if (is_old)
        SET_REASON(self, TIER_OVERRIDE, "the manifest was made for other kernel texts (%.32s; current: %.32s)",
                   pin->kernel_hash, self->request->kernel_hash);
    else if (pin)
        SET_REASON(self, TIER_OVERRIDE, "the manifest's candidate cannot be used: %.190s", tuff_error());
    else
        SET_REASON(self, TIER_OVERRIDE, "the manifest has no entry for the key in this environment");
}

/* Finds the winner of this key. Our stores come before shipped ones, except for winners of other kernel texts, because
   shipped winners are for the texts of this version. */
static const tune_record *find_same(const lookup *self)
{
    const tune_record *first = NULL;
    for (int i = 0; i < self->request->store_count; i++) {
        const tune_record *win =
            tuff__store_winner(self->request->stores[i], self->environment, self->key, self->request->kernel_hash);
        if (win && (is_current(self, win) || tuff__record_is_seed(win)))
            return win;
        first = first ? first : win;
    }
    return first;
}

static const char *origin_of(const tune_record *win)
{
    return strcmp(win->source, "shipped") == 0  ? "shipped with tuff"
           : strcmp(win->source, "import") == 0 ? "imported"
                                                : "measured here";
}

static bool lookup_same(lookup *self)
{
    char why[WHY_SIZE];
    const tune_record *win = find_same(self);
    if (!win) {
        self->out->miss = MISS_UNKNOWN;
        SET_REASON(self, TIER_SAME, "no winner for this key in this environment");
    } else if (tuff__record_is_seed(win)) {
        self->out->miss = MISS_SEED;
        SET_REASON(self, TIER_SAME, "the winner is only a seed");
    } else if (!is_current(self, win)) {
        self->out->miss = MISS_OTHER_KERNELS;
        SET_REASON(self, TIER_SAME, "the winner was measured with other kernel texts (%.32s; current: %.32s)",
                   win->kernel_hash[0] ? win->kernel_hash : "unnamed", self->request->kernel_hash);
    } else {
        const char *candidate = find_runnable(self, win, why);
        self->out->miss = candidate ? MISS_NONE : MISS_UNUSABLE;
        if (candidate)
            set_result(self, TIER_SAME, candidate, win);
        if (!candidate)
            SET_REASON(self, TIER_SAME, "neither the winner (%s) nor a runner-up can be used", why);
        else if (candidate != win->candidate)
            SET_REASON(self, TIER_SAME, "a runner-up, because the winner cannot be used: %s", why);
        else
            SET_REASON(self, TIER_SAME, "%s, %" PRIu64 " samples", origin_of(win), win->samples);
        return candidate != NULL;
    }
    return false;
}

static bool lookup_driver(lookup *self)
{
    char why[WHY_SIZE];
    const tune_record *win = self->other_driver;
    const char *candidate = win ? find_runnable(self, win, why) : NULL;
    if (!win)
        SET_REASON(self, TIER_OTHER_DRIVER, "no winner for this key under another driver of the device");
    else if (!candidate)
        SET_REASON(self, TIER_OTHER_DRIVER, "the other driver's winner cannot be used: %s", why);
    else
        SET_REASON(self, TIER_OTHER_DRIVER, "measured under another driver; will be measured again");
    if (candidate)
        set_result(self, TIER_OTHER_DRIVER, candidate, win);
    return candidate != NULL;
}

static bool lookup_nearest(lookup *self)
{
    char why[WHY_SIZE];
    const tune_record *win = self->nearest;
    const char *candidate = win ? find_runnable(self, win, why) : NULL;
    if (!win)
        SET_REASON(self, TIER_NEAREST, "no winner for the same task with every dim within a factor of 2");
    else if (!candidate)
        SET_REASON(self, TIER_NEAREST, "the winner for the nearest dims cannot be used: %s", why);
    else
        SET_REASON(self, TIER_NEAREST, "measured for %.200s", win->op);
    if (candidate)
        set_result(self, TIER_NEAREST, candidate, win);
    return candidate != NULL;
}

static void add_starting_point(lookup *self, const char *candidate)
{
    tune_lookup_result *out = self->out;
    char why[WHY_SIZE];
    for (int i = 0; i < out->seed_count; i++)
        if (strcmp(out->seeds[i], candidate) == 0)
            return;
    if (out->seed_count < TUNE_SEEDS && may_run(self, candidate, why))
        out->seeds[out->seed_count++] = candidate;
}

static void lookup_seeds(lookup *self)
{
    tune_lookup_result *out = self->out;
    for (int i = 0; i < self->seed_count; i++) {
        const seed *one = &self->seeds[i];
        add_starting_point(self, one->record->candidate);
        for (int k = 0; k < RUNNERS_UP && i == 0 && one->rank < RANK_DIMS; k++)
            if (one->record->runners_up[k][0])
                add_starting_point(self, one->record->runners_up[k]);
    }
    const int seeds = out->seed_count;
    for (int i = 0; i < self->request->portfolio_count; i++)
        add_starting_point(self, self->request->portfolio[i]);
    if (out->tier < TIER_SEED)
        return;
    out->candidate = "";
    out->tier = seeds > 0 ? TIER_SEED : self->request->portfolio_count > 0 ? TIER_PORTFOLIO : TIER_DEFAULT;
    if (seeds > 0) {
        out->record = self->seeds[0].record;
        SET_REASON(self, TIER_SEED, "%d seeds for a search; the default runs until it is done", seeds);
        return;
    }
    SET_REASON(self, TIER_SEED, "no winner for this key on a similar device");
    if (out->tier == TIER_PORTFOLIO)
        SET_REASON(self, TIER_PORTFOLIO, "%d candidates for a search; the default runs until it is done",
                   self->request->portfolio_count);
    else
        SET_REASON(self, TIER_PORTFOLIO, "the family has no portfolio");
    if (out->tier == TIER_DEFAULT)
        SET_REASON(self, TIER_DEFAULT, "the default chosen by lowering");
}

static lookup begin(const tune_lookup_request *request, tune_lookup_result *out)
{
    const char *environment = ENVIRONMENT_TEXT(request->environment);
    return (lookup){.request = request,
                    .out = out,
                    .key = tuff__key_hash(request->key),
                    .environment = tuff__hash_text(environment)};
}

void tuff__tune_lookup_seeds(const tune_lookup_request *request, tune_lookup_result *out)
{
    lookup self = begin(request, out);
    weigh_all(&self);
    lookup_seeds(&self);
}

void tuff__tune_lookup(const tune_lookup_request *request, tune_lookup_result *out)
{
    lookup self = begin(request, out);
    *out = (tune_lookup_result){.tier = TIER_DEFAULT, .candidate = ""};
    if (request->manifest) {
        lookup_manifest(&self);
        return;
    }
    if (lookup_override(&self) || lookup_same(&self))
        return;
    if (request->only_same) {
        SET_REASON(&self, TIER_DEFAULT, "the default chosen by lowering: lower tiers are not tried");
        return;
    }
    weigh_all(&self);
    if (!lookup_driver(&self))
        (void)lookup_nearest(&self);
    lookup_seeds(&self);
}
