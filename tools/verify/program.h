/* Random programs: training steps like those of real programs, with small odd extents, for comparing a device with the
   float64 reference. A recipe describes a program. Recipes are drawn from a seed, written as a line of text, and
   simplified. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_H
#define TUFF_TOOLS_VERIFY_PROGRAM_H

#include "tuff.h"

/* The fields of a recipe. Their values are in the table of program_recipe.c, the simplest first. */
typedef enum program_field {
    FIELD_FORM,
    FIELD_LAYERS,
    FIELD_BATCH,
    FIELD_LENGTH, /* tokens per sequence, or rows and columns of an image */
    FIELD_WIDTH,  /* of a head or a hidden layer, or channels of a convolution */
    FIELD_HEADS,
    FIELD_SHARING, /* query heads per head of keys and values */
    FIELD_HIDDEN,  /* of a transformer's MLP */
    FIELD_INPUTS,  /* vocabulary, features, or channels of an image */
    FIELD_CLASSES,
    FIELD_PATCH, /* rows and columns of a convolution's kernel */
    FIELD_MASK,
    FIELD_POSITIONS,
    FIELD_PROJECTIONS, /* of queries, keys and values */
    FIELD_NORM,
    FIELD_NORM_PLACE,
    FIELD_ACTIVATION,
    FIELD_BIAS,
    FIELD_RESIDUAL,
    FIELD_TIED,
    FIELD_DROPOUT,
    FIELD_READOUT, /* the part of a sequence that is classified */
    FIELD_LOSS,
    FIELD_PARTS, /* of the batch, whose losses are added up */
    FIELD_RECOMPUTE,
    FIELD_OPTIMIZER,
    FIELD_DECAY,
    FIELD_CLIP,
    FIELD_SCHEDULE,
    FIELD_STEPS,
    FIELD_FUSE,
    FIELD_FAMILY,
    FIELD_STRIDE,  /* of convolutions of images */
    FIELD_POOL,    /* after convolutions of images */
    FIELD_SCALING, /* of the loss */
    FIELD_PRECISION,
    FIELD_GROUPS,     /* of parameters */
    FIELD_ACCUMULATE, /* runs whose gradients make one step */
    FIELD_AVERAGE,    /* of the weights */
    FIELD_COUNT
} program_field;

/* Values of the fields that are words, in the order of the table. */
/* FORM_CONVOLUTION is built from slices, FORM_IMAGES uses tuff_conv2d. */
typedef enum program_form { FORM_MLP, FORM_CONVOLUTION, FORM_TRANSFORMER, FORM_IMAGES } program_form;
typedef enum program_pool { POOL_NONE, POOL_MAX, POOL_AVERAGE, POOL_OVERLAPPING } program_pool;
typedef enum program_mask { MASK_CAUSAL, MASK_NONE, MASK_WINDOW, MASK_LENGTHS, MASK_SEGMENTS } program_mask;
typedef enum program_positions {
    POSITIONS_NONE,
    POSITIONS_LEARNED,
    POSITIONS_INTERLEAVED,
    POSITIONS_HALF,
    POSITIONS_BIAS
} program_positions;
typedef enum program_norm { NORM_NONE, NORM_LAYER, NORM_PLAIN_LAYER, NORM_RMS, NORM_GROUP } program_norm;
typedef enum program_activation {
    ACTIVATION_NONE,
    ACTIVATION_RELU,
    ACTIVATION_GELU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_SILU,
    ACTIVATION_TANH,
    ACTIVATION_SWIGLU
} program_activation;
typedef enum program_readout { READOUT_TOKENS, READOUT_MEAN, READOUT_LAST } program_readout;
typedef enum program_loss { LOSS_CROSS_ENTROPY, LOSS_SMOOTHED, LOSS_SQUARES } program_loss;
typedef enum program_optimizer {
    OPTIMIZER_MOMENTUM,
    OPTIMIZER_SGD,
    OPTIMIZER_NESTEROV,
    OPTIMIZER_ADAMW,
    OPTIMIZER_SMOOTH_ADAMW,
    OPTIMIZER_SMOOTH_ADAM,
    OPTIMIZER_LION,
    OPTIMIZER_ADAFACTOR,
    OPTIMIZER_SMOOTH_ADAFACTOR,
    OPTIMIZER_MUON,
    OPTIMIZER_COUNT
} program_optimizer;
typedef enum program_clip { CLIP_NONE, CLIP_NORM, CLIP_VALUE, CLIP_GROUPS, CLIP_ALL } program_clip;
typedef enum program_scaling { SCALING_NONE, SCALING_KEPT, SCALING_GROWS } program_scaling;
typedef enum program_groups {
    GROUPS_NONE,
    GROUPS_RATES, /* factors of the rate, and for Muon elementwise parameters */
    GROUPS_DECAY, /* groups with their own decay or without any */
    GROUPS_FROZEN_LAYER,
    GROUPS_FROZEN_BIASES
} program_groups;

/* Faults injected on purpose, to check that they are found. */
typedef enum program_fault {
    FAULT_NONE,
    FAULT_BIAS,  /* values lack the biases of the first layer, whose gradients are still correct */
    FAULT_SAMPLE /* the last sample of a batch gets the targets of the first */
} program_fault;

/* Changes that leave the results of a program the same. All zero means none. */
typedef struct program_variant {
    bool reversed;       /* the samples of a batch in reverse order */
    int padding;         /* tokens after every sequence, whose targets are ignored */
    double scale;        /* of the loss; 0: 1 */
    bool several_plans;  /* a new plan for every step */
    tuff_tune_mode tune; /* TUFF_TUNE_QUICK: kernels are tuned briefly first; else TUFF_TUNE_OFF */
    program_fault fault; /* unlike the others, changes the results */
} program_variant;

typedef struct program_recipe {
    uint64_t seed;                      /* of the sizes and all data */
    unsigned char choices[FIELD_COUNT]; /* index of each field's value */
    program_variant variant;
} program_recipe;

/* Draws the program of a seed: forms, ops and extents by weight, none so large that the host takes long. PROGRAM_FAMILY
   consecutive seeds form a family with the same extents. Its programs differ in what must be planned for each, but
   share most kernels, because compiling kernels takes most of the time. */
enum { PROGRAM_FAMILY = 32 };
program_recipe program_draw(uint64_t seed);
uint64_t program_family(uint64_t seed);
/* The value of a field: as a number (of a word: its index), as an integer, and as an index. */
double program_number(const program_recipe *recipe, program_field field);
int64_t program_size(const program_recipe *recipe, program_field field);
int program_choice(const program_recipe *recipe, program_field field);

/* Writes "seed=7 form=mlp width=13 ...", with every field that does not have its simplest value. */
void program_describe(const program_recipe *recipe, char *line, size_t size);
/* Parses such a line. TUFF_E_USAGE, naming the word, if it is invalid. */
tuff_status program_parse(const char *line, program_recipe *out);

/* Simplifies a failing recipe, field by field, as long as it fails, with at most `tries` calls of fails. */
void program_shrink(program_recipe *recipe, bool (*fails)(void *state, const program_recipe *recipe), void *state,
                    int tries);

#endif
