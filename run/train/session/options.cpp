#include "run/train/session/options.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/optim.h"
#include "engine/collective/launched.h"
#include "engine/core/device_code.h"
#include "run/config/choices.h"
#include "run/config/values.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

namespace {

void check_what_goes_together(const TrainConfig& config) {
  if (config.data.empty())
    refuse("train", "there is no dataset; give --data DIR, made by `dlpipe ingest SRC DIR`");
  if (!is_kind(config.data, Wanted::kRawData))
    throw_if_error(refuse_other_kind("dataset", config.data, Wanted::kDataset));
  throw_if_error(refuse_other_kind("weights", config.init, Wanted::kModel));
  if (config.model.empty())
    refuse("train", "there is no model; give --model NAME (--help models lists them)");
  if (config.reset_head && config.init.empty()) refuse("train", "--reset-head needs --init FILE");
  if (config.early_stop > 0 && config.val_every == "never")
    refuse("train", "--early-stop counts validations, but --val-every never disables them");
  milestones_of(config);
  const bool caches = value_or_throw(parse_cache(config.cache));
  if (caches && config.out.empty() && config.overfit_batch == 0)
    refuse("train", "--cache ", config.cache, " stores records in the run directory; also give --out RUN");
  if (!caches && !config.cache_size.empty())
    refuse("train", "--cache-size has no effect without a cache; also give --cache coefficients");
}

void note_what_overfitting_leaves_out(const TrainConfig& config, const Notes& notes) {
  std::string idle;
  const auto add = [&](bool is_given, const char* option) {
    if (is_given) idle += concat(idle.empty() ? "" : ", ", option);
  };
  add(config.mixup > 0, "--mixup");
  add(config.cutmix > 0, "--cutmix");
  add(config.label_smoothing.value_or(0) > 0, "--label-smoothing");
  add(value_or_throw(parse_cache(config.cache)), "--cache");
  add(!config.val.empty(), "--val");
  add(config.early_stop > 0, "--early-stop");
  add(!config.out.empty(), "--out");
  if (!idle.empty()) warn(notes, "--overfit-batch trains on one unchanged batch; it ignores " + idle);
}

void note_what_one_process_leaves_out(const TrainConfig& config, const Notes& notes) {
  const TrainConfig defaults;
  std::string idle;
  int count = 0;
  const auto add = [&](bool is_given, const char* option) {
    if (is_given) idle += concat(count++ > 0 ? " and " : "", option);
  };
  add(config.bucket_mb != defaults.bucket_mb, "--bucket-mb");
  add(config.shard_optimizer, "--shard-optimizer");
  add(config.tensor_parallel != defaults.tensor_parallel, "--tensor-parallel");
  add(config.pipeline_parallel != defaults.pipeline_parallel, "--pipeline-parallel");
  add(config.peer_timeout != defaults.peer_timeout, "--peer-timeout");
  add(config.exact != defaults.exact, "--exact");
  if (count == 0) return;
  warn(notes,
       concat(idle, count > 1 ? " have" : " has",
              " no effect in one process; `dlpipe launch --np 2 -- train` with the same options starts two"));
}

void note_what_the_host_leaves_out(const TrainConfig& config, const Device& device, const Notes& notes) {
  if (config.decode == "host" && device.is_host())
    warn(notes, concat("--decode host has no effect on ", device.name(),
                       ", which always decodes; it needs --device cuda"));
  if (!value_or_throw(parse_exact(config.exact)) && device.is_host())
    warn(notes, concat("--exact off has no effect on ", device.name(),
                       ", whose sums are exact; it needs --device cuda"));
}

void check_isa(const TrainConfig& config, const Device& device) {
  if (config.isa == "auto" || device.is_host()) return;
  refuse("train", "--isa ", config.isa, " selects the CPU's kernels; leave it out with --device ",
         config.device);
}

void check_device(Device& device, const engine::OptimizerRecord& optimizer,
                  const engine::OptimizerRegistry& optimizers) {
  if (device.is_host()) return;
  engine::device_code(device);  // for its error
  throw_if_error(engine::check_on_device("train", optimizer, optimizers, device));
}

/// The names of the optimizers with the property `can`: "adam, sgd".
std::string optimizers_that(bool engine::OptimizerRecord::*can, const engine::OptimizerRegistry& optimizers) {
  std::string names;
  for (const engine::OptimizerRecord* record : optimizers.records()) {
    if (record->*can) names += concat(names.empty() ? "" : ", ", record->name);
  }
  return names;
}

/// Refuses options that a GPU's step does not support yet.
void check_device_ranks(const TrainConfig& config, const Device& device, int world) {
  if (device.is_host()) return;
  const char* const given = config.sync_bn                        ? "--sync-bn"
                            : config.shard_optimizer && world > 1 ? "--shard-optimizer"
                                                                  : nullptr;
  if (given != nullptr) refuse("train", given, " needs --device cpu so far");
  if (!value_or_throw(parse_exact(config.exact)) && config.compress != "none")
    refuse("train", "--compress ", config.compress, " needs exact sums; leave it or --exact off out");
}

void check_shares(const engine::OptimizerRecord& optimizer, const engine::OptimizerRegistry& optimizers,
                  const TrainConfig& config, int world) {
  if (!config.shard_optimizer || world == 1 || optimizer.shares) return;
  refuse("train", "--shard-optimizer: ", config.optimizer, " needs whole tensors; use one of ",
         optimizers_that(&engine::OptimizerRecord::shares, optimizers), ", or leave it out");
}

bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// The processes as a grid, after checking --tensor-parallel and --pipeline-parallel against other options.
engine::RankGrid grid_of(const SessionOptions& options, engine::Collective* ranks) {
  const TrainConfig& config = options.config;
  const int64_t parts = config.tensor_parallel, stages = config.pipeline_parallel;
  if (ranks == nullptr || parts * stages == 1) return engine::make_rank_grid(ranks, 1, 1);
  const std::string given = replica_options(config);
  if (!is_power_of_two(parts) || !is_power_of_two(stages)) refuse("train", given, "; use powers of two");
  if (parts * stages > ranks->world())
    refuse("train", given, " needs ", parts * stages, " processes, but there are ", ranks->world(),
           "; start more, or use smaller values");
  if (stages > 1 && config.sync_bn)
    refuse("train", given, " does not work with --sync-bn; leave one of them out");
  if (!options.is_on_host()) refuse("train", given, " needs --device cpu so far");
  if (config.shard_optimizer)
    refuse("train", given, " does not work with --shard-optimizer yet; leave one of them out");
  if (parts > 1 && !options.optimizer->splits) {
    refuse("train", given, ": the state of ", config.optimizer, " is not one number per weight; use one of ",
           optimizers_that(&engine::OptimizerRecord::splits, options.registries.optimizers));
  }
  return engine::make_rank_grid(ranks, static_cast<int>(stages), static_cast<int>(parts));
}

/// Chooses --grains if it is not given, and checks it against other options.
void resolve_grains(TrainConfig& config, const engine::RankGrid& ranks, const Notes& notes) {
  constexpr int64_t kDefaultGrains = 8;
  const int world = ranks.data_world();
  const std::string takers = concat(world, ranks.replica_world() > 1 ? " groups of processes" : " processes");
  const bool is_given = config.grains > 0;
  const bool is_one = world == 1 && ranks.stage_world() == 1;
  if (!is_given) config.grains = is_one ? 1 : std::max<int64_t>(kDefaultGrains, world);
  if (config.grains == 1 && world == 1) return;
  const auto given = concat(is_given ? "--grains " : "the default, --grains ", config.grains);
  if (!is_power_of_two(config.grains)) refuse("train", given, "; use a power of two");
  if (config.grains < world) {
    refuse("train", given, " is less than the ", takers, ", and each needs at least one; start ",
           config.grains * ranks.replica_world(), " processes",
           is_given ? ", or start another run with more grains" : "");
  }
  if (config.batch % config.grains != 0) {
    refuse("train", given, " does not divide --batch ", config.batch,
           "; use a multiple of it, or other --grains");
  }
  if (!is_given) {
    tell(notes, concat(takers, " compute --grains ", config.grains, " of ", config.batch / config.grains,
                       " samples; one ", ranks.replica_world() > 1 ? "group" : "process",
                       " computes the same run with --grains ", config.grains));
  }
}

/// Checks the options that need more than one grain.
void check_grain_options(const TrainConfig& config) {
  // Grains that take turns would interrupt each other's second forward, which sets gradients aside.
  if (config.sync_bn && !config.checkpoint_activations.empty())
    refuse("train", "--sync-bn does not work with --checkpoint-activations yet; leave one of them out");
  if (config.grains > 1) return;
  if (config.sync_bn) {
    refuse(
        "train",
        "--sync-bn computes batch norm's statistics over all grains of a batch, but there is one; leave it "
        "out, or "
        "give --grains 8");
  }
  if (config.compress != "none") {
    refuse("train", "--compress ", config.compress,
           " applies to sums of gradients over grains, but there is one; leave it out, or give --grains 8");
  }
}

/// Whether the launcher made only one GPU visible to this process, like Slurm with --gpus-per-task=1.
bool sees_one_gpu() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible != '\0' &&
         std::string_view(visible).find(',') == std::string_view::npos;
}

/// The number of the GPU that `name` means: with cuda, each of several processes on a machine has its own.
int64_t gpu_number(const std::string& name) {
  if (name == "cuda") return sees_one_gpu() ? 0 : value_or_throw(engine::launched_rank()).local_rank;
  int64_t number = 0;
  return name.starts_with("cuda:") && parse_int(name.substr(5), &number) ? number : 0;
}

/// Kernels run on the first GPU that a process sees (core/device_code.h), so only this one is made visible. CUDA reads this
/// setting at its first call.
void show_gpu(int64_t number) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string own = std::to_string(number);
  if (visible != nullptr && *visible != '\0') {
    const std::vector<std::string> all = split(visible, ',');
    if (number >= static_cast<int64_t>(all.size())) return;  // there is no such GPU, which is reported later
    own = all[static_cast<size_t>(number)];
  }
  ::setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
}

/// The device called `name`. With several processes on a machine, --device cuda gives each a separate GPU.
Device* find_device_of_rank(const Registries& registries, const std::string& name) {
  const int64_t number = gpu_number(name);
  if (number <= 0) return value_or_throw(registries.find_device(name));
  const std::string numbered = concat("cuda:", number);
  show_gpu(number);
  const bool is_shown_alone = !registries.find_device("cuda:1").ok();
  const Result<Device*> own = registries.find_device(is_shown_alone ? "cuda" : numbered);
  if (own.ok()) return *own;
  if (name == "cuda")
    refuse("train", "--device cuda: process ", number + 1, " on this machine has no GPU of its own (",
           without_area(own.status().message()), "); start one process per GPU");
  return value_or_throw(registries.find_device(name));
}

/// The number of threads that this process may use. Ranks on one machine share its cores, unless each has its own.
int own_threads() {
  const engine::LaunchedRank launched = value_or_throw(engine::launched_rank());
  return launched.has_own_cores ? available_threads()
                                : std::max(1, available_threads() / launched.local_world);
}

TrainStepOptions step_options(const SessionOptions& options) {
  const TrainConfig& config = options.config;
  TrainStepOptions step;
  step.accumulate = config.accumulate;
  step.grains = config.grains;
  step.ranks = options.ranks.data.get();
  step.tensor_ranks = options.ranks.tensor.get();
  step.stage_ranks = options.ranks.stages.get();
  step.replica_ranks = options.ranks.replica.get();
  step.sync_bn = config.sync_bn;
  step.wire = value_or_throw(parse_compress(config.compress));
  step.peer_timeout_s = config.peer_timeout;
  step.bucket_bytes = static_cast<int64_t>(config.bucket_mb * 1e6);
  step.shard_optimizer = config.shard_optimizer;
  step.clip = config.clip;
  step.dtype = value_or_throw(training_dtype(config.dtype, *options.device));
  step.tf32 = take_tf32(config.tf32, *options.device);
  step.seed = static_cast<uint64_t>(config.seed);
  step.skip_nonfinite = value_or_throw(parse_on_nonfinite(config.on_nonfinite));
  step.graph = value_or_throw(parse_graph(config.graph));
  return step;
}

EvalOptions eval_options(const SessionOptions& options) {
  EvalOptions eval;
  eval.dtype = options.step.dtype;
  eval.tf32 = options.step.tf32;
  eval.grains = options.config.grains;
  eval.ranks = options.ranks.data.get();
  eval.all_ranks = options.ranks.all;
  eval.views = value_or_throw(parse_views(options.config.tta));
  return eval;
}

/// The bytes that `text`, the value of `option`, means; 0 if it is empty.
uint64_t given_bytes(const char* option, const std::string& text) {
  uint64_t bytes = 0;
  if (!text.empty() && (!parse_bytes(text, &bytes) || bytes == 0))
    refuse("train", option, " ", text, "; give an amount above 0 with its unit, such as 8GiB");
  return bytes;
}

}  // namespace

LossArguments evaluation_loss_options(const TrainConfig& config) {
  LossArguments loss;
  for (const LossOption& option : kLossOptions)
    loss.*option.value = (config.*option.given).value_or(loss.*option.value);
  return loss;
}

void set_task(SessionOptions& options, const TaskState& state, int64_t outputs,
              std::span<const double> class_weights) {
  const TrainConfig& config = options.config;
  TrainStepOptions& step = options.step;
  EvalOptions& eval = options.eval;
  eval.task = &task_of(state);
  eval.task_state = state;
  eval.target = step.target = eval.task->target(state, outputs);
  const bool is_open = config.loss == "auto";  // the data are not open yet
  eval.loss = step.loss =
      value_or_throw(options.registries.losses.find(is_open ? eval.task->loss : config.loss));
  eval.loss_arguments = evaluation_loss_options(config);
  LossArguments& loss = step.loss_arguments = eval.loss_arguments;
  loss.label_smoothing = options.overfits() ? 0 : config.label_smoothing.value_or(0);
  const std::vector<float> weights(class_weights.begin(), class_weights.end());
  if (!weights.empty() && (eval.task->weighed == Weighed::kLabels || eval.task->weighed == Weighed::kBoxes)) {
    loss.label_weights =
        engine::Tensor::from(std::span<const float>(weights), {static_cast<int64_t>(weights.size())});
  } else {
    step.target.class_weights = weights;
  }
  eval.metrics.clear();
  const bool are_open = config.metrics == std::vector<std::string>{"auto"};
  for (const std::string& metric : are_open ? eval.task->metrics() : config.metrics)
    eval.metrics.push_back(value_or_throw(options.registries.metrics.find(metric)));
}

void check_early_stop(const TrainConfig& config) {
  if (config.early_stop > 0)
    refuse("train", "--early-stop counts validations, but there is no validation set; give --val");
}

std::vector<double> milestones_of(const TrainConfig& config) {
  const double most_epochs = find_config_option("epochs")->high;
  std::vector<double> epochs;
  for (const std::string& milestone : config.milestones) {
    double epoch = 0;
    if (!parse_double(milestone, &epoch) || !(epoch >= 0 && epoch <= most_epochs))
      refuse("config", "--milestones holds '", milestone, "'; expected epochs, such as 30,60,80");
    epochs.push_back(epoch);
  }
  return epochs;
}

SessionOptions open_device_sums(SessionOptions options) {
  if (value_or_throw(parse_exact(options.config.exact)) || options.ranks.world() == 1 || options.is_on_host())
    return options;
  if (options.device->kind() != DeviceKind::kCuda) refuse("train", "--exact off needs --device cuda");
  options.device_sums =
      value_or_throw(engine::open_nccl_sums(*options.ranks.data, {.device = options.device->index()}));
  options.step.device_sums = options.device_sums.get();
  return options;
}

std::string replica_options(const TrainConfig& config) {
  std::string given;
  if (config.pipeline_parallel > 1) given = concat("--pipeline-parallel ", config.pipeline_parallel);
  if (config.tensor_parallel > 1)
    given += concat(given.empty() ? "" : " ", "--tensor-parallel ", config.tensor_parallel);
  return given;
}

SessionOptions resolve_options(TrainConfig config, const Registries& registries, const Notes& notes,
                               engine::Collective* ranks) {
  throw_if_error(check_options(config));
  if (config.task != "auto") {
    const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find(config.task));
    config = value_or_throw(with_task(std::move(config), task, registries));
  } else {
    throw_if_error(resolve_choices(config, registries));
    for (const std::string& metric : config.metrics)
      if (metric != "auto") throw_if_error(registries.metrics.find(metric).status());
  }
  check_what_goes_together(config);
  if (config.overfit_batch > 0) note_what_overfitting_leaves_out(config, notes);
  SessionOptions options;
  options.config = std::move(config);
  options.registries = registries;
  const TrainConfig& c = options.config;
  const auto model = registries.models.find(c.model);
  if (!model.ok()) throw_if_error(refuse_other_kind("model", c.model, Wanted::kModelName));
  options.model = value_or_throw(model);
  options.optimizer = value_or_throw(registries.optimizers.find(c.optimizer));
  options.device = find_device_of_rank(registries, c.device);
  check_isa(c, *options.device);
  check_device(*options.device, *options.optimizer, registries.optimizers);
  options.ranks = grid_of(options, ranks);
  check_device_ranks(c, *options.device, options.ranks.world());
  check_shares(*options.optimizer, registries.optimizers, c, options.ranks.world());
  if (options.ranks.world() == 1) note_what_one_process_leaves_out(c, notes);
  note_what_the_host_leaves_out(c, *options.device, notes);
  if (options.ranks.world() > 1 && c.overfit_batch > 0)
    refuse("train", "--overfit-batch trains in one process; start it without mpirun");
  resolve_grains(options.config, options.ranks, notes);
  check_grain_options(options.config);
  options.threads = c.threads > 0 ? static_cast<int>(c.threads) : own_threads();
  options.step = step_options(options);
  options.eval = eval_options(options);
  set_task(options, {}, 0);
  options.val_every = value_or_throw(parse_interval(c.val_every, "val-every"));
  options.checkpoint_every = value_or_throw(parse_interval(c.checkpoint_every, "checkpoint-every"));
  options.memory_limit = given_bytes("--memory", c.memory);
  options.cache_bytes = given_bytes("--cache-size", c.cache_size);
  return options;
}

}  // namespace dlpipe::run
