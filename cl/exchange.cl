// How the lanes of a subgroup read each other's registers in OpenCL C. EXCHANGE_FORM (tuff_exchange_form) chooses the
// instructions; the self-test proves those of a device.
// EXCHANGE(x, step)     the value of the neighbouring block of `step` lanes, if all lanes of a block have the same;
//                       step is a literal power of two
// FROM_FIRST(x, count)  the value of the first of `count` lanes, to which the own lane belongs
#if defined(EXCHANGE) // tests emulate it
#elif EXCHANGE_FORM == 2 // NVIDIA, in PTX
FUNCTION float EXCHANGE(float x, uint step)
{
    float found;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(found) : "f"(x), "r"(step));
    return found;
}
FUNCTION float FROM_FIRST(float x, uint count)
{
    float found;
    const uint first = LANE & 31u & ~(count - 1u);
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(found) : "f"(x), "r"(first));
    return found;
}
#elif EXCHANGE_FORM == 3 // AMD: permutations of four lanes, mirrors of 8 and 16, swizzles of 32, and any lanes
#define FROM_LANE(x, lane) as_float(__builtin_amdgcn_ds_bpermute(as_int((lane) * 4u), as_int(x)))
#define MOVED(x, control) as_float(__builtin_amdgcn_mov_dpp(as_int(x), control, 0xf, 0xf, true))
#define EXCHANGE(x, step)                                                              \
    ((step) == 1   ? MOVED(x, 0xb1)                                                    \
     : (step) == 2 ? MOVED(x, 0x4e)                                                    \
     : (step) == 4 ? MOVED(x, 0x141)                                                   \
     : (step) == 8 ? MOVED(x, 0x140)                                                   \
     : (step) == 16 ? as_float(__builtin_amdgcn_ds_swizzle(as_int(x), 0x401f))         \
                    : FROM_LANE(x, LANE ^ 32u))
#define FROM_FIRST(x, count)                                                           \
    ((count) == EXCHANGE_LANES ? as_float(__builtin_amdgcn_readfirstlane(as_int(x)))   \
                               : FROM_LANE(x, LANE & (EXCHANGE_LANES - 1u) & ~((count) - 1u)))
#else
#define EXCHANGE(x, step) sub_group_shuffle_xor(x, (uint)(step))
#define FROM_FIRST(x, count) sub_group_shuffle(x, get_sub_group_local_id() & ~((count) - 1u))
#endif
