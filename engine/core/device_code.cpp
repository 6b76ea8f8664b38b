#include "dlpipe/engine/core/device_code.h"

#include "dlpipe/base/text.h"

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
                       concat("[engine] kernels run on the first GPU; make ", device.name(),
                              " the first with CUDA_VISIBLE_DEVICES, and use --device cuda")));
  }
#endif
  if (device.kind() == DeviceKind::kSimulated && s_simulated != nullptr) return *s_simulated;
  throw Error(Status(ErrorCode::kUnsupported, concat("[engine] nothing was built for ", device.name(),
                                                     "; use --device cpu, or build with CUDA")));
}

}  // namespace dlpipe::engine
