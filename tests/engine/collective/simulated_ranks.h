// Runs one function per rank, each on a thread of its own, over a simulated network.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/collective/collective.h"
#include "engine/collective/simulated.h"

namespace dlpipe::test {

/// Until all have returned.
inline void on_ranks(engine::SimulatedNetwork& network, int world,
                     const std::function<void(engine::Collective& ranks)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&network, &body, rank] {
      auto ranks = engine::Collective::create([&] { return network.transport(rank); });
      ASSERT_TRUE(ranks.ok()) << ranks.status().message();
      body(**ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dlpipe::test
