#include "base/threads.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

namespace dlpipe {
namespace {

size_t allowed() {
  return tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
}

// oneTBB itself takes the least.
TEST(WorkerLimit, TheLargestHolds) {
  const size_t without = allowed();
  {
    const WorkerLimit many(static_cast<int>(without) + 3);
    {
      const WorkerLimit one(1);
      EXPECT_EQ(allowed(), without + 3);
    }
    EXPECT_EQ(allowed(), without + 3);
  }
  EXPECT_EQ(allowed(), without);
  const WorkerLimit one(1);
  EXPECT_EQ(allowed(), 1u);
}

}  // namespace
}  // namespace dlpipe
