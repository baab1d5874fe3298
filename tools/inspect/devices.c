/* tuff devices: lists every device that the drivers here offer, and the results of its self-test. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "tools/cli/options.h"
#include "tools/inspect/devices.h"
#include "tools/verbs.h"

static const char *class_name(tuff_device_class device_class)
{
    switch (device_class) {
    case TUFF_DEVICE_CPU:
        return "cpu";
    case TUFF_DEVICE_GPU_INTEGRATED:
        return "integrated";
    case TUFF_DEVICE_GPU_DISCRETE:
        return "discrete";
    case TUFF_DEVICE_REFERENCE:
        return "reference";
    case TUFF_DEVICE_OTHER:
        break;
    }
    return "other";
}

/* What is known of a device only while it is open. All are "" or false if it cannot be opened. */
typedef struct device_features {
    const char *language; /* of kernels */
    char build_options[256];
    bool upload_queue, command_buffers, pipeline_cache;
} device_features;

static device_features find_features(tuff_device *device)
{
    device_features found = {.language = tuff__device_language(device),
                             .upload_queue = tuff__device_has_upload_queue(device),
                             .command_buffers = tuff__device_has_command_buffers(device),
                             .pipeline_cache = tuff__device_has_pipeline_cache(device)};
    snprintf(found.build_options, sizeof found.build_options, "%s", tuff__device_build_options(device));
    return found;
}

/* Opens the device, which runs its self-test. If that fails the description is unchanged, and tuff_error has the
   reason. */
static bool run_self_test(tuff_device_info *info, device_features *features)
{
    tuff_device *device = tuff_device_open(info->selector);
    const bool opened = device && tuff_device_describe(device, info) == TUFF_OK;
    *features = opened ? find_features(device) : (device_features){.language = ""};
    tuff_device_close(device);
    return opened;
}

/* Writes a note about matrix units; empty if there is nothing to say. */
static void format_matrix_units(const tuff_device_info *info, char out[128])
{
    static const char *const texts[] = {[TUFF_MATRICES_ABSENT] = "",
                                        [TUFF_MATRICES_OTHER_SIZE] = "unused: no kernel for their block sizes",
                                        [TUFF_MATRICES_NO_COMPILER] =
                                            "unused: the kernel compiler does not support them (for Vulkan, "
                                            "libshaderc 2023.6 does)",
                                        [TUFF_MATRICES_WRONG] = "unused: they compute wrong products"};
    static const char *const forms[] = {
        "", ", VK_NV_cooperative_matrix", ", VK_KHR_cooperative_matrix", ", mma.sync", ", MFMA", ", WMMA", ", dpas"};
    if (info->cooperative_matrix > 0 && info->cooperative_matrix < sizeof forms / sizeof *forms)
        snprintf(out, 128, "%u x %u x %u of f16%s%s%s%s", info->matrix_shape[0], info->matrix_shape[1],
                 info->matrix_shape[2], info->matrix_bf16 ? " and bf16" : "", forms[info->cooperative_matrix],
                 info->matrix_warpgroup ? " and wgmma" : "",
                 info->matrix_group_sizes | info->matrix_group_sizes_bf16 ? " and VK_NV_cooperative_matrix2" : "");
    else
        snprintf(out, 128, "%s",
                 info->matrix_state < sizeof texts / sizeof *texts && texts[info->matrix_state]
                     ? texts[info->matrix_state]
                     : "");
}

static const char *watchdog_text(const tuff_device_info *info)
{
    return info->watchdog == TUFF_WATCHDOG_NONE      ? "none"
           : info->watchdog == TUFF_WATCHDOG_PRESENT ? "kills long kernels: work is split into short submissions"
                                                     : "unknown: work is split into short submissions";
}

/* Prints what differs between vendors and drivers. */
static void print_vendor_details(const tuff_device_info *info)
{
    if (info->max_subgroup_size > 0)
        printf("  kernels can require subgroups of %u to %u\n", info->min_subgroup_size, info->max_subgroup_size);
    char matrices[128];
    format_matrix_units(info, matrices);
    if (matrices[0])
        printf("  matrix units: %s\n", matrices);
    if (info->memory_available > 0)
        printf("  %s of the memory is free\n", BYTES_TEXT(info->memory_available));
    if (info->device_class != TUFF_DEVICE_CPU)
        printf("  watchdog: %s%s%s%s\n", watchdog_text(info),
               info->writes_directly ? "; the host writes into the device's memory" : "",
               info->local_is_global ? "; local memory is emulated in global memory" : "",
               info->units_estimated ? "; compute units estimated from the name" : "");
}

static const char *subgroups_text(const tuff_device_info *info, char *buffer, size_t size)
{
    int used = snprintf(buffer, size, "no subgroups");
    if (info->proved_subgroup_size > 0)
        used = snprintf(buffer, size, "subgroups of %u%s", info->proved_subgroup_size,
                        info->subgroup_shuffle ? " with shuffles" : "");
    if (info->exchange_form != TUFF_EXCHANGE_NONE)
        snprintf(buffer + used, size - (size_t)used, ", rows reduced in registers of %u lanes", info->exchange_lanes);
    return buffer;
}

void inspect_print_device(const tuff_device_info *info, const char *reason)
{
    printf("%-12s %s\n", info->selector, info->name);
    printf("  %s, %s; %s\n", info->api, info->driver, class_name(info->device_class));
    if (info->device_class == TUFF_DEVICE_REFERENCE)
        return;
    printf("  %u compute units, groups of %u, %s local, %s memory, %s per allocation\n", info->compute_units,
           info->max_group_size, BYTES_TEXT(info->local_memory_size), BYTES_TEXT(info->memory_size),
           BYTES_TEXT(info->max_allocation));
    printf("  %u bindings of %s, aligned to %u bytes; subgroups of %u%s%s%s\n", info->max_bindings,
           BYTES_TEXT(info->max_binding), info->offset_alignment, info->subgroup_size,
           info->half_arithmetic ? "; half arithmetic" : "", info->int64 ? "; 64-bit integers" : "",
           info->narrow_storage ? "; 8 and 16-bit storage" : "");
    print_vendor_details(info);
    if (reason)
        printf("  cannot be opened: %s\n", reason);
    else if (info->proved)
        printf("  proved: %s; barriers %s, 8 and 16-bit storage %s, NaNs kept %s, -0 kept %s, denormals %s\n",
               subgroups_text(info, (char[96]){0}, 96), info->proved_barrier ? "yes" : "no",
               info->proved_narrow_storage ? "yes" : "no", info->proved_nan ? "yes" : "no",
               info->proved_negative_zero ? "yes" : "no", info->proved_denormals ? "yes" : "no");
    else
        printf("  no self-test\n");
    if (info->loop_limit > 0)
        printf("  the driver ends loops after %u iterations: longer ones are split\n", info->loop_limit);
}

static void print_json_flag(const char *key, bool value, const char *end)
{
    printf("\"%s\": %s%s", key, value ? "true" : "false", end);
}

static void print_json_limits(const tuff_device_info *info)
{
    printf("\"vendor_id\": %u, \"device_id\": %u, ", info->vendor_id, info->device_id);
    printf("\"memory_size\": %" PRIu64 ", \"max_allocation\": %" PRIu64 ", \"max_binding\": %" PRIu64 ", ",
           info->memory_size, info->max_allocation, info->max_binding);
    printf("\"offset_alignment\": %u, \"local_memory_size\": %u, \"max_group_size\": %u, ", info->offset_alignment,
           info->local_memory_size, info->max_group_size);
    printf("\"compute_units\": %u, \"max_bindings\": %u, \"subgroup_size\": %u, \"vector_width\": %u, ",
           info->compute_units, info->max_bindings, info->subgroup_size, info->vector_width);
    print_json_flag("narrow_storage", info->narrow_storage, ", ");
    print_json_flag("half_arithmetic", info->half_arithmetic, ", ");
    print_json_flag("int64", info->int64, ", ");
}

static void print_json_vendor_details(const tuff_device_info *info)
{
    static const char *const watchdogs[] = {"unknown", "present", "none"};
    static const char *const matrices[] = {"absent", "offered", "other size", "no compiler", "wrong"};
    cli_print_json_member("watchdog", watchdogs[info->watchdog <= TUFF_WATCHDOG_NONE ? info->watchdog : 0], ", ");
    cli_print_json_member("matrix_units", matrices[info->matrix_state <= TUFF_MATRICES_WRONG ? info->matrix_state : 0],
                          ", ");
    printf("\"cooperative_matrix\": %u, \"min_subgroup_size\": %u, \"max_subgroup_size\": %u, ",
           info->cooperative_matrix, info->min_subgroup_size, info->max_subgroup_size);
    printf("\"matrix_shape\": [%u, %u, %u], \"matrix_lanes\": %u, ", info->matrix_shape[0], info->matrix_shape[1],
           info->matrix_shape[2], info->matrix_lanes);
    print_json_flag("matrix_bf16", info->matrix_bf16, ", ");
    print_json_flag("matrix_warpgroup", info->matrix_warpgroup != 0, ", ");
    printf("\"matrix_group_sizes\": %u, \"matrix_group_sizes_bf16\": %u, ", info->matrix_group_sizes,
           info->matrix_group_sizes_bf16);
    printf("\"memory_available\": %" PRIu64 ", ", info->memory_available);
    print_json_flag("units_estimated", info->units_estimated, ", ");
    print_json_flag("local_is_global", info->local_is_global, ", ");
    print_json_flag("writes_directly", info->writes_directly, ", ");
}

static void print_json_row(const tuff_device_info *info, const device_features *features, const char *reason)
{
    printf("  {");
    cli_print_json_member("selector", info->selector, ", ");
    cli_print_json_member("name", info->name, ", ");
    cli_print_json_member("driver", info->driver, ", ");
    cli_print_json_member("api", info->api, ", ");
    cli_print_json_member("class", class_name(info->device_class), ", ");
    print_json_limits(info);
    print_json_vendor_details(info);
    printf("\"loop_limit\": %u, ", info->loop_limit);
    cli_print_json_member("language", features->language, ", ");
    cli_print_json_member("build_options", features->build_options, ", ");
    print_json_flag("upload_queue", features->upload_queue, ", ");
    print_json_flag("command_buffers", features->command_buffers, ", ");
    print_json_flag("pipeline_cache", features->pipeline_cache, ", ");
    if (reason)
        cli_print_json_member("failure", reason, ", ");
    print_json_flag("opens", !reason, ", ");
    printf("\"proved\": ");
    if (info->proved) {
        printf("{\"subgroup_size\": %u, ", info->proved_subgroup_size);
        print_json_flag("barrier", info->proved_barrier, ", ");
        print_json_flag("narrow_storage", info->proved_narrow_storage, ", ");
        print_json_flag("nan", info->proved_nan, ", ");
        print_json_flag("negative_zero", info->proved_negative_zero, ", ");
        print_json_flag("denormals", info->proved_denormals, ", ");
        print_json_flag("shuffle", info->subgroup_shuffle, ", ");
        printf("\"exchange_form\": %u, \"exchange_lanes\": %u}", info->exchange_form, info->exchange_lanes);
    } else {
        printf("null");
    }
    printf("}");
}

static void print_unavailable_apis(void)
{
    static const char *const apis[] = {
#define DRIVER(name, option, api, kernels) #name,
#include "device/drivers.def"
#undef DRIVER
    };
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++)
        if (tuff_device_unavailable_reason(apis[i]))
            printf("%s: %s\n", apis[i], tuff_device_unavailable_reason(apis[i]));
}

static int devices(int count, char **arguments)
{
    bool json = false;
    const cli_option options[] = {JSON_OPTION(&json, "a list with one object per line")};
    const cli_end end = cli_parse(&verb_devices, options, 1, count, arguments, NULL);
    if (end.now)
        return end.code;
    int code = EXIT_DONE;
    fputs(json ? "[\n" : "", stdout);
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        device_features features;
        if (tuff_device_describe_at(i, &info) != TUFF_OK) {
            code = cli_fail_library(&verb_devices, "describing a device");
            break;
        }
        const char *reason = run_self_test(&info, &features) ? NULL : tuff_error();
        if (reason)
            code = EXIT_FAILED;
        if (json && i > 0)
            printf(",\n");
        if (json)
            print_json_row(&info, &features, reason);
        else
            inspect_print_device(&info, reason);
    }
    fputs(json ? "\n]\n" : "", stdout);
    if (!json) {
        print_unavailable_apis();
        printf("plans are verified before they run: %s\n", tuff__verification_is_on() ? "yes" : "no, TUFF_VERIFY is 0");
    }
    return code;
}

const cli_verb verb_devices = {
    .name = "devices",
    .summary = "Lists the available devices: driver, limits and self-test results.",
    .about =
        "The self-test runs when a device is first opened. `tuff verify --device D` checks the results of ops, "
        "`tuff verify --device D --programs 100` those of whole programs. Exits with 1 if a device cannot be opened.",
    .run = devices,
};
