/* The self-test at a device's first open: small kernels that show what works, because some drivers claim features that
   do not work. The results are kept in the cache folder under the device's identity; a feature that is not proved
   counts as absent. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "device/probes.h"
#include "device/cache/program_cache.h"
#include "device/state.h"

/* Raised when the probes change. */
#define PROBES_VERSION 10

/* Without shaderc no GLSL compiles. The record's key contains this, so that other builds do not use the record of a
   build without shaderc. */
#ifndef TUFF_WITH_SHADERC
#define TUFF_WITH_SHADERC 1
#endif

/* llvmpipe's limit on the iterations of all loops of a kernel together, in every version so far; the first probe loops
   longer. */
enum { LLVMPIPE_ITERATIONS = 65535, EXTRA_STEPS = 57655 };

enum { ITEMS = 64, WORDS = 4 * ITEMS, BYTES = 4 * WORDS, BUFFERS = 3, MATRIX_SUMS = 1024, WARPGROUP = 128 };

/* The words of a probe's input and of its two outputs. */
typedef struct words {
    uint32_t a[WORDS], b[WORDS], c[WORDS];
} words;

typedef struct probe {
    const char *name, *opencl, *glsl;
    uint64_t groups;
    bool (*is_wanted)(const tuff_device_info *info); /* NULL: always */
    void (*fill)(uint32_t *a);
    void (*check)(const words *words, tuff_device_info *info);
} probe;

static void fill_distinct(uint32_t *a)
{
    for (uint32_t i = 0; i < WORDS; i++)
        a[i] = i * 2654435761u + 12345u;
}

static void fill_small(uint32_t *a)
{
    for (uint32_t i = 0; i < WORDS; i++)
        a[i] = (i * 7 + i / ITEMS) % 41;
}

/* Fills in NaNs with payloads, -0, denormals, and numbers around the smallest normal one; the last two words are 1 and
   a half. */
static void fill_floats(uint32_t *a)
{
    static const uint32_t special[] = {0x7fc00001u, 0x7fd55555u, 0xffc12345u, 0xffffffffu, 0x80000000u, 0x00000000u,
                                       0x00000001u, 0x80000001u, 0x007fffffu, 0x807fffffu, 0x00400000u, 0x00800000u,
                                       0x80800000u, 0x7f800000u, 0xff800000u, 0x3fc00000u};
    enum { SPECIAL_COUNT = (int)(sizeof special / sizeof special[0]) };
    for (int i = 0; i < WORDS; i++)
        a[i] = special[i % SPECIAL_COUNT];
    a[62] = 0x3f800000u;
    a[63] = 0x3f000000u;
}

/* Returns how many steps the first item got through in the long loop, from buffer c; 0: all of them. */
static uint32_t find_loop_limit(const words *got)
{
    uint32_t x = got->a[1];
    for (uint32_t i = 0; i < got->a[0] + EXTRA_STEPS; i++)
        x = x * 1664525u + 1013904223u;
    return got->c[0] == x ? 0 : got->c[1] > 0 ? got->c[1] : 1;
}

static void check_barrier(const words *got, tuff_device_info *info)
{
    bool correct = true;
    for (uint32_t group = 0; group < WORDS / ITEMS; group++) {
        const uint32_t *a = got->a + group * ITEMS, *b = got->b + group * ITEMS;
        uint32_t sum = 0;
        for (int i = 0; i < ITEMS; i++)
            sum += a[i];
        for (int i = 0; i < ITEMS; i++)
            correct = correct && b[i] == a[ITEMS - 1 - i] + sum;
    }
    info->proved_barrier = correct;
    info->loop_limit = find_loop_limit(got);
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static bool is_denormal(uint32_t bits)
{
    return (bits & 0x7f800000u) == 0 && (bits & 0x007fffffu) != 0;
}

/* Whether the four values that the second output has for element i, a denormal, are correct. */
static bool keeps_denormal(const words *got, int i)
{
    const uint32_t x = got->a[i], *magnitude = got->c, *larger = got->c + 64, *sum = got->c + 128,
                   *is_positive = got->c + 192;
    const bool negative = x >> 31;
    return magnitude[i] == (x & 0x7fffffffu) && larger[i] == (negative ? 0 : x) && sum[i] == x &&
           is_positive[i] == !negative;
}

static void check_floats(const words *got, tuff_device_info *info)
{
    const uint32_t *a = got->a, *copy = got->b, *times_one = got->b + 64, *twice = got->b + 128, *half = got->b + 192;
    bool nan = true, zero = true, denormal = true;
    for (int i = 0; i < ITEMS; i++) {
        if (is_nan(a[i]))
            nan = nan && copy[i] == a[i];
        if (a[i] == 0x80000000u)
            zero = zero && copy[i] == a[i] && times_one[i] == a[i] && twice[i] == a[i] && half[i] == a[i];
        /* Twice a denormal is its bits shifted by one, even if the result is a normal number. */
        if (is_denormal(a[i]))
            denormal = denormal && copy[i] == a[i] && times_one[i] == a[i] &&
                       twice[i] == ((a[i] & 0x80000000u) | (a[i] & 0x7fffffffu) << 1) && keeps_denormal(got, i);
        if ((a[i] & 0x7fffffffu) == 0x00800000u)
            denormal = denormal && half[i] == ((a[i] & 0x80000000u) | 0x00400000u);
    }
    info->proved_nan = nan;
    info->proved_negative_zero = zero;
    info->proved_denormals = denormal;
}

static bool wants_narrow(const tuff_device_info *info)
{
    return info->narrow_storage;
}

static void check_narrow(const words *got, tuff_device_info *info)
{
    unsigned char bytes[ITEMS];
    uint16_t shorts[ITEMS];
    memcpy(bytes, got->b, sizeof bytes);
    memcpy(shorts, got->c, sizeof shorts);
    bool correct = true;
    for (int i = 0; i < ITEMS; i++)
        correct = correct && bytes[i] == (got->a[i] & 0xff) && shorts[i] == ((got->a[i] * 257u) & 0xffff);
    /* The words after the stored elements are unchanged. */
    for (int i = ITEMS / 4; i < WORDS; i++)
        correct = correct && got->b[i] == 0 && (i < ITEMS / 2 || got->c[i] == 0);
    info->proved_narrow_storage = correct;
}

static bool wants_half(const tuff_device_info *info)
{
    return info->half_arithmetic;
}

static void check_half(const words *got, tuff_device_info *info)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        if (got->b[i] != got->a[i] * got->a[ITEMS + i] + i)
            return;
    info->half_arithmetic = true;
}

static bool wants_int64(const tuff_device_info *info)
{
    return info->int64;
}

static void check_int64(const words *got, tuff_device_info *info)
{
    for (int i = 0; i < ITEMS; i++) {
        uint64_t product = (uint64_t)got->a[i] * got->a[ITEMS + i];
        if (got->b[i] != (uint32_t)product || got->b[ITEMS + i] != (uint32_t)(product >> 32))
            return;
    }
    info->int64 = true;
}

static bool wants_subgroups(const tuff_device_info *info)
{
    return info->subgroup_size > 0;
}

/* Proves the subgroup size if all items see the same number of lanes, and there are as many leaders as there are
   subgroups of that size. */
static void check_subgroups(const words *got, tuff_device_info *info)
{
    uint32_t lanes = got->b[0], leaders = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        if (got->b[i] != lanes)
            return;
        leaders += got->b[ITEMS + i] == i;
    }
    if (lanes > 0 && lanes <= ITEMS && lanes * leaders == ITEMS)
        info->proved_subgroup_size = lanes;
}

static bool wants_shuffle(const tuff_device_info *info)
{
    return info->subgroup_shuffle;
}

/* Runs after the subgroup size is proved. Each item exchanged numbers with the lane that is as far from the subgroup's
   end as its own lane is from the start. */
static void check_shuffle(const words *got, tuff_device_info *info)
{
    const uint32_t *partners = got->b, *lanes = got->b + ITEMS, width = info->proved_subgroup_size;
    for (uint32_t i = 0; i < ITEMS; i++) {
        const uint32_t partner = partners[i];
        if (got->c[i] != width || lanes[i] >= width || partner >= ITEMS || partners[partner] != i ||
            lanes[partner] != width - 1 - lanes[i])
            return;
    }
    info->subgroup_shuffle = width > 0;
}

static bool wants_exchange(const tuff_device_info *info)
{
    return info->exchange_form == TUFF_EXCHANGE_KHR;
}

static bool wants_exchange_of_nvidia(const tuff_device_info *info)
{
    return info->exchange_form == TUFF_EXCHANGE_NVIDIA;
}

static bool wants_exchange_of_amd(const tuff_device_info *info)
{
    return info->exchange_form == TUFF_EXCHANGE_AMD;
}

/* Whether each item has the sum of `count` words of its block of lanes, and the first of them. */
static bool are_exchanged(const words *got, const uint32_t *sums, const uint32_t *firsts, uint32_t count)
{
    for (uint32_t i = 0; i < ITEMS; i++) {
        const uint32_t start = i - i % count;
        uint32_t sum = 0;
        for (uint32_t k = 0; k < count; k++)
            sum += got->a[start + k];
        if (sums[i] != sum || firsts[i] != got->a[start])
            return false;
    }
    return true;
}

static void keep_exchange(bool proved, tuff_device_info *info)
{
    info->exchange_form = proved ? info->exchange_form : TUFF_EXCHANGE_NONE;
    info->exchange_lanes = proved ? info->exchange_lanes : 0;
}

/* Kernels may rely on subgroups of neighbouring items, all of the width that was counted. */
static void check_exchange(const words *got, tuff_device_info *info)
{
    const uint32_t width = got->c[0];
    for (uint32_t i = 0; i < ITEMS; i++)
        if (got->c[i] != width)
            return;
    if (width >= 4 && width <= ITEMS && ITEMS % width == 0 && are_exchanged(got, got->b, got->b + 2 * ITEMS, 4) &&
        are_exchanged(got, got->b + ITEMS, got->b + 3 * ITEMS, width))
        info->exchange_lanes = width;
}

/* Whether the output is the product of two blocks of small integers, which is exact; probes.h describes it. */
static bool is_product(const words *got, const uint32_t shape[3])
{
    const uint32_t rows = shape[0], columns = shape[1], terms = shape[2];
    uint32_t wanted[WORDS] = {0};
    for (uint32_t i = 0; i < rows * columns; i++)
        for (uint32_t k = 0; k < terms; k++)
            wanted[i % WORDS] += got->a[(i / columns * terms + k) % WORDS] *
                                 (got->a[WORDS - 1 - (k * columns + i % columns) % WORDS] + 1);
    return memcmp(got->b, wanted, sizeof wanted) == 0;
}

static const probe probes[] = {
    {"barriers and loops", barrier_opencl, barrier_glsl, WORDS / ITEMS, NULL, fill_distinct, check_barrier},
    {"floats", floats_opencl, floats_glsl, 1, NULL, fill_floats, check_floats},
    {"narrow stores", narrow_opencl, narrow_glsl, 1, wants_narrow, fill_distinct, check_narrow},
    {"half", half_opencl, half_glsl, 1, wants_half, fill_small, check_half},
    {"int64", int64_opencl, int64_glsl, 1, wants_int64, fill_distinct, check_int64},
    {"subgroups", subgroup_opencl, subgroup_glsl, 1, wants_subgroups, fill_distinct, check_subgroups},
    {"shuffles", shuffle_opencl, shuffle_glsl, 1, wants_shuffle, fill_distinct, check_shuffle},
    {"exchange", exchange_opencl, exchange_glsl, 1, wants_exchange, fill_distinct, check_exchange},
    {"exchange", exchange_nvidia, NULL, 1, wants_exchange_of_nvidia, fill_distinct, check_exchange},
    {"exchange", exchange_amd, NULL, 1, wants_exchange_of_amd, fill_distinct, check_exchange},
};
enum { PROBE_COUNT = (int)(sizeof probes / sizeof probes[0]) };

/* Dispatches the probe with the storages, whose outputs are zero, and reads the results back. The first one has `input`
   bytes. */
static tuff_status dispatch(tuff_device *device, driver_program *made, uint64_t groups, storage *const *storages,
                            uint64_t input, words *got)
{
    command probe_command = {
        .kind = COMMAND_DISPATCH, .program = made, .group_count = groups, .binding_count = BUFFERS, .word_count = 1};
    uint32_t *const contents[BUFFERS] = {got->a, got->b, got->c};
    recording *once = NULL;
    for (int i = 0; i < BUFFERS; i++)
        probe_command.bindings[i] =
            (buffer_binding){tuff__storage_buffer(storages[i]), 0, i > 0 ? BYTES : input, i > 0};
    TRY(tuff__recording_create(device, &probe_command, 1, true, false, &once));
    tuff_status status = tuff__submit(device, once);
    for (int i = 1; i < BUFFERS && status == TUFF_OK; i++)
        status = tuff__storage_read(device, storages[i], 0, contents[i], BYTES);
    tuff__recording_destroy(device, once);
    return status;
}

/* Runs a program once with fresh buffers. input: the contents of the first one. */
static tuff_status run_program(tuff_device *device, program *made, uint64_t groups, blob input, words *got)
{
    storage *storages[BUFFERS] = {NULL};
    tuff_status status = TUFF_OK;
    for (int i = 0; i < BUFFERS && status == TUFF_OK; i++)
        status = tuff__storage_create(device, i > 0 ? BYTES : input.size, true, &storages[i]);
    if (status == TUFF_OK)
        status = tuff__storage_write(device, storages[0], 0, input.data, input.size);
    if (status == TUFF_OK)
        status = dispatch(device, tuff__program_driver(made), groups, storages, input.size, got);
    for (int i = 0; i < BUFFERS; i++)
        tuff__storage_release(storages[i]);
    return status;
}

static program_request request_of(const char *source, uint32_t items)
{
    return (program_request){
        .name = "probe", .text = source, .buffer_count = BUFFERS, .word_count = 1, .local_size = items};
}

/* Compiles a kernel and runs it on the input. If the driver rejects the kernel, its feature stays off (*ran is
   false); any other failure is one of the device. */
static tuff_status run_text(tuff_device *device, const char *name, const program_request *request, uint64_t groups,
                            blob input, words *got, bool *ran)
{
    program *made = NULL;
    tuff_status status = tuff__program_get(device, request, &made);
    *ran = false;
    if (status == TUFF_E_COMPILE || status == TUFF_E_UNSUPPORTED || status == TUFF_E_LIMIT) {
        tuff__log(TUFF_LOG_INFO, "%s: self-test \"%s\": %s", device->info.selector, name, tuff_error());
        return TUFF_OK;
    }
    TRY(status);
    status = run_program(device, made, groups, input, got);
    *ran = status == TUFF_OK;
    tuff__program_release(device, made);
    return status;
}

static const char *text_of(const tuff_device *device, const probe *tested)
{
    return tuff__device_takes_glsl(device) ? tested->glsl : tested->opencl;
}

/* Lanes exchange registers in subgroups of a width that their kernels require. */
static program_request request_probe(const tuff_device *device, const probe *tested, const tuff_device_info *claims)
{
    program_request request = request_of(text_of(device, tested), ITEMS);
    request.subgroup_size = tested->is_wanted == wants_exchange ? claims->exchange_lanes : 0;
    return request;
}

static tuff_status run_probe(tuff_device *device, const probe *tested, const tuff_device_info *claims, words *got)
{
    bool ran;
    const program_request request = request_probe(device, tested, claims);
    tested->fill(got->a);
    TRY(run_text(device, tested->name, &request, tested->groups, (blob){got->a, BYTES}, got, &ran));
    if (ran)
        tested->check(got, &device->info);
    return TUFF_OK;
}

/* A product of two blocks, with kernel texts of probes.h. */
typedef struct block {
    const char *instructions, *body; /* body: NULL if there is no text for the driver's form of units */
    const uint32_t *shape;           /* rows, columns, terms */
    uint32_t items;
    bool bf16, transposed; /* transposed: the factors are so in local memory */
    bool in_tile;          /* the factors are in a tile of 16-bit elements in global memory */
} block;

enum { BLOCKS_PER_DTYPE = 2, WARPGROUP_BLOCKS = 8, GROUP_BLOCKS = 8, SMALL_GROUP = 128, LARGE_GROUP = 256 };

/* Returns one of the BLOCKS_PER_DTYPE blocks of the shape and form that the driver claims. */
static block claimed_block(const tuff_device *device, const tuff_device_info *claims, bool bf16, bool transposed)
{
    static const char *const texts[] = {
        [TUFF_MATRIX_NV] = matrix_nv_glsl, [TUFF_MATRIX_KHR] = matrix_khr_glsl, [TUFF_MATRIX_NVIDIA] = matrix_nvidia,
        [TUFF_MATRIX_MFMA] = matrix_mfma,  [TUFF_MATRIX_WMMA] = matrix_wmma,    [TUFF_MATRIX_INTEL] = matrix_intel};
    const uint32_t *shape = claims->matrix_shape, form = claims->cooperative_matrix;
    const bool is_known = form < sizeof texts / sizeof *texts && shape[0] * shape[1] <= MATRIX_SUMS &&
                          (form <= TUFF_MATRIX_KHR) == tuff__device_takes_glsl(device);
    return (block){"", is_known ? texts[form] : NULL, shape, ITEMS, bf16, transposed, false};
}

/* Returns one of the WARPGROUP_BLOCKS: both dtypes, 32 and 64 terms, plain and transposed factors. */
static block warpgroup_block(int i)
{
    static const uint32_t shapes[][3] = {{64, 64, 32}, {64, 64, 64}};
    return (block){warpgroup_instructions, matrix_warpgroup, shapes[i % 2], WARPGROUP, i / 2 % 2, i / 4, false};
}

/* Returns one of the GROUP_BLOCKS: plain and transposed factors, both sizes of groups, both dtypes. */
static block group_block(int i)
{
    static const uint32_t shape[] = {60, 52, 40};
    static const char *const sizes[] = {"#define GROUP_SIZE 128u\n", "#define GROUP_SIZE 256u\n"};
    const int large = i / 2 % 2;
    return (block){sizes[large], matrix_group_glsl, shape, large ? LARGE_GROUP : SMALL_GROUP, i / 4, i % 2, true};
}

/* The sizes of groups that multiply the dtype. */
static uint32_t *group_sizes(tuff_device_info *info, bool bf16)
{
    return bf16 ? &info->matrix_group_sizes_bf16 : &info->matrix_group_sizes;
}

static void write_block(const tuff_device *device, const block *tried, text *out)
{
    tuff__text_add(out,
                   "%s#define MATRIX_M %uu\n#define MATRIX_N %uu\n#define MATRIX_K %uu\n#define MATRIX_BF16 %d\n"
                   "#define MATRIX_TRANSPOSED %d\n%s%s",
                   tuff__device_takes_glsl(device) ? "#version 450\n" : "", tried->shape[0], tried->shape[1],
                   tried->shape[2], tried->bf16, tried->transposed, tried->instructions, tried->body);
}

enum { MAX_KERNELS = PROBE_COUNT + 2 * BLOCKS_PER_DTYPE + WARPGROUP_BLOCKS + GROUP_BLOCKS };

/* Programs of the self-test, which are compiled several at once before they run one by one. */
typedef struct prepared {
    program_request requests[MAX_KERNELS];
    text texts[MAX_KERNELS]; /* of blocks */
    program *programs[MAX_KERNELS];
    int count, done;
} prepared;

static void add_block(const tuff_device *device, block added, prepared *self)
{
    text *source = &self->texts[self->count];
    if (!added.body)
        return;
    write_block(device, &added, source);
    if (tuff__text_status(source) == TUFF_OK)
        self->requests[self->count++] = request_of(tuff__text_get(source), added.items);
}

/* Compiles what was added since the last call. */
static void prepare(tuff_device *device, prepared *self)
{
    tuff__programs_prepare(device, self->requests + self->done, self->count - self->done, self->programs + self->done);
    self->done = self->count;
}

/* Adds all probes and the blocks of f16. Other blocks follow once these are proved (prove_matrices). */
static void add_first(tuff_device *device, const tuff_device_info *claims, prepared *self)
{
    for (int i = 0; i < PROBE_COUNT; i++)
        if (!probes[i].is_wanted || probes[i].is_wanted(claims))
            self->requests[self->count++] = request_probe(device, &probes[i], claims);
    for (int i = 0; i < BLOCKS_PER_DTYPE && claims->cooperative_matrix != TUFF_MATRIX_NONE; i++)
        add_block(device, claimed_block(device, claims, false, i), self);
}

/* Whether the driver claims that groups of the block's size multiply its dtype. */
static bool is_claimed(const tuff_device_info *claims, const block *tried)
{
    tuff_device_info copy = *claims;
    return *group_sizes(&copy, tried->bf16) & tried->items;
}

static void add_others(tuff_device *device, const tuff_device_info *claims, prepared *self)
{
    for (int i = 0; i < BLOCKS_PER_DTYPE && claims->matrix_bf16; i++)
        add_block(device, claimed_block(device, claims, true, i), self);
    for (int i = 0; i < GROUP_BLOCKS; i++) {
        const block tried = group_block(i);
        if (is_claimed(claims, &tried))
            add_block(device, tried, self);
    }
    for (int i = 0; i < WARPGROUP_BLOCKS && claims->matrix_warpgroup; i++)
        add_block(device, warpgroup_block(i), self);
}

static void release_programs(tuff_device *device, prepared *self)
{
    for (int i = 0; i < MAX_KERNELS; i++) {
        tuff__program_release(device, self->programs[i]);
        tuff__text_free(&self->texts[i]);
    }
}

tuff_status tuff__device_self_test_programs(tuff_device *device, program_visitor visit, void *state)
{
    prepared *all = tuff__calloc(1, sizeof *all);
    if (!all)
        return TUFF_E_OOM_HOST;
    add_first(device, &device->info, all);
    if (device->info.cooperative_matrix != TUFF_MATRIX_NONE)
        add_others(device, &device->info, all);
    tuff_status status = TUFF_OK;
    for (int i = 0; i < all->count && status == TUFF_OK; i++)
        status = visit(state, &all->requests[i]);
    release_programs(device, all);
    tuff__free(all);
    return status;
}

/* The 16-bit form of a small integer. */
static uint16_t factor_bits(uint32_t number, bool bf16)
{
    const float x = (float)number;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bf16 ? bits >> 16 : number > 0 ? (bits - 0x38000000u) >> 13 : 0);
}

/* The input of a product of a group (probes.h). */
enum { TILE = 64, TILE_PITCH = 72, TILE_ELEMENTS = 2 * TILE * TILE_PITCH };

/* Fills both factors in, and other numbers around them. */
static void fill_tiles(const uint32_t *a, const block *tried, uint16_t *out)
{
    const uint32_t rows = tried->shape[0], columns = tried->shape[1], terms = tried->shape[2];
    for (int i = 0; i < TILE_ELEMENTS; i++)
        out[i] = factor_bits(9, tried->bf16);
    for (uint32_t k = 0; k < terms; k++) {
        for (uint32_t m = 0; m < rows; m++)
            out[tried->transposed ? k * TILE_PITCH + m : m * TILE_PITCH + k] =
                factor_bits(a[(m * terms + k) % WORDS], tried->bf16);
        for (uint32_t n = 0; n < columns; n++)
            out[TILE * TILE_PITCH + (tried->transposed ? n * TILE_PITCH + k : k * TILE_PITCH + n)] =
                factor_bits(a[WORDS - 1 - (k * columns + n) % WORDS] + 1, tried->bf16);
    }
}

/* Runs a block's kernel on the words, or on the factors that are made from them. */
static tuff_status run_block(tuff_device *device, const block *tried, const char *source, words *got, bool *ran)
{
    const char *name = tried->in_tile ? "matrices of groups" : tried->bf16 ? "matrices of bf16" : "matrices";
    const program_request request = request_of(source, tried->items);
    if (!tried->in_tile)
        return run_text(device, name, &request, 1, (blob){got->a, BYTES}, got, ran);
    uint16_t *tiles = tuff__alloc(TILE_ELEMENTS * sizeof *tiles);
    if (!tiles)
        return TUFF_E_OOM_HOST;
    fill_tiles(got->a, tried, tiles);
    const tuff_status status =
        run_text(device, name, &request, 1, (blob){tiles, TILE_ELEMENTS * sizeof *tiles}, got, ran);
    tuff__free(tiles);
    return status;
}

/* Multiplies a block. Sets *state to the outcome. */
static tuff_status try_block(tuff_device *device, const block *tried, words *got, tuff_matrix_state *state)
{
    text source = {0};
    bool ran = false;
    *state = TUFF_MATRICES_NO_COMPILER;
    if (!tried->body)
        return TUFF_OK;
    write_block(device, tried, &source);
    tuff_status status = tuff__text_status(&source);
    fill_small(got->a);
    if (status == TUFF_OK)
        status = run_block(device, tried, tuff__text_get(&source), got, &ran);
    tuff__text_free(&source);
    if (ran)
        *state = is_product(got, tried->shape) ? TUFF_MATRICES_OFFERED : TUFF_MATRICES_WRONG;
    return status;
}

static tuff_status try_matrices(tuff_device *device, const tuff_device_info *claims, bool bf16, words *got,
                                tuff_matrix_state *state)
{
    *state = TUFF_MATRICES_OFFERED;
    for (int i = 0; i < BLOCKS_PER_DTYPE && *state == TUFF_MATRICES_OFFERED; i++) {
        const block tried = claimed_block(device, claims, bf16, i);
        TRY(try_block(device, &tried, got, state));
    }
    return TUFF_OK;
}

/* Proves the products of warpgroups. They count as absent unless all are correct. */
static tuff_status prove_warpgroups(tuff_device *device, words *got)
{
    tuff_matrix_state state = TUFF_MATRICES_OFFERED;
    for (int i = 0; i < WARPGROUP_BLOCKS && state == TUFF_MATRICES_OFFERED; i++) {
        const block tried = warpgroup_block(i);
        TRY(try_block(device, &tried, got, &state));
    }
    device->info.matrix_warpgroup = state == TUFF_MATRICES_OFFERED;
    return TUFF_OK;
}

/* Proves the products of groups. Of a size and dtype, both must be right. */
static tuff_status prove_groups(tuff_device *device, const tuff_device_info *claims, words *got)
{
    tuff_matrix_state plain = TUFF_MATRICES_WRONG, state;
    for (int i = 0; i < GROUP_BLOCKS; i++) {
        const block tried = group_block(i);
        if (!is_claimed(claims, &tried) || (tried.bf16 && !device->info.matrix_bf16))
            continue;
        TRY(try_block(device, &tried, got, &state));
        if (!tried.transposed)
            plain = state;
        else if (plain == TUFF_MATRICES_OFFERED && state == TUFF_MATRICES_OFFERED)
            *group_sizes(&device->info, tried.bf16) |= tried.items;
    }
    return TUFF_OK;
}

static tuff_status prove_matrices(tuff_device *device, const tuff_device_info *claims, prepared *programs, words *got)
{
    tuff_device_info *info = &device->info;
    tuff_matrix_state state;
    info->cooperative_matrix = TUFF_MATRIX_NONE;
    info->matrix_bf16 = false;
    info->matrix_warpgroup = info->matrix_group_sizes = info->matrix_group_sizes_bf16 = 0;
    if (claims->cooperative_matrix == TUFF_MATRIX_NONE)
        return TUFF_OK;
    TRY(try_matrices(device, claims, false, got, &state));
    info->matrix_state = state;
    if (state != TUFF_MATRICES_OFFERED)
        return TUFF_OK;
    info->cooperative_matrix = claims->cooperative_matrix;
    add_others(device, claims, programs);
    prepare(device, programs);
    if (claims->matrix_bf16) {
        TRY(try_matrices(device, claims, true, got, &state));
        info->matrix_bf16 = state == TUFF_MATRICES_OFFERED;
    }
    TRY(prove_groups(device, claims, got));
    return info->matrix_bf16 && claims->matrix_warpgroup ? prove_warpgroups(device, got) : TUFF_OK;
}

/* Runs all probes that the driver's claims call for. */
static tuff_status run_probes(tuff_device *device)
{
    const tuff_device_info claims = device->info;
    tuff_device_info *info = &device->info;
    words *got = tuff__alloc(sizeof *got);
    prepared *programs = tuff__calloc(1, sizeof *programs);
    tuff_status status = got && programs ? TUFF_OK : TUFF_E_OOM_HOST;
    if (status == TUFF_OK) {
        add_first(device, &claims, programs);
        prepare(device, programs);
    }
    info->half_arithmetic = info->int64 = info->subgroup_shuffle = false;
    info->exchange_lanes = 0;
    for (int i = 0; i < PROBE_COUNT && status == TUFF_OK; i++)
        if (!probes[i].is_wanted || probes[i].is_wanted(&claims))
            status = run_probe(device, &probes[i], &claims, got);
    keep_exchange(info->exchange_lanes == claims.exchange_lanes, info);
    if (status == TUFF_OK)
        status = prove_matrices(device, &claims, programs, got);
    if (programs)
        release_programs(device, programs);
    tuff__free(programs);
    tuff__free(got);
    info->proved = true;
    info->narrow_storage = info->proved_narrow_storage;
    return status;
}

/* The record: one byte per result, in the order of encode_record (the width of a subgroup fits into a byte), then the
   loop limit, little-endian. */
enum { FLAGS_END = 14, RECORD_SIZE = FLAGS_END + 4 };

/* The index of the byte for groups that share matrix units, which has a bit for each size and dtype. */
enum { GROUPS_BYTE = 12, GROUPS_BITS = 15 };
enum { EXCHANGE_BYTE = 13 };

/* The index of the matrix units' byte, and its values: proved, or why not. 0: the driver offers none that tuff can use,
   and itself reports why. */
enum { MATRIX_STATE_BYTE = 9, MATRIX_PROVED = 1, MATRIX_NO_COMPILER = 2, MATRIX_WRONG = 3 };

static unsigned char encode_matrix_state(const tuff_device_info *info)
{
    if (info->cooperative_matrix > 0)
        return MATRIX_PROVED;
    return info->matrix_state == TUFF_MATRICES_NO_COMPILER ? MATRIX_NO_COMPILER
           : info->matrix_state == TUFF_MATRICES_WRONG     ? MATRIX_WRONG
                                                           : 0;
}

static void decode_matrix_state(unsigned char byte, tuff_device_info *info)
{
    if (info->cooperative_matrix > 0 && byte != MATRIX_PROVED)
        info->matrix_state = byte == MATRIX_WRONG ? TUFF_MATRICES_WRONG : TUFF_MATRICES_NO_COMPILER;
    if (byte != MATRIX_PROVED)
        info->cooperative_matrix = 0;
}

static unsigned char encode_groups(const tuff_device_info *info)
{
    return (unsigned char)(info->matrix_group_sizes / SMALL_GROUP | info->matrix_group_sizes_bf16 / SMALL_GROUP << 2);
}

static void encode_record(const tuff_device_info *info, unsigned char *record)
{
    const unsigned char bytes[RECORD_SIZE] = {(unsigned char)info->proved_subgroup_size,
                                              info->proved_barrier,
                                              info->proved_narrow_storage,
                                              info->proved_nan,
                                              info->proved_negative_zero,
                                              info->proved_denormals,
                                              info->half_arithmetic,
                                              info->int64,
                                              info->subgroup_shuffle,
                                              encode_matrix_state(info),
                                              info->matrix_bf16,
                                              info->matrix_warpgroup != 0,
                                              encode_groups(info),
                                              info->exchange_form != TUFF_EXCHANGE_NONE};
    memcpy(record, bytes, sizeof bytes);
    for (int i = 0; i < RECORD_SIZE - FLAGS_END; i++)
        record[FLAGS_END + i] = (unsigned char)(info->loop_limit >> 8 * i & 0xff);
}

/* Reads a record, which never grants what the driver does not claim. Returns false if it is not a valid record. */
static bool decode_record(blob record, tuff_device_info *info)
{
    const unsigned char *bytes = record.data;
    if (record.size != RECORD_SIZE || bytes[0] > ITEMS)
        return false;
    for (int i = 1; i < FLAGS_END; i++)
        if (bytes[i] > (i == MATRIX_STATE_BYTE ? MATRIX_WRONG : i == GROUPS_BYTE ? GROUPS_BITS : 1))
            return false;
    info->loop_limit = 0;
    for (int i = 0; i < RECORD_SIZE - FLAGS_END; i++)
        info->loop_limit |= (uint32_t)bytes[FLAGS_END + i] << 8 * i;
    info->proved_subgroup_size = bytes[0];
    info->proved_barrier = bytes[1];
    info->proved_narrow_storage = info->narrow_storage && bytes[2];
    info->proved_nan = bytes[3];
    info->proved_negative_zero = bytes[4];
    info->proved_denormals = bytes[5];
    info->half_arithmetic = info->half_arithmetic && bytes[6];
    info->int64 = info->int64 && bytes[7];
    info->subgroup_shuffle = info->subgroup_shuffle && bytes[8];
    decode_matrix_state(bytes[MATRIX_STATE_BYTE], info);
    info->matrix_bf16 = info->matrix_bf16 && bytes[10] && info->cooperative_matrix > 0;
    info->matrix_warpgroup = info->matrix_warpgroup && bytes[11] && info->cooperative_matrix > 0;
    const uint32_t proved = info->cooperative_matrix > 0 ? bytes[GROUPS_BYTE] : 0;
    info->matrix_group_sizes &= proved % 4 * SMALL_GROUP;
    info->matrix_group_sizes_bf16 &= info->matrix_bf16 ? proved / 4 * SMALL_GROUP : 0;
    keep_exchange(bytes[EXCHANGE_BYTE], info);
    info->narrow_storage = info->proved_narrow_storage;
    info->proved = true;
    return true;
}

/* Warns about unused matrix units, at every open: without them a card may be ten times slower than it could be. */
static void warn_unused_matrix_units(const tuff_device *device)
{
    if (device->info.matrix_state == TUFF_MATRICES_NO_COMPILER)
        tuff__log(
            TUFF_LOG_WARNING,
            "%s: matrix units are not used: the kernel compiler does not support them (in Vulkan, libshaderc before "
            "2023.6 supports only NVIDIA's extension: install a newer libshaderc)",
            device->info.selector);
    if (device->info.matrix_state == TUFF_MATRICES_WRONG)
        tuff__log(TUFF_LOG_WARNING, "%s: matrix units are not used: they gave wrong results in the self-test",
                  device->info.selector);
}

tuff_status tuff__device_self_test(tuff_device *device)
{
    text key = {0};
    blob record = {0};
    unsigned char bytes[RECORD_SIZE];
    /* Holds until the probe has run, which it cannot without a compiler. */
    device->info.loop_limit = strstr(device->info.name, "llvmpipe") ? LLVMPIPE_ITERATIONS : 0;
    tuff__text_add(&key, "tuff %s, probes %d, shaderc %d, pointers of %zu bytes\n%s\n%s\n%s\n", tuff_version(),
                   PROBES_VERSION, TUFF_WITH_SHADERC, sizeof(void *), device->driver->name,
                   device->driver->identity(device->handle), device->driver->build_options(device->handle));
    if (tuff__text_status(&key) != TUFF_OK) {
        tuff__text_free(&key);
        return TUFF_E_OOM_HOST;
    }
    cache_key entry = {"device", tuff__text_get(&key)};
    tuff_status status = TUFF_OK;
    if (!tuff__program_cache_load(entry, &record) || !decode_record(record, &device->info)) {
        status = run_probes(device);
        if (status == TUFF_OK) {
            encode_record(&device->info, bytes);
            tuff__program_cache_store(entry, (blob){bytes, sizeof bytes});
        }
    }
    if (status == TUFF_OK)
        warn_unused_matrix_units(device);
    tuff__free(record.data);
    tuff__text_free(&key);
    return status;
}
