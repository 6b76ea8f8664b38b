// NCCL and the CUDA driver, loaded when somebody asks for them; they stay loaded. Internal to engine/collective.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/collective/nccl_abi.h"

namespace dlpipe::engine::nccl {

/// kUnsupported where the library, or one of the functions in it, isn't there.
Status find(const std::string& library, Functions& to);

/// kUnsupported names the function that answered a CUDA error.
Status driver_status(int error, std::string_view what);

/// A device's primary context, held until it goes and current in the thread that opened it.
class DeviceContext {
 public:
  DeviceContext() = default;
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  /// kUnsupported where the driver, one of its functions, or the device isn't there.
  Status open(const std::string& driver_library, int device);
  const DriverFunctions& driver() const { return driver_; }

 private:
  DriverFunctions driver_{};
  Context context_ = nullptr;
  int device_ = 0;
};

}  // namespace dlpipe::engine::nccl
