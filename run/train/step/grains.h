// What the grains of a batch (decision 041) and the processes that compute them share in a step besides gradients: running
// statistics, the statistics of --sync-bn, losses. All belong to the training thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/module.h"
#include "engine/collective/collective.h"
#include "engine/core/kernel_table.h"
#include "engine/ops/batch_norm.h"
#include "run/train/step/train_step.h"

namespace dlpipe::run {

// A model's buffers (batch norms' running statistics) over a step whose batches are divided into grains: every grain starts
// with the step's initial values, and the step ends with the mean of the grains' results, summed along the same tree as the
// gradients. So they do not depend on which process computed which grain. Values that are not floating-point (counts of
// batches) are the same for all grains and are taken from one.
//
// With one grain in one process it does nothing. Belongs to the training thread.
class StatisticsMean {
 public:
  /// The f32 buffers are on one device, all others on the host. `ranks` null: this process is alone.
  StatisticsMean(std::vector<engine::NamedTensor> buffers, int64_t grains, engine::Collective* ranks);

  void begin_step(int64_t step);
  /// Restores the buffers to the grain's values from the batch before.
  void begin(int64_t grain);
  void end(int64_t grain);
  /// Throws if another rank does not respond. Waits for a device.
  void finish();

 private:
  /// All buffers' values. Those of f32 buffers are concatenated, on the buffers' device.
  struct Values {
    engine::Tensor numbers = {};
    std::vector<std::byte> others = {};
  };
  void read(Values& to) const;
  void write(const Values& from);

  std::vector<engine::NamedTensor> buffers_;
  Device* device_ = &cpu_device();  // of the f32 buffers
  int64_t numbers_ = 0;             // in all f32 buffers
  engine::Collective* ranks_;
  std::vector<Values> lanes_;  // one per grain; none: nothing to do
  int64_t step_ = 0;
};

// Runs the grains of a batch one layer at a time, for --sync-bn. Each grain has its own thread, but only one runs at a time,
// always in the same order. When a batch norm needs the sums of all grains, its grain waits and the next one runs; the last one
// adds up, along the tree of decision 041, in this process and then over the ranks. So the sums have the same bits, whichever
// process computes which grain.
//
// Owns a thread for each grain except the last, which runs on the calling thread; the calling thread's ledger has the time of
// all. The threads sleep between calls of run(). Belongs to the training thread; sum() and leads() are for bodies.
class GrainTurns final : public engine::StatisticsPeers {
 public:
  /// `grains` of this process, a power of two; `ranks` null: it is alone.
  GrainTurns(int64_t grains, engine::Collective* ranks);
  ~GrainTurns() override;
  GrainTurns(const GrainTurns&) = delete;
  GrainTurns& operator=(const GrainTurns&) = delete;

  using Work = std::function<void(int64_t grain)>;
  /// Calls body(grain) for every grain, and on_turn(grain) before it starts and whenever it continues. All bodies must call
  /// sum() equally often. Rethrows the first exception; the others then end where they wait. `what` is for messages.
  void run(const Work& body, const Work& on_turn, std::string what);

  void sum(std::span<float> values) override;
  int64_t parts() const override;
  bool leads() const override { return turn_now_ == 0; }

 private:
  void end_threads();
  void serve(int64_t grain);
  /// Runs a grain from its first turn to its end; stores its exception.
  void play(int64_t grain);
  void wait_for_turn(int64_t grain);
  void pass_on(int64_t from);
  void fail(std::exception_ptr failure);
  /// Replaces the grains' values by the sum of all.
  void add_up();

  const int64_t grains_;
  engine::Collective* const ranks_;
  std::vector<std::span<float>> given_;  // by grain, while it waits
  int64_t turn_now_ = 0;                 // the running grain: only its thread reads and writes this
  // For the current run(), set before the first turn.
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

// What every rank needs to know about a step besides gradients: the losses of all grains, whether one of them was not finite, and
// where. Gathered once per step.
class StepSummary {
 public:
  /// `grains`: those of this rank. `ranks` compute the other grains. `stages` compute other layers of these grains; the last
  /// stage has the losses. Null: there are none.
  StepSummary(int64_t grains, int64_t batches, engine::Collective* ranks,
              engine::Collective* stages = nullptr);

  void begin_step();
  /// The loss of a grain of a batch, and the layer where a number was not finite, if any.
  void add(int64_t batch, int64_t grain, double loss, const std::string& reason);
  /// Whether everything was finite so far, on this rank.
  bool is_finite() const { return reason_.empty(); }
  /// Extends `outcome` from this rank to all ranks: loss, samples, reason. The losses are added in the order of batches and
  /// grains, regardless of rank; the reason is that of the first grain that has one.
  void finish(StepOutcome& outcome);

 private:
  std::string write(int64_t samples) const;
  void take_from_last_stage(StepOutcome& outcome) const;

  int64_t grains_;
  int64_t batches_;
  engine::Collective* ranks_;
  engine::Collective* stages_;
  std::vector<double> losses_;  // [batch][grain]
  std::string reason_;
  int64_t reason_place_ = 0;  // the first batch and grain with a reason
};

}  // namespace dlpipe::run
