// How this process was started: alone, or as one rank of many by mpirun or srun, as their environment says.
#pragma once

#include <memory>
#include <string>

#include "dlpipe/engine/collective/transport.h"

namespace dlpipe::engine {

struct LaunchedRank {
  int rank = 0;
  int world = 1;
  int local_world = 1;         // ranks on this machine, as far as the launcher says
  int local_rank = 0;          // this one's number among them
  bool has_own_cores = false;  // the launcher has bound each rank to some that no other has
  std::string launcher;        // "mpirun", "srun", "torchrun"; empty: alone
  bool has_other_machines() const { return local_world < world; }
};

/// Reads the environment: OMPI_COMM_WORLD_* (mpirun), PMIX_RANK with SLURM_* (srun --mpi=pmix), RANK and WORLD_SIZE
/// (torchrun). kMisuse where it contradicts itself.
Result<LaunchedRank> launched_rank();

/// What this build has to carry bytes between processes: "Open MPI", or "built without MPI".
const char* ranks_library();
bool has_ranks_library();

/// What carries the bytes for a process that was started so. kUnsupported where this build has nothing for it.
Result<std::unique_ptr<Transport>> open_transport(const LaunchedRank& launched, double peer_timeout_s);

}  // namespace dlpipe::engine
