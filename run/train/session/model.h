// The third stage of a session: the model with its initial weights, and its optimizer.
#pragma once

#include <memory>

#include "dlpipe/module.h"
#include "run/record/checkpoint.h"
#include "run/train/gradients/split_weights.h"
#include "run/train/session/data.h"
#include "run/train/session/options.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

/// At most one of them is set. None: the model's own weights, drawn by the seed and, if its record says so, computed from images.
struct FirstWeights {
  const Checkpoint* checkpoint = nullptr;  // of the resumed run
  const WeightsSource* init = nullptr;
};

/// Builds the model on the run's device, with its frozen parameters and recomputed activations.
std::shared_ptr<engine::Module> build_model(const SessionOptions& options, const SessionData& data,
                                            const FirstWeights& weights = {}, const Notes& notes = {});

/// With --tensor-parallel and --pipeline-parallel: reduces `model` to this rank's part; `data` describes its input. kMisuse if
/// the model can't be split like this.
SplitWeights split_model(const SessionOptions& options, const SessionData& data, engine::Module& model);

struct Optimization {
  std::unique_ptr<engine::Optimizer> optimizer;
  std::unique_ptr<engine::Ema> ema;  // null: no --ema
};
/// Refers to the model, which must already be split if necessary. With `checkpoint`, restores its state; `weights` select this
/// rank's part.
Optimization build_optimizer(const SessionOptions& options, engine::Module& model,
                             const Checkpoint* checkpoint = nullptr, const SplitWeights& weights = {});
engine::OptimizerArguments optimizer_arguments(const SessionOptions& options);

}  // namespace dlpipe::run
