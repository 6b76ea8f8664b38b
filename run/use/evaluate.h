// Judging a model on one pass over a source: mean loss and metrics over the rows that count.
//
// A row counts when its weight isn't 0: padding of the last batch and records that could not be read are left
// out, and the records are reported. Runs on the calling thread, without a graph, with the model in eval mode
// (restored after).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/metrics/metrics.h"
#include "dlpipe/run/config/loss.h"
#include "dlpipe/run/use/views.h"

namespace dlpipe::run {

struct EvalOptions {
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};  // none: validation smooths no labels
  std::vector<const engine::MetricRecord*> metrics;
  DType dtype = DType::kF32;
  bool tf32 = false;
  Views views = Views::kOne;
  /// Set by a signal: evaluation ends at the next batch with kCancelled. May be null. With ranks, of any of them.
  const std::atomic<bool>* stop = nullptr;
  /// Equal parts of every batch that are judged by themselves and added up in their order, so that the report is the
  /// same bits however many ranks share them; of all `ranks` together, as `source` was opened with.
  int64_t grains = 1;
  engine::Collective* ranks = nullptr;      // that judge other grains; null: none do
  engine::Collective* all_ranks = nullptr;  // that stop together; null: this process is alone
};

struct EvalReport {
  int64_t samples = 0;  // that counted
  int64_t dropped = 0;  // records that could not be used
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics;  // as asked for
  double seconds = 0;

  /// The value of a metric, or of kLossMetric; NaN when it wasn't asked for.
  double value(std::string_view name) const;
};

/// Logits f32 [N,K] of a batch's rows, in order; rows of weight 0 are given too.
using LogitsObserver =
    std::function<void(const Batch& batch, std::span<const float> logits, int64_t classes)>;

/// One epoch of `source` (from where it stands to its last_in_epoch), of all ranks: all get the same report. Throws
/// Error.
EvalReport evaluate(engine::Module& model, BatchSource& source, const EvalOptions& options,
                    const LogitsObserver& observer = {});

}  // namespace dlpipe::run
