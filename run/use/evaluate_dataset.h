// A trained model judged on a dataset: `dlpipe eval`. Throws Error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/run/use/class_report.h"
#include "dlpipe/run/use/evaluate.h"
#include "dlpipe/run/use/loaded_model.h"

namespace dlpipe::run {

/// What the model answered to one sample of the dataset.
struct SampleAnswer {
  int64_t id = 0;    // the sample's number
  std::string path;  // of the file that it came from; empty where the dataset doesn't say
  int64_t label = 0;
  std::vector<size_t> top;            // classes, the most probable first; empty where all logits are NaN
  std::vector<double> probabilities;  // of those
  double loss = 0;                    // -log of the label's probability
};

struct EvaluateOptions {
  ModelOptions model = {};
  std::string data = {};   // a dataset, or a folder of splits
  std::string split = {};  // of that folder; empty: "val"
  int64_t batch = 64;
  int threads = 0;  // 0: what the process may use
  int64_t limit = -1;
  std::string device = "cpu";
  bool tf32 = false;    // precision.h
  bool report = false;  // also Evaluation::classes
  int64_t top = 5;      // classes in a SampleAnswer
  /// Called on this thread: for each sample that counts, in the dataset's order; and after each batch, with
  /// the samples that are done and all that there are. May be empty.
  std::function<void(const SampleAnswer&, const std::vector<std::string>& classes)> on_sample = {};
  std::function<void(int64_t done, int64_t total)> on_progress = {};
  /// Called once, before the first batch, with lines for a person.
  std::function<void(const std::string&)> on_note = {};
  const std::atomic<bool>* stop = nullptr;
};
struct Evaluation {
  EvalReport report;
  std::optional<ClassReport> classes;
  LoadedModel model;
  std::string data;    // the dataset that was taken
  std::string subset;  // what `limit` left of it; empty: all
};
/// Loss and metrics of a model on a dataset, preprocessed as its checkpoint says; the class tables must agree.
Evaluation evaluate_dataset(const EvaluateOptions& options, const Registries& registries = {},
                            const LogitsObserver& observer = {});

}  // namespace dlpipe::run
