// A trained model from a checkpoint alone: what eval and predict begin with. Throws Error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/checkpoint.h"
#include "dlpipe/run/evaluate.h"
#include "dlpipe/run/registries.h"

namespace dlpipe::run {

struct LoadedModel {
  std::shared_ptr<engine::Module> model;  // in eval mode, with the averaged weights where there are some
  ModelState state;
  std::string directory;  // of the checkpoint
  int64_t step = 0;
};
/// `path` is a checkpoint, a file in one, or a run directory (its best, else its last checkpoint).
LoadedModel load_model(const std::string& path, const Registries& registries = {});

struct EvaluateOptions {
  std::string checkpoint;
  std::string data;  // a dataset, or a split, of which "val" is taken
  int64_t batch = 64;
  int threads = 0;  // 0: what the process may use
  int64_t limit = -1;
  std::string device = "cpu";
  bool tf32 = false;  // precision.h
  const std::atomic<bool>* stop = nullptr;
};
struct Evaluation {
  EvalReport report;
  LoadedModel model;
  std::string data;  // the dataset that was taken
};
/// Loss and metrics of a checkpoint on a dataset, preprocessed as the checkpoint says; the class tables must
/// agree.
Evaluation evaluate_checkpoint(const EvaluateOptions& options, const Registries& registries = {},
                               const LogitsObserver& observer = {});

}  // namespace dlpipe::run
