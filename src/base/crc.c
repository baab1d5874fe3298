/* CRCs, computed eight bytes at a time (slicing, Kounavis and Berry 2005), with tables that are made on first use. */
#include "base/crc.h"

#include "base/thread.h"

enum { SLICES = 8 };

/* A polynomial, without its highest power and with its bits reversed, and its tables: tables[k][b] is the effect of
   byte b on the remainder, k zero bytes later. */
typedef struct crc_code {
    uint32_t polynomial;
    uint32_t tables[SLICES][256];
} crc_code;

static crc_code ieee = {.polynomial = 0xedb88320u}, castagnoli = {.polynomial = 0x82f63b78u};
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_table(crc_code *self)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t remainder = b;
        for (int bit = 0; bit < 8; bit++)
            remainder = remainder >> 1 ^ (remainder & 1 ? self->polynomial : 0);
        self->tables[0][b] = remainder;
    }
    for (int k = 1; k < SLICES; k++)
        for (int b = 0; b < 256; b++)
            self->tables[k][b] = self->tables[k - 1][b] >> 8 ^ self->tables[0][self->tables[k - 1][b] & 255];
}

static void make_tables(void)
{
    make_table(&ieee);
    make_table(&castagnoli);
}

static uint32_t compute_crc(const crc_code *self, const void *data, size_t size)
{
    const uint32_t(*tables)[256] = (const uint32_t(*)[256])self->tables;
    const unsigned char *bytes = data;
    uint32_t remainder = 0xffffffffu;
    tuff__once(&tables_once, make_tables);
    for (; size >= SLICES; bytes += SLICES, size -= SLICES) {
        const uint32_t first = remainder ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                                            (uint32_t)bytes[3] << 24);
        remainder = tables[7][first & 255] ^ tables[6][first >> 8 & 255] ^ tables[5][first >> 16 & 255] ^
                    tables[4][first >> 24] ^ tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^
                    tables[0][bytes[7]];
    }
    for (; size > 0; bytes++, size--)
        remainder = remainder >> 8 ^ tables[0][(remainder ^ *bytes) & 255];
    return ~remainder;
}

uint32_t tuff__crc32(const void *data, size_t size)
{
    return compute_crc(&ieee, data, size);
}

uint32_t tuff__crc32c(const void *data, size_t size)
{
    return compute_crc(&castagnoli, data, size);
}
