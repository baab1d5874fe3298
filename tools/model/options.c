/* Completes the model that the command line describes. */
#include "tools/model/options.h"

#include <string.h>

#include "base/file/file.h"

tuff_status model_config_complete(model_config *model, int form)
{
    model->form = form == 0 ? MODEL_GPT : MODEL_LLAMA;
    if (model->key_value_heads == 0)
        model->key_value_heads = model->heads;
    if (model->hidden == 0)
        model->hidden = (8 * model->width / 3 + 31) / 32 * 32;
    return model_check(model);
}

tuff_status model_options_complete(model_options *self)
{
    if (self->file && (self->given || self->recompute))
        return FAIL(TUFF_E_USAGE, "%s is a graph file: it cannot be combined with model options", self->file);
    return model_config_complete(&self->model, self->form);
}

bool is_graph_file(const char *word)
{
    static const unsigned char magic[] = {'t', 'u', 'f', 'f', 0x8f, 'g'};
    unsigned char begin[sizeof magic];
    file_reader reader;
    if (strchr(word, '.') || strchr(word, '/'))
        return true;
    if (tuff__reader_open(word, &reader) != TUFF_OK)
        return false;
    const bool is_ours =
        tuff__reader_read(&reader, begin, sizeof begin) == TUFF_OK && memcmp(begin, magic, sizeof magic) == 0;
    tuff__reader_close(&reader);
    return is_ours;
}
