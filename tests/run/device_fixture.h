// Sessions on the simulated device with CUDA's kernels: one device and one small data set a test program, a
// config to vary, and the device's violations as failures.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "dlpipe/session.h"
#include "engine/core/device_memory.h"
#include "tests/base/device/violations.h"
#include "tests/engine/cuda/simulated.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::test {

class DeviceFixture : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    data_ = make_sample_data(folder_->path(), 10);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void TearDown() override {
    engine::synchronize(simulated());
    expect_no_violations(simulated());
  }
  static run::TrainConfig config(const std::string& out, const std::string& device) {
    run::TrainConfig config = session_config(data_, out);
    config.device = device;
    return config;
  }
  static run::Registries registries() {
    run::Registries registries;
    registries.devices = {&simulated()};
    return registries;
  }

  engine::SimulatedCuda kernels_{simulated()};
  inline static std::unique_ptr<ScratchFolder> folder_;
  inline static SampleData data_;
};

}  // namespace dlpipe::test
