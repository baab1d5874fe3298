/* Selects sections of math.k. Lines `//@ NAME: NEEDED NEEDED` begin sections; a section follows those it needs. */
#include "kernels/math_sections.h"

#include <ctype.h>
#include <string.h>

#include "kernels/assemble.h"

#define MAX_SECTIONS 128

typedef struct section {
    const char *name, *needs, *text; /* point into math.k */
    size_t name_length, needs_length, text_length;
    bool wanted;
} section;

static int find_sections(const char *maths, section *sections)
{
    int count = 0;
    const char *line = strstr(maths, "//@ ");
    while (line != NULL && count < MAX_SECTIONS) {
        section *one = &sections[count++];
        const char *colon = strchr(line, ':'), *end = strchr(line, '\n');
        const char *next = strstr(end, "\n//@ ");
        one->name = line + 4;
        one->name_length = (size_t)(colon - one->name);
        one->needs = colon + 1;
        one->needs_length = (size_t)(end - one->needs);
        one->text = end + 1;
        one->text_length = next == NULL ? strlen(one->text) : (size_t)(next + 1 - one->text);
        one->wanted = false;
        line = next == NULL ? NULL : next + 1;
    }
    return count;
}

static void mark_wanted(section *sections, int count, const char *name, size_t length)
{
    for (int i = 0; i < count; ++i)
        if (sections[i].name_length == length && strncmp(sections[i].name, name, length) == 0)
            sections[i].wanted = true;
}

/* Marks the sections named by identifiers that end in the suffix, `_1` or `_v`. */
static void mark_used(section *sections, int count, const char *used, char suffix)
{
    const char *c = used;
    while (*c != 0) {
        if (!isalpha((unsigned char)*c)) {
            ++c;
            continue;
        }
        size_t length = 0;
        while (isalnum((unsigned char)c[length]) || c[length] == '_')
            ++length;
        if (length > 2 && c[length - 1] == suffix && c[length - 2] == '_')
            mark_wanted(sections, count, c, length - 2);
        c += length;
    }
}

static void mark_dependencies(section *sections, int count)
{
    for (int i = count - 1; i >= 0; --i) {
        const char *c = sections[i].needs, *end = c + sections[i].needs_length;
        while (sections[i].wanted && c < end) {
            size_t length = 0;
            while (c + length < end && c[length] != ' ')
                ++length;
            if (length > 0)
                mark_wanted(sections, count, c, length);
            c += length + 1;
        }
    }
}

static void add_sections(const section *sections, int count, bool vectors, text *out)
{
    bool any = false;
    for (int i = 0; i < count; ++i)
        any |= sections[i].wanted && sections[i].text_length > 1;
    if (!any)
        return;
    const char *v = vectors ? "v" : "1";
    tuff__text_add(out, "#define FN(name) name##_%s\n#define MAKE_REAL(x) %s\n", v, vectors ? "SPLAT(x)" : "(x)");
    tuff__text_add(out, "#define REAL %s\n#define INT %s\n#define UINT %s\n#define BOOL %s\n",
                   vectors ? "vec" : "float", vectors ? "ivec" : "int", vectors ? "uvec" : "uint",
                   vectors ? "bvec" : "boolean");
    for (int i = 0; i < count; ++i)
        if (sections[i].wanted)
            tuff__text_add_bytes(out, sections[i].text, sections[i].text_length);
    tuff__text_add(out, "#undef FN\n#undef MAKE_REAL\n#undef REAL\n#undef INT\n#undef UINT\n#undef BOOL\n");
}

tuff_status tuff__append_math_sections(const char *used, bool vectors, text *out)
{
    const char *maths = tuff__kernel_text("math.k");
    if (maths == NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "kernels: this build does not contain math.k");
    for (int i = 0; i < (vectors ? 2 : 1); ++i) {
        section sections[MAX_SECTIONS];
        const int count = find_sections(maths, sections);
        mark_used(sections, count, used, i == 0 ? '1' : 'v');
        mark_dependencies(sections, count);
        add_sections(sections, count, i == 1, out);
    }
    return tuff__text_status(out);
}
