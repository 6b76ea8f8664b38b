#include "dlpipe/run/train/step/batch_pass.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/layers/stage_line.h"
#include "dlpipe/engine/ops/batch_statistics.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/train/gradients/nonfinite.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

void fail_nonfinite(int64_t step, const std::string& reason) {
  throw Error(Status(ErrorCode::kNonfinite, concat("[train] step ", step + 1,
                                                   ": a number is not finite; the first is in ", reason)));
}

BatchPass::BatchPass(engine::Module& model, const TrainStepOptions& options, Tensor random_key)
    : model_(model),
      options_(options),
      random_key_(std::move(random_key)),
      parameters_(model.parameters()),
      buffers_(model.buffers()) {}

void BatchPass::begin_step() {
  model_.zero_grad();
  if (options_.skip_nonfinite) save_buffers();
}

// Batch norms see the batch before anybody knows whether it counts.
void BatchPass::save_buffers() {
  if (saved_buffers_.size() != buffers_.size()) {
    for (const NamedTensor& buffer : buffers_) saved_buffers_.push_back(buffer.tensor.clone());
    return;
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Tensor& now = buffers_[i].tensor;
    engine::copy_memory(saved_buffers_[i].device(), saved_buffers_[i].raw(), now.device(), now.raw(),
                        now.size_bytes());
  }
}

void BatchPass::seed_host(int64_t step, int64_t part) const {
  engine::random_state() = {options_.seed, step * options_.parts() + part, 0, random_key_};
}

void BatchPass::seed(int64_t step, int64_t part) const {
  seed_host(step, part);
  if (random_key_.defined()) engine::write_random_key(engine::random_state());
}

// The device's key isn't written here: in a graph that would be the captured step's.
Tensor BatchPass::loss(const BatchInput& input, int64_t step, int64_t part) {
  seed_host(step, part);
  Tensor y = model_(input.pixels);
  if (const engine::StageLine* line = model_.stage_line(); line != nullptr && !line->is_last()) return y;
  return options_.loss->compute(input.rows(y), input.labels, input.weight, options_.loss_arguments);
}

Tensor BatchPass::no_loss(const BatchInput& input, int64_t step, int64_t part) {
  seed_host(step, part);
  return engine::scale(engine::sum(model_(input.pixels)), 0.0);
}

Tensor BatchPass::share(const Tensor& loss) const {
  if (options_.parts() == 1) return loss;
  return engine::scale(loss, 1.0 / static_cast<double>(options_.parts()));
}

std::string BatchPass::find_layer(const BatchInput& input, int64_t step, int64_t part) {
  if (model_.stage_line() != nullptr)
    return "the loss itself";  // the other stages are elsewhere in the batch
  const engine::UseAutocast autocast(options_.dtype);
  const engine::UseStatisticsPeers alone(nullptr);
  seed(step, part);
  std::string layer = first_word(first_nonfinite_input(model_, input.pixels));
  if (layer.empty()) layer = first_word(first_nonfinite_output(model_, input.pixels));
  return layer.empty() ? "the loss itself" : layer;
}

// Ranks that have parts of the weights find something in different ones, and go through the model together or not at all.
std::string BatchPass::first_word(std::string mine) const {
  if (options_.tensor_ranks == nullptr) return mine;
  for (std::string& word :
       value_or_throw(options_.tensor_ranks->gather(mine, "where a number is not finite"))) {
    if (!word.empty()) return std::move(word);
  }
  return "";
}

}  // namespace dlpipe::run
