/* The types that the files of src/train share: where a parameter lies in its slab, and what an optimizer keeps. A slab
   is an f32 array of total elements: group by group, parameters of rank >= 2 first, every one from a multiple of
   SLAB_ALIGNMENT elements, zeros between them and at the end. */
#ifndef TUFF_TRAIN_TRAIN_H
#define TUFF_TRAIN_TRAIN_H

#include "base/alloc.h"
#include "tuff/graph.h"
#include "tuff/train.h"

#define SLAB_ALIGNMENT 16 /* elements: no vector load of a parameter straddles two */
#define SLAB_CHUNK 1024   /* elements: the total is a multiple, so that sums over a slab go in two even stages */

typedef struct parameter {
    char *name;
    tuff_shape shape;
    int group, slab;
    int64_t offset, count; /* elements; the offset is in its slab */
    tuff_array *array;     /* a view of the slab */
} parameter;

/* A run of a slab whose parameters are of one group and all, or none, of rank >= 2. */
typedef struct region {
    int slab, group;
    bool matrices;
    int64_t begin, end; /* up to the next region or the slab's end */
} region;

typedef struct parameter_slab {
    tuff_array *array;
    int64_t total;          /* elements, a multiple of SLAB_CHUNK */
    int first, last;        /* its parameters: entries of order */
    int region, region_end; /* its regions: entries of regions */
} parameter_slab;

struct tuff_parameters {
    tuff_device *device;
    parameter *items; /* in the order given */
    int count;
    int *order; /* indices of items by slab and offset */
    parameter_slab *slabs;
    int slab_count, slab_capacity;
    region *regions; /* in the order of slabs; a new group begins at a multiple of SLAB_CHUNK */
    int region_count, region_capacity;
    int group_count;
};

/* As tuff_parameters_create_grouped, with slabs of at most `limit` elements: tests emulate small devices. */
tuff_parameters *tuff__parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count,
                                         const char *const *patterns, int pattern_count, int64_t limit);

/* Whether a name is one of a group's pattern. */
bool tuff__name_matches(const char *pattern, const char *name);

/* A set of the same parameters in the same groups, all elements zero. NULL on failure. */
tuff_parameters *tuff__parameters_like(const tuff_parameters *of);

#define MOMENTS_MAX 2
#define STATE_PARTS_MAX 2

typedef struct update update;
typedef struct optimizer_rule optimizer_rule;

/* A tensor of a parameter's state. */
typedef struct state_part {
    const char *name;
    tuff_shape shape;
    bool is_common; /* to the parameter's rows, which are what one index of the first axis holds */
} state_part;

/* An algorithm as data. */
struct optimizer_rule {
    const char *name;                 /* as checkpoints spell it */
    const char *moments[MOMENTS_MAX]; /* names of the slabs it keeps, NULL where there is none */
    /* False for options with which it keeps none of them; NULL: it always does. */
    bool (*keeps_moments)(const tuff_optimizer_options *options);
    /* Builds the new parameters of a slab range; replaces moments. NULL where memory ran out. */
    tuff_tensor *(*update)(update *self);
    /* Instead of moments: the tensors that it keeps of a parameter, not laid out as it is; how many. update is then
       called for one parameter after the other and replaces parts. */
    int (*state_parts)(const parameter *item, state_part *parts);
    const optimizer_rule *others;           /* of parameters of rank < 2; NULL: this one */
    double beta1, beta2, epsilon, momentum; /* where the options have 0 */
};

/* A run of a slab that one rule updates in one go. */
typedef struct slab_range {
    const optimizer_rule *rule;
    int slab, region, region_end; /* its regions: entries of regions */
    int64_t begin, end;           /* in the slab */
    tuff_array *weights;          /* a view of the slab, or the slab itself */
    bool owns_weights;
    tuff_array *moments[MOMENTS_MAX]; /* [end - begin] */
    tuff_array *factors;              /* state_parts of its parameters one after the other, aligned; or NULL */
    tuff_array *average;              /* [end - begin], or NULL */
} slab_range;

/* What a rule sees: all slabs are [end - begin] of the slab range. With state_parts, tensors are those of one
   parameter. */
struct update {
    const tuff_optimizer *optimizer;
    const slab_range *slab_range;
    const region *region; /* of the parameter, with state_parts */
    tuff_tensor *weights, *gradients, *moments[MOMENTS_MAX], *parts[STATE_PARTS_MAX];
    tuff_tensor *rate, *step; /* f32 scalars; step: the number of steps done before */
};

/* Per slab, the run that has gradients: without frozen groups at its ends. */
typedef struct gradient_range {
    int64_t begin, end;      /* multiples of SLAB_CHUNK; equal where all is frozen */
    tuff_array *accumulated; /* or NULL */
} gradient_range;

struct tuff_optimizer {
    const optimizer_rule *rule;
    tuff_parameters *parameters;
    tuff_optimizer_options options; /* the defaults filled in; groups and loss_scaling point to what follows */
    tuff_parameter_group groups[TUFF_MAX_GROUPS];
    tuff_loss_scaling loss_scaling;
    slab_range *slab_ranges;
    int slab_range_count, slab_range_capacity;
    gradient_range *ranges; /* one for each slab */
    tuff_array **averages;  /* views, one for each parameter; NULL without average_decay */
    tuff_array **parts;     /* views of factors, STATE_PARTS_MAX for each parameter; NULL without state_parts */
    tuff_array *counter;
    tuff_array *batches;      /* NULL: counter */
    tuff_array *rate;         /* of TUFF_SCHEDULE_PROGRAM, or NULL */
    tuff_array *loss;         /* sum of the accumulated ones, or NULL */
    tuff_array *scale;        /* f32 scalar; NULL without loss scaling, as the next */
    tuff_array *scale_counts; /* i32 [3]: good steps, skipped ones, those in a row */
};

/* Whether gradients of the parameter are taken. */
bool tuff__is_trained(const tuff_optimizer *optimizer, const parameter *item);

/* The rate of a step (f32 scalar: the number of steps done before it), as an f32 scalar. */
tuff_tensor *tuff__learning_rate(const tuff_optimizer_options *options, tuff_tensor *step);

/* Constants in the graph of another tensor. */
tuff_tensor *tuff__f32(tuff_tensor *beside, double value);
tuff_tensor *tuff__times(tuff_tensor *x, double factor);

#endif
