#include "dlpipe/run/train/session/memory.h"

#include <algorithm>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/train/gradients/gradient_sum.h"
#include "dlpipe/run/train/session/model.h"

namespace dlpipe::run {

/// Parts of a batch of which one is in memory at a time: grains, or where they go on together those of a process.
static int64_t parts_of(const SessionOptions& options) {
  return options.config.sync_bn ? options.ranks.data_world() : options.config.grains;
}

/// What the process holds beside what a plan counts, which there is little of before the first step.
static uint64_t bytes_beside() {
  const engine::AllocatorStatistics engine = engine::allocator_statistics();
  const uint64_t counted = engine.used_bytes + engine.cached_bytes;
  const uint64_t resident = resident_bytes();
  return resident - std::min<uint64_t>(resident, counted);
}

MemoryPlan plan_memory(const SessionOptions& options, const SessionData& data, const engine::Module& model) {
  const TrainConfig& config = options.config;
  MemoryPlanArguments arguments;
  arguments.model = options.model;
  arguments.model_arguments = data.model.arguments;
  arguments.freeze = config.freeze;
  arguments.checkpoint_activations = config.checkpoint_activations;
  arguments.optimizer = options.optimizer;
  arguments.optimizer_arguments = optimizer_arguments(options);
  arguments.step = options.step;
  arguments.step.keep_packed = options.step.packs_once();
  arguments.step.accumulate = 1;
  arguments.step.grains = 1;  // the probe is one grain, in this process alone
  arguments.step.ranks = nullptr;
  arguments.step.tensor_ranks = nullptr;
  arguments.step.stage_ranks = nullptr;
  arguments.step.replica_ranks = nullptr;
  arguments.step.sync_bn = false;
  arguments.step.shard_optimizer = false;
  if (data.val != nullptr && options.val_every.unit != Interval::Unit::kNever) {
    if (const FieldSpec* image = image_field(data.val->schema())) arguments.val_image = image->shape;
    arguments.eval = options.eval;
  }
  arguments.batch = config.batch / parts_of(options);
  arguments.device = options.device;
  arguments.has_average = config.ema > 0;
  arguments.slot_bytes = static_cast<uint64_t>(data.train->stats().slot_bytes);
  if (data.val != nullptr) arguments.slot_bytes += static_cast<uint64_t>(data.val->stats().slot_bytes);
  arguments.scratch_bytes = data.scratch_bytes;
  const GradientSum::Form form = options.step.gradient_form();
  const bool are_summed = GradientSum::is_needed(form);
  arguments.gradients_go = are_summed && !config.compile;  // an arena has room for those of a whole pass
  MemoryPlan plan = plan_memory(arguments);
  plan.gradients =
      GradientSum::bytes(form, model.parameters()) + (are_summed && config.compile ? plan.gradients : 0);
  if (options.is_on_host()) plan.beside = bytes_beside();
  if (options.step.shares()) plan.optimizer /= static_cast<uint64_t>(options.ranks.data_world());
  if (options.memory_limit == 0 || plan.total() <= options.memory_limit) return plan;
  const int64_t most = plan.largest_batch(options.memory_limit) * parts_of(options);
  refuse("train", "batch ", config.batch, " takes about ", human_bytes(plan.total()),
         " beside the program itself, more than --memory ", config.memory, "; ",
         most > 0
             ? concat("the largest batch that fits is ", most)
             : concat("not even one sample fits: take a smaller model, or, as ", human_bytes(plan.scratch),
                      " of it are for decoding and --augment, smaller pictures between its ops, or fewer "
                      "--threads"));
}

// What was held when there was no more is taken for all there is.
std::string memory_advice(const SessionOptions& options, const MemoryPlan& plan) {
  const int64_t batch = options.config.batch;
  std::string advice = "; take a smaller --batch, --checkpoint-activations, or --dtype bf16";
  if (plan.total() == 0) return advice;
  const uint64_t held = measured_engine_bytes(*options.device) + plan.slots + plan.scratch;
  const int64_t fits = std::min(plan.largest_batch(held) * parts_of(options), batch - 1);
  advice += concat("; planned were ", human_bytes(plan.total()), " for --batch ", batch);
  return fits > 0 ? concat(advice, ", and ", fits, " should fit") : advice;
}

}  // namespace dlpipe::run
