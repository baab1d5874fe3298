/* kernels.def as data: families of kernels, tunables and their defaults. Read kernels.def first. */
#ifndef TUFF_KERNELS_TUNABLES_H
#define TUFF_KERNELS_TUNABLES_H

#include <stdbool.h>

typedef enum tunable {
#define TUNABLE(kernel, name, ...) TUNABLE_##kernel##_##name,
#include "kernels/kernels.def"
    TUNABLE_COUNT
} tunable;

/* The families that a program may ask for, numbered as tuff_family. */
enum {
#define FAMILY(code, name) FAMILY_##code,
#include "kernels/kernels.def"
    FAMILY_COUNT
};
/* "device|register|...": the names that the tool takes. */
const char *tuff__family_names(void);

/* The columns of the table. */
typedef enum kernel_device { KERNELS_OPENCL_CPU, KERNELS_VULKAN_CPU, KERNELS_GPU } kernel_device;

typedef struct tunable_info {
    const char *kernel, *name;
    int values[3]; /* by kernel_device */
    int min, max;
    bool keeps_bits;
} tunable_info;

const tunable_info *tuff__tunable_info(tunable parameter);

/* What earlier versions called a kernel or a tunable. Texts with those names are still read (config.c), and hashes of
   kernels go on using them (kernel_hash.c): another name makes no record stale. */
typedef struct former_name {
    tunable parameter;
    const char *kernel, *name;
} former_name;

/* The former name, or NULL. */
const former_name *tuff__tunable_former(tunable parameter);
/* The former name of a kernel's text, or the name itself. */
const char *tuff__kernel_former(const char *kernel);
/* Whether a text has a former name in it. */
bool tuff__has_former_name(const char *source);
/* Of kinds of things rather than sizes. */
bool tuff__tunable_is_kind(tunable parameter);
/* Of loops that are written out, which may be of any length: tiles. */
bool tuff__tunable_is_loop(tunable parameter);
/* Whether kernels can be made with a value: of a loop, a kind of thing, or a power of two; or a value of the table. */
bool tuff__tunable_takes(tunable parameter, int value);
/* Another value than the table's. */
typedef struct tunable_exception {
    kernel_device kind;
    unsigned which; /* GPUs: the vendor; CPU devices: lanes of a vector */
    tunable parameter;
    int value;
} tunable_exception;

const tunable_exception *tuff__tunable_exceptions(int *count);
/* The value for a kind of device, and those of it that an exception names. */
int tuff__tunable_default(tunable parameter, kernel_device kind, unsigned which);
/* Whether results are the same to the last bit whatever its value is: the order of sums does not depend on it. */
bool tuff__tunable_keeps_bits(tunable parameter);

#endif
