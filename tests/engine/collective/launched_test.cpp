#include "dlpipe/engine/collective/launched.h"

#include <gtest/gtest.h>

#include <cstdlib>
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
          "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"})
      unsetenv(name);
  }
};

TEST_F(LaunchedTest, EachLauncherHasItsVariables) {
  LaunchedRank one = rank_with({{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_MCA_orte_bound_at_launch", "1"}});
  EXPECT_EQ(one.launcher, "mpirun");
  EXPECT_EQ(one.rank, 2);
  EXPECT_EQ(one.world, 4);
  EXPECT_EQ(one.local_world, 2);
  EXPECT_EQ(one.local_rank, 1);
  EXPECT_TRUE(one.has_own_cores);
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
    EXPECT_NE(message(rank, world).find("is no number of a rank or of ranks; unset it"), std::string::npos)
        << rank << " of " << world;
  EXPECT_NE(message("2", "2").find("RANK=2 and WORLD_SIZE=2 in the environment contradict each other"),
            std::string::npos)
      << message("2", "2");
}

}  // namespace
}  // namespace dlpipe::engine
