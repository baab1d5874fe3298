/* The functions of tuff/cache.h that need a device or a plan; the others are in tunedb/cache. */
#include "api/cache.h"

#include <stdio.h>
#include <string.h>

#include "exec/plan.h"
#include "api/tuner.h"
#include "kernels/config.h"

/* Whether the text is the number of a device here, such as "opencl:1". */
static bool is_selector(const char *device)
{
    const char *colon = strchr(device, ':');
    return colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

tuff_status tuff__cache_select(const char *device, char *buffer, const char **out)
{
    *out = device;
    if (!device || !is_selector(device))
        return TUFF_OK;
    for (int i = 0; i < tuff_device_count(); ++i) {
        tuff_device_info info;
        tune_environment environment;
        if (tuff_device_describe_at(i, &info) != TUFF_OK || strcmp(info.selector, device) != 0)
            continue;
        tuff__environment_from_info(&info, &environment);
        *out = tuff__environment_text(&environment, buffer);
        return TUFF_OK;
    }
    return FAIL(TUFF_E_NO_DEVICE, "there is no device %s here", device);
}

tuff_status tuff__cache_find_here(tuff_cache *self)
{
    if (self->has_local_devices)
        return TUFF_OK;
    const int count = tuff_device_count();
    self->local_devices = tuff__calloc((size_t)count + 1, sizeof *self->local_devices);
    if (!self->local_devices)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; ++i) {
        tuff_device_info info;
        const tuff_status status = tuff_device_describe_at(i, &info);
        if (status == TUFF_E_OOM_HOST) {
            tuff__free(self->local_devices);
            self->local_devices = NULL;
            self->local_device_count = 0;
            return status;
        }
        if (status == TUFF_OK && info.device_class != TUFF_DEVICE_REFERENCE)
            tuff__environment_from_info(&info, &self->local_devices[self->local_device_count++]);
    }
    self->has_local_devices = true;
    return TUFF_OK;
}

tuff_cache *tuff_cache_open(const char *device)
{
    char buffer[ENVIRONMENT_SIZE];
    const char *wanted;
    tuff_cache *cache = NULL;
    if (tuff__cache_select(device, buffer, &wanted) == TUFF_OK)
        (void)tuff__cache_open(wanted, &cache);
    return cache;
}

tuff_status tuff_cache_import(tuff_cache *cache, const char *file, bool as_seed, tuff_cache_imported *counts)
{
    tuff_cache_imported unused;
    if (!cache || !file)
        return FAIL(TUFF_E_USAGE, "cache: the %s is NULL", cache ? "path" : "cache");
    TRY(tuff__cache_find_here(cache));
    return tuff__cache_import(cache, file, as_seed, counts ? counts : &unused);
}

static tuff_status environment_of(const tuff_device *device, tune_environment *out)
{
    tuff_device_info info;
    TRY(tuff_device_describe(device, &info));
    if (info.device_class == TUFF_DEVICE_REFERENCE)
        return FAIL(TUFF_E_UNSUPPORTED, "cache: nothing is tuned on the reference device");
    tuff__environment_from_info(&info, out);
    return TUFF_OK;
}

/* Returns the index of the file that has the record; -1: none. */
static int file_of(const tuff_cache *self, const tune_record *record)
{
    for (int i = 0; i < self->count; ++i) {
        const tune_store *store = self->files[i].store;
        if (tuff__store_superseded(store, record) == record)
            return i;
    }
    return -1;
}

static void take_record(const tuff_cache *self, const tune_record *record, tuff_cache_match *out)
{
    out->has_record = record != NULL;
    if (record)
        tuff__cache_fill_record(self, record, file_of(self, record), &out->record);
}

tuff_status tuff_cache_lookup(tuff_cache *cache, const tuff_device *device, const char *key, tuff_cache_match *answer)
{
    tune_environment environment;
    tune_lookup_result found;
    if (!cache || !device || !key || !answer)
        return FAIL(TUFF_E_USAGE, "cache: a lookup needs a cache, a device, a key and room for the answer");
    TRY(environment_of(device, &environment));
    TRY(tuff__cache_lookup(cache, &environment, key, &found));
    *answer = (tuff_cache_match){.candidate = found.candidate,
                                 .origin = tuff__tier_text(found.tier == TIER_PORTFOLIO ? TIER_DEFAULT : found.tier),
                                 .seed_count = found.seed_count};
    memcpy(answer->seeds, found.seeds, sizeof answer->seeds);
    memcpy(answer->why, found.why[found.tier], sizeof answer->why);
    take_record(cache, found.record, answer);
    return TUFF_OK;
}

/* Finds the winner's record in the plan's environment by the plan's candidate: the cache may have another winner
   now. */
static const tune_record *find_win(const tuff_cache *self, const tuff_device *device, const tuff_plan_key_info *key,
                                   const char *generator)
{
    tune_environment environment;
    if (environment_of(device, &environment) != TUFF_OK)
        return NULL;
    const hash128 place = tuff__hash_text(ENVIRONMENT_TEXT(&environment)), hash = tuff__hash_text(key->key);
    for (int i = 0; i < self->count; ++i) {
        const tune_record *win = tuff__store_winner(self->files[i].store, place, hash, generator);
        if (win && strcmp(win->candidate, key->candidate) == 0)
            return win;
    }
    return NULL;
}

tuff_status tuff_cache_lookup_plan(tuff_cache *cache, tuff_plan *plan, int index, tuff_cache_match *answer)
{
    tuff_plan_key_info key;
    if (!cache || !plan || !answer)
        return FAIL(TUFF_E_USAGE, "cache: a lookup needs a cache, a plan and room for the answer");
    TRY(tuff_plan_key(plan, index, &key));
    TRY(tuff_cache_lookup(cache, plan->device, key.key, answer));
    if (strcmp(answer->candidate, key.candidate) != 0) {
        (void)snprintf(answer->why, sizeof answer->why,
                       "the plan was compiled with it; the cache has %.100s now: %.80s",
                       answer->candidate[0] ? answer->candidate : "the default", answer->origin);
        take_record(cache, find_win(cache, plan->device, &key, plan->keys.items[index].generator), answer);
    }
    answer->candidate = key.candidate;
    answer->origin = key.origin;
    return TUFF_OK;
}

static tuff_status pin_by_text(tuff_cache *cache, const tuff_device *device, const char *key, const text *candidate,
                               int *count)
{
    tune_environment environment;
    if (!device)
        return tuff__cache_pin_known(cache, key, tuff__text_get(candidate), NULL, NULL, count);
    TRY(environment_of(device, &environment));
    TRY(tuff__cache_pin_in(cache, ENVIRONMENT_TEXT(&environment), key, tuff__text_get(candidate)));
    *count = 1;
    return TUFF_OK;
}

tuff_status tuff_cache_pin(tuff_cache *cache, const tuff_device *device, const char *key, const char *candidate,
                           int *count)
{
    tune_key parsed;
    text canonical = {0};
    int unused;
    if (!cache || !key || !candidate)
        return FAIL(TUFF_E_USAGE, "cache: a pin needs a cache, a key and a candidate");
    TRY(tuff__key_parse(key, &parsed));
    tuff_status status = tuff__cache_canonical_candidate(candidate, &canonical);
    if (status == TUFF_OK)
        status = pin_by_text(cache, device, key, &canonical, count ? count : &unused);
    tuff__text_free(&canonical);
    return status;
}

/* Checks that kernels can be built with the candidate, and that it sets any tunable that they use. */
static tuff_status check_candidate(const tuff_plan *plan, int task, const char *candidate)
{
    const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    tune_config config;
    task_estimate made;
    uint64_t common = 0;
    TRY(tuff__config_parse(candidate, &config));
    TRY(tuff__estimate_task(plan->device, &plan->fusion, &defaults, task, &config, &made));
    for (int i = 0; i < CONFIG_WORDS; ++i)
        common |= config.set[i] & made.used_tunables.set[i];
    if (common == 0 && tuff__config_count(&config) > 0)
        return FAIL(TUFF_E_UNSUPPORTED, "cache: this task uses none of the tunables in %.300s", candidate);
    return TUFF_OK;
}

tuff_status tuff_cache_pin_plan(tuff_cache *cache, tuff_plan *plan, int index, const char *candidate)
{
    tuff_plan_key_info key;
    if (!cache || !plan || !candidate)
        return FAIL(TUFF_E_USAGE, "cache: a pin needs a cache, a plan and a candidate");
    TRY(tuff_plan_key(plan, index, &key));
    TRY(check_candidate(plan, plan->keys.items[index].task, candidate));
    return tuff_cache_pin(cache, plan->device, key.key, candidate, NULL);
}

tuff_status tuff_cache_unpin(tuff_cache *cache, const tuff_device *device, const char *key, int *count)
{
    tune_key parsed;
    tune_environment environment;
    if (!cache || !key)
        return FAIL(TUFF_E_USAGE, "cache: the %s is NULL", cache ? "key" : "cache");
    TRY(tuff__key_parse(key, &parsed));
    hash128 place = {0};
    const hash128 hash = tuff__hash_text(key);
    if (device) {
        TRY(environment_of(device, &environment));
        place = tuff__hash_text(ENVIRONMENT_TEXT(&environment));
    }
    cache_drop drop = {.kind = RECORD_PIN, .keys = &hash, .key_count = 1, .environment = device ? &place : NULL};
    const tuff_status status = tuff__cache_drop_records(cache, &drop);
    if (count)
        *count = drop.dropped;
    return status;
}
