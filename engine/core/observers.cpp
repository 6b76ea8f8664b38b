#include "engine/core/observers.h"

#include <algorithm>

#include "base/text.h"

namespace dlpipe::engine::thread_state {

CallObserver*& call_observer() {
  thread_local CallObserver* t_observer = nullptr;
  return t_observer;
}

}  // namespace dlpipe::engine::thread_state

namespace dlpipe::engine {

KernelObserver*& thread_state::kernel_observer() {
  thread_local KernelObserver* t_observer = nullptr;
  return t_observer;
}

namespace {

thread_local OpProfile* t_current = nullptr;

double bytes_of(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors)
    bytes += tensor.defined() ? static_cast<double>(tensor.size_bytes()) : 0.0;
  return bytes;
}

std::string text_of(std::span<const TensorSpec> inputs) {
  std::string text;
  for (const TensorSpec& spec : inputs) {
    if (spec.shape.rank() > 0) text += (text.empty() ? "" : " ") + spec.shape.to_string();
  }
  return text;
}

bool is_reference(const Kernels& kernels) {
  return std::any_of(op_table().begin(), op_table().end(), [&](const OpRow& row) {
    return row.kernels[static_cast<int>(Backend::kReference)] == &kernels;
  });
}

}  // namespace

OpProfile::OpProfile() : former_(t_current) {
  t_current = this;
}
OpProfile::~OpProfile() {
  t_current = former_;
}
OpProfile* OpProfile::current() {
  return t_current;
}

OpCost& OpProfile::cost_of(const OpRecord& record, const Kernels& kernels, std::span<const TensorSpec> inputs,
                           const Attrs& attrs, bool backward) {
  const std::string shapes = text_of(inputs);
  std::string kernel;
  if (kernels.explain != nullptr) kernel = kernels.explain(inputs, attrs, backward);
  if (is_reference(kernels)) kernel = "reference: no fast kernel supports these inputs";
  const OpRecord* const second = backward || record.fused == nullptr ? nullptr : record.fused(attrs);
  if (second != nullptr) kernel += concat(kernel.empty() ? "with " : ", with ", second->name);
  OpCost& cost = costs_[concat(record.name, backward ? " b " : " f ", shapes, " ", kernel)];
  cost.op = record.name;
  cost.inputs = shapes;
  cost.backward = backward;
  cost.kernel = kernel;
  ++cost.calls;
  return cost;
}

void OpProfile::add_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args,
                            int64_t ns) {
  const std::vector<TensorSpec> specs = specs_of(args.inputs);
  OpCost& cost = cost_of(record, kernels, specs, args.attrs, false);
  cost.ns += ns;
  if (record.flops != nullptr) cost.flops += record.flops(specs, args.attrs);
  cost.bytes += bytes_of(args.inputs) + bytes_of(args.outputs);
}

void OpProfile::add_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args,
                             int64_t ns) {
  OpCost& cost = cost_of(record, kernels, args.input_specs, args.attrs, true);
  cost.ns += ns;
  // An estimate: with several inputs, each gradient is another product of that size; with one, as in attention, 2.5 such products.
  const auto wanted = std::count_if(args.grad_inputs.begin(), args.grad_inputs.end(),
                                    [](const Tensor& grad) { return grad.defined() && grad.rank() > 1; });
  const double products = args.input_specs.size() == 1 ? 2.5 : static_cast<double>(wanted);
  if (record.flops != nullptr) cost.flops += products * record.flops(args.input_specs, args.attrs);
  cost.bytes += bytes_of(args.inputs) + bytes_of(args.outputs) + bytes_of(args.grad_outputs) +
                bytes_of(args.grad_inputs);
}

std::vector<OpCost> OpProfile::costs() const {
  std::vector<OpCost> all;
  for (const auto& [key, cost] : costs_) all.push_back(cost);
  std::stable_sort(all.begin(), all.end(), [](const OpCost& a, const OpCost& b) { return a.ns > b.ns; });
  return all;
}

}  // namespace dlpipe::engine
