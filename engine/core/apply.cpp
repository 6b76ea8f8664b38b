// How an op runs, in stages; each gets the results of the one before it:
//
//   dtypes     by the record and autocast; a low dtype that only the reference could compute goes through f32
//   view       ops that reinterpret the same memory run no kernel
//   layouts    image inputs are converted to the kernels' layout, all others to plain and contiguous
//   kernels    the backend's, or the reference's if the backend doesn't support these inputs
//   history    a node in the graph if a gradient is needed
//
// Conversions of inputs are not nodes of the graph: its edges refer to the caller's tensors, and backward
// converts every gradient to the form of its tensor.
#include <algorithm>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"
#include "engine/core/kernel_call.h"
#include "engine/core/node.h"
#include "engine/core/observers.h"

namespace dlpipe::engine {

namespace {

Backend backend_of(std::span<const Tensor> inputs) {
  return device_of(inputs).is_host() ? thread_state::backend() : Backend::kCuda;
}

void check_inputs(const OpRow& row, std::span<const Tensor> inputs) {
  if (inputs.size() >
      size_t{OpRecord::kMostInputs})  // the size of arrays; shape rules check the number for each op
    refuse(row.record->name, "expected at most ", OpRecord::kMostInputs, " inputs, got ", inputs.size());
  const Device* device = nullptr;
  for (const Tensor& input : inputs) {
    if (!input.defined()) continue;
    if (device != nullptr && device != &input.device()) {
      refuse(row.record->name, "inputs on ", device->name(), " and ", input.device().name(),
             "; move them to one device");
    }
    device = &input.device();
  }
}

// Stage: dtypes.

void cast_inputs(std::vector<Tensor>& inputs, DType dtype, bool (*is_cast)(DType)) {
  const NoGrad no_grad;
  for (Tensor& input : inputs) {
    if (!input.defined() || input.dtype() == dtype || !is_cast(input.dtype())) continue;
    const uint64_t form = static_cast<uint64_t>(ConstantForm::kCast) + static_cast<uint64_t>(dtype);
    input = cached_or(input, form, [&] { return cast(input, dtype); });
  }
}
bool is_f32_or_low(DType dtype) {
  return dtype == DType::kF32 || is_low(dtype);
}

bool has_dtype(std::span<const Tensor> inputs, DType dtype) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Tensor& t) { return t.defined() && t.dtype() == dtype; });
}

// The first low dtype among the inputs; kF32: there is none.
DType low_dtype(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined() && is_low(input.dtype())) return input.dtype();
  }
  return DType::kF32;
}

// Converts dtypes by the record and the thread's autocast; mixed ones become the wider one.
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

ForwardCall run_view(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs, Backend backend) {
  lay_out_inputs(*row.record, inputs, Layout::kPlain);
  infer_outputs(*row.record, inputs, attrs, Layout::kPlain);  // for its errors
  Tensor view = row.record->view(inputs[0], attrs);
  if (!view.defined()) return {};
  const Kernels* const kernels = choose_kernels(row, backend, inputs, attrs).kernels;  // for backward
  return {kernels, std::move(inputs), {std::move(view)}};
}

// Stage: history.

bool wants_gradient(const OpRecord& record, std::span<const Tensor> inputs) {
  if (!grad_enabled()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && (record.differentiable & bit(static_cast<int>(i))) &&
        inputs[i].requires_grad()) {
      return true;
    }
  }
  return false;
}

// The node of a call that ran on `inputs`, converted from the caller's `given`.
std::shared_ptr<OpNode> node_of(const OpRecord& record, const Kernels& kernels, Backend backend, Attrs attrs,
                                std::span<const Tensor> given, std::span<const Tensor> inputs,
                                std::span<const Tensor> outputs) {
  if (kernels.backward == nullptr) {
    throw Error(Status(ErrorCode::kUnsupported, concat("[", record.name, "] has no gradient on ",
                                                       backend_name(backend), "; detach() its inputs")));
  }
  auto node = std::make_shared<OpNode>(record, kernels, std::move(attrs));
  node->save(inputs, outputs);
  for (size_t i = 0; i < given.size(); ++i) {
    const bool differentiable = (record.differentiable & bit(static_cast<int>(i))) != 0;
    node->edges.push_back(differentiable ? gradient_edge(given[i]) : Edge{});
  }
  return node;
}

// Records `node`, and after it the node of the fused second op. If that op's backward doesn't need its input, the
// input isn't kept: a handle with the same spec represents it in the graph.
void record_both(const std::shared_ptr<OpNode>& node, const OpRecord& second, const Kernels& kernels,
                 Backend backend, std::span<Tensor> outputs) {
  std::vector<Tensor> between = {outputs.size() > 1 ? outputs[1] : outputs[0].detach()};
  record_history(node, between);
  const std::span<Tensor> visible = outputs.first(1);
  record_history(node_of(second, kernels, backend, NoAttrs{}, between, between, visible), visible);
}

// Adds the visible outputs of a call to the graph, if one of the inputs needs a gradient.
void record_call(const OpRecord& record, Backend backend, Attrs attrs, std::span<const Tensor> given,
                 ForwardCall& ran, std::span<Tensor> visible) {
  if (!wants_gradient(record, given)) return;
  const OpRecord* const second = record.fused == nullptr ? nullptr : record.fused(attrs);
  const Kernels* const second_kernels = second == nullptr ? nullptr : ran.kernels->fused(attrs);
  const auto node = node_of(record, *ran.kernels, backend, std::move(attrs), given, ran.inputs, ran.outputs);
  if (second == nullptr) {
    record_history(node, visible);
  } else {
    record_both(node, *second, *second_kernels, backend, ran.outputs);
  }
}

// Whether the reference's kernels support low dtypes. They do for ops that copy bytes or mix dtypes on purpose.
bool reference_takes_low(Autocast rule) {
  return rule == Autocast::kAsIs || rule == Autocast::kWidest;
}

// Whether only the reference supports this call, but not in the dtype `low`. Then apply_widened() runs it.
bool needs_widening(const OpRow& row, std::span<const Tensor> inputs, DType low, const Attrs& attrs,
                    Backend backend) {
  if (reference_takes_low(row.record->autocast) || !is_low(low)) return false;
  return choose_kernels(row, backend, inputs, attrs).is_reference;
}

// Runs the reference's kernels in f32 for inputs of the dtype `low`, and converts f32 outputs to `low`.
std::vector<Tensor> apply_widened(const OpRow& row, const std::vector<Tensor>& inputs, DType low,
                                  const Attrs& attrs) {
  const UseAutocast off(DType::kF32);
  std::vector<Tensor> wide = inputs;
  for (Tensor& input : wide) {
    if (input.defined() && is_low(input.dtype())) input = cast(input, DType::kF32);
  }
  std::vector<Tensor> outputs = apply(row, std::move(wide), attrs);
  for (Tensor& output : outputs) {
    if (output.dtype() == DType::kF32) output = cast(output, low);
  }
  return outputs;
}

}  // namespace

/// `observer`: decides whether the values are needed; may be null.
static std::vector<Tensor> run_op(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs,
                                  CallObserver* observer) {
  const OpRecord& record = *row.record;
  check_inputs(row, inputs);
  const Backend backend = backend_of(inputs);
  std::vector<Tensor> prepared = inputs;
  apply_dtype_rule(record, prepared);
  if (observer != nullptr) {
    std::vector<TensorSpec> specs = infer_outputs(record, prepared, attrs, Layout::kPlain);
    specs.resize(static_cast<size_t>(record.visible_outputs));
    if (!observer->wants_values(row, inputs, specs) && !wants_gradient(record, inputs)) {
      std::vector<Tensor> blank;
      for (const TensorSpec& spec : specs) blank.push_back(Tensor::empty(spec, device_of(inputs)));
      return blank;
    }
  }
  ForwardCall ran;
  if (record.view != nullptr && backend != Backend::kReference) ran = run_view(row, prepared, attrs, backend);
  if (ran.kernels == nullptr) {
    const DType low = low_dtype(prepared);
    if (needs_widening(row, prepared, low, attrs, backend)) return apply_widened(row, inputs, low, attrs);
    ran = call_forward(row, std::move(prepared), attrs, backend);
  }

  std::vector<Tensor> visible(ran.outputs.begin(), ran.outputs.begin() + record.visible_outputs);
  record_call(record, backend, std::move(attrs), inputs, ran, visible);
  return visible;
}

std::vector<Tensor> apply(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs) {
  CallObserver* const observer = thread_state::call_observer();
  if (observer == nullptr) return run_op(row, std::move(inputs), std::move(attrs), nullptr);
  std::vector<Tensor> outputs;
  {
    const UseCallObserver not_of_conversions(nullptr);
    outputs = run_op(row, inputs, attrs, observer);
  }
  observer->on_call(row, inputs, attrs, outputs);
  return outputs;
}

}  // namespace dlpipe::engine
