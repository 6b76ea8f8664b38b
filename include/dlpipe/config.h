// The configuration of a training run: its options as a plain struct, losses by name, and Registries, which hold dlpipe's
// built-in records and those that a program adds. Pass Registries to Session, Predictor and evaluate_dataset:
//
//   dlpipe::run::Registries registries;
//   registries.models.add(kMine);
//   dlpipe::run::Session session(config, registries);
//
// An option that belongs to an optimizer, a schedule or a loss is a std::optional: without a value, the default of the selected
// record applies. `dlpipe train --help` describes every option.
//
// Ownership: values; the program owns the records in Registries, which must outlive them. Threads: plain data; functions are
// pure, except that read_config reads a file. Cost: a copy of Registries copies lists of pointers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "dlpipe/metrics.h"
#include "dlpipe/models.h"
#include "dlpipe/op.h"
#include "dlpipe/optim.h"
#include "dlpipe/registry.h"
#include "dlpipe/source.h"
#include "dlpipe/tensor.h"

namespace dlpipe::run {

// ---- options

struct TrainConfig {
  // Data.
  std::string data;
  std::string val;  // empty: the split "val" of a folder of splits, else no validation
  std::string augment;
  std::string val_augment;  // empty: resize and center_crop to the model's input size
  int64_t channels = 0;     // of images: 1 (grey) or 3; 0: as in the data
  double mixup = 0;
  double cutmix = 0;
  int64_t batch = 128;
  int64_t limit = -1;
  std::string fold;
  std::string sampler = "uniform";
  int64_t max_bad = -1;
  int64_t max_pixels = 178'956'970;
  int64_t slots = 3;
  std::string cache = "none";
  std::string cache_size;           // "50GiB"; empty: leaves 1 GiB of the disk free
  std::string task = "auto";        // "auto": chosen by the dataset's fields
  std::vector<std::string> target;  // dataset fields to learn; empty: the only ones that suit the task
  // Model.
  std::string model;
  std::string init;
  std::vector<std::string> freeze;
  bool reset_head = false;
  bool live_batch_norm = false;
  std::vector<std::string> checkpoint_activations;
  std::string dtype = "f32";
  bool tf32 = false;
  std::string device = "cpu";
  std::string graph = "auto";
  std::string decode = "auto";
  // Optimisation.
  double epochs = 10;
  int64_t max_steps = -1;
  int64_t accumulate = 1;
  int64_t grains = 0;  // 0: 1 for one process, 8 for up to 8, else one per process; see config.toml
  bool sync_bn = false;
  std::string compress = "none";
  std::string exact = "on";
  std::string optimizer = "sgd";
  std::optional<double> lr;
  std::optional<double> momentum;
  std::optional<bool> nesterov;
  std::optional<double> weight_decay;
  std::optional<bool> decoupled;
  bool decay_vectors = true;
  std::vector<std::string> lr_scale;  // "GLOB=FACTOR"
  std::vector<std::string> wd_scale;
  std::vector<std::string> muon;
  std::optional<double> muon_momentum;
  std::optional<int64_t> muon_iterations;
  std::optional<bool> muon_normalize;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::string schedule = "cosine";
  std::optional<double> warmup;
  std::optional<double> warmup_start;
  std::vector<std::string> milestones;
  std::optional<double> gamma;
  std::optional<double> final_ratio;
  std::optional<double> peak_at;
  double clip = 0;
  double ema = 0;
  std::string loss = "auto";  // "auto": the task's default
  std::string class_weights;  // "balanced", "cat=2,dog=1"; empty: all 1
  std::optional<double> label_smoothing;
  std::optional<double> pos_weight;
  std::optional<double> focal_gamma;
  std::optional<double> focal_alpha;
  std::optional<double> gamma_neg;
  std::optional<double> gamma_pos;
  std::optional<double> margin;
  std::optional<double> loss_beta;
  // Judging and stopping.
  std::string tta = "none";
  std::vector<std::string> metrics = {"auto"};  // "auto": the task's default
  std::string val_every = "1epoch";
  int64_t early_stop = 0;
  std::string on_nonfinite = "stop";
  int64_t overfit_batch = 0;
  // The run.
  std::string out;
  std::string checkpoint_every = "5min";
  int64_t keep = 2;
  std::string receipt = "params";
  int64_t threads = 0;
  std::string kernels = "auto";
  std::string isa = "auto";
  std::string memory;  // "8GiB"; empty: no limit
  int64_t seed = 0;
  double bucket_mb = 25;
  bool shard_optimizer = false;
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  double peer_timeout = 60;

  /// Not options, but stored with them in a run's config.toml: paths as they were typed ("data-typed"), and the ids of
  /// the datasets there ("data-id", "val-id").
  std::map<std::string, std::string> record;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// Reads a TOML file into `config`; keys are option names. The error for an unknown key suggests the nearest one. A run's
/// config.toml without its last line is refused; edited ones are accepted.
Status read_config(const std::string& path, TrainConfig& config);
/// The text of a config.toml: every option with its value and its help, without the last line, which has the checksum.
std::string write_config(const TrainConfig& config);

// ---- losses by name (`--loss`)

struct LossArguments {
  double label_smoothing = 0;
  double pos_weight = 1;
  double focal_gamma = 2;
  double focal_alpha = 0.25;  // negative: present and absent labels weigh the same
  double gamma_neg = 4;
  double gamma_pos = 1;
  double margin = 0.05;
  double beta = 1;
  engine::Tensor label_weights = {};  // multilabel, detect: f32 [K], of present labels; undefined: 1
};

struct LossRecord {
  static constexpr const char* kKind = "loss";
  static std::span<const LossRecord* const> built_in();

  const char* name;
  const char* help;
  /// logits [N,K] floating, target i64 [N] (multilabel and regress: f32 [N,K]), weight f32 [N] (0 leaves a
  /// sample out) -> scalar: the weighted mean over samples. In segment a row is a pixel, in detect a cell or
  /// an anchor. A sample that is mixed with another (mixup, cutmix) has two rows with the same logits.
  engine::Tensor (*compute)(const engine::Tensor& logits, const engine::Tensor& target,
                            const engine::Tensor& weight, const LossArguments& arguments);
  std::span<const engine::OptionDefault> options = {};  // the options that it uses
  const char* tasks = "classify";                       // the tasks that it is for, separated by commas
  const char* boxes = "grid";                           // for detect: the box coding that it is for
};

/// A value: copy builtin() and add to it.
using LossRegistry = Registry<LossRecord>;
/// The built-in loss called `name`; kMisuse with the nearest name if there is none.
Result<const LossRecord*> find_loss(std::string_view name);

// ---- dlpipe's built-in records, and what a program adds to them

struct Registries {
  augment::OpRegistry augmentations = augment::OpRegistry::builtin();
  engine::ModelRegistry models = engine::ModelRegistry::builtin();
  engine::OptimizerRegistry optimizers = engine::OptimizerRegistry::builtin();
  LossRegistry losses = LossRegistry::builtin();
  engine::MetricRegistry metrics = engine::MetricRegistry::builtin();
  /// The ops that bench_ops measures. Models don't need it: they call apply() with an op's row.
  engine::OpRegistry ops = engine::OpRegistry::builtin();
  /// The kinds of sources that --data accepts besides a dataset (ingest has its own: IngestOptions::known_sources).
  data::SourceRegistry sources = data::SourceRegistry::builtin();
  std::vector<Device*> devices;  // found by name, before the machine's devices

  Result<Device*> find_device(std::string_view name) const {
    for (Device* device : devices) {
      if (device->name() == name) return device;
    }
    return dlpipe::find_device(name);
  }
};

// ---- a trained model's own description

/// What a model is trained to predict, and which fields of the dataset it learns that from.
struct TaskState {
  std::string name = "classify";         // --help tasks lists them
  std::vector<std::string> fields = {};  // of the dataset; empty: its label
  /// regress: mean and standard deviation of each target in the training data. Outputs are (target - mean) / deviation.
  std::vector<double> mean = {}, deviation = {};
  engine::BoxCoding boxes = {};  // detect: the model's
};

/// What a model is and how its inputs are prepared: enough to evaluate it anywhere.
struct ModelState {
  std::string model;
  engine::ModelArguments arguments;
  std::vector<std::string>
      classes;  // the names of the outputs: classes, labels, or the targets of a regression
  TaskState task = {};
  std::string val_augment;   // the whole chain, including the numbers of the normalisation
  std::string tta = "none";  // views that evaluation averages over
  std::string dtype = "f32";
  std::string loss;
  LossArguments loss_options = {};  // of the loss in evaluation: without label_smoothing and label_weights
  std::vector<std::string> metrics;
  /// For a model that can't be built by code: the JSON of graph/FORMAT.md; the graph's constants are the weights.
  std::string graph = {};
};

}  // namespace dlpipe::run
