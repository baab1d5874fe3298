/* The generator: a hash of what the kernels of a family are made from. A winner that was measured with other kernel
   texts is not a winner of today's kernels. */
#ifndef TUFF_TUNEDB_KERNEL_HASH_H
#define TUFF_TUNEDB_KERNEL_HASH_H

enum { GENERATOR_SIZE = 9 };

/* Eight hexadecimal digits over the family's bodies ("matmul": matmul_*.k and the packs), the texts that all kernels
   share and the version of the passes that write the rest. Returns out, of GENERATOR_SIZE bytes. */
const char *tuff__kernel_hash_of(const char *family, char *out);

#endif
