// Sums and copies of f32 values that lie one after another, wherever a device has them: gradients of several grains and
// processes. On the host they are over when they return; elsewhere they are in the calling thread's stream. Every sum is one
// IEEE addition per element, so it has the same bits on every device and any number of threads.
#pragma once

#include <cstdint>

#include "dlpipe/base/device/device.h"

namespace dlpipe::engine {

/// to[i] = left[i] + right[i], all on `device`; `to` may be one of them. `right` null: zeros.
void flat_add(Device& device, float* to, const float* left, const float* right, int64_t count);
/// The same where values and sums are rounded to bf16; left[i] is rounded already. `left` null: only right[i] is rounded.
void flat_add_rounded(Device& device, float* to, const float* left, const float* right, int64_t count);
/// `from` null: zeros.
void flat_copy(Device& device, float* to, const float* from, int64_t count);

}  // namespace dlpipe::engine
