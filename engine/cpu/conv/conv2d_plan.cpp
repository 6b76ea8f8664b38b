#include "engine/cpu/conv/conv2d_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/mutex.h"
#include "base/text.h"

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

// The descriptions that oneDNN's constructors require.
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
    // Use training mode also in evaluation: inference mode would transform weights and compute other bits.
    return onednn::describe<Forward>(onednn::cpu_engine(), onednn::user_scratchpad(),
                                     dnnl::prop_kind::forward_training, algorithm, tensors..., p.stride,
                                     p.dilation, p.pad_begin, p.pad_end);
  };
  return bias.is_zero() ? describe(p.x, weights, p.y) : describe(p.x, weights, bias, p.y);
}

template <class Kind, class... Tensors>
typename Kind::primitive_desc backward_desc(const Problem& p, Algorithm algorithm,
                                            const Tensors&... tensors) {
  // The forward description that oneDNN requires for backward primitives.
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

namespace {

// Weights with fewer elements are copied to the primitive's format by one worker.
constexpr int64_t kSmallWeights = 1 << 14;
constexpr int64_t kCopyParts = 16;

int64_t reach(const Conv2dShape& s, int axis) {
  return static_cast<int64_t>(s.dilation[axis]) * ((axis == 0 ? s.kh : s.kw) - 1) + 1;
}

Form form_of(Layout computed) {
  return computed == Layout::kPlain      ? Form::kPlain
         : computed == Layout::kBlocked8 ? Form::kBlocked8
                                         : Form::kBlocked16;
}

enum class Compute : uint8_t {
  kF32,
  kF32Plain,  // on plain images, for any layout of the tensors
  kBF16,
};

/// Numbers the formats to which weights have been converted so far. Thread-safe.
class WeightsForms {
 public:
  uint64_t of(const dnnl::memory::desc& weights, int64_t parts) {
    const MutexLock lock(mutex_);
    for (const Known& known : known_) {
      if (known.parts == parts && known.weights == weights) return known.form;
    }
    known_.push_back({weights, parts, next_constant_form()});
    return known_.back().form;
  }

 private:
  struct Known {
    dnnl::memory::desc weights;
    int64_t parts;
    uint64_t form;
  };
  Mutex mutex_;
  std::vector<Known> known_ DLPIPE_GUARDED_BY(mutex_);
};

class PlanMaker {
 public:
  PlanMaker(ConvPass pass, const Conv2dShape& shape, DType dtype, LayoutChoice held, bool bias,
            Compute compute)
      : s_(shape), held_(held) {
    const bool low = compute == Compute::kBF16;
    plan_.pass = pass;
    plan_.shape = shape;
    plan_.bias = bias;
    plan_.low = low;
    LayoutChoice computed = held;
    if (dtype == DType::kBF16 && !low) {
      computed = conv_layouts(shape, DType::kF32);
      plan_.x_form = form_of(computed.inputs);
      plan_.y_form = form_of(computed.outputs);
    }
    if (compute == Compute::kF32Plain) {
      const auto plain_form = [&](Layout layout) {
        return layout == Layout::kPlain && dtype == DType::kF32 ? Form::kAsHeld : Form::kPlain;
      };
      computed = {Layout::kPlain, Layout::kPlain};
      plan_.x_form = plain_form(held.inputs);
      plan_.y_form = plain_form(held.outputs);
    }
    if (computed.inputs == Layout::kPlain && computed.outputs != Layout::kPlain) {
      if (pass == ConvPass::kBackwardData) {
        // oneDNN has no fast kernel from blocks to planes, so a stem's image gradient is computed plain.
        plan_.y_form = Form::kPlain;
        computed.outputs = Layout::kPlain;
      } else {
        plan_.x_form = Form::kPlanes;
      }
    }
    block_ = layout_block(computed.outputs);
    choice_ = conv_choice(pass, shape, dtype, block_);
    if (compute == Compute::kF32Plain) {
      // These are small images with many channels: every slice would compute a gradient of all weights.
      if (pass == ConvPass::kBackwardWeights) choice_.images = s_.n;
      choice_.parts = 1;
    }
    plan_.kernel = choice_.kernel;
  }

  ConvPlan make() {
    const bool forward = plan_.pass == ConvPass::kForward;
    const bool one_image = choice_.images == 1;
    if (plan_.pass == ConvPass::kBackwardWeights && parts_of(s_.o) > 1) {
      cut_channels_of_batch();
    } else if (plan_.pass != ConvPass::kBackwardWeights && one_image && parts_of(forward ? s_.o : s_.c) > 1) {
      cut_channels_of_images();
    } else if (forward && one_image && block_ == 1 && choice_.parts > 1 && reach(s_, 0) > s_.padding[0]) {
      cut_rows();
    } else {
      cut_batch();
    }
    plan_weights();
    return std::move(plan_);
  }

 private:
  // The geometry of whole images. The cut_ functions adjust the dimension that they cut.
  ConvGeometry geometry(int64_t images) const {
    ConvGeometry g;
    g.n = images, g.c = s_.c, g.o = s_.o;
    g.h = s_.h, g.w = s_.w, g.oh = s_.oh, g.ow = s_.ow;
    g.pad_top = s_.padding[0];
    g.pad_bottom = std::max<int64_t>(0, (s_.oh - 1) * s_.stride[0] + reach(s_, 0) - s_.h - s_.padding[0]);
    return g;
  }

  int variant(const ConvGeometry& g) {
    const auto found = std::find(geometries_.begin(), geometries_.end(), g);
    if (found != geometries_.end()) return static_cast<int>(found - geometries_.begin());
    geometries_.push_back(g);
    const auto* weights = plan_.variants.empty() ? nullptr : &plan_.variants.front().weights;
    plan_.variants.push_back(make_conv_primitive(plan_, held_, g, weights));
    return static_cast<int>(geometries_.size()) - 1;
  }

  Piece x_piece(int64_t image, int64_t images) const {
    return {image * s_.h * s_.w * s_.c, {images, s_.h * s_.w, s_.c, s_.c}};
  }
  Piece y_piece(int64_t image, int64_t images) const {
    return {image * s_.oh * s_.ow * s_.o, {images, s_.oh * s_.ow, s_.o, s_.o}};
  }
  // The channels [first, first + channels) of `piece`.
  static Piece channel_part(Piece piece, Layout held, int64_t first, int64_t channels) {
    piece.offset += held == Layout::kPlain ? first : first * piece.run.pixels;
    piece.run.channels = channels;
    return piece;
  }

  void cut_batch() {
    for (int64_t image = 0; image < s_.n; image += choice_.images) {
      const int64_t images = std::min(choice_.images, s_.n - image);
      plan_.slices.push_back({variant(geometry(images)), 0, x_piece(image, images), y_piece(image, images)});
    }
  }

  // Backward weights: every slice reads all images and computes the gradient for its own output channels.
  void cut_channels_of_batch() {
    plan_.slices_cut_channels = true;
    plan_.parts = parts_of(s_.o);
    ConvGeometry g = geometry(s_.n);
    g.o = s_.o / plan_.parts;
    for (int64_t part = 0; part < plan_.parts; ++part) {
      plan_.slices.push_back({variant(g), static_cast<int>(part), x_piece(0, s_.n),
                              channel_part(y_piece(0, s_.n), held_.outputs, part * g.o, g.o)});
    }
  }

  void cut_channels_of_images() {
    const bool forward = plan_.pass == ConvPass::kForward;
    plan_.parts = parts_of(forward ? s_.o : s_.c);
    ConvGeometry g = geometry(1);
    int64_t& channels = forward ? g.o : g.c;
    channels /= plan_.parts;
    for (int64_t image = 0; image < s_.n; ++image) {
      for (int64_t part = 0; part < plan_.parts; ++part) {
        ConvSlice slice{variant(g), static_cast<int>(part), x_piece(image, 1), y_piece(image, 1)};
        Piece& cut = forward ? slice.y : slice.x;
        cut = channel_part(cut, forward ? held_.outputs : held_.inputs, part * channels, channels);
        plan_.slices.push_back(slice);
      }
    }
  }

  // Forward of plain images: each slice is a range of output rows with the input rows that they read.
  void cut_rows() {
    const int64_t rows = (s_.oh + choice_.parts - 1) / choice_.parts;
    for (int64_t image = 0; image < s_.n; ++image) {
      for (int64_t first = 0; first < s_.oh; first += rows) {
        ConvGeometry g = geometry(1);
        g.oh = std::min(rows, s_.oh - first);
        const int64_t begin = first * s_.stride[0] - s_.padding[0];
        const int64_t end = begin + (g.oh - 1) * s_.stride[0] + reach(s_, 0);
        g.pad_top = std::max<int64_t>(0, -begin);
        g.pad_bottom = std::max<int64_t>(0, end - s_.h);
        g.h = std::min(end, s_.h) - std::max<int64_t>(0, begin);
        ConvSlice slice{variant(g), 0, x_piece(image, 1), y_piece(image, 1)};
        slice.x.offset += std::max<int64_t>(0, begin) * s_.w * s_.c;
        slice.x.run.pixels = g.h * s_.w;
        slice.y.offset += first * s_.ow * s_.o;
        slice.y.run.pixels = g.oh * s_.ow;
        plan_.slices.push_back(slice);
      }
    }
  }

  // The choice's number of parts, or 1 if that doesn't cut `channels` of a blocked image into whole blocks.
  int64_t parts_of(int64_t channels) const {
    const bool whole = block_ > 1 && s_.groups == 1 && channels % choice_.parts == 0 &&
                       channels / choice_.parts % block_ == 0;
    return whole ? choice_.parts : 1;
  }

  void plan_weights() {
    const bool of_output = plan_.pass != ConvPass::kBackwardData;
    plan_.oihw_step = s_.weights() / s_.o / (of_output ? 1 : s_.c_group()) *
                      ((of_output ? s_.o : s_.c_group()) / plan_.parts);
    const bool to_oihw = plan_.pass == ConvPass::kBackwardWeights;
    const auto dtype = plan_.low && !to_oihw ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    dnnl::memory::desc oihw = oihw_desc(s_, dtype);
    if (plan_.parts > 1) {
      dnnl::memory::dims dims = onednn::dims_of(oihw);
      dims[of_output ? 0 : 1] /= plan_.parts;
      oihw = oihw.submemory_desc(dims, dnnl::memory::dims(dims.size(), 0));
    }
    const dnnl::memory::desc& inner = plan_.variants.front().weights;
    static auto* forms = new WeightsForms;  // never destroyed, like the plans
    plan_.form = forms->of(inner, plan_.parts);
    const int64_t parts = plan_.parts > 1 || s_.weights() < kSmallWeights ? 1 : kCopyParts;
    plan_.weights_copy =
        to_oihw ? onednn::FormatCopy(inner, oihw, parts) : onednn::FormatCopy(oihw, inner, parts);
  }

  Conv2dShape s_;
  LayoutChoice held_;
  int block_ = 1;  // of the primitive's output
  KernelChoice choice_;
  ConvPlan plan_;
  std::vector<ConvGeometry> geometries_;  // of plan_.variants
};

// Everything that a plan depends on; hashed by its bytes.
struct PlanKey {
  std::array<int64_t, 10> sizes;
  std::array<int32_t, 6> window;
  std::array<uint8_t, 8> kinds;
  uint64_t table_generation;
  bool operator==(const PlanKey&) const = default;
};

PlanKey plan_key(ConvPass pass, const Conv2dShape& s, DType dtype, LayoutChoice held, bool bias) {
  return {{s.n, s.h, s.w, s.c, s.o, s.oh, s.ow, s.kh, s.kw, s.groups},
          {s.stride[0], s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1]},
          {static_cast<uint8_t>(pass), static_cast<uint8_t>(dtype), static_cast<uint8_t>(held.inputs),
           static_cast<uint8_t>(held.outputs), bias, is_inference()},
          kernel_table().generation()};
}

// Whether oneDNN uses its reference loops, as for shapes without a fast kernel: a hundred times slower.
bool is_reference(const ConvPlan& plan) {
  return plan.variants.front().primitive.implementation().find("ref") != std::string::npos;
}

// oneDNN 2.6's bf16 gradient of weights reads uninitialised memory if images are narrower than the stride
// (tests/engine/ops/conv2d_test.cpp). It returns wrong numbers, not an error.
bool has_sound_bf16(ConvPass pass, const Conv2dShape& shape) {
  return pass != ConvPass::kBackwardWeights || shape.w >= shape.stride[1];
}

ConvPlan make_plan(ConvPass pass, const Conv2dShape& shape, DType dtype, LayoutChoice held, bool bias) {
  const auto fast_plan = [&](Compute compute) -> std::optional<ConvPlan> {
    try {
      ConvPlan plan = PlanMaker(pass, shape, dtype, held, bias, compute).make();
      if (!is_reference(plan)) return plan;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
    }
    return std::nullopt;
  };
  if (dtype == DType::kBF16 && computes_bf16() && has_sound_bf16(pass, shape)) {
    if (auto plan = fast_plan(Compute::kBF16)) return *std::move(plan);
  }
  // AVX2's kernels for blocked images require them to be at least as wide as the filter; those for plain images don't.
  for (const Compute compute : {Compute::kF32, Compute::kF32Plain}) {
    if (auto plan = fast_plan(compute)) return *std::move(plan);
  }
  return PlanMaker(pass, shape, dtype, held, bias, Compute::kF32).make();
}

}  // namespace

std::shared_ptr<const ConvPlan> conv_plan(ConvPass pass, const Conv2dShape& shape, DType dtype,
                                          LayoutChoice held, bool bias) {
  // Never destroyed: kernels may run until the end. A ResNet-152 has some 170 plans per batch size.
  static auto* plans = new onednn::LruCache<PlanKey, ConvPlan>(1024);
  return plans->find_or_make(plan_key(pass, shape, dtype, held, bias),
                             [&] { return make_plan(pass, shape, dtype, held, bias); });
}

}  // namespace dlpipe::engine::cpu
