#include "dlpipe/engine/collective/launched.h"

#include <cstdlib>
#include <optional>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#ifdef DLPIPE_HAVE_MPI
#include "dlpipe/engine/collective/mpi.h"
#endif

namespace dlpipe::engine {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

/// The names of the variables of one launcher.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_world;
  const char* local_rank;
};
constexpr Launcher kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
};

Result<int> number(const char* name, const std::string& text, int64_t low) {
  int64_t value = 0;
  if (!parse_int(text, &value) || value < low || value > (1 << 20))
    return misuse("ranks", name, "=", text,
                  " in the environment is no number of a rank or of ranks; unset it");
  return static_cast<int>(value);
}

}  // namespace

Result<LaunchedRank> launched_rank() {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = variable(launcher.rank), world = variable(launcher.world);
    if (!rank || !world) continue;
    LaunchedRank launched;
    DLPIPE_ASSIGN_OR_RETURN(launched.rank, number(launcher.rank, *rank, 0));
    DLPIPE_ASSIGN_OR_RETURN(launched.world, number(launcher.world, *world, 1));
    if (const auto local = variable(launcher.local_world)) {
      DLPIPE_ASSIGN_OR_RETURN(launched.local_world, number(launcher.local_world, *local, 1));
    }
    if (const auto local = variable(launcher.local_rank)) {
      DLPIPE_ASSIGN_OR_RETURN(launched.local_rank, number(launcher.local_rank, *local, 0));
    }
    if (launched.rank >= launched.world) {
      return misuse("ranks", launcher.rank, "=", *rank, " and ", launcher.world, "=", *world,
                    " in the environment contradict each other; unset both or start with ", launcher.name);
    }
    if (launched.world == 1) return LaunchedRank();
    launched.launcher = launcher.name;
    launched.has_own_cores = variable("OMPI_MCA_orte_bound_at_launch") == "1";
    return launched;
  }
  return LaunchedRank();
}

bool has_ranks_library() {
#ifdef DLPIPE_HAVE_MPI
  return true;
#else
  return false;
#endif
}

const char* ranks_library() {
  return has_ranks_library() ? "Open MPI" : "built without MPI";
}

Result<std::unique_ptr<Transport>> open_transport(const LaunchedRank& launched, double peer_timeout_s) {
  if (launched.world == 1) return make_single_transport();
  if (launched.launcher == "torchrun") {
    return misuse("ranks", "RANK and WORLD_SIZE say that torchrun started ", launched.world,
                  " processes; dlpipe's talk over MPI: start them with mpirun -np ", launched.world,
                  ", or unset both variables to train in one process");
  }
#ifdef DLPIPE_HAVE_MPI
  return open_mpi_transport({.peer_timeout_s = peer_timeout_s});
#else
  (void)peer_timeout_s;
  return Status(
      ErrorCode::kUnsupported,
      concat("[ranks] ", launched.launcher, " started ", launched.world,
             " processes, and this dlpipe was built without MPI; install libopenmpi-dev and build it again"));
#endif
}

}  // namespace dlpipe::engine
