/* Memory of CPU devices in large pages. Walking through a matrix touches a new page every few rows, and looking pages
   up costs a few per cent of a training step. Linux makes large pages on request; if it has none to give, or the call
   is unknown, pages have the usual size. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* for madvise, MAP_ANONYMOUS */
#endif
#include <sys/mman.h>

#include "device/opencl/api.h"

#define PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)
/* Smallest buffer in large pages: at this size, a partly used page is no great loss. */
#define MIN_SIZE (2 * PAGE)

#ifdef MADV_HUGEPAGE

/* Stored at the end of the mapping, because drivers may release the buffer at any time and from any thread. */
typedef struct buffer_region {
    char *start;
    size_t size;
} buffer_region;

static void CL_CALLBACK free_memory(cl_mem memory, void *user)
{
    const buffer_region all = *(buffer_region *)user;
    (void)memory;
    (void)munmap(all.start, all.size);
}

/* Returns NULL if memory runs out. */
static buffer_region *map_region(size_t size)
{
    const buffer_region all = {.size = (size + sizeof(buffer_region) + 2 * PAGE - 1) / PAGE * PAGE};
    char *start = mmap(NULL, all.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    buffer_region *region = (buffer_region *)(void *)(start + all.size - sizeof *region);
    *region = (buffer_region){start, all.size};
    return region;
}

cl_mem tuff__cl_create_in_huge_pages(driver_device *device, size_t size)
{
    cl_int error = CL_SUCCESS;
    buffer_region *region =
        device->shares_memory && size >= MIN_SIZE && size <= SIZE_MAX - 4 * PAGE ? map_region(size) : NULL;
    if (region == NULL)
        return NULL;
    char *first = region->start + (PAGE - (size_t)region->start % PAGE) % PAGE;
    (void)madvise(first, size / SMALL_PAGE * SMALL_PAGE, MADV_HUGEPAGE);
    cl_mem memory =
        tuff__cl.CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, first, &error);
    if (error == CL_SUCCESS && memory != NULL &&
        tuff__cl.SetMemObjectDestructorCallback(memory, free_memory, region) == CL_SUCCESS)
        return memory;
    if (error == CL_SUCCESS && memory != NULL)
        tuff__cl.ReleaseMemObject(memory);
    free_memory(NULL, region);
    return NULL;
}

#else

cl_mem tuff__cl_create_in_huge_pages(driver_device *device, size_t size)
{
    (void)device;
    (void)size;
    return NULL;
}

#endif
