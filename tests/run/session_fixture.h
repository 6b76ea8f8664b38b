// Sessions with everything real, JPEGs, dataset, pipeline and engine: one small data set a test program and a
// config to vary.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "dlpipe/session.h"
#include "io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::test {

/// A few steps of a small network on all of `data`.
inline run::TrainConfig session_config(const SampleData& data, const std::string& out) {
  run::TrainConfig config;
  config.data = data.split;
  config.model = "lenet";
  config.augment = "pad_crop(32,4) hflip";
  config.batch = 16;
  config.epochs = 2;
  config.lr = 0.02;
  config.out = out;
  config.seed = 3;
  config.threads = 2;
  return config;
}

class SessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    data_ = make_sample_data(folder_->path(), 40);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static run::TrainConfig config(const std::string& out) { return session_config(data_, out); }

  inline static std::unique_ptr<ScratchFolder> folder_;
  inline static SampleData data_;
};

// Stops after some steps.
class StopAfter : public run::TrainObserver {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void on_step(int64_t step, double) override { stop = step == step_; }
  std::atomic<bool> stop{false};

 private:
  int64_t step_;
};

inline std::string text_of(const std::string& path) {
  return *formats::read_file(path);
}

}  // namespace dlpipe::test
