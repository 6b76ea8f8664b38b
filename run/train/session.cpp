// A run from its options to its receipt, in order. One call per stage, with a comment that explains its position. The stages
// are implemented in session/ (options, data, model, plans), in step/ (one optimizer step) and in trainer.cpp (what the loop
// logs, validates and saves).
//
//   begin     a run directory, new or reopened -> the checkpoint to resume from
//   prepare   instruction set -> first weights -> options -> AGREE -> sums between GPUs -> links to images -> threads, kernels,
//             logs -> data -> model -> this process's part of it -> optimizer -> choice of kernels -> memory -> disk -> position
//             in the data -> AGREE -> config.toml
//   train     start -> [ batches, forward, backward, update -> AGREE -> outcomes -> chain -> validation -> checkpoint ]...
//             -> the end: chain, last validation, last checkpoint -> ledger.json, receipt.json
//
// AGREE: with several processes, each has a Session with the same config and runs these stages separately. A failure in one
// must be a failure in all, and what one process decides by its clock or a signal, all must do: at these places they exchange
// messages (session/agreement.h).
#include "dlpipe/session.h"

#include <filesystem>
#include <functional>
#include <utility>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/config.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/module.h"
#include "engine/collective/launched.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "engine/core/parallel.h"
#include "io/formats/atomic_file.h"
#include "run/config/choices.h"
#include "run/config/config.h"
#include "run/config/values.h"
#include "run/record/checkpoint.h"
#include "run/record/kernels.h"
#include "run/record/receipt.h"
#include "run/record/run_directory.h"
#include "run/train/outcome.h"
#include "run/train/session/agreement.h"
#include "run/train/session/data.h"
#include "run/train/session/linked_data.h"
#include "run/train/session/model.h"
#include "run/train/session/options.h"
#include "run/train/session/plans.h"
#include "run/train/session/resume_rules.h"
#include "run/train/trainer.h"
#include "run/use/graph_model.h"

namespace dlpipe::run {

/// The state of a session between its stages.
class Session::Impl {
 public:
  /// A run directory, and the state of the run in it.
  struct Place {
    std::unique_ptr<RunDirectory> directory;  // null: nothing is written
    std::string path;                         // of a resumed run: its directory, on any rank
    std::optional<Checkpoint> checkpoint;     // of a resumed run; none: from the start
    std::optional<TrainConfig> former;        // of a resumed run: its options before they were changed
  };
  Impl(TrainConfig config, const Registries& registries, TrainObserver* observer, engine::Collective* ranks,
       Place place);
  TrainOutcome train(const std::atomic<bool>* stop);

 private:
  friend class Session;

  // The stages that are not in session/, in their order.
  SessionOptions resolve(TrainConfig config, Registries registries, engine::Collective* ranks,
                         const Checkpoint* checkpoint, const WeightsSource* init) const;
  void enter(const Place& place);
  void check_past(const TrainConfig& former) const;
  void describe_model();
  void check_disk() const;
  StartReport start_report() const;
  TrainerSettings trainer_settings() const;
  Receipt receipt_of(const TrainOutcome& outcome) const;

  Notes notes() const;
  void tell_of_search(const std::string& key) const;

  engine::KernelTable kernels_;  // of this run, whatever else the process runs
  int64_t begin_ns_;
  TrainObserver* observer_;
  SessionOptions options_;
  std::unique_ptr<RunDirectory> directory_;
  TrainerState state_;
  SessionData data_;
  std::shared_ptr<engine::Module> model_;
  int64_t parameters_ = 0;           // elements of all of them
  uint64_t first_weights_hash_ = 0;  // with several ranks: of the model's first weights, before it is split
  SplitWeights weights_;
  Optimization optimization_;
  MemoryPlan memory_;
};

// --- begin: a run directory, new or reopened

namespace {

bool is_first(const engine::Collective* ranks) {
  return ranks == nullptr || ranks->rank() == 0;
}

std::unique_ptr<RunDirectory> make_directory(const TrainConfig& config, const engine::Collective* ranks) {
  if (config.out.empty() || config.overfit_batch > 0 || !is_first(ranks)) return nullptr;
  return value_or_throw(RunDirectory::create(config.out));
}

TrainConfig with_recorded_paths(TrainConfig config) {
  record_paths(config);
  return config;
}

/// The run's latest valid checkpoint: the first rank finds it, the others read the same one.
std::optional<Checkpoint> latest_checkpoint(const RunDirectory* directory, engine::Collective* ranks,
                                            const std::function<void(const std::string&)>& warning) {
  std::optional<Checkpoint> checkpoint;
  if (is_first(ranks)) {
    checkpoint = value_or_throw(open_latest_checkpoint(directory->checkpoints(), warning));
    if (ranks == nullptr) return checkpoint;
  }
  const std::string chosen = value_or_throw(ranks->gather(checkpoint ? checkpoint->directory : "",
                                                          "the checkpoint to continue from"))
                                 .front();
  if (!is_first(ranks) && !chosen.empty()) checkpoint = value_or_throw(load_checkpoint(chosen));
  return checkpoint;
}

}  // namespace

Session::Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
                 engine::Collective* ranks)
    : Session(std::make_unique<Impl>(with_recorded_paths(config), registries, observer, ranks,
                                     Impl::Place{make_directory(config, ranks), {}, {}, {}})) {}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Session> Session::resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes,
                                         const Registries& registries, TrainObserver* observer,
                                         engine::Collective* ranks) {
  Impl::Place place;
  place.path = run_directory;
  if (is_first(ranks)) place.directory = value_or_throw(RunDirectory::reopen(run_directory));
  TrainConfig config = value_or_throw(load_config(run_directory));
  config.out = run_directory;
  place.former = config;
  throw_if_error(change_for_resume(run_directory, changes, config));
  drop_idle_options(config, {}, registries);  // runs of older versions may have some
  place.checkpoint = latest_checkpoint(place.directory.get(), ranks, [&](const std::string& text) {
    if (observer != nullptr) observer->on_warning(text);
  });
  return std::unique_ptr<Session>(
      new Session(std::make_unique<Impl>(config, registries, observer, ranks, std::move(place))));
}

// --- prepare: everything that a step needs

static WeightsSource open_init(const std::string& path, bool live_batch_norm) {
  std::optional<WeightsSource> graph = open_graph_weights(path, live_batch_norm);
  return graph ? std::move(*graph) : open_weights(path);
}

/// The weights that --init names; of a file that --model names if --init is empty. If no code builds the model, they include it.
static std::optional<WeightsSource> open_first_weights(TrainConfig& config) {
  std::optional<WeightsSource> of_model, first;
  check_named_model_file("train", config.model);
  if (is_model_file(config.model)) {
    of_model = open_graph_weights(config.model, config.live_batch_norm);
    if (config.init.empty()) config.init = config.model;
    config.model.clear();  // it has no name
  }
  const bool is_one_file = of_model && of_model->path == config.init;
  if (is_one_file) return of_model;
  if (!config.init.empty()) first = open_init(config.init, config.live_batch_norm && !of_model);
  if (of_model) first->graph = of_model->graph;
  if (config.live_batch_norm && (!first || first->graph == nullptr))
    refuse("train", "--live-batch-norm needs an ONNX file as --model or --init");
  return first;
}

/// Runs `work` and returns how it ended.
static Status status_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (...) {
    return status_from_current_exception("train");
  }
}

Session::Impl::Impl(TrainConfig config, const Registries& registries, TrainObserver* observer,
                    engine::Collective* ranks, Place place)
    : begin_ns_(now_ns()), observer_(observer), directory_(std::move(place.directory)) {
  const engine::UseKernelTable own(&kernels_);
  const Checkpoint* const checkpoint = place.checkpoint ? &*place.checkpoint : nullptr;
  std::optional<WeightsSource> init;

  Status done = status_of([&] {
    // The instruction set comes first: no code may have examined the CPU yet.
    if (const auto isa = value_or_throw(parse_isa(config.isa)))
      throw_if_error(engine::limit_kernel_isa(*isa));
    // The first weights come before the options, because they may determine the model, or be one that no code builds.
    if (checkpoint == nullptr) init = open_first_weights(config);
    // Options come before anything is opened, because they fail fastest.
    options_ = resolve(config, registries, ranks, checkpoint, init ? &*init : nullptr);
  });
  // Processes compare their options before any collective operation, which differing processes must not start.
  if (ranks != nullptr) check_options_agree(options_, done, *ranks);
  throw_if_error(done);
  // GPUs connect to each other right after that, because all processes must do it at once.
  options_ = open_device_sums(options_);

  done = status_of([&] {
    // Images become a dataset of links first, because all later stages need datasets.
    options_ = link_images(options_, options_.overfits() ? "" : options_.config.out, notes());
    // Threads, kernels and logs are set up before the loaders start, which use them.
    enter(place);
    // Data come before the model, whose sizes and classes depend on them.
    data_ = open_data(options_, init ? &*init : nullptr,
                      directory_ != nullptr ? directory_->quarantine_file() : "", notes(),
                      checkpoint != nullptr ? &checkpoint->state.model : nullptr);
    // The config keeps what the data decided (the chain with its normalisation, the datasets' ids), so that a resumed run needs
    // neither --init nor a decision again.
    options_ = with_data(std::move(options_), data_);
    // A resumed run may have another length if its past does not change. The schedule shows that, and it needs the data's size.
    if (place.former) check_past(*place.former);
    // The model comes with its first weights, because some are made from images.
    model_ = build_model(options_, data_, {checkpoint, init ? &*init : nullptr}, notes());
    init.reset();  // the model has its tensors now
    describe_model();
    // The model is split after its weights are loaded, because files have whole weights, and after it is described for the files.
    weights_ = split_model(options_, data_, *model_);
    // Optimizer and average come after the weights, from which they start, and have only this process's part.
    optimization_ = build_optimizer(options_, *model_, checkpoint, weights_);
    // The choice of kernels is set up before the memory plan, which runs the first steps and may search for kernels.
    use_kernels(options_.config.kernels, value_or_throw(engine::launched_rank()).has_other_machines(),
                [this](const std::string& key) { tell_of_search(key); });
    // Memory and disk are planned before the first step, so that a run that can't finish does not start.
    if (options_.memory_limit > 0 || observer_ != nullptr) memory_ = plan_memory(options_, data_, *model_);
    if (directory_ != nullptr && memory_.total() > 0) check_disk();
    // The position in the data comes last: from here on the loader decodes ahead.
    if (checkpoint != nullptr) throw_if_error(data_.train->seek(checkpoint->state.source));
    if (options_.overfits()) data_.train = first_batch_of(*data_.train);
  });
  if (ranks != nullptr) check_data_agree(data_, first_weights_hash_, done, *ranks);
  throw_if_error(done);

  // Files are written last: a failure before this leaves none.
  if (directory_ != nullptr) {
    throw_if_error(directory_->start_logs(state_.step));
    throw_if_error(save_config(directory_->path(), options_.config));
  }
}

/// The model to train if no code builds it; else null. The weights of a run also fit the built-in model that --model names; those
/// of a compiled model have other names.
static std::shared_ptr<const engine::ModelRecord> graph_to_train(const TrainConfig& config,
                                                                 const WeightsSource& init,
                                                                 const Registries& registries) {
  const bool is_run = init.step >= 0;
  return is_run && registries.models.find(config.model).ok() ? nullptr : init.graph;
}

/// The named model, or else the model of --init's weights.
static std::string model_to_train(const TrainConfig& config, const WeightsSource* init,
                                  const Registries& registries) {
  if (!config.model.empty() || init == nullptr || init->graph != nullptr) return config.model;
  if (!init->state) refuse("train", without_model(*init, registries));
  return init->state->model;
}

SessionOptions Session::Impl::resolve(TrainConfig config, Registries registries, engine::Collective* ranks,
                                      const Checkpoint* checkpoint, const WeightsSource* init) const {
  std::shared_ptr<const engine::ModelRecord> graph;
  if (checkpoint != nullptr)
    graph = graph_of(checkpoint->state.model, checkpoint->tensors.model, checkpoint->directory);
  else if (init != nullptr)
    graph = graph_to_train(config, *init, registries);
  config.model = model_to_train(config, init, registries);
  if (graph == nullptr) return resolve_options(std::move(config), registries, notes(), ranks);
  // Adds a model that no code builds to the registry.
  if (!config.model.empty() && config.model != graph->name)
    refuse("train", "--init ", config.init, " is itself a model; leave --model ", config.model, " out");
  config.model = graph->name;
  registries.models.add(*graph);
  SessionOptions options = resolve_options(std::move(config), registries, notes(), ranks);
  options.graph = std::move(graph);
  return options;
}

/// Restores the run's threads and kernels, and its logs to the state of the checkpoint.
void Session::Impl::enter(const Place& place) {
  engine::set_engine_threads(options_.threads);
  if (!place.former) return;
  const std::string kernels = RunDirectory::kernels_file(place.path);
  if (std::filesystem::exists(kernels)) resume_kernels(kernels);
  if (place.checkpoint) state_ = place.checkpoint->state.trainer;
  if (directory_ != nullptr)
    throw_if_error(directory_->cut_logs(state_.metrics_bytes, state_.quarantine_bytes));
}

void Session::Impl::check_past(const TrainConfig& former) const {
  const engine::ScheduleArguments past = schedule_of(former, data_.train->batches_per_epoch());
  throw_if_error(check_same_past(past, data_.schedule, state_.step, options_.config));
}

void Session::Impl::describe_model() {
  data_.model.graph = model_->graph_json();
  for (const engine::NamedTensor& parameter : model_->parameters())
    parameters_ += parameter.tensor.elements();
  if (options_.ranks.all != nullptr) first_weights_hash_ = hash_tensors(model_->state_dict(), 0);
}

void Session::Impl::check_disk() const {
  CheckpointCount count;
  count.keep = options_.config.keep;
  count.checkpoint_every = options_.checkpoint_every;
  if (data_.val != nullptr) count.val_every = options_.val_every;
  count.steps = data_.schedule.total_steps - state_.step;
  count.steps_per_epoch =
      static_cast<double>(data_.train->batches_per_epoch()) / static_cast<double>(options_.config.accumulate);
  count.held = static_cast<int64_t>(value_or_throw(list_checkpoints(directory_->checkpoints())).size());
  const DiskPlan plan =
      value_or_throw(plan_disk(directory_->path(), memory_.checkpoint, checkpoints_at_once(count)));
  if (const std::string warning = value_or_throw(check_checkpoints_fit(plan)); !warning.empty())
    warn(notes(), warning);
}

void Session::Impl::tell_of_search(const std::string& key) const {
  if (observer_ == nullptr) return;
  const engine::cpu::MeasuredKernels& measured = *engine::kernel_table().measured();
  if (measured.searches() == 0) observer_->on_note(search_note("--kernels rules"));
  observer_->on_kernel_search({key, measured.searches(), static_cast<double>(measured.search_ns()) * 1e-9});
}

Notes Session::Impl::notes() const {
  if (observer_ == nullptr) return {};
  return [observer = observer_](const std::string& text, Tone tone) {
    tone == Tone::kWarning ? observer->on_warning(text) : observer->on_note(text);
  };
}

// --- train: the loop, with the messages before it and the files after it

TrainOutcome Session::Impl::train(const std::atomic<bool>* stop) {
  const engine::UseKernelTable own(&kernels_);
  if (observer_ != nullptr) observer_->on_start(start_report());
  // The engine's memory is measured from here, because preparation ran trial steps.
  start_memory_measurement(*options_.device);
  Trainer trainer({.model = model_.get(),
                   .optimizer = optimization_.optimizer.get(),
                   .ema = optimization_.ema.get(),
                   .train = data_.train.get(),
                   .val = data_.val.get(),
                   .directory = directory_.get(),
                   .weights = &weights_,
                   .ranks = options_.ranks,
                   .observer = observer_},
                  trainer_settings(), state_);
  TrainOutcome outcome;
  try {
    outcome = trainer.train(stop);
  } catch (const Error& error) {
    if (options_.ranks.all != nullptr)
      options_.ranks.all->abort(error.what());  // before the trainer waits for the others
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw Error(Status(error.code(), error.what() + memory_advice(options_, memory_)));
  }
  outcome.memory_plan = memory_;
  outcome.memory_bytes = measured_engine_bytes(*options_.device) +
                         static_cast<uint64_t>(outcome.stats.slot_bytes + outcome.stats.scratch_bytes);
  if (data_.val != nullptr) {
    const SourceStats stats = data_.val->stats();
    outcome.memory_bytes += static_cast<uint64_t>(stats.slot_bytes + stats.scratch_bytes);
  }
  // The receipt is written last: if it exists, the run's other files are complete.
  if (directory_ != nullptr) {
    // A session that trained nothing keeps the ledger of the one before.
    if (outcome.samples > 0 || !std::filesystem::exists(directory_->ledger_file()))
      throw_if_error(write_ledger(*directory_, outcome, true));
    throw_if_error(formats::write_json(directory_->receipt_file(), to_json(receipt_of(outcome))));
  }
  return outcome;
}

StartReport Session::Impl::start_report() const {
  StartReport start;
  start.first_step = state_.step;
  start.total_steps = data_.schedule.total_steps;
  start.batches_per_epoch = data_.train->batches_per_epoch();
  start.train_samples = options_.overfits() ? data_.train->samples_per_epoch() : data_.train_samples;
  start.left_out = data_.left_out;
  const bool validates = data_.val != nullptr && options_.val_every.unit != Interval::Unit::kNever;
  start.val_samples = !validates                  ? 0
                      : data_.fold.own != nullptr ? static_cast<int64_t>(data_.fold.own->size())
                                                  : data_.val->dataset().size();
  start.parameters = parameters_;
  start.threads = options_.threads;
  start.memory = memory_;
  return start;
}

TrainerSettings Session::Impl::trainer_settings() const {
  TrainerSettings settings;
  settings.step = options_.step;
  settings.schedule = data_.schedule;
  settings.eval = options_.eval;
  settings.val_every = options_.val_every;
  settings.checkpoint_every = options_.checkpoint_every;
  settings.early_stop = options_.config.early_stop;
  settings.keep = options_.config.keep;
  settings.writes = !options_.config.out.empty() && !options_.overfits();
  settings.model_state = data_.model;
  settings.begin_ns = begin_ns_;
  return settings;
}

// --- the loop

/// The time of this run's kernel searches so far.
static int64_t kernel_search_ns() {
  const auto measured = engine::kernel_table().measured();
  return measured == nullptr ? 0 : measured->search_ns();
}

TrainOutcome Trainer::train(const std::atomic<bool>* stop) {
  stop_ = stop;
  settings_.eval.stop = stop;
  ledger_.make_current();
  begin_ns_ = now_ns();
  agreement_.ask(stop_, {}, "the beginning");
  last_validation_ns_ = last_checkpoint_ns_ = agreement_.time_ns();
  // The preparation's time is also in the ledger; otherwise its rows would not add up to the run's time.
  if (settings_.begin_ns > 0) {
    const int64_t search_ns = kernel_search_ns();  // for the memory plan
    ledger_.add(Span::kKernelSearch, search_ns);
    ledger_.add(Span::kStart, begin_ns_ - settings_.begin_ns - search_ns);
  }
  window_ = begin_window();
  parts_.model->train();
  ended_ = outcome_.early_stopped =
      settings_.early_stop > 0 && state_.worse_validations >= settings_.early_stop;
  try {
    if (state_.step > 0) {  // if a signal interrupted a validation, it is repeated
      ledger_.begin_part();
      validate_if_due(false);
      ledger_.end_part();
    }
    while (state_.step < settings_.schedule.total_steps && !ended_ && !stop_requested()) one_step();
    ledger_.begin_part();
    take_outcomes(true);
    ledger_.end_part();
    finish();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNonfinite)
      throw Error(Status(error.code(), concat(error.what(), nonfinite_advice(), last_checkpoint_advice())));
    if (error.code() == ErrorCode::kNoSpace)
      throw Error(Status(error.code(), concat(error.what(), last_checkpoint_advice(), resume_advice())));
    throw;
  }
  return outcome_;
}

void Trainer::one_step() {
  ledger_.begin_step();
  const double lr = value_or_throw(engine::learning_rate(settings_.schedule, state_.step));
  // Batches, forward, backward, update (step/train_step.h). On a device the step is only launched; its loss comes later.
  const StepOutcome* const issued = step_->run(*parts_.train, state_.step, lr);
  if (issued == nullptr) {
    ended_ = true;
    ledger_.end_step();
    return;
  }
  const bool epoch_ended = issued->epoch_ended;
  // The processes agree once per step, before anything that depends on a clock, a signal or bad samples.
  agreement_.ask(stop_, issued->bad, concat("step ", state_.step + 1));
  // An interval restarts at the exchange after its validation or checkpoint, because their own time does not count.
  if (std::exchange(restarts_validation_clock_, false)) last_validation_ns_ = agreement_.time_ns();
  if (std::exchange(restarts_checkpoint_clock_, false)) last_checkpoint_ns_ = agreement_.time_ns();
  if (const std::string reason = step_->graph_reason(); reason != graph_reason_) {
    graph_reason_ = reason;
    parts_.observer->on_note(concat("steps are launched kernel by kernel: ", reason));
  }
  ++state_.step;
  // Outcomes are logged in the order of steps. All are taken at the end of an epoch, because its mean loss is reported.
  take_outcomes(epoch_ended);
  // The hash over the weights is chained once per epoch, before a validation puts averaged weights into the model.
  if (epoch_ended) chain_parameters();
  // The validation comes before the checkpoint, which stores its result.
  validate_if_due(false);
  if (saved_step_ != state_.step && is_due(settings_.checkpoint_every, last_checkpoint_ns_)) save();
  ledger_.end_step();
}

void Trainer::take_outcomes(bool all) {
  while (const std::optional<StepOutcome> outcome = step_->take_outcome(all)) {
    log_step(*outcome);
    parts_.observer->on_step(outcome->step + 1, outcome->loss);
    report_progress(*outcome);
  }
}

// Work after the last step is in the ledger as well.
void Trainer::finish() {
  ledger_.begin_part();
  uint64_t chain = state_.parameters_chain;
  if (!stop_requested()) {
    // The state is not changed: a longer run that is resumed from it chains weights only at the end of an epoch.
    if (state_.chained_step != state_.step) {
      const SpanScope span(Span::kMetrics);
      chain = chain_of_weights(chain);
    }
    validate_if_due(true);
  }
  outcome_.stopped = stop_requested() && !ended_;
  if (saved_step_ != state_.step) save();
  ledger_.end_part();

  take_times();
  outcome_.seconds = static_cast<double>(now_ns() - begin_ns_) * 1e-9;
  outcome_.best = state_.best;
  outcome_.best_step = state_.best_step;
  outcome_.skipped_steps = state_.skipped_steps;
  outcome_.overflowed_steps = state_.overflowed_steps;
  outcome_.batches_chain = agreement_.whole_state().chain;
  outcome_.parameters_chain = chain;
  if (settings_.step.shares()) note_shares();
}

// --- the receipt

/// A hash of only the choices, because the measured times differ from run to run.
static uint64_t hash_of_choices(const std::string& kernels) {
  const formats::Json json = value_or_throw(formats::Json::parse(kernels));
  formats::Json choices = formats::Json::object();
  for (const auto& [key, choice] : json["choices"].members()) {
    choices.set(
        key, formats::Json::object(
                 {{"kernel", choice["kernel"]}, {"images", choice["images"]}, {"parts", choice["parts"]}}));
  }
  const std::string text = concat(json["isa"].as_string(), json["library"].as_string(), choices.dump());
  return data::checksum64(std::as_bytes(std::span(text)));
}

Receipt Session::Impl::receipt_of(const TrainOutcome& outcome) const {
  Receipt receipt;
  receipt.dataset_id = data_.dataset_id;
  receipt.pipeline_id = data_.pipeline_id;
  receipt.subset = data_.subset;
  receipt.seed = options_.config.seed;
  receipt.grains = options_.config.grains;
  receipt.sync_bn = options_.config.sync_bn;
  receipt.compress = options_.config.compress;
  receipt.exact = options_.device_sums == nullptr;
  receipt.tensor_parallel = options_.ranks.tensor_world();
  receipt.pipeline_parallel = options_.ranks.stage_world();
  receipt.build = build_line();
  receipt.isa = options_.is_on_host() ? std::string(engine::isa_name(engine::kernel_isa()))
                                      : std::string(options_.device->name());
  receipt.kernels_hash = hex64(hash_of_choices(kernels_.save()));
  receipt.model = options_.config.model;
  receipt.dtype = options_.config.dtype;
  receipt.tf32 = options_.step.tf32;
  receipt.steps = outcome.steps;
  receipt.samples = data_.train->state().samples_consumed;
  receipt.finished = !outcome.stopped;
  receipt.batches_chain = hex64(outcome.batches_chain);
  receipt.parameters_chain = hex64(outcome.parameters_chain);
  return receipt;
}

// --- the interface for programs (dlpipe/session.h)

Session::~Session() = default;

TrainOutcome Session::train(const std::atomic<bool>* stop) {
  return impl_->train(stop);
}

void Session::count_time_from(int64_t ns) {
  impl_->begin_ns_ = ns;
}

const TrainConfig& Session::config() const {
  return impl_->options_.config;
}

engine::Module& Session::model() {
  return *impl_->model_;
}

const std::vector<std::string>& Session::classes() const {
  return impl_->data_.model.classes;
}

const std::string& Session::validation_augment() const {
  return impl_->data_.model.val_augment;
}

int Session::threads() const {
  return impl_->options_.threads;
}

}  // namespace dlpipe::run
