/* tuff cache verify: reads files line by line and says what is wrong with which. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file_list.h"
#include "io/json.h"
#include "tools/cache.h"
#include "tools/cache_rerun.h"
#include "tune/choice.h"
#include "tune/store_parts.h"

enum { FILE_LIMIT = 256 << 20 };

typedef struct checking {
    const char *path;
    json_t *list; /* of findings; NULL: they are printed */
    arena texts;
    const tune_store *store; /* what describes the environments: the file, or the store that it is a part of */
    int ok, damaged, malformed, later, invalid, orphans, barred;
} checking;

static void find(checking *of, int line, const char *what, const char *detail)
{
    if (of->list)
        (void)json_array_append_new(of->list, json_pack("{s:o, s:i, s:s, s:o}", "path", cache_json_text(of->path),
                                                        "line", line, "what", what, "detail", cache_json_text(detail)));
    else
        printf("%s:%d: %s%s%s\n", of->path, line, what, detail[0] ? ": " : "", detail);
}

/* What this version cannot use of the record; NULL where all can be. */
static const char *unusable(const tune_record *record)
{
    choice parsed;
    tune_key key;
    if (tuff__key_parse(record->op, &key) != TUFF_OK || tuff__choice_parse(record->candidate, &parsed) != TUFF_OK)
        return "cannot be used";
    for (int i = 0; i < RUNNERS_UP; i++)
        if (tuff__choice_parse(record->runners_up[i], &parsed) != TUFF_OK)
            return "a runner-up cannot be used";
    return NULL;
}

static void check_record(checking *of, int line, const tune_record *record)
{
    tune_environment environment;
    const tune_record *bad;
    const char *what;
    if (record->kind == RECORD_ENVIRONMENT) {
        const bool whole = tuff__environment_parse(record->op, &environment) == TUFF_OK;
        of->ok += whole;
        of->invalid += !whole;
        if (!whole)
            find(of, line, "environment", tuff_error());
        return;
    }
    if ((what = unusable(record))) {
        of->invalid++;
        find(of, line, what, tuff_error());
    } else if (!tuff__store_environment(of->store, record->environment)) {
        of->orphans++;
        find(of, line, "of an environment that no line describes", record->op);
    } else if ((record->kind == RECORD_WIN || record->kind == RECORD_PIN) &&
               (bad = tuff__store_bad(of->store, record->environment, record->key, record->candidate))) {
        of->barred++;
        find(of, line, record->kind == RECORD_WIN ? "a winner that was rejected" : "a pin that was rejected",
             bad->reason);
    } else {
        of->ok++;
    }
}

static tuff_status check_line(checking *of, int number, const char *line, size_t size)
{
    tune_record record;
    line_state state;
    TRY(tuff__record_read(line, size, &of->texts, &record, &state));
    switch (state) {
    case LINE_GOOD:
        check_record(of, number, &record);
        break;
    case LINE_DAMAGED:
        of->damaged++;
        find(of, number, "damaged", "the check of the line does not hold");
        break;
    case LINE_MALFORMED:
        of->malformed++;
        find(of, number, "malformed", "the line is whole, and no record");
        break;
    case LINE_UNKNOWN:
        of->later++;
        find(of, number, "of a later version", "");
        break;
    }
    return TUFF_OK;
}

static tuff_status check_lines(checking *of, const char *data, size_t size)
{
    int number = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        number++;
        if (length > 0)
            TRY(check_line(of, number, data + at, length));
        at += length + 1;
    }
    return TUFF_OK;
}

static int findings(const checking *of)
{
    return of->damaged + of->malformed + of->later + of->invalid + of->orphans + of->barred;
}

static void report(const checking *of, json_t *files)
{
    if (files)
        (void)json_array_append_new(
            files, json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:O}", "path", cache_json_text(of->path), "ok",
                             of->ok, "damaged", of->damaged, "malformed", of->malformed, "later", of->later, "invalid",
                             of->invalid, "orphans", of->orphans, "rejected", of->barred, "findings", of->list));
    else
        printf("%s: ok %d  damaged %d  malformed %d  later %d  invalid %d  orphans %d  rejected %d\n", of->path, of->ok,
               of->damaged, of->malformed, of->later, of->invalid, of->orphans, of->barred);
}

/* part_of: the store of ours that the file is a part of, which nobody else may be able to write; NULL for others. */
static tuff_status verify_file(const char *path, const tune_store *part_of, json_t *files, int *code)
{
    void *data = NULL;
    size_t size = 0;
    tune_store *store = NULL;
    checking of = {.path = path};
    TRY(part_of ? tuff__cache_read(path, FILE_LIMIT, &data, &size) : tuff__file_read(path, FILE_LIMIT, &data, &size));
    tuff_status status = part_of ? TUFF_OK : tuff__store_load(path, &store);
    of.store = part_of ? part_of : store;
    of.list = files ? json_array() : NULL;
    if (status == TUFF_OK)
        status = check_lines(&of, data, size);
    if (status == TUFF_OK)
        report(&of, files);
    if (findings(&of) > 0 && *code == CACHE_OK)
        *code = CACHE_FINDINGS;
    json_decref(of.list);
    tuff__arena_free(&of.texts);
    tuff__store_close(store);
    tuff__free(data);
    return status;
}

/* One file that cannot be read does not hide the others. */
static void verify_one(const char *path, const tune_store *part_of, json_t *files, int *code)
{
    if (verify_file(path, part_of, files, code) != TUFF_OK)
        *code = cache_fail(&cache_verb_verify, path);
}

typedef struct shards {
    const tune_store *store;
    json_t *files;
    int *code;
} shards;

static tuff_status verify_shard(const char *name, void *state)
{
    const shards *of = state;
    char path[STORE_PATH];
    if (tuff__store_is_shard(of->store, name) && tuff__store_path_of(of->store, name, path))
        verify_one(path, of->store, of->files, of->code);
    return TUFF_OK;
}

static void verify_store(const cache_store *store, json_t *files, int *code)
{
    char folder[STORE_PATH];
    shards of = {.store = store->store, .files = files, .code = code};
    verify_one(store->path, store->is_shipped ? NULL : store->store, files, code);
    if (!store->is_shipped && tuff__store_path_of(store->store, ".", folder))
        (void)tuff__file_list(folder, store->name, verify_shard, &of);
}

static bool is_strike(const tune_record *record, void *state)
{
    int *count = state;
    *count += record->kind == RECORD_BAD;
    return record->kind == RECORD_BAD;
}

/* Forgets what was rejected, so that it may be tried again. */
static int forget_strikes(const cache_stores *stores, bool json)
{
    int count = 0;
    for (int i = 0; i < stores->count; i++)
        if (!stores->items[i].is_shipped && tuff__store_compact(stores->items[i].store, is_strike, &count) != TUFF_OK)
            return cache_fail(&cache_verb_verify, stores->items[i].path);
    if (!json)
        printf("rejected candidates that may be tried again: %d\n", count);
    return CACHE_OK;
}

static int verify_all(const cli_texts *paths, const cache_common *common, bool retry)
{
    cache_stores stores = {0};
    int code = paths->count > 0 ? CACHE_OK : cache_open(&cache_verb_verify, common->device, &stores);
    if (code != CACHE_OK)
        return code;
    if (retry)
        code = forget_strikes(&stores, common->json);
    tuff__json_begin();
    json_t *files = common->json ? json_array() : NULL;
    for (int i = 0; i < stores.count; i++)
        verify_store(&stores.items[i], files, &code);
    for (int i = 0; i < paths->count; i++)
        verify_one(paths->items[i], NULL, files, &code);
    if (files)
        code = cache_print_json(&cache_verb_verify, files, code);
    else if (stores.count + paths->count == 0)
        puts("no stores");
    cache_close(&stores);
    return code;
}

static int verify(int count, char **arguments)
{
    cache_common common = {0};
    cli_texts paths = {0};
    bool retry = false, is_rerun = false;
    int64_t most = 0;
    model_options model = MODEL_OPTIONS_USUAL;
    const cli_option options[] = {CACHE_COMMON(common),
                                  {.name = "--rerun",
                                   .kind = CLI_WHOLE,
                                   .value = &most,
                                   .placeholder = "N",
                                   .help = "runs the N newest winners of a model's keys on a device again",
                                   .low = 1,
                                   .high = 1e6,
                                   .given = &is_rerun},
                                  MODEL_OPTIONS(&model),
                                  {.name = "--retry",
                                   .kind = CLI_SWITCH,
                                   .value = &retry,
                                   .help = "forgets what was rejected, so that it may be tried again"}};
    const char *device = cache_device_name(count, arguments);
    const bool has_model = model_options_given(count, arguments);
    const cli_end end = cache_parse(&cache_verb_verify, options, sizeof options / sizeof *options, count, arguments,
                                    NULL, &paths, &common);
    int code = end.code;
    if (!end.now && retry && paths.count > 0)
        code = cli_fail(&cache_verb_verify, EXIT_WRONG_USE, "--retry is for the stores, not for files");
    else if (!end.now && is_rerun != has_model)
        code = cli_fail(&cache_verb_verify, EXIT_WRONG_USE,
                        is_rerun
                            ? "--rerun needs the model whose keys are run: --layers and the like; a key's text is not "
                              "enough to make its kernels of"
                            : "a model is for --rerun");
    else if (!end.now && is_rerun && (paths.count > 0 || retry))
        code = cli_fail(&cache_verb_verify, EXIT_WRONG_USE, "--rerun is by itself");
    else if (!end.now && is_rerun && model_options_complete(&model) != TUFF_OK)
        code = cli_fail(&cache_verb_verify, EXIT_WRONG_USE, "%s", tuff_error());
    else if (!end.now && is_rerun)
        code = cache_rerun(&cache_verb_verify, device, &model, (int)most, common.json);
    else if (!end.now)
        code = verify_all(&paths, &common, retry);
    cli_texts_free(&paths);
    return code;
}

const cli_verb cache_verb_verify = {
    .name = "cache verify",
    .operand = "[FILE...]",
    .summary = "Checks every line of the stores, or of files: damage, form, candidates, environments.",
    .about =
        "tuff cache prune takes damaged lines out. Exits with 1 where there are findings. --rerun compiles the model\n"
        "that --layers and the options below it describe, and for its newest winners compares results and times\n"
        "with the default's: ok, slower by more than 5 %, wrong, or gone, where they can no longer be made.",
    .run = verify,
};
