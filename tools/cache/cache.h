/* What the verbs of `tuff cache` share: opening stores, finding keys by a prefix, and output for users and programs. */
#ifndef TUFF_TOOLS_CACHE_CACHE_H
#define TUFF_TOOLS_CACHE_CACHE_H

#include <jansson.h>

#include "api/cache.h"
#include "tools/cli/cli.h"

/* Exit codes of `tuff cache`. */
enum { CACHE_OK = 0, CACHE_FINDINGS = 1, CACHE_ERROR = 2 };

extern const cli_verb cache_verb_list, cache_verb_show, cache_verb_verify, cache_verb_export, cache_verb_import,
    cache_verb_merge, cache_verb_diff, cache_verb_prune, cache_verb_pin, cache_verb_unpin, cache_verb_retune,
    cache_verb_explain;

/* Options that every verb has. */
typedef struct cache_common {
    const char *selector; /* argument of --device; NULL if it was not given */
    const char *device;   /* the same; if it was the number of a device here, the text of its environment */
    bool json;
    char environment[ENVIRONMENT_SIZE];
} cache_common;
/* Parses like cli_parse (operand) or cli_parse_all (operands), of which at most one may be given; then resolves
   --device. */
cli_end cache_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                    const char **operand, cli_strings *operands, cache_common *common);
#define CACHE_COMMON(common)                                                                            \
    {.name = "--device",                                                                                \
     .kind = CLI_TEXT,                                                                                  \
     .value = &(common).device,                                                                         \
     .placeholder = "D",                                                                                \
     .help = "only stores whose name or environment contains D, ignoring case; opencl:0: that device"}, \
    {                                                                                                   \
        .name = "--json", .kind = CLI_SWITCH, .value = &(common).json, .help = "print JSON"             \
    }

/* Opens all stores and marks those that match the filter `device` as wanted; prints a line for each of these that
   cannot be read. Returns an exit code, after a message if it is not CACHE_OK. */
int cache_open_any(const cli_verb *verb, const char *device, tuff_cache **out);
/* The same with --device, which must match at least one store. */
int cache_open(const cli_verb *verb, const cache_common *common, tuff_cache **out);
/* Prints that no `subject` matches --device and returns CACHE_FINDINGS. */
int cache_fail_unmatched(const cli_verb *verb, const char *subject, const cache_common *common);
/* Returns CACHE_OK if --device matches an environment in one of the files, otherwise CACHE_FINDINGS, after a message.
   known: stores that may know environments which the files do not describe; may be NULL. Files that cannot be read
   match: the caller, which reads them next, has the message. */
int cache_check_files(const cli_verb *verb, const cache_common *common, const tuff_cache *known,
                      const char *const *paths, int count);
/* Returns the closest likeness of a device here to the environment. */
likeness cache_likeness(tuff_cache *cache, const tune_environment *environment);

/* Keys in the order of their texts, without duplicates. */
typedef struct cache_key {
    hash128 hash;
    const char *op; /* owned by a store */
} cache_key;
typedef struct cache_keys {
    cache_key *items;
    int count, capacity;
} cache_keys;
/* Selects keys: one by a prefix of its digits, those whose text matches a pattern (contains it or, if it has * or ?,
   matches as a whole), or all. */
typedef struct cache_selection {
    const char *prefix, *pattern;
    bool all;
} cache_selection;
int cache_find_keys(const cli_verb *verb, const tuff_cache *cache, const cache_selection *which, cache_keys *out);
void cache_free_keys(cache_keys *keys);

/* Prints a message and returns CACHE_ERROR. cache_fail prints the library's last error. */
#define CACHE_FAIL(verb, ...) (cli_fail((verb), CACHE_FINDINGS, __VA_ARGS__), (int)CACHE_ERROR)
int cache_fail(const cli_verb *verb, const char *subject);
/* Prints a verb's JSON output and releases it. Returns code, or CACHE_ERROR if memory ran out. */
int cache_print_json(const cli_verb *verb, json_t *value, int code);
json_t *cache_json_text(const char *source); /* bytes that are not ASCII become '?' */
json_t *cache_json_runners_up(const tune_record *win);
json_t *cache_json_record(const tune_record *record);

#define KEY_DIGITS(hash) tuff__hash_digits((hash), 12, (char[33]){0})
#define ALL_DIGITS(hash) tuff__hash_digits((hash), 32, (char[33]){0})
const char *cache_age(uint64_t time, char *buffer); /* "2d", in 16 bytes */
#define AGE_TEXT(time) cache_age((time), (char[16]){0})
const char *cache_candidate(const char *candidate); /* "default" if it is empty */

#endif
