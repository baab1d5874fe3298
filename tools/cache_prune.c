/* tuff cache prune: drops what is old, and rewrites stores without what is damaged or superseded. Pins are never
   dropped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache.h"
#include "tune/generator.h"
#include "tune/tidy.h"

typedef struct pruning {
    const char *older;
    bool old_drivers, stale_texts, dry;
    int64_t most; /* bytes */
    bool has_most;

    uint64_t cutoff;      /* records before it are dropped; 0: none */
    uint64_t size_cutoff; /* records up to it are dropped, for the size; 0: none */
    hash128 *old;         /* environments with a newer driver */
    int old_count, old_capacity;
    int dropped, kept;
} pruning;

/* "90d": seconds; 0 where it is no such text. */
static uint64_t read_age(const char *source)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {{'h', 3600}, {'d', 86400}, {'w', 7 * 86400}, {'y', 365 * 86400}};
    char *end;
    const unsigned long long count = strtoull(source, &end, 10);
    if (strspn(source, "0123456789") == 0 || count == 0 || count > 100000 || !end[0] || end[1])
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (*end == units[i].unit)
            return count * units[i].seconds;
    return 0;
}

/* Of the device's drivers, only that of the newest records is none of the old ones. */
static tuff_status find_old_drivers(const cache_stores *stores, pruning *of)
{
    for (int i = 0; i < stores->count; i++)
        for (int k = 0; k < stores->count; k++) {
            const cache_store *store = &stores->items[i], *other = &stores->items[k];
            if (store->is_shipped || other->is_shipped || !store->is_described || !other->is_described ||
                tuff__environment_compare(&store->environment, &other->environment) != LIKENESS_OTHER_DRIVER ||
                cache_newest(store->store) >= cache_newest(other->store))
                continue;
            if (!GROW(of->old, of->old_count, of->old_capacity))
                return TUFF_E_OOM_HOST;
            of->old[of->old_count++] = tuff__hash_text(store->text);
        }
    return TUFF_OK;
}

/* Shipped files are none of ours to count. */
static tuff_status find_size_cutoff(const cache_stores *stores, pruning *of)
{
    int ours = 0;
    while (ours < stores->count && !stores->items[ours].is_shipped)
        ours++;
    return tuff__tidy_cutoff(stores->plain, ours, (uint64_t)of->most, &of->size_cutoff);
}

static bool is_stale(const tune_record *record)
{
    char family[32], today[GENERATOR_SIZE];
    snprintf(family, sizeof family, "%.*s", (int)strcspn(record->op, " "), record->op);
    return strcmp(record->generator, tuff__generator_of(family, today)) != 0;
}

static bool drops(const tune_record *record, void *state)
{
    pruning *of = state;
    if (record->kind == RECORD_ENVIRONMENT)
        return false;
    bool drop = record->kind != RECORD_PIN &&
                (record->time < of->cutoff || (of->size_cutoff > 0 && record->time <= of->size_cutoff));
    for (int i = 0; i < of->old_count && record->kind != RECORD_PIN; i++)
        drop |= tuff__is_same_hash(of->old[i], record->environment);
    drop |= of->stale_texts && record->kind != RECORD_PIN && is_stale(record);
    of->dropped += drop;
    of->kept += !drop;
    return drop;
}

static void report_store(const cache_store *store, const pruning *of, json_t *list, uint64_t before)
{
    const uint64_t after = tuff__store_count(store->store).bytes;
    if (list) {
        (void)json_array_append_new(list,
                                    json_pack("{s:o, s:i, s:i, s:b, s:I, s:I}", "path", cache_json_text(store->path),
                                              "dropped", of->dropped, "kept", of->kept, "dry_run", (int)of->dry,
                                              "bytes_before", (json_int_t)before, "bytes_after", (json_int_t)after));
        return;
    }
    printf("%s: %s %d of %d records", store->name, of->dry ? "would drop" : "dropped", of->dropped,
           of->dropped + of->kept);
    if (!of->dry)
        printf(", %s -> %s", BYTES_TEXT(before), BYTES_TEXT(after));
    putchar('\n');
}

static int prune_store(const cache_store *store, pruning *of, json_t *list)
{
    const tune_record *record;
    const uint64_t before = tuff__store_count(store->store).bytes;
    of->dropped = of->kept = 0;
    if (of->dry)
        for (int at = 0; (record = tuff__store_next(store->store, &at));)
            (void)drops(record, of);
    else if (tuff__store_compact(store->store, drops, of) != TUFF_OK)
        return cache_fail(&cache_verb_prune, store->path);
    report_store(store, of, list, before);
    return CACHE_OK;
}

static int prune_all(const cache_stores *stores, pruning *of, const cache_common *common)
{
    tuff_status status = of->old_drivers ? find_old_drivers(stores, of) : TUFF_OK;
    if (status == TUFF_OK && of->has_most)
        status = find_size_cutoff(stores, of);
    if (status != TUFF_OK)
        return cache_fail(&cache_verb_prune, "the stores");
    tuff__json_begin();
    int code = CACHE_OK;
    json_t *list = common->json ? json_array() : NULL;
    for (int i = 0; i < stores->count; i++)
        if (!stores->items[i].is_shipped) {
            const int result = prune_store(&stores->items[i], of, list);
            code = result != CACHE_OK ? result : code;
        }
    return common->json ? cache_print_json(&cache_verb_prune, list, code) : code;
}

static int prune(int count, char **arguments)
{
    cache_common common = {0};
    cache_stores stores;
    pruning of = {0};
    int driver = 0, texts = 0;
    const cli_option options[] = {
        CACHE_COMMON(common),
        {.name = "--older",
         .kind = CLI_TEXT,
         .value = &of.older,
         .placeholder = "AGE",
         .help = "what is older: 90d, 12w, 1y"},
        {.name = "--driver",
         .kind = CLI_CHOICE,
         .value = &driver,
         .placeholder = "old",
         .help = "what was measured with a driver of which a newer one has been measured",
         .given = &of.old_drivers},
        {.name = "--kgen",
         .kind = CLI_CHOICE,
         .value = &texts,
         .placeholder = "stale",
         .help = "what was measured with other kernel texts than this version's",
         .given = &of.stale_texts},
        {.name = "--max",
         .kind = CLI_BYTES,
         .value = &of.most,
         .placeholder = "SIZE",
         .help = "the oldest, until the stores together take no more: 16M",
         .low = 1,
         .high = 1e15,
         .given = &of.has_most},
        {.name = "--dry-run", .kind = CLI_SWITCH, .value = &of.dry, .help = "only says what would go"}};
    const cli_end end = cache_parse(&cache_verb_prune, options, sizeof options / sizeof *options, count, arguments,
                                    NULL, NULL, &common);
    if (end.now)
        return end.code;
    const uint64_t age = of.older ? read_age(of.older) : 0;
    if (of.older && age == 0)
        return cli_fail(&cache_verb_prune, EXIT_WRONG_USE,
                        "--older takes an age, as in 36h, 90d, 12w or 1y, not \"%s\"", of.older);
    of.cutoff = age > 0 && age < cache_now() ? cache_now() - age : 0;
    int code = cache_open(&cache_verb_prune, common.device, &stores);
    if (code != CACHE_OK)
        return code;
    code = prune_all(&stores, &of, &common);
    tuff__free(of.old);
    cache_close(&stores);
    return code;
}

const cli_verb cache_verb_prune = {
    .name = "cache prune",
    .summary = "Drops what is old, or too much; without options only what is damaged or superseded.",
    .about = "Pins stay, and so do lines of later versions and the files of processes that may still run.",
    .run = prune,
};
