/* Selects the sections of math.k that a text uses, with their dependencies. */
#ifndef TUFF_KERNELS_MATH_SECTIONS_H
#define TUFF_KERNELS_MATH_SECTIONS_H

#include "base/text.h"

/* Appends the sections for the names NAME_1 and NAME_v that occur in `used`: once for scalars and, if `vectors` is
   true, once for vectors. */
tuff_status tuff__append_math_sections(const char *used, bool vectors, text *out);

#endif
