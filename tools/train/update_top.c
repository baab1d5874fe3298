/* Chooses, on the device, the parameters with the largest gradients, as the masks of an update. */
#include "tools/train/update_top.h"

#include "base/alloc.h"
#include "base/status.h"

/* Element i of a list, of rank 1, or of rank 0 if scalar. */
static tuff_tensor *element(tuff_tensor *list, int64_t i, bool scalar)
{
    const int64_t end = i + 1;
    tuff_tensor *one = tuff_slice(list, &i, &end, NULL);
    return scalar ? tuff_reshape(one, TUFF_SCALAR) : one;
}

/* Norms of the trained parameters. Frozen ones are left out, because a trained parameter's norm may be 0 as well. */
static tuff_tensor *trained_norms(const tuff_update_choice *choice, tuff_tensor **parts, int64_t trained)
{
    int64_t count = 0;
    tuff_tensor *norms = choice->tensors->tensor_norms;
    if (trained == choice->count)
        return norms;
    for (int i = 0; i < choice->count; i++)
        if (choice->gradients[i])
            parts[count++] = element(norms, i, false);
    return tuff_concat(parts, (int)count, 0);
}

static void set_masks(const tuff_update_choice *choice, tuff_tensor *norms, int64_t wanted, int64_t trained)
{
    const int first = 0;
    tuff_tensor *places = NULL;
    int64_t at = 0;
    (void)tuff_top_k(norms, wanted, 0, &places);
    tuff_tensor *kept = tuff_sum(tuff_one_hot(places, trained), &first, 1, false);
    for (int i = 0; i < choice->count; i++)
        if (choice->gradients[i])
            choice->masks[i] = element(kept, at++, true);
}

tuff_status update_top_choose(void *user, const tuff_update_choice *choice)
{
    const int64_t wanted = *(const int64_t *)user;
    int64_t trained = 0;
    for (int i = 0; i < choice->count; i++)
        trained += choice->gradients[i] != NULL;
    if (wanted > trained)
        return FAIL(TUFF_E_USAGE, "--update-top %lld: only %lld parameters are trained", (long long)wanted,
                    (long long)trained);
    tuff_tensor **parts = tuff__calloc((size_t)choice->count, sizeof(tuff_tensor *));
    if (!parts)
        return TUFF_E_OOM_HOST;
    set_masks(choice, trained_norms(choice, parts, trained), wanted, trained);
    tuff__free(parts);
    return TUFF_OK;
}
