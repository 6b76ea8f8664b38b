// reorder: the same values in another memory layout; the gradient comes back in the input's. Only f32 has
// blocked layouts: other dtypes stay plain.
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  const TensorSpec& x = inputs[0];
  const auto layout = attrs.as<Layout>();
  const int block = layout_block(layout);
  if (layout != Layout::kPlain && (x.shape.rank() != 4 || x.shape[3] % block != 0)) {
    refuse("reorder", "expected images [N,H,W,C] with C a multiple of ", block, " for ", layout_name(layout),
           ", got ", dtype_name(x.dtype), " ", x.shape.to_string());
  }
  return {{x.shape, x.dtype, Layout::kPlain}};
}

LayoutChoice choose_layout(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return {inputs[0].layout, inputs[0].dtype == DType::kF32 ? attrs.as<Layout>() : Layout::kPlain};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> samples(3);
  samples[0].name = "to blocks of 8";
  samples[0].inputs = {{{2, 3, 5, 24}}};
  samples[0].attrs = Layout::kBlocked8;
  samples[1].name = "to blocks of 16";
  samples[1].inputs = {{{2, 3, 5, 32}}};
  samples[1].attrs = Layout::kBlocked16;
  samples[2].name = "plain stays plain";
  samples[2].inputs = {{{2, 3, 5, 7}}};
  samples[2].attrs = Layout::kPlain;
  return samples;
}

double flops(std::span<const TensorSpec>, const Attrs&) {
  return 0.0;
}

}  // namespace

extern const OpRecord reorder_op;
const OpRecord reorder_op{
    .name = "reorder",
    .infer = infer,
    .autocast = Autocast::kAsIs,
    .layouts = kAllLayouts,
    .choose_layout = choose_layout,
    .samples = samples,
    .f32 = {0.0, 0.0, "copies"},
    .bf16 = {0.0, 0.0, "copies"},
    .f16 = {0.0, 0.0, "copies"},
    .flops = flops,
};

Tensor reorder(const Tensor& x, Layout layout) {
  return x.layout() == layout ? x : apply_one(reorder_op, {x}, layout);
}

}  // namespace dlpipe::engine
