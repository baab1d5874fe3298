/* Selects the sections of math.k that a text uses, with their dependencies. */
#ifndef TUFF_KERNELS_MATHS_H
#define TUFF_KERNELS_MATHS_H

#include "base/text.h"

/* Appends the sections for the names NAME_1 and NAME_v that occur in `used`: once for scalars and, if `vectors` is
   true, once for vectors. */
tuff_status tuff__maths_add(const char *used, bool vectors, text *out);

#endif
