// Classes for image files, from a model's weights alone. The same decoder, chain and model as evaluation, so that
// a dataset made from the files gives the same probabilities.
//
// A Predictor owns its model; one thread calls it, decoding runs on the engine's threads. Throws Error,
// except for files that can't be read or decoded, and where a logit is NaN or infinity, which gives no probabilities: those
// answer a message.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/run/use/loaded_model.h"
#include "dlpipe/run/use/picture_list.h"

namespace dlpipe::run {

struct Prediction {
  std::string path;
  std::vector<std::pair<std::string, double>> top;  // class and probability, the most probable first
  std::string error;  // not empty: the file could not be used, or there are no probabilities; and why
};

struct PredictOptions {
  ModelOptions model = {};
  int64_t batch = 64;
  int threads = 0;  // 0: what the process may use
  int64_t top = 5;
  std::string device = "cpu";
  int64_t max_pixels = 178'956'970;
};

class Predictor {
 public:
  explicit Predictor(const PredictOptions& options, const Registries& registries = {});

  /// Hands predictions to `sink` in the order of `files`, each as soon as its batch is done, until it answers
  /// false. Batches are no larger than there are files.
  void predict(std::span<const PictureFile> files, const std::function<bool(const Prediction&)>& sink);
  /// The same of at most one batch, which comes piece by piece. It is computed in a batch of a power of two, so that of pieces
  /// of any number few kernels are chosen. False once the sink wants no more.
  bool predict_piece(std::span<const PictureFile> files, const std::function<bool(const Prediction&)>& sink);
  /// Of so many pictures, how many are computed at once: the batches of append_probabilities, but for the last one.
  size_t rows_at_once(size_t pictures) const;
  /// Probabilities of all classes of one batch, [files, classes], appended to `all`, for callers who hold no more than a batch
  /// and look between batches whether they are to go on. `rows`: what rows_at_once says, of the last batch, too, so that a
  /// kernel is chosen once. Throws Error for the first that can't be used or has none, by its place, counted from `begin`.
  void append_probabilities(std::span<const PictureFile> files, size_t rows, size_t begin,
                            std::vector<float>& all);
  /// As predict(), of one batch of `rows` rows, of which the first have files; false once the sink wants no more.
  bool predict_batch(std::span<const PictureFile> files, int64_t rows,
                     const std::function<bool(const Prediction&)>& sink);
  const LoadedModel& model() const { return model_; }

 private:
  /// Logits f32 [batch, classes]: the first rows are those of `files`. `errors` gets one for each, ok where it is fine.
  engine::Tensor batch_logits(std::span<const PictureFile> files, int64_t batch, std::vector<Status>& errors);
  /// Of a file with `error`, if that isn't empty, or of its logits.
  Prediction prediction_of(const std::string& path, const std::string& error,
                           std::span<const float> logits) const;
  /// Reads, decodes and augments one file into `pixels` [H,W,C].
  Status load_image(const PictureFile& file, uint8_t* pixels) const;

  PredictOptions options_;
  LoadedModel model_;
  engine::ConstantCache constants_;
  augment::Chain chain_;
  augment::ImageSize size_;  // that the chain makes; views (--tta) may show the model less of it
  BatchPrep prep_;
};

}  // namespace dlpipe::run
