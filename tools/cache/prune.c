/* tuff cache prune: drops old records, and rewrites stores without damaged and superseded lines. Pins are never
   dropped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"

/* Returns the seconds of an age such as "90d"; 0 if the text is not an age. */
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

static void report_store(const cache_file *store, const pruning *state, json_t *list, uint64_t before)
{
    const uint64_t after = tuff__store_count(store->store).bytes;
    if (list) {
        (void)json_array_append_new(list, json_pack("{s:o, s:i, s:i, s:b, s:I, s:I}", "path",
                                                    cache_json_text(store->path), "dropped", state->dropped, "kept",
                                                    state->kept, "dry_run", (int)state->options.dry_run, "bytes_before",
                                                    (json_int_t)before, "bytes_after", (json_int_t)after));
        return;
    }
    printf("%s: %s %d of %d records", store->name, state->options.dry_run ? "would drop" : "dropped", state->dropped,
           state->dropped + state->kept);
    if (!state->options.dry_run)
        printf(", %s -> %s", BYTES_TEXT(before), BYTES_TEXT(after));
    putchar('\n');
}

static int prune_all(tuff_cache *cache, const tuff_cache_prune_options *options, const cache_common *common)
{
    pruning state;
    int code = CACHE_OK;
    if (tuff__prune_begin(cache, options, &state) != TUFF_OK)
        return cache_fail(&cache_verb_prune, "reading the stores");
    tuff__json_begin();
    json_t *list = common->json ? json_array() : NULL;
    for (int i = 0; i < cache->count; i++) {
        const cache_file *file = &cache->files[i];
        const uint64_t before = tuff__store_count(file->store).bytes;
        if (!file->is_wanted || file->is_shipped)
            continue;
        if (tuff__prune_file(cache, i, &state) == TUFF_OK)
            report_store(file, &state, list, before);
        else
            code = cache_fail(&cache_verb_prune, file->path);
    }
    tuff__prune_end(&state);
    return common->json ? cache_print_json(&cache_verb_prune, list, code) : code;
}

static int prune(int count, char **arguments)
{
    cache_common common = {0};
    tuff_cache *cache;
    tuff_cache_prune_options criteria = {0};
    const char *older = NULL;
    int64_t max_bytes = 0;
    int driver = 0, kernels = 0;
    const cli_option options[] = {
        CACHE_COMMON(common),
        {.name = "--older",
         .kind = CLI_TEXT,
         .value = &older,
         .placeholder = "AGE",
         .help = "drop records older than AGE, such as 36h, 90d, 12w or 1y"},
        {.name = "--driver",
         .kind = CLI_CHOICE,
         .value = &driver,
         .placeholder = "old",
         .help = "drop records of drivers that have been measured in a newer version",
         .given = &criteria.old_drivers},
        {.name = "--kernels",
         .kind = CLI_CHOICE,
         .value = &kernels,
         .placeholder = "stale",
         .help = "drop records of kernel texts other than this version's",
         .given = &criteria.stale_kernels},
        {.name = "--max",
         .kind = CLI_BYTES,
         .value = &max_bytes,
         .placeholder = "BYTES",
         .help = "drop the oldest records until all stores together take at most BYTES, such as 16M",
         .low = 1,
         .high = 1e15},
        {.name = "--dry-run",
         .kind = CLI_SWITCH,
         .value = &criteria.dry_run,
         .help = "only print what would be dropped"}};
    const cli_end end = cache_parse(&cache_verb_prune, options, sizeof options / sizeof *options, count, arguments,
                                    NULL, NULL, &common);
    if (end.now)
        return end.code;
    criteria.older_seconds = older ? read_age(older) : 0;
    criteria.max_bytes = (uint64_t)max_bytes;
    if (older && criteria.older_seconds == 0)
        return cli_fail(&cache_verb_prune, EXIT_USAGE, "--older takes an age, such as 36h, 90d, 12w or 1y, not \"%s\"",
                        older);
    int code = cache_open(&cache_verb_prune, &common, &cache);
    if (code != CACHE_OK)
        return code;
    code = prune_all(cache, &criteria, &common);
    tuff_cache_close(cache);
    return code;
}

const cli_verb cache_verb_prune = {
    .name = "cache prune",
    .summary = "Drops old or excess records; without options, only damaged and superseded lines.",
    .about = "Pins, lines from later versions, and files of processes that may still be running are kept.",
    .run = prune,
};
