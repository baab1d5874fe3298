/* The files that a run of an example reads and writes: whether they are distinct and writable, and what its data are.
   */
#ifndef TUFF_EXAMPLES_FILES_H
#define TUFF_EXAMPLES_FILES_H

#include "options.h"

/* Returns false, after a line on standard error that says why, if the run would overwrite a file that it reads, or one
   output with another. Only checkpoints may replace each other. */
bool example_files_are_distinct(const example *model, const example_options *options);
/* Returns false, after a line on standard error that says why, if one of the outputs cannot be written. To be called
   before the work whose results they would hold. Creates nothing. */
bool example_files_are_writable(const example *model, const example_options *options);

/* Writes which data a run learns from, on one line: "generated", or the number, the total size and a hash of the files
   of --data. The hash covers the size and the first and last 64 KiB of each file, so that large files need not be read.
   Writes an empty text if one of them is not a regular file. */
void example_data_describe(const example *model, const example_options *options, char *out, size_t size);

#endif
