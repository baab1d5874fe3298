/* What `tuff devices` and `tuff doctor` print of a device. */
#ifndef TUFF_TOOLS_INSPECT_DEVICES_H
#define TUFF_TOOLS_INSPECT_DEVICES_H

#include "tuff/device.h"

/* Lines for people; reason: why it does not open, or NULL. */
void inspect_print_device(const tuff_device_info *info, const char *reason);

#endif
