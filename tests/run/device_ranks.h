// Ranks that are threads, each with a simulated device of its own: as processes have that each have a GPU.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>

#include "tests/base/device/violations.h"
#include "tests/engine/collective/simulated_ranks.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::test {

/// Devices live as long as their threads' streams.
inline SimulatedDevice& device_of_rank(int rank) {
  static std::array<SimulatedDevice, 4> devices = {
      SimulatedDevice(std::chrono::microseconds(2), 1), SimulatedDevice(std::chrono::microseconds(2), 2),
      SimulatedDevice(std::chrono::microseconds(2), 3), SimulatedDevice(std::chrono::microseconds(2), 4)};
  return devices.at(static_cast<size_t>(rank));
}

/// Runs `body` once per rank, of up to four; a single rank has no others (null).
inline void on_ranks_with_devices(
    int world, const std::function<void(engine::Collective* ranks, SimulatedDevice& device)>& body) {
  engine::SimulatedNetwork network(world, {.seed = 7, .most_delay_us = 50});
  on_ranks(network, world, [&](engine::Collective& ranks) {
    SimulatedDevice& device = device_of_rank(ranks.rank());
    {
      const engine::OnSimulatedDevice here(device);
      body(world > 1 ? &ranks : nullptr, device);
    }
    EXPECT_TRUE(ranks.close().ok());
    expect_no_violations(device);
  });
}

}  // namespace dlpipe::test
