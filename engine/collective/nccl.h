// A Transport (transport.h) over NCCL, for ranks with a GPU each. NCCL and the CUDA driver are loaded when it is opened, so
// that every build includes it and none depends on them.
//
// Not run on a GPU so far: its tests (tests/engine/collective/nccl_test.cpp) use a fake library with the same functions and
// devices in host memory. No command opens it (docs/decisions/041-grains.md): `--exact off` is DeviceSums below.
//
// It carries the exchanges of Collective's own tree, so that sums keep their bits. Values are in host memory and pass through
// a device buffer in each direction.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dlpipe/device.h"
#include "engine/collective/collective.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine {

struct NcclOptions {
  double peer_timeout_s = 60;
  int device = 0;                        // this rank's device on its machine
  size_t piece_bytes = size_t{8} << 20;  // how much is exchanged at once; the same on all ranks
  std::string nccl_library = "libnccl.so.2";
  std::string driver_library = "libcuda.so.1";
};

/// Connects the ranks of `meeting` and takes ownership of it. `meeting` is a transport between the same ranks that carries
/// NCCL's id and the reasons of abort(). kUnsupported if a library or a device is missing.
Result<std::unique_ptr<Transport>> open_nccl_transport(std::unique_ptr<Transport> meeting,
                                                       const NcclOptions& options);

// Sums over ranks of values in GPU memory, without the host. The library chooses the order: unlike Collective's tree, it may
// depend on the number of ranks, and so may the last bits. All ranks get the same bits.
//
// **Not run on a GPU** so far: NCCL's implementation is tested with a fake library (tests/engine/collective/nccl_test.cpp), and
// its users with simulated devices (tests/run/train/device_ranks_test.cpp).

/// Belongs to one thread.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;  // aborts operations in progress
  /// Replaces `values`, `count` f32 on this rank's device, by their sum over all ranks, in the order of `stream`. All ranks
  /// call it for the same sums in the same order.
  virtual Status all_reduce(float* values, size_t count, Stream& stream) = 0;
  /// An asynchronous error; ok if there was none so far. kIo has the library's reason.
  virtual Status check() = 0;
  /// Aborts operations in progress here, with undefined results; those of other ranks fail.
  virtual void abort() noexcept = 0;
};

struct DeviceSumsOptions {
  int device = 0;  // the CUDA index of this rank's device
  std::string nccl_library = "libnccl.so.2";
  std::string driver_library = "libcuda.so.1";
};
/// Opens sums with ncclAllReduce over all ranks, each with its own GPU; all ranks call it. kUnsupported if a library is missing
/// on any of them.
Result<std::unique_ptr<DeviceSums>> open_nccl_sums(Collective& ranks, const DeviceSumsOptions& options);

}  // namespace dlpipe::engine
