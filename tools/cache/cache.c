/* tuff cache: dispatches to its verbs, and has the output functions that they share. */
#include "tools/cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/verbs.h"

static const cli_verb *const verbs[] = {&cache_verb_list,   &cache_verb_show,   &cache_verb_explain,
                                        &cache_verb_verify, &cache_verb_export, &cache_verb_import,
                                        &cache_verb_merge,  &cache_verb_diff,   &cache_verb_prune,
                                        &cache_verb_pin,    &cache_verb_unpin,  &cache_verb_retune};

static const cli_group group = {
    .name = "tuff cache",
    .summary = "Inspects, moves and repairs the tuner's stored results.",
    .about = "Stores are files in tune/v1 of $TUFF_CACHE_DIR, else of $XDG_CACHE_HOME/tuff, else of ~/.cache/tuff;\n"
             "shipped ones are in tune of $TUFF_SHARE_DIR, else of ../share/tuff beside the folder of the program.\n"
             "Exit codes: 0 success, 1 findings, 2 usage error, or a file cannot be read or written.\n",
    .verbs = verbs,
    .verb_count = sizeof verbs / sizeof *verbs,
};

static int cache(int count, char **arguments)
{
    return cli_run_verb(&group, count, arguments);
}

const cli_verb verb_cache = {
    .name = "cache",
    .operand = "VERB",
    .summary = "Lists, explains, checks, moves and prunes the tuner's stored results.",
    .run = cache,
};

int cache_fail(const cli_verb *verb, const char *subject)
{
    (void)cli_fail_library(verb, subject);
    return CACHE_ERROR;
}

int cache_print_json(const cli_verb *verb, json_t *value, int code)
{
    const bool printed = value && json_dumpf(value, stdout, JSON_INDENT(2)) == 0;
    json_decref(value);
    if (!printed || tuff__json_failure("cannot print the output") == TUFF_E_OOM_HOST)
        return cache_fail(verb, "--json");
    putchar('\n');
    return code;
}

json_t *cache_json_text(const char *source)
{
    text copy = {0};
    for (; *source; source++) {
        const char c = (unsigned char)*source < 0x80 ? *source : '?';
        tuff__text_add_bytes(&copy, &c, 1);
    }
    json_t *value = json_string(tuff__text_get(&copy));
    tuff__text_free(&copy);
    return value;
}

json_t *cache_json_runners_up(const tune_record *record)
{
    json_t *list = json_array();
    for (int i = 0; i < RUNNERS_UP; i++)
        if (record->runners_up[i][0])
            (void)json_array_append_new(list, json_string(record->runners_up[i]));
    return list;
}

json_t *cache_json_record(const tune_record *record)
{
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "kind", tuff__record_kind_text(record->kind), "key",
                            ALL_DIGITS(record->key), "environment", ALL_DIGITS(record->environment), "op", record->op,
                            "candidate", record->candidate, "time", (json_int_t)record->time);
    if (record->kind == RECORD_WIN)
        (void)json_object_update_new(
            out,
            json_pack("{s:[I,I,I], s:I, s:I, s:f, s:o, s:s, s:s, s:s, s:s}", "nanoseconds",
                      (json_int_t)record->nanoseconds[0], (json_int_t)record->nanoseconds[1],
                      (json_int_t)record->nanoseconds[2], "samples", (json_int_t)record->samples, "default_nanoseconds",
                      (json_int_t)record->default_nanoseconds, "gain", tuff__record_gain(record), "runners_up",
                      cache_json_runners_up(record), "source", record->source, "kernel_hash", record->kernel_hash,
                      "cold", record->cold, "library", record->library));
    if (record->kind == RECORD_WIN && record->timed > 0)
        (void)json_object_update_new(out, json_pack("{s:I, s:[I,I,I,I,I]}", "timed", (json_int_t)record->timed,
                                                    "spread", (json_int_t)record->spread[0],
                                                    (json_int_t)record->spread[1], (json_int_t)record->spread[2],
                                                    (json_int_t)record->spread[3], (json_int_t)record->spread[4]));
    if (record->kind == RECORD_REJECTION)
        (void)json_object_update_new(out, json_pack("{s:s, s:s}", "why", record->reason, "phase", record->phase));
    if (record->kind == RECORD_PIN)
        (void)json_object_set_new(out, "by", json_string(record->reason));
    return out;
}

const char *cache_age(uint64_t at, char *buffer)
{
    static const struct {
        uint64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    const uint64_t now = tuff__record_now(), age = now > at ? now - at : 0;
    int i = 0;
    while (i < 3 && age < units[i].seconds)
        i++;
    if (at == 0)
        (void)snprintf(buffer, 16, "%s", "-");
    else
        (void)snprintf(buffer, 16, "%" PRIu64 "%c", age / units[i].seconds % 10000000, units[i].unit);
    return buffer;
}

const char *cache_candidate(const char *candidate)
{
    return candidate[0] ? candidate : "default";
}
