/* Four bits at a time: lines of a cache are short, and a table of sixteen needs no set-up. */
#include "base/crc.h"

uint32_t tuff__crc32(const void *data, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *bytes = data;
    uint32_t rest = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        rest = table[(rest ^ bytes[i]) & 15] ^ rest >> 4;
        rest = table[(rest ^ (uint32_t)bytes[i] >> 4) & 15] ^ rest >> 4;
    }
    return ~rest;
}
