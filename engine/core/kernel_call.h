// One call of an op's kernels: layouts, contiguity, memory, and the choice between the backend's kernels and the
// reference's. `apply` calls them here and adds dtypes, views and history. Code with its own history (another
// framework's graph) calls forward and backward kernels directly: call_forward also returns hidden outputs, and
// call_backward takes saved tensors from the caller.
//
// One thread at a time for the same tensors; kernels are parallel internally.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/op.h"

namespace dlpipe::engine {

/// The device of the first defined input; the CPU if there is none.
Device& device_of(std::span<const Tensor> inputs);
/// "reference", "cpu", "cuda".
const char* backend_name(Backend backend);

/// Tensor::borrow for memory in any layout.
Tensor borrow_laid_out(void* data, const TensorSpec& spec);

struct ChosenKernels {
  const Kernels* kernels;
  bool is_reference;
};
/// The kernels of `backend`, or the reference's if they don't support these inputs. Throws kUnsupported if a
/// device has none.
ChosenKernels choose_kernels(const OpRow& row, Backend backend, std::span<const Tensor> inputs,
                             const Attrs& attrs);

/// Converts image inputs to `layout` and all others to plain.
void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout);

/// The specs of all outputs by the shape rule, with visible images in `image_layout`.
std::vector<TensorSpec> infer_outputs(const OpRecord& record, std::span<const Tensor> inputs,
                                      const Attrs& attrs, Layout image_layout);

/// Runs only the kernels, on allocated memory. Reports to the thread's profile and observer.
void run_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args);
void run_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args);

/// A forward call that ran.
struct ForwardCall {
  const Kernels* kernels = nullptr;
  std::vector<Tensor> inputs;   // as the kernel saw them
  std::vector<Tensor> outputs;  // including hidden ones, which have the layout of the first output
};
/// Runs the kernels for inputs that already have the dtypes that the op needs.
ForwardCall call_forward(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs, Backend backend);

/// The inputs of backward.
struct SavedCall {
  std::vector<Tensor> inputs;           // those that the record saves; others may be undefined
  std::vector<TensorSpec> input_specs;  // of all inputs; layouts of undefined ones are ignored
  std::vector<Tensor> outputs;          // those that the record saves; others may be undefined
  /// The layouts that forward ran in, if there are hidden outputs, which have them, too; else the op's choice.
  std::optional<LayoutChoice> layouts = {};
};
/// The gradients of the inputs with a bit in `wanted`, on the CPU. `grad_outputs`: one per visible output.
std::vector<Tensor> call_backward(const OpRow& row, SavedCall saved, std::vector<Tensor> grad_outputs,
                                  uint32_t wanted, const Attrs& attrs);

}  // namespace dlpipe::engine
