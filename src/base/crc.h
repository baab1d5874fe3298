/* CRC-32 (IEEE 802.3, as in zlib and PNG): finds every damage of up to 32 bits in a row. */
#ifndef TUFF_BASE_CRC_H
#define TUFF_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t tuff__crc32(const void *data, size_t size);

#endif
