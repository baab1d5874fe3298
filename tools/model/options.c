/* A model as the command line describes it. */
#include "tools/model/options.h"

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
    return model_config_complete(&self->model, self->form);
}
