// How this process was started, according to its environment: alone, or as one rank of many by mpirun or srun.
#pragma once

#include <memory>
#include <string>

#include "engine/collective/transport.h"

namespace dlpipe::engine {

struct LaunchedRank {
  int rank = 0;
  int world = 1;
  int local_world = 1;         // ranks on this machine, as far as the launcher reports it
  int local_rank = 0;          // this rank's number among them
  bool has_own_cores = false;  // the launcher has bound each rank to its own cores
  std::string launcher;        // "mpirun", "srun", "torchrun"; empty: alone
  bool has_other_machines() const { return local_world < world; }
};

/// Reads the environment: OMPI_COMM_WORLD_* (mpirun), PMIX_RANK with SLURM_* (srun --mpi=pmix), RANK and WORLD_SIZE
/// (torchrun). kMisuse if it is inconsistent.
Result<LaunchedRank> launched_rank();

/// This build's library for communication between processes: "Open MPI", or "built without MPI".
const char* ranks_library();
bool has_ranks_library();

/// The transport for a process that was started like this. kUnsupported if this build has none.
Result<std::unique_ptr<Transport>> open_transport(const LaunchedRank& launched, double peer_timeout_s);

}  // namespace dlpipe::engine
