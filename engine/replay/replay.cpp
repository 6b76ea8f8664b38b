#include "dlpipe/engine/replay/replay.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "dlpipe/engine/core/kernel_call.h"
#include "dlpipe/engine/core/node.h"
#include "dlpipe/engine/core/tensor_impl.h"
#include "dlpipe/engine/replay/arena_plan.h"

namespace dlpipe::engine::replay {

namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

size_t block_of(const Recording& recording, ValueId id) {
  return recording.values()[static_cast<size_t>(id)].block;
}

/// By block: from which call to which the pass needs it.
std::vector<Lifetime> lifetimes_of(const Recording& recording) {
  std::vector<Lifetime> lifetimes;
  for (const MemoryBlock& block : recording.blocks()) lifetimes.push_back({block.bytes, kNever, 0});
  const auto touch = [&](ValueId id, size_t call) {
    if (id == kNoValue) return;
    Lifetime& lifetime = lifetimes[block_of(recording, id)];
    lifetime.first = std::min(lifetime.first, call);
    lifetime.last = std::max(lifetime.last, call);
  };
  for (size_t i = 0; i < recording.calls().size(); ++i) {
    const Call& call = recording.calls()[i];
    for (const auto* ids : {&call.inputs, &call.outputs, &call.grad_outputs, &call.grad_inputs}) {
      for (const ValueId id : *ids) touch(id, i);
    }
  }
  touch(recording.answer(), recording.first_part());
  return lifetimes;
}

}  // namespace

Replay::Replay(const Recording& recording) : first_part_(recording.first_part()) {
  make_tensors(recording);
  make_steps(recording);
  plan(recording);
  answer_ = tensors_[static_cast<size_t>(recording.answer())];
}

Replay::~Replay() = default;

void Replay::make_tensors(const Recording& recording) {
  // What has no memory of its own stands in memory that comes later: bind().
  const auto nowhere = std::make_shared<Storage>(cpu_device(), nullptr);
  placed_.resize(recording.blocks().size());
  for (const Value& value : recording.values()) {
    const MemoryBlock& block = recording.blocks()[value.block];
    auto impl = std::make_shared<TensorImpl>();
    impl->storage = block.memory != nullptr ? block.memory : nowhere;
    impl->spec = value.spec;
    impl->strides = value.strides;
    impl->contiguous = value.contiguous;
    if (block.kind == MemoryBlock::Kind::kInput && placed_[value.block].empty())
      inputs_.push_back({block.input, value.block, value.offset});  // the input itself is the first there
    placed_[value.block].push_back({impl.get(), value.offset});
    tensors_.push_back(TensorImpl::wrap(std::move(impl)));
  }
  for (size_t i = 0; i < recording.blocks().size(); ++i) {
    const MemoryBlock& block = recording.blocks()[i];
    if (block.memory == nullptr) continue;
    bind(i, static_cast<std::byte*>(block.memory->data));
    if (block.version > 0 && block.kind == MemoryBlock::Kind::kLasting)
      changed_.push_back({block.memory, block.version});
  }
}

std::vector<Tensor> Replay::tensors_of(const std::vector<ValueId>& ids) const {
  std::vector<Tensor> tensors;
  for (const ValueId id : ids)
    tensors.push_back(id == kNoValue ? Tensor() : tensors_[static_cast<size_t>(id)]);
  return tensors;
}

void Replay::make_steps(const Recording& recording) {
  for (const Call& call : recording.calls()) {
    Step step{call, tensors_of(call.inputs), tensors_of(call.outputs), tensors_of(call.grad_outputs),
              tensors_of(call.grad_inputs)};
    step.planned = step.grad_inputs;
    steps_.push_back(std::move(step));
  }
}

void Replay::plan(const Recording& recording) {
  std::vector<Lifetime> lifetimes = lifetimes_of(recording);
  // Memory that the pass needs no more when a leaf gets it may be the leaf's: it stays to the end.
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].call.kind != Call::Kind::kGradient) continue;
    const size_t block = block_of(recording, steps_[i].call.inputs[0]);
    steps_[i].is_own = recording.blocks()[block].kind == MemoryBlock::Kind::kTemporary &&
                       lifetimes[block].last == i && steps_[i].inputs[0].is_contiguous();
    if (steps_[i].is_own) lifetimes[block].last = steps_.size();
  }
  std::vector<Lifetime> temporary;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (recording.blocks()[i].kind != MemoryBlock::Kind::kTemporary) continue;
    temporaries_.push_back({i, 0});
    temporary.push_back(lifetimes[i]);
  }
  const ArenaPlan plan = plan_arena(temporary);
  for (size_t i = 0; i < temporaries_.size(); ++i) temporaries_[i].offset = plan.offsets[i];
  arena_bytes_ = plan.bytes;
}

void Replay::bind(size_t block, std::byte* base) {
  for (const Placed& placed : placed_[block]) placed.tensor->data = base + placed.offset;
}

void Replay::bind_arena() {
  for (Step& step : steps_) {
    if (step.call.kind != Call::Kind::kGradient) continue;
    const Tensor grad = step.call.leaf.grad();
    if (grad.defined() && grad.impl()->storage == arena_) step.call.leaf.set_grad(grad.clone());
  }
  if (arena_ != nullptr && arena_.use_count() == 1) return;
  arena_ = std::make_shared<Storage>(cpu_device(), arena_bytes_);
  for (const ArenaBlock& temporary : temporaries_)
    bind(temporary.block, static_cast<std::byte*>(arena_->data) + temporary.offset);
}

void Replay::bind_inputs(std::span<const Tensor> inputs) {
  for (const InputBlock& input : inputs_) bind(input.block, inputs[input.input].impl()->data - input.offset);
}

const Tensor& Replay::run_first_part(std::span<const Tensor> inputs) {
  bind_arena();
  bind_inputs(inputs);
  for (size_t i = 0; i < first_part_; ++i) run(steps_[i]);
  for (const Changed& changed : changed_) changed.memory->version += changed.times;
  return answer_;
}

void Replay::run_second_part() {
  const NoGrad no_grad;
  for (size_t i = first_part_; i < steps_.size(); ++i) run(steps_[i]);
}

void Replay::run(Step& step) {
  Call& call = step.call;
  if (call.record != nullptr && call.record->renew != nullptr) call.record->renew(call.attrs);
  switch (call.kind) {
    case Call::Kind::kForward:
      return run_forward(*call.record, *call.kernels, {step.inputs, step.outputs, call.attrs});
    case Call::Kind::kBackward:
      return run_backward(step);
    case Call::Kind::kCopy:
      return copy_values(step.outputs[0], step.inputs[0]);
    case Call::Kind::kGradient:
      return hand_gradient(step);
  }
}

void Replay::run_backward(Step& step) {
  const Call& call = step.call;
  engine::run_backward(
      *call.record, *call.kernels,
      {step.inputs, step.outputs, step.grad_outputs, step.grad_inputs, call.attrs, call.input_specs});
  for (size_t i = 0; i < step.grad_inputs.size(); ++i) {
    if (step.grad_inputs[i].impl() == step.planned[i].impl()) continue;
    // Of the same form; in memory of its own, unless it is that of the gradient it was made from.
    if (step.grad_inputs[i].raw() != step.planned[i].raw())
      std::memcpy(step.planned[i].raw(), step.grad_inputs[i].raw(), extent_bytes(step.grad_inputs[i]));
    step.grad_inputs[i] = step.planned[i];
  }
}

void Replay::hand_gradient(Step& step) {
  const Tensor& grad = step.inputs[0];
  if (!step.is_own) return accumulate_gradient(step.call.leaf, grad.clone(), true);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = arena_;
  impl->data = grad.impl()->data;
  impl->spec = grad.impl()->spec;
  impl->strides = grad.impl()->strides;
  accumulate_gradient(step.call.leaf, TensorImpl::wrap(std::move(impl)), true);
}

}  // namespace dlpipe::engine::replay
