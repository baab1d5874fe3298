/* Training: parameters in slabs, optimizers as part of the graph, checkpoints. */
#ifndef TUFF_TRAIN_H
#define TUFF_TRAIN_H

#include "tuff/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of named f32 parameters in one slab of memory, so that an optimizer step, a norm or a clip is one dispatch over
   all of them. Where they are more than the device's largest binding or allocation holds, there are several slabs, each
   with whole parameters, and as many dispatches; programs see no difference. In a slab, parameters lie group by group,
   in each those of rank >= 2 first, otherwise in the order given. */
typedef struct tuff_parameters tuff_parameters;

/* name is copied. It is that of a tensor in a checkpoint: UTF-8, at most 200 bytes, not __metadata__, and none that
   begins with optimizer., for these are the optimizer's. */
typedef struct tuff_parameter_spec {
    const char *name;
    tuff_shape shape;
} tuff_parameter_spec;

/* count parameters, all elements zero. specs are copied; device must outlive the set. NULL on failure: TUFF_E_USAGE for
   duplicate names and those that no checkpoint can hold, TUFF_E_LIMIT for longer ones, shapes, memory. */
TUFF_API tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count);
/* The same in groups that an optimizer may treat differently (tuff_parameter_group): a parameter belongs to group i + 1
   where patterns[i] is the first that its name matches, to group 0 where it matches none. A pattern is a list of names,
   separated by commas, in which * stands for any text: "*.bias,*.gain". At most TUFF_MAX_GROUPS - 1 patterns; they are
   not kept. TUFF_E_USAGE for a pattern that no name matches. */
TUFF_API tuff_parameters *tuff_parameters_create_grouped(tuff_device *device, const tuff_parameter_spec *specs,
                                                         int count, const char *const *patterns, int pattern_count);
#define TUFF_MAX_GROUPS 16
/* Plans and optimizers that use the set must have been destroyed. NULL is allowed. */
TUFF_API void tuff_parameters_destroy(tuff_parameters *parameters);
TUFF_API int tuff_parameters_count(const tuff_parameters *parameters);
/* A parameter, in the order given at creation; *name is set to its name, where name is not NULL. Array and name belong
   to the set. NULL where index is out of range. */
TUFF_API tuff_array *tuff_parameters_at(tuff_parameters *parameters, int index, const char **name);
/* The same by name; NULL where there is none. */
TUFF_API tuff_array *tuff_parameters_find(tuff_parameters *parameters, const char *name);

/* With w a parameter, g its gradient, r the rate, t the step from 1. */
typedef enum tuff_optimizer_kind {
    TUFF_ADAMW, /* Loshchilov & Hutter 2019: decoupled weight decay, epsilon added to the root, after bias correction */
    TUFF_SGD,   /* with momentum, optionally Nesterov; weight decay is added to the gradient (L2) */
    TUFF_ADAM,  /* Kingma & Ba 2015: as AdamW, but weight decay is added to the gradient (L2) */
    TUFF_LION,  /* Chen et al. 2023, algorithm 2: w -= r (sign(beta1 m + (1 - beta1) g) + weight_decay w), m by beta2 */
    TUFF_ADAFACTOR, /* Shazeer & Stern 2018, algorithms 4 and 5: second moments of matrices as a row and a column (of
                       rank > 2: of the last two axes), no first ones; decay 1 - t^-0.8, updates clipped at a root mean
                       square of 1, steps of min(r, 1 / sqrt t) max(1e-3, RMS(w)); decoupled weight decay */
    TUFF_MUON       /* Jordan 2024: parameters of rank >= 2, as matrices [first extent, all others], move along their
                       Nesterov momentum made orthogonal by five Newton-Schulz steps in f32, by r sqrt(max(1, outputs
                       / inputs)), with decoupled weight decay; all other parameters by AdamW. Rows are outputs
                       unless inputs_first says otherwise */
} tuff_optimizer_kind;

/* How the rate r(s) depends on the number s of steps done, W = warmup_steps, T = total_steps, f = final_fraction.
   Before step W it rises linearly, from r / W to r. */
typedef enum tuff_schedule {
    TUFF_SCHEDULE_DEFAULT,   /* cosine where total_steps > 0, else constant */
    TUFF_SCHEDULE_CONSTANT,  /* total_steps does not matter */
    TUFF_SCHEDULE_LINEAR,    /* then falls linearly to f r at T, and stays */
    TUFF_SCHEDULE_COSINE,    /* then falls as a cosine to f r at T, and stays */
    TUFF_SCHEDULE_ONE_CYCLE, /* Smith & Topin 2018: as a cosine from r / 25 up to r at W (0: three tenths of T), then
                                down to f r (0: r / 250000) at T, and stays */
    TUFF_SCHEDULE_PROGRAM    /* what tuff_optimizer_rate holds: the program writes it, no plan is compiled again */
} tuff_schedule;

/* How the parameters of a group (tuff_parameters_create_grouped) are treated. Zero is the default of every field. */
typedef struct tuff_parameter_group {
    double rate_factor;  /* of the rate; 0: 1 */
    double weight_decay; /* 0: the optimizer's; < 0: none. decay_all holds for it as well */
    double clip_norm;    /* > 0: the group's gradients are scaled by min(1, clip_norm / (their norm + 1e-6)) before the
                            clipping of all */
    bool frozen;      /* no gradients, no state, no updates. Frozen groups at the end cost nothing; others are gaps in
                            the slabs of gradients */
    bool elementwise; /* Muon: matrices by AdamW as well, as embeddings and output layers should be */
    uint32_t reserved[8];
} tuff_parameter_group;

/* Dynamic loss scaling (Micikevicius et al. 2018) on the device: the loss is multiplied by the scale before gradients
   are taken, and they by its reciprocal. A step in which any gradient, scaled, has an infinity or a NaN is skipped:
   parameters, state and step counter stay as they are, bit for bit, and so does the rate. Zero is the default. */
typedef struct tuff_loss_scaling {
    double initial;     /* 0: 2^16 */
    double growth;      /* factor after `interval` good steps in a row; 0: 2. 1 keeps the scale as it is */
    double backoff;     /* factor after a skipped step; 0: 0.5. 1 keeps the scale as it is */
    int64_t interval;   /* 0: 2000 */
    double low, high;   /* the scale stays within; 0: 2^-14, 2^24 */
    int64_t skip_limit; /* skipped steps in a row after which tuff_optimizer_check fails; 0: 32 */
    uint32_t reserved[8];
} tuff_loss_scaling;

/* What a step has computed when the program chooses the parameters that it updates, and the choice. */
typedef struct tuff_update_choice {
    tuff_graph *graph;
    const struct tuff_optimizer_tensors *tensors; /* with tensor_norms and group_norms where the options ask for them */
    /* [count], by index, in the parameter's shape, not scaled or clipped; NULL: frozen. */
    tuff_tensor *const *gradients;
    /* [count], by index, NULL at first: updated in every step. Else a tensor of any dtype: either one scalar for the
       whole parameter, of rank 0, or one element per row, of rank 1 (a row is a slice along the first axis). Where it
       is 0, parameter, moments and average stay as they are in this step, bit for bit. Parameters may have a mask in
       common. */
    tuff_tensor **masks;
    int count, group_count;
    uint64_t reserved[4];
} tuff_update_choice;
/* Called while a step's graph is built, in tuff_optimizer_apply or tuff_optimizer_update, once; builds masks out of the
   tensors, or others of the graph, so that a choice needs neither the host nor another plan. What it returns other than
   TUFF_OK is returned there. */
typedef tuff_status (*tuff_update_chooser)(void *user, const tuff_update_choice *choice);

/* Zero is the default of every field: AdamW with rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8, no weight decay, no
   clipping, constant rate. */
typedef struct tuff_optimizer_options {
    tuff_optimizer_kind kind;
    double learning_rate; /* 0: 1e-3 */
    double beta1, beta2;  /* 0: 0.9, 0.999; Lion 0.9, 0.99 */
    double epsilon;       /* 0: 1e-8; Adafactor, added to squares: 1e-30. FLT_MIN to FLT_MAX, for kernels use f32 */
    double momentum;      /* SGD; Muon, 0: 0.95 */
    bool nesterov;        /* SGD */
    double weight_decay;
    bool decay_all;        /* decay parameters of rank < 2 as well */
    bool tensor_norms;     /* tuff_optimizer_tensors.tensor_norms and group_norms are wanted */
    int32_t accumulate;    /* > 1: gradients are means over so many runs, see tuff_optimizer_accumulate */
    double clip_norm;      /* > 0: gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm over all of them */
    int64_t warmup_steps;  /* the rate rises linearly: in step s, from 0, to rate · (s + 1) / warmup_steps */
    int64_t total_steps;   /* where the schedule ends */
    double final_fraction; /* of the rate, at total_steps */
    tuff_schedule schedule;
    int32_t group_count;                   /* entries of groups; groups beyond them have the defaults */
    const tuff_parameter_group *groups;    /* by index, copied; NULL: all have the defaults */
    double clip_value;                     /* > 0: then every element of a gradient is kept within +- clip_value */
    const tuff_loss_scaling *loss_scaling; /* copied; NULL: none */
    double average_decay; /* > 0: keeps an average a of the parameters: w after the first step, then a = average_decay
                                a + (1 - average_decay) w after each */
    int64_t steps_per_epoch; /* > 0: warmup_steps and total_steps count epochs of so many steps, and the rate changes
                                between epochs only */
    double elementwise_rate; /* Muon: the rate of what AdamW updates; 0: learning_rate */
    /* Which parameters, or rows of them, a step updates; NULL: all. Norms and clipping are of all gradients, and the
       step counter, on which rates and the correction of moments depend, counts every step. Averages begin as w in the
       first step, masked or not. Quantities that a rule computes over a whole tensor still use all rows, masked or not:
       Muon's orthogonalised matrices, Adafactor's root mean squares, and its column moments, which change if any row is
       updated. */
    tuff_update_chooser choose;
    void *choose_user;
    /* What a mask leaves out has a gradient of zero in this step, instead of staying as it is: moments decay, and
       they and weight decay move it. Norms and clipping are of all gradients nevertheless. */
    bool zero_masked;
    bool inputs_first; /* Muon: matrices are [inputs, outputs], as of tuff_linear; 0: [outputs, inputs] */
    uint32_t reserved[7];
} tuff_optimizer_options;

/* The state of an optimizer: moments in slabs laid out as the parameters', and the step counter, an i32 array of rank
   0. parameters must outlive it; options may be NULL: the defaults. NULL on failure: TUFF_E_USAGE for a value out of
   range, TUFF_E_LIMIT, memory. */
typedef struct tuff_optimizer tuff_optimizer;
TUFF_API tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options);
TUFF_API void tuff_optimizer_destroy(tuff_optimizer *optimizer); /* NULL is allowed */
/* The number of steps done, without skipped ones: an i32 array of rank 0, which belongs to the optimizer. */
TUFF_API tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer);
/* The number of times that gradients were computed, skipped steps and parts of accumulated ones included: an i32 array
   of rank 0, which belongs to the optimizer. The same as the counter where there are neither. This is what random
   numbers should depend on, and the position in the training data. */
TUFF_API tuff_array *tuff_optimizer_batch_counter(tuff_optimizer *optimizer);
/* The rate of TUFF_SCHEDULE_PROGRAM, learning_rate at first: an f32 array of rank 0, which belongs to the optimizer.
   NULL with other schedules. */
TUFF_API tuff_array *tuff_optimizer_rate(tuff_optimizer *optimizer);
/* The average of the parameter with that index (average_decay), which belongs to the optimizer; NULL where there is
   none. */
TUFF_API tuff_array *tuff_optimizer_average(tuff_optimizer *optimizer, int index);
/* Waits for the device. TUFF_E_NUMERIC where skip_limit steps in a row were skipped since the last call; the count then
   restarts. Call it where the program reads its loss anyway. */
TUFF_API tuff_status tuff_optimizer_check(tuff_optimizer *optimizer);

/* What a step computes on the way, for outputs: tensors of rank 0, f32 unless it says otherwise. */
typedef struct tuff_optimizer_tensors {
    tuff_tensor *gradient_norm; /* over all gradients, unscaled, before clipping; not finite in a skipped step */
    tuff_tensor *learning_rate;
    tuff_tensor *loss;           /* as given, or the mean of the accumulated ones */
    tuff_tensor *loss_scale;     /* of the next step; 1 without loss scaling */
    tuff_tensor *skipped;        /* i32: skipped steps so far */
    tuff_tensor *skipped_in_row; /* i32: those since the last good one; stays at skip_limit once there */
    tuff_tensor
        *tensor_norms; /* [parameters], by index, as gradient_norm: NULL unless tensor_norms is set; 0 of frozen */
    tuff_tensor *group_norms; /* [groups], likewise */
} tuff_optimizer_tensors;
/* Adds a training step to loss's graph: gradients of loss with respect to all parameters, clipping, the update of
   parameters and state, and the increment of the counter. loss has rank 0. The graph must read the parameters with
   tuff_array_tensor of the set's arrays. Call tuff_graph_step(graph, tuff_optimizer_batch_counter(optimizer)) before
   anything random is built. tensors may be NULL. TUFF_E_USAGE where gradients are accumulated. */
TUFF_API tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss,
                                          tuff_optimizer_tensors *tensors);
/* The same step in two graphs, where options.accumulate is N > 1: a plan of the first runs N times, on different
   batches, then a plan of the second once. The first run of a step writes its gradients where later ones add theirs, so
   that nothing is cleared. */
TUFF_API tuff_status tuff_optimizer_accumulate(tuff_optimizer *optimizer, tuff_tensor *loss);
TUFF_API tuff_status tuff_optimizer_update(tuff_optimizer *optimizer, tuff_graph *graph,
                                           tuff_optimizer_tensors *tensors);

/* Saves parameters, the optimizer's state unless optimizer is NULL, and metadata_count pairs of keys and texts as one
   safetensors file, atomically as tuff_file_save does. Waits for the device. TUFF_E_USAGE between the parts of an
   accumulated step. */
TUFF_API tuff_status tuff_checkpoint_save(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                          const char *const *keys, const char *const *texts, int metadata_count);
/* Loads what tuff_checkpoint_save wrote. If names or shapes differ, the result is TUFF_E_FORMAT or TUFF_E_SHAPE and
   nothing is changed; the same with TUFF_E_USAGE where the batches so far are no whole steps of the optimizer's
   `accumulate`, which may be another than the file was written with. A file without a rate that the program wrote
   leaves it as learning_rate says. optimizer may be NULL: its state in the file is then ignored. */
TUFF_API tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer);
/* Loads the averages of the parameters (average_decay) instead of the parameters, as what a trained model is run with;
   frozen parameters, which have none, are as they are. TUFF_E_FORMAT where the file holds no averages. */
TUFF_API tuff_status tuff_checkpoint_load_average(const char *path, tuff_parameters *parameters);

#ifdef __cplusplus
}
#endif
#endif
