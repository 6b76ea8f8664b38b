// The CUDA functions of device.h in builds without CUDA.
#include "dlpipe/device.h"

namespace dlpipe {

Result<Device*> cuda_device(int) {
  return Status(
      ErrorCode::kUnsupported,
      "[device] this dlpipe was built without CUDA; use --device cpu, or configure with -DDLPIPE_CUDA=ON");
}
Result<Device*> current_cuda_device() {
  return cuda_device(0);
}
void push_range(const char*) {}
void pop_range() {}

std::string cuda_summary() {
  return "built without CUDA";
}

}  // namespace dlpipe
