/* The part of the report that lists the settings. */
#ifndef TUFF_TOOLS_TRAIN_REPORT_SETTINGS_H
#define TUFF_TOOLS_TRAIN_REPORT_SETTINGS_H

#include "base/text.h"
#include "tools/train/options.h"

void report_add_settings(text *out, const train_options *options, const tuff_device_info *device);

#endif
