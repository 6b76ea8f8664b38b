// Small datasets and a loader's options for them.
#pragma once

#include <string>

#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {

class LoaderTest : public DatasetTest<LoaderTest> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "varied", {.count = 30});
    write_drawn_dataset(*dir_ / "square", {.count = 10, .size = 24, .tensor_field = true});
    write_drawn_dataset(*dir_ / "one", {.count = 1, .size = 24});
  }

 protected:
  static LoaderOptions options(const std::string& name = "varied") {
    LoaderOptions options;
    options.data = *dir_ / name;
    options.augment = name == "varied" ? "rrc(32)" : "";
    options.batch = 4;
    options.threads = 2;
    options.epochs = 1;
    return options;
  }
  static std::string error_of(const LoaderOptions& options) {
    const auto loader = Loader::open(options);
    EXPECT_FALSE(loader.ok());
    EXPECT_EQ(loader.status().code(), ErrorCode::kMisuse) << loader.status().message();
    return loader.status().message();
  }
};

}  // namespace dlpipe::pipeline
