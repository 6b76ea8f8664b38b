// The simulated device's violations as failures of the test that they happened in.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/device/simulated_device.h"

namespace dlpipe {

/// Fails the running test with all violations since the last look. Wait for the device's streams first: some
/// are seen only when a copy happens.
inline void expect_no_violations(SimulatedDevice& device) {
  EXPECT_EQ(device.take_violations(), std::vector<std::string>{});
}

}  // namespace dlpipe
