#include "dlpipe/engine/optim/ema.h"

#include <cstring>
#include <unordered_map>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/cpu/parallel.h"

namespace dlpipe::engine {
namespace {

[[noreturn]] void fail_ema(const std::string& message) {
  throw Error(Status(ErrorCode::kMisuse, "[ema] " + message));
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

void Ema::update(const Module& model) {
  const std::vector<NamedTensor> weights = model.state_dict();
  if (weights.size() != averages_.size())
    fail_ema("the model has changed since the averages began; begin anew");
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor& mean = averages_[i].tensor;
    const Tensor& weight = weights[i].tensor;
    if (weights[i].name != averages_[i].name || weight.spec() != mean.spec()) {
      fail_ema(concat("'", weights[i].name, "' is not what it was when the averages began; begin anew"));
    }
    if (mean.dtype() == DType::kF32) {
      average(mean, weight, decay_);
    } else {
      std::memcpy(mean.raw(), weight.raw(), mean.size_bytes());
    }
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
  for (NamedTensor& mean : averages_) mean.tensor = given.at(mean.name).clone();
}

}  // namespace dlpipe::engine
