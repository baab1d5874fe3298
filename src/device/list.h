/* The devices that the drivers of this machine offer, and the choice among them by name. */
#ifndef TUFF_DEVICE_LIST_H
#define TUFF_DEVICE_LIST_H

#include "device/driver.h"

/* A device to open: the driver and its index; driver NULL is the reference device. */
typedef struct device_choice {
    const driver *driver;
    int index;
} device_choice;

/* The devices that a selector allows, best first, at most limit of them in out; *count is at least 1 on success. Only
   "auto" and a bare API name allow several. TUFF_E_NO_DEVICE names the devices that exist, or what to install. */
tuff_status tuff__device_choose(const char *selector, device_choice *out, int limit, int *count);

/* The driver of an API, "opencl" or "vulkan"; NULL where it was not built in or has no loader here, with the reason in
   tuff_error(). */
const driver *tuff__device_driver(const char *api);

/* The same without a look at loaders and devices: NULL only where it was not built in. */
const driver *tuff__device_built_driver(const char *api);

/* What a driver or the reference device says of itself, the selector filled in. */
tuff_status tuff__device_describe(device_choice choice, tuff_device_info *info);

#endif
