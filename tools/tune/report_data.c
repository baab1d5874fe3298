/* Collects what stores and plans say about keys. */
#include "tools/tune/report_data.h"

#include <stdlib.h>
#include <string.h>

#include "tunedb/kernel_hash.h"

/* A key of one environment, with what is known about it. */
typedef struct entry {
    hash128 hash;
    const char *op; /* owned by a store or a plan */
    const tune_record *win, *pin;
    uint64_t calls[MODEL_PLAN_COUNT];
    double saved[MODEL_PLAN_COUNT]; /* share of the time of the plan's known kernels */
} entry;

typedef struct entries {
    entry *items;
    int count, capacity;
    bool failed;
} entries;

static entry *find(entries *all, hash128 hash)
{
    for (int i = 0; i < all->count; i++)
        if (tuff__is_same_hash(all->items[i].hash, hash))
            return &all->items[i];
    return NULL;
}

static entry *add(entries *all, hash128 hash, const char *op)
{
    entry *found = find(all, hash);
    if (found)
        return found;
    if (!GROW(all->items, all->count, all->capacity)) {
        all->failed = true;
        return NULL;
    }
    all->items[all->count] = (entry){.hash = hash, .op = op};
    return &all->items[all->count++];
}

static bool has_current_kernel(const tune_record *win)
{
    tune_key key;
    char today[KERNEL_HASH_SIZE];
    return tuff__key_parse(win->op, &key) == TUFF_OK &&
           strcmp(win->kernel_hash, tuff__kernel_hash(key.family, today)) == 0;
}

/* Adds a record to its entry. As in lookups, earlier stores take precedence, except for winners of other kernel
   texts. */
static void add_record(entries *all, const tune_record *record, bool adds)
{
    entry *item = adds ? add(all, record->key, record->op) : find(all, record->key);
    if (!item)
        return;
    if (record->kind == RECORD_WIN && !tuff__record_is_seed(record) &&
        (!item->win || (!has_current_kernel(item->win) && has_current_kernel(record))))
        item->win = record;
    if (record->kind == RECORD_PIN && !item->pin)
        item->pin = record;
}

static void add_stores(entries *all, const tuff_cache *cache, hash128 environment, bool adds)
{
    const tune_record *record;
    for (int i = 0; i < cache->count; i++)
        for (int at = 0; (record = tuff__store_next(cache->files[i].store, &at));)
            if (record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->environment, environment))
                add_record(all, record, adds);
}

static void add_plans(entries *all, const model_plans *plans)
{
    for (int i = 0; i < plans->count; i++) {
        const int count = tuff_plan_key_count(plans->items[i].plan);
        all->failed |= count < 0;
        for (int k = 0; k < count; k++) {
            tuff_plan_key_info key;
            all->failed |= tuff_plan_key(plans->items[i].plan, k, &key) != TUFF_OK;
            entry *item = all->failed ? NULL : add(all, tuff__hash_text(key.key), key.key);
            if (item)
                item->calls[i] += key.calls;
        }
    }
}

/* Returns the winner's time; the default's if no candidate beat it. */
static uint64_t time_of(const tune_record *win)
{
    return win->candidate[0] ? win->nanoseconds[1] : win->default_nanoseconds;
}

/* Whether a program would use the entry's winner: those of other kernel texts only start a search. */
static bool is_current(const entry *item)
{
    return item->win && has_current_kernel(item->win);
}

static json_t *sum_up_plan(entries *all, const model_plans *plans, int index)
{
    double baseline = 0, tuned = 0;
    int keys = 0, known = 0;
    for (int i = 0; i < all->count; i++) {
        const entry *item = &all->items[i];
        keys += item->calls[index] > 0;
        known += item->calls[index] > 0 && is_current(item);
        if (is_current(item)) {
            baseline += (double)item->calls[index] * (double)item->win->default_nanoseconds;
            tuned += (double)item->calls[index] * (double)time_of(item->win);
        }
    }
    for (int i = 0; i < all->count && baseline > 0; i++) {
        entry *item = &all->items[i];
        if (!is_current(item))
            continue;
        const double saved = (double)item->win->default_nanoseconds - (double)time_of(item->win);
        item->saved[index] = (double)item->calls[index] * saved / baseline;
    }
    return json_pack("{s:s, s:i, s:i, s:f, s:f}", "name", plans->items[index].name, "keys", keys, "known", known,
                     "default_nanoseconds", baseline, "nanoseconds", tuned);
}

static int compare_worth(const void *a, const void *b)
{
    const entry *first = a, *second = b;
    const double saved[] = {first->saved[MODEL_PLAN_TRAIN] + first->saved[MODEL_PLAN_GENERATE],
                            second->saved[MODEL_PLAN_TRAIN] + second->saved[MODEL_PLAN_GENERATE]};
    if (saved[0] != saved[1])
        return saved[0] < saved[1] ? 1 : -1;
    const double gains[] = {first->win ? tuff__record_gain(first->win) : 0,
                            second->win ? tuff__record_gain(second->win) : 0};
    if (gains[0] != gains[1])
        return gains[0] < gains[1] ? 1 : -1;
    return strcmp(first->op, second->op);
}

static json_t *rejected_of(const tuff_cache *cache, hash128 environment, hash128 key)
{
    json_t *list = json_array();
    const tune_record *record;
    for (int i = 0; i < cache->count; i++)
        for (int at = 0; (record = tuff__store_next(cache->files[i].store, &at));)
            if (record->kind == RECORD_REJECTION && tuff__is_same_hash(record->environment, environment) &&
                tuff__is_same_hash(record->key, key))
                (void)json_array_append_new(
                    list, json_pack("{s:o, s:o, s:o}", "candidate", cache_json_text(record->candidate), "why",
                                    cache_json_text(record->reason), "phase", cache_json_text(record->phase)));
    return list;
}

static json_t *json_times(const uint64_t *times, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)times[i]));
    return list;
}

static void add_win(json_t *out, const entry *item)
{
    const tune_record *win = item->win;
    (void)json_object_update_new(
        out, json_pack("{s:o, s:o, s:I, s:I, s:f, s:I, s:o, s:o, s:o, s:I, s:b}", "candidate",
                       cache_json_text(win->candidate), "nanoseconds", json_times(win->nanoseconds, 3), "samples",
                       (json_int_t)win->samples, "default_nanoseconds", (json_int_t)win->default_nanoseconds, "gain",
                       win->candidate[0] ? tuff__record_gain(win) : 1.0, "timed", (json_int_t)win->timed, "spread",
                       json_times(win->spread, SPREAD), "runners_up", cache_json_runners_up(win), "source",
                       cache_json_text(win->source), "time", (json_int_t)win->time, "current", (int)is_current(item)));
}

static json_t *json_entry(const tuff_cache *cache, hash128 environment, const entry *item, int steps)
{
    tune_key key;
    char dims[160] = "";
    if (tuff__key_parse(item->op, &key) != TUFF_OK)
        key = (tune_key){.dim_count = 0};
    for (int i = 0; i < key.dim_count; i++)
        (void)snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i > 0 ? "x" : "",
                       (long long)key.dims[i]);
    json_t *calls = json_array(), *saved = json_array();
    for (int i = 0; i < steps; i++) {
        (void)json_array_append_new(calls, json_integer((json_int_t)item->calls[i]));
        (void)json_array_append_new(saved, json_real(item->saved[i]));
    }
    json_t *out =
        json_pack("{s:s, s:o, s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "key", ALL_DIGITS(item->hash), "op",
                  cache_json_text(item->op), "family", key.family, "dims", dims, "known", (int)(item->win != NULL),
                  "pin", item->pin ? cache_json_text(item->pin->candidate) : json_null(), "rejected",
                  rejected_of(cache, environment, item->hash), "calls", calls, "saved", saved);
    if (item->win && out)
        add_win(out, item);
    return out;
}

static json_t *json_environment(const tuff_cache *cache, const model_plans *plans, const char *source)
{
    entries all = {0};
    tune_environment parts;
    const hash128 environment = tuff__hash_text(source);
    json_t *keys = json_array(), *steps = json_array();
    if (tuff__environment_parse(source, &parts) != TUFF_OK)
        parts = (tune_environment){.units = 0};
    if (plans)
        add_plans(&all, plans);
    add_stores(&all, cache, environment, plans == NULL);
    for (int i = 0; plans && i < plans->count; i++)
        (void)json_array_append_new(steps, sum_up_plan(&all, plans, i));
    if (all.count > 0)
        qsort(all.items, (size_t)all.count, sizeof *all.items, compare_worth);
    for (int i = 0; i < all.count; i++)
        all.failed |= json_array_append_new(keys, json_entry(cache, environment, &all.items[i],
                                                             plans ? plans->count : MODEL_PLAN_COUNT)) != 0;
    tuff__free(all.items);
    json_t *out = json_pack("{s:o, s:o, s:o, s:s, s:o, s:o}", "environment", cache_json_text(source), "device",
                            cache_json_text(parts.device), "driver", cache_json_text(parts.driver), "backend",
                            parts.backend, "steps", steps, "keys", keys);
    if (all.failed) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static bool is_listed(const tuff_cache *cache, int index)
{
    for (int i = 0; i < index; i++)
        if (cache->files[i].is_wanted && strcmp(cache->files[i].text, cache->files[index].text) == 0)
            return true;
    return false;
}

json_t *report_data(const tuff_cache *cache, const model_plans *plans, const tune_environment *here)
{
    json_t *list = json_array();
    bool failed = false;
    if (plans)
        failed = json_array_append_new(list, json_environment(cache, plans, ENVIRONMENT_TEXT(here))) != 0;
    for (int i = 0; !plans && i < cache->count; i++)
        if (cache->files[i].is_wanted && cache->files[i].is_described && !is_listed(cache, i))
            failed |= json_array_append_new(list, json_environment(cache, NULL, cache->files[i].text)) != 0;
    json_t *out = json_pack("{s:s, s:I, s:b, s:o}", "version", tuff_version(), "time", (json_int_t)tuff__record_now(),
                            "model", (int)(plans != NULL), "environments", list);
    if (failed) {
        json_decref(out);
        return NULL;
    }
    return out;
}
