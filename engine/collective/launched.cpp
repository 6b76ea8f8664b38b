#include "engine/collective/launched.h"

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/collective/transport.h"

#ifdef DLPIPE_HAVE_MPI
#include "engine/collective/mpi.h"
#endif

namespace dlpipe::engine {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Result<int> number(const char* name, const std::string& text, int64_t low) {
  int64_t value = 0;
  if (!parse_int(text, &value) || value < low || value > (1 << 20))
    return misuse("ranks", name, "=", text,
                  " in the environment is not a valid rank or number of ranks; unset it");
  return static_cast<int>(value);
}

/// The number of tasks on this machine from Slurm's list for all machines, "4(x2),3"; nullopt if it is missing.
std::optional<int> slurm_tasks() {
  int64_t number = 0;
  parse_int(variable("SLURM_NODEID").value_or("0"), &number);
  for (const std::string& entry : split(variable("SLURM_STEP_TASKS_PER_NODE").value_or(""), ',')) {
    int64_t tasks = 0, machines = 1;
    const size_t bracket = entry.find("(x");
    if (!parse_int(entry.substr(0, bracket), &tasks) || tasks < 1 || tasks > (1 << 20)) return std::nullopt;
    if (bracket != std::string::npos &&
        !parse_int(std::string_view(entry).substr(bracket + 2, entry.size() - bracket - 3), &machines))
      return std::nullopt;
    if (number < machines) return static_cast<int>(tasks);
    number -= machines;
  }
  return std::nullopt;
}

/// Whether srun has bound each task of a machine to different cores (or core masks).
bool slurm_binds(int /*local_world*/) {
  const auto list = variable("SLURM_CPU_BIND_LIST");
  if (!list) return false;
  const std::vector<std::string> masks = split(*list, ',');
  return masks.size() > 1 && std::set(masks.begin(), masks.end()).size() == masks.size();
}

/// Whether mpirun has bound each rank to its own cores: up to Open MPI 4 it reports the binding, from 5 on this process has
/// fewer cores than mpirun. Ranks that are bound to one socket or NUMA node share it.
bool mpirun_binds(int local_world) {
  cpu_set_t own, launcher;
  if (sched_getaffinity(0, sizeof(own), &own) != 0) return false;
  int64_t all = 0;
  if (variable("OMPI_MCA_orte_bound_at_launch") == "1")
    all = sysconf(_SC_NPROCESSORS_ONLN);
  else if (sched_getaffinity(getppid(), sizeof(launcher), &launcher) == 0 &&
           CPU_COUNT(&own) < CPU_COUNT(&launcher))
    all = CPU_COUNT(&launcher);
  return int64_t{CPU_COUNT(&own)} * local_world <= all;
}

/// The environment of one launcher.
struct Launcher {
  const char* name;
  const char* rank;  // names of variables
  const char* world;
  const char* local_world;
  const char* local_rank;
  std::optional<int> (*counted_local_world)();  // used before that variable; null: there is no other source
  bool (*binds)(int local_world);               // to their own cores; null: it doesn't
};
constexpr Launcher kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", nullptr, mpirun_binds},
    {"srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID", slurm_tasks,
     slurm_binds},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", nullptr, nullptr},
};

/// The variable may be too large: SLURM_NTASKS_PER_NODE is the maximum of the allocation, and a smaller step
/// inherits it.
Result<int> local_world_of(const Launcher& launcher, int world) {
  int found = 1;
  if (launcher.counted_local_world != nullptr) {
    if (const auto counted = launcher.counted_local_world()) return std::min(*counted, world);
  }
  if (const auto local = variable(launcher.local_world)) {
    DLPIPE_ASSIGN_OR_RETURN(found, number(launcher.local_world, *local, 1));
  }
  return std::min(found, world);
}

}  // namespace

Result<LaunchedRank> launched_rank() {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = variable(launcher.rank), world = variable(launcher.world);
    if (!rank || !world) continue;
    LaunchedRank launched;
    DLPIPE_ASSIGN_OR_RETURN(launched.rank, number(launcher.rank, *rank, 0));
    DLPIPE_ASSIGN_OR_RETURN(launched.world, number(launcher.world, *world, 1));
    DLPIPE_ASSIGN_OR_RETURN(launched.local_world, local_world_of(launcher, launched.world));
    if (const auto local = variable(launcher.local_rank)) {
      DLPIPE_ASSIGN_OR_RETURN(launched.local_rank, number(launcher.local_rank, *local, 0));
    }
    if (launched.rank >= launched.world) {
      return misuse("ranks", launcher.rank, "=", *rank, " and ", launcher.world, "=", *world,
                    " in the environment contradict each other; unset both or start with ", launcher.name);
    }
    if (launched.world == 1) return LaunchedRank();
    launched.launcher = launcher.name;
    launched.has_own_cores = launcher.binds != nullptr && launcher.binds(launched.local_world);
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
    return misuse("ranks", "RANK and WORLD_SIZE show that torchrun started ", launched.world,
                  " processes; dlpipe's processes communicate over MPI: start them with mpirun -np ",
                  launched.world, ", or unset both variables to train in one process");
  }
#ifdef DLPIPE_HAVE_MPI
  return open_mpi_transport({.peer_timeout_s = peer_timeout_s});
#else
  (void)peer_timeout_s;
  return Status(
      ErrorCode::kUnsupported,
      concat("[ranks] ", launched.launcher, " started ", launched.world,
             " processes, but this dlpipe was built without MPI; install libopenmpi-dev and build it again"));
#endif
}

// One rank: there are no peers.

namespace {

class SingleTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Status exchange(int, std::span<const std::byte>, std::span<std::byte>) override {
    return {ErrorCode::kInternal, "[ranks] a single rank has no peer"};
  }
  void abort(std::string_view) noexcept override {}
  Status close() override { return {}; }
};

}  // namespace

std::unique_ptr<Transport> make_single_transport() {
  return std::make_unique<SingleTransport>();
}

}  // namespace dlpipe::engine
