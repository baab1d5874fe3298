/* The op key: describes a task as far as the choice of the best candidate depends on it. As text:

     matmul 00c1f2e3a4b59687 | f16,f32,f16 | NT | 1024x3072x768 | a16 | strict

   The parts are the family and a hash of the fused graph's structure, dtypes, layout, exact dims, alignment (the bytes
   that divide every address and stride in use, from their actual values, at most 16), and math mode. Records are found
   by the XXH3-128 of this text. */
#ifndef TUFF_TUNEDB_KEY_H
#define TUFF_TUNEDB_KEY_H

#include "base/hash.h"
#include "base/status.h"

enum { TUNE_KEY_DIMS = 8, TUNE_KEY_SIZE = 512 };

/* Texts contain no spaces and no '|'; an empty one is written as "-". */
typedef struct tune_key {
    char family[32];             /* never empty */
    uint64_t structure;          /* what is computed around the family's core: the chain, the reduced axes */
    char dtypes[96];             /* operands, accumulator, results */
    char layout[96];             /* transposes, and the kind of stride of each axis */
    int64_t dims[TUNE_KEY_DIMS]; /* all at least 1 */
    int dim_count;
    int alignment; /* a power of two up to 16 */
    char math[16]; /* "strict", or the type that f32 factors may be rounded to: "f16", "bf16" */
} tune_key;

/* Writes the text to buffer, of TUNE_KEY_SIZE bytes, and returns buffer. */
const char *tuff__key_text(const tune_key *key, char *buffer);
#define KEY_TEXT(key) tuff__key_text((key), (char[TUNE_KEY_SIZE]){0})
hash128 tuff__key_hash(const tune_key *key);
/* Parses a key. TUFF_E_FORMAT if the text is not a valid key. A parsed key formats to the same text. */
tuff_status tuff__key_parse(const char *source, tune_key *out);

/* Whether the keys differ in dims and alignment alone. */
bool tuff__key_is_alike(const tune_key *a, const tune_key *b);
/* Returns the distance between the dims of alike keys, the sum of |log2(a / b)| over all dims, or a negative number if
   any dim differs by more than a factor of two. */
double tuff__key_distance(const tune_key *a, const tune_key *b);

#endif
