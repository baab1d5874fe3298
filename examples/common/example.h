/* The interface of the training programs. An example is one `const example`: its configuration, parameters and inputs,
   a function that builds its loss, and one that fills a batch. The command line, the training loop, checkpoints, logs,
   the final table and the check against the reference device are shared and live in this folder.

   Everything here uses only tuff's public headers. */
#ifndef TUFF_EXAMPLES_EXAMPLE_H
#define TUFF_EXAMPLES_EXAMPLE_H

#include <tuff.h>
#include <tuff/checkpoint.h>
#include <tuff/data.h>
#include <tuff/train.h>

/* Numbers that every configuration has; the first member of each example's own struct. Where 0 selects a default, the
   field says so. */
typedef struct example_settings {
    int64_t batch;       /* B: samples per batch */
    int64_t accumulate;  /* batches per step; 0: 1 */
    int64_t steps;       /* steps of the run */
    int64_t epoch_steps; /* if > 0, the rate changes only between epochs of this many steps */
    int64_t warmup;      /* steps (epochs if epoch_steps is set) of linear warmup */
    double final_rate;   /* fraction of the rate at the end of the cosine schedule; 1: constant rate */
    double dropout;
    double rate, beta1, beta2, epsilon, weight_decay; /* AdamW; the decay applies to all parameters */
    double clip_norm;                                 /* largest norm of all gradients; 0: no clipping */
} example_settings;

/* A number of the configuration: an int64_t, or a double if is_real. Its name is used by --set NAME=VALUE, golden files
   and checkpoints. */
typedef struct example_field {
    const char *name;
    size_t offset;
    bool is_real;
    const char *meaning;
} example_field;
#define EXAMPLE_INTEGER(type, member, name, meaning) \
    {                                                \
        name, offsetof(type, member), false, meaning \
    }
#define EXAMPLE_REAL(type, member, name, meaning)   \
    {                                               \
        name, offsetof(type, member), true, meaning \
    }

/* Random numbers on the host: SplitMix64 (Steele et al. 2014). Different streams are independent. */
typedef struct example_random {
    uint64_t state;
} example_random;
example_random example_random_stream(uint64_t seed, uint64_t stream);
uint64_t example_random_bits(example_random *self);
double example_uniform(example_random *self, double low, double high);         /* low <= x < high */
double example_normal(example_random *self);                                   /* mean 0, variance 1 */
int64_t example_integer(example_random *self, int64_t count);                  /* 0 <= x < count */
int64_t example_pick(example_random *self, const int64_t *choices, int count); /* one of the count choices */
/* Draws an extent that is likely to expose errors: 1, a prime, or a multiple of 4 to 32 and its neighbours, at most
   `most`. */
int64_t example_random_extent(example_random *self, int64_t most);

/* How a parameter is initialized. */
typedef enum example_init_kind {
    EXAMPLE_CONSTANT, /* all elements are scale */
    EXAMPLE_NORMAL,   /* normal, mean 0, standard deviation scale */
    EXAMPLE_UNIFORM   /* uniform within +-scale */
} example_init_kind;
typedef struct example_parameter_spec {
    char name[64];
    tuff_shape shape;
    example_init_kind kind;
    double scale;
    int64_t copy_of; /* index of the parameter that this one starts as a copy of; -1: none */
} example_parameter_spec;
/* The parameters of a model, in order. */
typedef struct example_parameters {
    example_parameter_spec *specs;
    int count, room;
    bool failed; /* out of memory */
} example_parameters;
/* Adds a parameter; its name is formatted as by printf. Returns its index. */
int example_add_parameter(example_parameters *self, tuff_shape shape, example_init_kind kind, double scale,
                          const char *name, ...) __attribute__((format(printf, 5, 6)));
/* Adds a parameter that starts as a copy of the parameter with index original and has the same shape. */
int example_add_parameter_copy(example_parameters *self, int original, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

/* What a graph is built for. */
typedef enum example_purpose {
    EXAMPLE_TRAIN,    /* with dropout and sampling */
    EXAMPLE_VALIDATE, /* without either */
    EXAMPLE_CHECK     /* for comparison with a golden file or the reference device: dropout as configured; anything else
                         that is sampled is an input, so that rounding cannot select another sample */
} example_purpose;

/* An input of the model. */
typedef struct example_input_spec {
    const char *name; /* static */
    tuff_dtype dtype;
    tuff_shape shape; /* of one sample; of the whole input if is_fixed */
    bool is_fixed;    /* has no batch axis and is written once, before the first step */
} example_input_spec;
enum { EXAMPLE_MAX_INPUTS = 16, EXAMPLE_MAX_METRICS = 8, EXAMPLE_MAX_FIELDS = 48 };
typedef struct example_inputs {
    example_input_spec specs[EXAMPLE_MAX_INPUTS];
    int count;
} example_inputs;
/* Adds an input [batch, shape...] that `fill` writes for every batch. */
void example_add_input(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape);
/* Adds an input of the given shape that `fill_fixed` writes once. */
void example_add_fixed(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape);

/* A batch to fill. */
typedef struct example_batch {
    const void *config;
    example_purpose purpose;
    void *data; /* returned by `open` */
    uint64_t seed;
    int64_t number;      /* from 0; validation batches count down from -1 */
    int64_t count;       /* samples */
    void *const *inputs; /* buffers to fill, row-major: the inputs that are not fixed, in the order of `list_inputs` */
} example_batch;

/* The graph being built, and what it is built from. */
typedef struct example_build {
    tuff_graph *graph;
    const void *config;
    bool optimized; /* optimized form; else the published program with its inefficiencies */
    example_purpose purpose;
    int64_t batch;
    void *data;                  /* returned by `open` */
    tuff_parameters *parameters; /* read by example_parameter; a model may switch it temporarily, e.g. to `frozen` */
    tuff_parameters *frozen;     /* second set, which is not trained; NULL unless the example has_frozen */
    const struct example *model;
    tuff_tensor *inputs[EXAMPLE_MAX_INPUTS]; /* in the order of `list_inputs` */
    tuff_tensor *one;                        /* input of example_copy; NULL until first used */
    const char *metric_names[EXAMPLE_MAX_METRICS];
    tuff_tensor *metrics[EXAMPLE_MAX_METRICS];
    int metric_count;
} example_build;
/* Looks up a parameter (the name is formatted as by printf) or an input. For an unknown name, returns a tensor that
   carries the graph's error. */
tuff_tensor *example_parameter(example_build *self, const char *name, ...) __attribute__((format(printf, 2, 3)));
tuff_tensor *example_input(example_build *self, const char *name);
/* Names a value that golden files hold as out.NAME; name is formatted as by printf. The value becomes an output if the
   graph is built for EXAMPLE_CHECK; otherwise nothing happens. Returns the value. */
tuff_tensor *example_named_output(example_build *self, tuff_tensor *value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a rank-0 metric whose mean is printed and logged. name must be static. At most EXAMPLE_MAX_METRICS per model. */
void example_add_metric(example_build *self, const char *name, tuff_tensor *value);
/* Returns `count` slices of x along axis, starting at `first`. */
tuff_tensor *example_slice(tuff_tensor *x, int axis, int64_t first, int64_t count);
/* Returns a copy of x that is written to memory at this point. The baseline form uses it for copies that the published
   program makes and that a compiler would remove. Implemented as a product with an input that holds 1. */
tuff_tensor *example_copy(example_build *self, tuff_tensor *x);
/* tuff_dropout with the configured probability; x itself in validations or if the probability is 0. */
tuff_tensor *example_dropout(example_build *self, tuff_tensor *x);
/* The dropout probability that applies to this graph, for tuff_attention_options. */
double example_dropout_probability(const example_build *self);

/* A training run, as the hooks of an example see it. */
typedef struct example_run {
    const struct example *model;
    const void *config;
    const example_settings *settings; /* points to config */
    bool optimized;
    uint64_t seed;
    tuff_device *device;
    tuff_parameters *parameters, *frozen;
    tuff_optimizer *optimizer;
    tuff_plan *plan;       /* a step, or one batch of a step that accumulates */
    tuff_plan *update;     /* the update after the accumulated batches; NULL if a step is one plan */
    tuff_plan *validation; /* NULL if the run has no validations */
    void *data;            /* returned by `open` */
    int64_t step;          /* completed steps */
    int64_t frozen_step;   /* step whose parameters `frozen` holds; set it with every copy */
    double validation_loss, first_validation_loss, best_validation_loss; /* NaN: none yet */
} example_run;

/* Computes the mean loss and metrics over `count` held-out batches, numbered -1 - first, -2 - first and so on. Waits
   for the device; the time spent does not count as training time. metrics has room for EXAMPLE_MAX_METRICS or is NULL.
   Returns TUFF_E_USAGE if run->validation is NULL. */
tuff_status example_validate(example_run *run, int64_t first, int64_t count, double *loss, double *metrics);

typedef struct example {
    const char *name, *summary;
    const char *item; /* unit counted by items/s, such as "samples" */
    size_t config_size;
    const example_field *fields; /* the example's own fields; those of example_settings are implied */
    int field_count;
    const void *small, *original; /* configurations */
    bool has_frozen;              /* has a frozen set of parameters, initially a copy */
    bool is_evaluated;            /* needs run->validation for example_validate, even without --validate-every */
    bool baseline_reads_loss;     /* the published program reads the loss on the host in every step */

    /* Returns why a configuration is invalid, or NULL. May be NULL. */
    const char *(*check_config)(const void *config);
    void (*list_parameters)(const void *config, example_parameters *list);
    void (*list_inputs)(const void *config, example_purpose purpose, example_inputs *list);
    /* Returns the loss, of rank 0. */
    tuff_tensor *(*build)(example_build *self);
    /* Fills a batch. Called from several threads at once. Must produce the same numbers for the same seed and
       number. */
    void (*fill)(const example_batch *batch);
    /* Returns why a filled batch is invalid, such as labels out of range, or NULL. The text must be static; it ends the
       run. May be NULL. Called from several threads, like `fill`. */
    const char *(*check_batch)(const example_batch *batch);
    /* Writes the fixed input with this index in list_inputs. May be NULL. */
    void (*fill_fixed)(const void *config, uint64_t seed, int index, void *values);
    /* Draws a small configuration for --check. On entry config holds a copy of `small`. */
    void (*draw_config)(void *config, example_random *random);

    /* Hooks; each may be NULL. */
    void *(*open)(tuff_device *device, const void *config,
                  uint64_t seed); /* returns the data set; NULL on failure, with tuff_error() set */
    /* Opens the data set in the file given by --data; if NULL, the option does not exist. On failure prints a line that
       says why and returns NULL. `file_help` is the help text of --data: what the file holds, and what is used without
       it. */
    void *(*open_file)(tuff_device *device, const void *config, uint64_t seed, const char *path);
    const char *file_help;
    bool reads_several_files;            /* --data is a list of files, separated by commas */
    void (*close)(void *data);           /* also frees the example's own plans; the parameters still exist */
    double (*items)(const void *config); /* items per sample; 1 if NULL */
    void (*optimizer)(const void *config, tuff_optimizer_options *options); /* changes the default options */
    /* Chooses the parameters that a step updates: tuff_optimizer_options.choose, for each graph that holds an update.
       build has the configuration, form, purpose and data, but no inputs. */
    tuff_status (*choose)(example_build *build, const tuff_update_choice *choice);
    tuff_status (*before_step)(example_run *run);
    tuff_status (*after_step)(example_run *run); /* run->step already includes the step just enqueued */
    /* Called after a validation; setting *stop ends the training. */
    tuff_status (*after_validation)(example_run *run, bool *stop);
    /* For checkpoints: writes the state that the hooks keep on the host, as a line of text, and restores it when a run
       is resumed, including the values written to plans. read_state returns TUFF_E_FORMAT for any other text. */
    void (*write_state)(const example_run *run, char *text, size_t size);
    tuff_status (*read_state)(example_run *run, const char *text);
    /* Called after the last step; may print rows of the final table. */
    tuff_status (*after_training)(example_run *run);
} example;

/* Read and write a number of a configuration by name. Return false if there is no such number, or if it cannot hold the
   value. */
bool example_get(const example *model, const void *config, const char *name, double *value);
bool example_set(const example *model, void *config, const char *name, double value);
/* Returns a field of a configuration, an integer or a real. */
double example_field_value(const example_field *field, const void *config);
/* Number of fields, and the field with this index: those of example_settings come first, then the example's own. */
int example_field_count(const example *model);
const example_field *example_field_at(const example *model, int index);

/* Runs the whole program. Returns 0 on success, 1 if the work failed, 2 for invalid usage. */
int example_main(const example *model, int count, char **words);

#endif
