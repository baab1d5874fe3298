/* tuff cache pin, unpin and retune: what a person decides about keys. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "io/json.h"
#include "tools/cache.h"
#include "tools/cache_rerun.h"
#include "tune/choice.h"

/* What happens to each of the chosen keys in each store of the filter. */
typedef struct change {
    const cli_verb *verb;
    cache_stores *stores;
    const cache_keys *keys;
    record_kind kind; /* that is dropped */
    int dropped;
} change;

static bool is_chosen(const cache_keys *keys, hash128 key)
{
    for (int i = 0; i < keys->count; i++)
        if (tuff__is_same_hash(keys->items[i].hash, key))
            return true;
    return false;
}

static bool drops(const tune_record *record, void *state)
{
    change *of = state;
    const bool drop = record->kind == of->kind && is_chosen(of->keys, record->key);
    of->dropped += drop;
    return drop;
}

/* Rewrites those of our stores that have such a record. */
static int drop_records(change *of)
{
    for (int i = 0; i < of->stores->count; i++) {
        const cache_store *store = &of->stores->items[i];
        const tune_record *record;
        bool concerned = false;
        if (tuff__store_trouble(store->store)[0])
            return CACHE_REFUSE(of->verb, "%s", tuff__store_trouble(store->store));
        for (int at = 0; !store->is_shipped && !concerned && (record = tuff__store_next(store->store, &at));)
            concerned = record->kind == of->kind && is_chosen(of->keys, record->key);
        if (concerned && tuff__store_compact(store->store, drops, of) != TUFF_OK)
            return cache_fail(of->verb, store->path);
    }
    return CACHE_OK;
}

static int report(const cli_verb *verb, const cache_common *common, const char *what, int count)
{
    if (common->json) {
        tuff__json_begin();
        return cache_print_json(verb, json_pack("{s:i}", what, count), CACHE_OK);
    }
    printf("%s %d\n", what, count);
    return CACHE_OK;
}

/* Appends to our store of the environment; false after a message. */
static bool append(const cli_verb *verb, const char *environment, const tune_record *record)
{
    tune_store *store = NULL;
    tuff_status status = tuff__tune_open(environment, &store);
    if (status == TUFF_OK)
        status = tuff__store_add(store, record);
    if (status == TUFF_OK && tuff__store_trouble(store)[0])
        status = FAIL(TUFF_E_IO, "%s", tuff__store_trouble(store));
    if (status != TUFF_OK)
        (void)cache_fail(verb, "the store");
    tuff__store_close(store);
    return status == TUFF_OK;
}

static tune_record pin_of(const cache_store *store, const cache_key *key, const char *candidate)
{
    tune_record pin = tuff__empty_record;
    pin.kind = RECORD_PIN;
    pin.environment = tuff__hash_text(store->text);
    pin.key = key->hash;
    pin.op = key->op;
    pin.candidate = candidate;
    pin.reason = "user";
    pin.time = cache_now();
    return pin;
}

/* Whether the store, or an earlier one of its environment, knows the key. */
static bool knows(const cache_store *store, hash128 key)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store->store, &at));)
        if (record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->key, key))
            return true;
    return false;
}

static bool was_done(const cache_stores *stores, int index, hash128 key)
{
    for (int i = 0; i < index; i++)
        if (strcmp(stores->items[i].text, stores->items[index].text) == 0 && knows(&stores->items[i], key))
            return true;
    return false;
}

static int pin_in(const cache_store *store, const cache_key *key, const char *candidate)
{
    const hash128 environment = tuff__hash_text(store->text);
    const tune_record *bad = tuff__store_bad(store->store, environment, key->hash, candidate);
    if (bad)
        return cli_fail(&cache_verb_pin, CACHE_FINDINGS, "%s is not pinned on %s: it was rejected there, %s in %s",
                        cache_candidate(candidate), store->environment.device, bad->reason,
                        bad->phase[0] ? bad->phase : "use");
    const tune_record pin = pin_of(store, key, candidate);
    return append(&cache_verb_pin, store->text, &pin) ? CACHE_OK : CACHE_TROUBLE;
}

static int pin_key(const cache_stores *stores, const cache_key *key, const char *candidate, const cache_common *common)
{
    int pinned = 0;
    for (int i = 0; i < stores->count; i++) {
        const cache_store *store = &stores->items[i];
        if (!store->is_described || !knows(store, key->hash) || was_done(stores, i, key->hash))
            continue;
        const int code = pin_in(store, key, candidate);
        if (code != CACHE_OK)
            return code;
        if (!common->json)
            printf("%s %s on %s, %s: %s\n", KEY_DIGITS(key->hash), key->op, store->environment.device,
                   store->environment.driver, cache_candidate(candidate));
        pinned++;
    }
    return common->json ? report(&cache_verb_pin, common, "pinned", pinned) : CACHE_OK;
}

/* The canonical text of a candidate, or a message. */
static int read_candidate(const char *source, text *out)
{
    choice parsed;
    if (strcmp(source, "default") == 0)
        source = "";
    if (tuff__choice_parse(source, &parsed) != TUFF_OK)
        return cache_fail(&cache_verb_pin, "this is no candidate");
    tuff__choice_format(&parsed, out);
    return tuff__text_status(out) == TUFF_OK ? CACHE_OK : cache_fail(&cache_verb_pin, "CANDIDATE");
}

static int pin_operands(const cli_texts *operands, const cache_common *common)
{
    cache_stores stores;
    cache_keys keys;
    text candidate = {0};
    if (operands->count != 2)
        return cli_fail(&cache_verb_pin, EXIT_WRONG_USE, "give a KEY and a CANDIDATE");
    int code = read_candidate(operands->items[1], &candidate);
    if (code == CACHE_OK)
        code = cache_open(&cache_verb_pin, common->device, &stores);
    if (code == CACHE_OK) {
        code = cache_find_keys(&cache_verb_pin, &stores, &(cache_selection){.prefix = operands->items[0]}, &keys);
        if (code == CACHE_OK) {
            code = pin_key(&stores, &keys.items[0], tuff__text_get(&candidate), common);
            cache_free_keys(&keys);
        }
        cache_close(&stores);
    }
    tuff__text_free(&candidate);
    return code;
}

static int pin(int count, char **arguments)
{
    cache_common common = {0};
    cli_texts operands = {0};
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_pin, options, 2, count, arguments, NULL, &operands, &common);
    const int code = end.now ? end.code : pin_operands(&operands, &common);
    cli_texts_free(&operands);
    return code;
}

const cli_verb cache_verb_pin = {
    .name = "cache pin",
    .operand = "KEY CANDIDATE",
    .summary = "Makes a key run with a candidate, whatever was measured.",
    .about =
        "CANDIDATE is a text such as \"matmul_register.tile_rows=8;matmul_register.local_size=4\" (any order), or\n"
        "\"default\". It is pinned in every store of the filter that knows the key.",
    .run = pin,
};

/* A shipped winner cannot be dropped: a seed in our store stands before it. */
static int hide_shipped(change *of)
{
    for (int i = 0; i < of->stores->count; i++) {
        const cache_store *store = &of->stores->items[i];
        const tune_record *record;
        for (int at = 0; store->is_shipped && store->is_described && (record = tuff__store_next(store->store, &at));) {
            if (record->kind != RECORD_WIN || !is_chosen(of->keys, record->key))
                continue;
            tune_record seed = *record;
            seed.source = "seed";
            const char *environment = tuff__store_environment(store->store, record->environment);
            if (environment && !append(of->verb, environment, &seed))
                return CACHE_TROUBLE;
            of->dropped += environment != NULL;
        }
    }
    return CACHE_OK;
}

/* Both verbs drop a kind of record of the chosen keys. */
static int drop_chosen(const cli_verb *verb, record_kind kind, const cache_common *common, const cache_selection *which,
                       const char *what)
{
    cache_stores stores;
    cache_keys keys;
    int code = cache_open(verb, common->device, &stores);
    if (code != CACHE_OK)
        return code;
    code = cache_find_keys(verb, &stores, which, &keys);
    if (code == CACHE_OK) {
        change of = {.verb = verb, .stores = &stores, .keys = &keys, .kind = kind};
        code = drop_records(&of);
        if (code == CACHE_OK && kind == RECORD_WIN)
            code = hide_shipped(&of);
        if (code == CACHE_OK)
            code = report(verb, common, what, of.dropped);
        cache_free_keys(&keys);
    }
    cache_close(&stores);
    return code;
}

static int unpin(int count, char **arguments)
{
    cache_common common = {0};
    cache_selection which = {0};
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_unpin, options, 2, count, arguments, &which.prefix, NULL, &common);
    return end.now ? end.code : drop_chosen(&cache_verb_unpin, RECORD_PIN, &common, &which, "unpinned");
}

const cli_verb cache_verb_unpin = {
    .name = "cache unpin",
    .operand = "KEY",
    .summary = "Takes a key's pins away.",
    .run = unpin,
};

static int retune(int count, char **arguments)
{
    cache_common common = {0};
    cache_selection which = {0};
    model_options model = MODEL_OPTIONS_USUAL;
    bool now = false;
    const cli_option options[] = {
        CACHE_COMMON(common),
        MODEL_OPTIONS(&model),
        {.name = "--now",
         .kind = CLI_SWITCH,
         .value = &now,
         .help = "measures the model's keys at once, as --tune normal"},
        {.name = "--op",
         .kind = CLI_TEXT,
         .value = &which.pattern,
         .placeholder = "PATTERN",
         .help = "keys whose text has PATTERN in it, or matches it where it has * or ?"},
        {.name = "--all", .kind = CLI_SWITCH, .value = &which.all, .help = "all keys of the stores"}};
    const char *device = cache_device_name(count, arguments);
    const bool has_model = model_options_given(count, arguments);
    const cli_end end = cache_parse(&cache_verb_retune, options, sizeof options / sizeof *options, count, arguments,
                                    &which.prefix, NULL, &common);
    if (end.now)
        return end.code;
    if (now != has_model)
        return cli_fail(&cache_verb_retune, EXIT_WRONG_USE,
                        now ? "--now needs the model whose keys are measured: --layers and the like"
                            : "a model is for --now");
    if (now && model_options_complete(&model) != TUFF_OK)
        return cli_fail(&cache_verb_retune, EXIT_WRONG_USE, "%s", tuff_error());
    const int code = drop_chosen(&cache_verb_retune, RECORD_WIN, &common, &which, "dropped");
    return now && code == CACHE_OK ? cache_measure(&cache_verb_retune, device, &model, TUFF_TUNE_NORMAL) : code;
}

const cli_verb cache_verb_retune = {
    .name = "cache retune",
    .operand = "[KEY]",
    .summary = "Drops the winners of keys, so that the next start measures again.",
    .about =
        "Pins and rejected candidates stay. A winner that was shipped becomes a seed of the search. --now\n"
        "compiles the model that --layers and the options below it describe, and measures its keys that are unknown.",
    .run = retune,
};
