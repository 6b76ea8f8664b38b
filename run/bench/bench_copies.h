// `dlpipe bench h2d`: how fast bytes go to a device and back, from page-locked memory and from any other.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/base/device/device.h"

namespace dlpipe::run {

struct CopyRate {
  int64_t bytes = 0;  // of one copy
  // Bytes per second, the median of all copies, each waited for.
  double pinned_to_device = 0;
  double pinned_to_host = 0;
  double pageable_to_device = 0;
  double pageable_to_host = 0;
};

/// Sizes from 4 KiB to 256 MiB by powers of sixteen; `seconds` in all. Throws Error.
std::vector<CopyRate> bench_copies(Device& device, double seconds);

}  // namespace dlpipe::run
