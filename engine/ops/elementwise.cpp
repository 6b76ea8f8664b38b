#include "dlpipe/engine/ops/elementwise.h"

#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

std::vector<TensorSpec> unary_rule(std::string_view op, std::span<const TensorSpec> inputs) {
  expect_inputs(op, inputs, 1, 1);
  expect_floating(op, inputs[0], "x");
  return {{inputs[0].shape, inputs[0].dtype}};
}

std::vector<TensorSpec> binary_rule(std::string_view op, std::span<const TensorSpec> inputs) {
  expect_inputs(op, inputs, 2, 2);
  expect_floating(op, inputs[0], "a");
  expect_floating(op, inputs[1], "b");
  return {{broadcast_shape(op, inputs[0].shape, inputs[1].shape), inputs[0].dtype}};
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const int64_t size = shorter[shorter.rank() - i];
    int64_t& out = result[result.rank() - i];
    if (size != out && size != 1 && out != 1) {
      reject(op, concat("shapes ", a.to_string(), " and ", b.to_string(),
                        " do not broadcast; sizes must be equal or 1, counted from the last axis"));
    }
    if (out == 1) out = size;
  }
  return result;
}

std::vector<OpSample> unary_samples(double low, double high, const Attrs& attrs) {
  std::vector<OpSample> samples;
  for (const Shape& shape : {Shape{37}, Shape{2, 3, 5, 16}, Shape{}, Shape{0, 4}, Shape{3, 70001}}) {
    samples.push_back({shape.to_string(), {{shape}}, attrs, low, high});
  }
  return samples;
}

std::vector<OpSample> binary_samples(double low, double high) {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    samples.push_back({name, {{a}, {b}}, NoAttrs{}, low, high});
  };
  sample("same shape", {2, 3, 5, 16}, {2, 3, 5, 16});
  sample("bias", {3, 5, 7}, {7});
  sample("scalar", {}, {4, 9});
  sample("column", {6, 5}, {6, 1});
  sample("both stretched", {3, 1, 5}, {1, 4, 1});
  sample("inner and outer", {2, 3, 4, 5}, {3, 1, 5});
  sample("empty", {0, 3}, {3});
  sample("large image and bias", {4, 50, 40, 24}, {24});
  sample("large rows", {2, 70001}, {2, 1});
  return samples;
}

std::vector<OpSample> binary_bench_samples() {
  const TensorSpec images = {{64, 56, 56, 64}}, tokens = {{8, 1024, 768}};
  const auto sample = [](const char* name, const TensorSpec& a, const TensorSpec& b) {
    return OpSample{name, {a, b}, NoAttrs{}, 0.5, 2};  // of which quotients are numbers, too
  };
  return {sample("images", images, images),
          sample("a channel's", images, {{64}}),
          sample("an image's channel's", images, {{64, 1, 1, 64}}),
          sample("positions", tokens, {{1024, 768}}),
          sample("a row's", tokens, {{8, 1024, 1}}),
          sample("a number", tokens, {})};
}

}  // namespace dlpipe::engine
