// NCCL and the CUDA driver, loaded when somebody asks for them; they stay loaded. Internal to engine/collective.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/collective/nccl_abi.h"

namespace dlpipe::engine::nccl {

/// kUnsupported where the library, or one of the functions in it, isn't there.
Status find(const std::string& library, Functions& to);
Status find(const std::string& library, DriverFunctions& to);

/// kUnsupported names the function that answered a CUDA error.
Status driver_status(int error, std::string_view what);

}  // namespace dlpipe::engine::nccl
