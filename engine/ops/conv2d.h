// conv_transpose2d: the transposed convolution of PyTorch's ConvTranspose2d and ONNX's ConvTranspose (Zeiler et al. 2010,
// "Deconvolutional networks"). It is the gradient of a convolution with respect to its images, so its kernels are those of the
// same backend's conv2d with forward and backward exchanged.
#pragma once

#include <array>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

struct ConvTranspose2dAttrs {
  std::array<int, 2> stride = {1, 1};  // height, width
  std::array<int, 2> padding = {0, 0};
  // Additional rows at the bottom and columns on the right; less than the stride.
  std::array<int, 2> output_padding = {0, 0};
  std::array<int, 2> dilation = {1, 1};
  int groups = 1;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("output_padding", self.output_padding);
    visit("dilation", self.dilation);
    visit("groups", self.groups);
  }
};

/// x [N,H,W,C], weight [C, O/groups, KH, KW] (PyTorch's), bias [O] or undefined -> [N,OH,OW,O], where OH is
/// (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1. A separate op (add) adds the bias.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dAttrs& attrs = {});

/// The shape of the output images, for inputs that passed the shape rule.
Shape conv_transpose2d_shape(const Shape& x, const Shape& weight, const ConvTranspose2dAttrs& attrs);
/// The convolution of the output images whose result has the shape of x.
Conv2dAttrs convolution_of(const ConvTranspose2dAttrs& attrs);

/// A backend's kernels, made of those of its `conv2d`.
template <const Kernels& conv2d>
struct ConvTransposeKernels {
  static void forward(const ForwardArgs& args) {
    const Attrs attrs = convolution_of(args.attrs.as<ConvTranspose2dAttrs>());
    // The gradient of the images doesn't read their values, only their shape and layout.
    const Tensor inputs[] = {args.outputs[0], args.inputs[1]};
    Tensor gradients[] = {args.outputs[0], Tensor()};
    conv2d.backward({inputs, {}, args.inputs.first(1), gradients, attrs});
  }
  static void backward(const BackwardArgs& args) {
    const Attrs attrs = convolution_of(args.attrs.as<ConvTranspose2dAttrs>());
    const Tensor& weight = args.inputs[1];
    const Tensor inputs[] = {args.grad_outputs[0], weight};
    if (args.grad_inputs[0].defined()) conv2d.forward({inputs, args.grad_inputs.first(1), attrs});
    if (!args.grad_inputs[1].defined()) return;
    Tensor gradients[] = {Tensor(), args.grad_inputs[1]};
    conv2d.backward({inputs, {}, args.inputs.first(1), gradients, attrs});
  }
  static bool supports(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
    const auto& attrs = any_attrs.as<ConvTranspose2dAttrs>();
    const auto specs = convolved(inputs, attrs);
    return conv2d.supports == nullptr || conv2d.supports(specs, convolution_of(attrs));
  }
  static LayoutChoice choose_layout(std::span<const TensorSpec> inputs, const Attrs& any_attrs) {
    const auto& attrs = any_attrs.as<ConvTranspose2dAttrs>();
    const auto specs = convolved(inputs, attrs);
    const LayoutChoice choice = conv2d.choose_layout(specs, convolution_of(attrs));
    return {choice.outputs, choice.inputs};
  }

 private:
  static std::array<TensorSpec, 2> convolved(std::span<const TensorSpec> inputs,
                                             const ConvTranspose2dAttrs& attrs) {
    const Shape images = conv_transpose2d_shape(inputs[0].shape, inputs[1].shape, attrs);
    return {TensorSpec{images, inputs[0].dtype, Layout::kPlain}, inputs[1]};
  }
};

}  // namespace dlpipe::engine
