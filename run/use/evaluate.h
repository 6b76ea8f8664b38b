// One pass of a model over a source of batches, with several views of each image if --tta requests them. Used for validation.
//
// Test-time augmentation: a model's logits averaged over views of the same images. It is part of the model's preprocessing:
// checkpoints record it, and eval and predict use it too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/config.h"
#include "dlpipe/metrics.h"
#include "dlpipe/module.h"
#include "dlpipe/report.h"
#include "engine/collective/collective.h"
#include "run/config/values.h"
#include "run/input/batch_input.h"
#include "run/task/task.h"

namespace dlpipe::run {

/// How much of an image's extent a model gets, in pixels: all of it, or 7/8 for crops.
int64_t seen_extent(int64_t extent, Views views);

/// Logits f32 [N,K] of pixels [N,H,W,C], without a blocked layout and without history. Runs on the calling thread and the
/// engine's threads.
engine::Tensor view_logits(engine::Module& model, const engine::Tensor& pixels, Views views);

// Evaluates a model on one pass over a source: mean loss and metrics over the rows that count.
//
// A row counts if its weight is not 0: padding of the last batch and records that could not be read are left out, and the
// records are reported. Runs on the calling thread, without a graph, with the model in eval mode (restored after).

struct EvalOptions {
  const TaskRecord* task = nullptr;  // null: one class each
  TaskState task_state = {};
  TargetSpec target = {};
  const LossRecord* loss = nullptr;
  LossArguments loss_arguments = {};  // label_smoothing 0, and all labels weigh the same
  std::vector<const engine::MetricRecord*> metrics;
  DType dtype = DType::kF32;
  bool tf32 = false;
  Views views = Views::kOne;
  /// Set by a signal: evaluation ends at the next batch with kCancelled. May be null. With ranks, one of them is enough.
  const std::atomic<bool>* stop = nullptr;
  /// Adds a batch to the tally of the metrics, from its logits on the host. Empty: the tally gets the rows as the model sees
  /// them. Not with grains.
  std::function<void(const Batch& batch, const engine::Tensor& logits, Tally& tally)> count = {};
  /// The number of equal parts of every batch, of all `ranks` together, as in `source`. They are evaluated separately and added
  /// up in order, so that the report has the same bits for any number of ranks.
  int64_t grains = 1;
  engine::Collective* ranks = nullptr;      // that evaluate other grains; null: none do
  engine::Collective* all_ranks = nullptr;  // that stop together; null: this process is alone
};

/// Figures of each label or target, with the `names` of the outputs, for tasks that have some.
struct OutputReport {
  std::vector<std::string> names;
  TaskReport figures = {};
};

/// Evaluates one epoch of `source` (from its position to last_in_epoch) on all ranks. All get the same report. Throws
/// Error.
EvalReport evaluate(engine::Module& model, BatchSource& source, const EvalOptions& options,
                    const LogitsObserver& observer = {}, OutputReport* report = nullptr);

}  // namespace dlpipe::run
