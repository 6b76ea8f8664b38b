// The third stage of a session: the model with the weights that it begins with, and its optimizer.
#pragma once

#include <memory>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/record/checkpoint.h"
#include "dlpipe/run/train/gradients/split_weights.h"
#include "dlpipe/run/train/session/data.h"
#include "dlpipe/run/train/session/options.h"
#include "dlpipe/run/use/weights_source.h"

namespace dlpipe::run {

/// At most one of them. None: the model's own, by the seed, and from the images where its record says so.
struct FirstWeights {
  const Checkpoint* checkpoint = nullptr;  // of the run that goes on
  const WeightsSource* init = nullptr;
};

/// On the run's device, with its frozen parameters and recomputed activations.
std::shared_ptr<engine::Module> build_model(const SessionOptions& options, const SessionData& data,
                                            const FirstWeights& weights = {}, const Notes& notes = {});

/// With --tensor-parallel and --pipeline-parallel: leaves this rank its part of `model`, which takes `data`. kMisuse where that
/// can't be split so.
SplitWeights split_model(const SessionOptions& options, const SessionData& data, engine::Module& model);

struct Optimization {
  std::unique_ptr<engine::Optimizer> optimizer;
  std::unique_ptr<engine::Ema> ema;  // null: no --ema
};
/// Refers to the model, which is split if it is to be. With `checkpoint`, where that stood; `weights` say what of it is this
/// rank's.
Optimization build_optimizer(const SessionOptions& options, engine::Module& model,
                             const Checkpoint* checkpoint = nullptr, const SplitWeights& weights = {});
engine::OptimizerArguments optimizer_arguments(const SessionOptions& options);

}  // namespace dlpipe::run
