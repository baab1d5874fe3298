/* The environment key: on what a time was measured, as far as times are comparable. As text:

     opencl; device AMD EPYC; class cpu; vendor 8086:0000; units 2; local 262144; group 8192; subgroup 64; lanes 8;
     platform Intel(R) OpenCL, LINUX; driver Intel(R) OpenCL, LINUX, driver 2026.22; api OpenCL 3.1; system Linux x86_64

   on one line. Which board it is (UUID), its clocks and its memory are no part of it. */
#ifndef TUFF_TUNEDB_ENVIRONMENT_H
#define TUFF_TUNEDB_ENVIRONMENT_H

#include "base/status.h"
#include "tuff/device.h"

enum { ENVIRONMENT_SIZE = 1024 };

typedef struct tune_environment {
    char backend[16];   /* "opencl", "vulkan", "reference" */
    char device[128];   /* as the driver spells it */
    char kind[16];      /* "cpu", "gpu", "reference" */
    char platform[128]; /* the driver's name, without its version */
    char driver[128];   /* name and version */
    char api[32];
    char system[96];
    uint32_t vendor, device_id, units, local_memory, group_size, subgroup, lanes;
} tune_environment;

/* Of a device described or opened: the self-test's results have no part in it. */
void tuff__environment_of(const tuff_device_info *info, tune_environment *out);
/* The text into buffer, of ENVIRONMENT_SIZE bytes, which is answered. */
const char *tuff__environment_text(const tune_environment *environment, char *buffer);
#define ENVIRONMENT_TEXT(environment) tuff__environment_text((environment), (char[ENVIRONMENT_SIZE]){0})
/* TUFF_E_FORMAT where the text is no environment. Members of later versions are passed over. */
tuff_status tuff__environment_parse(const char *source, tune_environment *out);

/* How much of what was found on one is worth on another, best first. */
typedef enum likeness {
    LIKENESS_SAME,
    LIKENESS_OTHER_DRIVER,  /* the same device and platform, another version */
    LIKENESS_OTHER_BACKEND, /* the same device through another API or platform */
    LIKENESS_ARCHITECTURE,  /* another device of the same architecture */
    LIKENESS_NONE
} likeness;
likeness tuff__environment_compare(const tune_environment *a, const tune_environment *b);
const char *tuff__likeness_text(likeness self); /* "same environment", "other driver" */

/* "gfx1100", "cpu", "10de:22" (vendor, and what its device numbers of one architecture begin with); "" where that is
   not known. */
void tuff__environment_architecture(const tune_environment *environment, char *out, size_t size);

#endif
