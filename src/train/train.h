/* Types shared by the files of src/train: where a parameter lies in its slab, and the state of an optimizer. A slab is
   an f32 array of `total` elements: group by group, parameters of rank >= 2 first, each aligned to SLAB_ALIGNMENT
   elements, with zeros in the gaps and at the end. */
#ifndef TUFF_TRAIN_TRAIN_H
#define TUFF_TRAIN_TRAIN_H

#include "base/alloc.h"
#include "tuff/graph.h"
#include "tuff/train.h"

#define SLAB_ALIGNMENT 16 /* elements; no vector load straddles two parameters */
#define SLAB_CHUNK 1024   /* elements; totals are multiples of it, so that sums over a slab take two even stages */

typedef struct parameter {
    char *name;
    tuff_shape shape;
    int group, slab, region;
    int64_t offset, count; /* elements; the offset is within its slab */
    tuff_array *array;     /* a view of the slab */
} parameter;

/* A run of a slab whose parameters are all of one group, and either all or none of rank >= 2. */
typedef struct region {
    int slab, group;
    bool has_matrices;
    int64_t begin, end; /* end: up to the next region or the end of the slab */
} region;

typedef struct parameter_slab {
    tuff_array *array;
    int64_t total;          /* elements, a multiple of SLAB_CHUNK */
    int first, last;        /* its parameters: order[first] to order[last - 1] */
    int region, region_end; /* its regions: regions[region] to regions[region_end - 1] */
} parameter_slab;

struct tuff_parameters {
    tuff_device *device;
    parameter *items; /* in the order of the specs */
    int count;
    int *order; /* indices of items by slab and offset */
    parameter_slab *slabs;
    int slab_count, slab_capacity;
    region *regions; /* sorted by slab; a new group begins at a multiple of SLAB_CHUNK */
    int region_count, region_capacity;
    int group_count;
};

/* Like tuff_parameters_create_grouped, but with slabs of at most `limit` elements, for tests that emulate small
   devices. */
tuff_parameters *tuff__parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count,
                                         const char *const *patterns, int pattern_count, int64_t limit);

/* Whether a name matches a group's pattern. */
bool tuff__name_matches(const char *pattern, const char *name);

/* Returns a set of the same parameters in the same groups, with all elements zero; NULL on failure. */
tuff_parameters *tuff__parameters_like(const tuff_parameters *source);

#define MOMENTS_MAX 2
#define STATE_PARTS_MAX 2

typedef struct update update;
typedef struct optimizer_rule optimizer_rule;

/* A tensor of the state of a parameter. */
typedef struct state_part {
    const char *name;
    tuff_shape shape;
    bool is_common; /* shared by the parameter's rows (slices along its first axis) */
} state_part;

/* An optimizer as a descriptor. */
struct optimizer_rule {
    const char *name;                 /* as in checkpoints */
    const char *moments[MOMENTS_MAX]; /* names of the slabs that it keeps; NULL: no more */
    /* Returns false for options with which it keeps no moments. NULL: it always keeps them. */
    bool (*keeps_moments)(const tuff_optimizer_options *options);
    /* Returns the new parameters of a slab range, and replaces moments. Returns NULL if out of memory. */
    tuff_tensor *(*update)(update *self);
    /* Instead of moments: lists the tensors that it keeps of a parameter, whose layout is not the parameter's, and
       returns their number. update is then called for each parameter by itself, and replaces parts. */
    int (*state_parts)(const parameter *item, state_part *parts);
    const optimizer_rule *fallback;         /* rule for parameters of rank < 2; NULL: this one */
    double beta1, beta2, epsilon, momentum; /* defaults for options that are 0 */
};

/* A run of a slab that one rule updates at once. */
typedef struct slab_range {
    const optimizer_rule *rule;
    int slab, region, region_end; /* its regions: regions[region] to regions[region_end - 1] */
    int64_t begin, end;           /* elements of the slab */
    tuff_array *weights;          /* a view of the slab, or the slab itself */
    bool owns_weights;
    tuff_array *moments[MOMENTS_MAX]; /* [end - begin] */
    tuff_array *factors;              /* state_parts of its parameters, consecutive and aligned; or NULL */
    tuff_array *average;              /* [end - begin], or NULL */
} slab_range;

/* Arguments of a rule. All slabs are [end - begin] of the slab range; with state_parts, tensors are those of one
   parameter. */
struct update {
    const tuff_optimizer *optimizer;
    const slab_range *slab_range;
    const region *region; /* with state_parts: region of the parameter */
    tuff_tensor *weights, *gradients, *moments[MOMENTS_MAX], *parts[STATE_PARTS_MAX];
    tuff_tensor *rate, *step; /* f32 scalars; step: number of steps done before */
};

/* The part of a slab that has gradients: frozen groups at its ends are left out. */
typedef struct gradient_range {
    int64_t begin, end;      /* multiples of SLAB_CHUNK; equal if all is frozen */
    tuff_array *accumulated; /* accumulated gradients, or NULL */
} gradient_range;

struct tuff_optimizer {
    const optimizer_rule *rule;
    tuff_parameters *parameters;
    tuff_optimizer_options options; /* with defaults filled in; groups and loss_scaling point to the fields below */
    tuff_parameter_group groups[TUFF_MAX_GROUPS];
    tuff_loss_scaling loss_scaling;
    slab_range *slab_ranges;
    int slab_range_count, slab_range_capacity;
    gradient_range *gradient_ranges; /* one for each slab */
    tuff_array **averages;           /* views, one for each parameter; NULL without average_decay */
    tuff_array **parts;              /* views of factors, STATE_PARTS_MAX per parameter; NULL without state_parts */
    tuff_array *counter;
    tuff_array *batches;      /* counter of batches; NULL: same as counter */
    tuff_array *rate;         /* set by the program (TUFF_SCHEDULE_PROGRAM), or NULL */
    tuff_array *loss;         /* sum of the accumulated losses, or NULL */
    tuff_array *scale;        /* f32 scalar; NULL without loss scaling, like scale_counts */
    tuff_array *scale_counts; /* i32 [3]: good steps since the last change, skipped steps, skipped in a row */
};

/* Whether the parameter gets gradients. */
bool tuff__is_trained(const tuff_optimizer *optimizer, const parameter *item);

/* Returns the learning rate of a step, as an f32 scalar. step: number of steps done before, an f32 scalar. */
tuff_tensor *tuff__learning_rate(const tuff_optimizer_options *options, tuff_tensor *counter, tuff_tensor *step);

/* Return a constant in the graph of another tensor, and x · factor. */
tuff_tensor *tuff__f32(tuff_tensor *like, double value);
tuff_tensor *tuff__scaled(tuff_tensor *x, double factor);

#endif
