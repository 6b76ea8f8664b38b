#include "dlpipe/run/train/gradients/statistics_mean.h"

#include <cstring>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/flat_sum.h"
#include "dlpipe/engine/core/tensor_bytes.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

StatisticsMean::StatisticsMean(std::vector<NamedTensor> buffers, int64_t grains, engine::Collective* ranks)
    : buffers_(std::move(buffers)), ranks_(ranks) {
  if (buffers_.empty() || (grains == 1 && ranks == nullptr)) return;
  lanes_.resize(static_cast<size_t>(grains));
  for (const NamedTensor& buffer : buffers_) {
    if (buffer.tensor.dtype() != DType::kF32) continue;
    device_ = &buffer.tensor.device();
    numbers_ += buffer.tensor.elements();
  }
}

void StatisticsMean::read(Values& to) const {
  if (!to.numbers.defined())
    to.numbers = Tensor::empty({{numbers_}, DType::kF32, engine::Layout::kPlain}, *device_);
  to.others.clear();
  float* number = to.numbers.data<float>();
  for (const NamedTensor& buffer : buffers_) {
    const Tensor& tensor = buffer.tensor;
    if (tensor.dtype() == DType::kF32) {
      engine::flat_copy(*device_, number, tensor.data<float>(), tensor.elements());
      number += tensor.elements();
    } else {
      const std::span<const std::byte> bytes = bytes_of(tensor);
      to.others.insert(to.others.end(), bytes.begin(), bytes.end());
    }
  }
}

void StatisticsMean::write(const Values& from) {
  const float* number = from.numbers.data<float>();
  const std::byte* other = from.others.data();
  for (NamedTensor& buffer : buffers_) {
    Tensor& tensor = buffer.tensor;
    if (tensor.dtype() == DType::kF32) {
      engine::flat_copy(*device_, tensor.data<float>(), number, tensor.elements());
      number += tensor.elements();
    } else {
      std::memcpy(tensor.raw(), other, tensor.size_bytes());
      other += tensor.size_bytes();
    }
    tensor.bump_version();
  }
}

void StatisticsMean::begin_step(int64_t step) {
  step_ = step;
  if (lanes_.empty()) return;
  for (Values& lane : lanes_) read(lane);
}

void StatisticsMean::begin(int64_t grain) {
  if (!lanes_.empty()) write(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::end(int64_t grain) {
  if (!lanes_.empty()) read(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::finish() {
  if (lanes_.empty()) return;
  for (size_t step = 1; step < lanes_.size(); step *= 2) {
    for (size_t left = 0; left + step < lanes_.size(); left += 2 * step) {
      float* const sum = lanes_[left].numbers.data<float>();
      engine::flat_add(*device_, sum, sum, lanes_[left + step].numbers.data<float>(), numbers_);
    }
  }
  Tensor sum = lanes_.front().numbers.to(cpu_device());
  const std::span<float> values(sum.data<float>(), static_cast<size_t>(numbers_));
  size_t grains = lanes_.size();
  if (ranks_ != nullptr) {
    grains *= static_cast<size_t>(ranks_->world());
    throw_if_error(ranks_->all_reduce(values, concat("running statistics of step ", step_ + 1)).wait());
  }
  const float share = 1.0f / static_cast<float>(grains);  // exact: grains are a power of two
  for (float& value : values) value *= share;
  lanes_.front().numbers = sum.to(*device_);
  write(lanes_.front());
}

}  // namespace dlpipe::run
