/* Masks of updates in the layout that updates have: of one tensor, or of a run of a slab. */
#ifndef TUFF_TRAIN_MASKS_H
#define TUFF_TRAIN_MASKS_H

#include "train/train.h"

/* Asks the program which parameters are updated. gradients: by parameter index, in their shapes. *out: by parameter
   index bool tensors of rank 0 or [first extent], NULL where a parameter is always updated or frozen; freed by the
   caller. */
tuff_status tuff__choose_masks(const tuff_optimizer *optimizer, tuff_graph *graph,
                               const tuff_optimizer_tensors *tensors, tuff_tensor *const *gradients,
                               tuff_tensor ***out);
/* For the elements of a slab range whether they are updated: *out is bool [elements of the slab range], or of rank 0,
   or NULL where all always are. */
tuff_status tuff__mask_of_slab_range(const tuff_optimizer *optimizer, const slab_range *of, tuff_tensor *const *masks,
                                     tuff_tensor **out);
/* A mask of a parameter for a tensor of which the first axis is the parameter's. NULL stays NULL. */
tuff_tensor *tuff__mask_of_rows(tuff_tensor *mask, int rank);
/* Whether any row is updated, for what all rows have in common. NULL stays NULL. */
tuff_tensor *tuff__mask_of_any(tuff_tensor *mask);

#endif
