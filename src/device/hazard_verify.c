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
    for (int later = 1; later < count; later++) {
        const bool to_dispatch = commands[later].kind == COMMAND_DISPATCH;
        bool waits_for_dispatches = false, waits_for_copies = false; /* whether `later` waits for those up to and
                                                                        including `earlier` */
        for (int earlier = later - 1; earlier >= 0 && !(waits_for_dispatches && waits_for_copies); earlier--) {
            const command *barrier = &commands[earlier + 1];
            if (barrier->barrier && (barrier->kind == COMMAND_DISPATCH) == to_dispatch) {
                waits_for_dispatches |= barrier->after_dispatch;
                waits_for_copies |= barrier->after_copy;
            }
            const bool waits = commands[earlier].kind == COMMAND_DISPATCH ? waits_for_dispatches : waits_for_copies;
            if (!waits && depend_on_order(&commands[earlier], &commands[later]))
                return FAIL(TUFF_E_COMPILE,
                            "record: internal error, please report it: no barrier makes command %d wait for command %d",
                            later, earlier);
        }
    }
    return TUFF_OK;
}
