/* The kernels that measure a device's limits, and running them. */
#include "measure/peak.h"

#include "base/alloc.h"
#include "base/text.h"
#include "device/device.h"

#define COPY_SIZE (64u << 20)
#define FMA_CHAINS 12
#define FMA_STEPS 4096u /* for the many items of a GPU; sixteen times as many for the few of a CPU */

/* One kernel, recorded once. */
struct peak {
    tuff_device *device;
    storage *from, *to;
    program *program;
    recording *plain, *timed;
    double work;
    uint64_t least;  /* the shortest time of a run in ns; 0: tuff__peak_warm has not run */
    uint64_t enough; /* the time of a run in ns from which the clocks count as high */
};

/* Twelve chains hide the latency of the units, and together with two more operands fit in sixteen registers. REAL is as
   wide as the device's vectors if an item has the unit to itself (CPU devices in OpenCL), else a float. */
static const char fma_chains[] =
    "    REAL a0 = x, a1 = x * y, a2 = x + y, a3 = x - y, a4 = y, a5 = y * y, a6 = y - x, a7 = x * x,\n"
    "         a8 = -x, a9 = -y, a10 = x + 1.0f, a11 = y + 1.0f;\n"
    "    for (uint i = 0u; i < steps; i++) {\n"
    "        a0 = fma(a0, x, y); a1 = fma(a1, x, y); a2 = fma(a2, x, y); a3 = fma(a3, x, y);\n"
    "        a4 = fma(a4, x, y); a5 = fma(a5, x, y); a6 = fma(a6, x, y); a7 = fma(a7, x, y);\n"
    "        a8 = fma(a8, x, y); a9 = fma(a9, x, y); a10 = fma(a10, x, y); a11 = fma(a11, x, y);\n"
    "    }\n"
    "    REAL sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;\n";

static const char opencl_head[] =
    "__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void peak(__global const float *from,\n"
    "    __global float *to, uint steps, uint base)\n"
    "{\n"
    "    size_t item = (get_group_id(0) + base) * (size_t)LOCAL + get_local_id(0);\n";

static const char glsl_head[] = "layout(local_size_x = LOCAL) in;\n"
                                "layout(std430, set = 0, binding = 0) readonly buffer From { ELEMENT from[]; };\n"
                                "layout(std430, set = 0, binding = 1) buffer To { ELEMENT to[]; };\n"
                                "layout(push_constant) uniform Words { uint steps; uint base; };\n"
                                "void main()\n"
                                "{\n"
                                "    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base;\n"
                                "    uint item = group * uint(LOCAL) + gl_LocalInvocationID.x;\n";

static bool is_glsl(const peak *self)
{
    return tuff__device_takes_glsl(self->device);
}

static void write_fma(text *out, bool glsl, int lanes, uint32_t local)
{
    tuff__text_add(out, "%s#define LOCAL %u\n", glsl ? "#version 450\n#define ELEMENT float\n#define REAL float\n" : "",
                   (unsigned)local);
    if (!glsl && lanes > 1)
        tuff__text_add(out, "#define REAL float%d\n#define STORE(x) vstore%d(x, item, to)\n", lanes, lanes);
    else
        tuff__text_add(out, "%s#define STORE(x) to[item] = x\n", glsl ? "" : "#define REAL float\n");
    tuff__text_add(out, "%s    REAL x = %s(from[0]), y = %s(from[1]);\n%s    STORE(sum);\n}\n",
                   glsl ? glsl_head : opencl_head, glsl ? "float" : "(REAL)", glsl ? "float" : "(REAL)", fma_chains);
}

/* steps: adjacent vectors of 4 that an item moves; GLSL moves one. */
static void write_copy(text *out, bool glsl, uint32_t local)
{
    if (glsl)
        tuff__text_add(out, "#version 450\n#define LOCAL %u\n#define ELEMENT vec4\n%s    to[item] = from[item];\n}\n",
                       (unsigned)local, glsl_head);
    else
        tuff__text_add(out,
                       "#define LOCAL %u\n%s    for (size_t i = item * steps; i < (item + 1) * steps; i++)\n"
                       "        vstore4(vload4(i, from), i, to);\n}\n",
                       (unsigned)local, opencl_head);
}

static tuff_status record_kernel(peak *self, const text *source, uint32_t local, uint32_t steps, uint64_t groups)
{
    TRY(tuff__text_status(source));
    const program_request request = {
        .name = "peak", .text = tuff__text_get(source), .buffer_count = 2, .word_count = 2, .local_size = local};
    TRY(tuff__program_get(self->device, &request, &self->program));
    command dispatch = {.kind = COMMAND_DISPATCH,
                        .program = tuff__program_driver(self->program),
                        .group_count = groups,
                        .binding_count = 2,
                        .word_count = 2,
                        .words = {steps}};
    dispatch.bindings[0] = (buffer_binding){tuff__storage_buffer(self->from), 0, tuff__storage_size(self->from), false};
    dispatch.bindings[1] = (buffer_binding){tuff__storage_buffer(self->to), 0, tuff__storage_size(self->to), true};
    TRY(tuff__recording_create(self->device, &dispatch, 1, true, false, &self->plain));
    return tuff__recording_create(self->device, &dispatch, 1, true, true, &self->timed);
}

/* The operands come from memory, so that no compiler can compute the result, and every item stores its sum, so that
   none can drop the loop. */
static tuff_status make_fma(peak *self, const tuff_device_info *info)
{
    const float factors[] = {0.75f, 0.25f};
    const bool cpu = info->device_class == TUFF_DEVICE_CPU, glsl = is_glsl(self);
    const int width = (int)info->vector_width, lanes = cpu && !glsl ? (width >= 16 ? 16 : width >= 8 ? 8 : 4) : 1;
    const uint32_t local = cpu && !glsl ? 1 : 64, units = info->compute_units > 0 ? info->compute_units : 16;
    const uint32_t steps = FMA_STEPS * (local == 1 ? 16u : 1u);
    const uint64_t groups = (uint64_t)units * (cpu ? 8 : 64), items = groups * local;
    text source = {0};
    TRY(tuff__storage_create(self->device, sizeof factors, true, &self->from));
    TRY(tuff__storage_write(self->device, self->from, 0, factors, sizeof factors));
    TRY(tuff__storage_create(self->device, items * (uint64_t)lanes * sizeof(float), true, &self->to));
    write_fma(&source, glsl, lanes, local);
    const tuff_status status = record_kernel(self, &source, local, steps, groups);
    tuff__text_free(&source);
    self->work = 2.0 * FMA_CHAINS * steps * (double)items * lanes;
    return status;
}

/* On CPU devices an item copies whole pages of its own; elsewhere neighbouring items copy neighbouring vectors. */
static tuff_status make_copy(peak *self, const tuff_device_info *info)
{
    const bool alone = info->device_class == TUFF_DEVICE_CPU && !is_glsl(self);
    const uint32_t local = alone ? 1 : 64, steps = alone ? 4096 : 1;
    text source = {0};
    TRY(tuff__storage_create(self->device, COPY_SIZE, true, &self->from));
    TRY(tuff__storage_create(self->device, COPY_SIZE, true, &self->to));
    write_copy(&source, is_glsl(self), local);
    const tuff_status status = record_kernel(self, &source, local, steps, COPY_SIZE / 16 / steps / local);
    tuff__text_free(&source);
    self->work = 2.0 * COPY_SIZE;
    return status;
}

void tuff__peak_destroy(peak *self)
{
    if (!self)
        return;
    tuff__recording_destroy(self->device, self->plain);
    tuff__recording_destroy(self->device, self->timed);
    tuff__program_release(self->device, self->program);
    tuff__storage_release(self->from);
    tuff__storage_release(self->to);
    tuff__free(self);
}

tuff_status tuff__peak_create(tuff_device *device, peak_kind kind, peak **out)
{
    *out = NULL;
    peak *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    self->device = device;
    const tuff_device_info *info = tuff__device_info(device);
    const tuff_status status = kind == PEAK_OPERATIONS ? make_fma(self, info) : make_copy(self, info);
    if (status != TUFF_OK) {
        tuff__peak_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

double tuff__peak_work(const peak *self)
{
    return self->work;
}

tuff_status tuff__peak_run(peak *self, int count)
{
    for (int i = 0; i < count; i++)
        TRY(tuff__submit(self->device, self->plain));
    return tuff__wait(self->device);
}

/* Without timestamps of the device, the host's time is taken, which includes the launch. */
tuff_status tuff__peak_time(peak *self, uint64_t *nanoseconds)
{
    uint64_t passed;
    bool has_stamps;
    *nanoseconds = 0;
    TRY(tuff__submit_timed(self->device, self->timed, nanoseconds, &has_stamps, &passed));
    if (*nanoseconds == 0)
        *nanoseconds = passed;
    return TUFF_OK;
}

static bool is_gpu(const peak *self)
{
    return tuff__device_info(self->device)->device_class != TUFF_DEVICE_CPU;
}

/* Runs it until its time stops falling. What slows a single run down is not a limit of the device, so the least counts.
   The clocks of a GPU may stay low for some time after work arrives. */
static tuff_status run_until_steady(peak *self, uint64_t longest)
{
    enum { MIN_RUNS = 9, STEADY = 600000000 }; /* the latter in ns */
    /* mark: the least time when it last fell by 2 %, at the moment `improved`. steady: runs since then. */
    const uint64_t begin = tuff__nanoseconds();
    uint64_t mark = 0, time = 0, improved = begin, now = begin;
    int steady = 0;
    for (int i = 0;; i++, steady++) {
        const bool is_steady = steady >= MIN_RUNS && now - improved >= STEADY;
        if (i >= MIN_RUNS && (!is_gpu(self) || is_steady || now - begin >= longest))
            return TUFF_OK;
        TRY(tuff__peak_time(self, &time));
        now = tuff__nanoseconds();
        if (i == 0 || time == 0)
            continue;
        self->least = self->least == 0 || time < self->least ? time : self->least;
        if (mark == 0 || mark - mark / 50 > time) {
            mark = time;
            improved = now;
            steady = 0;
        }
    }
}

/* Called before each use. Only the first call has to find out how fast the device gets; later ones wait until it is
   that fast again. */
tuff_status tuff__peak_warm(peak *self, uint64_t longest)
{
    uint64_t least = UINT64_MAX;
    if (self->least == 0) {
        const tuff_status status = run_until_steady(self, longest);
        self->enough = self->least + self->least / 10;
        return status;
    }
    const uint64_t begin = tuff__nanoseconds();
    while (is_gpu(self) && least > self->enough && tuff__nanoseconds() - begin < longest) {
        uint64_t time;
        TRY(tuff__peak_time(self, &time));
        least = time < least ? time : least;
    }
    self->least = least < self->least ? least : self->least;
    /* If other programs use the GPU or its clocks are limited now, later calls must not wait for more either. */
    if (least != UINT64_MAX && least > self->enough)
        self->enough = least;
    return TUFF_OK;
}

/* Work per second: least is in nanoseconds. */
double tuff__peak_measured(const peak *self)
{
    return self->least > 0 ? self->work / (double)self->least * 1e9 : 0;
}

tuff_status tuff__peak_rate(tuff_device *device, peak_kind kind, double *rate)
{
    peak *loop;
    *rate = 0;
    TRY(tuff__peak_create(device, kind, &loop));
    tuff_status status = tuff__peak_warm(loop, PEAK_LONGEST_WARM_UP);
    *rate = tuff__peak_measured(loop);
    if (status == TUFF_OK && *rate == 0)
        status = FAIL(TUFF_E_UNSUPPORTED, "measure: the device reports that a run takes no time");
    tuff__peak_destroy(loop);
    return status;
}
