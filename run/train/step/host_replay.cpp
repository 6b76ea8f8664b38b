#include "dlpipe/run/train/step/host_replay.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/replay/difference.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;
using engine::replay::Recording;
using engine::replay::Replay;

static std::vector<Tensor> tensors_of(const BatchInput& input) {
  return {input.pixels, input.labels, input.weight};
}

HostReplay::HostReplay(engine::Module& model, std::string reason)
    : model_(model), reason_(std::move(reason)), counters_(model) {
  for (const NamedTensor& tensor : model.state_dict()) {
    // Counters are added to by hand.
    if (tensor.tensor.dtype() != DType::kI64) lasting_.push_back(tensor.tensor);
  }
}

HostReplay::Sight HostReplay::look(const std::vector<engine::Module::Named>& modules) const {
  Sight sight;
  for (const Tensor& tensor : lasting_) {
    sight.memory.push_back(tensor.raw());
    sight.states.push_back(tensor.requires_grad());
  }
  for (const engine::Module::Named& module : modules) sight.states.push_back(module.module->is_training());
  return sight;
}

void HostReplay::forget_forms() {
  form_ = nullptr;
  last_ = nullptr;
  forms_.clear();
}

void HostReplay::give_up(std::string reason) {
  reason_ = std::move(reason);
  forget_forms();
  memory_ = {};
}

void HostReplay::begin_step() {
  pass_ = Pass::kEager;
  recording_.reset();
  ++step_;
  if (!reason_.empty()) return;
  const std::vector<engine::Module::Named> modules = model_.modules();
  for (const engine::Module::Named& module : modules) {
    if (module.module->has_forward_hooks())
      return give_up(
          concat("a hook watches each forward call of ", module.name.empty() ? "the model" : module.name));
  }
  // Weights that were moved or frozen, a module that was put to eval(): recorded anew.
  Sight sight = look(modules);
  if (sight != sight_) forget_forms();
  sight_ = std::move(sight);
}

HostReplay::Form* HostReplay::form_of(const Inputs& inputs) {
  std::vector<engine::TensorSpec> specs = engine::specs_of(inputs);
  const auto known =
      std::find_if(forms_.begin(), forms_.end(), [&](const Form& form) { return form.specs == specs; });
  if (known != forms_.end()) return &*known;
  if (forms_.size() == kMostForms) return nullptr;
  forms_.push_back({.specs = std::move(specs)});
  return &forms_.back();
}

Tensor HostReplay::forward(const BatchInput& input, const std::function<Tensor()>& work) {
  pass_ = Pass::kEager;
  recording_.reset();
  if (!reason_.empty()) return work();
  const Inputs inputs = tensors_of(input);
  const bool is_plain = std::all_of(inputs.begin(), inputs.end(),
                                    [](const Tensor& t) { return !t.defined() || t.is_contiguous(); });
  form_ = is_plain ? form_of(inputs) : nullptr;
  if (form_ == nullptr) return work();
  if (form_->replay == nullptr) return form_->recorded_step == step_ ? work() : record(inputs, work);
  pass_ = Pass::kReplayed;
  if (last_ != nullptr && last_ != form_->replay.get()) last_->release_memory();
  last_ = form_->replay.get();
  counters_.add(form_->counts);
  return form_->replay->run_first_part(inputs);
}

Tensor HostReplay::record(const Inputs& inputs, const std::function<Tensor()>& work) {
  form_->recorded_step = step_;
  pass_ = Pass::kRecorded;
  counts_before_ = counters_.values();
  recording_ = std::make_unique<Recording>(inputs, lasting_);
  const engine::UseKernelObserver use(recording_.get());
  const engine::UseConstantCache none(nullptr);  // what is taken from one would not be recorded
  Tensor loss = work();
  recording_->end_first_part(loss);
  return loss;
}

void HostReplay::backward(const std::function<void()>& work) {
  if (pass_ == Pass::kReplayed) {
    form_->replay->run_second_part();
    memory_ = {form_->replay->arena_bytes(), form_->eager_bytes, form_->replay->calls(), memory_.passes + 1};
    return;
  }
  if (pass_ == Pass::kEager) return work();
  {
    const engine::UseKernelObserver use(recording_.get());
    const engine::UseConstantCache none(nullptr);
    work();
  }
  end_recording();
}

void HostReplay::release_memory() {
  if (last_ == nullptr) return;
  last_->release_memory();
  engine::release_cached_blocks();
}

void HostReplay::end_recording() {
  recording_->end();
  HostCounters::Values counts = counters_.since(counts_before_);
  Form& form = *form_;
  if (!recording_->refusal().empty()) return give_up(recording_->refusal());
  if (form.recording == nullptr) {
    form.recording = std::move(recording_);
    form.counts = std::move(counts);
    return;
  }
  if (std::string different = engine::replay::difference(*form.recording, *recording_); !different.empty())
    return give_up(std::move(different));
  if (counts != form.counts) return give_up("batch norms count batches in another way from pass to pass");
  form.replay = std::make_unique<Replay>(*recording_);
  form.eager_bytes = recording_->peak_bytes();
  form.recording.reset();
  engine::release_cached_blocks();  // what passes that are no more run as they are had, the arena has now
}

}  // namespace dlpipe::run
