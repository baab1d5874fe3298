/* What kernels of a family are made from, as a short text: a winner that was measured with other kernel texts is no
   winner of today's. */
#ifndef TUFF_TUNEDB_KERNEL_HASH_H
#define TUFF_TUNEDB_KERNEL_HASH_H

enum { GENERATOR_SIZE = 9 };

/* Eight hexadecimal digits over the family's bodies ("matmul": matmul_*.k and the packs), the texts that all kernels
   share and the version of the passes that write the rest. Answers out, of GENERATOR_SIZE bytes. */
const char *tuff__kernel_hash_of(const char *family, char *out);

#endif
