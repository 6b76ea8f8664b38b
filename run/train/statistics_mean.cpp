#include "dlpipe/run/train/statistics_mean.h"

#include <cstring>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/tensor_bytes.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

StatisticsMean::StatisticsMean(std::vector<NamedTensor> buffers, int64_t grains, engine::Collective* ranks)
    : buffers_(std::move(buffers)), ranks_(ranks) {
  if (buffers_.empty() || (grains == 1 && ranks == nullptr)) return;
  lanes_.resize(static_cast<size_t>(grains));
}

void StatisticsMean::read(Values& to) const {
  to.numbers.clear();
  to.others.clear();
  for (const NamedTensor& buffer : buffers_) {
    const Tensor& tensor = buffer.tensor;
    if (tensor.dtype() == DType::kF32) {
      to.numbers.insert(to.numbers.end(), tensor.data<float>(), tensor.data<float>() + tensor.elements());
    } else {
      const std::span<const std::byte> bytes = bytes_of(tensor);
      to.others.insert(to.others.end(), bytes.begin(), bytes.end());
    }
  }
}

void StatisticsMean::write(const Values& from) {
  size_t number = 0, other = 0;
  for (NamedTensor& buffer : buffers_) {
    Tensor& tensor = buffer.tensor;
    const bool is_number = tensor.dtype() == DType::kF32;
    const void* const source =
        is_number ? static_cast<const void*>(&from.numbers[number]) : &from.others[other];
    std::memcpy(tensor.raw(), source, tensor.size_bytes());
    tensor.bump_version();
    if (is_number) {
      number += static_cast<size_t>(tensor.elements());
    } else {
      other += tensor.size_bytes();
    }
  }
}

void StatisticsMean::begin_step(int64_t step) {
  step_ = step;
  if (lanes_.empty()) return;
  read(lanes_.front());
  for (Values& lane : lanes_) lane = lanes_.front();
}

void StatisticsMean::begin(int64_t grain) {
  if (!lanes_.empty()) write(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::end(int64_t grain) {
  if (!lanes_.empty()) read(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::finish() {
  if (lanes_.empty()) return;
  std::vector<float>& sum = lanes_.front().numbers;
  for (size_t step = 1; step < lanes_.size(); step *= 2) {
    for (size_t left = 0; left + step < lanes_.size(); left += 2 * step) {
      const std::vector<float>& right = lanes_[left + step].numbers;
      for (size_t i = 0; i < sum.size(); ++i) lanes_[left].numbers[i] += right[i];
    }
  }
  size_t grains = lanes_.size();
  if (ranks_ != nullptr) {
    grains *= static_cast<size_t>(ranks_->world());
    throw_if_error(ranks_->all_reduce(sum, concat("running statistics of step ", step_ + 1)).wait());
  }
  const float share = 1.0f / static_cast<float>(grains);  // exact: grains are a power of two
  for (float& value : sum) value *= share;
  write(lanes_.front());
}

}  // namespace dlpipe::run
