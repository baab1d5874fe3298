/* Hashes what the kernels of a family are made from: their texts and the table of tunables. Both are embedded in the
   library, so a version of tuff has the same hashes everywhere. Kernels and tunables enter the hash under their
   original names (kernels/tunables.h), so that renaming one makes no record stale. */
#include "tunedb/kernel_hash.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "kernels/kernel_texts.h"
#include "kernels/tunables.h"

/* Increase this whenever lowering or assembly generate other kernels from the same texts and tunables;
   tests/tunedb/tune_passes.c checks that. */
#define PASSES_VERSION 1

enum { MAX_TEXTS = 64 }; /* of one family */

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

/* Whether a text is used only by kernels with 16-bit elements, or only by those of GPUs, or only around kernels. Such a
   text is not part of any hash: it would change the hashes of all other kernels too, and it affects only the speed of a
   recorded kernel, never its results. */
static bool is_excluded_text(const char *name)
{
    return begins_with(name, "narrow") || begins_with(name, "aligned") || begins_with(name, "persistent");
}

static bool belongs_to(const char *name, const char *family)
{
    if (is_excluded_text(name))
        return false;
    if (begins_with(name, "matrix"))
        return strcmp(family, "matmul") == 0;
    const bool packs = strcmp(family, "matmul") == 0 || strcmp(family, "attention") == 0;
    return !is_body(name) || begins_with(name, family) || (packs && begins_with(name, "pack"));
}

/* Whether candidates of a family depend on the tunables of a kernel; those that a candidate does not name have their
   default value. Tasks of all families contain map and packing passes. */
static bool is_tuned_by(const char *kernel, const char *family)
{
    const size_t length = strlen(family);
    return strncmp(kernel, family, length) == 0 || strncmp(kernel, "pack", 4) == 0 || strcmp(kernel, "map") == 0 ||
           strcmp(kernel, "task") == 0;
}

/* Hashes the original name of a tunable: see tuff__tunable_former_name. */
static uint64_t hash_name(tunable parameter, uint64_t hash)
{
    const former_name *former = tuff__tunable_former_name(parameter);
    const char *name = former != NULL ? former->name : tuff__tunable_info(parameter)->name;
    return tuff__hash64(name, strlen(name), hash);
}

static uint64_t hash_exceptions(const char *family, uint64_t hash)
{
    int count;
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    for (int i = 0; i < count; i++) {
        const tunable_info *one = tuff__tunable_info(all[i].parameter);
        const int values[] = {(int)all[i].kind, (int)all[i].variant, all[i].value};
        if (!is_tuned_by(one->kernel, family))
            continue;
        hash = hash_name(all[i].parameter, hash);
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
        hash = hash_name((tunable)i, hash);
        hash = tuff__hash64(one->values, sizeof one->values, hash);
    }
    return hash;
}

/* A text under its original name. */
typedef struct named_text {
    char name[64];
    const char *text;
} named_text;

/* Orders preludes before all others, then by name. */
static int compare_texts(const void *a, const void *b)
{
    const char *first = ((const named_text *)a)->name, *second = ((const named_text *)b)->name;
    const int is_prelude = begins_with(first, "prelude"), is_other = begins_with(second, "prelude");
    return is_prelude != is_other ? is_other - is_prelude : strcmp(first, second);
}

static int list_texts(const char *family, named_text out[MAX_TEXTS])
{
    int count = 0;
    for (int i = 0; i < tuff__kernel_text_count && count < MAX_TEXTS; i++) {
        const char *name = tuff__kernel_texts[i].name;
        char kernel[sizeof out->name] = "";
        if (!belongs_to(name, family))
            continue;
        if (is_body(name))
            (void)snprintf(kernel, sizeof kernel, "%.*s", (int)strlen(name) - 2, name);
        (void)snprintf(out[count].name, sizeof out->name, "%s%s",
                       is_body(name) ? tuff__kernel_former_name(kernel) : name, is_body(name) ? ".k" : "");
        out[count++].text = tuff__kernel_texts[i].text;
    }
    qsort(out, (size_t)count, sizeof *out, compare_texts);
    return count;
}

/* Skips empty lines and lines that hold only a comment: editing comments does not outdate records. Lines that begin
   with "//@" divide math.k into sections, and count. */
uint64_t tuff__kernel_text_hash(const char *text, uint64_t hash)
{
    while (*text != 0) {
        const char *line = text + strspn(text, " ");
        const size_t length = strcspn(line, "\n");
        if (length > 0 && (strncmp(line, "//", 2) != 0 || line[2] == '@'))
            hash = tuff__hash64(text, (size_t)(line - text) + length, hash);
        text = line + length + (line[length] == '\n');
    }
    return hash;
}

const char *tuff__kernel_hash(const char *family, char *out)
{
    named_text texts[MAX_TEXTS];
    uint64_t hash = PASSES_VERSION;
    const int count = list_texts(family, texts);
    for (int i = 0; i < count; i++) {
        hash = tuff__hash64(texts[i].name, strlen(texts[i].name), hash);
        hash = tuff__kernel_text_hash(texts[i].text, hash);
    }
    hash = hash_exceptions(family, hash_tunables(family, hash));
    (void)snprintf(out, KERNEL_HASH_SIZE, "%08" PRIx32, (uint32_t)(hash ^ hash >> 32));
    return out;
}
