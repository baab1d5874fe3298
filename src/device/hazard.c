/* Decides which commands of a recording must wait for earlier ones; barriers are decided on nowhere else. A barrier
   makes everything before it visible to commands of one kind (dispatch, or copy and fill), so what is visible is
   tracked separately for each kind. */
#include "device/device.h"

enum { KIND_DISPATCH, KIND_COPY, KIND_COUNT };

static int kind_of(const command *later)
{
    return later->kind == COMMAND_DISPATCH ? KIND_DISPATCH : KIND_COPY;
}

/* The last binding of a copy or fill is its destination, whatever its flag says. */
static bool writes(const command *later, int binding)
{
    return later->bindings[binding].written || (later->kind != COMMAND_DISPATCH && binding == later->binding_count - 1);
}

static bool ranges_overlap(const buffer_binding *a, const buffer_binding *b)
{
    if (a->buffer != b->buffer)
        return false;
    return a->offset < b->offset ? b->offset - a->offset < a->size : a->offset - b->offset < b->size;
}

static bool conflicts(const command *earlier, const command *later)
{
    for (int i = 0; i < earlier->binding_count; i++)
        for (int j = 0; j < later->binding_count; j++)
            if ((writes(earlier, i) || writes(later, j)) && ranges_overlap(&earlier->bindings[i], &later->bindings[j]))
                return true;
    return false;
}

static bool conflicts_with_any(const command *commands, int begin, int end, const command *later)
{
    for (int i = end - 1; i >= begin; i--)
        if (conflicts(&commands[i], later))
            return true;
    return false;
}

void tuff__set_barriers(command *commands, int count, bool barriers_everywhere)
{
    int unseen[KIND_COUNT] = {0}; /* index of the first command that is not visible to commands of each kind */
    for (int i = 0; i < count; i++) {
        command *later = &commands[i];
        int *begin = &unseen[kind_of(later)];
        later->after_copy = later->after_dispatch = false;
        later->barrier = barriers_everywhere ? i > 0 : conflicts_with_any(commands, *begin, i, later);
        if (!later->barrier)
            continue;
        for (int j = barriers_everywhere ? 0 : *begin; j < i; j++) {
            if (kind_of(&commands[j]) == KIND_COPY)
                later->after_copy = true;
            else
                later->after_dispatch = true;
        }
        *begin = i;
    }
}
