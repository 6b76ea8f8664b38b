#include "run/train/session/model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "engine/core/kernel_table.h"
#include "run/input/batch_input.h"
#include "run/input/dataset.h"
#include "run/record/run_directory.h"
#include "run/train/gradients/gradient_sum.h"
#include "run/use/evaluate.h"
#include "run/use/loaded_model.h"

namespace dlpipe::run {

namespace {

using engine::NamedTensor;

constexpr std::string_view kOtherClasses = "to train other classes than the file's, add --reset-head";

/// Copies `source` into `model`, which `record` built for `data`. The classes in `source`, if any, must be those of
/// `data`, unless `reset_head`, which keeps the model's own classifier. Returns lines for the user. Throws Error: kMisuse lists
/// names that are missing, unexpected, or shaped differently.
std::vector<std::string> load_initial_weights(const WeightsSource& source, const ModelState& data,
                                              const engine::ModelRecord& record, bool reset_head,
                                              engine::Module& model, const Registries& registries) {
  if (reset_head && std::string_view(record.head).empty())
    refuse("train", "--reset-head: ", record.name,
           " has no classifier that can be replaced; leave it out, or build the model with these classes");
  const bool says_classes = source.state && !source.state->classes.empty();
  if (says_classes && !reset_head) {
    const Status same = check_classes(source.path, source.state->classes, "the training data", data.classes,
                                      dataset_of_run(source.path));
    if (!same.ok()) throw Error(Status(same.code(), concat(same.message(), "\n  ", kOtherClasses)));
  }
  copy_weights(source, record, reset_head, model, data.arguments, registries, concat("; ", kOtherClasses));
  std::vector<std::string> lines = source.notes;
  lines.push_back(concat("initial weights: ", counted(static_cast<int64_t>(source.shapes.size()), "tensor"),
                         " from ", source.path,
                         reset_head ? concat("; fresh: ", record.head, "*") : std::string()));
  return lines;
}

void set_first_weights(const SessionOptions& options, const SessionData& data, const FirstWeights& weights,
                       const Notes& notes, engine::Module& model) {
  if (weights.checkpoint != nullptr) {
    throw_if_error(check_classes("the checkpoint", weights.checkpoint->state.model.classes,
                                 options.config.data, data.model.classes));
    model.load_state_dict(weights.checkpoint->tensors.model);
  } else if (weights.init != nullptr) {
    for (const std::string& line :
         load_initial_weights(*weights.init, data.model, *options.model, options.config.reset_head, model,
                              options.registries)) {
      tell(notes, line);
    }
  } else if (options.model->initialize_from_images != nullptr) {
    if (const engine::Tensor images = first_images(options, data); images.defined())
      options.model->initialize_from_images(model, images);
  }
}

void freeze_parameters(const TrainConfig& config, const Notes& notes, engine::Module& model) {
  for (const std::string& pattern : config.freeze) {
    const int frozen = model.freeze(pattern);
    if (frozen == 0) {
      refuse("train", "--freeze ", pattern, " matches no parameter of ", config.model, "; the first is ",
             model.parameters()[0].name);
    }
    tell(notes, concat("frozen: ", counted(frozen, "parameter matches", "parameters match"), " ", pattern));
  }
  const std::vector<NamedTensor> all = model.parameters();
  if (std::none_of(all.begin(), all.end(), [](const auto& one) { return one.tensor.requires_grad(); }))
    refuse("train", "--freeze leaves nothing to train; freeze fewer parameters");
}

void checkpoint_activations(const TrainConfig& config, const Notes& notes, engine::Module& model) {
  for (const std::string& pattern : config.checkpoint_activations) {
    const int count = model.checkpoint_activations(pattern);
    if (count == 0) {
      const std::vector<engine::Module::Named> modules = model.modules();
      refuse("train", "--checkpoint-activations ", pattern, " matches no module of ", config.model,
             modules.size() > 1 ? concat("; the first is ", modules[1].name)
                                : std::string(", which has none; leave it out"));
    }
    tell(notes, concat("recomputed in backward: ", count, " modules match ", pattern));
  }
}

/// The scales in the values of `option`, such as "conv?.weight=2".
std::vector<engine::OptimizerArguments::Scale> parse_scales(const char* option,
                                                            const std::vector<std::string>& texts) {
  std::vector<engine::OptimizerArguments::Scale> scales;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    engine::OptimizerArguments::Scale scale;
    if (equals == std::string::npos || !parse_double(text.substr(equals + 1), &scale.factor) ||
        !std::isfinite(scale.factor)) {
      refuse("train", option, " ", text, "; give GLOB=FACTOR, such as *.bias=2");
    }
    scale.pattern = text.substr(0, equals);
    scales.push_back(std::move(scale));
  }
  return scales;
}

/// Throws unless `pattern`, from `option`, matches one of `all` parameters of the model.
void check_matches(const char* option, const std::string& pattern, const std::string& text,
                   const std::string& model, const std::vector<NamedTensor>& all) {
  const bool matches = std::any_of(
      all.begin(), all.end(), [&](const auto& parameter) { return matches_glob(parameter.name, pattern); });
  if (matches) return;
  refuse("train", option, " ", text, " matches no parameter of ", model, "; the first is ", all[0].name);
}

void check_optimizers_patterns(const SessionOptions& options, const engine::Module& model) {
  const TrainConfig& config = options.config;
  const engine::OptimizerArguments arguments = optimizer_arguments(options);
  const std::vector<NamedTensor> all = model.parameters();
  const auto check = [&](const char* option, const auto& scales, const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      check_matches(option, scales[i].pattern, texts[i], config.model, all);
  };
  check("--lr-scale", arguments.lr_scales, config.lr_scale);
  check("--wd-scale", arguments.decay_scales, config.wd_scale);
  for (const std::string& pattern : config.muon) check_matches("--muon", pattern, pattern, config.model, all);
}

/// If validation gives the model images of another size than training, tries one such image, because a model for a single size
/// would only fail after the first epoch.
void try_validation_size(const SessionOptions& options, const SessionData& data, engine::Module& model) {
  const FieldSpec* const field = data.val != nullptr ? image_field(data.val->schema()) : nullptr;
  if (field == nullptr || options.val_every.unit == Interval::Unit::kNever) return;
  const Shape& made = field->shape;
  const engine::ModelArguments& trained = data.model.arguments;
  const int64_t height = seen_extent(made[0], options.eval.views);
  const int64_t width = seen_extent(made[1], options.eval.views);
  if (height == trained.height && width == trained.width) return;
  engine::KernelTable of_this_trial;
  const engine::UseKernelTable trial(&of_this_trial);
  const engine::EvalScope mode(model);
  const engine::NoGrad no_grad;
  try {
    const engine::Tensor black = engine::Tensor::zeros({1, made[0], made[1], made[2]}, DType::kF32);
    view_logits(model, black.to(model.device()), options.eval.views);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kMisuse) throw;
    refuse("train", "validation would give ", options.config.model, " images of ", height, "x", width,
           ", but it only accepts its training size, ", trained.height, "x", trained.width,
           "; give another --val-augment: ", error.what());
  }
}

/// An option that the optimizer does not use has no value, and does not change the argument.
template <class Value, class Argument>
void take(const std::optional<Value>& given, Argument& argument) {
  if (given) argument = static_cast<Argument>(*given);
}

}  // namespace

std::shared_ptr<engine::Module> build_model(const SessionOptions& options, const SessionData& data,
                                            const FirstWeights& weights, const Notes& notes) {
  std::shared_ptr<engine::Module> model = options.model->build(data.model.arguments);
  set_first_weights(options, data, weights, notes, *model);
  check_optimizers_patterns(options, *model);
  freeze_parameters(options.config, notes, *model);
  checkpoint_activations(options.config, notes, *model);
  model->to(*options.device);
  try_validation_size(options, data, *model);
  return model;
}

SplitWeights split_model(const SessionOptions& options, const SessionData& data, engine::Module& model) {
  if (options.ranks.replica == nullptr) return {};
  const engine::ModelSummary summary = engine::summarize(model, data.model.arguments, 1);
  const auto flops_below = [&](const std::string& name) {
    double flops = 0;
    for (const engine::LayerSummary& layer : summary.layers)
      if (layer.name == name || layer.name.starts_with(name + ".")) flops += layer.flops;
    return flops;
  };
  try {
    SplitWeights weights(model, options.ranks, flops_below);
    if (options.ranks.tensor != nullptr && model.splits().empty())
      refuse("split", "none of its layers can be split; use a transformer, or leave it out");
    return weights;
  } catch (const Error& error) {
    throw Error(error.status().with_context(
        concat("[train] ", replica_options(options.config), " of ", options.config.model, ": ")));
  }
}

engine::OptimizerArguments optimizer_arguments(const SessionOptions& options) {
  const TrainConfig& config = options.config;
  engine::OptimizerArguments arguments;
  take(config.momentum, arguments.momentum);
  take(config.nesterov, arguments.nesterov);
  take(config.weight_decay, arguments.weight_decay);
  take(config.decoupled, arguments.decoupled);
  take(config.beta1, arguments.beta1);
  take(config.beta2, arguments.beta2);
  take(config.epsilon, arguments.epsilon);
  take(config.muon_momentum, arguments.muon.momentum);
  take(config.muon_iterations, arguments.muon.iterations);
  take(config.muon_normalize, arguments.muon.normalize);
  arguments.decay_vectors = config.decay_vectors;
  arguments.lr_scales = parse_scales("--lr-scale", config.lr_scale);
  arguments.decay_scales = parse_scales("--wd-scale", config.wd_scale);
  arguments.muon.patterns = config.muon;
  return arguments;
}

Optimization build_optimizer(const SessionOptions& options, engine::Module& model,
                             const Checkpoint* checkpoint, const SplitWeights& weights) {
  Optimization built;
  built.optimizer = options.optimizer->build(model.parameters(), optimizer_arguments(options));
  if (options.step.shares())
    built.optimizer->keep(GradientSum::shares(model.parameters(), options.step.gradient_form()));
  if (options.config.ema > 0) built.ema = std::make_unique<engine::Ema>(model, options.config.ema);
  if (checkpoint == nullptr) return built;
  built.optimizer->load_state(weights.own(checkpoint->tensors.optimizer));
  if (built.ema != nullptr) built.ema->load_state(weights.own(checkpoint->tensors.ema));
  return built;
}

}  // namespace dlpipe::run
