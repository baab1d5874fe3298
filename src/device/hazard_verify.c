/* Proves that the barriers of a recording cover every hazard. Vulkan's rule is applied to the bindings themselves, pair
   by pair, without sharing any code with tuff__set_barriers, whose faults this is meant to find. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

bool tuff__verification_is_on(void)
{
    const char *setting = getenv("TUFF_VERIFY");
    return setting == NULL || strcmp(setting, "0") != 0;
}

/* Whether two commands depend on their order, judged by the bytes of buffers that they touch. */
static bool depend_on_order(const command *a, const command *b)
{
    for (int i = 0; i < a->binding_count; i++) {
        const buffer_binding *x = &a->bindings[i];
        const bool x_written = x->written || (a->kind != COMMAND_DISPATCH && i + 1 == a->binding_count);
        for (int k = 0; k < b->binding_count; k++) {
            const buffer_binding *y = &b->bindings[k];
            const bool y_written = y->written || (b->kind != COMMAND_DISPATCH && k + 1 == b->binding_count);
            if (x->buffer == y->buffer && (x_written || y_written) && x->offset < y->offset + y->size &&
                y->offset < x->offset + x->size)
                return true;
        }
    }
    return false;
}

tuff_status tuff__verify_hazards(const command *commands, int count)
{
    /* Both by kind, which is 1 for dispatches. since[later][earlier]: the last command whose barrier makes commands of
       one kind wait for all earlier ones of the other. last[kind]: the last command so far. */
    int since[2][2] = {{0}}, last[2] = {-1, -1};
    for (int later = 0; later < count; later++) {
        const command *next = &commands[later];
        const int kind = next->kind == COMMAND_DISPATCH;
        if (next->barrier && next->after_copy)
            since[kind][0] = later;
        if (next->barrier && next->after_dispatch)
            since[kind][1] = later;
        int begin = later;
        for (int i = 0; i < 2; i++)
            if (last[i] >= since[kind][i] && begin > since[kind][i])
                begin = since[kind][i];
        for (int earlier = later - 1; earlier >= begin; earlier--)
            if (earlier >= since[kind][commands[earlier].kind == COMMAND_DISPATCH] &&
                depend_on_order(&commands[earlier], next))
                return FAIL(TUFF_E_COMPILE,
                            "record: internal error, please report it: no barrier makes command %d wait for command %d",
                            later, earlier);
        last[kind] = later;
    }
    return TUFF_OK;
}
