/* Eight bytes at a time (slicing, Kounavis and Berry 2005), with tables that are made at the first use. */
#include "base/crc.h"

#include "base/thread.h"

enum { SLICES = 8 };

static uint32_t tables[SLICES][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* tables[k][b]: what byte b does to the rest, k zero bytes later. */
static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t rest = b;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
        tables[0][b] = rest;
    }
    for (int k = 1; k < SLICES; k++)
        for (int b = 0; b < 256; b++)
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
}

uint32_t tuff__crc32(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint32_t rest = 0xffffffffu;
    tuff__once(&made, make_tables);
    for (; size >= SLICES; bytes += SLICES, size -= SLICES) {
        const uint32_t first =
            rest ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        rest = tables[7][first & 255] ^ tables[6][first >> 8 & 255] ^ tables[5][first >> 16 & 255] ^
               tables[4][first >> 24] ^ tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^
               tables[0][bytes[7]];
    }
    for (; size > 0; bytes++, size--)
        rest = rest >> 8 ^ tables[0][(rest ^ *bytes) & 255];
    return ~rest;
}
