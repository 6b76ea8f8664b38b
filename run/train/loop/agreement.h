// What all ranks of a run decide alike, though each knows something else: whether somebody was told to stop, what time
// it is, which bad samples there were. Asked once per step; alone, everything is this process's own.
//
// Belongs to the training thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/engine/collective/rank_grid.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class Agreement {
 public:
  /// `source` learns of the bad samples that others met.
  Agreement(engine::RankGrid ranks, BatchSource& source) : ranks_(std::move(ranks)), source_(source) {}

  /// `stop` may be null; `what` is for messages. Throws where another rank doesn't answer, where `source` has met too
  /// many bad samples, and where ranks that compute the same samples could not read the same ones.
  void ask(const std::atomic<bool>* stop, std::span<const StepOutcome::BadSample> bad,
           const std::string& what);
  /// Whether any rank was told to stop, when last asked; alone: now.
  bool is_stopped() const { return ranks_.all == nullptr ? stop_ != nullptr && stop_->load() : stopped_; }
  /// All ranks know otherwise that one of them was told to stop.
  void note_stop() { stopped_ = true; }
  /// As now_ns() counts: the first rank's time when last asked; alone: now.
  int64_t time_ns() const;
  /// What the source's state is with all ranks': their grains' chains and bad samples.
  SourceState whole_state() const;

 private:
  engine::RankGrid ranks_;
  BatchSource& source_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
  int64_t time_ns_ = 0;
};

}  // namespace dlpipe::run
