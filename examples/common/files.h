/* The files that a run reads and writes. */
#ifndef TUFF_EXAMPLES_FILES_H
#define TUFF_EXAMPLES_FILES_H

#include "options.h"

/* Returns false, after a line on standard error that says why, if the run would overwrite a file that it reads, or one
   output with another. Only checkpoints may replace each other. */
bool example_files_are_distinct(const example *model, const example_options *options);
/* Returns false, after a line on standard error that says why, if one of the outputs cannot be written. To be called
   before the work whose results they would hold. Creates nothing. */
bool example_files_are_writable(const example *model, const example_options *options);

#endif
