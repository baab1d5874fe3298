/* Copies of sets of parameters, made on the device. */
#include <string.h>

#include "train/train.h"
#include "tuff/checkpoint.h"

tuff_status tuff_parameters_copy(tuff_parameters *to, tuff_parameters *from)
{
    if (!to || !from)
        return FAIL(TUFF_E_USAGE, "parameters: the source or the destination of a copy is NULL");
    if (to->count != from->count)
        return FAIL(TUFF_E_USAGE, "parameters: cannot copy %d parameters to a set of %d", from->count, to->count);
    for (int i = 0; i < from->count; i++)
        if (strcmp(to->items[i].name, from->items[i].name) != 0 ||
            !tuff_shape_equal(to->items[i].shape, from->items[i].shape))
            return FAIL(TUFF_E_USAGE, "parameters: cannot copy \"%s\" to \"%s\": names or shapes differ",
                        from->items[i].name, to->items[i].name);
    for (int i = 0; i < from->count; i++)
        TRY(tuff_array_copy(to->items[i].array, from->items[i].array));
    return TUFF_OK;
}

tuff_parameters *tuff_parameters_clone(tuff_parameters *parameters)
{
    if (!parameters) {
        FAIL(TUFF_E_USAGE, "parameters: the set to clone is NULL");
        return NULL;
    }
    tuff_parameters *clone = tuff__parameters_like(parameters);
    if (clone && tuff_parameters_copy(clone, parameters) != TUFF_OK) {
        tuff_parameters_destroy(clone);
        return NULL;
    }
    return clone;
}
