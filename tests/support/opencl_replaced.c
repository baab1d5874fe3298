/* Replacing the creation of OpenCL programs: see the header. */
#include "opencl_replaced.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/thread.h"

create_call *real_creation;

static atomic_int creations;
static atomic_bool is_let_go;
static int hanging_creation;
static const char *hanging_part;
static pthread_t hanging_for; /* the test's thread, which must not hang: no other thread would release it */

tuff_device *open_replaceable(void)
{
    tuff_device *device = tuff_device_open("opencl");
    if (device && tuff__device_info(device)->device_class == TUFF_DEVICE_CPU)
        return device;
    tuff_device_close(device);
    return NULL;
}

void replace_creation(create_call *by)
{
    real_creation = tuff__cl.CreateProgramWithSource;
    tuff__cl.CreateProgramWithSource = by;
}

void restore_creation(void)
{
    tuff__cl.CreateProgramWithSource = real_creation;
}

static cl_program CL_API_CALL create_hanging(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                             cl_int *error)
{
    const bool is_own = pthread_equal(pthread_self(), hanging_for);
    if (strstr(texts[0], hanging_part) && atomic_fetch_add(&creations, 1) + 1 == hanging_creation && !is_own)
        while (!atomic_load(&is_let_go))
            tuff__sleep(5000000);
    return real_creation(context, count, texts, sizes, error);
}

void block_creation(int nth, const char *part)
{
    hanging_creation = nth;
    hanging_part = part;
    hanging_for = pthread_self();
    atomic_store(&creations, 0);
    atomic_store(&is_let_go, false);
    replace_creation(create_hanging);
}

int count_creations(void)
{
    return atomic_load(&creations);
}

void release_creation(void)
{
    atomic_store(&is_let_go, true);
    tuff__sleep(500000000);
    restore_creation();
}

#endif
