// elementwise_chain: consecutive elementwise ops in one pass over memory, with the bits of the separate ops. Only a pass of
// engine/graph creates it (passes_elementwise.cpp). Shared by the record, that pass and the kernels of every
// backend.
//
// An operand of a step has the shape of the chain's result, or one number per channel (the last axis), or one number.
// Every step's result has the chain's shape.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "engine/core/attr_form.h"

namespace dlpipe::engine {

/// The ops that are registered ELEMENTWISE (ops.cmake): their kernels take any part of their tensors.
std::span<const OpRecord* const> elementwise_ops();
bool is_elementwise(const OpRecord& record);

/// One op of a chain.
struct ChainStep {
  const OpRow* op = nullptr;
  Attrs attrs;
  /// 0 and above: inputs of the chain; below 0: results of steps, -1 is the first step's.
  std::vector<int> operands;
};
constexpr int answer_of_step(size_t step) {
  return -1 - static_cast<int>(step);
}

/// Graphs store it as a string, "scale(x0) factor=2 offset=0; mul(x0,y0)": xN is input N, yN the result of step N.
struct ChainAttrs {
  std::vector<ChainStep> steps;
};

/// Whether an operand has the chain's shape, one number per channel, or one number.
enum class Extent : uint8_t { kAll, kChannels, kOne };
/// nullopt if the operand is broadcast in another way.
std::optional<Extent> extent_of(const Shape& operand, const Shape& answer);

/// A backend's kernels for the steps.
struct ChainBackend {
  /// Whether its kernels compute in a dtype. Others are computed in f32 and rounded after each step, as by `apply`.
  bool (*takes)(DType dtype);
  /// Its kernels for an op, or for cast, with operands of one dtype.
  const Kernels* (*kernels)(const OpRow& op, DType operands, const Attrs& attrs);
};

/// What a backend runs: the steps, and casts if the dtypes of operands differ or its kernels don't support them.
struct ChainPlan {
  struct Step {
    const Kernels* kernels = nullptr;
    Attrs attrs;
    std::vector<int> operands;  // as in ChainStep, but indices of `steps` here
    DType dtype = DType::kF32;  // of its result
    Extent extent = Extent::kAll;
    int buffer =
        0;  // holds the result until its last reader has run; results with disjoint lifetimes share one
  };
  std::vector<Step> steps;     // the last one writes the chain's output
  std::vector<Extent> inputs;  // of each
  int buffers = 0;
  int64_t channels = 1;  // the row length: the size of the last axis if an operand is per channel, else 1
};
ChainPlan plan_chain(std::span<const TensorSpec> inputs, const Shape& answer, const ChainAttrs& attrs,
                     const ChainBackend& backend);

/// Allocates the result of a step other than the last.
using ChainMemory = std::function<Tensor(const ChainPlan::Step& step, const Shape& shape)>;
/// Runs a plan on one part of the tensors after another. For one thread.
class ChainRun {
 public:
  ChainRun(const ChainPlan& plan, const ForwardArgs& args, ChainMemory memory);
  /// Runs rows `first` to `last`, of `plan.channels` elements each.
  void operator()(int64_t first, int64_t last);

 private:
  void fit(const Shape& rows);

  const ChainPlan& plan_;
  const ForwardArgs& args_;
  ChainMemory memory_;
  Shape rows_;                   // of the previous part
  std::vector<Tensor> inputs_;   // parts of the inputs
  std::vector<Tensor> answers_;  // results of the steps
};
/// Runs all rows at once, for backends that don't benefit from parts.
void run_chain(const ForwardArgs& args, const ChainBackend& backend);

/// "scale(x0) factor=2 offset=0; mul(x0,y0)"
std::string steps_text(std::span<const ChainStep> steps);
/// Throws kCorrupt if the text is invalid, or an op isn't elementwise or has other attributes. The shape rule checks that
/// operands exist.
std::vector<ChainStep> steps_from(const AttrValue& text);

}  // namespace dlpipe::engine
