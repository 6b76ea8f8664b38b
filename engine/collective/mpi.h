// A Transport (transport.h) over Open MPI, for ranks started by mpirun. Only in builds with MPI (DLPIPE_MPI).
#pragma once

#include <memory>

#include "engine/collective/transport.h"

namespace dlpipe::engine {

struct MpiOptions {
  double peer_timeout_s = 60;
};

/// Connects to the other ranks. Call it once per process, on the thread that will use and close the transport: MPI is
/// initialised with MPI_THREAD_FUNNELED, so that no other thread may call it. Yields the core while it waits.
Result<std::unique_ptr<Transport>> open_mpi_transport(const MpiOptions& options);

}  // namespace dlpipe::engine
