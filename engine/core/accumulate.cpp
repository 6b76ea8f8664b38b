// Where gradients end: at leaves, which add up what arrives.
#include "dlpipe/base/error.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/core/kernel_observer.h"
#include "dlpipe/engine/core/node.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/tensor_impl.h"

namespace dlpipe::engine {

Tensor conform_gradient(const Tensor& grad, const TensorSpec& spec, const std::string& where) {
  if (!(grad.shape() == spec.shape)) {
    refuse(where, "got a gradient of shape ", grad.shape().to_string(), " for a tensor of shape ",
           spec.shape.to_string());
  }
  const UseBackend fast(Backend::kCpu);  // the reference has no layouts
  Tensor result = grad;
  if (result.layout() != spec.layout) result = reorder(result, Layout::kPlain);
  if (result.dtype() != spec.dtype) result = cast(result, spec.dtype);
  if (result.layout() != spec.layout) result = reorder(result, spec.layout);
  if (result.layout() == Layout::kPlain && !result.is_contiguous()) result = result.contiguous_copy();
  return result;
}

void accumulate_gradient(const Tensor& to, Tensor grad, bool is_own) {
  TensorImpl& leaf = *to.impl();
  if (KernelObserver* const observer = thread_state::kernel_observer(); observer != nullptr)
    observer->on_gradient(to, grad);
  const UseKernelObserver nobody(nullptr);
  for (const Tensor::Hook& hook : leaf.hooks) {
    if (Tensor replaced = hook(grad); replaced.defined()) {
      grad = conform_gradient(replaced, {to.shape(), to.dtype(), Layout::kPlain}, "hook");
      is_own = false;
    }
  }
  // The leaf's own memory: what arrived may be somebody else's too (a hook's, a view's).
  if (leaf.grad.defined()) {
    leaf.grad = add(leaf.grad, grad);
  } else {
    leaf.grad = is_own || TensorImpl::is_exclusive(grad) ? std::move(grad) : grad.clone();
  }
}

namespace {

// The end of a path: adds what arrives to its leaf's gradient.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
    output_specs = {{leaf.shape(), leaf.dtype(), Layout::kPlain}};
  }
  std::string name() const override { return "gradient"; }
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override {
    Tensor grad = std::move(grad_outputs[0]);
    grad_outputs.clear();
    accumulate_gradient(leaf_, std::move(grad), false);
    return {};
  }
  void release() override {}
  bool released() const override { return false; }

 private:
  Tensor leaf_;
};

}  // namespace

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  TensorImpl& impl = *tensor.impl();
  if (impl.node != nullptr) return {impl.node, impl.node_output};
  if (!impl.requires_grad) return {};
  std::shared_ptr<Node> accumulator = impl.accumulator.lock();
  if (accumulator == nullptr) {
    accumulator = std::make_shared<AccumulateGrad>(tensor);
    impl.accumulator = accumulator;
  }
  return {std::move(accumulator), 0};
}

}  // namespace dlpipe::engine
