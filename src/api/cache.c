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

/* The number of a device may change when a driver is installed, so the cache filters by the environment's text. Any
   other text is such a filter already. */
tuff_status tuff__cache_resolve_device(const char *device, char *buffer, const char **out)
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
    return FAIL(TUFF_E_NO_DEVICE, "unknown device %s", device);
}

/* Done only once, and only for an import, because it loads all drivers. A device that cannot be described is left out,
   but lack of memory is an error: a shorter list would look like a machine with fewer devices. */
tuff_status tuff__cache_list_local_devices(tuff_cache *self)
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
    const char *filter;
    tuff_cache *cache = NULL;
    if (tuff__cache_resolve_device(device, buffer, &filter) == TUFF_OK)
        (void)tuff__cache_open(filter, &cache);
    return cache;
}

tuff_status tuff_cache_import(tuff_cache *cache, const char *file, bool as_seed, tuff_cache_imported *counts)
{
    tuff_cache_imported unused;
    if (!cache || !file)
        return FAIL(TUFF_E_USAGE, "cache: the %s is NULL", cache ? "path" : "cache");
    TRY(tuff__cache_list_local_devices(cache));
    return tuff__cache_import(cache, file, as_seed, counts ? counts : &unused);
}

static tuff_status describe_environment(const tuff_device *device, tune_environment *out)
{
    tuff_device_info info;
    TRY(tuff_device_describe(device, &info));
    if (info.device_class == TUFF_DEVICE_REFERENCE)
        return FAIL(TUFF_E_UNSUPPORTED, "cache: the reference device is not tuned");
    tuff__environment_from_info(&info, out);
    return TUFF_OK;
}

/* Returns the index of the file that has the record; -1: none. */
static int find_file(const tuff_cache *self, const tune_record *record)
{
    for (int i = 0; i < self->count; ++i) {
        const tune_store *store = self->files[i].store;
        if (tuff__store_superseded(store, record) == record)
            return i;
    }
    return -1;
}

static void fill_record(const tuff_cache *self, const tune_record *record, tuff_cache_match *out)
{
    out->has_record = record != NULL;
    if (record)
        tuff__cache_fill_record(self, record, find_file(self, record), &out->record);
}

tuff_status tuff_cache_lookup(tuff_cache *cache, const tuff_device *device, const char *key, tuff_cache_match *match)
{
    tune_environment environment;
    tune_lookup_result found;
    if (!cache || !device || !key || !match)
        return FAIL(TUFF_E_USAGE, "cache: a lookup needs a cache, a device, a key and a match");
    TRY(describe_environment(device, &environment));
    TRY(tuff__cache_lookup(cache, &environment, key, &found));
    *match = (tuff_cache_match){.candidate = found.candidate,
                                /* Portfolios are part of the library, so users know their entries as defaults. */
                                .origin = tuff__tier_text(found.tier == TIER_PORTFOLIO ? TIER_DEFAULT : found.tier),
                                .seed_count = found.seed_count};
    memcpy(match->seeds, found.seeds, sizeof match->seeds);
    memcpy(match->why, found.why[found.tier], sizeof match->why);
    fill_record(cache, found.record, match);
    return TUFF_OK;
}

/* Finds the winner's record in the plan's environment by the plan's candidate: the cache may have another winner
   now. */
static const tune_record *find_winner(const tuff_cache *self, const tuff_device *device, const tuff_plan_key_info *key,
                                      const char *kernel_hash)
{
    tune_environment environment;
    if (describe_environment(device, &environment) != TUFF_OK)
        return NULL;
    const hash128 environment_hash = tuff__hash_text(ENVIRONMENT_TEXT(&environment)), hash = tuff__hash_text(key->key);
    for (int i = 0; i < self->count; ++i) {
        const tune_record *winner = tuff__store_winner(self->files[i].store, environment_hash, hash, kernel_hash);
        if (winner && strcmp(winner->candidate, key->candidate) == 0)
            return winner;
    }
    return NULL;
}

tuff_status tuff_cache_lookup_plan(tuff_cache *cache, tuff_plan *plan, int index, tuff_cache_match *match)
{
    tuff_plan_key_info key;
    if (!cache || !plan || !match)
        return FAIL(TUFF_E_USAGE, "cache: a lookup needs a cache, a plan and a match");
    TRY(tuff_plan_key(plan, index, &key));
    TRY(tuff_cache_lookup(cache, plan->device, key.key, match));
    if (strcmp(match->candidate, key.candidate) != 0) {
        (void)snprintf(match->why, sizeof match->why, "the plan was compiled with it; the cache now has %.100s: %.80s",
                       match->candidate[0] ? match->candidate : "the default", match->origin);
        fill_record(cache, find_winner(cache, plan->device, &key, plan->keys.items[index].kernel_hash), match);
    }
    match->candidate = key.candidate;
    match->origin = key.origin;
    return TUFF_OK;
}

/* Without a device, the pin is made in every environment in which the cache knows the key. */
static tuff_status pin_by_text(tuff_cache *cache, const tuff_device *device, const char *key, const text *candidate,
                               int *count)
{
    tune_environment environment;
    if (!device)
        return tuff__cache_pin_known(cache, key, tuff__text_get(candidate), NULL, NULL, count);
    TRY(describe_environment(device, &environment));
    TRY(tuff__cache_pin_in(cache, ENVIRONMENT_TEXT(&environment), key, tuff__text_get(candidate)));
    *count = 1;
    return TUFF_OK;
}

/* Candidates are stored in a canonical form, with one text for each configuration, because lookups compare texts. */
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
    task_estimate estimate;
    uint64_t common = 0;
    TRY(tuff__config_parse(candidate, &config));
    TRY(tuff__estimate_task(plan->device, &plan->fusion, &defaults, task, &config, &estimate));
    for (int i = 0; i < CONFIG_WORDS; ++i)
        common |= config.set[i] & estimate.used_tunables.set[i];
    if (common == 0 && tuff__config_count(&config) > 0)
        return FAIL(TUFF_E_UNSUPPORTED, "cache: the task uses none of the tunables in %.300s", candidate);
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

/* Without a device, drops the pins of the key in all environments. */
tuff_status tuff_cache_unpin(tuff_cache *cache, const tuff_device *device, const char *key, int *count)
{
    tune_key parsed;
    tune_environment environment;
    if (!cache || !key)
        return FAIL(TUFF_E_USAGE, "cache: the %s is NULL", cache ? "key" : "cache");
    TRY(tuff__key_parse(key, &parsed));
    hash128 environment_hash = {0};
    const hash128 hash = tuff__hash_text(key);
    if (device) {
        TRY(describe_environment(device, &environment));
        environment_hash = tuff__hash_text(ENVIRONMENT_TEXT(&environment));
    }
    cache_drop drop = {
        .kind = RECORD_PIN, .keys = &hash, .key_count = 1, .environment = device ? &environment_hash : NULL};
    const tuff_status status = tuff__cache_drop_records(cache, &drop);
    if (count)
        *count = drop.dropped;
    return status;
}
