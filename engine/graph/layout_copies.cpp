#include "dlpipe/engine/graph/layout_copies.h"

#include <string_view>
#include <utility>

#include "dlpipe/engine/core/kernel_observer.h"

namespace dlpipe::engine::graph {

namespace {

class Counter final : public KernelObserver {
 public:
  LayoutCopies now;

  void on_forward(const OpRecord& record, const Kernels&, const ForwardArgs& args) override {
    if (record.name != std::string_view("reorder")) return;
    ++now.reorders;
    now.bytes += static_cast<int64_t>(args.outputs[0].size_bytes());
  }
  void on_copy(const Tensor& to, const Tensor&) override {
    ++now.of_views;
    now.bytes += static_cast<int64_t>(to.size_bytes());
  }
  void on_backward(const OpRecord&, const Kernels&, const BackwardArgs&) override {}
  void on_gradient(const Tensor&, const Tensor&) override {}
  void on_values(const Tensor&) override {}
  void on_refusal(const std::string&) override {}
};

}  // namespace

std::vector<LayoutCopies> layout_copies(const Runner& runner, std::span<const Tensor> inputs) {
  std::vector<LayoutCopies> copies(runner.graph().nodes.size() + 1);
  Counter counter;
  const UseKernelObserver use(&counter);
  runner.run(inputs, [&](size_t node, int64_t) { copies[node] += std::exchange(counter.now, {}); });
  copies.back() = counter.now;
  return copies;
}

}  // namespace dlpipe::engine::graph
