#include "dlpipe/engine/replay/recording.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/allocator.h"
#include "dlpipe/engine/core/tensor_impl.h"

namespace dlpipe::engine::replay {

namespace {

using Kind = MemoryBlock::Kind;

std::string owner_of(const MemoryBlock& block) {
  switch (block.kind) {
    case Kind::kInput:
      return "the batch";
    case Kind::kLasting:
      return "weights or buffers";
    case Kind::kConstant:
      return "a constant of the pass";
    case Kind::kTemporary:
      return concat("what ", block.maker, " made");
  }
  return "";
}

}  // namespace

size_t extent_bytes(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  const Shape& shape = impl.spec.shape;
  int64_t elements = shape.elements();
  if (impl.spec.layout == Layout::kPlain && elements > 0) {
    elements = 1;
    for (int axis = 0; axis < shape.rank(); ++axis)
      elements += (shape[axis] - 1) * impl.strides[static_cast<size_t>(axis)];
  }
  return static_cast<size_t>(elements) * dtype_size(impl.spec.dtype);
}

std::string Call::name() const {
  switch (kind) {
    case Kind::kForward:
      return record->name;
    case Kind::kBackward:
      return concat(record->name, " backward");
    case Kind::kCopy:
      return "copy";
    case Kind::kGradient:
      return "gradient";
  }
  return "";
}

Recording::Recording(std::span<const Tensor> inputs, std::span<const Tensor> lasting)
    : used_before_(allocator_statistics().used_bytes) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const size_t block = add_block(inputs[i], Kind::kInput);
    blocks_[block].input = i;
    (void)value_in(block, inputs[i]);  // where the block begins: an input may lie in the middle of its memory
  }
  for (const Tensor& tensor : lasting) {
    if (!known_.contains(tensor.impl()->storage.get())) add_block(tensor, Kind::kLasting);
  }
}

size_t Recording::add_block(const Tensor& tensor, Kind kind) {
  const std::shared_ptr<Storage>& storage = tensor.impl()->storage;
  if (known_.contains(storage.get())) on_refusal("two inputs of the pass lie in the same memory");
  const size_t block = blocks_.size();
  MemoryBlock& added = blocks_.emplace_back();
  added.kind = kind;
  added.version = storage->version;
  if (kind == Kind::kLasting || kind == Kind::kConstant) added.memory = storage;
  known_[storage.get()] = {storage, block};
  values_of_.emplace_back();
  return block;
}

ValueId Recording::value_in(size_t block, const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  const int64_t offset = impl.data - static_cast<const std::byte*>(impl.storage->data);
  const Value value{block, offset, impl.spec, impl.strides, impl.contiguous};
  blocks_[block].bytes = std::max(blocks_[block].bytes, static_cast<size_t>(offset) + extent_bytes(tensor));
  for (const ValueId known : values_of_[block]) {
    if (values_[static_cast<size_t>(known)] == value) return known;
  }
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back(value);
  values_of_[block].push_back(id);
  return id;
}

ValueId Recording::read(const Tensor& tensor) {
  if (!tensor.defined()) return kNoValue;
  const auto known = known_.find(tensor.impl()->storage.get());
  return value_in(known != known_.end() ? known->second.block : add_block(tensor, Kind::kConstant), tensor);
}

ValueId Recording::write(const Tensor& tensor, const char* maker) {
  if (!tensor.defined()) return kNoValue;
  const auto known = known_.find(tensor.impl()->storage.get());
  if (known != known_.end()) return value_in(known->second.block, tensor);
  const size_t block = add_block(tensor, Kind::kTemporary);
  blocks_[block].maker = maker;
  return value_in(block, tensor);
}

std::vector<ValueId> Recording::read_all(std::span<const Tensor> tensors) {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : tensors) ids.push_back(read(tensor));
  return ids;
}

std::vector<ValueId> Recording::write_all(std::span<const Tensor> tensors, const char* maker) {
  std::vector<ValueId> ids;
  for (const Tensor& tensor : tensors) ids.push_back(write(tensor, maker));
  return ids;
}

void Recording::add(Call call) {
  calls_.push_back(std::move(call));
  const size_t used = allocator_statistics().used_bytes;
  peak_bytes_ = std::max(peak_bytes_, used - std::min(used, used_before_));
}

void Recording::on_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args) {
  Call call{Call::Kind::kForward, &record, &kernels, args.attrs};
  call.inputs = read_all(args.inputs);
  call.outputs = write_all(args.outputs, record.name);
  add(std::move(call));
}

void Recording::on_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args) {
  Call call{Call::Kind::kBackward, &record, &kernels, args.attrs};
  call.inputs = read_all(args.inputs);
  call.outputs = read_all(args.outputs);
  call.grad_outputs = read_all(args.grad_outputs);
  call.grad_inputs = write_all(args.grad_inputs, record.name);
  call.input_specs.assign(args.input_specs.begin(), args.input_specs.end());
  add(std::move(call));
}

void Recording::on_copy(const Tensor& to, const Tensor& from) {
  Call call{Call::Kind::kCopy};
  call.inputs = {read(from)};
  call.outputs = {write(to, "a copy")};
  add(std::move(call));
}

void Recording::on_gradient(const Tensor& leaf, const Tensor& grad) {
  Call call{Call::Kind::kGradient};
  call.inputs = {read(grad)};
  call.leaf = leaf;
  add(std::move(call));
}

// What nobody knows yet is a constant in the making.
void Recording::on_values(const Tensor& tensor) {
  const auto known = known_.find(tensor.impl()->storage.get());
  if (known == known_.end()) return;
  on_refusal(concat("the host looks at values of ", owner_of(blocks_[known->second.block]),
                    " in the middle of the pass"));
}

void Recording::on_refusal(const std::string& reason) {
  if (refusal_.empty()) refusal_ = reason;
}

void Recording::end_first_part(const Tensor& answer) {
  first_part_ = calls_.size();
  answer_ = read(answer);
}

void Recording::end() {
  for (const auto& [storage, known] : known_) {
    MemoryBlock& block = blocks_[known.block];
    if (block.memory != nullptr) block.version = block.memory->version - block.version;
  }
  known_.clear();
}

}  // namespace dlpipe::engine::replay
