#include "dlpipe/engine/op.h"

#include <algorithm>
#include <array>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/autograd/backward.h"
#include "dlpipe/engine/autograd/op_node.h"
#include "dlpipe/engine/device_code.h"
#include "dlpipe/engine/device_memory.h"
#include "dlpipe/engine/op_inputs.h"
#include "dlpipe/engine/op_profile.h"
#include "dlpipe/engine/ops.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/tensor_impl.h"

namespace dlpipe::engine {

namespace {

constexpr std::array<const char*, 3> kBackendNames = {"reference", "cpu", "cuda"};

Device& device_of(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined()) return input.device();
  }
  return cpu_device();
}

// The kernels that run: those of the wanted backend, or the reference where they don't take these inputs.
const Kernels& choose_kernels(const OpRow& row, Backend backend, std::span<const Tensor> inputs,
                              const Attrs& attrs, bool* is_reference) {
  const Kernels* kernels = backend == Backend::kCuda ? device_code(device_of(inputs)).kernels(row)
                                                     : row.kernels[static_cast<int>(backend)];
  *is_reference = false;
  if (kernels != nullptr && (kernels->supports == nullptr || kernels->supports(specs_of(inputs), attrs))) {
    *is_reference = backend == Backend::kReference;
    return *kernels;
  }
  kernels = row.kernels[static_cast<int>(Backend::kReference)];
  if (backend == Backend::kCuda || kernels == nullptr) {
    throw Error(Status(ErrorCode::kUnsupported,
                       concat("[", row.record->name, "] no ", kBackendNames[static_cast<int>(backend)],
                              " kernel for these inputs; use --device cpu")));
  }
  *is_reference = true;
  return *kernels;
}

Backend backend_of(std::span<const Tensor> inputs) {
  return device_of(inputs).is_host() ? thread_state::backend() : Backend::kCuda;
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

const OpRow& builtin_row(const OpRecord& record) {
  for (const OpRow& row : op_table()) {
    if (row.record == &record) return row;
  }
  throw Error(Status(ErrorCode::kInternal, concat("[", record.name, "] is not in the op table")));
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
  std::array<bool, 32> defined{};
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
  bool is_reference = false;
  const Kernels& kernels = choose_kernels(row, backend, inputs, attrs, &is_reference);
  if (is_reference) {
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

// Only the reference can do this, and low dtypes are not for it: in f32, and the outputs back to `low`.
bool needs_widening(const OpRow& row, std::span<const Tensor> inputs, DType low, const Attrs& attrs,
                    Backend backend) {
  if (row.record->autocast == Autocast::kAsIs || !is_low(low)) return false;
  bool is_reference = false;
  choose_kernels(row, backend, inputs, attrs, &is_reference);
  return is_reference;
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

}  // namespace

std::vector<TensorSpec> specs_of(std::span<const Tensor> tensors) {
  std::vector<TensorSpec> specs(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) specs[i] = tensors[i].spec();
  }
  return specs;
}

std::vector<Tensor> apply(const OpRow& row, std::vector<Tensor> inputs, Attrs attrs) {
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
  if (!wants_gradient(record, inputs)) return visible;
  const OpRecord* const second = record.fused == nullptr ? nullptr : record.fused(attrs);
  const Kernels* const second_kernels = second == nullptr ? nullptr : ran.kernels->fused(attrs);
  const auto node = node_of(record, *ran.kernels, backend, std::move(attrs), inputs, ran.inputs, ran.outputs);
  if (second == nullptr) {
    record_history(node, visible);
  } else {
    record_both(node, *second, *second_kernels, backend, ran.outputs);
  }
  return visible;
}

std::vector<Tensor> apply(const OpRecord& record, std::vector<Tensor> inputs, Attrs attrs) {
  return apply(builtin_row(record), std::move(inputs), std::move(attrs));
}

void OpRegistry::add(const OpRow& row) {
  const std::string name = row.record->name;
  if (find(name) != nullptr) {
    throw Error(
        Status(ErrorCode::kMisuse, concat("[", name, "] there is an op of this name already; rename yours")));
  }
  rows_.push_back(row);
}

const OpRow* OpRegistry::find(std::string_view name) const {
  for (const OpRow& row : rows_) {
    if (row.record->name == name) return &row;
  }
  return nullptr;
}

const OpRegistry& OpRegistry::builtin() {
  static const OpRegistry registry = [] {
    OpRegistry all;
    for (const OpRow& row : op_table()) all.add(row);
    return all;
  }();
  return registry;
}

namespace thread_state {

Backend& backend() {
  thread_local Backend t_backend = Backend::kCpu;
  return t_backend;
}
DType& autocast() {
  thread_local DType t_dtype = DType::kF32;
  return t_dtype;
}
bool& tf32() {
  thread_local bool t_allowed = false;
  return t_allowed;
}
Cudnn& cudnn() {
  thread_local Cudnn t_cudnn = Cudnn::kAuto;
  return t_cudnn;
}

}  // namespace thread_state

DType autocast_dtype() {
  return thread_state::autocast();
}
bool tf32_allowed() {
  return thread_state::tf32();
}
Cudnn cudnn_use() {
  return thread_state::cudnn();
}

}  // namespace dlpipe::engine
