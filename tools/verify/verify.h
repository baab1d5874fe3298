/* The part of `tuff verify` that runs random programs instead of ops. */
#ifndef TUFF_TOOLS_VERIFY_VERIFY_H
#define TUFF_TOOLS_VERIFY_VERIFY_H

#include <stdint.h>

#include "tools/cli/cli.h"

/* Runs `count` random programs on the device, starting with a seed, or the one described by line if it is not NULL.
   Prints each failure as a line that repeats it and as the smallest program that still fails. Returns an exit code. */
int verify_programs(const cli_verb *verb, tuff_device *device, int64_t count, int64_t seed, const char *line,
                    bool json);

#endif
