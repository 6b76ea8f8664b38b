// Ranks that are threads, each with a simulated device of its own: as processes have that each have a GPU.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "engine/collective/nccl.h"
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

/// What sums of one network's ranks meet in.
struct SumsMeeting {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::map<int, std::vector<float>>> summands;  // of each sum, by rank
  bool is_over = false;                                       // a rank has left
};

/// DeviceSums of ranks that are threads: summands are added from the last rank to the first, an order of its own, by a kernel that
/// waits for those of all.
class ThreadSums final : public engine::DeviceSums {
 public:
  ThreadSums(SumsMeeting& meeting, engine::Collective& ranks) : meeting_(meeting), ranks_(ranks) {}

  Status all_reduce(float* values, size_t count, Stream& stream) override {
    const SimulatedDevice::Range range{values, count * sizeof(float)};
    SimulatedDevice::of(stream).launch(
        stream, "sum over ranks", {range}, {range},
        [&meeting = meeting_, rank = ranks_.rank(), world = ranks_.world(), sum = sums_++, values, count] {
          std::unique_lock lock(meeting.mutex);
          auto& summands = meeting.summands[sum];
          summands[rank].assign(values, values + count);
          meeting.changed.notify_all();
          meeting.changed.wait(
              lock, [&] { return meeting.is_over || summands.size() == static_cast<size_t>(world); });
          if (meeting.is_over) return;
          std::fill(values, values + count, 0.0f);
          for (auto one = summands.rbegin(); one != summands.rend(); ++one) {
            for (size_t i = 0; i < count; ++i) values[i] += one->second[i];
          }
        });
    return {};
  }
  Status check() override {
    const std::scoped_lock lock(meeting_.mutex);
    return meeting_.is_over ? Status(ErrorCode::kIo, "a rank has left") : Status();
  }
  void abort() noexcept override {
    const std::scoped_lock lock(meeting_.mutex);
    meeting_.is_over = true;
    meeting_.changed.notify_all();
  }

 private:
  SumsMeeting& meeting_;
  engine::Collective& ranks_;
  int sums_ = 0;
};

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
