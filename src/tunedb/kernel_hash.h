/* The kernel hash: a hash of everything that the kernels of a family are made from. A winner that was measured with
   other kernel texts does not count as a winner for today's kernels. */
#ifndef TUFF_TUNEDB_KERNEL_HASH_H
#define TUFF_TUNEDB_KERNEL_HASH_H

#include <stdint.h>

enum { KERNEL_HASH_SIZE = 9 };

/* Writes eight hexadecimal digits: a hash of the family's bodies ("matmul": matmul_*.k and the packs), the texts that
   all kernels share, and the version of the passes that generate the rest. Returns out, which has KERNEL_HASH_SIZE
   bytes. Comments of the texts are not hashed. */
const char *tuff__kernel_hash(const char *family, char *out);

/* Continues a hash with a kernel text, without its lines that hold only a comment. */
uint64_t tuff__kernel_text_hash(const char *text, uint64_t hash);

#endif
