/* The table of optimizers, and what their formulas share. */
#ifndef TUFF_TRAIN_RULES_H
#define TUFF_TRAIN_RULES_H

#include "train/train.h"

/* The rule of a tuff_optimizer_kind; NULL where there is none. */
const optimizer_rule *tuff__optimizer_rule(int kind);

#define SLAB_RANGE_REGIONS_MAX (2 * TUFF_MAX_GROUPS) /* of a slab */

/* For every element the value of the region that it lies in, of those of the slab range: a scalar where all are one
   tensor, else [elements of the slab range]. */
tuff_tensor *tuff__select_by_region(const update *self, tuff_tensor *const *values);
/* scalar times the factor of the region that an element lies in: a scalar where all have the same, else [elements of
   the slab range]. */
typedef double (*region_factor)(const tuff_optimizer *optimizer, const region *at);
tuff_tensor *tuff__scale_by_region(const update *self, tuff_tensor *scalar, region_factor factor);
double tuff__region_rate(const tuff_optimizer *optimizer, const region *at);
/* The factor of the rate times the decay. */
double tuff__region_rate_decay(const tuff_optimizer *optimizer, const region *at);
/* The weights after decay that is no part of the gradient (Loshchilov & Hutter 2019). */
tuff_tensor *tuff__decoupled_decay(const update *self);

/* In rules_matrix.c. */
int tuff__adafactor_parts(const parameter *item, state_part *parts);
tuff_tensor *tuff__update_adafactor(update *self);
tuff_tensor *tuff__update_muon(update *self);

#endif
