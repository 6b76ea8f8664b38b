#include "engine/core/device_code.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "dlpipe/dtype.h"
#include "engine/core/device_memory.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {

#if DLPIPE_HAVE_CUDA
namespace cuda {
extern const DeviceCode device_code_cuda;  // cuda/entry/device_code.cu
}
#endif

static const DeviceCode* s_simulated = nullptr;

void set_simulated_device_code(const DeviceCode* code) {
  s_simulated = code;
}

const DeviceCode& device_code(const Device& device) {
#if DLPIPE_HAVE_CUDA
  if (device.kind() == DeviceKind::kCuda) {
    // Launches go to the thread's stream on the first device (cuda/grid/stream.h).
    if (&device == value_or_throw(cuda_device(0))) return cuda::device_code_cuda;
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[engine] kernels only run on the first GPU; make ", device.name(),
                              " the first with CUDA_VISIBLE_DEVICES, and use --device cuda")));
  }
#endif
  if (device.kind() == DeviceKind::kSimulated && s_simulated != nullptr) return *s_simulated;
  throw Error(
      Status(ErrorCode::kUnsupported, concat("[engine] this dlpipe has no kernels for ", device.name(),
                                             "; use --device cpu, or build with CUDA")));
}

// Elements per slice of an addition; elements are independent, so no bit depends on it.
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
