#include "engine/collective/launched.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace dlpipe::engine {
namespace {

class LaunchedTest : public testing::Test {
 protected:
  using Variables = std::vector<std::pair<const char*, const char*>>;
  ~LaunchedTest() override { forget(); }

  /// What these variables, and none of the other launchers', say.
  static Result<LaunchedRank> with(const Variables& variables) {
    forget();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    return launched_rank();
  }
  static LaunchedRank rank_with(const Variables& variables) { return value_or_throw(with(variables)); }

 private:
  static void forget() {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_orte_bound_at_launch", "PMIX_RANK", "SLURM_STEP_NUM_TASKS",
          "SLURM_NTASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "SLURM_LOCALID",
          "SLURM_CPU_BIND_LIST", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"})
      unsetenv(name);
  }
};

TEST_F(LaunchedTest, EachLauncherHasItsVariables) {
  LaunchedRank one = rank_with({{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_EQ(one.launcher, "mpirun");
  EXPECT_EQ(one.rank, 2);
  EXPECT_EQ(one.world, 4);
  EXPECT_EQ(one.local_world, 2);
  EXPECT_EQ(one.local_rank, 1);
  EXPECT_FALSE(one.has_own_cores);
  one = rank_with({{"PMIX_RANK", "0"},
                   {"SLURM_STEP_NUM_TASKS", "3"},
                   {"SLURM_NTASKS_PER_NODE", "3"},
                   {"SLURM_LOCALID", "2"}});
  EXPECT_EQ(one.launcher, "srun");
  EXPECT_EQ(one.rank, 0);
  EXPECT_EQ(one.world, 3);
  EXPECT_EQ(one.local_world, 3);
  EXPECT_EQ(one.local_rank, 2);
  EXPECT_FALSE(one.has_own_cores);
  one = rank_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(one.launcher, "torchrun");
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.local_world, 1) << "nobody said";
}

TEST_F(LaunchedTest, SlurmSaysHowManyTasksEachMachineHas) {
  const auto local_world = [](const char* list, const char* machine) {
    return rank_with({{"PMIX_RANK", "1"},
                      {"SLURM_STEP_NUM_TASKS", "11"},
                      {"SLURM_STEP_TASKS_PER_NODE", list},
                      {"SLURM_NODEID", machine}})
        .local_world;
  };
  EXPECT_EQ(local_world("11", "0"), 11);
  EXPECT_EQ(local_world("4(x2),3", "1"), 4);
  EXPECT_EQ(local_world("4(x2),3", "2"), 3);
  for (const char* const list : {"4(x2),3", "", "x", "4(x", "4(x)", "0"})
    EXPECT_EQ(local_world(list, "3"), 1) << list << " doesn't say";
}

// srun -N2 -n2 in a job of sbatch --ntasks-per-node=8.
TEST_F(LaunchedTest, WhatASlurmJobHasRoomForIsNotWhatAStepOfItHas) {
  const Variables step = {{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS_PER_NODE", "8"}};
  EXPECT_EQ(rank_with(step).local_world, 2) << "never more than there are";
  Variables counted = step;
  counted.emplace_back("SLURM_STEP_TASKS_PER_NODE", "1(x2)");
  const LaunchedRank one = rank_with(counted);
  EXPECT_EQ(one.local_world, 1);
  EXPECT_TRUE(one.has_other_machines());
}

TEST_F(LaunchedTest, RanksThatSlurmBoundHaveCoresOfTheirOwn) {
  const auto has_own_cores = [](const char* list) {
    return rank_with({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_CPU_BIND_LIST", list}})
        .has_own_cores;
  };
  EXPECT_TRUE(has_own_cores("0x0000000F,0x000000F0"));
  EXPECT_FALSE(has_own_cores("0x000000FF,0x000000FF")) << "--cpu-bind=sockets on one socket";
  EXPECT_FALSE(has_own_cores("0x000000FF"));
  EXPECT_FALSE(has_own_cores(""));
}

// Open MPI has no variable for it from version 5 on.
TEST_F(LaunchedTest, RanksWithFewerCoresThanTheirLauncherHaveThemForThemselves) {
  const auto has_own_cores = [] {
    return rank_with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).has_own_cores;
  };
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs 2 cores";
  const auto in_a_child = [&](bool is_bound) {
    const pid_t child = fork();
    if (child == 0) {
      cpu_set_t own = all;
      for (int core = 0; is_bound && CPU_COUNT(&own) > 1; ++core) CPU_CLR(core, &own);
      if (sched_setaffinity(0, sizeof(own), &own) != 0) _exit(2);
      _exit(has_own_cores() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(in_a_child(true), 1);
  EXPECT_EQ(in_a_child(false), 0);
}

// mpirun's default for more than two processes: all of a socket or a NUMA node have its cores.
TEST_F(LaunchedTest, RanksThatAreBoundToTheSameCoresShareThem) {
  const auto has_own_cores = [](const char* local_world) {
    return rank_with({{"OMPI_COMM_WORLD_RANK", "0"},
                      {"OMPI_COMM_WORLD_SIZE", "1024"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", local_world},
                      {"OMPI_MCA_orte_bound_at_launch", "1"}})
        .has_own_cores;
  };
  EXPECT_TRUE(has_own_cores("1"));
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
  const int64_t ranks = sysconf(_SC_NPROCESSORS_ONLN) / CPU_COUNT(&own);
  EXPECT_TRUE(has_own_cores(std::to_string(ranks).c_str()));
  EXPECT_FALSE(has_own_cores(std::to_string(ranks + 1).c_str()));
}

TEST_F(LaunchedTest, RanksElsewhereAreSeen) {
  const auto has_other_machines = [](const char* local_world) {
    return rank_with({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", local_world}})
        .has_other_machines();
  };
  EXPECT_TRUE(has_other_machines("2"));
  EXPECT_FALSE(has_other_machines("4"));
  EXPECT_FALSE(rank_with({}).has_other_machines());
}

TEST_F(LaunchedTest, AProcessIsAloneWithoutThem) {
  const std::vector<Variables> alone = {{},
                                        {{"RANK", "0"}},
                                        {{"RANK", ""}, {"WORLD_SIZE", "2"}},
                                        {{"RANK", "0"}, {"WORLD_SIZE", ""}},
                                        {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}};
  for (const Variables& variables : alone) {
    const LaunchedRank one = rank_with(variables);
    EXPECT_EQ(one.world, 1);
    EXPECT_EQ(one.launcher, "");
  }
}

TEST_F(LaunchedTest, VariablesThatSayNothingPossibleAreNamed) {
  const auto message = [](const char* rank, const char* world) {
    return with({{"RANK", rank}, {"WORLD_SIZE", world}}).status().message();
  };
  EXPECT_EQ(message("0", "1048576"), "");
  for (const auto& [rank, world] : {std::pair{"-1", "2"}, {"x", "2"}, {"0", "0"}, {"0", "1048577"}})
    EXPECT_NE(message(rank, world).find("is not a valid rank or number of ranks; unset it"),
              std::string::npos)
        << rank << " of " << world;
  EXPECT_NE(message("2", "2").find("RANK=2 and WORLD_SIZE=2 in the environment contradict each other"),
            std::string::npos)
      << message("2", "2");
}

// What Open MPI brings keeps programs from starting for up to 0.2 s: one that is no rank hasn't loaded it.
TEST_F(LaunchedTest, AProcessAloneHasNoMpi) {
  EXPECT_EQ(value_or_throw(open_transport(rank_with({}), 1))->world(), 1);
  std::ifstream maps("/proc/self/maps");
  std::string libraries;
  for (std::string line; std::getline(maps, line);) libraries += line + '\n';
  EXPECT_NE(libraries.find("/libc.so"), std::string::npos);
  EXPECT_EQ(libraries.find("/libmpi"), std::string::npos) << libraries;
}

}  // namespace
}  // namespace dlpipe::engine
