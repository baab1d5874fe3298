/* tuff cache verify: reads files line by line and reports what is wrong with each line. */
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"
#include "tools/cache/rerun.h"

/* State of a verification. */
typedef struct verify_state {
    json_t *files, *list; /* of all files, and of the findings in one; NULL if they are printed */
    int code;
} verify_state;

static void begin_file(const char *path, void *user)
{
    verify_state *to = user;
    (void)path;
    json_decref(to->list);
    to->list = to->files ? json_array() : NULL;
}

static void add_finding(void *user, const char *path, int line, const char *subject, const char *detail)
{
    const verify_state *to = user;
    if (to->list)
        (void)json_array_append_new(to->list, json_pack("{s:o, s:i, s:s, s:o}", "path", cache_json_text(path), "line",
                                                        line, "what", subject, "detail", cache_json_text(detail)));
    else
        printf("%s:%d: %s%s%s\n", path, line, subject, detail[0] ? ": " : "", detail);
}

static void report_file(const char *path, const tuff_cache_verify_result *counts, void *user)
{
    verify_state *to = user;
    if (to->files)
        (void)json_array_append_new(
            to->files,
            json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:O}", "path", cache_json_text(path), "ok", counts->ok,
                      "damaged", counts->damaged, "malformed", counts->malformed, "later", counts->unknown, "invalid",
                      counts->invalid, "orphans", counts->orphans, "rejected", counts->rejected, "findings", to->list));
    else
        printf("%s: ok %d  damaged %d  malformed %d  later %d  invalid %d  orphans %d  rejected %d\n", path, counts->ok,
               counts->damaged, counts->malformed, counts->unknown, counts->invalid, counts->orphans, counts->rejected);
    if (tuff__verify_finding_count(counts) > 0 && to->code == CACHE_OK)
        to->code = CACHE_FINDINGS;
}

static void report_failure(const char *path, void *user)
{
    verify_state *to = user;
    to->code = cache_fail(&cache_verb_verify, path);
}

/* Drops rejections, so that the candidates may be tried again. */
static int forget_rejected(tuff_cache *cache, bool json)
{
    int count;
    if (tuff_cache_forget_rejected(cache, &count) != TUFF_OK)
        return cache_fail(&cache_verb_verify, "rewriting the stores");
    if (!json)
        printf("rejected candidates that may be tried again: %d\n", count);
    return CACHE_OK;
}

static int verify_all(const cli_strings *paths, const cache_common *common, bool retry)
{
    tuff_cache *cache = NULL;
    verify_state state = {.code = paths->count > 0 ? CACHE_OK : cache_open(&cache_verb_verify, common, &cache)};
    if (state.code != CACHE_OK)
        return state.code;
    if (retry)
        state.code = forget_rejected(cache, common->json);
    tuff__json_begin();
    state.files = common->json ? json_array() : NULL;
    const verify_listener to = {.on_finding = add_finding,
                                .on_file_begin = begin_file,
                                .on_file_done = report_file,
                                .on_file_failed = report_failure,
                                .user = &state};
    for (int i = 0; cache && i < cache->count; i++)
        if (cache->files[i].is_wanted)
            (void)tuff__cache_verify_one(cache, i, &to);
    for (int i = 0; i < paths->count; i++)
        (void)tuff__cache_verify_path(paths->items[i], &to);
    json_decref(state.list);
    if (state.files)
        state.code = cache_print_json(&cache_verb_verify, state.files, state.code);
    else if (paths->count == 0 && tuff_cache_file_count(cache) == 0)
        puts("no stores");
    tuff_cache_close(cache);
    return state.code;
}

/* Checks the winners of a model or of a graph file. */
static int rerun(model_options *model, const cli_strings *paths, const cache_common *common, bool retry,
                 int64_t max_winners)
{
    model->file = paths->count == 1 ? paths->items[0] : NULL;
    if (!model->given && paths->count == 0)
        return cli_fail(
            &cache_verb_verify, EXIT_USAGE,
            "--rerun needs model options (such as --layers) or a graph FILE, because kernels cannot be built "
            "from a key alone");
    if (paths->count > 1 || retry)
        return cli_fail(&cache_verb_verify, EXIT_USAGE, "--rerun takes at most one FILE and no --retry");
    if (model_options_complete(model) != TUFF_OK)
        return cli_fail(&cache_verb_verify, EXIT_USAGE, "%s", tuff_error());
    return cache_rerun(&cache_verb_verify, common->selector, model, (int)max_winners, common->json);
}

static int verify(int count, char **arguments)
{
    cache_common common = {0};
    cli_strings paths = {0};
    bool retry = false, is_rerun = false;
    int64_t max_winners = 0;
    model_options model = MODEL_OPTIONS_DEFAULT;
    const cli_option options[] = {CACHE_COMMON(common),
                                  {.name = "--rerun",
                                   .kind = CLI_INTEGER,
                                   .value = &max_winners,
                                   .placeholder = "N",
                                   .help = "run the N newest winners of a model or a graph FILE again",
                                   .low = 1,
                                   .high = 1e6,
                                   .given = &is_rerun},
                                  MODEL_OPTIONS(&model),
                                  {.name = "--retry",
                                   .kind = CLI_SWITCH,
                                   .value = &retry,
                                   .help = "forget rejected candidates, so that they may be tried again"}};
    const cli_end end = cache_parse(&cache_verb_verify, options, sizeof options / sizeof *options, count, arguments,
                                    NULL, &paths, &common);
    int code = end.code;
    if (!end.now && is_rerun)
        code = rerun(&model, &paths, &common, retry, max_winners);
    else if (!end.now && model.given)
        code = cli_fail(&cache_verb_verify, EXIT_USAGE, "model options need --rerun");
    else if (!end.now && retry && paths.count > 0)
        code = cli_fail(&cache_verb_verify, EXIT_USAGE, "--retry applies to the stores and takes no FILE");
    else if (!end.now && common.selector && paths.count > 0)
        code = cli_fail(&cache_verb_verify, EXIT_USAGE, "--device selects stores and has no effect on a FILE");
    else if (!end.now)
        code = verify_all(&paths, &common, retry);
    cli_texts_free(&paths);
    return code;
}

const cli_verb cache_verb_verify = {
    .name = "cache verify",
    .operand = "[FILE...]",
    .summary = "Checks every line of the stores, or of files: checksum, format, candidates, environments.",
    .about =
        "Exits with 1 if there are findings; tuff cache prune removes damaged lines. --rerun compiles the model that\n"
        "--layers and the options below it describe, or the graph in FILE (see tuff plan), and compares the results\n"
        "and times of its newest winners with the default's: ok, slower (by more than 5 %), wrong, or gone (can no\n"
        "longer be built).",
    .run = verify,
};
