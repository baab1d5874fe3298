/* tuff: a vendor-neutral GPU compute runtime for tensor programs on OpenCL and Vulkan. This header includes all the
   others and declares nothing of its own. */
#ifndef TUFF_H
#define TUFF_H

#include "tuff/base.h"
#include "tuff/cache.h"
#include "tuff/checkpoint.h"
#include "tuff/data.h"
#include "tuff/device.h"
#include "tuff/graph.h"
#include "tuff/graph_file.h"
#include "tuff/interop.h"
#include "tuff/io.h"
#include "tuff/monitor.h"
#include "tuff/nn.h"
#include "tuff/ops.h"
#include "tuff/profile.h"
#include "tuff/train.h"
#include "tuff/tune.h"

#endif
