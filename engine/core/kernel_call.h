// One call of an op's kernels: layouts, contiguity, memory, the choice between the backend's kernels and the
// reference's. `apply` calls them here and adds dtypes, views and history. Who keeps a history of its own (another
// framework's graph) calls forward and backward kernels directly: call_forward answers hidden outputs too, and
// call_backward takes what the record saves from the caller.
//
// One thread at a time for the same tensors; kernels parallelise inside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

/// Of the first input that is defined; the CPU where none is.
Device& device_of(std::span<const Tensor> inputs);
/// "reference", "cpu", "cuda".
const char* backend_name(Backend backend);

/// Tensor::borrow for memory in any layout.
Tensor borrow_laid_out(void* data, const TensorSpec& spec);

struct ChosenKernels {
  const Kernels* kernels;
  bool is_reference;
};
/// Those of the wanted backend, or the reference's where they don't take these inputs. kUnsupported where a
/// device has none.
ChosenKernels choose_kernels(const OpRow& row, Backend backend, std::span<const Tensor> inputs,
                             const Attrs& attrs);

/// Image inputs come into `layout`, all others become plain.
void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout);

/// The shape rule's specs of all outputs, visible images of them in `image_layout`.
std::vector<TensorSpec> infer_outputs(const OpRecord& record, std::span<const Tensor> inputs,
                                      const Attrs& attrs, Layout image_layout);

/// The kernels alone, on memory that is there. A profile that lives times them, who observes is told.
void run_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args);
void run_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args);

/// A forward call that ran.
struct ForwardCall {
  const Kernels* kernels = nullptr;
  std::vector<Tensor> inputs;   // as the kernel saw them
  std::vector<Tensor> outputs;  // hidden ones, too, which lie in memory as the first output does
};
/// Runs the kernels for inputs whose dtypes are as the op takes them.
ForwardCall call_forward(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs, Backend backend);

/// What a gradient is computed from.
struct SavedCall {
  std::vector<Tensor> inputs;           // those that the record saves; others may be undefined
  std::vector<TensorSpec> input_specs;  // of all inputs; the layouts of those that aren't defined don't count
  std::vector<Tensor> outputs;          // those that the record saves; others may be undefined
  /// The layouts that forward ran in, where a hidden output lies in memory as that did; else the op's choice.
  std::optional<LayoutChoice> layouts = {};
};
/// The gradients of those inputs whose bit is in `wanted`, on the CPU. `grad_outputs`: one per visible output.
std::vector<Tensor> call_backward(const OpRow& row, SavedCall saved, std::vector<Tensor> grad_outputs,
                                  uint32_t wanted, const Attrs& attrs);

}  // namespace dlpipe::engine
