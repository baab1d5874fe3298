/* CRC-32 (IEEE 802.3, as in zlib and PNG): finds every damage of up to 32 bits in a row. */
#ifndef TUFF_BASE_CRC_H
#define TUFF_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t tuff__crc32(const void *data, size_t size);
/* The same with Castagnoli's polynomial, as iSCSI (RFC 3720) and TFRecord have it. */
uint32_t tuff__crc32c(const void *data, size_t size);

#endif
