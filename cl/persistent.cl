// A persistent kernel: its groups, at most one for each core, run the groups of a list of launches. In front of this
// text are ROW_SIZE, BUFFER_PARAMETERS, BUFFERS, and the function `run`, which calls a launch's kernel for one of its
// groups (src/exec/persistent.c).
// The groups of all launches are numbered through. A row of the list describes a launch:
// FUNCTION: its kernel
// BEGIN, END: its groups
// NEEDED: how many of all groups must be done before it: those up to the last launch that it depends on
// PARAMETERS: the beginning of its parameters
// then an index into BUFFERS for each of its buffers.
#define NEXT counters[0]
#define DONE counters[32]
#define LEFT counters[64]
#define GAVE_UP counters[96]
#define HALVINGS counters[97]

// A group of the persistent kernel waits only for others that have begun, and it has then nothing in hand that these
// could wait for. One of them may lose its core to another thread for a few milliseconds, which is worth waiting for: a
// group that gives up ends, and fewer groups run what is left of the list. But if there are fewer cores than groups, a
// group that waits may hold the core that the other one needs. So waits beyond a short one are limited: to LONG_WAITS
// in a dispatch, to an eighth of that, and less, after dispatches in which a group gave up, and to twice as much after
// each other one. Where an x86 processor pauses for 140 cycles, a short wait is about a millisecond, and LONG_WAITS are
// about ten.
#ifdef __has_builtin
#if __has_builtin(__builtin_ia32_pause)
#define PAUSE() __builtin_ia32_pause()
#define SHORT_WAIT 20000u
#define LONG_WAITS 200000u
#endif
#endif
#ifndef PAUSE
#define PAUSE()
#define SHORT_WAIT 600000u
#define LONG_WAITS 6000000u
#endif
#define MOST_HALVINGS 6u

// What follows must not be read before DONE. x86 reads in order; elsewhere an atomic operation is also a barrier, which
// mem_fence need not be between groups.
#if defined(__aarch64__) || defined(__arm__) || defined(__riscv) || defined(__powerpc__)
#define ORDER_READS(counter) ((void)atomic_add(&(counter), 0u))
#else
#define ORDER_READS(counter)
#endif

static int wait_for(volatile __global uint *counters, uint needed, __private uint *long_waits)
{
    for (uint waits = 0; DONE < needed; ++waits) {
        if (waits >= SHORT_WAIT && ++*long_waits > LONG_WAITS >> HALVINGS) {
            GAVE_UP = 1;
            return 0;
        }
        PAUSE();
    }
    ORDER_READS(DONE);
    return 1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tuff_persistent(__global const int *p, __global const int *rows, volatile __global uint *counters,
    BUFFER_PARAMETERS uint first_row, uint row_count, uint group_base)
{
    __global void *const buffers[] = {BUFFERS};
    const uint workers = (uint)get_num_groups(0);
    __global const int *row = rows + first_row * ROW_SIZE;
    const uint end = (uint)row[(row_count - 1) * ROW_SIZE + END];
    uint long_waits = 0;
    for (;;) {
        const uint next = NEXT;
        if (next >= end)
            break;
        while (next >= (uint)row[END])
            row += ROW_SIZE;
        if (!wait_for(counters, (uint)row[NEEDED], &long_waits))
            break;
        const uint taken = max(1u, ((uint)row[END] - next) / (2 * workers));
        if (atomic_cmpxchg(&NEXT, next, next + taken) != next)
            continue;
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        for (uint i = next; i < next + taken; ++i)
            run(p, buffers, row, i - (uint)row[BEGIN]);
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        atomic_add(&DONE, taken);
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    // The last one prepares the next dispatch.
    if (atomic_inc(&LEFT) == workers - 1) {
        HALVINGS = GAVE_UP ? min(HALVINGS + 3, MOST_HALVINGS) : max(HALVINGS, 1u) - 1;
        GAVE_UP = 0;
        NEXT = 0;
        DONE = 0;
        LEFT = 0;
    }
}
