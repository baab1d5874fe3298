#include "compile/foresee.h"

/* An average processor. CPU: registers for vectors, of those with 16 lanes too; items that are lanes of one vector
   behind Vulkan; cycles that a group takes to begin. GPU: registers of a lane, lanes at work in a compute unit, lanes
   and groups that it keeps, and lanes that hide how long loads take. Both: bytes from memory in a cycle. */
enum { CPU_REGISTERS = 16, WIDE_REGISTERS = 32, CPU_ITEMS = 8, GROUP_START = 400 };
enum { GPU_REGISTERS = 128, GPU_LANES = 128, GPU_RESIDENT = 2048, GPU_GROUPS = 32, GPU_HIDES = 512 };
enum { BYTES_A_CYCLE = 8 };

void tuff__foresee_sums(launch *of, int64_t rows, int64_t columns, double terms)
{
    of->tile_rows = (int)rows;
    of->tile_columns = (int)columns;
    of->terms = terms;
}

static bool is_cpu(const lowered *with)
{
    return tuff__device_info(with->device)->device_class == TUFF_DEVICE_CPU;
}

/* Of a term of a tile: two multiply-adds and two loads begin in each cycle, what has no register is loaded and stored,
   and four cycles lie between an operand and its result. */
static double cycles_of_term(const lowered *with, const launch *of)
{
    const int lanes = (int)tuff__device_info(with->device)->vector_width;
    const bool splits = is_cpu(with) && !tuff__is_vulkan(with) && lanes > 0 && of->vec > lanes;
    const int registers = !is_cpu(with) ? GPU_REGISTERS : lanes >= 16 ? WIDE_REGISTERS : CPU_REGISTERS;
    const double columns = (double)of->tile_columns * (splits ? of->vec / lanes : 1), sums = of->tile_rows * columns;
    const double spilled = sums + columns + 1 - registers;
    const double loads = of->tile_rows + columns + (spilled > 0 ? 2 * spilled : 0);
    const double most = (sums > loads ? sums : loads) / 2;
    return (most > 4 ? most : 4) + 0.5;
}

static double elements_of(const fused_chain *chain)
{
    double elements = 1;
    for (int i = 0; i < chain->rank; ++i)
        elements *= (double)chain->extent[i];
    return elements;
}

static double cycles_of_item(const lowered *with, const launch *of)
{
    if (of->tile_rows > 0)
        return of->terms * cycles_of_term(with, of);
    const double work = of->operations > 0 ? of->operations / 2 : elements_of(&of->chain) * of->chain.value_count;
    return work / (double)of->groups / of->local_size / of->vec;
}

static double least_of(double a, double b)
{
    return a < b ? a : b;
}

/* Groups of a launch that a compute unit of a GPU keeps. */
static double resident_groups(const lowered *with, const launch *of)
{
    const double by_lanes = least_of((double)GPU_RESIDENT / of->local_size, GPU_GROUPS);
    const double room = (double)tuff__device_info(with->device)->local_memory_size;
    const double fitting = of->local_bytes > 0 ? least_of(by_lanes, room / of->local_bytes) : by_lanes;
    return fitting < 1 ? 1 : (double)(int)fitting;
}

/* Of as many groups as a compute unit works on at once. */
static double cycles_of_wave(const lowered *with, const launch *of, double resident)
{
    const double item = cycles_of_item(with, of);
    if (is_cpu(with))
        return item * (double)tuff__divide_up(of->local_size, tuff__is_vulkan(with) ? CPU_ITEMS : 1) + GROUP_START;
    const double lanes = resident * of->local_size;
    return item * lanes / GPU_LANES / least_of(1, lanes / GPU_HIDES);
}

static double bytes_of(const lowered *with, const fused_chain *chain)
{
    double bytes = 0;
    for (int i = 0; i < chain->buffer_count; ++i)
        bytes += (double)tuff__buffer_size(&with->buffers[chain->buffers[i].id]);
    return bytes;
}

/* Whole waves, or what memory takes: the longer of the two. */
static double cost_of(const lowered *with, const launch *of)
{
    const uint32_t units = tuff__device_info(with->device)->compute_units;
    const double resident = is_cpu(with) ? 1 : resident_groups(with, of);
    const int64_t slots = (int64_t)((units > 0 ? units : 1) * resident);
    const double work = (double)tuff__divide_up((int64_t)of->groups, slots) * cycles_of_wave(with, of, resident);
    const double memory = bytes_of(with, &of->chain) / BYTES_A_CYCLE;
    return work > memory ? work : memory;
}

double tuff__foresee_cost(const lowered *of)
{
    double sum = 0;
    for (int i = 0; i < of->launch_count; ++i) {
        const launch *one = &of->launches[i];
        if (one->kind == LAUNCH_PRODUCT)
            return 0;
        if (one->kind == LAUNCH_KERNEL && !one->setup && one->groups > 0)
            sum += cost_of(of, one);
    }
    return sum;
}
