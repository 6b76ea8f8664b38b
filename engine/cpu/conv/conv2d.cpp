// conv2d on the CPU: runs the slices of a plan (conv2d_plan.h), and converts images to the primitive's form
// if the tensors have another one.
#include "engine/ops/conv2d.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "dlpipe/log.h"
#include "dlpipe/op.h"
#include "engine/core/constant_cache.h"
#include "engine/core/parallel.h"
#include "engine/cpu/conv/conv2d_depthwise.h"
#include "engine/cpu/conv/conv2d_plan.h"
#include "engine/cpu/conv/conv2d_product.h"
#include "engine/cpu/conv/conv2d_taps.h"
#include "engine/cpu/conv/conv2d_winograd.h"
#include "engine/cpu/loops/activation.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/vec.h"

namespace dlpipe::engine {
namespace {

using cpu::ConvPass;
using cpu::ConvPlan;
using cpu::ConvSlice;
using cpu::ConvVariant;
using cpu::Form;
using cpu::Piece;

constexpr int kXSlot = 1, kYSlot = 2, kWeightsSlot = 3;  // of worker_scratch; 0 is oneDNN's
constexpr int64_t kElementsARange = 1 << 15;
// The largest output of a slice that its worker activates while the output is in its second-level cache.
constexpr size_t kActivatedSliceBytes = size_t{1} << 20;

std::byte* element(const Tensor& tensor, int64_t offset) {
  return static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(offset) * dtype_size(tensor.dtype());
}

Tensor temporary(size_t bytes) {
  return Tensor::empty({static_cast<int64_t>(std::max<size_t>(bytes, 1))}, DType::kU8);
}
float* floats(const Tensor& tensor) {
  return static_cast<float*>(tensor.raw());
}

int block_of(Form form) {
  return form == Form::kBlocked8 ? 8 : 16;
}

/// `piece` of `held` in `form`: in place for kAsHeld, else converted into `scratch`.
const void* bring(Form form, const Tensor& held, const Piece& piece, void* scratch) {
  const std::byte* from = element(held, piece.offset);
  if (form == Form::kAsHeld) return from;
  auto* to = static_cast<float*>(scratch);
  if (held.layout() != Layout::kPlain) {
    cpu::blocked_to_plain(piece.run, layout_block(held.layout()), reinterpret_cast<const float*>(from), to);
    return scratch;
  }
  cpu::with_type(held.dtype(), [&](auto type) {
    const auto* plain = reinterpret_cast<const decltype(type)*>(from);
    if (form == Form::kPlanes) {
      cpu::plain_to_planes(piece.run, plain, to);
    } else if (form != Form::kPlain) {
      cpu::plain_to_blocked(piece.run, block_of(form), plain, to);
    } else if constexpr (std::is_same_v<decltype(type), BFloat16>) {
      cpu::widen(plain, to, piece.run.images * piece.run.pixels * piece.run.channels);
    }
  });
  return scratch;
}

/// The reverse: copies the primitive's result in `scratch` to `piece` of `held`.
void take_back(Form form, const void* scratch, const Tensor& held, const Piece& piece) {
  if (form == Form::kAsHeld) return;
  const auto* from = static_cast<const float*>(scratch);
  std::byte* to = element(held, piece.offset);
  if (held.layout() != Layout::kPlain) {
    cpu::plain_to_blocked(piece.run, layout_block(held.layout()), from, reinterpret_cast<float*>(to));
    return;
  }
  cpu::with_type(held.dtype(), [&](auto type) {
    auto* plain = reinterpret_cast<decltype(type)*>(to);
    if (form == Form::kPlanes) {
      cpu::planes_to_plain(piece.run, from, plain);
    } else if (form != Form::kPlain) {
      cpu::blocked_to_plain(piece.run, block_of(form), from, plain);
    } else if constexpr (std::is_same_v<decltype(type), BFloat16>) {
      cpu::narrow(from, plain, piece.run.images * piece.run.pixels * piece.run.channels);
    }
  });
}

/// Where the primitive writes `piece`: the tensor, or scratch.
void* target(Form form, const Tensor& held, const Piece& piece, int slot, const dnnl::memory::desc& desc) {
  if (form == Form::kAsHeld) return element(held, piece.offset);
  return worker_scratch(slot, desc.get_size());
}

void* scratch_for(Form form, int slot, const dnnl::memory::desc& desc) {
  return form == Form::kAsHeld ? nullptr : worker_scratch(slot, desc.get_size());
}

/// A bf16 tensor converted to f32; an f32 one unchanged.
Tensor widened(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBF16) return tensor;
  Tensor wide = Tensor::empty(tensor.shape());
  const auto* from = static_cast<const BFloat16*>(tensor.raw());
  parallel_ranges(tensor.elements(), kElementsARange, [&](int64_t begin, int64_t end) {
    cpu::widen(from + begin, floats(wide) + begin, end - begin);
  });
  return wide;
}

void narrow_into(const Tensor& wide, const Tensor& tensor) {
  auto* to = static_cast<BFloat16*>(tensor.raw());
  parallel_ranges(tensor.elements(), kElementsARange, [&](int64_t begin, int64_t end) {
    cpu::narrow(floats(wide) + begin, to + begin, end - begin);
  });
}

/// OIHW weights converted to the primitive's format, part by part.
Tensor prepared_weights(const ConvPlan& plan, const Tensor& oihw) {
  const Tensor source = plan.low ? oihw : widened(oihw);
  Tensor prepared = temporary(static_cast<size_t>(plan.parts) * plan.weights_bytes());
  auto* to = static_cast<std::byte*>(prepared.raw());
  if (plan.parts == 1) {
    plan.weights_copy.run(source.raw(), to);
  } else {
    parallel_slices(plan.parts, [&](int64_t part) {
      plan.weights_copy.run(0, element(source, part * plan.oihw_step),
                            to + static_cast<size_t>(part) * plan.weights_bytes());
    });
  }
  return prepared;
}

/// Applies the activation to `piece` of y, in place.
void activate_piece(Activation activation, const Tensor& y, const Piece& piece) {
  std::byte* const first = element(y, piece.offset);
  const int64_t pixels = piece.run.images * piece.run.pixels;
  const int64_t channels = piece.run.channels;
  if (y.layout() != Layout::kPlain)  // whole blocks of channels are contiguous
    return cpu::activate_rows(activation, y.dtype(), first, first, 1, pixels * channels, pixels * channels);
  cpu::activate_rows(activation, y.dtype(), first, first, pixels, channels, piece.run.plain_channels);
}

size_t piece_bytes(const Piece& piece, DType dtype) {
  return static_cast<size_t>(piece.run.images * piece.run.pixels * piece.run.channels) * dtype_size(dtype);
}

void forward(const ConvPlan& plan, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
             Activation activation) {
  // oneDNN doesn't apply the activation, because its relu turns NaN into 0.
  const bool by_slices = piece_bytes(plan.slices.front().y, y.dtype()) <= kActivatedSliceBytes;
  const Tensor weights = cached_or(weight, plan.form, [&] { return prepared_weights(plan, weight); });
  const Tensor wide_bias = plan.bias ? widened(bias) : Tensor();
  parallel_slices(static_cast<int64_t>(plan.slices.size()), [&](int64_t i) {
    const ConvSlice& slice = plan.slices[static_cast<size_t>(i)];
    const ConvVariant& v = plan.variants[static_cast<size_t>(slice.variant)];
    const void* in = bring(plan.x_form, x, slice.x, scratch_for(plan.x_form, kXSlot, v.x));
    void* out = target(plan.y_form, y, slice.y, kYSlot, v.y);
    const size_t part = static_cast<size_t>(slice.part);
    const float* part_bias = plan.bias ? floats(wide_bias) + slice.part * slice.y.run.channels : nullptr;
    v.primitive.run({{DNNL_ARG_SRC, &v.x, in},
                     {DNNL_ARG_WEIGHTS, &v.weights, element(weights, 0) + part * plan.weights_bytes()},
                     {DNNL_ARG_BIAS, &v.bias, part_bias},
                     {DNNL_ARG_DST, &v.y, out}});
    take_back(plan.y_form, out, y, slice.y);
    if (by_slices) activate_piece(activation, y, slice.y);
  });
  if (!by_slices) cpu::activate_in_place(activation, y);
}

void backward_data(const ConvPlan& plan, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  // The weights are constants if this is conv_transpose2d's forward.
  const Tensor weights = cached_or(weight, plan.form, [&] { return prepared_weights(plan, weight); });
  parallel_slices(static_cast<int64_t>(plan.slices.size()), [&](int64_t i) {
    const ConvSlice& slice = plan.slices[static_cast<size_t>(i)];
    const ConvVariant& v = plan.variants[static_cast<size_t>(slice.variant)];
    const void* in = bring(plan.y_form, dy, slice.y, scratch_for(plan.y_form, kYSlot, v.y));
    void* out = target(plan.x_form, dx, slice.x, kXSlot, v.x);
    const size_t part = static_cast<size_t>(slice.part);
    v.primitive.run({{DNNL_ARG_DIFF_DST, &v.y, in},
                     {DNNL_ARG_WEIGHTS, &v.weights, element(weights, 0) + part * plan.weights_bytes()},
                     {DNNL_ARG_DIFF_SRC, &v.x, out}});
    take_back(plan.x_form, out, dx, slice.x);
  });
}

/// first[i] += the same element of every other slice's sums, in the order of the slices.
void add_up(float* first, int64_t elements, int64_t slices) {
  parallel_ranges(elements, 1 << 12, [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t slice = 1; slice < slices; ++slice) {
        const float* other = first + slice * elements;
        for (int64_t i = begin; i < end; ++i) first[i] += other[i];
      }
    });
  });
}

/// Gradients of weights (OIHW, f32) and bias. Every slice of images computes its own sums; then the sums are added.
void backward_weights_by_images(const ConvPlan& plan, const Tensor& x, const Tensor& dy, float* dweight,
                                float* dbias) {
  const auto slices = static_cast<int64_t>(plan.slices.size());
  const auto weights = static_cast<int64_t>(plan.weights_bytes() / sizeof(float));
  const int64_t o = plan.shape.o;
  const Tensor sums = temporary(static_cast<size_t>(slices) * plan.weights_bytes());
  const Tensor bias_sums = temporary(static_cast<size_t>(plan.bias ? slices * o : 0) * sizeof(float));
  parallel_slices(slices, [&](int64_t i) {
    const ConvSlice& slice = plan.slices[static_cast<size_t>(i)];
    const ConvVariant& v = plan.variants[static_cast<size_t>(slice.variant)];
    const void* in = bring(plan.x_form, x, slice.x, scratch_for(plan.x_form, kXSlot, v.x));
    const void* grad = bring(plan.y_form, dy, slice.y, scratch_for(plan.y_form, kYSlot, v.y));
    v.primitive.run({{DNNL_ARG_SRC, &v.x, in},
                     {DNNL_ARG_DIFF_DST, &v.y, grad},
                     {DNNL_ARG_DIFF_WEIGHTS, &v.weights, floats(sums) + i * weights},
                     {DNNL_ARG_DIFF_BIAS, &v.bias, plan.bias ? floats(bias_sums) + i * o : nullptr}});
  });
  add_up(floats(sums), weights, slices);
  plan.weights_copy.run(sums.raw(), dweight);
  if (plan.bias) {
    add_up(floats(bias_sums), o, slices);
    std::copy_n(floats(bias_sums), o, dbias);
  }
}

/// The whole batch in the primitive's form: `held` itself for kAsHeld, else a converted copy.
Tensor brought_batch(Form form, const Tensor& held) {
  if (form == Form::kAsHeld) return held;
  const Shape& shape = held.shape();
  Tensor all = temporary(static_cast<size_t>(held.elements()) * sizeof(float));
  const int64_t pixels = shape[1] * shape[2];
  parallel_slices(shape[0], [&](int64_t n) {
    const int64_t offset = n * pixels * shape[3];
    bring(form, held, {offset, {1, pixels, shape[3], shape[3]}}, floats(all) + offset);
  });
  return all;
}

/// The same, but each slice computes the gradient of its own output channels from the whole batch. It
/// gathers those channels of dy (blocked) in scratch.
void backward_weights_by_channels(const ConvPlan& plan, const Tensor& x, const Tensor& dy, float* dweight,
                                  float* dbias) {
  const Tensor whole_x = brought_batch(plan.x_form, x);
  const Tensor whole_dy = brought_batch(plan.y_form, dy);
  const ConvVariant& v = plan.variants.front();
  const Conv2dShape& s = plan.shape;
  const int64_t channels = s.o / plan.parts;
  const int64_t pixels = s.oh * s.ow;
  parallel_slices(plan.parts, [&](int64_t part) {
    auto* grad = reinterpret_cast<float*>(worker_scratch(kYSlot, v.y.get_size()));
    for (int64_t n = 0; n < s.n; ++n) {
      std::memcpy(grad + n * channels * pixels, floats(whole_dy) + (n * s.o + part * channels) * pixels,
                  static_cast<size_t>(channels * pixels) * sizeof(float));
    }
    std::byte* sums = worker_scratch(kWeightsSlot, plan.weights_bytes());
    v.primitive.run({{DNNL_ARG_SRC, &v.x, whole_x.raw()},
                     {DNNL_ARG_DIFF_DST, &v.y, grad},
                     {DNNL_ARG_DIFF_WEIGHTS, &v.weights, sums},
                     {DNNL_ARG_DIFF_BIAS, &v.bias, plan.bias ? dbias + part * channels : nullptr}});
    plan.weights_copy.run(0, sums, dweight + part * plan.oihw_step);
  });
}

/// Calls run(). If the table measures and has no kernel yet, first measures the candidates with run().
template <class Run>
void run_chosen(ConvPass pass, const Conv2dShape& shape, DType dtype, const Run& run) {
  cpu::measure_conv(pass, shape, dtype, run);
  run();
}

/// The gradients of weights and bias of one convolution in f32, by the chosen kernel.
void backward_weights_in_f32(const Conv2dShape& shape, const Tensor& x, const Tensor& dy, float* dweight,
                             float* dbias) {
  if (const auto choice = cpu::winograd_choice(ConvPass::kBackwardWeights, shape, x.dtype())) {
    return cpu::winograd_backward_weights(shape, *choice, x, dy, dweight, dbias);
  }
  if (cpu::chooses_depthwise(shape, x.dtype()))
    return cpu::depthwise_backward_weights(shape, x, dy, dweight, dbias);
  if (cpu::taps_choice(ConvPass::kBackwardWeights, shape, x.dtype()))
    return cpu::taps_backward_weights(shape, x, dy, dweight, dbias);
  const auto plan = cpu::conv_plan(ConvPass::kBackwardWeights, shape, x.dtype(), {x.layout(), dy.layout()},
                                   dbias != nullptr);
  plan->slices_cut_channels ? backward_weights_by_channels(*plan, x, dy, dweight, dbias)
                            : backward_weights_by_images(*plan, x, dy, dweight, dbias);
}

/// The same, rounded to bf16 if the gradients are bf16.
void backward_weights(const Conv2dShape& shape, const Tensor& x, const Tensor& dy, const Tensor& weight_grad,
                      const Tensor& bias_grad) {
  const auto in_f32 = [](const Tensor& grad, int64_t elements) {
    const bool own = grad.defined() && grad.dtype() == DType::kF32;
    return own ? grad : Tensor::empty({elements});
  };
  const Tensor dweight = in_f32(weight_grad, shape.weights());
  const Tensor dbias = bias_grad.defined() ? in_f32(bias_grad, shape.o) : Tensor();
  float* const bias = dbias.defined() ? floats(dbias) : nullptr;
  run_chosen(ConvPass::kBackwardWeights, shape, x.dtype(),
             [&] { backward_weights_in_f32(shape, x, dy, floats(dweight), bias); });
  if (weight_grad.defined() && weight_grad.dtype() == DType::kBF16) narrow_into(dweight, weight_grad);
  if (bias_grad.defined() && bias_grad.dtype() == DType::kBF16) narrow_into(dbias, bias_grad);
}

void say_once_how_bf16_is_computed(DType dtype) {
  if (dtype != DType::kBF16 || cpu::computes_bf16()) return;
  static std::atomic_flag is_said;
  if (is_said.test_and_set()) return;
  log(LogLevel::kWarning,
      "[conv2d] this machine has no bf16 convolutions (AVX-512 BF16): images are stored in bf16 and "
      "computed in "
      "f32; --dtype f32 is likely faster");
}

Tensor grad_of(std::span<Tensor> grads, size_t i) {
  return has_input(grads, i) ? grads[i] : Tensor();
}

void zero(const Tensor& grad) {
  if (grad.defined()) std::memset(grad.raw(), 0, grad.size_bytes());
}

void run_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& y = args.outputs[0];
  const Tensor& weight = args.inputs[1];
  const auto& attrs = args.attrs.as<Conv2dAttrs>();
  const Conv2dShape shape = conv2d_shape(x.shape(), weight.shape(), attrs);
  if (shape.n == 0) return;
  say_once_how_bf16_is_computed(x.dtype());
  const Tensor bias = has_input(args.inputs, 2) ? args.inputs[2] : Tensor();
  run_chosen(ConvPass::kForward, shape, x.dtype(), [&] {
    if (const auto choice = cpu::winograd_choice(ConvPass::kForward, shape, x.dtype())) {
      return cpu::winograd_forward(shape, *choice, x, widened(weight),
                                   bias.defined() ? widened(bias) : Tensor(), y, attrs.activation);
    }
    if (const auto choice = cpu::taps_choice(ConvPass::kForward, shape, x.dtype())) {
      return cpu::taps_forward(shape, *choice, x, widened(weight), bias.defined() ? widened(bias) : Tensor(),
                               y, attrs.activation);
    }
    const LayoutChoice held{x.layout(), y.layout()};
    if (const auto choice = cpu::product_choice(shape, x.dtype(), held)) {
      return cpu::product_forward(shape, *choice, x, weight, bias, y, attrs.activation);
    }
    forward(*cpu::conv_plan(ConvPass::kForward, shape, x.dtype(), held, bias.defined()), x, weight, bias, y,
            attrs.activation);
  });
}

void run_backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& dy = args.grad_outputs[0];
  const Tensor& weight = args.inputs[1];
  const Conv2dShape shape = conv2d_shape(x.shape(), weight.shape(), args.attrs.as<Conv2dAttrs>());
  const Tensor dx = grad_of(args.grad_inputs, 0);
  const Tensor dweight = grad_of(args.grad_inputs, 1);
  const Tensor dbias = grad_of(args.grad_inputs, 2);
  if (shape.n == 0) {
    zero(dweight);
    zero(dbias);
    return;
  }
  const auto run_data = [&] {
    if (const auto choice = cpu::winograd_choice(ConvPass::kBackwardData, shape, x.dtype())) {
      return cpu::winograd_backward_data(shape, *choice, dy, widened(weight), dx);
    }
    if (const auto choice = cpu::taps_choice(ConvPass::kBackwardData, shape, x.dtype()))
      return cpu::taps_backward_data(shape, *choice, dy, widened(weight), dx);
    const LayoutChoice held{x.layout(), dy.layout()};
    backward_data(*cpu::conv_plan(ConvPass::kBackwardData, shape, x.dtype(), held, false), dy, weight, dx);
  };
  if (dx.defined()) run_chosen(ConvPass::kBackwardData, shape, x.dtype(), run_data);
  if (dweight.defined() || dbias.defined()) backward_weights(shape, x, dy, dweight, dbias);
}

std::string explain(std::span<const TensorSpec> inputs, const Attrs& attrs, bool backward) {
  const Conv2dShape shape = conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<Conv2dAttrs>());
  if (shape.n == 0) return "nothing to do";
  const auto of = [&](ConvPass pass) { return cpu::conv_explanation(pass, shape, inputs[0].dtype); };
  if (!backward) return of(ConvPass::kForward);
  const std::string data = of(ConvPass::kBackwardData), weights = of(ConvPass::kBackwardWeights);
  return data == weights ? data : concat(data, ", weights ", weights);
}

LayoutChoice choose_layout(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return cpu::conv_layouts(conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<Conv2dAttrs>()),
                           inputs[0].dtype);
}

}  // namespace

extern const Kernels conv2d_cpu;
const Kernels conv2d_cpu{
    .forward = run_forward,
    .backward = run_backward,
    .supports = cpu::supports_first_f32_bf16,
    .explain = explain,
    .fused = cpu::fused_kernels<Conv2dAttrs>,
    .choose_layout = choose_layout,
    .same_bits_on_every_isa = false,  // oneDNN chooses its own order of sums
};

extern const Kernels conv_transpose2d_cpu;
const Kernels conv_transpose2d_cpu{
    .forward = ConvTransposeKernels<conv2d_cpu>::forward,
    .backward = ConvTransposeKernels<conv2d_cpu>::backward,
    .supports = ConvTransposeKernels<conv2d_cpu>::supports,
    .choose_layout = ConvTransposeKernels<conv2d_cpu>::choose_layout,
    .same_bits_on_every_isa = false,  // it runs conv2d's kernels
};

}  // namespace dlpipe::engine
