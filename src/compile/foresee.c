#include "compile/foresee.h"

/* Average processors. CPU: registers for vectors, of those with 16 lanes too; items that are lanes of one vector behind
   Vulkan; cycles that a group takes to begin; bytes from memory in a cycle. */
enum { CPU_REGISTERS = 16, WIDE_REGISTERS = 32, CPU_ITEMS = 8, GROUP_START = 400, CPU_BYTES = 8 };
/* GPU: registers of a lane for sums and operands; of a compute unit the lanes at work, those and the groups that it
   keeps, the sums that hide how long loads take, up to four a lane, and bytes in a cycle from memory and caches. */
enum { GPU_REGISTERS = 128, GPU_LANES = 128, GPU_RESIDENT = 2048, GPU_GROUPS = 32, GPU_HIDES = 1024, GPU_SUMS = 4 };
enum { GPU_BYTES = 12, GPU_CACHE_BYTES = 32 };

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

static double least_of(double a, double b)
{
    return a < b ? a : b;
}

static double most_of(double a, double b)
{
    return a > b ? a : b;
}

/* Of a tile for one term: of sums that have no register, too, which are stored again. */
static double loads_of(double rows, double columns, int registers)
{
    return rows + columns + 2 * most_of(0, rows * columns + columns + 1 - registers);
}

/* Of a term of a tile. CPU: two multiply-adds and two loads begin in each cycle, and four lie between an operand and
   its result. GPU: a load from local memory takes as long as two multiply-adds. */
static double cycles_of_term(const lowered *with, const launch *of)
{
    const double rows = of->tile_rows;
    if (!is_cpu(with))
        return most_of(rows * of->tile_columns, 2 * loads_of(rows, of->tile_columns, GPU_REGISTERS));
    const int lanes = (int)tuff__device_info(with->device)->vector_width;
    const double columns = of->tile_columns * tuff__vector_registers(with, of->vec);
    const double loads = loads_of(rows, columns, lanes >= 16 ? WIDE_REGISTERS : CPU_REGISTERS);
    return most_of(most_of(rows * columns, loads) / 2, 4) + 0.5;
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

/* Groups of a launch that a compute unit of a GPU keeps, of those that it gets. */
static double resident_groups(const lowered *with, const launch *of, int64_t units)
{
    const double room = (double)tuff__device_info(with->device)->local_memory_size;
    double most = least_of((double)GPU_RESIDENT / of->local_size, GPU_GROUPS);
    most = least_of(most, (double)tuff__divide_up((int64_t)of->groups, units));
    most = of->local_bytes > 0 ? least_of(most, room / of->local_bytes) : most;
    return most < 1 ? 1 : (double)(int)most;
}

/* Of as many groups as a compute unit works on at once. */
static double cycles_of_wave(const lowered *with, const launch *of, double resident)
{
    const double item = cycles_of_item(with, of);
    if (is_cpu(with))
        return item * (double)tuff__divide_up(of->local_size, tuff__is_vulkan(with) ? CPU_ITEMS : 1) + GROUP_START;
    const double lanes = resident * of->local_size, sums = of->tile_rows * of->tile_columns;
    const double hidden = lanes * most_of(1, least_of(sums, GPU_SUMS)) / GPU_HIDES;
    return item * lanes / GPU_LANES / least_of(1, hidden);
}

static double bytes_of(const lowered *with, const fused_chain *chain)
{
    double bytes = 0;
    for (int i = 0; i < chain->buffer_count; ++i)
        bytes += (double)tuff__buffer_size(&with->buffers[chain->buffers[i].id]);
    return bytes;
}

/* Whole waves, or what memory or the caches take: the longest of them. */
static double cost_of(const lowered *with, const launch *of)
{
    const uint32_t told = tuff__device_info(with->device)->compute_units;
    const int64_t units = told > 0 ? told : 1;
    const double resident = is_cpu(with) ? 1 : resident_groups(with, of, units);
    const int64_t waves = tuff__divide_up((int64_t)of->groups, units * (int64_t)resident);
    const double work = (double)waves * cycles_of_wave(with, of, resident);
    const double bytes = bytes_of(with, &of->chain);
    if (is_cpu(with))
        return most_of(work, bytes / CPU_BYTES);
    return most_of(work, most_of(bytes / GPU_BYTES, of->traffic / GPU_CACHE_BYTES) / (double)units);
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
