/* The portfolio tables as arrays, and a lookup of the rows of a class and family, which are adjacent in the tables. */
#include "search/portfolio.h"

#include <stddef.h>
#include <string.h>

typedef enum row_class {
    CLASS_opencl_cpu = KERNELS_OPENCL_CPU,
    CLASS_vulkan_cpu = KERNELS_VULKAN_CPU,
    CLASS_gpu = KERNELS_GPU
} row_class;

typedef struct row {
    row_class class;
    const char *family;
} row;

#define PORTFOLIO(class, family, candidate) {CLASS_##class, #family},
static const row rows[] = {
#include "search/portfolio.def"
#include "search/portfolio_gpu.def"
    {CLASS_gpu, NULL}};
#undef PORTFOLIO

#define PORTFOLIO(class, family, candidate) candidate,
static const char *const candidates[] = {
#include "search/portfolio.def"
#include "search/portfolio_gpu.def"
    NULL};
#undef PORTFOLIO

static bool matches_row(const row *one, kernel_device class, const char *family)
{
    return one->family && (int)one->class == (int)class && strcmp(one->family, family) == 0;
}

int tuff__portfolio_for_class(kernel_device class, const char *family, const char *const **out)
{
    int first = 0, count = 0;
    while (rows[first].family && !matches_row(&rows[first], class, family))
        first++;
    while (matches_row(&rows[first + count], class, family))
        count++;
    *out = &candidates[first];
    return count;
}

static kernel_device class_of_environment(const tune_environment *environment)
{
    static const struct {
        const char *driver;
        kernel_device class;
    } cpus[] = {
#define DRIVER(name, option, api, kernels) {#name, kernels},
#include "device/drivers.def"
#undef DRIVER
    };
    if (strcmp(environment->kind, "cpu") != 0)
        return KERNELS_GPU;
    for (size_t i = 1; i < sizeof cpus / sizeof *cpus; i++)
        if (strcmp(cpus[i].driver, environment->backend) == 0)
            return cpus[i].class;
    return cpus[0].class; /* also for a driver that this version does not know */
}

int tuff__portfolio_for_environment(const tune_environment *environment, const char *family, const char *const **out)
{
    return tuff__portfolio_for_class(class_of_environment(environment), family, out);
}
