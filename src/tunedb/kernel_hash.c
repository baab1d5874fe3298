/* The texts and the table of tunables are embedded in the library, so that the answer is the same wherever this version
   runs. */
#include "tunedb/kernel_hash.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "kernels/texts.h"
#include "kernels/tunables.h"

/* Raised whenever lowering or assembly write other kernels from the same texts and tunables: tests/tune_passes sees to
   it. */
#define PASSES_VERSION 1

static bool begins_with(const char *name, const char *word)
{
    const size_t length = strlen(word);
    return strncmp(name, word, length) == 0 && (name[length] == '_' || name[length] == '.');
}

static bool is_body(const char *name)
{
    const size_t length = strlen(name);
    return length > 2 && strcmp(name + length - 2, ".k") == 0 && strcmp(name, "math.k") != 0;
}

/* Whether only kernels with 16-bit elements have the text. It is no part of any hash: those of all others would change
   with it, and it changes the speed of a record's kernel, never its results. */
static bool is_of_narrow_elements(const char *name)
{
    return begins_with(name, "narrow");
}

static bool belongs_to(const char *name, const char *family)
{
    if (is_of_narrow_elements(name))
        return false;
    const bool packs = strcmp(family, "matmul") == 0 || strcmp(family, "attention") == 0;
    return !is_body(name) || begins_with(name, family) || (packs && begins_with(name, "pack"));
}

/* What a candidate does not name has its usual value. Tasks of all families have passes of maps and of packing. */
static bool is_tuned_by(const char *kernel, const char *family)
{
    const size_t length = strlen(family);
    return strncmp(kernel, family, length) == 0 || strncmp(kernel, "pack", 4) == 0 || strcmp(kernel, "map") == 0 ||
           strcmp(kernel, "task") == 0;
}

static uint64_t hash_exceptions(const char *family, uint64_t hash)
{
    int count;
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    for (int i = 0; i < count; i++) {
        const tunable_info *one = tuff__tunable_info(all[i].of);
        const int values[] = {(int)all[i].kind, (int)all[i].which, all[i].value};
        if (!is_tuned_by(one->kernel, family))
            continue;
        hash = tuff__hash64(one->name, strlen(one->name), hash);
        hash = tuff__hash64(values, sizeof values, hash);
    }
    return hash;
}

static uint64_t hash_tunables(const char *family, uint64_t hash)
{
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable_info *one = tuff__tunable_info((tunable)i);
        if (!is_tuned_by(one->kernel, family))
            continue;
        hash = tuff__hash64(one->name, strlen(one->name), hash);
        hash = tuff__hash64(one->values, sizeof one->values, hash);
    }
    return hash;
}

const char *tuff__kernel_hash_of(const char *family, char *out)
{
    uint64_t hash = PASSES_VERSION;
    for (int i = 0; i < tuff__kernel_text_count; i++)
        if (belongs_to(tuff__kernel_texts[i].name, family)) {
            hash = tuff__hash64(tuff__kernel_texts[i].name, strlen(tuff__kernel_texts[i].name), hash);
            hash = tuff__hash64(tuff__kernel_texts[i].text, strlen(tuff__kernel_texts[i].text), hash);
        }
    hash = hash_exceptions(family, hash_tunables(family, hash));
    (void)snprintf(out, GENERATOR_SIZE, "%08" PRIx32, (uint32_t)(hash ^ hash >> 32));
    return out;
}
