/* Lists, describes, opens and closes OpenCL devices. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/opencl/api.h"

enum { PLATFORM_LIMIT = 16, DEVICE_LIMIT = 64 };

typedef struct listed_device {
    cl_platform_id platform;
    cl_device_id id;
} listed_device;

/* Filled by tuff__cl_count, before any other call. */
static listed_device devices[DEVICE_LIMIT];
static int device_count;

cl_ulong tuff__cl_group_limit;

tuff_status tuff__cl_device_value(cl_device_id id, cl_device_info parameter, void *out, size_t size)
{
    CL_TRY(GetDeviceInfo, (id, parameter, size, out, NULL));
    return TUFF_OK;
}

static cl_int query(cl_platform_id platform, cl_device_id id, cl_uint parameter, size_t size, void *out, size_t *needed)
{
    return platform ? tuff__cl.GetPlatformInfo(platform, parameter, size, out, needed)
                    : tuff__cl.GetDeviceInfo(id, parameter, size, out, needed);
}

/* Reads a text of the platform, or of the device if platform is NULL. Returns NULL on failure, with an error set. */
static char *read_text(cl_platform_id platform, cl_device_id id, cl_uint parameter)
{
    size_t needed = 0;
    cl_int error = query(platform, id, parameter, 0, NULL, &needed);
    char *whole = error == CL_SUCCESS ? tuff__calloc(needed + 1, 1) : NULL;
    if (whole)
        error = query(platform, id, parameter, needed, whole, NULL);
    if (error == CL_SUCCESS)
        return whole;
    tuff__free(whole);
    (void)tuff__cl_fail(error, platform ? "clGetPlatformInfo" : "clGetDeviceInfo");
    return NULL;
}

/* The text is truncated to the buffer's size here, because some drivers refuse to do that. */
static tuff_status copy_text(cl_platform_id platform, cl_device_id id, cl_uint parameter, char *out, size_t size)
{
    char *whole = read_text(platform, id, parameter);
    if (!whole)
        return tuff_last_status();
    snprintf(out, size, "%s", whole);
    tuff__free(whole);
    return TUFF_OK;
}

tuff_status tuff__cl_device_text(cl_device_id id, cl_device_info parameter, char *out, size_t size)
{
    return copy_text(NULL, id, parameter, out, size);
}

char *tuff__cl_read_extensions(cl_device_id id)
{
    return read_text(NULL, id, CL_DEVICE_EXTENSIONS);
}

/* Allocates nothing, so that no device disappears for lack of memory. */
bool tuff__cl_is_usable(cl_device_id id)
{
    cl_bool available = CL_FALSE, compiler = CL_FALSE, little_endian = CL_FALSE;
    char version[256] = "";
    int major = 0, minor = 0;
    if (tuff__cl_device_value(id, CL_DEVICE_AVAILABLE, &available, sizeof available) != TUFF_OK ||
        tuff__cl_device_value(id, CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler) != TUFF_OK ||
        tuff__cl_device_value(id, CL_DEVICE_ENDIAN_LITTLE, &little_endian, sizeof little_endian) != TUFF_OK ||
        tuff__cl_device_value(id, CL_DEVICE_VERSION, version, sizeof version - 1) != TUFF_OK)
        return false;
    bool parsed = sscanf(version, "OpenCL %d.%d", &major, &minor) == 2;
    return available && compiler && little_endian && parsed && (major > 1 || (major == 1 && minor >= 2));
}

static void list_platform(cl_platform_id platform)
{
    cl_device_id ids[DEVICE_LIMIT];
    cl_uint count = 0;
    if (tuff__cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICE_LIMIT, ids, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < DEVICE_LIMIT && device_count < DEVICE_LIMIT; i++)
        if (tuff__cl_is_usable(ids[i]))
            devices[device_count++] = (listed_device){platform, ids[i]};
}

int tuff__cl_count(const char **reason)
{
    cl_platform_id platforms[PLATFORM_LIMIT];
    cl_uint count = 0;
    device_count = 0;
    *reason = tuff__cl_load();
    if (*reason)
        return 0;
    if (tuff__cl.GetPlatformIDs(PLATFORM_LIMIT, platforms, &count) != CL_SUCCESS || count == 0) {
        *reason = "the OpenCL loader finds no driver: install one (Debian: pocl-opencl-icd for the CPU, or "
                  "your GPU's)";
        return 0;
    }
    for (cl_uint i = 0; i < count && i < PLATFORM_LIMIT; i++)
        list_platform(platforms[i]);
    if (device_count == 0)
        *reason = "the OpenCL drivers offer no device with OpenCL 1.2 and a compiler";
    return device_count;
}

static tuff_device_class class_of(cl_device_type type, bool unified)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return unified ? TUFF_DEVICE_GPU_INTEGRATED : TUFF_DEVICE_GPU_DISCRETE;
    return type & CL_DEVICE_TYPE_CPU ? TUFF_DEVICE_CPU : TUFF_DEVICE_OTHER;
}

static uint32_t clamp_u32(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static tuff_status describe_limits(cl_device_id id, tuff_device_info *info)
{
    cl_ulong memory = 0, allocation = 0, local = 0;
    cl_uint units = 0, alignment_bits = 0, lanes = 0;
    size_t group = 0, parameters = 0;
    TRY(tuff__cl_device_value(id, CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory));
    TRY(tuff__cl_device_value(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &allocation, sizeof allocation));
    TRY(tuff__cl_device_value(id, CL_DEVICE_LOCAL_MEM_SIZE, &local, sizeof local));
    TRY(tuff__cl_device_value(id, CL_DEVICE_MAX_COMPUTE_UNITS, &units, sizeof units));
    TRY(tuff__cl_device_value(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &alignment_bits, sizeof alignment_bits));
    TRY(tuff__cl_device_value(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group));
    TRY(tuff__cl_device_value(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &lanes, sizeof lanes));
    TRY(tuff__cl_device_value(id, CL_DEVICE_MAX_PARAMETER_SIZE, &parameters, sizeof parameters));
    info->memory_size = memory;
    info->max_allocation = info->max_binding =
        tuff__cl_has_larger_buffers(id) && memory > allocation ? memory : allocation;
    info->local_memory_size = clamp_u32(local);
    info->compute_units = units;
    info->vector_width = lanes;
    info->offset_alignment = alignment_bits / 8 > 0 ? alignment_bits / 8 : 1;
    info->max_group_size = clamp_u32(group);
    /* A buffer takes 8 bytes of a kernel's parameter space, and the words need some of it. */
    size_t words = MAX_WORDS * sizeof(cl_uint), pointers = parameters > words ? (parameters - words) / 8 : 0;
    info->max_bindings = pointers < MAX_BINDINGS ? (uint32_t)pointers : MAX_BINDINGS;
    return TUFF_OK;
}

/* Returns where the number ends in "OpenCL 3.0 vendor's text". */
static size_t version_end(const char *version)
{
    const size_t prefix = sizeof "OpenCL " - 1, length = strlen(version);
    return length < prefix ? length : prefix + strcspn(version + prefix, " ");
}

/* Writes the platform's name, its version in the vendor's own words (at most two of them) and the driver's version if
   that is another: "Portable Computing Language, PoCL 3.1". */
static tuff_status describe_driver(cl_platform_id platform_id, cl_device_id id, tuff_device_info *info)
{
    char platform[128] = "", words[256] = "", version[64] = "";
    TRY(copy_text(platform_id, NULL, CL_PLATFORM_NAME, platform, sizeof platform));
    TRY(copy_text(platform_id, NULL, CL_PLATFORM_VERSION, words, sizeof words));
    TRY(tuff__cl_device_text(id, CL_DRIVER_VERSION, version, sizeof version));
    const char *vendor = words + version_end(words);
    vendor += strspn(vendor, " ");
    int length = (int)strcspn(vendor, " ");
    if (vendor[length] == ' ')
        length += 1 + (int)strcspn(vendor + length + 1, " ,");
    bool repeats = strstr(vendor, version) != NULL;
    snprintf(info->driver, sizeof info->driver, "%.50s, %.*s%s%.30s", platform, length < 40 ? length : 40, vendor,
             repeats ? "" : ", driver ", repeats ? "" : version);
    return TUFF_OK;
}

tuff_status tuff__cl_describe_device(cl_platform_id platform, cl_device_id id, tuff_device_info *info)
{
    char version[64] = "";
    cl_device_type type = 0;
    cl_bool unified = CL_FALSE;
    cl_uint vendor = 0;
    TRY(tuff__cl_device_text(id, CL_DEVICE_NAME, info->name, sizeof info->name));
    TRY(describe_driver(platform, id, info));
    TRY(tuff__cl_device_text(id, CL_DEVICE_VERSION, version, sizeof version));
    TRY(tuff__cl_device_value(id, CL_DEVICE_TYPE, &type, sizeof type));
    TRY(tuff__cl_device_value(id, CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor));
    TRY(tuff__cl_device_value(id, CL_DEVICE_HOST_UNIFIED_MEMORY, &unified, sizeof unified));
    snprintf(info->api, sizeof info->api, "%.*s", (int)version_end(version), version);
    info->device_class = class_of(type, unified);
    info->vendor_id = vendor;
    TRY(describe_limits(id, info));
    return tuff__cl_describe_vendor(id, info);
}

tuff_status tuff__cl_describe(int index, tuff_device_info *info)
{
    return tuff__cl_describe_device(devices[index].platform, devices[index].id, info);
}

/* Writes everything that a compiled program depends on: platform, device and driver, with their versions. */
static tuff_status fill_identity(driver_device *device)
{
    char platform[256] = "", name[256] = "", version[128] = "", driver_version[128] = "";
    cl_uint vendor = 0, bits = 0;
    cl_device_type type = 0;
    TRY(copy_text(device->platform, NULL, CL_PLATFORM_VERSION, platform, sizeof platform));
    TRY(tuff__cl_device_text(device->id, CL_DEVICE_NAME, name, sizeof name));
    TRY(tuff__cl_device_text(device->id, CL_DEVICE_VERSION, version, sizeof version));
    TRY(tuff__cl_device_text(device->id, CL_DRIVER_VERSION, driver_version, sizeof driver_version));
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor));
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_ADDRESS_BITS, &bits, sizeof bits));
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_TYPE, &type, sizeof type));
    device->is_pocl = strstr(platform, "PoCL") || strstr(platform, "pocl");
    device->compiles_alone = device->is_pocl || strstr(platform, "Oclgrind");
    device->needs_wait_thread = (type & CL_DEVICE_TYPE_CPU) && vendor == VENDOR_INTEL && !device->is_pocl;
    device->shares_memory = (type & CL_DEVICE_TYPE_CPU) && (device->is_pocl || vendor == VENDOR_INTEL);
    snprintf(device->identity, sizeof device->identity, "platform %s; device %s; %s; driver %s; vendor %04x; %u bits",
             platform, name, version, driver_version, vendor, bits);
    return TUFF_OK;
}

tuff_status tuff__cl_prepare(driver_device *device)
{
    TRY(fill_identity(device));
    return tuff__cl_prepare_vendor(device);
}

static tuff_status fill_device(driver_device *device)
{
    cl_int error = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->platform, 0};
    TRY(tuff__cl_prepare(device));
    device->context = tuff__cl.CreateContext(properties, 1, &device->id, NULL, NULL, &error);
    if (error != CL_SUCCESS || !device->context)
        return tuff__cl_fail(error, "clCreateContext");
    device->queue = tuff__cl.CreateCommandQueue(device->context, device->id, 0, &error);
    if (error != CL_SUCCESS || !device->queue)
        return tuff__cl_fail(error, "clCreateCommandQueue");
    return tuff__cl_find_command_buffers(device);
}

void tuff__cl_close(driver_device *device)
{
    /* A wait that fails is tried once more: blocks that are still in use after that can never be freed. */
    for (int i = 0; i < 2 && device->pending_count > 0 && !device->hung; i++)
        if (tuff__cl_wait(device) == TUFF_OK)
            break;
    if (device->has_stuck_upload || (device->hung && !tuff__cl_is_idle(device))) {
        /* Releasing a queue could block forever: both are leaked, with everything that they use. */
        tuff__cl_wait_thread_stop(device);
        tuff__free(device);
        return;
    }
    tuff__cl_wait_thread_stop(device);
    tuff__cl_untrack_all(device);
    tuff__cl_free_blocks(device);
    tuff__cl_library_clear_cache(device);
    if (device->timed_queue)
        tuff__cl.ReleaseCommandQueue(device->timed_queue);
    if (device->upload_queue)
        tuff__cl.ReleaseCommandQueue(device->upload_queue);
    if (device->queue)
        tuff__cl.ReleaseCommandQueue(device->queue);
    if (device->context)
        tuff__cl.ReleaseContext(device->context);
    tuff__free(device);
}

tuff_status tuff__cl_open(int index, driver_device **out)
{
    driver_device *device = tuff__calloc(1, sizeof *device);
    if (!device)
        return TUFF_E_OOM_HOST;
    device->platform = devices[index].platform;
    device->id = devices[index].id;
    tuff_status status = fill_device(device);
    if (status != TUFF_OK) {
        tuff__cl_close(device);
        return status;
    }
    *out = device;
    return TUFF_OK;
}

const char *tuff__cl_identity(driver_device *device)
{
    return device->identity;
}

const char *tuff__cl_build_options(driver_device *device)
{
    return device->build_options;
}
