/* The environment key: the device and driver on which a time was measured, as far as times depend on them. As text:

     opencl; device AMD EPYC; class cpu; vendor 8086:0000; units 2; local 262144; group 8192; subgroup 64; lanes 8;
     platform Intel(R) OpenCL, LINUX; driver Intel(R) OpenCL, LINUX, driver 2026.22; api OpenCL 3.1; system Linux x86_64

   on one line. The individual board (UUID), its clocks and its memory size are not part of the key. */
#ifndef TUFF_TUNEDB_ENVIRONMENT_H
#define TUFF_TUNEDB_ENVIRONMENT_H

#include "base/status.h"
#include "tuff/device.h"

enum { ENVIRONMENT_SIZE = 1024 };

typedef struct tune_environment {
    char backend[16];   /* "opencl", "vulkan", "reference" */
    char device[128];   /* as spelt by the driver */
    char kind[16];      /* "cpu", "gpu", "reference" */
    char platform[128]; /* the driver's name, without its version */
    char driver[128];   /* name and version */
    char api[32];
    char system[96];
    uint32_t vendor, device_id, units, local_memory, group_size, subgroup, lanes;
} tune_environment;

/* Describes a device that is listed or opened; results of its self-test are not used. */
void tuff__environment_from_info(const tuff_device_info *info, tune_environment *out);
/* Writes the text to buffer, of ENVIRONMENT_SIZE bytes, and returns buffer. */
const char *tuff__environment_text(const tune_environment *environment, char *buffer);
#define ENVIRONMENT_TEXT(environment) tuff__environment_text((environment), (char[ENVIRONMENT_SIZE]){0})
/* Parses an environment. TUFF_E_FORMAT if the text is not one. Unknown members, as later versions may write, are
   skipped. */
tuff_status tuff__environment_parse(const char *source, tune_environment *out);

/* Copies a device's name without the version that software devices put in brackets: "llvmpipe (LLVM 15.0.6, 256
   bits)". */
void tuff__environment_unversioned_device(const char *device, char *out, size_t size);

/* How well a result from one environment applies to another, best first. */
typedef enum likeness {
    LIKENESS_SAME,
    LIKENESS_OTHER_DRIVER,  /* the same device, platform and limits, another version */
    LIKENESS_OTHER_BACKEND, /* the same device through another API or platform */
    LIKENESS_ARCHITECTURE,  /* another device of the same architecture; CPUs with vectors of another width */
    LIKENESS_NONE
} likeness;
likeness tuff__environment_compare(const tune_environment *a, const tune_environment *b);

#endif
