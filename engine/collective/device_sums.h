// Sums over ranks of values in their GPUs' memory, without the host. The order is the library's: unlike Collective's tree it may
// depend on the number of ranks, and so may the last bits. All ranks get the same bits.
//
// **Not run on a GPU** so far: NCCL's is tested over a library with the same functions (tests/engine/collective/nccl_test.cpp), what
// uses it over simulated devices (tests/run/train/device_ranks_test.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/collective/collective.h"

namespace dlpipe::engine {

/// Belongs to one thread.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;  // ends what is under way
  /// `values`, `count` f32 in this rank's device, become their sum over all ranks, in the order of `stream`. All ranks ask for
  /// the same sums in the same order.
  virtual Status all_reduce(float* values, size_t count, Stream& stream) = 0;
  /// An error that came since; ok where there was none so far. kIo names the library's reason.
  virtual Status check() = 0;
  /// Ends what is under way here, with whatever is then in memory; that of other ranks fails.
  virtual void abort() noexcept = 0;
};

struct DeviceSumsOptions {
  int device = 0;  // CUDA's number of this rank's
  std::string nccl_library = "libnccl.so.2";
  std::string driver_library = "libcuda.so.1";
};
/// Of all ranks together, each with a GPU of its own, by ncclAllReduce; all call it. kUnsupported where a library isn't there, on
/// any of them.
Result<std::unique_ptr<DeviceSums>> open_nccl_sums(Collective& ranks, const DeviceSumsOptions& options);

}  // namespace dlpipe::engine
