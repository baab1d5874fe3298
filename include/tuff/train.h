/* Training: parameters in slabs, optimizers as part of the graph, checkpoints. */
#ifndef TUFF_TRAIN_H
#define TUFF_TRAIN_H

#include "tuff/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of named f32 parameters that lie in one slab: an optimizer step, a norm or a clip is one dispatch over all of
   them. Tensors of rank >= 2 come first in the slab, each group in the order given. */
typedef struct tuff_parameters tuff_parameters;

/* name is copied. */
typedef struct tuff_parameter_spec {
    const char *name;
    tuff_shape shape;
} tuff_parameter_spec;

/* All elements are zero at first. Answers NULL on failure: duplicate names, memory. */
TUFF_API tuff_parameters *tuff_parameters_create(tuff_device *device, const tuff_parameter_spec *specs, int count);
TUFF_API void tuff_parameters_destroy(tuff_parameters *parameters); /* NULL is allowed */
TUFF_API int tuff_parameters_count(const tuff_parameters *parameters);
/* In the order given at creation. The array belongs to the set. NULL where index is out of range. */
TUFF_API tuff_array *tuff_parameters_at(tuff_parameters *parameters, int index, const char **name);
/* NULL where there is none. */
TUFF_API tuff_array *tuff_parameters_find(tuff_parameters *parameters, const char *name);

typedef enum tuff_optimizer_kind {
    TUFF_ADAMW, /* Loshchilov & Hutter 2019: decoupled decay, eps outside the root after bias correction */
    TUFF_SGD    /* momentum, optionally Nesterov; decay added to the gradient (L2) */
} tuff_optimizer_kind;

/* Zero is default: AdamW 1e-3, betas 0.9 and 0.999, eps 1e-8, no decay, no clipping, constant rate. */
typedef struct tuff_optimizer_options {
    tuff_optimizer_kind kind;
    double learning_rate; /* 0: 1e-3 */
    double beta1, beta2;  /* 0: 0.9, 0.999 */
    double epsilon;       /* 0: 1e-8; FLT_MIN to FLT_MAX, as kernels use it in f32 */
    double momentum;      /* SGD */
    bool nesterov;        /* SGD */
    double weight_decay;
    bool decay_all;        /* decay tensors of rank < 2 as well */
    double clip_norm;      /* > 0: gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm over all */
    int64_t warmup_steps;  /* the rate rises linearly: rate · (s + 1) / warmup_steps */
    int64_t total_steps;   /* > 0: cosine from there to final_fraction of the rate at total_steps */
    double final_fraction; /* of the rate, at the end of the cosine */
    uint32_t reserved[16];
} tuff_optimizer_options;

/* The state: moments in slabs like the parameters', and the step counter, an i32 device scalar. */
typedef struct tuff_optimizer tuff_optimizer;
TUFF_API tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options);
TUFF_API void tuff_optimizer_destroy(tuff_optimizer *optimizer); /* NULL is allowed */
/* The number of steps done, i32, rank 0; belongs to the optimizer. */
TUFF_API tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer);

/* What tuff_optimizer_apply made, for outputs: all f32 scalars of the graph. */
typedef struct tuff_optimizer_tensors {
    tuff_tensor *gradient_norm; /* over all gradients, before clipping */
    tuff_tensor *learning_rate;
} tuff_optimizer_tensors;
/* Adds to loss's graph: the gradients of loss by all parameters, clipping, the update of parameters and state, and the
   counter's raise. The graph must read the parameters through tuff_array_tensor of the set's arrays; call
   tuff_graph_step(graph, tuff_optimizer_counter(optimizer)) before building anything random. made may be NULL. */
TUFF_API tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss, tuff_optimizer_tensors *made);

/* Saves parameters, optimizer state (optimizer may be NULL) and metadata as one safetensors file, atomically; see
   tuff_file_save. Waits for the device. */
TUFF_API tuff_status tuff_checkpoint_save(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                          const char *const *keys, const char *const *texts, int metadata_count);
/* Loads what tuff_checkpoint_save wrote. Names and shapes must be the same, else TUFF_E_SHAPE or TUFF_E_FORMAT and
   nothing is changed. optimizer may be NULL: its state in the file is then ignored. */
TUFF_API tuff_status tuff_checkpoint_load(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer);

#ifdef __cplusplus
}
#endif
#endif
