/* The OpenCL loader without drivers that fake_opencl.h describes: its functions, and what its devices report. */
#include "fake_opencl.h"

#include <stdlib.h>
#include <string.h>

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

fake_opencl_state fake_opencl;

static const fake_opencl_device *listed;
static int listed_count;
static char platforms[16]; /* one per device; only the addresses matter */

/* All objects; handles are pointers to these. */
typedef struct object {
    int references;
    const fake_opencl_device *device;
    char *bytes, *source;
    size_t size;
    cl_program program;
    fake_argument arguments[FAKE_ARGUMENTS]; /* of a kernel */
    bool is_timed;                           /* a queue with profiling */
    int number;                              /* number of an event's command */
    bool is_held; /* never finishes: an event of a timed queue, what waits for one, and the rest of that queue */
} object;

#define OBJECT(handle) ((object *)(void *)(handle))

static object *make(cl_int *error)
{
    object *made = calloc(1, sizeof *made);
    made->references = 1;
    if (error)
        *error = CL_SUCCESS;
    return made;
}

static void drop(object *self)
{
    if (--self->references > 0)
        return;
    free(self->bytes);
    free(self->source);
    free(self);
}

static cl_int return_value(const void *value, size_t length, size_t size, void *out, size_t *needed)
{
    if (needed)
        *needed = length;
    if (out && size < length)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, length);
    return CL_SUCCESS;
}

static cl_int return_text(const char *value, size_t size, void *out, size_t *needed)
{
    return value ? return_value(value, strlen(value) + 1, size, out, needed) : CL_INVALID_VALUE;
}

#define RETURN_VALUE(value) return_value(&(value), sizeof(value), size, out, needed)
#define RETURN_TEXT(value) return_text(value, size, out, needed)

static cl_int CL_API_CALL list_platforms(cl_uint limit, cl_platform_id *out, cl_uint *count)
{
    for (int i = 0; out && i < listed_count && i < (int)limit; i++)
        out[i] = (cl_platform_id)(void *)&platforms[i];
    if (count)
        *count = (cl_uint)listed_count;
    return CL_SUCCESS;
}

static int index_of(cl_platform_id platform)
{
    return (int)((char *)(void *)platform - platforms);
}

static cl_int CL_API_CALL tell_platform(cl_platform_id platform, cl_platform_info question, size_t size, void *out,
                                        size_t *needed)
{
    const fake_opencl_device *self = &listed[index_of(platform)];
    return RETURN_TEXT(question == CL_PLATFORM_NAME ? self->platform : self->platform_version);
}

static cl_int CL_API_CALL list_ids(cl_platform_id platform, cl_device_type type, cl_uint limit, cl_device_id *out,
                                   cl_uint *count)
{
    (void)type;
    if (out && limit > 0)
        out[0] = (cl_device_id)(void *)&listed[index_of(platform)];
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

static bool has_command_buffers(const fake_opencl_device *self)
{
    return self->extensions && strstr(self->extensions, "cl_khr_command_buffer");
}

/* Handles queries of vendors' extensions. */
static cl_int return_vendor_info(const fake_opencl_device *self, cl_device_info question, size_t size, void *out,
                                 size_t *needed)
{
    const cl_uint compute_major = self->capability ? self->capability : 8, compute_minor = 0;
    const cl_bitfield simultaneous_use = 1 << 2, none = 0;
    switch (question) {
    case 0x4000: /* CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV */
        return self->warp ? RETURN_VALUE(compute_major) : CL_INVALID_VALUE;
    case 0x4001: /* CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV */
        return self->warp ? RETURN_VALUE(compute_minor) : CL_INVALID_VALUE;
    case 0x12A9: /* CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR */
        return has_command_buffers(self) ? RETURN_VALUE(simultaneous_use) : CL_INVALID_VALUE;
    case 0x12AA: /* CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR */
        return has_command_buffers(self) ? RETURN_VALUE(none) : CL_INVALID_VALUE;
    case 0x4003:
        return self->warp ? RETURN_VALUE(self->warp) : CL_INVALID_VALUE;
    case 0x4005:
        return self->timeout ? RETURN_VALUE(*self->timeout) : CL_INVALID_VALUE;
    case 0x4038:
        return RETURN_TEXT(self->board);
    case 0x4039: {
        const size_t known = fake_opencl.lacks_block || size < sizeof fake_opencl.free_kib ? 1 : 2;
        return self->wavefront && fake_opencl.free_kib[0]
                   ? return_value(fake_opencl.free_kib, known * sizeof(size_t), size, out, needed)
                   : CL_INVALID_VALUE;
    }
    case 0x4043:
        return self->wavefront ? RETURN_VALUE(self->wavefront) : CL_INVALID_VALUE;
    case 0x4108: {
        size_t count = 0;
        while (count < 4 && self->widths[count])
            count++;
        return count ? return_value(self->widths, count * sizeof *self->widths, size, out, needed) : CL_INVALID_VALUE;
    }
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int return_device_text(const fake_opencl_device *self, cl_device_info question, size_t size, void *out,
                                 size_t *needed)
{
    switch (question) {
    case CL_DEVICE_NAME:
        return RETURN_TEXT(self->name);
    case CL_DEVICE_VERSION:
        return RETURN_TEXT(self->version);
    case CL_DRIVER_VERSION:
        return RETURN_TEXT(self->driver);
    case CL_DEVICE_OPENCL_C_VERSION:
        return RETURN_TEXT(self->language);
    case CL_DEVICE_EXTENSIONS:
        return RETURN_TEXT(self->extensions);
    case CL_DEVICE_PROFILE:
        return RETURN_TEXT("FULL_PROFILE");
    default:
        return return_vendor_info(self, question, size, out, needed);
    }
}

static cl_int return_limit(const fake_opencl_device *self, cl_device_info question, size_t size, void *out,
                           size_t *needed)
{
    const cl_ulong local = 48 << 10;
    const cl_uint alignment_bits = 1024, lanes = 1, address_bits = 64;
    const size_t group = 1024, parameters = 4352;
    switch (question) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return RETURN_VALUE(self->memory);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return RETURN_VALUE(self->allocation);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return RETURN_VALUE(local);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return RETURN_VALUE(self->units);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return RETURN_VALUE(alignment_bits);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return RETURN_VALUE(group);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return RETURN_VALUE(lanes);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return RETURN_VALUE(parameters);
    case CL_DEVICE_ADDRESS_BITS:
        return RETURN_VALUE(address_bits);
    default:
        return return_device_text(self, question, size, out, needed);
    }
}

static cl_int CL_API_CALL tell_device(cl_device_id id, cl_device_info question, size_t size, void *out, size_t *needed)
{
    const fake_opencl_device *self = (const fake_opencl_device *)(const void *)id;
    const cl_bool yes = CL_TRUE;
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_device_local_mem_type local = self->local ? self->local : CL_LOCAL;
    switch (question) {
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return RETURN_VALUE(yes);
    case CL_DEVICE_TYPE:
        return RETURN_VALUE(type);
    case CL_DEVICE_VENDOR_ID:
        return RETURN_VALUE(self->vendor);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return RETURN_VALUE(self->unified);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return RETURN_VALUE(local);
    default:
        return return_limit(self, question, size, out, needed);
    }
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *ids,
                                             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                             void *user, cl_int *error)
{
    (void)properties, (void)count, (void)notify, (void)user;
    object *made = make(error);
    made->device = (const fake_opencl_device *)(const void *)ids[0];
    return (cl_context)(void *)made;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *error)
{
    (void)context, (void)id;
    object *made = make(error);
    made->is_timed = properties & CL_QUEUE_PROFILING_ENABLE;
    return (cl_command_queue)(void *)made;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    (void)context;
    fake_opencl.buffers++;
    fake_opencl.flags = flags;
    if (fake_opencl.memory_error) {
        *error = fake_opencl.memory_error;
        return NULL;
    }
    object *made = make(error);
    made->size = size;
    made->bytes = size <= 64 << 20 ? calloc(size + 1, 1) : NULL; /* larger ones are never accessed */
    if (made->bytes && flags & CL_MEM_COPY_HOST_PTR)
        memcpy(made->bytes, host, size);
    return (cl_mem)(void *)made;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                             cl_int *error)
{
    (void)count, (void)sizes;
    object *made = make(error);
    made->device = OBJECT(context)->device;
    made->source = malloc(strlen(texts[0]) + 1);
    memcpy(made->source, texts[0], strlen(texts[0]) + 1);
    return (cl_program)(void *)made;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *ids, const char *options,
                                void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)count, (void)ids, (void)notify, (void)user;
    const object *self = OBJECT(program);
    strncpy(fake_opencl.options, options, sizeof fake_opencl.options - 1);
    const bool good = !self->device->compiles || self->device->compiles(self->source, options);
    return good ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

static cl_int CL_API_CALL tell_build(cl_program program, cl_device_id id, cl_program_build_info question, size_t size,
                                     void *out, size_t *needed)
{
    (void)program, (void)id, (void)question;
    return RETURN_TEXT("refused");
}

static cl_int CL_API_CALL tell_program(cl_program program, cl_program_info question, size_t size, void *out,
                                       size_t *needed)
{
    const size_t none = 0;
    (void)program, (void)question;
    return RETURN_VALUE(none);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    (void)name;
    object *made = make(error);
    made->program = program;
    return (cl_kernel)(void *)made;
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    cl_mem memory;
    if (index >= FAKE_ARGUMENTS)
        return CL_SUCCESS;
    if (size == sizeof memory) {
        memcpy(&memory, value, sizeof memory);
        OBJECT(kernel)->arguments[index].bytes = OBJECT(memory)->bytes;
    } else if (size == sizeof(cl_uint)) {
        memcpy(&OBJECT(kernel)->arguments[index].word, value, size);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL tell_kernel(cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info question,
                                      size_t size, void *out, size_t *needed)
{
    const size_t group = 1024;
    const cl_ulong none = 0;
    (void)kernel, (void)id;
    return question == CL_KERNEL_WORK_GROUP_SIZE ? RETURN_VALUE(group) : RETURN_VALUE(none);
}

/* Returns the status of a command, and creates its event. */
static cl_int enqueue(cl_command_queue queue, cl_uint count, const cl_event *list, cl_event *event)
{
    object *self = OBJECT(queue);
    if (fake_opencl.faulted)
        return CL_OUT_OF_RESOURCES;
    if (fake_opencl.failing > 0 && --fake_opencl.failing == 0)
        return CL_OUT_OF_HOST_MEMORY;
    fake_opencl.enqueued++;
    self->is_held = fake_opencl.holds_timed && (self->is_timed || self->is_held);
    for (cl_uint i = 0; i < count; i++)
        self->is_held |= fake_opencl.holds_timed && OBJECT(list[i])->is_held;
    if (event) {
        object *made = make(NULL);
        made->number = fake_opencl.enqueued;
        made->is_held = self->is_held;
        *event = (cl_event)(void *)made;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset,
                                       size_t size, const void *data, cl_uint count, const cl_event *list,
                                       cl_event *event)
{
    (void)blocks;
    if (OBJECT(memory)->bytes && !fake_opencl.faulted)
        memcpy(OBJECT(memory)->bytes + offset, data, size);
    return enqueue(queue, count, list, event);
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocks, cl_map_flags flags,
                                    size_t offset, size_t size, cl_uint count, const cl_event *list, cl_event *event,
                                    cl_int *error)
{
    (void)blocks, (void)flags, (void)size;
    *error = enqueue(queue, count, list, event);
    return *error == CL_SUCCESS ? OBJECT(memory)->bytes + offset : NULL;
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t size,
                                      void *data, cl_uint count, const cl_event *list, cl_event *event)
{
    (void)blocks;
    if (OBJECT(memory)->bytes && !fake_opencl.faulted)
        memcpy(data, OBJECT(memory)->bytes + offset, size);
    return enqueue(queue, count, list, event);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                      size_t to_offset, size_t size, cl_uint count, const cl_event *list,
                                      cl_event *event)
{
    (void)from, (void)to, (void)from_offset, (void)to_offset, (void)size;
    return enqueue(queue, count, list, event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem memory, const void *pattern, size_t length,
                                      size_t offset, size_t size, cl_uint count, const cl_event *list, cl_event *event)
{
    (void)memory, (void)pattern, (void)length, (void)offset, (void)size;
    return enqueue(queue, count, list, event);
}

static cl_int CL_API_CALL migrate(cl_command_queue queue, cl_uint memories, const cl_mem *all,
                                  cl_mem_migration_flags flags, cl_uint count, const cl_event *list, cl_event *event)
{
    (void)memories, (void)all, (void)flags;
    return enqueue(queue, count, list, event);
}

static void run(const object *kernel, size_t items, const fake_argument *arguments)
{
    const object *program = OBJECT(kernel->program);
    if (program->device->runs)
        program->device->runs(program->source, items, arguments);
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                                 cl_event *event)
{
    (void)axes, (void)offset, (void)local;
    fake_opencl.launches++;
    run(OBJECT(kernel), *global, OBJECT(kernel)->arguments);
    return enqueue(queue, count, list, event);
}

/* A launch in a command buffer keeps the arguments that its kernel had then. */
typedef struct recorded_launch {
    const object *kernel;
    size_t items;
    fake_argument arguments[FAKE_ARGUMENTS];
} recorded_launch;

struct command_buffer {
    cl_command_queue queue;
    recorded_launch launches[32];
    int count;
    bool is_final;
};

static command_buffer *CL_API_CALL create_commands(cl_uint count, const cl_command_queue *queues,
                                                   const cl_ulong *properties, cl_int *error)
{
    (void)properties;
    *error = count == 1 ? CL_SUCCESS : CL_INVALID_VALUE;
    command_buffer *made = calloc(1, sizeof *made);
    made->queue = queues[0];
    fake_opencl.living_blocks++;
    return made;
}

static cl_int CL_API_CALL record_launch(command_buffer *buffer, cl_command_queue queue, const cl_ulong *properties,
                                        cl_kernel kernel, cl_uint axes, const size_t *offset, const size_t *global,
                                        const size_t *local, cl_uint count, const cl_uint *waits, cl_uint *point,
                                        void **handle)
{
    (void)queue, (void)properties, (void)axes, (void)offset, (void)local, (void)count, (void)waits, (void)point;
    (void)handle;
    if (buffer->is_final || buffer->count == (int)(sizeof buffer->launches / sizeof *buffer->launches))
        return CL_INVALID_OPERATION;
    recorded_launch *made = &buffer->launches[buffer->count++];
    made->kernel = OBJECT(kernel);
    made->items = *global;
    memcpy(made->arguments, OBJECT(kernel)->arguments, sizeof made->arguments);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL finalize(command_buffer *buffer)
{
    buffer->is_final = true;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_commands(cl_uint queue_count, cl_command_queue *queues, command_buffer *buffer,
                                           cl_uint count, const cl_event *list, cl_event *event)
{
    (void)queue_count, (void)queues;
    if (!buffer->is_final)
        return CL_INVALID_OPERATION;
    fake_opencl.blocks++;
    for (int i = 0; i < buffer->count; i++)
        run(buffer->launches[i].kernel, buffer->launches[i].items, buffer->launches[i].arguments);
    return enqueue(buffer->queue, count, list, event);
}

static cl_int CL_API_CALL release_commands(command_buffer *buffer)
{
    fake_opencl.living_blocks--;
    free(buffer);
    return CL_SUCCESS;
}

static void *CL_API_CALL find_call(cl_platform_id platform, const char *name)
{
    static const command_buffer_api calls = {.create = create_commands,
                                             .add_launch = record_launch,
                                             .finalize = finalize,
                                             .enqueue = enqueue_commands,
                                             .release = release_commands};
    void *found = NULL;
    if (!has_command_buffers(&listed[index_of(platform)]))
        return NULL;
#define CALL(slot, function)         \
    if (strcmp(name, function) == 0) \
        memcpy(&found, &calls.slot, sizeof found);
    CALL(create, "clCreateCommandBufferKHR")
    CALL(add_launch, "clCommandNDRangeKernelKHR")
    CALL(finalize, "clFinalizeCommandBufferKHR")
    CALL(enqueue, "clEnqueueCommandBufferKHR")
    CALL(release, "clReleaseCommandBufferKHR")
#undef CALL
    return found;
}

static cl_int CL_API_CALL mark(cl_command_queue queue, cl_uint count, const cl_event *list, cl_event *event)
{
    return enqueue(queue, count, list, event);
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    (void)queue;
    fake_opencl.flushed = fake_opencl.enqueued;
    return fake_opencl.faulted ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

static cl_int CL_API_CALL tell_event(cl_event event, cl_event_info question, size_t size, void *out, size_t *needed)
{
    const object *self = OBJECT(event);
    const bool runs = fake_opencl.hangs || (fake_opencl.holds_timed && self->is_held);
    const bool waits = fake_opencl.is_lazy && self->number > fake_opencl.flushed;
    const cl_int state = fake_opencl.faulted ? CL_OUT_OF_RESOURCES
                         : waits             ? CL_QUEUED
                         : runs              ? CL_RUNNING
                                             : CL_COMPLETE;
    (void)question;
    return RETURN_VALUE(state);
}

static cl_int CL_API_CALL no_callback(cl_event event, cl_int state, void(CL_CALLBACK *call)(cl_event, cl_int, void *),
                                      void *user)
{
    (void)event, (void)state, (void)call, (void)user;
    return CL_INVALID_OPERATION;
}

#define RELEASE(name, handle)                          \
    static cl_int CL_API_CALL release_##name(handle a) \
    {                                                  \
        fake_opencl.releases++;                        \
        drop(OBJECT(a));                               \
        return CL_SUCCESS;                             \
    }
RELEASE(context, cl_context)
RELEASE(queue, cl_command_queue)
RELEASE(memory, cl_mem)
RELEASE(program, cl_program)
RELEASE(kernel, cl_kernel)
RELEASE(event, cl_event)

static cl_int CL_API_CALL retain_event(cl_event event)
{
    OBJECT(event)->references++;
    return CL_SUCCESS;
}

void install_fake_opencl(const fake_opencl_device *devices, int count)
{
    listed = devices;
    listed_count = count;
    fake_opencl = (fake_opencl_state){0};
    tuff__cl = (opencl_api){
        .GetPlatformIDs = list_platforms,
        .GetPlatformInfo = tell_platform,
        .GetDeviceIDs = list_ids,
        .GetDeviceInfo = tell_device,
        .GetExtensionFunctionAddressForPlatform = find_call,
        .CreateContext = create_context,
        .ReleaseContext = release_context,
        .CreateCommandQueue = create_queue,
        .ReleaseCommandQueue = release_queue,
        .CreateBuffer = create_buffer,
        .ReleaseMemObject = release_memory,
        .EnqueueMigrateMemObjects = migrate,
        .EnqueueWriteBuffer = write_buffer,
        .EnqueueReadBuffer = read_buffer,
        .EnqueueMapBuffer = map_buffer,
        .EnqueueCopyBuffer = copy_buffer,
        .EnqueueFillBuffer = fill_buffer,
        .EnqueueNDRangeKernel = launch,
        .EnqueueMarkerWithWaitList = mark,
        .CreateProgramWithSource = create_program,
        .BuildProgram = build,
        .GetProgramBuildInfo = tell_build,
        .GetProgramInfo = tell_program,
        .ReleaseProgram = release_program,
        .CreateKernel = create_kernel,
        .SetKernelArg = set_argument,
        .GetKernelWorkGroupInfo = tell_kernel,
        .ReleaseKernel = release_kernel,
        .GetEventInfo = tell_event,
        .RetainEvent = retain_event,
        .SetEventCallback = no_callback,
        .ReleaseEvent = release_event,
        .Flush = flush,
    };
}
#endif
