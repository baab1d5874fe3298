/* tuff cache pin, unpin and retune: what users decide about keys. */
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"
#include "tools/cache/rerun.h"

static int report(const cli_verb *verb, const cache_common *common, const char *subject, int count)
{
    if (common->json) {
        tuff__json_begin();
        return cache_print_json(verb, json_pack("{s:i}", subject, count), CACHE_OK);
    }
    printf("%s %d\n", subject, count);
    return CACHE_OK;
}

typedef struct pin_report {
    const cache_key *key;
    const char *candidate;
    bool json;
} pin_report;

static void print_pin(const cache_file *file, void *state)
{
    const pin_report *report = state;
    if (!report->json)
        printf("%s %s on %s, %s: %s\n", KEY_DIGITS(report->key->hash), report->key->op, file->environment.device,
               file->environment.driver, cache_candidate(report->candidate));
}

/* Pins a candidate. One that was rejected is a finding, not an error. */
static int pin_key(tuff_cache *cache, const cache_key *key, const char *candidate, const cache_common *common)
{
    int pinned;
    pin_report to = {key, candidate, common->json};
    const tuff_status status = tuff__cache_pin_known(cache, key->op, candidate, print_pin, &to, &pinned);
    if (status == TUFF_E_UNSUPPORTED)
        return cli_fail(&cache_verb_pin, CACHE_FINDINGS, "%s", tuff_error());
    if (status != TUFF_OK)
        return cache_fail(&cache_verb_pin, "writing the store");
    return common->json ? report(&cache_verb_pin, common, "pinned", pinned) : CACHE_OK;
}

/* Writes the canonical text of a candidate; prints a message if it is invalid. */
static int read_candidate(const char *source, text *out)
{
    if (tuff__cache_canonical_candidate(strcmp(source, "default") == 0 ? "" : source, out) != TUFF_OK)
        return cache_fail(&cache_verb_pin, "not a valid candidate");
    return CACHE_OK;
}

static int pin_operands(const cli_strings *operands, const cache_common *common)
{
    tuff_cache *cache;
    cache_keys keys;
    text candidate = {0};
    if (operands->count != 2)
        return cli_fail(&cache_verb_pin, EXIT_USAGE, "expected a KEY and a CANDIDATE");
    int code = read_candidate(operands->items[1], &candidate);
    if (code == CACHE_OK)
        code = cache_open(&cache_verb_pin, common, &cache);
    if (code == CACHE_OK) {
        code = cache_find_keys(&cache_verb_pin, cache, &(cache_selection){.prefix = operands->items[0]}, &keys);
        if (code == CACHE_OK) {
            code = pin_key(cache, &keys.items[0], tuff__text_get(&candidate), common);
            cache_free_keys(&keys);
        }
        tuff_cache_close(cache);
    }
    tuff__text_free(&candidate);
    return code;
}

static int pin(int count, char **arguments)
{
    cache_common common = {0};
    cli_strings operands = {0};
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_pin, options, 2, count, arguments, NULL, &operands, &common);
    const int code = end.now ? end.code : pin_operands(&operands, &common);
    cli_texts_free(&operands);
    return code;
}

const cli_verb cache_verb_pin = {
    .name = "cache pin",
    .operand = "KEY CANDIDATE",
    .summary = "Makes a key use a candidate, regardless of measurements.",
    .about =
        "CANDIDATE is a text such as \"matmul_register.tile_rows=8;matmul_register.local_size=4\" (any order), or\n"
        "\"default\". It is pinned in every store that matches --device and has the key.",
    .run = pin,
};

static int drop_keys(const cli_verb *verb, tuff_cache *cache, const cache_keys *keys, record_kind kind, int *dropped)
{
    hash128 *hashes = tuff__calloc((size_t)keys->count + 1, sizeof *hashes);
    cache_drop one = {.kind = kind, .keys = hashes, .key_count = keys->count};
    for (int i = 0; hashes && i < keys->count; i++)
        hashes[i] = keys->items[i].hash;
    tuff_status status = hashes ? tuff__cache_drop_records(cache, &one) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK && kind == RECORD_WIN)
        status = tuff__cache_hide_shipped(cache, &one);
    tuff__free(hashes);
    *dropped = one.dropped;
    return status == TUFF_OK ? CACHE_OK : cache_fail(verb, "rewriting the stores");
}

/* Drops one kind of record of the selected keys and closes the cache; both unpin and retune use it. */
static int drop_selected(const cli_verb *verb, tuff_cache *cache, record_kind kind, const cache_common *common,
                         const cache_selection *which, const char *subject)
{
    cache_keys keys;
    int dropped, code = cache_find_keys(verb, cache, which, &keys);
    if (code == CACHE_OK) {
        code = drop_keys(verb, cache, &keys, kind, &dropped);
        if (code == CACHE_OK)
            code = report(verb, common, subject, dropped);
        cache_free_keys(&keys);
    }
    tuff_cache_close(cache);
    return code;
}

static int unpin(int count, char **arguments)
{
    cache_common common = {0};
    cache_selection which = {0};
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_unpin, options, 2, count, arguments, &which.prefix, NULL, &common);
    tuff_cache *cache;
    const int code = end.now ? end.code : cache_open(&cache_verb_unpin, &common, &cache);
    if (end.now || code != CACHE_OK)
        return code;
    return drop_selected(&cache_verb_unpin, cache, RECORD_PIN, &common, &which, "unpinned");
}

const cli_verb cache_verb_unpin = {
    .name = "cache unpin",
    .operand = "KEY",
    .summary = "Removes a key's pins.",
    .run = unpin,
};

static int drop_winners(const cache_common *common, const cache_selection *which)
{
    tuff_cache *cache;
    const int code = cache_open(&cache_verb_retune, common, &cache);
    return code == CACHE_OK ? drop_selected(&cache_verb_retune, cache, RECORD_WIN, common, which, "dropped") : code;
}

/* Selects the stores of a device. */
static int select_device(const tuff_device *device, cache_common *common)
{
    tuff_device_info info;
    return tuff_device_describe(device, &info) == TUFF_OK &&
                   tuff__cache_resolve_device(info.selector, common->environment, &common->device) == TUFF_OK
               ? CACHE_OK
               : cache_fail(&cache_verb_retune, "finding the device's store");
}

/* Drops winners of a device and measures there at once. A device or a graph that cannot be used costs no winner; a
   device without a store has none to drop. */
static int drop_and_measure(const cache_common *common, const cache_selection *which, const model_options *model)
{
    tuff_device *device;
    tuff_cache *cache;
    cache_common own = *common;
    int code = cache_measure_begin(&cache_verb_retune, common->selector, model, &device);
    if (code == CACHE_OK)
        code = select_device(device, &own);
    if (code == CACHE_OK)
        code = cache_open_any(&cache_verb_retune, own.device, &cache);
    if (code == CACHE_OK)
        code = drop_selected(&cache_verb_retune, cache, RECORD_WIN, &own, which, "dropped");
    if (code == CACHE_OK)
        code = cache_measure(&cache_verb_retune, device, model, TUFF_TUNE_NORMAL);
    tuff_device_close(device);
    return code;
}

static int retune(int count, char **arguments)
{
    cache_common common = {0};
    cache_selection which = {0};
    model_options model = MODEL_OPTIONS_DEFAULT;
    bool measure_now = false;
    const cli_option options[] = {
        CACHE_COMMON(common),
        MODEL_OPTIONS(&model),
        {.name = "--graph",
         .kind = CLI_TEXT,
         .value = &model.file,
         .placeholder = "FILE",
         .help = "graph file whose keys --now measures, instead of a model"},
        {.name = "--now",
         .kind = CLI_SWITCH,
         .value = &measure_now,
         .help = "measure the model's keys right away, like --tune normal"},
        {.name = "--op",
         .kind = CLI_TEXT,
         .value = &which.pattern,
         .placeholder = "PATTERN",
         .help = "keys whose text contains PATTERN, or matches it if it has * or ?"},
        {.name = "--all", .kind = CLI_SWITCH, .value = &which.all, .help = "all keys of the stores"}};
    const cli_end end = cache_parse(&cache_verb_retune, options, sizeof options / sizeof *options, count, arguments,
                                    &which.prefix, NULL, &common);
    if (end.now)
        return end.code;
    if (measure_now != (model.given || model.file))
        return cli_fail(&cache_verb_retune, EXIT_USAGE,
                        measure_now  ? "--now needs model options (such as --layers) or --graph FILE"
                        : model.file ? "--graph needs --now"
                                     : "model options need --now");
    if (measure_now && model_options_complete(&model) != TUFF_OK)
        return cli_fail(&cache_verb_retune, EXIT_USAGE, "%s", tuff_error());
    return measure_now ? drop_and_measure(&common, &which, &model) : drop_winners(&common, &which);
}

const cli_verb cache_verb_retune = {
    .name = "cache retune",
    .operand = "[KEY]",
    .summary = "Drops the winners of keys, so that they are measured again.",
    .about = "Pins and rejected candidates are kept. A winner that was shipped with tuff becomes a seed of the search. "
             "--now\n"
             "compiles the model that --layers and the options below it describe, or the graph FILE, and measures its "
             "keys that have no winner. It drops winners of that device only.",
    .run = retune,
};
