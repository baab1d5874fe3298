// How the lanes of a subgroup read each other's registers in GLSL.
// EXCHANGE(x, step)     the value of the neighbouring block of `step` lanes, if all lanes of a block have the same
// FROM_FIRST(x, count)  the value of the first of `count` lanes, to which the own lane belongs
#define EXCHANGE(x, step) subgroupShuffleXor(x, uint(step))
#define FROM_FIRST(x, count) subgroupShuffle(x, gl_SubgroupInvocationID & ~(uint(count) - 1u))
