/* CRC-32 (IEEE 802.3, as in zlib and PNG): detects every burst error of up to 32 bits. */
#ifndef TUFF_BASE_CRC_H
#define TUFF_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t tuff__crc32(const void *data, size_t size);
/* The same with Castagnoli's polynomial, as used by iSCSI (RFC 3720) and TFRecord. */
uint32_t tuff__crc32c(const void *data, size_t size);

#endif
