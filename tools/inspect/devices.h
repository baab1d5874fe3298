/* Output about a device, shared by `tuff devices` and `tuff doctor`. */
#ifndef TUFF_TOOLS_INSPECT_DEVICES_H
#define TUFF_TOOLS_INSPECT_DEVICES_H

#include "tuff/device.h"

/* Prints a device in readable form. reason: why it cannot be opened, or NULL. */
void inspect_print_device(const tuff_device_info *info, const char *reason);

#endif
