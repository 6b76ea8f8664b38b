// The grains of a batch one layer at a time, for --sync-bn: each grain runs on a thread of its own, but only one of them
// at a time and always in the same order. Where a batch norm wants the sums of all grains, a grain waits and the next one
// has its turn; the last one adds up, along the tree of decision 041, in this process and then over the ranks. So the
// sums have the same bits whoever computes which grain.
//
// Owns a thread per grain but the last, which is the calling thread's: spans of its ledger hold the time of all. Between
// run()s the threads sleep. Belongs to the training thread; sum() and leads() are for bodies.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/ops/batch_statistics.h"

namespace dlpipe::run {

class GrainTurns final : public engine::StatisticsPeers {
 public:
  /// `grains` of this process, a power of two; `ranks` null: it is alone.
  GrainTurns(int64_t grains, engine::Collective* ranks);
  ~GrainTurns() override;
  GrainTurns(const GrainTurns&) = delete;
  GrainTurns& operator=(const GrainTurns&) = delete;

  using Work = std::function<void(int64_t grain)>;
  /// body(grain) for every grain; on_turn(grain) before it begins and whenever it goes on. All bodies call sum() equally
  /// often. Rethrows what the first of them threw; the others then end where they wait. `what` is for messages.
  void run(const Work& body, const Work& on_turn, std::string what);

  void sum(std::span<float> values) override;
  int64_t parts() const override;
  bool leads() const override { return turn_now_ == 0; }

 private:
  void end_threads();
  void serve(int64_t grain);
  /// A grain from its first turn to its end; keeps what it throws.
  void play(int64_t grain);
  void wait_for_turn(int64_t grain);
  void pass_on(int64_t from);
  void fail(std::exception_ptr failure);
  /// What the grains have handed in becomes the sum of all.
  void add_up();

  const int64_t grains_;
  engine::Collective* const ranks_;
  std::vector<std::span<float>> given_;  // by grain, while it waits
  int64_t turn_now_ = 0;                 // the running grain: written and read by whose turn it is
  // Of this run(): set before the first turn.
  const Work* body_ = nullptr;
  const Work* on_turn_ = nullptr;
  std::string what_;
  engine::KernelTable* kernels_ = nullptr;
  uint64_t first_node_ = 0;

  Mutex mutex_;
  std::vector<std::condition_variable> changed_;  // by grain
  int64_t turn_ DLPIPE_GUARDED_BY(mutex_) = -1;
  int64_t running_ DLPIPE_GUARDED_BY(mutex_) = 0;  // grains that have not ended
  std::vector<char> has_ended_ DLPIPE_GUARDED_BY(mutex_);
  std::exception_ptr failure_ DLPIPE_GUARDED_BY(mutex_);
  int64_t round_ DLPIPE_GUARDED_BY(mutex_) = 0;
  bool ending_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dlpipe::run
