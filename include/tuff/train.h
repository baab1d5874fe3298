/* Training: parameters in slabs, optimizers as part of the graph, checkpoints. */
#ifndef TUFF_TRAIN_H
#define TUFF_TRAIN_H

#include "tuff/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of named f32 parameters in one slab of memory, so that an optimizer step, a norm or a clip is one dispatch over
   all of them. In the slab, tensors of rank >= 2 come first, otherwise in the order given. */
typedef struct tuff_parameters tuff_parameters;

/* name is copied. */
typedef struct tuff_parameter_spec {
    const char *name;
    tuff_shape shape;
} tuff_parameter_spec;

/* count parameters, all elements zero. specs are copied; device must outlive the set. NULL on failure: TUFF_E_USAGE for
   duplicate names, shapes, memory. */
TUFF_API tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count);
/* Plans and optimizers that use the set must have been destroyed. NULL is allowed. */
TUFF_API void tuff_parameters_destroy(tuff_parameters *parameters);
TUFF_API int tuff_parameters_count(const tuff_parameters *parameters);
/* A parameter, in the order given at creation; *name is set to its name, where name is not NULL. Array and name belong
   to the set. NULL where index is out of range. */
TUFF_API tuff_array *tuff_parameters_at(tuff_parameters *parameters, int index, const char **name);
/* The same by name; NULL where there is none. */
TUFF_API tuff_array *tuff_parameters_find(tuff_parameters *parameters, const char *name);

typedef enum tuff_optimizer_kind {
    TUFF_ADAMW, /* Loshchilov & Hutter 2019: decoupled weight decay, epsilon added to the root, after bias correction */
    TUFF_SGD    /* with momentum, optionally Nesterov; weight decay is added to the gradient (L2) */
} tuff_optimizer_kind;

/* Zero is the default of every field: AdamW with rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8, no weight decay, no
   clipping, constant rate. */
typedef struct tuff_optimizer_options {
    tuff_optimizer_kind kind;
    double learning_rate; /* 0: 1e-3 */
    double beta1, beta2;  /* 0: 0.9, 0.999 */
    double epsilon;       /* 0: 1e-8; FLT_MIN to FLT_MAX, because kernels use it as f32 */
    double momentum;      /* SGD */
    bool nesterov;        /* SGD */
    double weight_decay;
    bool decay_all;        /* decay parameters of rank < 2 as well */
    double clip_norm;      /* > 0: gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm over all of them */
    int64_t warmup_steps;  /* the rate rises linearly: in step s, from 0, to rate · (s + 1) / warmup_steps */
    int64_t total_steps;   /* > 0: after that the rate falls as a cosine to final_fraction of itself at total_steps */
    double final_fraction; /* of the rate, at the end of the cosine */
    uint32_t reserved[16];
} tuff_optimizer_options;

/* The state of an optimizer: moments in slabs laid out as the parameters', and the step counter, an i32 array of rank
   0. parameters must outlive it; options may be NULL: the defaults. NULL on failure: TUFF_E_USAGE for a value out of
   range, TUFF_E_LIMIT, memory. */
typedef struct tuff_optimizer tuff_optimizer;
TUFF_API tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options);
TUFF_API void tuff_optimizer_destroy(tuff_optimizer *optimizer); /* NULL is allowed */
/* The number of steps done: an i32 array of rank 0, which belongs to the optimizer. */
TUFF_API tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer);

/* What tuff_optimizer_apply computes on the way, for outputs: f32 tensors of rank 0. */
typedef struct tuff_optimizer_tensors {
    tuff_tensor *gradient_norm; /* over all gradients, before clipping */
    tuff_tensor *learning_rate;
} tuff_optimizer_tensors;
/* Adds a training step to loss's graph: gradients of loss with respect to all parameters, clipping, the update of
   parameters and state, and the increment of the counter. loss has rank 0. The graph must read the parameters with
   tuff_array_tensor of the set's arrays. Call tuff_graph_step(graph, tuff_optimizer_counter(optimizer)) before anything
   random is built. tensors may be NULL. */
TUFF_API tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss,
                                          tuff_optimizer_tensors *tensors);

/* Saves parameters, the optimizer's state unless optimizer is NULL, and metadata_count pairs of keys and texts as one
   safetensors file, atomically as tuff_file_save does. Waits for the device. */
TUFF_API tuff_status tuff_checkpoint_save(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                          const char *const *keys, const char *const *texts, int metadata_count);
/* Loads what tuff_checkpoint_save wrote. If names or shapes differ, the result is TUFF_E_FORMAT or TUFF_E_SHAPE and
   nothing is changed. optimizer may be NULL: its state in the file is then ignored. */
TUFF_API tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
