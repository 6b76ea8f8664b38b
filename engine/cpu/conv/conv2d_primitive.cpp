#include "dlpipe/engine/cpu/conv/conv2d_primitive.h"

#include <algorithm>

namespace dlpipe::engine::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

Tag tag_of(Form form, Layout held) {
  switch (form) {
    case Form::kAsHeld:
      return held == Layout::kPlain ? Tag::nhwc : held == Layout::kBlocked8 ? Tag::nChw8c : Tag::nChw16c;
    case Form::kPlain:
      return Tag::nhwc;
    case Form::kBlocked8:
      return Tag::nChw8c;
    case Form::kBlocked16:
      return Tag::nChw16c;
    case Form::kPlanes:
      return Tag::nchw;
  }
  return Tag::undef;
}

// The descriptions that oneDNN's constructors take.
struct Problem {
  memory::desc x, weights, hint_weights, bias, y;
  memory::dims stride, dilation, pad_begin, pad_end;
};

Problem problem_of(const ConvPlan& plan, LayoutChoice held, const ConvGeometry& g,
                   const memory::desc* weights) {
  const Conv2dShape& s = plan.shape;
  const auto images = plan.low ? memory::data_type::bf16 : memory::data_type::f32;
  const bool gradient = plan.pass == ConvPass::kBackwardWeights;  // summed over slices, so in f32
  const auto weights_type = plan.low && !gradient ? memory::data_type::bf16 : memory::data_type::f32;
  Problem p;
  p.x = memory::desc({g.n, g.c, g.h, g.w}, images, tag_of(plan.x_form, held.inputs));
  p.y = memory::desc({g.n, g.o, g.oh, g.ow}, images, tag_of(plan.y_form, held.outputs));
  const memory::dims oihw = s.groups > 1 ? memory::dims{s.groups, g.o / s.groups, g.c / s.groups, s.kh, s.kw}
                                         : memory::dims{g.o, g.c, s.kh, s.kw};
  p.weights = weights != nullptr ? *weights : memory::desc(oihw, weights_type, Tag::any);
  p.hint_weights = memory::desc(oihw, images, Tag::any);
  if (plan.bias) p.bias = memory::desc({g.o}, memory::data_type::f32, Tag::x);
  p.stride = {s.stride[0], s.stride[1]};
  p.dilation = {s.dilation[0] - 1, s.dilation[1] - 1};
  const int64_t reach = static_cast<int64_t>(s.dilation[1]) * (s.kw - 1) + 1;
  p.pad_begin = {g.pad_top, s.padding[1]};
  p.pad_end = {g.pad_bottom, std::max<int64_t>(0, (g.ow - 1) * s.stride[1] + reach - g.w - s.padding[1])};
  return p;
}

using Algorithm = dnnl::algorithm;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc forward_desc(const Problem& p, const memory::desc& weights, const memory::desc& bias,
                                     Algorithm algorithm) {
  const auto describe = [&](const auto&... tensors) {
    // Training also in evaluation: inference would transform weights, and give other bits.
    return onednn::describe<Forward>(onednn::cpu_engine(), onednn::user_scratchpad(),
                                     dnnl::prop_kind::forward_training, algorithm, tensors..., p.stride,
                                     p.dilation, p.pad_begin, p.pad_end);
  };
  return bias.is_zero() ? describe(p.x, weights, p.y) : describe(p.x, weights, bias, p.y);
}

template <class Kind, class... Tensors>
typename Kind::primitive_desc backward_desc(const Problem& p, Algorithm algorithm,
                                            const Tensors&... tensors) {
  // What the backward passes are told of the forward one.
  const Forward::primitive_desc hint = forward_desc(p, p.hint_weights, memory::desc(), algorithm);
  return onednn::describe_backward<Kind>(onednn::cpu_engine(), onednn::user_scratchpad(), hint, algorithm,
                                         tensors..., p.stride, p.dilation, p.pad_begin, p.pad_end);
}

BackwardData::primitive_desc data_desc(const Problem& p, Algorithm algorithm) {
  return backward_desc<BackwardData>(p, algorithm, p.x, p.weights, p.y);
}

BackwardWeights::primitive_desc weights_desc(const Problem& p, Algorithm algorithm) {
  return p.bias.is_zero() ? backward_desc<BackwardWeights>(p, algorithm, p.x, p.weights, p.y)
                          : backward_desc<BackwardWeights>(p, algorithm, p.x, p.weights, p.bias, p.y);
}

ConvVariant make_variant(ConvPass pass, const Problem& p, Algorithm algorithm) {
  ConvVariant made;
  made.x = p.x;
  made.bias = p.bias;
  made.y = p.y;
  if (pass == ConvPass::kForward) {
    const auto desc = forward_desc(p, p.weights, p.bias, algorithm);
    made.weights = desc.weights_desc();
    made.primitive = onednn::Primitive::make<Forward>(desc);
  } else if (pass == ConvPass::kBackwardData) {
    const auto desc = data_desc(p, algorithm);
    made.weights = desc.weights_desc();
    made.primitive = onednn::Primitive::make<BackwardData>(desc);
  } else {
    const auto desc = weights_desc(p, algorithm);
    made.weights = desc.diff_weights_desc();
    made.primitive = onednn::Primitive::make<BackwardWeights>(desc);
  }
  return made;
}

}  // namespace

memory::desc oihw_desc(const Conv2dShape& s, memory::data_type dtype) {
  return s.groups > 1 ? memory::desc({s.groups, s.o_group(), s.c_group(), s.kh, s.kw}, dtype, Tag::goihw)
                      : memory::desc({s.o, s.c, s.kh, s.kw}, dtype, Tag::oihw);
}

ConvVariant make_conv_primitive(ConvPlan& plan, LayoutChoice held, const ConvGeometry& geometry,
                                const memory::desc* weights) {
  const SingleOpenMpThread single;
  const Problem problem = problem_of(plan, held, geometry, weights);
  if (plan.kernel == "winograd") {
    try {
      return make_variant(plan.pass, problem, Algorithm::convolution_winograd);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) onednn::throw_translated("making a convolution", error);
      plan.kernel = "direct";
    }
  }
  return onednn::translate_errors("making a convolution", [&] {
    return make_variant(plan.pass, problem, Algorithm::convolution_direct);
  });
}

}  // namespace dlpipe::engine::cpu
