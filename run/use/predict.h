// What eval and predict print with `--json` and `--predictions` (docs/json.md), and what predict draws.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/predictor.h"
#include "io/formats/json.h"
#include "run/use/loaded_model.h"
#include "run/use/seen_map.h"

namespace dlpipe::run {

/// Writes DIRECTORY/NAME.png, the image as the model saw it: for --task segment with its classes in colours, for --task detect
/// with its boxes (small images are enlarged). For segment also DIRECTORY/NAME.mask.png, the number of each pixel's class. NAME
/// is that of the file, numbered from 2 if there is a file of that name already: files are not replaced. Creates the directory.
/// One thread.
class PredictionDrawer {
 public:
  explicit PredictionDrawer(std::string directory) : directory_(std::move(directory)) {}
  /// The path of NAME.png; "" for an image that could not be used.
  Result<std::string> draw(const Prediction& prediction);

 private:
  std::string directory_;
  std::set<std::string> taken_;         // names of the files that were written
  std::map<std::string, int> numbers_;  // the last one given to each image name
};

/// Sets the thresholds of `options` from the text of --threshold: a number for all, NAME=T,NAME=T, or the file of an
/// `eval --report --json`, with the best threshold of each label.
Status read_thresholds(const std::string& text, PredictOptions& options);

/// The boxes in a detector's `outputs` for one image, in pixels of the image, the best first. Their score is at least their
/// class's threshold (no thresholds: all boxes). `made`: the size that the chain made.
std::vector<PredictedBox> predicted_boxes(const ModelState& state, augment::ImageSize made,
                                          const SeenMap& map, std::span<const float> outputs,
                                          std::span<const double> thresholds = {});

formats::Json to_json(const Evaluation& evaluation);
/// One sample of --predictions.
formats::Json to_json(const SampleAnswer& answer, const std::vector<std::string>& classes);
/// `drawing`: where it was drawn, or "".
formats::Json to_json(const Prediction& prediction, const std::string& drawing = {});
/// {"classes": [{"class", "support", "predicted", "precision", "recall", "f1", "top1"}], "macro", "weighted",
/// "undecided", "confusion_matrix": rows are labels, columns predictions}.
formats::Json to_json(const ClassReport& report, std::span<const std::string> names);

}  // namespace dlpipe::run
