// Ranks with a GPU each, over NCCL: a Transport (transport.h). NCCL and the CUDA driver are loaded when it is opened, so
// every build has it and none needs them.
//
// Not run on a GPU so far: its tests (tests/engine/collective/nccl_test.cpp) run it over a library with the same functions
// whose devices are memory. No command opens it (docs/decisions/041-grains.md): `--exact off` is device_sums.h.
//
// It carries the exchanges of Collective's own tree, so that sums keep their bits. Values are the host's: they pass through
// a buffer of the device each way.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dlpipe/engine/collective/transport.h"

namespace dlpipe::engine {

struct NcclOptions {
  double peer_timeout_s = 60;
  int device = 0;                        // this rank's, on its machine
  size_t piece_bytes = size_t{8} << 20;  // of what is exchanged at once; the same on all ranks
  std::string nccl_library = "libnccl.so.2";
  std::string driver_library = "libcuda.so.1";
};

/// Joins the ranks of `meeting`, a transport between the same ranks that carries NCCL's id and what abort() says, and takes
/// it over. kUnsupported where a library or a device isn't there.
Result<std::unique_ptr<Transport>> open_nccl_transport(std::unique_ptr<Transport> meeting,
                                                       const NcclOptions& options);

}  // namespace dlpipe::engine
