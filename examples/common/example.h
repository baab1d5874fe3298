/* What the example programs share. An example is one `const example`: its configuration, parameters and inputs, a
   function that builds its loss, and one that fills a batch. The command line, the training loop, checkpoints, logs,
   the final table and the check against the reference device are the same for all, in this folder.

   Everything here stands on the public headers of tuff alone. */
#ifndef TUFF_EXAMPLES_EXAMPLE_H
#define TUFF_EXAMPLES_EXAMPLE_H

#include <tuff.h>
#include <tuff/checkpoint.h>
#include <tuff/data.h>
#include <tuff/train.h>

/* Numbers that every configuration has; the first member of each example's own struct. Zero is the default of those
   that say so. */
typedef struct example_settings {
    int64_t batch;       /* B: samples of a batch */
    int64_t accumulate;  /* batches of a step; 0: 1 */
    int64_t steps;       /* of a run */
    int64_t epoch_steps; /* > 0: the rate changes between epochs of so many steps only */
    int64_t warmup;      /* steps or, with epoch_steps, epochs in which the rate rises */
    double final_rate;   /* of the rate, at the end of the cosine that the schedule is; 1: the rate is constant */
    double dropout;
    double rate, beta1, beta2, epsilon, weight_decay; /* of AdamW, which decays all parameters */
    double clip_norm;                                 /* 0: no clipping */
} example_settings;

/* A number of the configuration: an int64_t, or a double where is_real is set. --set NAME=VALUE changes it, and golden
   files and checkpoints name it so. */
typedef struct example_field {
    const char *name;
    size_t offset;
    bool is_real;
    const char *meaning;
} example_field;
#define EXAMPLE_WHOLE(type, member, name, meaning)   \
    {                                                \
        name, offsetof(type, member), false, meaning \
    }
#define EXAMPLE_REAL(type, member, name, meaning)   \
    {                                               \
        name, offsetof(type, member), true, meaning \
    }

/* Random numbers on the host: SplitMix64 (Steele et al. 2014). Streams of different numbers are independent. */
typedef struct example_random {
    uint64_t state;
} example_random;
example_random example_random_stream(uint64_t seed, uint64_t stream);
uint64_t example_random_bits(example_random *self);
double example_uniform(example_random *self, double low, double high);         /* low <= x < high */
double example_normal(example_random *self);                                   /* mean 0, variance 1 */
int64_t example_integer(example_random *self, int64_t count);                  /* 0 <= x < count */
int64_t example_pick(example_random *self, const int64_t *choices, int count); /* one of count */
/* An extent that is likely to find mistakes: 1, a prime, or a multiple of 4 to 16 and its neighbours; at most most. */
int64_t example_extent(example_random *self, int64_t most);

/* How a parameter begins. */
typedef enum example_init_kind {
    EXAMPLE_CONSTANT, /* of value scale */
    EXAMPLE_NORMAL,   /* of mean 0 and standard deviation scale */
    EXAMPLE_UNIFORM   /* within +- scale */
} example_init_kind;
typedef struct example_parameter_spec {
    char name[64];
    tuff_shape shape;
    example_init_kind kind;
    double scale;
    int64_t repeat_of; /* begins as a copy of the parameter with this index; -1: has numbers of its own */
} example_parameter_spec;
/* The parameters of a model, in order. */
typedef struct example_parameters {
    example_parameter_spec *specs;
    int count, room;
    bool failed; /* out of memory */
} example_parameters;
/* Adds a parameter; name is formatted as by printf. Returns its index. */
int example_add(example_parameters *self, tuff_shape shape, example_init_kind kind, double scale, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* The same, beginning as a copy of the parameter with index original, of the same shape. */
int example_add_copy(example_parameters *self, int original, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

/* What a graph is built for. */
typedef enum example_purpose {
    EXAMPLE_TRAIN,    /* dropout, sampling */
    EXAMPLE_VALIDATE, /* neither */
    EXAMPLE_CHECK /* compared with a golden file or with the reference device: dropout as configured; everything that
                         is sampled otherwise is an input, so that no rounding can choose another sample */
} example_purpose;

/* An input of the model. */
typedef struct example_input_spec {
    const char *name; /* static */
    tuff_dtype dtype;
    tuff_shape shape; /* of a sample; of the whole where it is fixed */
    bool is_fixed;    /* has no batch axis, and is written once before the first step */
} example_input_spec;
enum { EXAMPLE_MAX_INPUTS = 16, EXAMPLE_MAX_METRICS = 8, EXAMPLE_MAX_FIELDS = 48 };
typedef struct example_inputs {
    example_input_spec specs[EXAMPLE_MAX_INPUTS];
    int count;
} example_inputs;
/* A value [batch, shape...] that `fill` writes for every batch. */
void example_add_input(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape);
/* A value of that shape that `fill_fixed` writes once. */
void example_add_fixed(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape);

/* What a batch is filled from and to. */
typedef struct example_batch {
    const void *config;
    example_purpose purpose;
    void *data; /* what `open` returned */
    uint64_t seed;
    int64_t number;      /* of the batch, from 0; those of validation are negative, from -1 down */
    int64_t count;       /* samples */
    void *const *inputs; /* to fill, row-major: those that are not fixed, in the order of `inputs` */
} example_batch;

/* The graph being built, and what it is built from. */
typedef struct example_build {
    tuff_graph *graph;
    const void *config;
    bool optimized; /* the form: else the published one with its inefficiencies */
    example_purpose purpose;
    int64_t batch;
    void *data;                  /* what `open` returned */
    tuff_parameters *parameters; /* of the model; a model may set it to other ones for a while, such as `frozen` */
    tuff_parameters *frozen;     /* a second set, which is not trained; NULL unless the example has_frozen */
    const struct example *model;
    tuff_tensor *inputs[EXAMPLE_MAX_INPUTS]; /* by index; NULL: not asked for yet */
    tuff_tensor *one;                        /* of example_copy */
    const char *metric_names[EXAMPLE_MAX_METRICS];
    tuff_tensor *metrics[EXAMPLE_MAX_METRICS];
    int metric_count;
} example_build;
/* By name, formatted as by printf. An unknown one gives a tensor that carries the graph's error. */
tuff_tensor *example_parameter(example_build *self, const char *name, ...) __attribute__((format(printf, 2, 3)));
tuff_tensor *example_input(example_build *self, const char *name);
/* Names a value that golden files hold as out.NAME (name is formatted as by printf): an output where the graph is built
   for a check, nothing otherwise. Returns the value. */
tuff_tensor *example_show(example_build *self, tuff_tensor *value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* A number of rank 0 whose mean is printed and logged. name is static. At most EXAMPLE_MAX_METRICS. */
void example_metric(example_build *self, const char *name, tuff_tensor *value);
/* count slices of x along axis, from `first` on. */
tuff_tensor *example_slice(tuff_tensor *x, int axis, int64_t first, int64_t count);
/* x, written to memory where it stands: in the baseline form, for copies that the published program makes and that a
   compiler would leave out. It is a product with an input that holds 1. */
tuff_tensor *example_copy(example_build *self, tuff_tensor *x);
/* tuff_dropout with the configuration's probability, or x where there is none for this purpose. */
tuff_tensor *example_dropout(example_build *self, tuff_tensor *x);
/* The same probability, for tuff_attention_options. */
double example_dropout_of(const example_build *self);

/* A training run, as the hooks of an example see it. */
typedef struct example_run {
    const struct example *model;
    const void *config;
    const example_settings *settings; /* of config */
    bool optimized;
    uint64_t seed;
    tuff_device *device;
    tuff_parameters *parameters, *frozen;
    tuff_optimizer *optimizer;
    tuff_plan *plan;       /* of a step, or of one batch of an accumulated one */
    tuff_plan *update;     /* of an accumulated step; NULL where a step is one plan */
    tuff_plan *validation; /* NULL: there is none */
    void *data;            /* what `open` returned */
    int64_t step;          /* steps done */
    double validation_loss, first_validation_loss, best_validation_loss; /* NaN: none yet */
} example_run;

/* The means of the loss and the metrics over `count` held-out batches, those with the numbers -1 - first, -2 - first
   and so on; reads the device. Its time is not that of the training. metrics has room for EXAMPLE_MAX_METRICS, or is
   NULL. TUFF_E_USAGE where run->validation is NULL. */
tuff_status example_validate(example_run *run, int64_t first, int64_t count, double *loss, double *metrics);

typedef struct example {
    const char *name, *summary;
    const char *item; /* what items/s counts, such as "samples" */
    size_t config_size;
    const example_field *fields; /* of the example's own; those of example_settings are known */
    int field_count;
    const void *small, *original; /* configurations */
    bool has_frozen;              /* a frozen set of parameters, at first a copy */
    bool is_evaluated;            /* has a plan for example_validate, even if there are no validations */
    bool baseline_reads_loss;     /* the published program reads the loss on the host in every step */

    /* Why a configuration makes no sense; NULL where it does. May be NULL. */
    const char *(*wrong)(const void *config);
    void (*list_parameters)(const void *config, example_parameters *list);
    void (*list_inputs)(const void *config, example_purpose purpose, example_inputs *list);
    /* Returns the loss, of rank 0. */
    tuff_tensor *(*build)(example_build *self);
    /* Writes a batch; called from several threads at once. The same numbers for the same seed and number. */
    void (*fill)(const example_batch *batch);
    /* Why a batch that was filled makes no sense, such as labels out of range: ends the run. Static text; NULL where it
       does. May be NULL; called as fill is. */
    const char *(*wrong_batch)(const example_batch *batch);
    /* Writes input `index` of list_inputs, which is fixed. May be NULL. */
    void (*fill_fixed)(const void *config, uint64_t seed, int index, void *values);
    /* Draws a small configuration for a check. config holds the small one at first. */
    void (*draw)(void *config, example_random *random);

    /* Hooks, each of which may be NULL. */
    void *(*open)(tuff_device *device, const void *config,
                  uint64_t seed); /* the data set; NULL: failed, tuff_error() */
    /* The same from the file of --data, which is refused where this is NULL. Where it fails it prints a line that says
       why. `file` says what the file holds, and what is used without it. */
    void *(*open_file)(tuff_device *device, const void *config, uint64_t seed, const char *path);
    const char *file;
    void (*close)(void *data);           /* frees plans of the example's own as well: the parameters are still there */
    double (*items)(const void *config); /* of a sample; 1 where NULL */
    void (*optimizer)(const void *config, tuff_optimizer_options *options); /* changes the defaults */
    /* Which parameters a step updates: tuff_optimizer_options.choose, for each graph that holds an update. build has
       the configuration, the form, the purpose and the data, but no inputs. */
    tuff_status (*choose)(example_build *build, const tuff_update_choice *choice);
    tuff_status (*before_step)(example_run *run);
    tuff_status (*after_step)(example_run *run); /* run->step counts the one that was enqueued */
    /* After a validation; *stop ends the training. */
    tuff_status (*validated)(example_run *run, bool *stop);
    /* After the last step: prints rows of the final table. */
    tuff_status (*finished)(example_run *run);
} example;

/* Of a configuration, by name; false where there is none. */
bool example_get(const example *model, const void *config, const char *name, double *value);
bool example_set(const example *model, void *config, const char *name, double value);
/* The number of fields, and field `index`: those of example_settings, then the example's own. */
int example_field_count(const example *model);
const example_field *example_field_at(const example *model, int index);

/* The whole program. Returns 0, 1 where the work failed, 2 for wrong use. */
int example_main(const example *model, int count, char **words);

#endif
