/* The devices that the drivers of this machine offer, and the choice among them by name. */
#ifndef TUFF_DEVICE_LIST_H
#define TUFF_DEVICE_LIST_H

#include "device/driver.h"

/* A device to open: the driver and the index of the device in it; driver NULL is the reference device. */
typedef struct device_choice {
    const driver *driver;
    int index;
} device_choice;

/* Finds the devices that a selector allows, best first, and writes at most limit of them to out; *count is at least 1
   on success. Only "auto" and a bare API name can give several. The message of TUFF_E_NO_DEVICE names the devices that
   exist, or what to install. */
tuff_status tuff__device_choose(const char *selector, device_choice *out, int limit, int *count);

/* Returns the driver of an API, "opencl" or "vulkan"; NULL if it was not built in or has no devices here, with the
   reason in tuff_error(). */
const driver *tuff__device_driver(const char *api);

/* The same without looking for loaders and devices: NULL only if the driver was not built in. */
const driver *tuff__device_built_driver(const char *api);

/* Adds to the name of a driver that its optimizer is off, if it is, so that tuning records are kept apart. */
void tuff__note_driver_optimizer(tuff_device_info *info);

/* Fills in *info as the driver or the reference device describes itself, with the selector added. */
tuff_status tuff__device_describe(device_choice choice, tuff_device_info *info);

#endif
