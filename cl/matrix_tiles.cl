// Follows the text of a device's matrix units: how parts are stored to local memory transposed. Eight lines of two
// terms become a word of each line, those of four terms two words; or they become pairs of terms.
#ifndef LOW_HALVES
#define LOW_HALVES(one, other) (((one) & 0xffffu) | ((other) << 16))
#define HIGH_HALVES(one, other) (((one) >> 16) | ((other) & 0xffff0000u))
#endif
#define KEEP_LINES(KEEP, at, part)                                                                                    \
    KEEP(at, 0, LOW_HALVES, part, x);                                                                                 \
    KEEP(at, 1, HIGH_HALVES, part, x);                                                                                \
    KEEP(at, 2, LOW_HALVES, part, y);                                                                                 \
    KEEP(at, 3, HIGH_HALVES, part, y);                                                                                \
    KEEP(at, 4, LOW_HALVES, part, z);                                                                                 \
    KEEP(at, 5, HIGH_HALVES, part, z);                                                                                \
    KEEP(at, 6, LOW_HALVES, part, w);                                                                                 \
    KEEP(at, 7, HIGH_HALVES, part, w)
#define KEEP_WORD(at, line, halves, part, x)                                                                          \
    TILE_WORD((at) + (line) * K_LINE_PLACES) = halves((part)[0].x, (part)[1].x)
#define KEEP_TWO_WORDS(at, line, halves, part, x)                                                                     \
    TILE_TWO_WORDS((at) + (line) * K_LINE_PLACES) =                                                                   \
        MAKE_TWO_WORDS(halves((part)[0].x, (part)[1].x), halves((part)[2].x, (part)[3].x))
#define KEEP_PAIRS(at, one, other)                                                                                    \
    TILE_PART(at) = MAKE_PART(LOW_HALVES((one).x, (other).x), HIGH_HALVES((one).x, (other).x),                        \
                              LOW_HALVES((one).y, (other).y), HIGH_HALVES((one).y, (other).y));                       \
    TILE_PART((at) + PLACES) = MAKE_PART(LOW_HALVES((one).z, (other).z), HIGH_HALVES((one).z, (other).z),             \
                                         LOW_HALVES((one).w, (other).w), HIGH_HALVES((one).w, (other).w))
#define KEEP_SPREAD(at, part)                                                                                         \
    TILE_WORD(at) = (part).x;                                                                                         \
    TILE_WORD((at) + P_PAIR_PLACES) = (part).y;                                                                       \
    TILE_WORD((at) + 2 * P_PAIR_PLACES) = (part).z;                                                                   \
    TILE_WORD((at) + 3 * P_PAIR_PLACES) = (part).w
