// elementwise_chain: elementwise ops one after another in one pass over memory, to the bits that each gives by itself. Only
// a pass of engine/graph makes it (passes/fuse_elementwise_chains.cpp). What the record, that pass and the kernels of every
// backend share.
//
// An operand of a step is as large as the chain's answer, or one number for each channel (the last axis), or one number.
// Every step answers in the chain's shape.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

/// The ops that are registered ELEMENTWISE (ops.cmake): their kernels take any part of their tensors.
std::span<const OpRecord* const> elementwise_ops();
bool is_elementwise(const OpRecord& record);

/// One op of a chain.
struct ChainStep {
  const OpRow* op = nullptr;
  Attrs attrs;
  /// 0 and above: inputs of the chain; below: what steps answered, -1 the first one.
  std::vector<int> operands;
};
constexpr int answer_of_step(size_t step) {
  return -1 - static_cast<int>(step);
}

/// In graphs a text, "scale(x0) factor=2 offset=0; mul(x0,y0)": xN are inputs, yN what step N answered.
struct ChainAttrs {
  std::vector<ChainStep> steps;
};

/// How much of the chain's shape an operand has.
enum class Extent : uint8_t { kAll, kChannels, kOne };
/// Nothing where it is stretched in another way.
std::optional<Extent> extent_of(const Shape& operand, const Shape& answer);

/// What a backend has for the steps.
struct ChainBackend {
  /// Dtypes that its kernels compute in. Others are computed in f32 and rounded after each step, as `apply` does.
  bool (*takes)(DType dtype);
  /// Its kernels of an op, or of the cast, whose operands are of one dtype.
  const Kernels* (*kernels)(const OpRow& op, DType operands, const Attrs& attrs);
};

/// What a backend runs: the steps, and casts where the dtypes of operands differ or its kernels don't take them.
struct ChainPlan {
  struct Step {
    const Kernels* kernels = nullptr;
    Attrs attrs;
    std::vector<int> operands;  // as a ChainStep's; places of `steps` here
    DType dtype = DType::kF32;  // of what it answers
    Extent extent = Extent::kAll;
    int buffer = 0;  // where the answer lies until its last reader has run; those that never meet share one
  };
  std::vector<Step> steps;     // the last one answers into the chain's output
  std::vector<Extent> inputs;  // of each
  int buffers = 0;
  int64_t channels = 1;  // elements that belong together: those of the last axis where an operand has them
};
ChainPlan plan_chain(std::span<const TensorSpec> inputs, const Shape& answer, const ChainAttrs& attrs,
                     const ChainBackend& backend);

/// Memory for what a step but the last answers.
using ChainMemory = std::function<Tensor(const ChainPlan::Step& step, const Shape& shape)>;
/// Runs a plan on one part of the tensors after another. One thread's.
class ChainRun {
 public:
  ChainRun(const ChainPlan& plan, const ForwardArgs& args, ChainMemory memory);
  /// Rows `first` to `last`, of `plan.channels` elements each.
  void operator()(int64_t first, int64_t last);

 private:
  void fit(const Shape& rows);

  const ChainPlan& plan_;
  const ForwardArgs& args_;
  ChainMemory memory_;
  Shape rows_;                   // of the part before
  std::vector<Tensor> inputs_;   // parts of them
  std::vector<Tensor> answers_;  // of the steps
};
/// On all rows at once: for backends that gain nothing from parts.
void run_chain(const ForwardArgs& args, const ChainBackend& backend);

}  // namespace dlpipe::engine
