#include <gtest/gtest.h>

#include <set>
#include <string>

#include "dlpipe/op.h"

namespace dlpipe::engine {

TEST(OpTable, EveryRowHasANameOfItsOwnSamplesAndAReferenceKernel) {
  std::set<std::string> names;
  ASSERT_FALSE(op_table().empty());
  for (const OpRow& row : op_table()) {
    SCOPED_TRACE(row.record->name);
    EXPECT_TRUE(names.insert(row.record->name).second);
    EXPECT_NE(row.record->infer, nullptr);
    ASSERT_NE(row.record->samples, nullptr);
    EXPECT_FALSE(row.record->samples().empty());
    const Kernels* reference = row.kernels[static_cast<int>(Backend::kReference)];
    ASSERT_NE(reference, nullptr);
    EXPECT_NE(reference->forward, nullptr);
  }
}

}  // namespace dlpipe::engine
