// Using a trained model: classify image files, generate text token by token, and evaluate the model on a dataset.
//
//   run::Predictor predictor({.model = {.weights = "runs/a"}});
//   const run::ImageList images = value_or_throw(run::list_images(paths));
//   predictor.predict(images.files, [](const run::Prediction& one) { print(one); return true; });
//
// Errors are thrown as Error, except for single files that can't be used: those become predictions with a message.
//
// Ownership: a Predictor owns its model; a LoadedModel shares it. Threads: call from one thread; decoding and kernels run on
// the engine's threads. Each constructor sets their number for the process. Cost: loading reads the weights once; predictions
// hold one batch of images in memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/report.h"

namespace dlpipe::run {

// ---- the model

/// The weights, and settings that a checkpoint lacks or that override it. Empty: as in the checkpoint.
struct ModelOptions {
  /// A checkpoint, a run (its best, else its last checkpoint), or a safetensors file.
  std::string weights = {};
  std::string model = {};        // for a bare safetensors file, which does not record it
  std::string classes = {};      // for a bare file: a text file with a name on each line, or a dataset
  std::string val_augment = {};  // the weights' normalisation is added if this has none
  std::string tta = {};
  std::string dtype = {};
  std::vector<std::string> input_shapes = {};  // for an ONNX file that leaves sizes open
};

struct LoadedModel {
  std::shared_ptr<engine::Module> model;  // in eval mode, with the averaged weights if there are any
  ModelState state;
  std::string path;                // of the checkpoint's directory, or of the bare file
  int64_t step = -1;               // of the checkpoint; -1: a bare file
  std::vector<std::string> notes;  // for the user: what was detected or assumed
};

// ---- the images: files and folders of images, selected as by ingest

struct ImageFile {
  std::string path;                       // "-": from standard input
  std::optional<std::string> bytes = {};  // from standard input; other files are read when needed
  std::string problem = {};               // not empty: why it can't be read, if already known
};

struct ImageList {
  std::vector<ImageFile> files;
  std::string left_aside;  // other files in the folders: "2 x .txt"; "" if none
};

/// Lists files with any name, and the images below folders, sorted by bytes. A path that is neither a file nor a folder, and a
/// folder that has no images or can't be listed completely, becomes a file with a problem. kNotFound if no path exists, or if
/// there is no image at all.
Result<ImageList> list_images(std::span<const std::string> paths);

/// Whether one of the paths means standard input.
bool names_standard_input(std::span<const std::string> paths);

// ---- classes for image files, given only a model's weights. Uses the decoder, chain and model of evaluation, so that a
// dataset made from the files has the same probabilities.
//
// A Predictor owns its model; call it from one thread, decoding runs on the engine's threads. Throws Error, with one
// exception: files that can't be read or decoded, and logits of NaN or infinity, which have no probabilities, become
// predictions with a message.

/// An object found by a model of --task detect.
struct PredictedBox {
  std::string name;   // of its class
  size_t number = 0;  // of its class
  double score = 0;
  std::array<double, 4> box = {};   // x_min, y_min, x_max, y_max in pixels of the file's image
  std::array<double, 4> seen = {};  // the same in pixels of the image as the model saw it
};

struct Prediction {
  std::string path;
  std::vector<std::pair<std::string, double>> top;  // class or label and probability, the most probable first
  std::string error = {};  // why the file could not be used or has no probabilities; empty: no error
  /// The probability of every class or label, or every target in the data's units; empty for --task segment and detect.
  std::vector<float> answers = {};
  /// --task multilabel: the labels with a probability of at least their threshold, the most probable first.
  std::vector<std::pair<std::string, double>> labels = {};
  /// --task regress: each target, in the data's units. --task segment: the fraction of each class that
  /// occurs, among the pixels of whole_mask that the model saw.
  std::vector<std::pair<std::string, double>> values = {};
  /// --task segment: the class number of each pixel of the image as the model saw it, [seen_height, seen_width].
  std::vector<uint8_t> mask = {};
  int64_t seen_height = 0, seen_width = 0;
  /// The same for the file's image in its upright orientation, [height, width]. 255: the model did not see the pixel.
  std::vector<uint8_t> whole_mask = {};
  int64_t height = 0, width = 0;
  /// --task segment and detect: the image as the model saw it, [seen_height, seen_width, channels].
  std::vector<uint8_t> pixels = {};
  /// --task detect: the boxes with a score of at least their class's threshold, the highest score first.
  std::vector<PredictedBox> boxes = {};
  std::string task = "classify";
  ErrorCode error_code = ErrorCode::kOk;  // of `error`
};

struct PredictOptions {
  ModelOptions model = {};
  int64_t batch = 64;
  int threads = 0;  // 0: as many as the process may use
  int64_t top = 5;
  /// --task multilabel and detect: labels and boxes are reported from this probability on; default 0.5.
  std::optional<double> threshold = {};
  std::vector<std::pair<std::string, double>> thresholds =
      {};  // thresholds of single labels or classes, by name; the others use `threshold`
  std::string device = "cpu";
  int64_t max_pixels = 178'956'970;
};

class Predictor {
 public:
  explicit Predictor(const PredictOptions& options, const Registries& registries = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;

  /// Passes predictions to `sink` in the order of `files`, each as soon as its batch is done, until `sink` returns
  /// false. Batches are no larger than the number of files.
  void predict(std::span<const ImageFile> files, const std::function<bool(const Prediction&)>& sink);
  /// The same for at most one batch, for files that arrive in pieces. Rounds the batch up to a power of two, so that few
  /// kernels are selected for pieces of different sizes. Returns false once `sink` has returned false.
  bool predict_piece(std::span<const ImageFile> files, const std::function<bool(const Prediction&)>& sink);
  /// The number of images per call of append_probabilities() for this number of images; only the last call may have fewer.
  size_t rows_at_once(size_t images) const;
  /// Appends the probabilities of all classes or labels, or all values, of one batch to `all`, [files, outputs]. For callers
  /// that hold only one batch and decide between batches whether to continue. `rows`: the result of rows_at_once(), also for
  /// the last batch, so that a kernel is selected only once. Throws Error for the first image that can't be used or has no
  /// probabilities, with its index, counted from `begin`.
  void append_probabilities(std::span<const ImageFile> files, size_t rows, size_t begin,
                            std::vector<float>& all);
  /// Like predict(), for one batch of `rows` rows that begins with `files`; returns false once `sink` has returned false.
  bool predict_batch(std::span<const ImageFile> files, int64_t rows,
                     const std::function<bool(const Prediction&)>& sink);
  const LoadedModel& model() const;
  /// How long the last batch took: reading, decoding and augmenting its images, and the model.
  struct BatchTimes {
    int64_t images_ns = 0, model_ns = 0;
  };
  BatchTimes last_times() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// ---- text, token by token, from a checkpoint of a token model. Call from one thread; kernels run on the engine's
// threads. Throws Error.

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt = "\n";
  int64_t tokens = 500;
  double temperature = 1.0;  // logits are divided by it; 0: always the most probable token
  int64_t top_k = 0;         // draw from this many most probable tokens; 0: all
  uint64_t seed = 0;
  int threads = 0;  // 0: as many as the process may use
};

/// Calls sink(text) with the prompt and then with each new token, until it returns false. Throws kMisuse for a
/// prompt with characters that the training text doesn't contain, and for image models; kNonfinite if the model returns NaN
/// or infinity.
void generate(const GenerateOptions& options, const std::function<bool(const std::string&)>& sink,
              const Registries& registries = {});

// ---- evaluating a model on a dataset: `dlpipe eval`. The report by class is the confusion matrix of an evaluation, and
// precision, recall and F1 of each class as defined by scikit-learn's classification_report. Memory: 8 bytes x classes^2.

/// The scores of one class.
struct ClassScore {
  int64_t support = 0;       // samples of this class
  int64_t predicted = 0;     // samples predicted as this class
  int64_t right = 0;         // samples of this class predicted as this class
  double precision() const;  // right / predicted; 0 if no sample was predicted as this class
  double recall() const;     // right / support, the class's own top1; 0 if it has no samples
  double f1() const;         // 2 right / (support + predicted); 0 if both are 0
};

class ClassReport {
 public:
  /// kMisuse for too many classes for a matrix to be useful.
  static Result<ClassReport> make(int64_t classes);

  /// Adds a sample of class `label` with its logits. The predicted class is the one with the largest logit, the first of
  /// equal ones; none if all logits are NaN.
  void add(int64_t label, std::span<const float> logits);

  int64_t classes() const { return classes_; }
  /// Samples of class `label` predicted as class `predicted`.
  int64_t count(int64_t label, int64_t predicted) const {
    return counts_[static_cast<size_t>(label * classes_ + predicted)];
  }
  /// Samples without a predicted class.
  int64_t undecided() const { return undecided_; }
  std::vector<ClassScore> scores() const;

  /// Means over the classes that have samples, like scikit-learn's with labels=unique_labels(y_true): unweighted (macro), or
  /// weighted by the number of samples. (Without labels=, scikit-learn also counts predicted classes without samples, with a
  /// recall of 0.)
  struct Means {
    double precision = 0;
    double recall = 0;
    double f1 = 0;
  };
  Means macro_mean() const;
  Means weighted_mean() const;

 private:
  explicit ClassReport(int64_t classes);
  Means mean(bool weighted) const;

  int64_t classes_;
  std::vector<int64_t> counts_;   // [classes, classes]
  std::vector<int64_t> support_;  // [classes]
  int64_t undecided_ = 0;
};

/// The model's output for one sample of the dataset.
struct SampleAnswer {
  int64_t id = 0;    // the sample's number
  std::string path;  // of the file that it came from; empty if the dataset has no paths
  /// multilabel, regress: the outputs' probabilities or values, and the dataset's targets. All from `label` on is unused then.
  std::vector<double> answers = {}, targets = {};
  int64_t label = 0;
  std::vector<size_t> top;            // classes, the most probable first; empty if all logits are NaN
  std::vector<double> probabilities;  // of these classes
  double loss = 0;                    // -log of the label's probability
  /// --task detect: all boxes found, the best first. `seen` is in pixels of the chain's output image. Only id and path are also set.
  std::optional<std::vector<PredictedBox>> boxes = {};
};

struct EvaluateOptions {
  ModelOptions model = {};
  std::string data = {};   // a dataset, or a folder of splits
  std::string split = {};  // of that folder; empty: "val", with `fold` "train"
  std::string fold = {};   // only the samples with this value of the field `fold`; empty: all
  int64_t batch = 64;
  int threads = 0;  // 0: as many as the process may use
  int64_t limit = -1;
  std::string device = "cpu";
  bool tf32 = false;
  bool report = false;  // fill Evaluation::classes
  /// --task segment: metrics of the masks as the chain resized them, instead of in their own size.
  bool resized_masks = false;
  int64_t top = 5;  // classes in a SampleAnswer
  /// Called on this thread: on_sample for each evaluated sample, in the dataset's order; on_progress after each batch,
  /// with the number of samples done and of all samples. May be empty.
  std::function<void(const SampleAnswer&, const std::vector<std::string>& classes)> on_sample = {};
  std::function<void(int64_t done, int64_t total)> on_progress = {};
  /// Called once, before the first batch, with lines for the user.
  std::function<void(const std::string&)> on_note = {};
  const std::atomic<bool>* stop = nullptr;
};
struct Evaluation {
  EvalReport report;
  std::optional<ClassReport> classes;
  /// For tasks other than classify, part of the report: figures per label or target, one row each; `columns` names them.
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<double>>> figures;
  LoadedModel model;
  bool has_whole_masks = false;  // --task segment: metrics are of masks in their own size
  std::string data;              // the dataset that was used
  std::string subset;            // the subset selected by `limit`; empty: all
};
/// Computes loss and metrics of a model on a dataset, preprocessed as its checkpoint says. The class tables must match.
Evaluation evaluate_dataset(const EvaluateOptions& options, const Registries& registries = {},
                            const LogitsObserver& observer = {});

}  // namespace dlpipe::run
