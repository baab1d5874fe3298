/* kernels.def as data: kernel families, tunables and their defaults. Read kernels.def first. */
#ifndef TUFF_KERNELS_TUNABLES_H
#define TUFF_KERNELS_TUNABLES_H

#include <stdbool.h>

typedef enum tunable {
#define TUNABLE(kernel, name, ...) TUNABLE_##kernel##_##name,
#include "kernels/kernels.def"
    TUNABLE_COUNT
} tunable;

/* The families that a program may request, numbered as in tuff_family. */
enum {
#define FAMILY(code, name) FAMILY_##code,
#include "kernels/kernels.def"
    FAMILY_COUNT
};
/* Returns "device|register|...": the family names that the tool accepts. */
const char *tuff__family_names(void);

/* The columns of the table, one per kind of device. */
typedef enum kernel_device { KERNELS_OPENCL_CPU, KERNELS_VULKAN_CPU, KERNELS_GPU } kernel_device;

typedef struct tunable_info {
    const char *kernel, *name;
    int values[3]; /* indexed by kernel_device */
    int min, max;
    bool keeps_bits; /* results are bitwise the same for every value: the order of sums does not depend on it */
} tunable_info;

const tunable_info *tuff__tunable_info(tunable parameter);

/* The name that earlier versions gave a kernel or a tunable. Texts with former names are still read (config.c), and
   hashes of kernels keep using them (kernel_hash.c), so that a renaming makes no record stale. */
typedef struct former_name {
    tunable parameter;
    const char *kernel, *name;
} former_name;

/* Returns the former name, or NULL. */
const former_name *tuff__tunable_former_name(tunable parameter);
/* Returns the former name of a kernel's text, or the name itself if it was never renamed. */
const char *tuff__kernel_former_name(const char *kernel);
/* Whether the text contains a former name. */
bool tuff__has_former_name(const char *source);
/* Whether the values are alternatives (an enumeration) rather than sizes. */
bool tuff__tunable_is_choice(tunable parameter);
/* Whether the values are sizes of unrolled loops (tiles), which need not be powers of two. */
bool tuff__tunable_is_loop(tunable parameter);
/* Whether kernels can be built with the value. It must lie in the tunable's range and be a power of two or listed in
   the table, unless the tunable is a loop or a choice among alternatives. */
bool tuff__tunable_accepts(tunable parameter, int value);
/* A value that differs from the table's for some devices of one kind. */
typedef struct tunable_exception {
    kernel_device kind;
    unsigned variant; /* GPUs: the vendor's PCI number; CPU devices: lanes of a vector */
    tunable parameter;
    int value;
} tunable_exception;

const tunable_exception *tuff__tunable_exceptions(int *count);
/* Returns the default for a kind of device; an exception for `variant` takes precedence. */
int tuff__tunable_default(tunable parameter, kernel_device kind, unsigned variant);

#endif
