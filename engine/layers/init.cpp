#include "dlpipe/engine/layers/init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/draws.h"
#include "dlpipe/engine/layers/uninitialized.h"

namespace dlpipe::engine {
namespace {

// Part of the definition of the weights: each run of this many elements has a stream of its own.
constexpr int64_t kElementsPerStream = 4096;

// FNV-1a, 64 bits (draft-eastlake-fnv): only has to tell names of one model apart.
uint64_t hash_name(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Each element is from_draw of one number that draw (of draws.h) gives.
template <class Draw, class FromDraw>
void fill(Tensor& tensor, const InitKey& key, const Draw& draw, const FromDraw& from_draw) {
  if (thread_state::leaves_uninitialized()) return;
  float* const values = tensor.data<float>();
  const uint64_t stream_key = philox_mix(key.seed, hash_name(key.name));
  parallel_ranges(tensor.elements(), kElementsPerStream, [&](int64_t begin, int64_t end) {
    std::array<double, kElementsPerStream> numbers;
    const std::span<double> drawn(numbers.data(), static_cast<size_t>(end - begin));
    draw(stream_key, static_cast<uint64_t>(begin / kElementsPerStream), drawn);
    std::transform(drawn.begin(), drawn.end(), values + begin, from_draw);
  });
  tensor.bump_version();
}

}  // namespace

bool& thread_state::leaves_uninitialized() {
  thread_local bool t_leaves = false;
  return t_leaves;
}

void fill_uniform(Tensor& tensor, const InitKey& key, double low, double high) {
  // Rounding to float may reach `high`; the largest float below it is still in the interval.
  const float last = std::nextafterf(static_cast<float>(high), static_cast<float>(low));
  fill(tensor, key, draw_uniform,
       [=](double drawn) { return std::min(static_cast<float>(low + (high - low) * drawn), last); });
}

void fill_normal(Tensor& tensor, const InitKey& key, double mean, double standard_deviation) {
  fill(tensor, key, draw_normal,
       [=](double drawn) { return static_cast<float>(mean + standard_deviation * drawn); });
}

void fill_constant(Tensor& tensor, double value) {
  std::fill_n(tensor.data<float>(), tensor.elements(), static_cast<float>(value));
  tensor.bump_version();
}

Fans fans(const Shape& weight) {
  int64_t field = 1;
  for (int axis = 2; axis < weight.rank(); ++axis) field *= weight[axis];
  return {weight.rank() > 1 ? weight[1] * field : 1, weight.rank() > 0 ? weight[0] * field : 1};
}

void fill_kaiming_uniform(Tensor& weight, const InitKey& key, double a) {
  const double bound = std::sqrt(6.0 / ((1.0 + a * a) * static_cast<double>(fans(weight.shape()).in)));
  fill_uniform(weight, key, -bound, bound);
}

void fill_kaiming_normal_fan_out(Tensor& weight, const InitKey& key) {
  fill_normal(weight, key, 0.0, std::sqrt(2.0 / static_cast<double>(fans(weight.shape()).out)));
}

void fill_dirac(Tensor& weight) {
  const Shape& shape = weight.shape();
  const int64_t field = shape[2] * shape[3];
  const int64_t middle = shape[2] / 2 * shape[3] + shape[3] / 2;
  for (int64_t o = 0; o < std::min(shape[0], shape[1]); ++o) {
    float* const filter = weight.data<float>() + o * shape[1] * field;
    std::fill_n(filter, shape[1] * field, 0.0f);
    filter[o * field + middle] = 1.0f;
  }
  weight.bump_version();
}

void reset_affine(Tensor& weight, Tensor& bias, uint64_t seed, const std::string& prefix) {
  fill_kaiming_uniform(weight, {seed, prefix + "weight"}, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1.0 / std::sqrt(static_cast<double>(fans(weight.shape()).in));
  fill_uniform(bias, {seed, prefix + "bias"}, -bound, bound);
}

void initialize(Module& model, uint64_t seed) {
  for (const Module::Named& named : model.modules()) {
    named.module->reset_parameters(seed, named.name.empty() ? "" : named.name + ".");
  }
}

void initialize_fan_out(Module& model, uint64_t seed) {
  initialize(model, seed);
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 4) fill_kaiming_normal_fan_out(parameter.tensor, {seed, parameter.name});
  }
}

}  // namespace dlpipe::engine
