#include "dlpipe/engine/op_inputs.h"

#include <algorithm>

#include "dlpipe/engine/ops.h"

namespace dlpipe::engine {

namespace {

void cast_inputs(std::vector<Tensor>& inputs, DType dtype, bool (*is_cast)(DType)) {
  const NoGrad no_grad;
  for (Tensor& input : inputs) {
    if (input.defined() && input.dtype() != dtype && is_cast(input.dtype())) input = cast(input, dtype);
  }
}
bool is_f32_or_low(DType dtype) {
  return dtype == DType::kF32 || is_low(dtype);
}

bool has_dtype(std::span<const Tensor> inputs, DType dtype) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Tensor& t) { return t.defined() && t.dtype() == dtype; });
}

}  // namespace

DType low_dtype(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined() && is_low(input.dtype())) return input.dtype();
  }
  return DType::kF32;
}

void apply_dtype_rule(const OpRecord& record, std::vector<Tensor>& inputs) {
  if (record.autocast == Autocast::kAsIs) return;
  if (record.autocast == Autocast::kF32) cast_inputs(inputs, DType::kF32, is_low);
  if (record.autocast == Autocast::kLow && autocast_dtype() != DType::kF32) {
    cast_inputs(inputs, autocast_dtype(), is_f32_or_low);
  }
  const bool mixes_low = has_dtype(inputs, DType::kBF16) && has_dtype(inputs, DType::kF16);
  if (has_dtype(inputs, DType::kF64)) {
    cast_inputs(inputs, DType::kF64, is_f32_or_low);
  } else if (mixes_low || has_dtype(inputs, DType::kF32)) {
    cast_inputs(inputs, DType::kF32, is_low);
  }
}

LayoutChoice choose_layout(const OpRow& row, std::span<const Tensor> inputs, const Attrs& attrs) {
  const OpRecord& record = *row.record;
  const Kernels* const kernels = row.kernels[static_cast<int>(Backend::kCpu)];
  if (kernels != nullptr && kernels->choose_layout != nullptr) {
    return kernels->choose_layout(specs_of(inputs), attrs);
  }
  if (record.choose_layout != nullptr) return record.choose_layout(specs_of(inputs), attrs);
  Layout layout = Layout::kPlain;
  const Shape* shape = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !(record.image_inputs & bit(static_cast<int>(i)))) continue;
    if (inputs[i].dtype() != DType::kF32 || (shape != nullptr && !(*shape == inputs[i].shape()))) return {};
    shape = &inputs[i].shape();
    if (layout == Layout::kPlain) layout = inputs[i].layout();
  }
  if (!(record.layouts & bit(static_cast<int>(layout)))) return {};
  return {layout, layout};
}

void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout) {
  const NoGrad no_grad;
  const UseBackend fast(Backend::kCpu);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const Layout wanted = record.image_inputs & bit(static_cast<int>(i)) ? layout : Layout::kPlain;
    if (inputs[i].layout() != wanted) inputs[i] = reorder(inputs[i], wanted);
  }
}

void make_contiguous(std::vector<Tensor>& inputs) {
  for (Tensor& input : inputs) {
    if (input.defined() && input.layout() == Layout::kPlain && !input.is_contiguous()) {
      input = input.contiguous_copy();
    }
  }
}

}  // namespace dlpipe::engine
