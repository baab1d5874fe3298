/* A model as the command line describes it. */
#include "tools/model/options.h"

#include <string.h>

bool model_options_given(int count, char **arguments)
{
    static const char *const names[] = {"--form",  "--layers", "--heads",   "--key-value-heads",
                                        "--width", "--hidden", "--context", "--batch"};
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strncmp(arguments[i], names[k], strlen(names[k])) == 0 &&
                (arguments[i][strlen(names[k])] == '\0' || arguments[i][strlen(names[k])] == '='))
                return true;
    return false;
}

tuff_status model_options_complete(model_options *self)
{
    model_config *model = &self->model;
    model->form = self->form == 0 ? MODEL_GPT : MODEL_LLAMA;
    if (model->key_value_heads == 0)
        model->key_value_heads = model->heads;
    if (model->hidden == 0)
        model->hidden = (8 * model->width / 3 + 31) / 32 * 32;
    return model_check(model);
}
