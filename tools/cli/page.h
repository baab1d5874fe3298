/* What the pages of the tool share: HTML with its style and its drawings in it, light and dark, no scripts, nothing
   from elsewhere. */
#ifndef TUFF_TOOLS_CLI_PAGE_H
#define TUFF_TOOLS_CLI_PAGE_H

#include "base/text.h"

/* Head and heading; title is plain text. style: rules of the page's own, behind the common ones. */
void page_begin(text *out, const char *title, const char *style);
void page_end(text *out);

/* Text as HTML. */
void page_add_escaped(text *out, const char *source);
/* A box with a figure and what it is, both HTML; tiles stand in a <div class="tiles">. */
void page_add_tile(text *out, const char *name, const char *value);

/* A name and its value, plain text and a number; they stand in a <dl>. */
void page_add_fact(text *out, const char *name, const char *value);
void page_add_number(text *out, const char *name, double value);

/* "412 us" of nanoseconds: three digits that count. Returns buffer. */
const char *page_duration(double nanoseconds, char *buffer, size_t size);
#define DURATION(nanoseconds) page_duration((nanoseconds), (char[32]){0}, 32)
/* The present day and time in UTC. */
const char *page_day(int64_t seconds, char *buffer, size_t size);

#endif
