// How an op runs: the only way. In stages, each of which gets what the one before it answered:
//
//   dtypes   what the record and autocast say; a low dtype that only the reference could take goes through
//   f32 view     ops that look at the same memory otherwise run no kernel layouts  image inputs come into the
//   layout that the kernels like, all others are made plain and contiguous kernels  the backend's, or the
//   reference's where it has none that takes these inputs history  a node in the graph where a gradient is
//   wanted
//
// Conversions of inputs are no nodes of the graph: its edges go to the tensors as the caller gave them, and
// backward gives every gradient the form of the tensor it belongs to.
#include <algorithm>
#include <array>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/call_observer.h"
#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/op_node.h"
#include "dlpipe/engine/core/op_profile.h"

namespace dlpipe::engine {

namespace {

constexpr std::array<const char*, 3> kBackendNames = {"reference", "cpu", "cuda"};

Device& device_of(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined()) return input.device();
  }
  return cpu_device();
}

Backend backend_of(std::span<const Tensor> inputs) {
  return device_of(inputs).is_host() ? thread_state::backend() : Backend::kCuda;
}

void check_inputs(const OpRow& row, std::span<const Tensor> inputs) {
  const Device* device = nullptr;
  for (const Tensor& input : inputs) {
    if (!input.defined()) continue;
    if (device != nullptr && device != &input.device()) {
      throw Error(
          Status(ErrorCode::kMisuse, concat("[", row.record->name, "] inputs on ", device->name(), " and ",
                                            input.device().name(), "; bring them to one device")));
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

// What the record and the thread's autocast say of dtypes; mixed ones become the wider one.
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

// Stage: layouts.

// The choice of the cpu's kernels, or the record's; without one the layout that all images have, if the op
// knows it.
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

// Image inputs come into `layout`, all others become plain.
void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout) {
  const NoGrad no_grad;
  const UseBackend fast(Backend::kCpu);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const Layout wanted = record.image_inputs & bit(static_cast<int>(i)) ? layout : Layout::kPlain;
    if (inputs[i].layout() != wanted) inputs[i] = reorder(inputs[i], wanted);
  }
}

// Plain ones; blocked layouts have no strides.
void make_contiguous(std::vector<Tensor>& inputs) {
  for (Tensor& input : inputs) {
    if (input.defined() && input.layout() == Layout::kPlain && !input.is_contiguous()) {
      input = input.contiguous_copy();
    }
  }
}

// Stage: kernels.

struct Chosen {
  const Kernels* kernels;
  bool is_reference;
};

// Those of the wanted backend, or the reference's where they don't take these inputs.
Chosen choose_kernels(const OpRow& row, Backend backend, std::span<const Tensor> inputs, const Attrs& attrs) {
  const Kernels* kernels = backend == Backend::kCuda ? device_code(device_of(inputs)).kernels(row)
                                                     : row.kernels[static_cast<int>(backend)];
  if (kernels != nullptr && (kernels->supports == nullptr || kernels->supports(specs_of(inputs), attrs))) {
    return {kernels, backend == Backend::kReference};
  }
  kernels = row.kernels[static_cast<int>(Backend::kReference)];
  if (backend == Backend::kCuda || kernels == nullptr) {
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[", row.record->name, "] no ", kBackendNames[static_cast<int>(backend)],
                              " kernel for these inputs; use --device cpu")));
  }
  return {kernels, true};
}

std::vector<Tensor> allocate(const std::vector<TensorSpec>& specs, Device& device) {
  std::vector<Tensor> outputs;
  outputs.reserve(specs.size());
  for (const TensorSpec& spec : specs) outputs.push_back(Tensor::empty(spec, device));
  return outputs;
}

std::vector<TensorSpec> infer(const OpRecord& record, std::span<const Tensor> inputs, const Attrs& attrs,
                              Layout image_layout) {
  std::vector<TensorSpec> specs = specs_of(inputs);
  for (TensorSpec& spec : specs) spec.layout = Layout::kPlain;
  std::array<bool, OpRecord::kMostInputs> defined{};
  for (size_t i = 0; i < inputs.size(); ++i) defined[i] = inputs[i].defined();
  std::vector<TensorSpec> outputs =
      record.infer(specs, std::span<const bool>(defined.data(), inputs.size()), attrs);
  for (int i = 0; i < record.visible_outputs; ++i) {
    if (record.image_outputs & bit(i)) outputs[i].layout = image_layout;
  }
  return outputs;
}

// A forward call that ran: what the graph keeps of it.
struct Ran {
  const Kernels* kernels = nullptr;
  std::vector<Tensor> inputs;   // as the kernel saw them
  std::vector<Tensor> outputs;  // hidden ones, too
};

Ran run_view(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs) {
  lay_out_inputs(*row.record, inputs, Layout::kPlain);
  infer(*row.record, inputs, attrs, Layout::kPlain);  // for its errors
  Tensor view = row.record->view(inputs[0], attrs);
  if (!view.defined()) return {};
  return {row.kernels[static_cast<int>(Backend::kReference)], std::move(inputs), {std::move(view)}};
}

Ran run_kernels(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs, Backend backend) {
  const OpRecord& record = *row.record;
  infer(record, inputs, attrs, Layout::kPlain);  // for its errors: what follows relies on sound inputs
  LayoutChoice layout;
  if (backend == Backend::kCpu)
    layout = choose_layout(row, inputs, attrs);  // others have plain kernels alone
  lay_out_inputs(record, inputs, layout.inputs);
  const Chosen chosen = choose_kernels(row, backend, inputs, attrs);
  const Kernels& kernels = *chosen.kernels;
  if (chosen.is_reference) {
    layout = {};
    lay_out_inputs(record, inputs, Layout::kPlain);
  }
  make_contiguous(inputs);
  Device& device = device_of(inputs);
  Ran ran;
  ran.kernels = &kernels;
  ran.outputs = allocate(infer(record, inputs, attrs, layout.outputs), device);
  const ForwardArgs args{inputs, ran.outputs, attrs};
  if (OpProfile* const profile = OpProfile::current(); profile != nullptr) {
    synchronize(device);
    const int64_t begin = now_ns();
    kernels.forward(args);
    synchronize(device);
    profile->add_forward(row, kernels, args, now_ns() - begin);
  } else {
    kernels.forward(args);
  }
  ran.inputs = std::move(inputs);
  return ran;
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

// The node of a call that ran on `inputs`, which the caller gave as `given`.
std::shared_ptr<OpNode> node_of(const OpRecord& record, const Kernels& kernels, Backend backend, Attrs attrs,
                                std::span<const Tensor> given, std::span<const Tensor> inputs,
                                std::span<const Tensor> outputs) {
  if (kernels.backward == nullptr) {
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[", record.name, "] has no gradient on ",
                              kBackendNames[static_cast<int>(backend)], "; detach() its inputs")));
  }
  auto node = std::make_shared<OpNode>(record, kernels, std::move(attrs));
  node->save(inputs, outputs);
  for (size_t i = 0; i < given.size(); ++i) {
    const bool differentiable = (record.differentiable & bit(static_cast<int>(i))) != 0;
    node->edges.push_back(differentiable ? gradient_edge(given[i]) : Edge{});
  }
  return node;
}

// Records `node`, and behind it that of the op that its kernels did as well. Where that one's backward
// doesn't want its input, nothing holds it: a handle of the same form stands for it in the graph.
void record_both(const std::shared_ptr<OpNode>& node, const OpRecord& second, const Kernels& kernels,
                 Backend backend, std::span<Tensor> outputs) {
  std::vector<Tensor> between = {outputs.size() > 1 ? outputs[1] : outputs[0].detach()};
  record_history(node, between);
  const std::span<Tensor> visible = outputs.first(1);
  record_history(node_of(second, kernels, backend, NoAttrs{}, between, between, visible), visible);
}

// Gives the visible outputs of a call their place in the graph, where one of the inputs wants a gradient.
void record_call(const OpRecord& record, Backend backend, Attrs attrs, std::span<const Tensor> given,
                 Ran& ran, std::span<Tensor> visible) {
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

// Only the reference can do this, and low dtypes are not for it: in f32, and the outputs back to `low`.
bool needs_widening(const OpRow& row, std::span<const Tensor> inputs, DType low, const Attrs& attrs,
                    Backend backend) {
  if (row.record->autocast == Autocast::kAsIs || !is_low(low)) return false;
  return choose_kernels(row, backend, inputs, attrs).is_reference;
}

// Runs an op that the reference computes, in f32, for inputs of the dtype `low`.
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

static std::vector<Tensor> run_op(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs) {
  const OpRecord& record = *row.record;
  check_inputs(row, inputs);
  const Backend backend = backend_of(inputs);
  std::vector<Tensor> prepared = inputs;
  apply_dtype_rule(record, prepared);
  Ran ran;
  if (record.view != nullptr && backend != Backend::kReference) ran = run_view(row, prepared, attrs);
  if (ran.kernels == nullptr) {
    const DType low = low_dtype(prepared);
    if (needs_widening(row, prepared, low, attrs, backend)) return apply_widened(row, inputs, low, attrs);
    ran = run_kernels(row, std::move(prepared), attrs, backend);
  }

  std::vector<Tensor> visible(ran.outputs.begin(), ran.outputs.begin() + record.visible_outputs);
  record_call(record, backend, std::move(attrs), inputs, ran, visible);
  return visible;
}

std::vector<Tensor> apply(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs) {
  CallObserver* const observer = thread_state::call_observer();
  if (observer == nullptr) return run_op(row, std::move(inputs), std::move(attrs));
  std::vector<Tensor> outputs;
  {
    const UseCallObserver not_of_conversions(nullptr);
    outputs = run_op(row, inputs, attrs);
  }
  observer->on_call(row, inputs, attrs, outputs);
  return outputs;
}

}  // namespace dlpipe::engine
