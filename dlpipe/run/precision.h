// What may be less precise than f32, as options say it. dtypes are autocast's (engine/op.h).
#pragma once

#include "dlpipe/base/device/device.h"

namespace dlpipe::run {

/// Whether `--tf32` is taken on `device`. Where it is `wanted` on the host, a warning says that it changes
/// nothing there.
bool take_tf32(bool wanted, const Device& device);

}  // namespace dlpipe::run
