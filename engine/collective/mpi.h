// Ranks that mpirun started, over Open MPI: a Transport (transport.h). Only in builds with MPI (DLPIPE_MPI).
#pragma once

#include <memory>

#include "dlpipe/engine/collective/transport.h"

namespace dlpipe::engine {

struct MpiOptions {
  double peer_timeout_s = 60;
};

/// Joins the other ranks. Once per process, on the thread that will use and close it: MPI is told that no other thread
/// calls it (MPI_THREAD_FUNNELED). While it waits it lets others have the core.
Result<std::unique_ptr<Transport>> open_mpi_transport(const MpiOptions& options);

}  // namespace dlpipe::engine
