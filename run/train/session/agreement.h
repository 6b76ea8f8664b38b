// Agreement among the processes of one run: at the start, that they will compute the same run; at every step, whether to stop,
// the time, and which samples were bad; at a checkpoint, that all of its parts are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/batch.h"
#include "engine/collective/collective.h"
#include "run/record/checkpoint.h"
#include "run/train/session/data.h"
#include "run/train/session/options.h"
#include "run/train/step/train_step.h"

namespace dlpipe::run {

/// `prepared`: the status of this rank's own preparation. Throws on all ranks if one of them failed, with that rank's error, or
/// if one differs from the first in an option, the kind of its paths, its build or its instruction set: kMisuse names the
/// difference, with both values. Only rank 0's error has a message. Call it before any other collective operation.
void check_options_agree(const SessionOptions& options, const Status& prepared, engine::Collective& ranks);
/// The same for the datasets, the pipeline and all initial weights (`weights_hash`).
void check_data_agree(const SessionData& data, uint64_t weights_hash, const Status& prepared,
                      engine::Collective& ranks);

// Decisions that must be the same on all ranks of a run: whether to stop, the time, and the bad samples. Ranks exchange them once
// per step; a single process uses its own values.
//
// Belongs to the training thread.
class Agreement {
 public:
  /// `source` gets the bad samples that other ranks found.
  Agreement(engine::RankGrid ranks, BatchSource& source) : ranks_(std::move(ranks)), source_(source) {}

  /// `stop` may be null; `what` is for messages. Throws if another rank does not respond, if `source` has found too many bad
  /// samples, and if ranks that compute the same samples could not read the same ones.
  void ask(const std::atomic<bool>* stop, std::span<const StepOutcome::BadSample> bad,
           const std::string& what);
  /// Whether any rank should stop, as of the last exchange; for a single process: now.
  bool is_stopped() const { return ranks_.all == nullptr ? stop_ != nullptr && stop_->load() : stopped_; }
  /// Records that one of the ranks should stop. Call it on all ranks.
  void note_stop() { stopped_ = true; }
  /// The first rank's time at the last exchange, in now_ns()'s clock; for a single process: now.
  int64_t time_ns() const;
  /// The source's state combined with all ranks': their grains' chains and bad samples.
  SourceState whole_state() const;

 private:
  engine::RankGrid ranks_;
  BatchSource& source_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
  int64_t time_ns_ = 0;
};

/// Writes the optimizer's state into a checkpoint of several processes. All ranks must call it: each writes its part, `own`, into
/// rank 0's directory, or learns that there is none; other ranks' `directory` is ignored. Returns all files on all ranks, or,
/// also on all ranks, an error that names the rank that could not write.
Result<FileDescriptions> write_optimizer_parts(engine::Collective& ranks,
                                               const Result<std::string>& directory,
                                               const std::vector<engine::NamedTensor>& own);

}  // namespace dlpipe::run
