// The table of all options of training, and the conversion of their values from and to text.

#include "dlpipe/config.h"
#include "run/config/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/loader.h"
#include "dlpipe/optim.h"
#include "run/config/values.h"

namespace dlpipe::run {

namespace {

constexpr bool kFree = true;
constexpr double kMany = 1e15;
constexpr double kMostAtOnce = 1024;  // threads or slots that a Loader accepts

}  // namespace

/// Every option: its name, its group, its help, the member it sets, the bounds of its value.
std::span<const ConfigOption> config_options() {
  using C = TrainConfig;
  static const std::vector<ConfigOption> kOptions = {
      {"data", "data",
       "Dataset to train on (made by `dlpipe ingest`), or a folder of splits (its train); or images, as a "
       "folder per class or tar archives, which are linked first",
       &C::data},
      {"val", "data", "Dataset to validate on; default: the val of a folder of splits", &C::val},
      {"augment", "data",
       "Augmentations of training images, e.g. \"rrc(224) hflip\" (--help ops lists them); \"\": none; "
       "default: auto, chosen by the sizes of images and model and printed",
       &C::augment},
      {"val-augment", "data",
       "The same for validation; default: resize and center_crop to the model's input size, but "
       "only resize where training resizes whole images, and for --task regress, segment and detect",
       &C::val_augment},
      {"channels", "data",
       "Decode images as grey (1) or colour (3); some weights need one of them; 0: unchanged", &C::channels,
       false, 0, 3},
      {"task", "data",
       "What the model learns (--help tasks lists the tasks); auto: chosen from the dataset's fields, if "
       "only one task fits",
       &C::task},
      {"target", "data", "Fields to learn, if the dataset has several: NAME, or for regress NAME,NAME",
       &C::target},
      {"mixup", "data",
       "Mixup: average each training image with another of its batch, and their losses with the same "
       "weights; "
       "each weight lambda is drawn from Beta(X, X); 0: off",
       &C::mixup, false, 0, 1e6},
      {"cutmix", "data",
       "CutMix: replace a box of each training image, 1 - lambda of its area, with that of another of its "
       "batch; with --mixup, each is used for half of the batches; 0: off",
       &C::cutmix, false, 0, 1e6},
      {"batch", "data", "Samples per batch; default of --task segment and detect: 8", &C::batch, false, 1,
       1e7},
      {"limit", "data", "Train on N samples, a subset drawn by --seed from the whole dataset; -1: all",
       &C::limit, false, -1, kMany},
      {"fold", "data",
       "Cross-validation: train on the samples whose field `fold` has another value, and validate on those "
       "with "
       "this one (`dlpipe ingest --folds` numbers them)",
       &C::fold},
      {"sampler", "data",
       "How often samples are drawn. uniform: once per epoch; balanced: all classes equally often; sqrt: "
       "each class in proportion to the square root of its number of samples; or CLASS=WEIGHT,CLASS=WEIGHT. "
       "The length of an epoch does not change",
       &C::sampler},
      {"max-bad", "data",
       "Stop the run when more than N samples can't be used; -1: 10, or 0.1 % of the samples if that is "
       "more",
       &C::max_bad, kFree, -1, kMany},
      {"max-pixels", "data", "Refuse to decode images with more pixels than this", &C::max_pixels, false, 1,
       kMany},
      {"slots", "data", "Batches in flight: how far the pipeline reads ahead", &C::slots, kFree, 1,
       kMostAtOnce},
      {"cache", "data",
       "For linked images. coefficients: JPEGs are also stored in the run directory as coefficient records, "
       "written while the loader's threads are idle and read from the next epoch on. Batches do not "
       "change",
       &C::cache, kFree, 0, 0, names_of(kCacheNames)},
      {"cache-size", "data",
       "Maximum disk space for --cache, for all processes together, such as 50GiB; default: all but 1 GiB of "
       "the free space",
       &C::cache_size, kFree},

      {"model", "model",
       "Model by name (--help models lists them), or a model file: captured from PyTorch (`dlpipe capture`), "
       "compiled, or ONNX, with its weights unless --init names others; default: the model that --init's "
       "weights belong to",
       &C::model},
      {"init", "model",
       "Start from these weights: a run or checkpoint, a safetensors file (PyTorch's names), or, without "
       "--model, an ONNX file or a compiled model",
       &C::init},
      {"freeze", "model", "Don't train parameters whose names match, e.g. \"layer1.*\"", &C::freeze},
      {"reset-head", "model", "With --init: keep the classifier's fresh weights", &C::reset_head},
      {"live-batch-norm", "model",
       "For an ONNX file: the batch norms that the exporter kept use each batch's statistics again",
       &C::live_batch_norm},
      {"checkpoint-activations", "model",
       "Modules whose names match run again in backward instead of keeping their activations, e.g. "
       "\"layer?.*\"",
       &C::checkpoint_activations, kFree},
      {"dtype", "model",
       "Precision of convolutions and matrix products; f16 (with a loss scale like PyTorch's) on GPUs only",
       &C::dtype, kFree, 0, 0, precision_names()},
      {"tf32", "model",
       "On CUDA: f32 products and convolutions may round their inputs to TF32 (10 bits), to use tensor cores",
       &C::tf32},
      {"device", "model",
       "Where to train: cpu, cuda (the first GPU, or with several processes one GPU for each; "
       "CUDA_VISIBLE_DEVICES selects them), cuda:N",
       &C::device, kFree},
      {"graph", "model", "On a device: launch each step as one graph; auto: if it can be captured", &C::graph,
       kFree, 0, 0, names_of(kGraphNames)},
      {"decode", "model",
       "With a GPU: decode stored coefficients on it (device) or on the CPU (host), to the same pixels; "
       "auto: on the GPU if possible",
       &C::decode, kFree, 0, 0, names_of(kDecodeNames)},

      {"epochs", "optimisation", "Passes over the training data", &C::epochs, false, 0, 1e9},
      {"max-steps", "optimisation", "Stop after N steps, regardless of --epochs; -1: no limit", &C::max_steps,
       false, -1, kMany},
      {"accumulate", "optimisation", "Batches whose gradients are averaged into one step", &C::accumulate,
       false, 1, 1e6},
      {"grains", "optimisation",
       "Equal parts of each batch, a power of two, whose gradients are computed one by one and summed in a "
       "fixed order. Any power of two of processes up to it computes the same run; 0: 1 with one process, "
       "otherwise 8, or the number of processes if that is larger",
       &C::grains, false, 0, 1 << 20},
      {"sync-bn", "optimisation",
       "Batch norm computes its statistics over all grains of all processes instead of each grain",
       &C::sync_bn},
      {"compress", "optimisation",
       "bf16: round gradients of grains and their sums to bf16, so that processes exchange half the "
       "bytes",
       &C::compress, false, 0, 0, names_of(kCompressNames)},
      {"exact", "optimisation",
       "off: several processes on GPUs sum their gradients with NCCL, without the host; the bits of a run "
       "then "
       "depend on the number of processes",
       &C::exact, false, 0, 0, names_of(kExactNames)},
      {"optimizer", "optimisation",
       "Optimizer by name (--help optimizers lists them); default of --task segment and detect: adamw",
       &C::optimizer},
      {"lr", "optimisation",
       "Learning rate at its peak; with adamw, default of --task segment and detect: 0.002", &C::lr, false, 0,
       1e6},
      {"momentum", "optimisation", "Momentum", &C::momentum, false, 0, 1},
      {"nesterov", "optimisation", "Nesterov's momentum", &C::nesterov},
      {"weight-decay", "optimisation", "Weight decay", &C::weight_decay, false, 0, 1e6},
      {"decoupled", "optimisation", "Weight decay separate from the gradient (SGDW)", &C::decoupled},
      {"decay-vectors", "optimisation", "Weight decay of biases and normalisation weights",
       &C::decay_vectors},
      {"lr-scale", "optimisation", "Multiply the rate of parameters whose names match, e.g. \"*.bn.bias=64\"",
       &C::lr_scale},
      {"wd-scale", "optimisation", "Multiply the weight decay of parameters whose names match", &C::wd_scale},
      {"muon", "optimisation",
       "Matrices and filters to orthogonalise, e.g. \"group*.conv?.weight\"; the others use sgd", &C::muon},
      {"muon-momentum", "optimisation", "Momentum of the parameters in --muon", &C::muon_momentum, false, 0,
       1},
      {"muon-iterations", "optimisation", "Newton-Schulz iterations", &C::muon_iterations, false, 1, 100},
      {"muon-normalize", "optimisation",
       "Keep the parameters in --muon at a norm of sqrt(outputs), as suits weights before batch norm",
       &C::muon_normalize},
      {"beta1", "optimisation", "Decay of the first moment", &C::beta1, false, 0, 1},
      {"beta2", "optimisation", "Decay of the second moment", &C::beta2, false, 0, 1},
      {"epsilon", "optimisation", "Added to the root of the second moment", &C::epsilon, false, 0, 1},
      {"schedule", "optimisation", "Learning rate over the run", &C::schedule, false, 0, 0,
       engine::ScheduleRegistry::builtin().names()},
      {"warmup", "optimisation", "Epochs of linear warm-up", &C::warmup, false, 0, 1e9},
      {"warmup-start", "optimisation", "The warm-up (or one_cycle) begins at this share of the peak",
       &C::warmup_start, false, 0, 1},
      {"milestones", "optimisation", "Epochs after which the rate is multiplied by --gamma, such as 30,60",
       &C::milestones},
      {"gamma", "optimisation", "Factor for the rate at each of --milestones", &C::gamma, false, 0, 1e6},
      {"final-ratio", "optimisation", "Rate at the end divided by the peak", &C::final_ratio, false, 0, 1},
      {"peak-at", "optimisation", "Share of the steps before the peak", &C::peak_at, false, 0, 1},
      {"clip", "optimisation", "Scale gradients to at most this L2 norm; 0: off", &C::clip, false, 0, 1e9},
      {"ema", "optimisation",
       "Keep an exponential moving average of the weights with this decay, and validate it; 0: don't",
       &C::ema, false, 0, 1},
      {"loss", "optimisation", "Loss by name (--help losses lists them); auto: the task's", &C::loss},
      {"class-weights", "optimisation",
       "Weight of each class in the loss: balanced (rarer classes weigh more), or "
       "CLASS=WEIGHT,CLASS=WEIGHT, 1 for the others. With --task multilabel only for labels that a sample "
       "has. Not for --task regress",
       &C::class_weights},
      {"label-smoothing", "optimisation",
       "Share of the target spread over all classes; --class-weights weights the whole by the sample's class",
       &C::label_smoothing, false, 0, 1},
      {"pos-weight", "optimisation", "Weight of positive labels relative to negative ones", &C::pos_weight,
       false, 0, 1e6},
      {"focal-gamma", "optimisation",
       "Exponent of 1 - p: a larger one reduces the weight of well-classified labels", &C::focal_gamma, false,
       0, 100},
      {"focal-alpha", "optimisation",
       "Weight of positive labels; negative ones weigh 1 - alpha; -1: no weights", &C::focal_alpha, false, -1,
       1},
      {"gamma-neg", "optimisation", "Focusing exponent of negative labels", &C::gamma_neg, false, 0, 100},
      {"gamma-pos", "optimisation", "Focusing exponent of positive labels", &C::gamma_pos, false, 0, 100},
      {"margin", "optimisation", "Subtracted from probabilities of negative labels, down to 0", &C::margin,
       false, 0, 1},
      {"loss-beta", "optimisation",
       "Distance from which the loss is no longer squared, in standard deviations of the target",
       &C::loss_beta, false, 1e-9, 1e9},

      {"metrics", "judging",
       "What validation reports (--help metrics lists them); the first one decides which checkpoint is best; "
       "auto: the task's",
       &C::metrics},
      {"tta", "judging", "Test-time augmentation: validation averages over these views of an image", &C::tta,
       false, 0, 0, names_of(kViewNames)},
      {"val-every", "judging",
       "How often to validate: 1epoch, 500steps, 10min, or never; a number without a unit counts steps",
       &C::val_every},
      {"early-stop", "judging",
       "Stop after N validations without a better one (a run's final one counts if it is due); 0: "
       "off",
       &C::early_stop, false, 0, 1e9},
      {"on-nonfinite", "judging",
       "Whether a loss or gradient that is not finite stops the run or skips the step", &C::on_nonfinite,
       false, 0, 0, names_of(kNonfiniteNames)},
      {"overfit-batch", "judging", "Smoke test: N steps on one batch; the loss must fall to a tenth; 0: off",
       &C::overfit_batch, false, 0, 1e9},

      {"out", "run", "Run directory; must not contain a run", &C::out},
      {"checkpoint-every", "run",
       "How often to save: 5min, 500steps, 1epoch, or never (the end is always saved)", &C::checkpoint_every,
       kFree},
      {"keep", "run", "Number of latest checkpoints to keep, in addition to the best", &C::keep, kFree, 1,
       1e6},
      {"receipt", "run",
       "params: batches_chain hashes record checksums and drawn parameters; pixels: also the pixels",
       &C::receipt, false, 0, 0, names_of(kReceiptNames)},
      {"threads", "run", "Threads for everything; 0: as many as the process may use", &C::threads, kFree, 0,
       kMostAtOnce},
      {"kernels", "run",
       "measured: the fastest of several kernels, found at first use and remembered on this machine; rules: "
       "built-in choices; auto: the value of the environment variable DLPIPE_KERNELS, else measured, or "
       "rules on several machines",
       &C::kernels, false, 0, 0, names_of(kKernelsByNames)},
      {"isa", "run",
       "Instruction set of the CPU's kernels, for machines with different CPUs that compute one run; auto: "
       "the "
       "best one available",
       &C::isa, false, 0, 0, isa_choices()},
      {"memory", "run",
       "Refuse a run whose memory plan (batches, tensors and scratch) exceeds this, such as 8GiB. It does "
       "not "
       "limit the process: the program itself, the search for the fastest kernels and the dataset's "
       "pages need additional memory",
       &C::memory, kFree},
      {"seed", "run", "Seed of the weights, the order of samples and every random draw", &C::seed, false, 0,
       9.2e18},
      {"bucket-mb", "run",
       "With several processes: gradients are exchanged in parts of this many MB during backward",
       &C::bucket_mb, kFree, 0.001, 1e6},
      {"shard-optimizer", "run",
       "With several processes: each keeps the optimizer's state and the summed gradients only for its share "
       "of "
       "the weights (ZeRO-2), and all write checkpoints; the weights' bits stay the same",
       &C::shard_optimizer, kFree},
      {"tensor-parallel", "run",
       "With several processes: groups of N compute the same samples, each process with its part of a "
       "transformer's weights; sums are computed in another order than in one process, so the bits differ",
       &C::tensor_parallel, kFree, 1, 1 << 20},
      {"pipeline-parallel", "run",
       "With several processes: groups of N compute the same samples, each process with some layers of a "
       "transformer or another sequential model; grains pass through them in turn "
       "(1F1B), so give several times as many --grains",
       &C::pipeline_parallel, kFree, 1, 1 << 20},
      {"peer-timeout", "run",
       "With several processes: stop the run if a process does not respond for this many seconds; must "
       "exceed the time that the first one needs to write a checkpoint",
       &C::peer_timeout, kFree, 0.1, 1e9},
  };
  return kOptions;
}

namespace {

Status bad_value(const ConfigOption& option, std::string_view given, std::string_view expected) {
  return misuse("config", "--", option.name, " is '", given, "'; expected ", expected);
}

/// A bound of an option as text. Whole numbers have all their digits.
template <class T>
std::string bound_text(double bound) {
  if constexpr (std::is_same_v<T, double>) {
    return shortest_decimal(bound);
  } else {
    constexpr double kBeyond = 9223372036854775808.0;  // 2^63
    if (bound >= kBeyond) return std::to_string(std::numeric_limits<T>::max());
    if (bound < -kBeyond) return std::to_string(std::numeric_limits<T>::min());
    return std::to_string(static_cast<T>(bound));
  }
}

/// Whether a text that parse_int refused is a whole number, and therefore too large.
bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <class T>
Status set_number(const ConfigOption& option, std::string_view text, T& member) {
  T value{};
  bool is_number = false;
  if constexpr (std::is_same_v<T, double>) {
    is_number = parse_double(text, &value) && std::isfinite(value);
  } else {
    is_number = parse_int(text, &value);
  }
  const bool is_beyond = !is_number && std::is_same_v<T, int64_t> && is_whole_number(text);
  if (!is_number && !is_beyond)
    return bad_value(option, text, std::is_same_v<T, double> ? "a number" : "a whole number");
  if (is_beyond ? text.starts_with('-') : static_cast<double>(value) < option.low)
    return bad_value(option, text, concat("at least ", bound_text<T>(option.low)));
  if (is_beyond || static_cast<double>(value) > option.high)
    return bad_value(option, text, concat("at most ", bound_text<T>(option.high)));
  member = value;
  return {};
}

Status set_text(const ConfigOption& option, std::string_view text, std::string& member) {
  if (!option.choices.empty() &&
      std::find(option.choices.begin(), option.choices.end(), text) == option.choices.end()) {
    return misuse("config", "--", option.name, " can't be '", text, "'", suggestion(text, option.choices));
  }
  member = std::string(text);
  return {};
}

Status set_switch(const ConfigOption& option, std::string_view text, bool& member) {
  if (text != "true" && text != "false") return bad_value(option, text, "true or false");
  member = text == "true";
  return {};
}

}  // namespace

std::string free_option_names() {
  std::string names;
  for (const ConfigOption& option : config_options()) {
    if (option.free_on_resume) names += concat(names.empty() ? "--" : ", --", option.name);
  }
  return names;
}

const ConfigOption* find_config_option(std::string_view name) {
  for (const ConfigOption& option : config_options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string_view option_type(const ConfigOption& option) {
  static constexpr std::array<std::string_view, 8> kTypes = {"TEXT",     "INT", "FLOAT", "",
                                                             "TEXT,...", "INT", "FLOAT", ""};
  return kTypes[option.member.index()];
}

bool is_switch(const ConfigOption& option) {
  return option_type(option).empty();
}

bool has_value(const ConfigOption& option, const TrainConfig& config) {
  return std::visit(
      [&](auto member) {
        if constexpr (requires { (config.*member).has_value(); }) return (config.*member).has_value();
        return true;
      },
      option.member);
}

static std::string value_text(const std::string& value) {
  return value;
}
static std::string value_text(bool value) {
  return value ? "true" : "false";
}
static std::string value_text(double value) {
  return shortest_decimal(value);
}
static std::string value_text(int64_t value) {
  return std::to_string(value);
}
static std::string value_text(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) text += (text.empty() ? "" : ",") + item;
  return text;
}
template <class T>
static std::string value_text(const std::optional<T>& value) {
  return value ? value_text(*value) : "";
}

std::string option_text(const ConfigOption& option, const TrainConfig& config) {
  return std::visit([&](auto member) { return value_text(config.*member); }, option.member);
}

static Status set_value(const ConfigOption& option, std::string_view text, std::string& member) {
  return set_text(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, bool& member) {
  return set_switch(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, double& member) {
  return set_number(option, text, member);
}
static Status set_value(const ConfigOption& option, std::string_view text, int64_t& member) {
  return set_number(option, text, member);
}
static Status set_value(const ConfigOption& /*option*/, std::string_view text,
                        std::vector<std::string>& member) {
  member.clear();
  for (const std::string& item : split(text, ',')) {
    if (!trim(item).empty()) member.emplace_back(trim(item));
  }
  return {};
}
template <class T>
static Status set_value(const ConfigOption& option, std::string_view text, std::optional<T>& member) {
  T value{};
  DLPIPE_RETURN_IF_ERROR(set_value(option, text, value));
  member = value;
  return {};
}

Status set_option(const ConfigOption& option, std::string_view text, TrainConfig& config) {
  return std::visit([&](auto member) { return set_value(option, text, config.*member); }, option.member);
}

Status check_options(const TrainConfig& config) {
  TrainConfig checked;
  for (const ConfigOption& option : config_options()) {
    if (has_value(option, config))
      DLPIPE_RETURN_IF_ERROR(set_option(option, option_text(option, config), checked));
    // If the text is read as another value, config.toml can't represent this one.
    const bool is_kept =
        std::visit([&](auto member) { return config.*member == checked.*member; }, option.member);
    if (!is_kept) {
      return misuse("config", "--", option.name, " is '", option_text(option, config),
                    "', but one of its words is empty, has a comma, or begins or ends with a blank");
    }
  }
  return {};
}

Result<Interval> parse_interval(std::string_view text, std::string_view option) {
  struct UnitName {
    std::string_view name;
    Interval::Unit unit;
    double factor;
  };
  using Unit = Interval::Unit;
  static constexpr std::array<UnitName, 13> kUnits = {{{"", Unit::kSteps, 1},
                                                       {"step", Unit::kSteps, 1},
                                                       {"steps", Unit::kSteps, 1},
                                                       {"epoch", Unit::kEpochs, 1},
                                                       {"epochs", Unit::kEpochs, 1},
                                                       {"s", Unit::kSeconds, 1},
                                                       {"sec", Unit::kSeconds, 1},
                                                       {"seconds", Unit::kSeconds, 1},
                                                       {"m", Unit::kSeconds, 60},
                                                       {"min", Unit::kSeconds, 60},
                                                       {"minutes", Unit::kSeconds, 60},
                                                       {"h", Unit::kSeconds, 3600},
                                                       {"hours", Unit::kSeconds, 3600}}};
  text = trim(text);
  if (text == "never") return Interval{};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double amount = 0;
  if (parse_double(text.substr(0, digits), &amount) && amount > 0) {
    for (const UnitName& unit : kUnits) {
      if (unit.name != trim(text.substr(digits))) continue;
      if (unit.unit == Unit::kSteps && amount != std::floor(amount)) break;
      return Interval{unit.unit, amount * unit.factor};
    }
  }
  return misuse("config", "--", option, " is '", text,
                "'; expected 500steps, 1epoch, 30s, 5min, 2h or never");
}

}  // namespace dlpipe::run
