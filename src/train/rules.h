/* The table of optimizers, and parts that their formulas share. */
#ifndef TUFF_TRAIN_RULES_H
#define TUFF_TRAIN_RULES_H

#include "train/train.h"

/* Returns the rule of a tuff_optimizer_kind; NULL if there is none. */
const optimizer_rule *tuff__optimizer_rule(int kind);

#define SLAB_RANGE_REGIONS_MAX (2 * TUFF_MAX_GROUPS) /* for one slab */

/* Returns, for every element, the value of its region; values are in the order of the slab range's regions. The result
   is a scalar if all values are the same tensor, else [elements of the slab range]. */
tuff_tensor *tuff__select_by_region(const update *self, tuff_tensor *const *values);
/* Returns scalar times the factor of each element's region: a scalar if all factors are equal, else [elements of the
   slab range]. */
typedef double (*region_factor)(const tuff_optimizer *optimizer, const region *at);
tuff_tensor *tuff__scale_by_region(const update *self, tuff_tensor *scalar, region_factor factor);
double tuff__region_rate(const tuff_optimizer *optimizer, const region *at);
/* The factor of the rate times the weight decay. */
double tuff__region_rate_decay(const tuff_optimizer *optimizer, const region *at);
/* Returns the weights after decoupled weight decay, which is not part of the gradient (Loshchilov & Hutter 2019). */
tuff_tensor *tuff__decoupled_decay(const update *self);

/* In rules_matrix.c: */
int tuff__adafactor_parts(const parameter *item, state_part *parts);
tuff_tensor *tuff__update_adafactor(update *self);
tuff_tensor *tuff__update_muon(update *self);

#endif
