// Simulates ranks as threads of one process, for tests. Messages pass through memory after seeded random delays, and a
// rank can be made to hang at a given message.
//
//   SimulatedNetwork network(4, {.seed = 1, .most_delay_us = 200});
//   // on each of four threads:
//   auto ranks = value_or_throw(Collective::create([&] { return network.transport(rank); }));
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/collective/transport.h"

namespace dlpipe::engine {

struct SimulatedOptions {
  uint64_t seed = 0;
  int64_t most_delay_us = 0;  // each message is delayed by 0 to this many microseconds
  double peer_timeout_s = 60;
};

/// Must outlive its transports. Thread-safe.
class SimulatedNetwork {
 public:
  SimulatedNetwork(int world, const SimulatedOptions& options);
  ~SimulatedNetwork();
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  Result<std::unique_ptr<Transport>> transport(int rank);
  /// From exchange number `exchange` (from 0) on, the rank does not respond until end().
  void hang(int rank, int64_t exchange);
  /// Wakes up ranks that hang: their exchange returns an error.
  void end();

 private:
  class Shared;
  class RankTransport;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlpipe::engine
