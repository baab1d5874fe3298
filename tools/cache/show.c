/* tuff cache show and tuff cache explain: what is known about a key, and what a program would choose for it, tier by
   tier. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"

static void print_win(const tune_record *win)
{
    printf("    win  %s\n         %.3f/%.3f/%.3f ms, %" PRIu64 " samples; default %.3f ms: %.2fx; %s, %s ago",
           cache_candidate(win->candidate), (double)win->nanoseconds[0] / 1e6, (double)win->nanoseconds[1] / 1e6,
           (double)win->nanoseconds[2] / 1e6, win->samples, (double)win->default_nanoseconds / 1e6,
           tuff__record_gain(win), win->source[0] ? win->source : "of unknown source", AGE_TEXT(win->time));
    printf("; kernel texts %s%s%s\n", win->kernel_hash[0] ? win->kernel_hash : "unnamed", win->cold[0] ? ", cold " : "",
           win->cold);
    for (int i = 0; i < RUNNERS_UP; i++)
        if (win->runners_up[i][0])
            printf("         next %s\n", win->runners_up[i]);
}

static void print_record(const tune_record *record)
{
    if (record->kind == RECORD_WIN)
        print_win(record);
    if (record->kind == RECORD_REJECTION)
        printf("    bad  %s: %s in %s, %s ago\n", cache_candidate(record->candidate), record->reason,
               record->phase[0] ? record->phase : "use", AGE_TEXT(record->time));
    if (record->kind == RECORD_PIN)
        printf("    pin  %s by %s, %s ago\n", cache_candidate(record->candidate),
               record->reason[0] ? record->reason : "hand", AGE_TEXT(record->time));
}

static void print_choice(const tune_lookup_result *result)
{
    printf("    now  T%d %s: %s", result->tier, tuff__tier_text(result->tier), result->why[result->tier]);
    if (result->tier > TIER_SAME && result->why[TIER_SAME][0])
        printf("; not T1: %s", result->why[TIER_SAME]);
    putchar('\n');
}

static void show_in_store(const tuff_cache *cache, const cache_file *store, const cache_key *key)
{
    const tune_record *record;
    tune_lookup_result result;
    printf("  %s%s\n", store->name, store->is_shipped ? ", shipped" : "");
    if (store->text[0])
        printf("    env  %s\n", store->text);
    for (int at = 0; (record = tuff__store_next(store->store, &at));)
        if (record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->key, key->hash))
            print_record(record);
    if (!store->is_described)
        printf("    now  unused: the store does not describe its environment\n");
    else if (tuff__cache_lookup(cache, &store->environment, key->op, &result) == TUFF_OK)
        print_choice(&result);
    else
        printf("    now  unused: the key is from another version\n");
}

static json_t *json_in_store(const tuff_cache *cache, const cache_file *store, const cache_key *key)
{
    const tune_record *record;
    tune_lookup_result result;
    json_t *records = json_array();
    for (int at = 0; (record = tuff__store_next(store->store, &at));)
        if (record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->key, key->hash))
            (void)json_array_append_new(records, cache_json_record(record));
    json_t *out = json_pack("{s:o, s:s, s:b, s:o}", "path", cache_json_text(store->path), "environment", store->text,
                            "shipped", (int)store->is_shipped, "records", records);
    if (store->is_described && tuff__cache_lookup(cache, &store->environment, key->op, &result) == TUFF_OK)
        (void)json_object_update_new(out,
                                     json_pack("{s:s, s:s, s:s, s:s}", "tier", tuff__tier_text(result.tier),
                                               "candidate", result.candidate, "why", result.why[result.tier],
                                               "why_not_same", result.tier > TIER_SAME ? result.why[TIER_SAME] : ""));
    return out;
}

static json_t *show_key(const tuff_cache *cache, const cache_key *key, bool json)
{
    json_t *list = json ? json_array() : NULL;
    if (!json)
        printf("%s %s\n", ALL_DIGITS(key->hash), key->op);
    for (int i = 0; i < cache->count; i++) {
        const cache_file *file = &cache->files[i];
        if (!file->is_wanted || !tuff__cache_file_has_key(file, key->hash))
            continue;
        if (json)
            (void)json_array_append_new(list, json_in_store(cache, file, key));
        else
            show_in_store(cache, file, key);
    }
    return json ? json_pack("{s:s, s:s, s:o}", "key", ALL_DIGITS(key->hash), "op", key->op, "stores", list) : NULL;
}

static int show(int count, char **arguments)
{
    cache_common common = {0};
    cache_selection which = {0};
    tuff_cache *cache;
    cache_keys keys;
    const cli_option options[] = {CACHE_COMMON(common),
                                  {.name = "--op",
                                   .kind = CLI_TEXT,
                                   .value = &which.pattern,
                                   .placeholder = "PATTERN",
                                   .help = "keys whose text contains PATTERN, or matches it if it has * or ?"}};
    const cli_end end = cache_parse(&cache_verb_show, options, 3, count, arguments, &which.prefix, NULL, &common);
    if (end.now)
        return end.code;
    int code = cache_open(&cache_verb_show, &common, &cache);
    if (code != CACHE_OK)
        return code;
    code = cache_find_keys(&cache_verb_show, cache, &which, &keys);
    if (code == CACHE_OK) {
        tuff__json_begin();
        json_t *all = common.json ? json_array() : NULL;
        for (int i = 0; i < keys.count; i++) {
            json_t *one = show_key(cache, &keys.items[i], common.json);
            if (common.json)
                (void)json_array_append_new(all, one);
        }
        if (common.json)
            code = cache_print_json(&cache_verb_show, all, code);
        cache_free_keys(&keys);
    }
    tuff_cache_close(cache);
    return code;
}

const cli_verb cache_verb_show = {
    .name = "cache show",
    .operand = "[KEY]",
    .summary = "Shows what is stored for a key: winner, times, runners-up, and why it is used or not.",
    .about = "KEY is a prefix of the key's 32 digits that no other key has.",
    .run = show,
};

/* Returns the word for a tier up to the one that was taken. What is found below T3 is only the start of a search. */
static const char *outcome_of(const tune_lookup_result *result, int tier)
{
    if (tier < (int)result->tier)
        return "miss";
    return tier == TIER_SEED || tier == TIER_PORTFOLIO ? "SEED" : "HIT ";
}

static void print_explanation(const tune_environment *environment, bool is_here, const tune_lookup_result *result)
{
    printf("  on %s, %s%s\n", environment->device, environment->driver, is_here ? ", on this machine" : "");
    for (int tier = 0; tier <= (int)result->tier; tier++)
        printf("    T%d %-12s %s %s\n", tier, tuff__tier_text((tune_tier)tier), outcome_of(result, tier),
               result->why[tier]);
    printf("    runs with %s\n", cache_candidate(result->candidate));
    for (int i = 0; i < result->seed_count; i++)
        printf("    seed %s\n", cache_candidate(result->seeds[i]));
}

static json_t *json_explanation(const tune_environment *environment, bool is_here, const tune_lookup_result *result)
{
    json_t *tiers = json_array(), *seeds = json_array();
    for (int tier = 0; tier <= (int)result->tier; tier++)
        (void)json_array_append_new(tiers, json_pack("{s:i, s:s, s:b, s:s}", "tier", tier, "name",
                                                     tuff__tier_text((tune_tier)tier), "hit",
                                                     (int)(tier == (int)result->tier), "why", result->why[tier]));
    for (int i = 0; i < result->seed_count; i++)
        (void)json_array_append_new(seeds, json_string(result->seeds[i]));
    return json_pack("{s:s, s:b, s:s, s:o, s:o}", "environment", ENVIRONMENT_TEXT(environment), "here", (int)is_here,
                     "candidate", result->candidate, "tiers", tiers, "seeds", seeds);
}

/* Whether a store's environment is neither that of a device here nor that of an earlier store. A key is explained for
   the devices here, then for the stores, each environment once. */
static bool is_first(const tuff_cache *cache, int index)
{
    const tune_environment *environment = &cache->files[index].environment;
    if (!cache->files[index].is_described)
        return false;
    for (int i = 0; i < cache->local_device_count; i++)
        if (tuff__environment_compare(&cache->local_devices[i], environment) == LIKENESS_SAME)
            return false;
    for (int i = 0; i < index; i++)
        if (cache->files[i].is_described &&
            tuff__environment_compare(&cache->files[i].environment, environment) == LIKENESS_SAME)
            return false;
    return true;
}

static bool explain_one(const tuff_cache *cache, const tune_environment *environment, bool is_here, const char *op,
                        json_t *list)
{
    tune_lookup_result result;
    if (tuff__cache_lookup(cache, environment, op, &result) != TUFF_OK)
        return false;
    if (list)
        (void)json_array_append_new(list, json_explanation(environment, is_here, &result));
    else
        print_explanation(environment, is_here, &result);
    return true;
}

/* Explains a key. All stores take part in the lookup, whatever the filter is. */
static int explain_key(const tuff_cache *cache, const cache_key *key, const cache_common *common)
{
    json_t *list = common->json ? json_array() : NULL;
    bool known = true;
    int count = 0;
    if (!common->json)
        printf("%s %s\n", ALL_DIGITS(key->hash), key->op);
    for (int i = 0; i < cache->local_device_count && known; i++)
        if (tuff__cache_is_wanted(common->device, "", ENVIRONMENT_TEXT(&cache->local_devices[i]))) {
            known = explain_one(cache, &cache->local_devices[i], true, key->op, list);
            count++;
        }
    for (int i = 0; i < cache->count && known; i++)
        if (is_first(cache, i) && tuff__cache_is_wanted(common->device, cache->files[i].name, cache->files[i].text)) {
            known = explain_one(cache, &cache->files[i].environment, false, key->op, list);
            count++;
        }
    json_t *out =
        list ? json_pack("{s:s, s:s, s:o}", "key", ALL_DIGITS(key->hash), "op", key->op, "environments", list) : NULL;
    if (!known || count == 0)
        json_decref(out);
    if (!known)
        return CACHE_FAIL(&cache_verb_explain, "the key is from another version and is never used");
    if (count == 0)
        return common->selector ? cache_fail_unmatched(&cache_verb_explain, "device and no store", common)
                                : cli_fail(&cache_verb_explain, CACHE_FINDINGS, "no device and no store");
    return list ? cache_print_json(&cache_verb_explain, out, CACHE_OK) : CACHE_OK;
}

static int explain_in(tuff_cache *cache, const char *operand, const cache_common *common)
{
    tune_key parsed;
    cache_keys keys;
    (void)tuff__cache_list_local_devices(cache);
    if (operand && strchr(operand, '|')) {
        if (tuff__key_parse(operand, &parsed) != TUFF_OK)
            return cache_fail(&cache_verb_explain, "KEY");
        return explain_key(cache, &(cache_key){tuff__key_hash(&parsed), operand}, common);
    }
    int code = cache_find_keys(&cache_verb_explain, cache, &(cache_selection){.prefix = operand}, &keys);
    if (code != CACHE_OK)
        return code;
    code = explain_key(cache, &keys.items[0], common);
    cache_free_keys(&keys);
    return code;
}

static int explain(int count, char **arguments)
{
    cache_common common = {0};
    tuff_cache *cache;
    const char *operand = NULL;
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_explain, options, 2, count, arguments, &operand, NULL, &common);
    if (end.now)
        return end.code;
    int code = cache_open_any(&cache_verb_explain, NULL, &cache);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    code = explain_in(cache, operand, &common);
    tuff_cache_close(cache);
    return code;
}

const cli_verb cache_verb_explain = {
    .name = "cache explain",
    .operand = "KEY",
    .summary = "Explains tier by tier why a key hits or misses, on this machine's devices and those of stores.",
    .about = "KEY is a prefix of a stored key's 32 digits, or the full text of any key: \"matmul 00.. | f32 | ...\".",
    .run = explain,
};
