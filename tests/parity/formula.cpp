#include "tests/parity/formula.h"

#include <cmath>
#include <string>

namespace dlpipe::engine::parity {
namespace {

uint32_t salt(std::string_view name) {
  uint32_t value = 0x811C9DC5u;  // FNV-1a, 32 bits
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return value;
}

}  // namespace

std::vector<uint32_t> words(std::string_view name, int64_t count) {
  const uint32_t start = salt(name);
  std::vector<uint32_t> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 0x9E3779B1u + start;
    for (const uint32_t multiplier : {0x9E3779B1u, 0x85EBCA77u}) {
      x ^= x >> 15;
      x *= multiplier;
    }
    all[i] = x ^ (x >> 16);
  }
  return all;
}

std::vector<double> noise(std::string_view name, int64_t count) {
  std::vector<double> all;
  for (const uint32_t word : words(name, count)) all.push_back((word >> 8) * 0x1p-23 - 1.0);
  return all;
}

Tensor noise_tensor(std::string_view name, const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  const std::vector<double> values = noise(name, shape.elements());
  for (size_t i = 0; i < values.size(); ++i) tensor.data<float>()[i] = static_cast<float>(values[i]);
  return tensor;
}

Tensor labels(std::string_view name, int64_t count, int64_t classes) {
  std::vector<int64_t> all;
  for (const uint32_t word : words(name, count)) all.push_back(word % classes);
  return Tensor::from<int64_t>(all, {count});
}

std::vector<int64_t> sampled_elements(std::string_view name, int64_t count) {
  std::vector<int64_t> all;
  for (const uint32_t word : words("sample." + std::string(name), 4)) all.push_back(word % count);
  return all;
}

void set_weights(Module& model) {
  for (NamedTensor& parameter : model.parameters()) {
    const Shape& shape = parameter.tensor.shape();
    double factor = 0.1;
    double offset = 0.0;
    if (shape.rank() == 4) {
      factor = std::sqrt(6.0 / static_cast<double>(shape[0] * shape[2] * shape[3]));
    } else if (shape.rank() == 2) {
      factor = std::sqrt(1.0 / static_cast<double>(shape[1]));
    } else if (parameter.name.ends_with("weight")) {
      offset = 1.0;
    }
    const std::vector<double> values = noise(parameter.name, shape.elements());
    float* const to = parameter.tensor.data<float>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<float>(offset + factor * values[i]);
    parameter.tensor.bump_version();
  }
}

}  // namespace dlpipe::engine::parity
