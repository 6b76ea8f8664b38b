#include "dlpipe/engine/ops/bench_samples.h"

#include <algorithm>
#include <memory>

#include "dlpipe/base/error.h"

namespace dlpipe::engine {
namespace {

/// What is undefined doesn't occur here: all inputs of a sample are there.
bool passes(const OpRecord& record, const OpSample& sample) {
  const auto defined = std::make_unique<bool[]>(sample.inputs.size());
  std::fill_n(defined.get(), sample.inputs.size(), true);
  try {
    record.infer(sample.inputs, {defined.get(), sample.inputs.size()}, sample.attrs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OpSample grown(const OpRecord& record, const OpSample& sample) {
  constexpr int64_t kElements = int64_t{1} << 24;
  OpSample out = sample;
  const Shape& first = sample.inputs.at(0).shape;
  if (first.rank() == 0 || first.elements() == 0) return sample;
  const int64_t factor = std::max<int64_t>(1, kElements / first.elements());
  for (TensorSpec& input : out.inputs) {
    if (input.shape.rank() == 0 || input.shape[0] != first[0]) continue;
    Shape longer;
    for (int axis = 0; axis < input.shape.rank(); ++axis)
      longer.push_back(axis == 0 ? input.shape[0] * factor : input.shape[axis]);
    input.shape = longer;
  }
  out.name = "large";
  return passes(record, out) ? out : sample;
}

}  // namespace

std::vector<OpSample> bench_samples(const OpRecord& record) {
  if (record.bench != nullptr) return record.bench();
  if (record.samples == nullptr) return {};
  const std::vector<OpSample> own = record.samples();
  if (own.empty()) return {};
  return {grown(record, own.front())};
}

std::vector<OpSample> large_sample(std::vector<OpSample> samples, std::vector<TensorSpec> inputs) {
  samples.resize(1);
  samples[0].name = "large";
  samples[0].inputs = std::move(inputs);
  return samples;
}

}  // namespace dlpipe::engine
