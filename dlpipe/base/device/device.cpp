#include "dlpipe/base/device/device.h"

#include <array>

#include "dlpipe/base/text.h"

namespace dlpipe {

std::string_view device_kind_name(DeviceKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"cpu", "cuda", "simulated"};
  return kNames[static_cast<size_t>(kind)];
}

Result<Device*> find_device(std::string_view name) {
  if (name == "cpu") return &cpu_device();
  if (name == "cuda") return cuda_device(0);
  int64_t index = 0;
  if (name.starts_with("cuda:") && parse_int(name.substr(5), &index) && index >= 0 && index < 1024) {
    return cuda_device(static_cast<int>(index));
  }
  return Status(ErrorCode::kMisuse, concat("[device] unknown device '", name, "'; use cpu, cuda or cuda:N"));
}

}  // namespace dlpipe
