/* Training: parameters in slabs, optimizers as part of the graph, and checkpoints. */
#ifndef TUFF_TRAIN_H
#define TUFF_TRAIN_H

#include "tuff/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of named f32 parameters in one slab of memory, so that an optimizer step, a norm or a clip is one dispatch over
   all of them. If they do not fit into the device's largest binding or allocation, there are several slabs, each with
   whole parameters, and as many dispatches; programs see no difference. Within a slab parameters are ordered by group;
   in each group those of rank >= 2 come first, otherwise in the order given. */
typedef struct tuff_parameters tuff_parameters;

/* Name and shape of a parameter. The name, which is copied, is also the name of its tensor in a checkpoint: UTF-8, at
   most 200 bytes, not __metadata__, and not beginning with "optimizer.", which is reserved for the optimizer's
   state. */
typedef struct tuff_parameter_spec {
    const char *name;
    tuff_shape shape;
} tuff_parameter_spec;

/* Creates a set of count parameters, all elements zero. specs are copied; device must outlive the set. NULL on failure:
   TUFF_E_USAGE for duplicate names and names that a checkpoint cannot hold, TUFF_E_LIMIT for longer names, shapes,
   memory. */
TUFF_API tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count);
/* The same with groups that an optimizer may treat differently (tuff_parameter_group). A parameter belongs to group i +
   1 if patterns[i] is the first pattern that matches its name, and to group 0 if none does. A pattern is a list of
   names separated by commas, in which * stands for any text: "*.bias,*.gain". At most TUFF_MAX_GROUPS - 1 patterns;
   they are not kept. TUFF_E_USAGE for a pattern that no name matches. */
TUFF_API tuff_parameters *tuff_parameters_create_grouped(tuff_device *device, const tuff_parameter_spec *specs,
                                                         int count, const char *const *patterns, int pattern_count);
#define TUFF_MAX_GROUPS 16
/* Frees the set. Plans and optimizers that use it must have been destroyed. NULL is allowed. */
TUFF_API void tuff_parameters_destroy(tuff_parameters *parameters);
TUFF_API int tuff_parameters_count(const tuff_parameters *parameters);
/* Returns a parameter by its index in the order given at creation, and sets *name to its name unless name is NULL.
   Array and name belong to the set. NULL if index is out of range. */
TUFF_API tuff_array *tuff_parameters_at(tuff_parameters *parameters, int index, const char **name);
/* The same by name; NULL if there is no such parameter. */
TUFF_API tuff_array *tuff_parameters_find(tuff_parameters *parameters, const char *name);

/* Kinds of optimizers. w is a parameter, g its gradient, r the rate, t the step, counted from 1. */
typedef enum tuff_optimizer_kind {
    TUFF_ADAMW, /* Loshchilov & Hutter 2019: decoupled weight decay, epsilon added to the root, after bias correction */
    TUFF_SGD,   /* with momentum, optionally Nesterov; weight decay is added to the gradient (L2) */
    TUFF_ADAM,  /* Kingma & Ba 2015: like AdamW, but weight decay is added to the gradient (L2) */
    TUFF_LION,  /* Chen et al. 2023, algorithm 2: w -= r (sign(beta1 m + (1 - beta1) g) + weight_decay w), m by beta2 */
    TUFF_ADAFACTOR, /* Shazeer & Stern 2018, algorithms 4 and 5: second moments of a matrix are kept as a row and a
                       column (for rank > 2: of the last two axes), first moments not at all; decay 1 - t^-0.8, updates
                       clipped to a root mean square of 1, steps of min(r, 1 / sqrt t) max(1e-3, RMS(w)); decoupled
                       weight decay */
    TUFF_MUON,      /* Jordan 2024: parameters of rank >= 2, as matrices [first extent, all others], are updated by r
                       sqrt(max(1, outputs / inputs)) times their Nesterov momentum, made orthogonal by five
                       Newton-Schulz steps in f32, with decoupled weight decay; all other parameters by AdamW. Rows are
                       outputs unless inputs_first says otherwise */
    TUFF_OPTIMIZER_COUNT
} tuff_optimizer_kind;

/* How the rate r(s) depends on the number s of completed steps, with W = warmup_steps, T = total_steps, f =
   final_fraction. Before step W the rate rises linearly, from r / W to r. */
typedef enum tuff_schedule {
    TUFF_SCHEDULE_DEFAULT,   /* cosine if total_steps > 0, else constant */
    TUFF_SCHEDULE_CONSTANT,  /* total_steps is ignored */
    TUFF_SCHEDULE_LINEAR,    /* then falls linearly to f r at T, and stays there */
    TUFF_SCHEDULE_COSINE,    /* then falls as a cosine to f r at T, and stays there */
    TUFF_SCHEDULE_ONE_CYCLE, /* Smith & Topin 2018: rises as a cosine from r / 25 to r at W (0: three tenths of T), then
                                falls to f r (0: r / 250000) at T, and stays there */
    TUFF_SCHEDULE_PROGRAM    /* the value of tuff_optimizer_rate, which the program writes; no plan is compiled again */
} tuff_schedule;

/* How the parameters of a group (tuff_parameters_create_grouped) are treated. Zero is the default of every field. */
typedef struct tuff_parameter_group {
    double rate_factor;  /* factor on the rate; 0: 1 */
    double weight_decay; /* 0: the optimizer's; < 0: none. decay_all applies here too */
    double clip_norm;    /* > 0: the group's gradients are scaled by min(1, clip_norm / (their norm + 1e-6)) before the
                            clipping of all gradients */
    bool frozen;      /* no gradients, no state, no updates. Frozen groups at the end cost nothing; others leave gaps in
                         the slabs of gradients */
    bool elementwise; /* Muon: matrices are updated by AdamW too, as embeddings and output layers should be */
    uint32_t reserved[8];
} tuff_parameter_group;

/* Dynamic loss scaling (Micikevicius et al. 2018) on the device: the loss is multiplied by the scale before gradients
   are computed, and the gradients by its reciprocal. If any scaled gradient has an infinity or a NaN, the step is
   skipped: parameters, state, step counter and rate stay the same, bit for bit. Zero is the default. */
typedef struct tuff_loss_scaling {
    double initial;     /* 0: 2^16 */
    double growth;      /* factor after `interval` good steps in a row; 0: 2. 1 keeps the scale constant */
    double backoff;     /* factor after a skipped step; 0: 0.5. 1 keeps the scale constant */
    int64_t interval;   /* 0: 2000 */
    double low, high;   /* bounds of the scale; 0: 2^-14, 2^24 */
    int64_t skip_limit; /* number of skipped steps in a row after which tuff_optimizer_check fails; 0: 32 */
    uint32_t reserved[8];
} tuff_loss_scaling;

/* What a step has computed when the program chooses the parameters to update, and the program's choice. */
typedef struct tuff_update_choice {
    tuff_graph *graph;
    const struct tuff_optimizer_tensors *tensors; /* with tensor_norms and group_norms if the options request them */
    /* [count], by index, each in its parameter's shape, neither scaled nor clipped; NULL: frozen. */
    tuff_tensor *const *gradients;
    /* [count], by index. NULL, the initial value: updated in every step. Otherwise a tensor of any dtype: a scalar of
       rank 0 for the whole parameter, or a tensor of rank 1 with one element per row (a row is a slice along the first
       axis). Where the mask is 0, parameter, moments and average stay the same in this step, bit for bit. Parameters
       may share a mask. */
    tuff_tensor **masks;
    int count, group_count;
    uint64_t reserved[4];
} tuff_update_choice;
/* Called once while a step's graph is built, in tuff_optimizer_apply or tuff_optimizer_update. Builds masks from the
   given tensors or other tensors of the graph, so that a choice needs neither the host nor another plan. If it returns
   anything but TUFF_OK, tuff_optimizer_apply or tuff_optimizer_update returns the same. */
typedef tuff_status (*tuff_update_chooser)(void *user, const tuff_update_choice *choice);

/* Options of an optimizer. Zero is the default of every field: AdamW with rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8,
   no weight decay, no clipping, constant rate. */
typedef struct tuff_optimizer_options {
    tuff_optimizer_kind kind;
    double learning_rate; /* 0: 1e-3 */
    double beta1, beta2;  /* 0: 0.9, 0.999; Lion: 0.9, 0.99 */
    double epsilon;       /* 0: 1e-8; Adafactor, added to squares: 1e-30. FLT_MIN to FLT_MAX, because kernels use f32 */
    double momentum;      /* SGD; Muon (0: 0.95) */
    bool nesterov;        /* SGD */
    double weight_decay;
    bool decay_all;        /* decay parameters of rank < 2 too */
    bool tensor_norms;     /* compute tuff_optimizer_tensors.tensor_norms and group_norms */
    int32_t accumulate;    /* > 1: gradients are means over this many runs, see tuff_optimizer_accumulate */
    double clip_norm;      /* > 0: gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm over all of them */
    int64_t warmup_steps;  /* the rate rises linearly: in step s, from 0, it is rate · (s + 1) / warmup_steps */
    int64_t total_steps;   /* end of the schedule */
    double final_fraction; /* fraction of the rate that is left at total_steps */
    tuff_schedule schedule;
    int32_t group_count;                   /* number of entries of groups; groups beyond them have the defaults */
    const tuff_parameter_group *groups;    /* by index, copied; NULL: all have the defaults */
    double clip_value;                     /* > 0: afterwards every element of a gradient is clamped to +- clip_value */
    const tuff_loss_scaling *loss_scaling; /* copied; NULL: none */
    double average_decay; /* > 0: keeps an average a of the parameters: w after the first step, then a = average_decay a
                             + (1 - average_decay) w after each step */
    int64_t steps_per_epoch; /* > 0: warmup_steps and total_steps count epochs of this many steps, and the rate changes
                                only between epochs */
    double elementwise_rate; /* Muon: the rate of parameters updated by AdamW; 0: learning_rate */
    /* Chooses which parameters, or rows of them, a step updates; NULL: all. Norms and clipping still cover all
       gradients, and the step counter, on which rates and the bias correction of moments depend, counts every step.
       Averages begin as w in the first step, masked or not. Quantities that an update rule computes over a whole tensor
       still use all rows, masked or not: Muon's orthogonalized matrices, Adafactor's root mean squares, and its column
       moments, which change if any row is updated. */
    tuff_update_chooser choose;
    void *choose_user;
    /* Masked elements have a gradient of zero in this step, instead of being left unchanged: their moments decay, and
       moments and weight decay still change them. Norms and clipping still cover all gradients. */
    bool zero_masked;
    bool inputs_first; /* Muon: matrices are [inputs, outputs], as for tuff_linear; 0: [outputs, inputs] */
    uint32_t reserved[7];
} tuff_optimizer_options;

/* The state of an optimizer: moments in slabs laid out like those of the parameters, and the step counter, an i32 array
   of rank 0. tuff_optimizer_create: parameters must outlive the optimizer; options may be NULL: the defaults. NULL on
   failure: TUFF_E_USAGE for a value out of range, TUFF_E_LIMIT, memory. */
typedef struct tuff_optimizer tuff_optimizer;
TUFF_API tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options);
TUFF_API void tuff_optimizer_destroy(tuff_optimizer *optimizer); /* NULL is allowed */
/* Returns the number of completed steps, without skipped ones: an i32 array of rank 0 that belongs to the optimizer. */
TUFF_API tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer);
/* Returns how often gradients were computed, including skipped steps and the parts of accumulated steps: an i32 array
   of rank 0 that belongs to the optimizer. Without skipped or accumulated steps it equals the step counter. Random
   numbers and the position in the training data should depend on this counter. */
TUFF_API tuff_array *tuff_optimizer_batch_counter(tuff_optimizer *optimizer);
/* Returns the rate of TUFF_SCHEDULE_PROGRAM, initially learning_rate: an f32 array of rank 0 that belongs to the
   optimizer. NULL with other schedules. */
TUFF_API tuff_array *tuff_optimizer_rate(tuff_optimizer *optimizer);
/* Returns the average of the parameter with that index (average_decay), which belongs to the optimizer; NULL if there
   is none. */
TUFF_API tuff_array *tuff_optimizer_average(tuff_optimizer *optimizer, int index);
/* Waits for the device. Returns TUFF_E_NUMERIC if skip_limit steps in a row were skipped since the last call; the count
   then restarts. Call it when the program reads its loss anyway. */
TUFF_API tuff_status tuff_optimizer_check(tuff_optimizer *optimizer);

/* Values that a step computes anyway, for use as outputs: tensors of rank 0 and f32 unless stated otherwise. */
typedef struct tuff_optimizer_tensors {
    tuff_tensor *gradient_norm; /* over all gradients, unscaled, before clipping; not finite in a skipped step */
    tuff_tensor *learning_rate;
    tuff_tensor *loss;           /* as given, or the mean of the accumulated losses */
    tuff_tensor *loss_scale;     /* for the next step; 1 without loss scaling */
    tuff_tensor *skipped;        /* i32: skipped steps so far */
    tuff_tensor *skipped_in_row; /* i32: skipped steps since the last good one; stays at skip_limit once there */
    tuff_tensor
        *tensor_norms; /* [parameters], by index, like gradient_norm: NULL unless tensor_norms is set; 0: frozen */
    tuff_tensor *group_norms; /* [groups]; NULL unless tensor_norms is set */
} tuff_optimizer_tensors;
/* Adds a training step to loss's graph: gradients of loss with respect to all parameters, clipping, the update of
   parameters and state, and the increment of the counter. loss has rank 0. The graph must read the parameters through
   tuff_array_tensor of the set's arrays. Call tuff_graph_step(graph, tuff_optimizer_batch_counter(optimizer)) before
   building anything random. tensors may be NULL. TUFF_E_USAGE if the optimizer accumulates gradients. */
TUFF_API tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss,
                                          tuff_optimizer_tensors *tensors);
/* The same step in two graphs, for options.accumulate = N > 1: run a plan of the first graph N times, on different
   batches, then a plan of the second graph once. The first run of a step overwrites the gradients, and later runs add
   to them, so that nothing has to be cleared. */
TUFF_API tuff_status tuff_optimizer_accumulate(tuff_optimizer *optimizer, tuff_tensor *loss);
TUFF_API tuff_status tuff_optimizer_update(tuff_optimizer *optimizer, tuff_graph *graph,
                                           tuff_optimizer_tensors *tensors);

/* Saves the parameters, the optimizer's state unless optimizer is NULL, and metadata_count pairs of keys and texts as
   one safetensors file, atomically like tuff_file_save. Waits for the device. TUFF_E_USAGE between the parts of an
   accumulated step. */
TUFF_API tuff_status tuff_checkpoint_save(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                          const char *const *keys, const char *const *texts, int metadata_count);
/* Loads a file written by tuff_checkpoint_save. Nothing is changed on these errors: TUFF_E_FORMAT or TUFF_E_SHAPE if
   names or shapes differ; TUFF_E_USAGE if the file's number of batches is not a multiple of the optimizer's
   `accumulate`, which may differ from that of the saved run. An optimizer that neither accumulates nor scales the loss
   counts no batches. If it loads a run that had more batches than steps, a warning is logged: the number of steps then
   stands for the number of batches, and what depends on that, such as the position in the data, goes back. If the file
   has no rate written by the program, the rate becomes learning_rate. optimizer may be NULL: its state in the file is
   then ignored. */
TUFF_API tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer);
/* Loads the averages of the parameters (average_decay) instead of the parameters, for inference with a trained model;
   frozen parameters, which have no average, are loaded themselves. TUFF_E_FORMAT if the file has no averages. */
TUFF_API tuff_status tuff_checkpoint_load_average(const char *path, tuff_parameters *parameters);

#ifdef __cplusplus
}
#endif
#endif
