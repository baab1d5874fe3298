/* Text files as training data: reads them as bytes, and copies windows of them into batches. */
#include "tools/train/text.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "tools/model/random.h"

#define FILE_LIMIT ((uint64_t)1 << 40)

static tuff_status append(corpus *self, const void *data, size_t size)
{
    unsigned char *grown = tuff__realloc_array(self->bytes, self->size + size + 1, 1);
    if (!grown)
        return TUFF_E_OOM_HOST;
    self->bytes = grown;
    if (size > 0)
        memcpy(grown + self->size, data, size);
    self->size += size;
    return TUFF_OK;
}

static tuff_status append_file(corpus *self, const char *path)
{
    void *data = NULL;
    size_t size = 0;
    TRY(tuff__file_read(path, FILE_LIMIT, &data, &size));
    const tuff_status status = size > 0 ? append(self, data, size) : FAIL(TUFF_E_FORMAT, "%s: file is empty", path);
    tuff__free(data);
    return status;
}

static tuff_status read_all(const cli_strings *paths, int64_t window, corpus *out)
{
    for (int i = 0; i < paths->count; i++)
        TRY(append_file(out, paths->items[i]));
    if (out->size < (size_t)window)
        return FAIL(TUFF_E_USAGE,
                    "%s: the text has %zu bytes, but a window of the context and the next byte needs %lld: give more "
                    "text or a smaller --context",
                    paths->items[0], out->size, (long long)window);
    out->hash = tuff__hash64(out->bytes, out->size, 0);
    return TUFF_OK;
}

tuff_status corpus_read(const cli_strings *paths, int64_t window, corpus *out)
{
    *out = (corpus){0};
    const tuff_status status = read_all(paths, window, out);
    if (status != TUFF_OK)
        corpus_free(out);
    return status;
}

void corpus_free(corpus *self)
{
    tuff__free(self->bytes);
    *self = (corpus){0};
}

void corpus_batch(const corpus *self, uint64_t seed, int64_t step, int64_t batch, int64_t window, int32_t *tokens)
{
    const uint64_t key = random_key_number(random_key(seed, "batch"), (uint64_t)step);
    const uint64_t places = self->size - (uint64_t)window + 1;
    for (int64_t b = 0; b < batch; b++) {
        const unsigned char *from = self->bytes + random_bits(key, (uint64_t)b) % places;
        for (int64_t i = 0; i < window; i++)
            tokens[b * window + i] = from[i];
    }
}
