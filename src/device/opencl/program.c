/* Programs from text or from binaries of an earlier build. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/opencl/api.h"

/* The specification lets several threads build programs at once (OpenCL 1.2, appendix A.2), and drivers are trusted
   with that, except PoCL and Oclgrind: their devices share one LLVM in the process, which is called by one thread at a
   time. */
static mutex compiler_lock = MUTEX_INITIALIZER;

enum { LOG_LINES = 6, LOG_BYTES = 700 };

static tuff_status build_failure(driver_device *device, cl_program program, cl_int error, const char *name)
{
    size_t size = 0;
    char *log = NULL;
    if (tuff__cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS)
        log = tuff__calloc(size + 1, 1);
    if (log && tuff__cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
        log[0] = 0;
    const int length = log ? tuff__text_first_lines(log, LOG_LINES) : 0;
    tuff_status status = tuff__cl_fail(error, "clBuildProgram");
    if (status != TUFF_E_DEVICE_LOST && status != TUFF_E_OOM_HOST && status != TUFF_E_OOM_DEVICE)
        status = TUFF_E_COMPILE;
    status = FAIL(status, "kernel %s: clBuildProgram: %s: %.*s", name, tuff__cl_error_name(error),
                  length < LOG_BYTES ? length : LOG_BYTES, log ? log : "");
    tuff__free(log);
    return status;
}

static tuff_status create_from_text(driver_device *device, const char *source, cl_program *out)
{
    cl_int error = CL_SUCCESS;
    *out = tuff__cl.CreateProgramWithSource(device->context, 1, &source, NULL, &error);
    return error == CL_SUCCESS && *out ? TUFF_OK : tuff__cl_fail(error, "clCreateProgramWithSource");
}

/* The declarations come before the text. */
static tuff_status create_declared(driver_device *device, const char *builtins, const char *source, cl_program *out)
{
    text whole = {0};
    tuff__text_add_bytes(&whole, builtins, strlen(builtins));
    tuff__text_add_bytes(&whole, source, strlen(source));
    tuff_status status = tuff__text_status(&whole);
    if (status == TUFF_OK)
        status = create_from_text(device, tuff__text_get(&whole), out);
    tuff__text_free(&whole);
    return status;
}

static tuff_status create_from_binary(driver_device *device, blob cached, cl_program *out)
{
    cl_int error = CL_SUCCESS, status = CL_SUCCESS;
    const unsigned char *bytes = cached.data;
    *out = tuff__cl.CreateProgramWithBinary(device->context, 1, &device->id, &cached.size, &bytes, &status, &error);
    if (error == CL_SUCCESS)
        error = status;
    return error == CL_SUCCESS && *out ? TUFF_OK : tuff__cl_fail(error, "clCreateProgramWithBinary");
}

/* Fetches the binary for a device, whose program has count devices: a context of an application may have several. */
static tuff_status fetch_one_of(const driver_device *device, cl_program program, size_t count, blob *made)
{
    cl_device_id *ids = tuff__calloc(count, sizeof *ids);
    size_t *sizes = tuff__calloc(count, sizeof *sizes);
    unsigned char **binaries = tuff__calloc(count, sizeof *binaries), *bytes = NULL;
    tuff_status status = ids && sizes && binaries ? TUFF_OK : TUFF_E_OOM_HOST;
    if (status == TUFF_OK &&
        tuff__cl.GetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof *ids, ids, NULL) == CL_SUCCESS &&
        tuff__cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL) == CL_SUCCESS) {
        size_t i = 0;
        while (i < count && ids[i] != device->id)
            i++;
        const size_t size = i < count ? sizes[i] : 0;
        bytes = size > 0 ? tuff__calloc(size, 1) : NULL;
        status = size > 0 && !bytes ? TUFF_E_OOM_HOST : TUFF_OK;
        if (bytes)
            binaries[i] = bytes; /* the others stay NULL: the driver leaves them out */
        if (bytes && tuff__cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL) ==
                         CL_SUCCESS) {
            *made = (blob){bytes, size};
            bytes = NULL;
        }
    }
    tuff__free(bytes);
    tuff__free(binaries);
    tuff__free(sizes);
    tuff__free(ids);
    return status;
}

/* Fetches the driver's binary; made stays empty if there is none, which is not an error. */
static tuff_status fetch_binary(const driver_device *device, cl_program program, blob *made)
{
    cl_uint count = 0;
    if (tuff__cl.GetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) != CL_SUCCESS ||
        count == 0)
        return TUFF_OK;
    return fetch_one_of(device, program, count, made);
}

/* Checks that the compiled kernel can run in groups of its size: some drivers report that only at the launch. */
static tuff_status check_limits(driver_device *device, const driver_program *program, cl_kernel kernel)
{
    size_t size = 0;
    cl_ulong local = 0, available = 0;
    cl_int error =
        tuff__cl.GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, NULL);
    if (error == CL_SUCCESS)
        error =
            tuff__cl.GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    if (error != CL_SUCCESS)
        return tuff__cl_fail(error, "clGetKernelWorkGroupInfo");
    if (local > 0)
        error = tuff__cl.GetDeviceInfo(device->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof available, &available, NULL);
    if (error != CL_SUCCESS)
        return tuff__cl_fail(error, "clGetDeviceInfo");
    if (size < program->local_size)
        return FAIL(TUFF_E_LIMIT, "kernel %s: groups of %lu items; the device can run it in groups of at most %zu",
                    program->name, (unsigned long)program->local_size, size);
    if (local > available + device->local_overhead)
        return FAIL(TUFF_E_LIMIT, "kernel %s: needs %llu bytes of local memory; the device has %llu", program->name,
                    (unsigned long long)local, (unsigned long long)available);
    return TUFF_OK;
}

/* Returns the bytes that an item spills; 0 if the driver does not say. */
static uint64_t query_spills(driver_device *device, cl_kernel kernel)
{
    cl_ulong bytes = 0;
    if (device->spill_query == 0 || tuff__cl.GetKernelWorkGroupInfo(kernel, device->id, device->spill_query,
                                                                    sizeof bytes, &bytes, NULL) != CL_SUCCESS)
        return 0;
    return bytes;
}

/* Creates a kernel, which proves that the program has the function and that the device can run it. */
static tuff_status check_kernel(driver_device *device, driver_program *program)
{
    cl_int error = CL_SUCCESS;
    cl_kernel kernel = tuff__cl.CreateKernel(program->program, program->name, &error);
    if (error != CL_SUCCESS || !kernel)
        return tuff__cl_fail(error, "clCreateKernel");
    const tuff_status status = check_limits(device, program, kernel);
    program->spilled = query_spills(device, kernel);
    tuff__cl.ReleaseKernel(kernel);
    return status;
}

static tuff_status check_subgroup(const driver_device *device, const program_request *request)
{
    bool found = request->subgroup_size == 0;
    for (int i = 0; i < SUBGROUP_SIZES; i++)
        found |= device->subgroup_sizes[i] == request->subgroup_size;
    return found ? TUFF_OK
                 : FAIL(TUFF_E_UNSUPPORTED, "kernel %s: the device does not support a required subgroup size of %lu",
                        request->name, (unsigned long)request->subgroup_size);
}

static void enter_compiler(const driver_device *device)
{
    if (device->compiles_alone)
        tuff__lock(&compiler_lock);
}

static void leave_compiler(const driver_device *device)
{
    if (device->compiles_alone)
        tuff__unlock(&compiler_lock);
}

/* How a text is compiled: to a program, or to a unit that is linked later. */
typedef enum build_result { BUILDS_PROGRAM, BUILDS_UNIT } build_result;

static cl_int compile(const driver_device *device, cl_program program, build_result result, const char *options)
{
    enter_compiler(device);
    const cl_int error = result == BUILDS_UNIT
                             ? tuff__cl.CompileProgram(program, 1, &device->id, options, 0, NULL, NULL, NULL, NULL)
                             : tuff__cl.BuildProgram(program, 1, &device->id, options, NULL, NULL);
    leave_compiler(device);
    return error;
}

/* length: of the device's build options that apply. */
static cl_int build(driver_device *device, cl_program program, build_result result, size_t length,
                    register_count registers, const char *extra_options)
{
    char options[sizeof device->build_options + 96];
    const bool limited = registers == REGISTERS_FEW && device->limits_registers;
    snprintf(options, sizeof options, "%.*s%s%s%s", (int)length, device->build_options,
             registers == REGISTERS_MANY && device->doubles_registers ? " -cl-intel-256-GRF-per-thread" : "",
             limited ? " -cl-nv-maxrregcount=128" : "", extra_options);
    const cl_int error = compile(device, program, result, options);
    if (error != CL_INVALID_BUILD_OPTIONS || !limited)
        return error;
    tuff__log(TUFF_LOG_INFO, "the OpenCL driver refuses to limit the registers of a kernel");
    device->limits_registers = false;
    return build(device, program, result, length, REGISTERS_DEFAULT, extra_options);
}

/* Instructions that the OpenCL compiler's target lacks are written as PTX comments, which the compiler keeps: NVIDIA's
   wgmma needs sm_90a, which no option selects. The binary, which is PTX, is then built again with the comments turned
   into instructions and the target into sm_*a. */
static const char ptx_comment[] = "//@", ptx_target[] = ".target sm_";

static size_t copy_uncommented(blob ptx, unsigned char *out)
{
    const size_t mark = sizeof ptx_comment - 1, word = sizeof ptx_target - 1;
    const char *bytes = ptx.data;
    size_t made = 0;
    for (size_t i = 0; i < ptx.size;) {
        const size_t left = ptx.size - i;
        if (left >= mark && memcmp(bytes + i, ptx_comment, mark) == 0) {
            i += mark;
        } else if (left >= word && memcmp(bytes + i, ptx_target, word) == 0) {
            size_t length = word;
            while (length < left && bytes[i + length] >= '0' && bytes[i + length] <= '9')
                length++;
            memcpy(out + made, bytes + i, length);
            made += length;
            i += length;
            out[made++] = 'a';
        } else {
            out[made++] = (unsigned char)bytes[i++];
        }
    }
    return made;
}

static bool has_ptx_comments(blob ptx)
{
    for (size_t i = 0; i + sizeof ptx_comment <= ptx.size; i++)
        if (memcmp((const char *)ptx.data + i, ptx_comment, sizeof ptx_comment - 1) == 0)
            return true;
    return false;
}

static tuff_status build_uncommented(driver_device *device, const program_request *request, blob ptx, cl_program *out)
{
    unsigned char *uncommented = tuff__calloc(ptx.size + ptx.size / (sizeof ptx_target - 1) + 1, 1);
    if (!uncommented)
        return TUFF_E_OOM_HOST;
    cl_program made = NULL;
    tuff_status status = create_from_binary(device, (blob){uncommented, copy_uncommented(ptx, uncommented)}, &made);
    tuff__free(uncommented);
    if (status != TUFF_OK)
        return status;
    const cl_int error = build(device, made, BUILDS_PROGRAM, device->plain_options, request->registers, "");
    if (error == CL_SUCCESS) {
        *out = made;
        return TUFF_OK;
    }
    status = build_failure(device, made, error, request->name);
    tuff__cl.ReleaseProgram(made);
    return status;
}

/* Without its binary the program would lack instructions, which is an error. */
static tuff_status enable_ptx_comments(driver_device *device, const program_request *request, cl_program *program)
{
    blob ptx = {0};
    cl_program uncommented = NULL;
    TRY(fetch_binary(device, *program, &ptx));
    if (ptx.size == 0)
        return FAIL(TUFF_E_COMPILE, "kernel %s: the OpenCL driver does not return the program's PTX", request->name);
    const tuff_status status = has_ptx_comments(ptx) ? build_uncommented(device, request, ptx, &uncommented) : TUFF_OK;
    tuff__free(ptx.data);
    if (uncommented) {
        tuff__cl.ReleaseProgram(*program);
        *program = uncommented;
    }
    return status;
}

/* Builds a program from a binary, or from text with the driver's own header. */
static tuff_status build_plain(driver_device *device, const program_request *request, build_result result,
                               cl_program program)
{
    const cl_int error = build(device, program, result, device->plain_options, request->registers, "");
    return error == CL_SUCCESS ? TUFF_OK : build_failure(device, program, error, request->name);
}

/* Builds a program from text with the declarations of builtins.c. *out stays NULL if they do not suffice, or if the
   device has none. */
static tuff_status build_with_builtins(driver_device *device, const program_request *request, build_result result,
                                       cl_program *out)
{
    const char *builtins = tuff__cl_builtins(device);
    cl_program made = NULL;
    if (!builtins)
        return TUFF_OK;
    TRY(create_declared(device, builtins, request->text, &made));
    const cl_int error = build(device, made, result, strlen(device->build_options), request->registers, "");
    if (error == CL_SUCCESS) {
        *out = made;
        return TUFF_OK;
    }
    const tuff_status status = build_failure(device, made, error, request->name);
    tuff__cl.ReleaseProgram(made);
    return error == CL_BUILD_PROGRAM_FAILURE || error == CL_COMPILE_PROGRAM_FAILURE ? TUFF_OK : status;
}

static tuff_status build_text(driver_device *device, const program_request *request, build_result result,
                              cl_program *out)
{
    TRY(build_with_builtins(device, request, result, out));
    if (*out)
        return TUFF_OK;
    TRY(create_from_text(device, request->text, out));
    TRY(build_plain(device, request, result, *out));
    if (tuff__cl_builtins(device))
        tuff__log(TUFF_LOG_INFO, "kernel %s: compiled with the OpenCL driver's header, because %s", request->name,
                  tuff_error());
    return TUFF_OK;
}

/* The translation units of a text, and the programs that they were compiled to. */
typedef struct program_units {
    driver_device *device;
    const program_request *request;
    char **texts;
    cl_program *programs;
    int count, capacity, program_capacity;
} program_units;

static tuff_status split_units(program_units *self)
{
    for (const char *at = self->request->text; at;) {
        const char *end = strstr(at, UNIT_SEPARATOR);
        const size_t size = end ? (size_t)(end - at) : strlen(at);
        char *unit = tuff__calloc(size + 1, 1);
        if (!unit || !GROW(self->texts, self->count, self->capacity) ||
            !GROW(self->programs, self->count, self->program_capacity)) {
            tuff__free(unit);
            return TUFF_E_OOM_HOST;
        }
        memcpy(unit, at, size);
        self->programs[self->count] = NULL;
        self->texts[self->count++] = unit;
        at = end ? end + sizeof UNIT_SEPARATOR - 1 : NULL;
    }
    return TUFF_OK;
}

static tuff_status compile_unit(program_units *self, int index)
{
    program_request unit = *self->request;
    cl_program made = NULL;
    if (self->programs[index])
        return TUFF_OK;
    unit.text = self->texts[index];
    const tuff_status status = build_text(self->device, &unit, BUILDS_UNIT, &made);
    if (status == TUFF_OK)
        self->programs[index] = made;
    else if (made)
        tuff__cl.ReleaseProgram(made);
    return status;
}

/* Runs on any thread. Errors are left to the second attempt, which reports them. */
static void compile_ahead(void *units, int index)
{
    (void)compile_unit(units, index);
}

static tuff_status compile_units(program_units *self)
{
    if (!self->device->compiles_alone)
        tuff__parallel(self->count, compile_ahead, self);
    for (int i = 0; i < self->count; i++)
        TRY(compile_unit(self, i));
    return TUFF_OK;
}

static tuff_status link_units(const program_units *self, cl_program *out)
{
    driver_device *device = self->device;
    cl_int error = CL_SUCCESS;
    enter_compiler(device);
    *out = tuff__cl.LinkProgram(device->context, 1, &device->id, "", (cl_uint)self->count, self->programs, NULL, NULL,
                                &error);
    leave_compiler(device);
    if (error == CL_SUCCESS && *out)
        return TUFF_OK;
    return *out ? build_failure(device, *out, error, self->request->name) : tuff__cl_fail(error, "clLinkProgram");
}

static tuff_status build_units(driver_device *device, const program_request *request, cl_program *out)
{
    program_units units = {.device = device, .request = request};
    tuff_status status = split_units(&units);
    if (status == TUFF_OK)
        status = compile_units(&units);
    if (status == TUFF_OK)
        status = link_units(&units, out);
    for (int i = 0; i < units.count; i++) {
        if (units.programs[i])
            tuff__cl.ReleaseProgram(units.programs[i]);
        tuff__free(units.texts[i]);
    }
    tuff__free(units.programs);
    tuff__free(units.texts);
    return status;
}

static tuff_status fill_program(driver_device *device, const program_request *request, blob cached, blob *made,
                                driver_program *program)
{
    TRY(check_subgroup(device, request));
    if (cached.size > 0) {
        TRY(create_from_binary(device, cached, &program->program));
        TRY(build_plain(device, request, BUILDS_PROGRAM, program->program));
    } else if (strstr(request->text, UNIT_SEPARATOR)) {
        TRY(build_units(device, request, &program->program));
    } else {
        TRY(build_text(device, request, BUILDS_PROGRAM, &program->program));
    }
    if (cached.size == 0 && device->makes_ptx && strstr(request->text, ptx_comment))
        TRY(enable_ptx_comments(device, request, &program->program));
    TRY(check_kernel(device, program));
    if (cached.size == 0 && made)
        (void)fetch_binary(device, program->program, made);
    return TUFF_OK;
}

tuff_status tuff__cl_program_create(driver_device *device, const program_request *request, blob cached, blob *made,
                                    driver_program **out)
{
    driver_program *program = tuff__calloc(1, sizeof *program);
    if (!program)
        return TUFF_E_OOM_HOST;
    program->buffer_count = request->buffer_count;
    program->word_count = request->word_count;
    program->local_size = request->local_size;
    program->name = tuff__strdup(request->name);
    program->registers = request->registers;
    program->text = device->has_larger_buffers ? tuff__strdup(request->text) : NULL;
    const bool is_complete = program->name && (program->text || !device->has_larger_buffers);
    tuff_status status = is_complete ? fill_program(device, request, cached, made, program) : TUFF_E_OOM_HOST;
    if (status != TUFF_OK) {
        tuff__cl_program_destroy(device, program);
        return status;
    }
    *out = program;
    return TUFF_OK;
}

/* PoCL compiles a kernel at its first launch, and once more, in a more general form, for a binary. Later launches use
   the first form, which a binary contains if there was a launch before the binary was fetched. */
bool tuff__cl_is_binary_costly(driver_device *device)
{
    return device->is_pocl;
}

tuff_status tuff__cl_program_bytes(driver_device *device, driver_program *program, blob *made)
{
    tuff__lock(&compiler_lock);
    (void)fetch_binary(device, program->program, made);
    tuff__unlock(&compiler_lock);
    return TUFF_OK;
}

tuff_status tuff__cl_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out)
{
    (void)device;
    *out = program->spilled;
    return TUFF_OK;
}

/* Addresses beyond 4 GiB make a kernel slower on Intel's GPUs, so only kernels that need them get them. */
tuff_status tuff__cl_program_for_large(driver_device *device, driver_program *program, cl_program *out)
{
    if (!program->large) {
        cl_program made = NULL;
        TRY(create_from_text(device, program->text, &made));
        const cl_int error = build(device, made, BUILDS_PROGRAM, device->plain_options, program->registers,
                                   " -cl-intel-greater-than-4GB-buffer-required");
        if (error != CL_SUCCESS) {
            const tuff_status status = build_failure(device, made, error, program->name);
            tuff__cl.ReleaseProgram(made);
            return status;
        }
        program->large = made;
    }
    *out = program->large;
    return TUFF_OK;
}

void tuff__cl_program_destroy(driver_device *device, driver_program *program)
{
    if (program->program && !device->hung)
        tuff__cl.ReleaseProgram(program->program);
    if (program->large && !device->hung)
        tuff__cl.ReleaseProgram(program->large);
    tuff__free(program->text);
    tuff__free(program->name);
    tuff__free(program);
}
