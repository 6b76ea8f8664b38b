// Tests over datasets that are written once for all tests of a suite.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tests/io/data/temp_dir.h"

namespace dlpipe::pipeline {

/// Base of a fixture `Suite`, whose public write_datasets() fills dir_.
template <class Suite>
class DatasetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<data::TempDir>();
    Suite::write_datasets();
  }
  static void TearDownTestSuite() { dir_.reset(); }

  static inline std::unique_ptr<data::TempDir> dir_;
};

}  // namespace dlpipe::pipeline
