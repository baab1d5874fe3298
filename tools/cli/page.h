/* Shared by the HTML pages of the tool, which have inline style and drawings, light and dark, without scripts or
   external resources. */
#ifndef TUFF_TOOLS_CLI_PAGE_H
#define TUFF_TOOLS_CLI_PAGE_H

#include "base/text.h"

/* Writes the document's head and opens its body; title is plain text. style: rules of the page's own, added after the
   common ones. */
void page_begin(text *out, const char *title, const char *style);
void page_end(text *out);

/* Adds text with HTML escapes. */
void page_add_escaped(text *out, const char *source);
/* Adds a box with a value and its name, both HTML; tiles are inside a <div class="tiles">. */
void page_add_tile(text *out, const char *name, const char *value);

/* Adds a name and its value, plain text or a number; they are inside a <dl>. */
void page_add_fact(text *out, const char *name, const char *value);
void page_add_number(text *out, const char *name, double value);

/* Formats nanoseconds with three significant digits, as in "412 us". Returns buffer. */
const char *page_duration(double nanoseconds, char *buffer, size_t size);
#define DURATION(nanoseconds) page_duration((nanoseconds), (char[32]){0}, 32)
/* Formats a time, in seconds since 1970, as date and time in UTC. Returns buffer. */
const char *page_day(int64_t seconds, char *buffer, size_t size);

#endif
