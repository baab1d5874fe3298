/* Predicted rates by vendor; see the header. */
#include "tools/doctor/predict.h"

#include <ctype.h>
#include <string.h>

#include "device/device.h"
#include "device/driver.h"

#define SLOW_BELOW 0.5

/* The part of what issuing instructions allows that a real card reaches, where everything else takes its time, too. Of
   the rate of the multiply-add loop, an H200 reached 43.2 / 60.1 in matmuls of 4096 x 4096 x 4096 and 27.0 / 60.1 in
   attention of 64-wide heads, that is, 0.84 and 0.57 of the share in the table below (bench/results/nvidia-h200.md). */
#define REACHED 0.7
/* The same for matrix units: on an H100, 520 of 989 TFLOP/s in matmuls on wgmma (bench/results/nvidia-h100.md). */
#define UNITS_REACHED 0.5
/* The most that Vulkan's kernels on matrix units reach, in multiples of the rate of multiply-adds: they have neither
   wgmma nor asynchronous copies. An H100 reached 180 / 60.5 in matmuls and 43 / 60.5 in attention
   (bench/results/nvidia-h100.md). */
#define VULKAN_MATMUL 2.2
#define VULKAN_ATTENTION 0.7
/* One row times a matrix: an H200 reached 0.90 of the copy's bytes per second in OpenCL and 0.74 in Vulkan. */
#define ROW_REACHED 0.75

/* The part of its peak that the loop of multiply-adds gets on gfx11 and gfx12 through LLVM, which pairs those of
   matmuls but not the loop's: their addend is no sum. On gfx90a and gfx942 it packs both. */
#define LOOP_UNPAIRED 0.5

/* Shares of the vector units' peak. */
typedef struct vector_shares {
    double matmul, matmul_f16, matmul_bf16, attention, attention_f16;
    double reached;
} vector_shares;

/* GPUs: column "issue" of bench/results/vendor-compilers.md, rows matmul_{f32,f16,bf16}_nn and attention_64,
   attention_f16_64; of a vendor's targets the lowest. NVIDIA: sm_90, like which sm_86 and sm_89 issue; sm_80 has slots
   to spare. RDNA: gfx1100 through LLVM; ACO pairs nothing there, so that its 47 % and 44 % are as much of the loop of
   multiply-adds that is measured. Other vendors get the lowest of all. CPUs have no such counts: these are shares
   that PoCL, Intel's runtime, lavapipe and SwiftShader reach even on a machine with other work. On one without, PoCL
   reaches 1.2 and 0.6 (bench/results/pocl-epyc.md). */
static const vector_shares nvidia = {0.86, 0.85, 0.84, 0.79, 0.78, REACHED},
                           rdna = {0.91, 0.88, 0.89, 0.78, 0.77, REACHED},
                           cdna = {0.89, 0.86, 0.86, 0.77, 0.76, REACHED},
                           intel = {0.97, 0.95, 0.97, 0.92, 0.90, REACHED},
                           other_gpu = {0.86, 0.85, 0.84, 0.77, 0.76, REACHED},
                           cpu_opencl = {0.50, 0.40, 0.40, 0.25, 0.20, 1},
                           cpu_vulkan = {0.25, 0.20, 0.20, 0.20, 0.16, 1};

/* Matrix units. peak: published rate for f16 factors and f32 sums, without sparsity, over that of f32 vectors. matmul,
   attention: the share of that rate that the loop allows, from the counts of units_*_nn and units_attention_64 in
   bench/results/vendor-compilers.md. Column "issue" there counts a matrix instruction as one multiply-add; here it
   takes the cycles that follow from the published rate. On NVIDIA's and Intel's GPUs the other instructions run
   beside it, and take fewer cycles: 78 instructions beside 2 x 64 cycles (sm_90a), 140 beside 64 x 8 (sm_80), 48 beside
   64 x 16 (dg2). On AMD's they come on top: 16 x 32 / (16 x 32 + 34) on gfx1100, 16 x 32 / (16 x 32 + 17 x 4) on
   gfx942, where few waves fit; in attention 32 x 32 / (32 x 32 + 772) and 32 x 32 / (32 x 32 + 800 x 4). Intel's
   attention is limited by 2.7 reads of local memory for each matrix instruction. NVIDIA's is on mma.sync and reached
   167 of 989 TFLOP/s on an H100. */
typedef struct unit_shares {
    uint32_t vendor;  /* 0: any */
    const char *name; /* a word of the device's name; NULL: any */
    uint32_t form;    /* a tuff_matrix_units; 0: any */
    int warpgroup;    /* -1: any */
    double peak, matmul, attention;
} unit_shares;

/* The first row that fits counts; of several cards it has the lowest. In TFLOP/s, NVIDIA: 989 / 67 (H100, H200, where
   mma.sync gets at 579 of the 989), 312 / 19.5 (A100); the other cards have smaller units, GeForces the smallest: 165 /
   82.6 (4090), 71 / 35.6 (3090), for which an mma.sync takes 32 cycles. AMD: 122.8 / 61.4 (7900 XTX), 195 / 48.7
   (9070 XT), 1307 / 163.4 (MI300X), 383 / 47.9 (MI250X). Intel: 137.6 / 17.2 (A770), 839 / 52.4 (Max 1550). */
static const unit_shares units[] = {
    {VENDOR_NVIDIA, "H100", 0, 1, 14.8, 1.00, 0.34},
    {VENDOR_NVIDIA, "H200", 0, 1, 14.8, 1.00, 0.34},
    {VENDOR_NVIDIA, "H100", 0, 0, 14.8, 0.59, 0.34},
    {VENDOR_NVIDIA, "H200", 0, 0, 14.8, 0.59, 0.34},
    {VENDOR_NVIDIA, "A100", 0, -1, 16, 1.00, 0.34},
    {VENDOR_NVIDIA, NULL, 0, -1, 2, 1.00, 0.95},
    {VENDOR_AMD, NULL, TUFF_MATRIX_MFMA, -1, 8, 0.88, 0.24},
    {VENDOR_AMD, NULL, 0, -1, 2, 0.94, 0.57},
    {VENDOR_INTEL, NULL, 0, -1, 8, 1.00, 0.30},
    {0, NULL, 0, -1, 2, 0.88, 0.24},
};

/* Whether a name contains a word, which may follow other letters (GH200), but ends with it: an RTX A1000 is no A100. */
static bool has_word(const char *name, const char *word)
{
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
        if (!isalnum((unsigned char)at[strlen(word)]))
            return true;
    return false;
}

static bool is_vulkan(const tuff_device_info *info)
{
    return strncmp(info->api, "Vulkan", 6) == 0;
}

/* AMD's accelerators and the cards before RDNA, which have 64 lanes in OpenCL; their names in Vulkan are those sold. */
static bool is_cdna(const tuff_device_info *info)
{
    return info->cooperative_matrix == TUFF_MATRIX_MFMA || strncmp(info->name, "gfx9", 4) == 0 ||
           strstr(info->name, "Instinct") != NULL;
}

static double loop_share(const tuff_device_info *info)
{
    const bool is_paired = info->vendor_id == VENDOR_AMD && !is_vulkan(info) &&
                           (strncmp(info->name, "gfx11", 5) == 0 || strncmp(info->name, "gfx12", 5) == 0);
    return is_paired ? LOOP_UNPAIRED : 1;
}

static const vector_shares *vector_shares_for(const tuff_device_info *info)
{
    if (info->device_class == TUFF_DEVICE_CPU)
        return is_vulkan(info) ? &cpu_vulkan : &cpu_opencl;
    switch (info->vendor_id) {
    case VENDOR_NVIDIA:
        return &nvidia;
    case VENDOR_AMD:
        return is_cdna(info) ? &cdna : &rdna;
    case VENDOR_INTEL:
        return &intel;
    default:
        return &other_gpu;
    }
}

static const unit_shares *unit_shares_for(const tuff_device_info *info)
{
    const unit_shares *row = units;
    while ((row->vendor && row->vendor != info->vendor_id) || (row->name && !has_word(info->name, row->name)) ||
           (row->form && row->form != info->cooperative_matrix) ||
           (row->warpgroup >= 0 && row->warpgroup != (info->matrix_warpgroup != 0)))
        row++;
    return row; /* the last row fits all */
}

doctor_prediction doctor_predict(const tuff_device_info *info)
{
    const vector_shares *vector = vector_shares_for(info);
    const double f32_matmul = vector->matmul * vector->reached, f32_attention = vector->attention * vector->reached;
    doctor_prediction out = {.matmul = f32_matmul / loop_share(info),
                             .attention = f32_attention / loop_share(info),
                             .matmul_f16 = vector->matmul_f16 / vector->matmul,
                             .matmul_bf16 = vector->matmul_bf16 / vector->matmul,
                             .attention_f16 = vector->attention_f16 / vector->attention,
                             .row = ROW_REACHED};
    if (info->cooperative_matrix == TUFF_MATRIX_NONE)
        return out;
    const unit_shares *row = unit_shares_for(info);
    double matmul = row->peak * row->matmul * UNITS_REACHED, attention = row->peak * row->attention * UNITS_REACHED;
    if (is_vulkan(info)) {
        matmul = matmul < VULKAN_MATMUL ? matmul : VULKAN_MATMUL;
        attention = attention < VULKAN_ATTENTION ? attention : VULKAN_ATTENTION;
    }
    out.matmul_f16 = matmul / f32_matmul;
    if (info->matrix_bf16)
        out.matmul_bf16 = matmul / f32_matmul;
    out.attention_f16 = attention / f32_attention;
    return out;
}

bool doctor_has_16_bits(const tuff_device_info *info)
{
    return info->cooperative_matrix != TUFF_MATRIX_NONE || info->half_arithmetic;
}

doctor_verdict doctor_judge(double measured, double predicted)
{
    if (!(measured > 0) || !(predicted > 0))
        return DOCTOR_UNKNOWN;
    return measured < SLOW_BELOW * predicted ? DOCTOR_SLOW : DOCTOR_AS_PREDICTED;
}
