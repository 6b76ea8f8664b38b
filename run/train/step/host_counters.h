// The whole numbers that a model counts on the host wherever it runs: how many batches its batch norms have
// seen. A step on a device adds to them when it is asked for; one that is launched again or is skipped has to
// add or take back the same by hand. Refers to the model's buffers; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

class HostCounters {
 public:
  explicit HostCounters(const engine::Module& model) {
    for (const engine::NamedTensor& buffer : model.buffers()) {
      if (buffer.tensor.dtype() == DType::kI64) counters_.push_back(buffer.tensor);
    }
  }
  using Values = std::vector<int64_t>;
  Values values() const {
    Values values;
    for (const engine::Tensor& counter : counters_) values.push_back(*counter.data<int64_t>());
    return values;
  }
  /// What was added since they were `before`.
  Values since(const Values& before) const {
    Values added = values();
    for (size_t i = 0; i < added.size(); ++i) added[i] -= before[i];
    return added;
  }
  void add(const Values& amounts) {
    for (size_t i = 0; i < amounts.size(); ++i) *counters_[i].data<int64_t>() += amounts[i];
  }
  void take_back(const Values& amounts) {
    for (size_t i = 0; i < amounts.size(); ++i) *counters_[i].data<int64_t>() -= amounts[i];
  }

 private:
  std::vector<engine::Tensor> counters_;
};

}  // namespace dlpipe::run
