/* Update masks in the layout of updates: for one tensor, or for a run of a slab. */
#ifndef TUFF_TRAIN_MASKS_H
#define TUFF_TRAIN_MASKS_H

#include "train/train.h"

/* Lets the program choose which parameters are updated. gradients: by parameter index, in the parameters' shapes. Sets
   *out, to be freed by the caller, to a bool tensor of rank 0 or [first extent] by parameter index; NULL for parameters
   that are always updated or frozen. */
tuff_status tuff__choose_masks(const tuff_optimizer *optimizer, tuff_graph *graph,
                               const tuff_optimizer_tensors *tensors, tuff_tensor *const *gradients,
                               tuff_tensor ***out);
/* Returns whether each element of a slab range is updated: *out is bool [elements of the slab range], or of rank 0, or
   NULL if all always are. */
tuff_status tuff__slab_range_mask(const tuff_optimizer *optimizer, const slab_range *range, tuff_tensor *const *masks,
                                  tuff_tensor **out);
/* Returns a parameter's mask reshaped to broadcast against a tensor of this rank with the same first axis. NULL stays
   NULL. */
tuff_tensor *tuff__broadcast_row_mask(tuff_tensor *mask, int rank);
/* Returns whether any row is updated, for state that all rows share. NULL stays NULL. */
tuff_tensor *tuff__any_row_mask(tuff_tensor *mask);

#endif
