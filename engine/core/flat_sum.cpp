#include "dlpipe/engine/core/flat_sum.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/parallel.h"

namespace dlpipe::engine {

// Elements per slice of an addition; elements don't meet, so no bit depends on it.
constexpr int64_t kRange = 16384;

void flat_add(Device& device, float* to, const float* left, const float* right, int64_t count) {
  if (!device.is_host()) return device_code(device).steps->add(to, left, right, count, false);
  parallel_ranges(count, kRange, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = left[i] + (right != nullptr ? right[i] : 0.0f);
  });
}

void flat_add_rounded(Device& device, float* to, const float* left, const float* right, int64_t count) {
  if (!device.is_host()) return device_code(device).steps->add(to, left, right, count, true);
  parallel_ranges(count, kRange, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = right != nullptr ? rounded_to_bf16(right[i]) : 0.0f;
      to[i] = left != nullptr ? rounded_to_bf16(left[i] + value) : value;
    }
  });
}

void flat_copy(Device& device, float* to, const float* from, int64_t count) {
  if (count == 0) return;
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (from != nullptr) return copy_memory(device, to, device, from, bytes);
  if (device.is_host()) {
    std::fill(to, to + count, 0.0f);
  } else {
    device_code(device).fill(to, count, 0, sizeof(float));
  }
}

}  // namespace dlpipe::engine
