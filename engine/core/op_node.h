// An op's node in the graph: its record, what it saved, and the forms its inputs had when the kernel saw
// them. Internal to engine: op.cpp makes them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/node.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

class OpNode final : public Node {
 public:
  OpNode(const OpRecord& record, const Kernels& kernels, Attrs attrs)
      : record_(record), kernels_(kernels), attrs_(std::move(attrs)) {}

  std::string name() const override { return record_.name; }
  /// Of the call, as its kernel saw them; kept is what the record says.
  void save(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  std::vector<Tensor> backward(std::vector<Tensor> grad_outputs) override;
  void release() override;
  bool released() const override { return released_; }

 private:
  const OpRecord& record_;
  const Kernels& kernels_;
  const Attrs attrs_;
  Device* device_ = nullptr;
  std::vector<TensorSpec> input_specs_;
  std::vector<SavedTensor> inputs_;
  std::vector<SavedTensor> outputs_;
  bool released_ = false;
};

}  // namespace dlpipe::engine
