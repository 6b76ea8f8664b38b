#include "dlpipe/run/train/session.h"

#include <filesystem>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/collective/launched.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/limit_isa.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/run/config/config_choices.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/record/kernel_measurements.h"
#include "dlpipe/run/record/saved_config.h"
#include "dlpipe/run/record/tensor_file.h"
#include "dlpipe/run/train/session/disk_plan.h"
#include "dlpipe/run/train/session/linked_data.h"
#include "dlpipe/run/train/session/memory.h"
#include "dlpipe/run/train/session/ranks_agree.h"
#include "dlpipe/run/train/session/results.h"
#include "dlpipe/run/train/session/resume_rules.h"
#include "dlpipe/run/use/graph_weights.h"

namespace dlpipe::run {

static bool is_first(const engine::Collective* ranks) {
  return ranks == nullptr || ranks->rank() == 0;
}

static std::unique_ptr<RunDirectory> make_directory(const TrainConfig& config,
                                                    const engine::Collective* ranks) {
  if (config.out.empty() || config.overfit_batch > 0 || !is_first(ranks)) return nullptr;
  return value_or_throw(RunDirectory::create(config.out));
}

static TrainConfig with_recorded_paths(TrainConfig config) {
  record_paths(config);
  return config;
}

Session::Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
                 engine::Collective* ranks)
    : Session(with_recorded_paths(config), registries, observer, ranks,
              {make_directory(config, ranks), {}, {}, {}}) {}

/// The run's latest checkpoint that is whole: the first rank looks for it, the others read the same one.
static std::optional<Checkpoint> latest_checkpoint(const RunDirectory* directory, engine::Collective* ranks,
                                                   const std::function<void(const std::string&)>& warning) {
  std::optional<Checkpoint> checkpoint;
  if (is_first(ranks)) {
    checkpoint = value_or_throw(open_latest_checkpoint(directory->checkpoints(), warning));
    if (ranks == nullptr) return checkpoint;
  }
  const std::string chosen =
      value_or_throw(ranks->gather(checkpoint ? checkpoint->directory : "", "the checkpoint to go on from"))
          .front();
  if (!is_first(ranks) && !chosen.empty()) checkpoint = value_or_throw(load_checkpoint(chosen));
  return checkpoint;
}

std::unique_ptr<Session> Session::resume(const std::string& run_directory,
                                         const std::vector<std::pair<std::string, std::string>>& changes,
                                         const Registries& registries, TrainObserver* observer,
                                         engine::Collective* ranks) {
  Place place;
  place.path = run_directory;
  if (is_first(ranks)) place.directory = value_or_throw(RunDirectory::reopen(run_directory));
  TrainConfig config = value_or_throw(load_config(run_directory));
  config.out = run_directory;
  place.former = config;
  throw_if_error(change_for_resume(run_directory, changes, config));
  drop_idle_options(config, {}, registries);  // of runs from before idle options were refused
  place.checkpoint = latest_checkpoint(place.directory.get(), ranks, [&](const std::string& text) {
    if (observer != nullptr) observer->on_warning(text);
  });
  return std::unique_ptr<Session>(new Session(config, registries, observer, ranks, std::move(place)));
}

/// How it ended.
static Status status_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (...) {
    return status_from_current_exception("train");
  }
}

// The order matters: options first, because they fail fastest; data before the model, which takes its sizes from
// the images; weights before the optimizer and the average, which start from them; files last: what fails before leaves
// none.
Session::Session(const TrainConfig& config, const Registries& registries, TrainObserver* observer,
                 engine::Collective* ranks, Place place)
    : begin_ns_(now_ns()), observer_(observer), directory_(std::move(place.directory)) {
  const engine::UseKernelTable own(&kernels_);
  std::optional<WeightsSource> init;
  Status done = status_of([&] { init = resolve(config, registries, ranks, place); });
  if (ranks != nullptr) check_options_agree(options_, done, *ranks);
  throw_if_error(done);
  options_ = open_device_sums(options_);
  done = status_of([&] { prepare(std::move(init), place); });
  if (ranks != nullptr) check_data_agree(data_, first_weights_hash_, done, *ranks);
  throw_if_error(done);
  if (directory_ != nullptr) {
    throw_if_error(directory_->start_logs(state_.step));
    throw_if_error(save_config(directory_->path(), options_.config));
  }
}

/// What --init names, with the model itself where no code builds it.
static std::optional<WeightsSource> open_init(const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::optional<WeightsSource> graph = open_graph_weights(path);
  return graph ? std::move(graph) : open_weights(path);
}

/// The model to train where no code builds it; else null. A run's weights also go into a model of the table that is named; a
/// compiled model's are under names of its own.
static std::shared_ptr<const engine::ModelRecord> graph_to_train(const TrainConfig& config,
                                                                 const WeightsSource& init,
                                                                 const Registries& registries) {
  const bool is_run = init.step >= 0;
  return is_run && registries.models.find(config.model).ok() ? nullptr : init.graph;
}

/// The model that is named, or else the one that --init says its weights are of.
static std::string model_to_train(const TrainConfig& config, const WeightsSource* init,
                                  const Registries& registries) {
  if (!config.model.empty() || init == nullptr || init->graph != nullptr) return config.model;
  if (!init->state) refuse("train", without_model(*init, registries));
  return init->state->model;
}

/// The options of a run; of one whose model no code builds, with `graph` as one more model.
static SessionOptions resolve_with_graph(TrainConfig config, std::shared_ptr<const engine::ModelRecord> graph,
                                         Registries registries, const Notes& notes,
                                         engine::Collective* ranks) {
  if (graph == nullptr) return resolve_options(std::move(config), registries, notes, ranks);
  if (!config.model.empty() && config.model != graph->name)
    refuse("train", "--init ", config.init, " is a model itself; leave --model ", config.model, " out");
  config.model = graph->name;
  registries.models.add(*graph);
  SessionOptions options = resolve_options(std::move(config), registries, notes, ranks);
  options.graph = std::move(graph);
  return options;
}

std::optional<WeightsSource> Session::resolve(const TrainConfig& config, const Registries& registries,
                                              engine::Collective* ranks, const Place& place) {
  // First: nothing may have looked at the CPU yet.
  if (const auto isa = value_or_throw(parse_isa(config.isa))) throw_if_error(engine::limit_kernel_isa(*isa));
  const Checkpoint* checkpoint = place.checkpoint ? &*place.checkpoint : nullptr;
  std::optional<WeightsSource> init;
  std::shared_ptr<const engine::ModelRecord> graph;
  if (checkpoint != nullptr) {
    graph = graph_of(checkpoint->state.model, checkpoint->tensors.model, checkpoint->directory);
  } else if ((init = open_init(config.init))) {
    graph = graph_to_train(config, *init, registries);
  }
  TrainConfig named = config;
  named.model = model_to_train(config, init ? &*init : nullptr, registries);
  options_ = resolve_with_graph(std::move(named), graph, registries, notes(), ranks);
  return init;
}

/// Of a run that stands at `step`.
static void check_disk(const SessionOptions& options, const SessionData& data, uint64_t checkpoint_bytes,
                       const RunDirectory& directory, int64_t step, const Notes& notes) {
  CheckpointCount count;
  count.keep = options.config.keep;
  count.checkpoint_every = options.checkpoint_every;
  if (data.val != nullptr) count.val_every = options.val_every;
  count.steps = data.schedule.total_steps - step;
  count.steps_per_epoch =
      static_cast<double>(data.train->batches_per_epoch()) / static_cast<double>(options.config.accumulate);
  count.held = static_cast<int64_t>(value_or_throw(list_checkpoints(directory.checkpoints())).size());
  const DiskPlan plan =
      value_or_throw(plan_disk(directory.path(), checkpoint_bytes, checkpoints_at_once(count)));
  if (const std::string warning = value_or_throw(check_checkpoints_fit(plan)); !warning.empty())
    warn(notes, warning);
}

void Session::prepare(std::optional<WeightsSource> init, const Place& place) {
  const TrainConfig& config = options_.config;
  const Checkpoint* checkpoint = place.checkpoint ? &*place.checkpoint : nullptr;
  options_ = link_pictures(options_, config.overfit_batch > 0 ? "" : config.out, notes());
  enter(place);
  const FirstWeights weights{checkpoint, init ? &*init : nullptr};
  open_data(place, weights.init);
  make_model(weights);
  init.reset();  // the model has its tensors now
  optimization_ = build_optimizer(options_, *model_, checkpoint, weights_);
  use_kernels(options_.config.kernels, value_or_throw(engine::launched_rank()).has_other_machines(),
              [this](const std::string& key) { tell_of_search(key); });
  if (options_.memory_limit > 0 || observer_ != nullptr) memory_ = plan_memory(options_, data_, *model_);
  if (directory_ != nullptr && memory_.total() > 0)
    check_disk(options_, data_, memory_.checkpoint, *directory_, state_.step, notes());
  if (checkpoint != nullptr) throw_if_error(data_.train->seek(checkpoint->state.source));
  if (options_.overfits()) data_.train = first_batch_of(*data_.train);
}

Session::~Session() = default;

void Session::tell_of_search(const std::string& key) const {
  if (observer_ == nullptr) return;
  const engine::cpu::MeasuredKernels& measured = *engine::kernel_table().measured();
  if (measured.searches() == 0) observer_->on_note(search_note("--kernels rules"));
  observer_->on_kernel_search({key, measured.searches(), static_cast<double>(measured.search_ns()) * 1e-9});
}

Notes Session::notes() const {
  if (observer_ == nullptr) return {};
  return [observer = observer_](const std::string& text, Tone tone) {
    tone == Tone::kWarning ? observer->on_warning(text) : observer->on_note(text);
  };
}

/// The process's threads and the session's kernels as the run has them, and its logs as its checkpoint knew them.
void Session::enter(const Place& place) {
  engine::set_engine_threads(options_.threads);
  if (!place.former) return;
  const std::string kernels = RunDirectory::kernels_file(place.path);
  if (std::filesystem::exists(kernels)) resume_kernels(kernels);
  if (place.checkpoint) state_ = place.checkpoint->state.trainer;
  if (directory_ != nullptr)
    throw_if_error(directory_->cut_logs(state_.metrics_bytes, state_.quarantine_bytes));
}

void Session::open_data(const Place& place, const WeightsSource* init) {
  data_ = run::open_data(options_, init, directory_ != nullptr ? directory_->quarantine_file() : "", notes());
  options_.config = with_data(options_.config, data_);
  if (!place.former) return;
  const engine::ScheduleArguments former = schedule_of(*place.former, data_.train->batches_per_epoch());
  throw_if_error(check_same_past(former, data_.schedule, state_.step, options_.config));
}

void Session::make_model(const FirstWeights& weights) {
  model_ = build_model(options_, data_, weights, notes());
  data_.model.graph = model_->graph_json();
  for (const engine::NamedTensor& parameter : model_->parameters())
    parameters_ += parameter.tensor.elements();
  if (options_.ranks.all != nullptr) first_weights_hash_ = hash_tensors(model_->state_dict(), 0);
  weights_ = split_model(options_, data_, *model_);
}

StartReport Session::start_report() const {
  StartReport start;
  start.first_step = state_.step;
  start.total_steps = data_.schedule.total_steps;
  start.batches_per_epoch = data_.train->batches_per_epoch();
  start.train_samples = options_.overfits() ? data_.train->samples_per_epoch() : data_.train_samples;
  start.left_out = data_.left_out;
  const bool validates = data_.val != nullptr && options_.val_every.unit != Interval::Unit::kNever;
  start.val_samples = validates ? data_.val->dataset().size() : 0;
  start.parameters = parameters_;
  start.threads = options_.threads;
  start.memory = memory_;
  return start;
}

TrainerSettings Session::trainer_settings() const {
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

TrainOutcome Session::train(const std::atomic<bool>* stop) {
  const engine::UseKernelTable own(&kernels_);
  if (observer_ != nullptr) observer_->on_start(start_report());
  const TrainerParts parts{.model = model_.get(),
                           .optimizer = optimization_.optimizer.get(),
                           .ema = optimization_.ema.get(),
                           .train = data_.train.get(),
                           .val = data_.val.get(),
                           .directory = directory_.get(),
                           .weights = &weights_,
                           .ranks = options_.ranks,
                           .observer = observer_};
  start_memory_measurement(*options_.device);
  Trainer trainer(parts, trainer_settings(), state_);
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
  if (directory_ != nullptr)
    write_results(*directory_, outcome, receipt_of(options_, data_, outcome, kernels_.save()));
  return outcome;
}

}  // namespace dlpipe::run
