/* tuff cache export and import: writes stores to one file for another machine, and reads such a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"

/* Prints the export to stdout. Files are written by the library. */
static int print_export(const tuff_cache *cache, tuff_cache_export_kind form)
{
    tuff_cache_exported counts;
    text lines = {0};
    int code = CACHE_OK;
    if (tuff__cache_export_text(cache, form, &lines, &counts) != TUFF_OK)
        code = cache_fail(&cache_verb_export, "collecting the records");
    else if (fwrite(tuff__text_get(&lines), 1, lines.length, stdout) != lines.length)
        code = CACHE_FAIL(&cache_verb_export, "cannot write the output");
    tuff__text_free(&lines);
    return code;
}

static int write_export(const tuff_cache *cache, tuff_cache_export_kind form, const char *path, bool json)
{
    tuff_cache_exported counts;
    if (tuff_cache_export(cache, path, form, &counts) != TUFF_OK)
        return cache_fail(&cache_verb_export, "writing the file");
    if (json)
        return cache_print_json(&cache_verb_export,
                                json_pack("{s:o, s:i, s:i, s:i, s:i, s:i}", "path", cache_json_text(path), "win",
                                          counts.winners, "bad", counts.rejected, "pin", counts.pins, "environments",
                                          counts.environments, "left_out", counts.left_out),
                                CACHE_OK);
    printf("exported %d win, %d bad, %d pin of %d environments to %s\n", counts.winners, counts.rejected, counts.pins,
           counts.environments, path);
    if (counts.left_out > 0)
        printf("left out %d keys whose candidates can no longer be used; see tuff cache explain\n", counts.left_out);
    return CACHE_OK;
}

static int export_to(const char *path, tuff_cache_export_kind form, const cache_common *common)
{
    tuff_cache *cache;
    int code = cache_open(&cache_verb_export, common, &cache);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    code = strcmp(path, "-") == 0 ? print_export(cache, form) : write_export(cache, form, path, common->json);
    for (int i = 0; i < cache->count && code == CACHE_OK; i++)
        if (cache->files[i].is_wanted && tuff__store_error(cache->files[i].store)[0])
            code = CACHE_FINDINGS;
    tuff_cache_close(cache);
    return code;
}

static int run_export(int count, char **arguments)
{
    cache_common common = {0};
    bool lock = false, anonymous = false;
    const char *path = NULL;
    const cli_option options[] = {CACHE_COMMON(common),
                                  {.name = "--manifest",
                                   .kind = CLI_SWITCH,
                                   .value = &lock,
                                   .help = "write a manifest: a pin for the candidate that each key uses"},
                                  {.name = "--anon",
                                   .kind = CLI_SWITCH,
                                   .value = &anonymous,
                                   .help = "leave out pins, and the time of day of records"}};
    const cli_end end = cache_parse(&cache_verb_export, options, 4, count, arguments, &path, NULL, &common);
    if (end.now)
        return end.code;
    if (!path)
        return cli_fail(&cache_verb_export, EXIT_USAGE, "expected a FILE, or - for standard output");
    if (lock && anonymous)
        return cli_fail(&cache_verb_export, EXIT_USAGE, "--manifest and --anon cannot be combined");
    const tuff_cache_export_kind form = lock        ? TUFF_CACHE_EXPORT_MANIFEST
                                        : anonymous ? TUFF_CACHE_EXPORT_ANONYMOUS
                                                    : TUFF_CACHE_EXPORT_ALL;
    return export_to(path, form, &common);
}

const cli_verb cache_verb_export = {
    .name = "cache export",
    .operand = "FILE",
    .summary = "Writes the stores to one file that other machines can import.",
    .run = run_export,
};

/* Prints "imported 380, skipped 20 (local newer), seeds 12 (driver differs), rejected 1 (crc)". */
static void print_import(const tuff_cache_imported *counts, bool as_seed)
{
    printf("imported %d, skipped %d (local newer), seeds %d (%s)", counts->imported, counts->skipped, counts->seeds,
           as_seed ? "as requested" : "driver differs");
    if (counts->other_devices)
        printf(", other devices %d (seeds for similar devices)", counts->other_devices);
    printf(", rejected %" PRIu64 " (crc)", counts->damaged);
    if (counts->unknown_environments)
        printf(", %d (unknown environment)", counts->unknown_environments);
    if (counts->unknown)
        printf(", %" PRIu64 " (from a later version)", counts->unknown);
    putchar('\n');
}

static int report_import(const tuff_cache_imported *counts, bool as_seed, const cache_common *common)
{
    const int code = counts->damaged || counts->unknown || counts->unknown_environments ? CACHE_FINDINGS : CACHE_OK;
    if (!common->json) {
        print_import(counts, as_seed);
        return code;
    }
    return cache_print_json(&cache_verb_import,
                            json_pack("{s:i, s:i, s:i, s:i, s:I, s:i, s:I}", "imported", counts->imported, "skipped",
                                      counts->skipped, "seeds", counts->seeds, "other_devices", counts->other_devices,
                                      "damaged", (json_int_t)counts->damaged, "environment_unknown",
                                      counts->unknown_environments, "later_version", (json_int_t)counts->unknown),
                            code);
}

static int run_import(int count, char **arguments)
{
    cache_common common = {0};
    tuff_cache *cache;
    tuff_cache_imported counts;
    bool as_seed = false;
    const char *path = NULL;
    const cli_option options[] = {
        CACHE_COMMON(common),
        {.name = "--as-seed",
         .kind = CLI_SWITCH,
         .value = &as_seed,
         .help = "import only winners, as seeds: they are measured again before they are used"}};
    const cli_end end = cache_parse(&cache_verb_import, options, 3, count, arguments, &path, NULL, &common);
    if (end.now)
        return end.code;
    if (!path)
        return cli_fail(&cache_verb_import, EXIT_USAGE, "expected a FILE");
    int code = cache_open_any(&cache_verb_import, common.device, &cache);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    code = cache_check_files(&cache_verb_import, &common, cache, &path, 1);
    if (code == CACHE_OK)
        code = tuff_cache_import(cache, path, as_seed, &counts) == TUFF_OK
                   ? report_import(&counts, as_seed, &common)
                   : cache_fail(&cache_verb_import, "importing the file");
    tuff_cache_close(cache);
    return code;
}

const cli_verb cache_verb_import = {
    .name = "cache import",
    .operand = "FILE",
    .summary = "Imports the records of an exported file; newer records of this machine are kept.",
    .about = "Exits with 1 if lines of the file are damaged, from a later version, or of an unknown environment.",
    .run = run_import,
};
