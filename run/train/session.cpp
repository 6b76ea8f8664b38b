#include "dlpipe/run/train/session.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/config/config_choices.h"
#include "dlpipe/run/config/precision.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/build_info.h"
#include "dlpipe/run/record/kernel_measurements.h"
#include "dlpipe/run/record/saved_config.h"
#include "dlpipe/run/record/stage_report.h"
#include "dlpipe/run/train/initial_weights.h"
#include "dlpipe/run/train/resume_rules.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

static std::unique_ptr<RunDirectory> make_directory(const TrainConfig& config) {
  if (config.out.empty() || config.overfit_batch > 0) return nullptr;
  return value_or_throw(RunDirectory::create(config.out));
}

static TrainConfig resolved(TrainConfig config, const Registries& registries) {
  throw_if_error(resolve_choices(config, registries.losses));
  return config;
}

Session::Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer)
    : Session(config, registries, observer, make_directory(config), std::nullopt, std::nullopt) {}

// With a directory that holds a config this is a resumed run, from `checkpoint` or from the start. The order
// matters: options first, because they fail fastest; data before the model, which takes its sizes from the
// images; weights before the optimizer and the average, which start from them; files last, when nothing can
// fail.
Session::Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
                 std::unique_ptr<RunDirectory> directory, std::optional<Checkpoint> checkpoint,
                 std::optional<TrainConfig> former)
    : config_(resolved(config, registries)),
      former_(std::move(former)),
      registries_(registries),
      observer_(observer),
      directory_(std::move(directory)) {
  settings_.begin_ns = now_ns();
  is_resumed_ = directory_ != nullptr && fs::exists(directory_->config_file());
  if (!is_resumed_) record_paths(config_);
  check_options();
  set_threads();
  engine::kernel_table().clear();  // what the table holds in the end is this run's, whatever ran before
  if (is_resumed_ && fs::exists(directory_->kernels_file())) resume_kernels(directory_->kernels_file());
  if (checkpoint) state_ = checkpoint->state.trainer;
  if (is_resumed_) throw_if_error(directory_->cut_logs(state_.metrics_bytes, state_.quarantine_bytes));
  open_train();
  open_val();
  build_model();
  if (!checkpoint) initialize_weights();
  freeze_parameters();
  checkpoint_activations();
  model_->to(*device_);
  build_optimizer();
  plan_memory();
  use_kernels(config_.kernels);  // after the plan, whose batches no run has
  if (checkpoint) restore(*checkpoint);
  if (config_.overfit_batch > 0) use_one_batch();
  if (directory_ != nullptr) {
    throw_if_error(directory_->start_logs(state_.step));
    throw_if_error(save_config(directory_->path(), config_));
  }
}

Session::~Session() = default;

void Session::note(const std::string& text) const {
  if (observer_ != nullptr) observer_->on_note(text);
}

void Session::check_options() {
  const auto misuse = [](const std::string& text) {
    throw Error(Status(ErrorCode::kMisuse, "[train] " + text));
  };
  if (config_.data.empty()) misuse("no dataset; give --data DIR, made by `dlpipe ingest`");
  if (config_.model.empty()) misuse("no model; give --model NAME (--help models lists them)");
  if (config_.reset_head && config_.init.empty()) misuse("--reset-head goes with --init FILE");
  if (config_.early_stop > 0 && config_.val_every == "never")
    misuse("--early-stop counts validations, and there are none with --val-every never");
  if (config_.overfit_batch > 0) note_what_overfitting_leaves_out();
  value_or_throw(registries_.model_registry().find(config_.model));
  check_device(*value_or_throw(engine::find_optimizer(config_.optimizer)));

  settings_.step.loss = value_or_throw(find_loss(config_.loss, registries_.losses));
  settings_.step.loss_arguments.label_smoothing =
      config_.overfit_batch > 0 ? 0 : config_.label_smoothing.value_or(0);
  settings_.step.accumulate = config_.accumulate;
  settings_.step.clip = config_.clip;
  settings_.step.dtype = value_or_throw(training_dtype(config_.dtype, *device_));
  settings_.step.tf32 = take_tf32(config_.tf32, *device_);
  settings_.step.seed = static_cast<uint64_t>(config_.seed);
  settings_.step.skip_nonfinite = config_.on_nonfinite == "skip";
  settings_.step.graph = value_or_throw(parse_graph(config_.graph));
  settings_.eval.loss = settings_.step.loss;
  settings_.eval.dtype = settings_.step.dtype;
  settings_.eval.tf32 = settings_.step.tf32;
  settings_.eval.views = value_or_throw(parse_views(config_.tta));
  for (const std::string& metric : config_.metrics) {
    settings_.eval.metrics.push_back(value_or_throw(registries_.find_metric(metric)));
  }
  settings_.val_every = value_or_throw(parse_interval(config_.val_every, "val-every"));
  settings_.checkpoint_every = value_or_throw(parse_interval(config_.checkpoint_every, "checkpoint-every"));
  settings_.early_stop = config_.early_stop;
  settings_.keep = config_.keep;
}

void Session::note_what_overfitting_leaves_out() const {
  std::string idle;
  const auto add = [&](bool is_given, const char* option) {
    if (is_given) idle += concat(idle.empty() ? "" : ", ", option);
  };
  add(config_.mixup > 0, "--mixup");
  add(config_.cutmix > 0, "--cutmix");
  add(config_.label_smoothing.value_or(0) > 0, "--label-smoothing");
  add(!config_.val.empty(), "--val");
  add(config_.early_stop > 0, "--early-stop");
  add(!config_.out.empty(), "--out");
  if (!idle.empty()) note("--overfit-batch trains on one batch as it is; it leaves out " + idle);
}

void Session::check_device(const engine::OptimizerRecord& optimizer) {
  device_ = value_or_throw(registries_.find_device(config_.device));
  if (is_on_host()) return;
  engine::device_code(*device_);  // for its error
  if (optimizer.on_device) return;
  std::string names;
  for (const engine::OptimizerRecord* record : engine::optimizer_table()) {
    if (record->on_device) names += (names.empty() ? "" : ", ") + std::string(record->name);
  }
  throw Error(
      Status(ErrorCode::kUnsupported, concat("[train] --optimizer ", optimizer.name, " has no step on ",
                                             device_->name(), "; take one of ", names, ", or --device cpu")));
}

void Session::set_threads() {
  threads_ = config_.threads > 0 ? static_cast<int>(config_.threads) : available_threads();
  engine::set_engine_threads(threads_);
}

void Session::build_model() {
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  model_ = record->build(settings_.model_state.arguments);
}

void Session::initialize_weights() {
  if (config_.init.empty()) {
    initialize_from_images();
  } else {
    load_initial_weights();
  }
}

void Session::load_initial_weights() {
  const engine::ModelRecord* record = value_or_throw(registries_.model_registry().find(config_.model));
  if (!init_) init_ = open_weights(config_.init);  // a run that went no further than its first weights
  for (const std::string& line :
       run::load_initial_weights(*init_, classes(), *record, config_.reset_head, *model_, registries_)) {
    note(line);
  }
  init_.reset();
}

void Session::freeze_parameters() {
  for (const std::string& pattern : config_.freeze) {
    const int frozen = model_->freeze(pattern);
    if (frozen == 0) {
      throw Error(
          Status(ErrorCode::kMisuse, concat("[train] --freeze ", pattern, " matches no parameter of ",
                                            config_.model, "; the first is ", model_->parameters()[0].name)));
    }
    note(concat("frozen: ", frozen, " parameters match ", pattern));
  }
  const std::vector<engine::NamedTensor> all = model_->parameters();
  if (std::none_of(all.begin(), all.end(), [](const auto& one) { return one.tensor.requires_grad(); }))
    throw Error(Status(ErrorCode::kMisuse, "[train] --freeze leaves nothing to train; freeze less"));
}

void Session::checkpoint_activations() {
  for (const std::string& pattern : config_.checkpoint_activations) {
    const int count = model_->checkpoint_activations(pattern);
    if (count == 0) {
      throw Error(Status(ErrorCode::kMisuse,
                         concat("[train] --checkpoint-activations ", pattern, " matches no module of ",
                                config_.model, "; the first is ", model_->modules().at(1).name)));
    }
    note(concat("recomputed in backward: ", count, " modules match ", pattern));
  }
}

/// Error unless `pattern`, from `option`, matches a parameter.
static void check_matches(const char* option, const std::string& pattern, const std::string& text,
                          const std::string& model, const std::vector<engine::NamedTensor>& all) {
  const bool matches = std::any_of(
      all.begin(), all.end(), [&](const auto& parameter) { return matches_glob(parameter.name, pattern); });
  if (matches) return;
  throw Error(Status(ErrorCode::kMisuse, concat("[train] ", option, " ", text, " matches no parameter of ",
                                                model, "; the first is ", all[0].name)));
}

static std::vector<engine::OptimizerArguments::Scale> parse_scales(
    const char* option, const std::vector<std::string>& texts, const std::string& model,
    const std::vector<engine::NamedTensor>& all) {
  std::vector<engine::OptimizerArguments::Scale> scales;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    engine::OptimizerArguments::Scale scale;
    if (equals == std::string::npos || !parse_double(text.substr(equals + 1), &scale.factor)) {
      throw Error(Status(ErrorCode::kMisuse,
                         concat("[train] ", option, " ", text, "; give GLOB=FACTOR, as in *.bias=2")));
    }
    scale.pattern = text.substr(0, equals);
    check_matches(option, scale.pattern, text, model, all);
    scales.push_back(std::move(scale));
  }
  return scales;
}

/// An option that the optimizer doesn't take has no value, and leaves the argument as it is.
template <class Value, class Argument>
static void take(const std::optional<Value>& given, Argument& argument) {
  if (given) argument = static_cast<Argument>(*given);
}

engine::OptimizerArguments Session::optimizer_arguments() const {
  engine::OptimizerArguments arguments;
  take(config_.lr, arguments.lr);
  take(config_.momentum, arguments.momentum);
  take(config_.nesterov, arguments.nesterov);
  take(config_.weight_decay, arguments.weight_decay);
  take(config_.decoupled, arguments.decoupled);
  take(config_.beta1, arguments.beta1);
  take(config_.beta2, arguments.beta2);
  take(config_.epsilon, arguments.epsilon);
  take(config_.muon_momentum, arguments.muon.momentum);
  take(config_.muon_iterations, arguments.muon.iterations);
  take(config_.muon_normalize, arguments.muon.normalize);
  arguments.decay_vectors = config_.decay_vectors;
  const std::vector<engine::NamedTensor> all = model_->parameters();
  arguments.lr_scales = parse_scales("--lr-scale", config_.lr_scale, config_.model, all);
  arguments.decay_scales = parse_scales("--wd-scale", config_.wd_scale, config_.model, all);
  for (const std::string& pattern : config_.muon)
    check_matches("--muon", pattern, pattern, config_.model, all);
  arguments.muon.patterns = config_.muon;
  return arguments;
}

void Session::build_optimizer() {
  optimizer_ = value_or_throw(engine::find_optimizer(config_.optimizer))
                   ->build(model_->parameters(), optimizer_arguments());
  if (config_.ema > 0) ema_ = std::make_unique<engine::Ema>(*model_, config_.ema);
}

void Session::plan_memory() {
  uint64_t limit = 0;
  if (!config_.memory.empty() && (!parse_bytes(config_.memory, &limit) || limit == 0)) {
    throw Error(Status(ErrorCode::kMisuse, concat("[train] --memory ", config_.memory,
                                                  "; give an amount above 0 with its unit, as 8GiB")));
  }
  if (limit == 0 && observer_ == nullptr) return;
  MemoryPlanArguments arguments;
  arguments.model = value_or_throw(registries_.model_registry().find(config_.model));
  arguments.model_arguments = settings_.model_state.arguments;
  arguments.freeze = config_.freeze;
  arguments.checkpoint_activations = config_.checkpoint_activations;
  arguments.optimizer = value_or_throw(engine::find_optimizer(config_.optimizer));
  arguments.optimizer_arguments = optimizer_arguments();
  arguments.step = settings_.step;
  arguments.step.accumulate = 1;
  arguments.batch = config_.batch;
  arguments.device = device_;
  arguments.has_average = config_.ema > 0;
  arguments.slot_bytes = static_cast<uint64_t>(train_->stats().slot_bytes);
  memory_ = run::plan_memory(arguments);
  if (limit == 0 || memory_.total() <= limit) return;
  const int64_t most = memory_.largest_batch(limit);
  throw Error(Status(ErrorCode::kMisuse,
                     concat("[train] batch ", config_.batch, " takes about ", human_bytes(memory_.total()),
                            ", more than --memory ", config_.memory, "; ",
                            most > 0 ? concat("the largest batch that fits is ", most)
                                     : std::string("not even one sample fits: take a smaller model"))));
}

// What was held when there was no more is taken for all there is.
std::string Session::memory_advice() const {
  std::string advice = "; take a smaller --batch, --checkpoint-activations, or --dtype bf16";
  if (memory_.total() == 0) return advice;
  const uint64_t held = measured_engine_bytes(*device_) + memory_.slots;
  const int64_t fits = std::min(memory_.largest_batch(held), config_.batch - 1);
  advice += concat("; planned were ", human_bytes(memory_.total()), " for --batch ", config_.batch);
  return fits > 0 ? concat(advice, ", and ", fits, " should fit") : advice;
}

void Session::restore(const Checkpoint& checkpoint) {
  throw_if_error(check_classes("the checkpoint", checkpoint.state.model.classes, config_.data, classes()));
  model_->load_state_dict(checkpoint.tensors.model);
  optimizer_->load_state(checkpoint.tensors.optimizer);
  if (ema_ != nullptr) ema_->load_state(checkpoint.tensors.ema);
  throw_if_error(train_->seek(checkpoint.state.source));
}

std::unique_ptr<Session> Session::resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes,
                                         const Registries& registries, TrainObserver* observer) {
  auto directory = value_or_throw(RunDirectory::reopen(run_directory));
  TrainConfig config = value_or_throw(load_config(directory->path()));
  config.out = run_directory;
  const TrainConfig former = config;
  throw_if_error(change_for_resume(run_directory, changes, config));
  drop_idle_options(config, {}, registries.losses);  // of runs from before idle options were refused
  std::optional<Checkpoint> checkpoint =
      value_or_throw(open_latest_checkpoint(directory->checkpoints(), [&](const std::string& text) {
        if (observer != nullptr) observer->on_note(text);
      }));
  return std::unique_ptr<Session>(
      new Session(config, registries, observer, std::move(directory), std::move(checkpoint), former));
}

TrainOutcome Session::train(const std::atomic<bool>* stop) {
  if (observer_ != nullptr) {
    StartReport start;
    start.first_step = state_.step;
    start.total_steps = settings_.schedule.total_steps;
    start.batches_per_epoch = train_->batches_per_epoch();
    start.train_samples = train_->samples_per_epoch();
    start.left_out = left_out_;
    start.val_samples = val_ != nullptr ? val_->samples_per_epoch() : 0;
    for (const engine::NamedTensor& parameter : model_->parameters())
      start.parameters += parameter.tensor.elements();
    start.threads = threads_;
    start.memory = memory_;
    observer_->on_start(start);
  }
  TrainerParts parts;
  parts.model = model_.get();
  parts.optimizer = optimizer_.get();
  parts.ema = ema_.get();
  parts.train = train_.get();
  parts.val = val_.get();
  parts.directory = directory_.get();
  parts.observer = observer_;
  start_memory_measurement(*device_);
  TrainOutcome outcome;
  try {
    outcome = Trainer(parts, settings_, state_).train(stop);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw Error(Status(error.code(), error.what() + memory_advice()));
  }
  outcome.memory_plan = memory_;
  outcome.memory_bytes = measured_engine_bytes(*device_) + static_cast<uint64_t>(outcome.stats.slot_bytes);
  if (directory_ != nullptr) write_results(outcome);
  return outcome;
}

void Session::write_results(const TrainOutcome& outcome) const {
  // Resuming a run that has ended trains nothing: its ledger stays that of the session that did.
  if (outcome.samples > 0 || !fs::exists(directory_->ledger_file())) {
    const LedgerReport ledger = report_ledger(outcome.ledger);
    const StageReport stages = report_stages(outcome.stats, outcome.data_wait_share());
    throw_if_error(formats::write_json(directory_->ledger_file(),
                                       to_json(ledger, stages, outcome.device, outcome.steps)));
  }
  const std::string kernels = engine::kernel_table().save();
  Receipt receipt;
  receipt.dataset_id = dataset_id_;
  receipt.pipeline_id = pipeline_id_;
  receipt.subset = subset_;
  receipt.seed = config_.seed;
  receipt.build = build_line();
  receipt.isa = is_on_host() ? std::string(engine::isa_name(engine::kernel_isa())) : device_->name();
  receipt.kernels_hash = hex64(data::checksum64(std::as_bytes(std::span(kernels.data(), kernels.size()))));
  receipt.model = config_.model;
  receipt.dtype = config_.dtype;
  receipt.tf32 = settings_.step.tf32;
  receipt.steps = outcome.steps;
  receipt.samples = train_->state().samples_consumed;
  receipt.finished = !outcome.stopped;
  receipt.batches_chain = hex64(outcome.batches_chain);
  receipt.parameters_chain = hex64(outcome.parameters_chain);
  throw_if_error(formats::write_json(directory_->receipt_file(), to_json(receipt)));
}

}  // namespace dlpipe::run
