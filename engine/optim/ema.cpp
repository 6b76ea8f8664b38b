#include "dlpipe/optim.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/core/parallel.h"
#include "engine/core/tensor_impl.h"
#include "engine/optim/flat_groups.h"

namespace dlpipe::engine {
namespace {

[[noreturn]] void fail_ema(const std::string& message) {
  refuse("ema", message);
}

void average(Tensor& mean, const Tensor& weight, double decay) {
  constexpr int64_t kGrain = 16384;
  float* const to = mean.data<float>();
  const float* const from = weight.data<float>();
  const auto keep = static_cast<float>(decay);
  const auto take = static_cast<float>(1.0 - decay);
  parallel_ranges(mean.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = keep * to[i] + take * from[i];
  });
  mean.bump_version();
}

}  // namespace

Ema::Ema(const Module& model, double decay) : decay_(decay) {
  if (!(decay >= 0.0 && decay < 1.0)) fail_ema(concat("decay is ", decay, "; give a number in [0, 1)"));
  for (const NamedTensor& entry : model.state_dict()) averages_.push_back({entry.name, entry.tensor.clone()});
}

// Joins tensors that are next to each other in a flat group. The gaps between them are zeros and are averaged, too.
void Ema::build_runs(const std::vector<NamedTensor>& weights) {
  constexpr int64_t kGap = 64;
  std::vector<size_t> order;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].tensor.device().is_host()) order.push_back(i);
  }
  const auto address = [&](size_t i) { return weights[i].tensor.data<float>(); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return address(a) < address(b); });
  runs_.clear();
  for (size_t first = 0; first < order.size();) {
    const float* const begin = address(order[first]);
    const float* end = begin;
    const size_t head = order[first];
    size_t last = first;
    for (; last < order.size(); ++last) {
      const Tensor& tensor = weights[order[last]].tensor;
      const bool near =
          last == first || (address(order[last]) - end < kGap &&
                            tensor.impl()->storage == weights[order[first]].tensor.impl()->storage);
      if (!near) break;
      end = address(order[last]) + tensor.elements();
    }
    Device& device = weights[order[first]].tensor.device();
    const Tensor all = Tensor::full({end - begin}, 0.0, DType::kF32, device);
    for (; first < last; ++first) {
      NamedTensor& mean = averages_[order[first]];
      const Tensor share = share_of(all, address(order[first]) - begin, mean.tensor.shape());
      copy_memory(device, share.raw(), device, mean.tensor.raw(), share.size_bytes());
      mean.tensor = share;
    }
    runs_.push_back({head, begin, all});
  }
}

void Ema::update(const Module& model, const int32_t* found_inf) {
  const std::vector<NamedTensor> weights = model.state_dict();
  if (weights.size() != averages_.size())
    fail_ema("the model has changed since the averages began; start new ones");
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor& mean = averages_[i].tensor;
    const Tensor& weight = weights[i].tensor;
    if (weights[i].name != averages_[i].name || weight.spec() != mean.spec()) {
      fail_ema(concat("'", weights[i].name, "' has changed since the averages began; start new ones"));
    }
    const bool is_host = mean.device().is_host();
    if (is_host && is_floating(mean.dtype())) average(mean, weight, decay_);
  }
  if (model.device().is_host()) return copy_counts(model);
  const auto has_moved = [&](const Run& run) { return weights[run.first].tensor.raw() != run.weights; };
  if (runs_.empty() || std::any_of(runs_.begin(), runs_.end(), has_moved)) build_runs(weights);
  for (const Run& run : runs_) {
    device_code(run.averages.device())
        .steps->ema(run.averages.data<float>(), run.weights, run.averages.elements(), decay_, found_inf);
  }
}

void Ema::copy_counts(const Module& model) {
  const std::vector<NamedTensor> weights = model.state_dict();
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor& mean = averages_[i].tensor;
    if (!is_floating(mean.dtype())) std::memcpy(mean.raw(), weights[i].tensor.raw(), mean.size_bytes());
  }
}

void Ema::load_state(const std::vector<NamedTensor>& state) {
  std::unordered_map<std::string, Tensor> given;
  for (const NamedTensor& entry : state) given.emplace(entry.name, entry.tensor);
  if (given.size() != averages_.size()) {
    fail_ema(
        concat("expected ", averages_.size(), " averages, got ", given.size(), "; load the same model's"));
  }
  for (const NamedTensor& mean : averages_) {
    const auto found = given.find(mean.name);
    if (found == given.end() || found->second.shape() != mean.tensor.shape() ||
        found->second.dtype() != mean.tensor.dtype()) {
      fail_ema(concat("no average '", mean.name, "' of shape ", mean.tensor.shape().to_string(),
                      "; load the same model's"));
    }
  }
  for (NamedTensor& mean : averages_) mean.tensor = given.at(mean.name).to(mean.tensor.device()).clone();
  runs_.clear();
}

}  // namespace dlpipe::engine
