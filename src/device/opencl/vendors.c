/* What vendors' drivers report beyond OpenCL 1.2, and what they must be given: widths of subgroups, where spills go,
   the version of OpenCL C, how many groups a launch may have, how long a launch may take, buffers larger than 4 GiB. */
#include "device/opencl/api.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Queries from vendors' extensions (cl_ext.h). */
enum {
    COMPUTE_CAPABILITY_NV = 0x4000, /* the major number */
    COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
    WARP_SIZE_NV = 0x4003,
    KERNEL_EXEC_TIMEOUT_NV = 0x4005,
    BOARD_NAME_AMD = 0x4038,
    WAVEFRONT_WIDTH_AMD = 0x4043,
    SUBGROUP_SIZES_INTEL = 0x4108,
    SPILL_MEM_SIZE_INTEL = 0x4109
};

/* Lanes that read each other's registers where kernels choose the width of their subgroups. In wider ones Intel's
   compiler has fewer registers for a lane, and spills. probes.h has the same number. */
enum { EXCHANGE_LANES = 16 };

bool tuff__cl_has_extension(const char *extensions, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(extensions, name); at; at = strstr(at + 1, name))
        if ((at == extensions || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

/* Lists the subgroup widths that Intel's compiler accepts; unused entries are 0. */
static void list_subgroup_sizes(cl_device_id id, const char *extensions, size_t sizes[SUBGROUP_SIZES])
{
    memset(sizes, 0, SUBGROUP_SIZES * sizeof *sizes);
    if (tuff__cl_has_extension(extensions, "cl_intel_required_subgroup_size") &&
        tuff__cl.GetDeviceInfo(id, SUBGROUP_SIZES_INTEL, SUBGROUP_SIZES * sizeof *sizes, sizes, NULL) != CL_SUCCESS)
        memset(sizes, 0, SUBGROUP_SIZES * sizeof *sizes);
}

static uint32_t clamp_width(size_t size)
{
    return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

/* Returns the width that a vendor's query reports, or the largest of the list (Intel). */
static uint32_t subgroup_size(cl_device_id id, const char *extensions, const tuff_device_info *info)
{
    cl_uint width = 0;
    if (tuff__cl_has_extension(extensions, "cl_nv_device_attribute_query") &&
        tuff__cl.GetDeviceInfo(id, WARP_SIZE_NV, sizeof width, &width, NULL) == CL_SUCCESS)
        return width;
    if (tuff__cl_has_extension(extensions, "cl_amd_device_attribute_query") &&
        tuff__cl.GetDeviceInfo(id, WAVEFRONT_WIDTH_AMD, sizeof width, &width, NULL) == CL_SUCCESS)
        return width;
    return info->max_subgroup_size;
}

/* NVIDIA's drivers end kernels after some seconds if the card also drives a display, and report whether they do. */
static uint32_t find_watchdog(cl_device_id id, const char *extensions, cl_device_type type)
{
    cl_bool ends = CL_FALSE;
    if (type & CL_DEVICE_TYPE_CPU)
        return TUFF_WATCHDOG_NONE;
    if (tuff__cl_has_extension(extensions, "cl_nv_device_attribute_query") &&
        tuff__cl.GetDeviceInfo(id, KERNEL_EXEC_TIMEOUT_NV, sizeof ends, &ends, NULL) == CL_SUCCESS)
        return ends ? TUFF_WATCHDOG_PRESENT : TUFF_WATCHDOG_NONE;
    return TUFF_WATCHDOG_UNKNOWN;
}

static bool reports_free_memory(const char *extensions, cl_device_type type)
{
    return (type & CL_DEVICE_TYPE_GPU) && tuff__cl_has_extension(extensions, "cl_amd_device_attribute_query");
}

/* ROCm does not report that a processor's own graphics shares memory with the host. Its board names have no number,
   unlike those of cards. */
static bool is_part_of_processor(cl_device_id id, const char *extensions)
{
    char board[128] = "";
    if (!tuff__cl_has_extension(extensions, "cl_amd_device_attribute_query") ||
        tuff__cl_device_text(id, BOARD_NAME_AMD, board, sizeof board) != TUFF_OK)
        return false;
    return strcmp(board, "AMD Radeon Graphics") == 0 || strcmp(board, "AMD Radeon(TM) Graphics") == 0;
}

/* AMD's RDNA 3 and 4 chips have WMMA, with different builtins, which the kernel texts select; CDNA chips have MFMA. No
   other chip may claim either: what the compiler does not know is reported to users as unused matrix units. */
static uint32_t find_amd_form(const tuff_device_info *info)
{
    static const char *const wmma[] = {"gfx11", "gfx12"}, *const mfma[] = {"gfx908", "gfx90a", "gfx94", "gfx95"};
    for (size_t i = 0; i < sizeof wmma / sizeof wmma[0]; i++)
        if (strncmp(info->name, wmma[i], strlen(wmma[i])) == 0 && info->subgroup_size == 32)
            return TUFF_MATRIX_WMMA;
    for (size_t i = 0; i < sizeof mfma / sizeof mfma[0]; i++)
        if (strncmp(info->name, mfma[i], strlen(mfma[i])) == 0 && info->subgroup_size == 64)
            return TUFF_MATRIX_MFMA;
    return TUFF_MATRIX_NONE;
}

/* Claims the matrix units that OpenCL C may reach here, which the self-test must prove: NVIDIA's from compute
   capability 8.0 on, through PTX, and those of 9.0 also by warpgroups; AMD's by the chip; Intel's by their extension,
   with the narrowest subgroups. CPU compilers have none. */
static void claim_matrices(cl_device_id id, const char *extensions, tuff_device_info *info)
{
    static const uint32_t shapes[][3] = {[TUFF_MATRIX_NVIDIA] = {16, 16, 16},
                                         [TUFF_MATRIX_MFMA] = {32, 32, 16},
                                         [TUFF_MATRIX_WMMA] = {16, 16, 16},
                                         [TUFF_MATRIX_INTEL] = {8, 0, 16}};
    cl_uint major = 0, minor = 0, form = TUFF_MATRIX_NONE;
    if (info->device_class == TUFF_DEVICE_CPU)
        return;
    if (tuff__cl_has_extension(extensions, "cl_nv_device_attribute_query") &&
        tuff__cl.GetDeviceInfo(id, COMPUTE_CAPABILITY_NV, sizeof major, &major, NULL) == CL_SUCCESS && major >= 8)
        form = TUFF_MATRIX_NVIDIA;
    else if (tuff__cl_has_extension(extensions, "cl_amd_device_attribute_query"))
        form = find_amd_form(info);
    else if (tuff__cl_has_extension(extensions, "cl_intel_subgroup_matrix_multiply_accumulate") &&
             (info->min_subgroup_size == 8 || info->min_subgroup_size == 16))
        form = TUFF_MATRIX_INTEL;
    if (form == TUFF_MATRIX_NONE)
        return;
    info->matrix_warpgroup =
        major == 9 &&
        tuff__cl.GetDeviceInfo(id, COMPUTE_CAPABILITY_MINOR_NV, sizeof minor, &minor, NULL) == CL_SUCCESS && minor == 0;
    info->cooperative_matrix = form;
    info->matrix_state = TUFF_MATRICES_OFFERED;
    info->matrix_bf16 = strncmp(info->name, "gfx908", 6) != 0; /* has other builtins for bf16 */
    memcpy(info->matrix_shape, shapes[form], sizeof info->matrix_shape);
    info->matrix_lanes = form == TUFF_MATRIX_MFMA ? 64 : 32;
    if (form == TUFF_MATRIX_INTEL)
        info->matrix_shape[1] = info->matrix_lanes = info->min_subgroup_size;
}

/* Returns how the lanes of a subgroup may read each other's registers here, which the self-test must prove. NVIDIA's
   and AMD's drivers lack cl_khr_subgroup_shuffle, but their compilers take the instructions. Where that extension is
   used, the compiler chooses the width of each kernel, so that kernels must be able to require one. */
static uint32_t find_exchange_form(const char *extensions, const tuff_device_info *info)
{
    const bool is_gpu = info->device_class != TUFF_DEVICE_CPU;
    if (is_gpu && info->subgroup_size == 32 && tuff__cl_has_extension(extensions, "cl_nv_device_attribute_query"))
        return TUFF_EXCHANGE_NVIDIA;
    if (is_gpu && (info->subgroup_size == 32 || info->subgroup_size == 64) &&
        tuff__cl_has_extension(extensions, "cl_amd_device_attribute_query"))
        return TUFF_EXCHANGE_AMD;
    return info->subgroup_shuffle && info->min_subgroup_size > 0 && info->min_subgroup_size <= EXCHANGE_LANES &&
                   info->max_subgroup_size >= EXCHANGE_LANES
               ? TUFF_EXCHANGE_KHR
               : TUFF_EXCHANGE_NONE;
}

tuff_status tuff__cl_describe_vendor(cl_device_id id, tuff_device_info *info)
{
    char profile[32] = "";
    size_t sizes[SUBGROUP_SIZES];
    cl_device_type type = 0;
    cl_uint local_type = 0;
    TRY(tuff__cl_device_text(id, CL_DEVICE_PROFILE, profile, sizeof profile));
    TRY(tuff__cl_device_value(id, CL_DEVICE_TYPE, &type, sizeof type));
    TRY(tuff__cl_device_value(id, CL_DEVICE_LOCAL_MEM_TYPE, &local_type, sizeof local_type));
    char *extensions = tuff__cl_read_extensions(id);
    if (!extensions)
        return tuff_last_status();
    list_subgroup_sizes(id, extensions, sizes);
    for (int i = 0; i < SUBGROUP_SIZES; i++) {
        const uint32_t width = clamp_width(sizes[i]);
        if (width > info->max_subgroup_size)
            info->max_subgroup_size = width;
        if (width > 0 && (info->min_subgroup_size == 0 || width < info->min_subgroup_size))
            info->min_subgroup_size = width;
    }
    /* Stores of single bytes are core since OpenCL 1.1. */
    info->narrow_storage = true;
    info->half_arithmetic = tuff__cl_has_extension(extensions, "cl_khr_fp16");
    info->int64 = strcmp(profile, "FULL_PROFILE") == 0 || tuff__cl_has_extension(extensions, "cles_khr_int64");
    info->subgroup_size = subgroup_size(id, extensions, info);
    info->subgroup_shuffle = info->subgroup_size > 0 && tuff__cl_has_extension(extensions, "cl_khr_subgroup_shuffle");
    info->exchange_form = find_exchange_form(extensions, info);
    info->exchange_lanes = info->exchange_form == TUFF_EXCHANGE_NONE  ? 0
                           : info->exchange_form == TUFF_EXCHANGE_KHR ? EXCHANGE_LANES
                                                                      : info->subgroup_size;
    info->watchdog = find_watchdog(id, extensions, type);
    info->memory_available = reports_free_memory(extensions, type) ? tuff__cl_free_memory(id).all : 0;
    info->local_is_global = local_type == CL_GLOBAL && info->device_class != TUFF_DEVICE_CPU;
    if (info->device_class == TUFF_DEVICE_GPU_DISCRETE && is_part_of_processor(id, extensions))
        info->device_class = TUFF_DEVICE_GPU_INTEGRATED;
    claim_matrices(id, extensions, info);
    tuff__free(extensions);
    return TUFF_OK;
}

/* Returns the kernel query for the memory that holds what does not fit into registers. On a CPU that is all private
   memory, on purpose, which lies in the caches. Intel's GPUs report spills separately
   (cl_intel_required_subgroup_size). On others it is an item's private memory, which their compilers avoid if there are
   enough registers. */
static cl_kernel_work_group_info find_spill_query(cl_device_type type, const char *extensions)
{
    if (type & CL_DEVICE_TYPE_CPU)
        return 0;
    return tuff__cl_has_extension(extensions, "cl_intel_required_subgroup_size") ? SPILL_MEM_SIZE_INTEL
                                                                                 : CL_KERNEL_PRIVATE_MEM_SIZE;
}

/* Returns the option for the version of OpenCL C. Compilers know 1.2 best, but those built on clang hide the functions
   of cl_khr_subgroups below 2.0; Intel's has them in 1.2, and NVIDIA's has none. */
static const char *choose_language(cl_device_id id, cl_device_type type, cl_uint vendor, const char *extensions)
{
    char version[128] = "";
    int major = 0, minor = 0;
    if (!(type & CL_DEVICE_TYPE_GPU) || vendor == VENDOR_INTEL ||
        !tuff__cl_has_extension(extensions, "cl_khr_subgroups") ||
        tuff__cl_device_text(id, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version) != TUFF_OK ||
        sscanf(version, "OpenCL C %d.%d", &major, &minor) != 2)
        return "-cl-std=CL1.2";
    return major >= 3 ? "-cl-std=CL3.0" : major == 2 ? "-cl-std=CL2.0" : "-cl-std=CL1.2";
}

static bool divides_exactly(cl_device_id id)
{
    cl_device_fp_config single = 0;
    return tuff__cl.GetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL) == CL_SUCCESS &&
           (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
}

/* Never includes an option that lets the compiler change results, such as the fast-math ones. If a GPU's subgroup size
   can be chosen, the narrowest leaves each lane the most registers: cl/prelude.cl uses it for kernels that keep many
   sums. */
static void write_build_options(driver_device *device, cl_device_type type, const char *language)
{
    const size_t *sizes = device->subgroup_sizes;
    size_t least = 0;
    for (int i = 0; i < SUBGROUP_SIZES; i++)
        if (sizes[i] > 0 && (least == 0 || sizes[i] < least))
            least = sizes[i];
    const size_t room = sizeof device->build_options;
    size_t length = (size_t)snprintf(device->build_options, room, "%s", language);
    /* NVIDIA's compiler prints a count of its warnings to stderr. */
    if (type & CL_DEVICE_TYPE_GPU)
        length += (size_t)snprintf(device->build_options + length, room - length, " -w");
    /* Without it, x / x need not be 1 on GPUs, and a floored quotient may be one too small. */
    if ((type & CL_DEVICE_TYPE_GPU) && divides_exactly(device->id))
        length +=
            (size_t)snprintf(device->build_options + length, room - length, " -cl-fp32-correctly-rounded-divide-sqrt");
    if (least > 0 && (type & CL_DEVICE_TYPE_GPU))
        length += (size_t)snprintf(device->build_options + length, room - length, " -DNARROWEST_SUBGROUP=%zu", least);
    /* Oclgrind takes the wrong side in selects with vector conditions, which optimization generates. */
    if (!tuff__driver_optimizer_is_on() || strstr(device->identity, "Oclgrind"))
        snprintf(device->build_options + length, room - length, " -cl-opt-disable");
}

/* Intel's and Qualcomm's GPUs take 65,535 groups per launch; elsewhere global sizes may have less than 32 bits. */
static cl_ulong find_group_limit(cl_device_type type, cl_uint vendor)
{
    const bool unlimited = !(type & CL_DEVICE_TYPE_GPU) || vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD;
    return tuff__cl_group_limit > 0 ? tuff__cl_group_limit : unlimited ? 1u << 20 : 65535;
}

bool tuff__cl_has_larger_buffers(cl_device_id id)
{
    cl_device_type type = 0;
    cl_uint vendor = 0;
    return tuff__cl.GetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL) == CL_SUCCESS &&
           tuff__cl.GetDeviceInfo(id, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL) == CL_SUCCESS &&
           (type & CL_DEVICE_TYPE_GPU) && vendor == VENDOR_INTEL;
}

tuff_status tuff__cl_prepare_vendor(driver_device *device)
{
    cl_device_type type = 0;
    cl_uint vendor = 0;
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_TYPE, &type, sizeof type));
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor));
    TRY(tuff__cl_device_value(device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &device->plain_allocation,
                              sizeof device->plain_allocation));
    char *extensions = tuff__cl_read_extensions(device->id);
    if (!extensions)
        return tuff_last_status();
    device->is_cpu = type & CL_DEVICE_TYPE_CPU;
    device->reports_free_memory = reports_free_memory(extensions, type);
    list_subgroup_sizes(device->id, extensions, device->subgroup_sizes);
    device->spill_query = find_spill_query(type, extensions);
    write_build_options(device, type, choose_language(device->id, type, vendor, extensions));
    device->doubles_registers = strstr(device->build_options, "NARROWEST_SUBGROUP");
    device->limits_registers =
        (type & CL_DEVICE_TYPE_GPU) && tuff__cl_has_extension(extensions, "cl_nv_compiler_options");
    tuff__cl_declare_builtins(device);
    tuff__predictor_init(&device->predictor, find_watchdog(device->id, extensions, type) != TUFF_WATCHDOG_NONE);
    tuff__free(extensions);
    device->has_larger_buffers = tuff__cl_has_larger_buffers(device->id);
    device->group_limit = find_group_limit(type, vendor);
    /* NVIDIA's driver reports 16 bytes more local memory than a kernel has, or the padding of its alignment; kernels of
       48 KiB run nevertheless. */
    device->makes_ptx = vendor == VENDOR_NVIDIA && (type & CL_DEVICE_TYPE_GPU);
    device->local_overhead = device->makes_ptx ? 1024 : 0;
    return TUFF_OK;
}
