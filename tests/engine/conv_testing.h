// What tests of convolutions draw and compare.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/ops/window.h"
#include "tests/engine/distance.h"

namespace dlpipe::test {

/// f32 in [-1, 1).
inline engine::Tensor uniform_noise(const Shape& shape, RandomStream random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(random.uniform_double() * 2 - 1);
  return engine::Tensor::from<float>(values, shape);
}

/// A convolution with stride 1 and one group, and how its images are held.
struct ConvCase {
  int64_t n, h, w, c, o;
  std::array<int, 2> padding;
  engine::Layout layout = engine::Layout::kPlain;
  DType dtype = DType::kF32;
  std::array<int, 2> dilation = {1, 1};
  std::array<int64_t, 2> kernel = {3, 3};

  std::string name() const {
    return concat(n, "x", h, "x", w, "x", c, " to ", o, ", kernel ", kernel[0], "x", kernel[1], ", padding ",
                  padding[0], "x", padding[1], ", dilation ", dilation[0], "x", dilation[1], ", ",
                  engine::layout_name(layout), ", ", dtype_name(dtype));
  }
  engine::Conv2dAttrs attrs() const { return {.padding = padding, .dilation = dilation}; }
};

struct ConvInputs {
  explicit ConvInputs(const ConvCase& c)
      : x(noise({c.n, c.h, c.w, c.c}, 1, c.dtype)),
        weight(noise({c.o, c.c, c.kernel[0], c.kernel[1]}, 2, c.dtype)),
        bias(noise({c.o}, 3, c.dtype)),
        shape(engine::conv2d_shape(x.shape(), weight.shape(), c.attrs())),
        dy(noise({shape.n, shape.oh, shape.ow, shape.o}, 4, c.dtype)) {}

  static engine::Tensor noise(const Shape& shape, uint64_t key, DType dtype) {
    const engine::NoGrad no_grad;
    return engine::cast(uniform_noise(shape, RandomStream(20261122, key)), dtype);
  }

  engine::Tensor x, weight, bias;
  engine::Conv2dShape shape;
  engine::Tensor dy;
};

/// All results of one convolution: y, dx, dweight, dbias, plain.
using ConvAnswer = std::vector<engine::Tensor>;
inline constexpr std::array kConvAnswers = {"y", "dx", "dweight", "dbias"};

/// In f64.
inline ConvAnswer conv_by_reference(const ConvCase& c) {
  const ConvInputs in(c);
  const engine::UseBackend use(engine::Backend::kReference);
  const auto leaf = [](const engine::Tensor& t) {
    return engine::cast(t, DType::kF64).detach().set_requires_grad(true);
  };
  engine::Tensor x = leaf(in.x), weight = leaf(in.weight), bias = leaf(in.bias);
  const engine::Tensor y = engine::conv2d(x, weight, bias, c.attrs());
  y.backward(engine::cast(in.dy, DType::kF64));
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

/// Results of kernels called as forward(shape, x, weight, bias, y), backward_data(shape, dy, weight, dx) and
/// backward_weights(shape, x, dy, dweight, dbias), on images held as the case says and f32 weights.
template <class Forward, class BackwardData, class BackwardWeights>
ConvAnswer conv_by_kernels(const ConvCase& c, const Forward& forward, const BackwardData& backward_data,
                           const BackwardWeights& backward_weights) {
  using engine::Tensor;
  const engine::NoGrad no_grad;
  const ConvInputs in(c);
  const Tensor x = engine::reorder(in.x, c.layout), dy = engine::reorder(in.dy, c.layout);
  const Tensor weight = engine::cast(in.weight, DType::kF32), bias = engine::cast(in.bias, DType::kF32);
  const Tensor y = Tensor::empty(dy.spec()), dx = Tensor::empty(x.spec());
  const Tensor dweight = Tensor::empty(weight.shape()), dbias = Tensor::empty(bias.shape());
  for (const Tensor& result : {y, dx, dweight, dbias}) std::memset(result.raw(), 0xff, result.size_bytes());
  forward(in.shape, x, weight, bias, y);
  backward_data(in.shape, dy, weight, dx);
  backward_weights(in.shape, x, dy, dweight.data<float>(), dbias.data<float>());
  return {engine::plain(y), engine::plain(dx), dweight, dbias};
}

inline bool same_bits(const ConvAnswer& a, const ConvAnswer& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].size_bytes()) != 0) return false;
  }
  return true;
}

}  // namespace dlpipe::test
