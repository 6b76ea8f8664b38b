#include "engine/core/kernel_call.h"

#include <array>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/tensor.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/core/observers.h"
#include "engine/core/tensor_impl.h"

namespace dlpipe::engine {

namespace {

// The choice of the cpu's kernels, or the record's. Without either, the first blocked layout of an image, if all
// images are f32 of one shape and the op supports it; else plain. `defined`: which inputs are defined.
LayoutChoice choose_layout(const OpRow& row, std::span<const TensorSpec> inputs,
                           const std::vector<bool>& defined, const Attrs& attrs) {
  const OpRecord& record = *row.record;
  const Kernels* const kernels = row.kernels[static_cast<int>(Backend::kCpu)];
  if (kernels != nullptr && kernels->choose_layout != nullptr) return kernels->choose_layout(inputs, attrs);
  if (record.choose_layout != nullptr) return record.choose_layout(inputs, attrs);
  Layout layout = Layout::kPlain;
  const Shape* shape = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!defined[i] || !(record.image_inputs & bit(static_cast<int>(i)))) continue;
    if (inputs[i].dtype != DType::kF32 || (shape != nullptr && !(*shape == inputs[i].shape))) return {};
    shape = &inputs[i].shape;
    if (layout == Layout::kPlain) layout = inputs[i].layout;
  }
  if (!(record.layouts & bit(static_cast<int>(layout)))) return {};
  return {layout, layout};
}

std::vector<bool> defined_of(std::span<const Tensor> tensors) {
  std::vector<bool> defined;
  defined.reserve(tensors.size());
  for (const Tensor& tensor : tensors) defined.push_back(tensor.defined());
  return defined;
}

// Copies plain tensors that aren't contiguous. Blocked layouts have no strides.
void make_contiguous(std::vector<Tensor>& tensors) {
  for (Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.layout() == Layout::kPlain && !tensor.is_contiguous()) {
      tensor = tensor.contiguous_copy();
    }
  }
}

std::vector<Tensor> allocate(const std::vector<TensorSpec>& specs, Device& device) {
  std::vector<Tensor> outputs;
  outputs.reserve(specs.size());
  for (const TensorSpec& spec : specs) outputs.push_back(Tensor::empty(spec, device));
  return outputs;
}

// Converts the tensors with a bit in `images` to `layout` and all others to plain.
void lay_out(std::vector<Tensor>& tensors, uint32_t images, Layout layout) {
  const NoGrad no_grad;
  const UseBackend fast(Backend::kCpu);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const Layout wanted = images & bit(static_cast<int>(i)) ? layout : Layout::kPlain;
    if (tensors[i].layout() != wanted) tensors[i] = reorder(tensors[i], wanted);
  }
}

}  // namespace

const char* backend_name(Backend backend) {
  constexpr std::array<const char*, 3> kNames = {"reference", "cpu", "cuda"};
  return kNames.at(static_cast<size_t>(backend));
}

Device& device_of(std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined()) return input.device();
  }
  return cpu_device();
}

Tensor borrow_laid_out(void* data, const TensorSpec& spec) {
  Tensor tensor = Tensor::borrow(data, spec.shape, spec.dtype);
  if (spec.layout == Layout::kPlain) return tensor;
  const int block = layout_block(spec.layout);
  if (spec.shape.rank() != 4 || spec.shape[3] % block != 0 || spec.dtype != DType::kF32) {
    refuse("tensor", "expected f32 images [N,H,W,C] of whole blocks of ", block, " channels, got ",
           dtype_name(spec.dtype), " ", spec.shape.to_string());
  }
  tensor.impl()->spec.layout = spec.layout;
  tensor.impl()->contiguous = false;
  return tensor;
}

ChosenKernels choose_kernels(const OpRow& row, Backend backend, std::span<const Tensor> inputs,
                             const Attrs& attrs) {
  const Kernels* kernels = backend == Backend::kCuda ? device_code(device_of(inputs)).kernels(row)
                                                     : row.kernels[static_cast<int>(backend)];
  if (kernels != nullptr && (kernels->supports == nullptr || kernels->supports(specs_of(inputs), attrs))) {
    return {kernels, backend == Backend::kReference};
  }
  kernels = row.kernels[static_cast<int>(Backend::kReference)];
  if (backend == Backend::kCuda || kernels == nullptr) {
    throw Error(Status(ErrorCode::kUnsupported, concat("[", row.record->name, "] no ", backend_name(backend),
                                                       " kernel for these inputs; use --device cpu")));
  }
  return {kernels, true};
}

void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout) {
  lay_out(inputs, record.image_inputs, layout);
}

std::vector<TensorSpec> infer_outputs(const OpRecord& record, std::span<const Tensor> inputs,
                                      const Attrs& attrs, Layout image_layout) {
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

namespace {

// Calls `kernel` as a part of an op: observers don't see what it does internally.
template <class Args, class Add>
void run_kernel(void (*kernel)(const Args&), const Args& args, Device& device, const Add& add_to_profile) {
  const UseKernelObserver nobody(nullptr);
  if (OpProfile* const profile = OpProfile::current(); profile != nullptr) {
    synchronize(device);
    const int64_t begin = now_ns();
    kernel(args);
    synchronize(device);
    add_to_profile(*profile, now_ns() - begin);
  } else {
    kernel(args);
  }
}

}  // namespace

void run_forward(const OpRecord& record, const Kernels& kernels, const ForwardArgs& args) {
  run_kernel(kernels.forward, args, args.outputs[0].device(),
             [&](OpProfile& profile, int64_t ns) { profile.add_forward(record, kernels, args, ns); });
  if (KernelObserver* const observer = thread_state::kernel_observer(); observer != nullptr)
    observer->on_forward(record, kernels, args);
}

void run_backward(const OpRecord& record, const Kernels& kernels, const BackwardArgs& args) {
  run_kernel(kernels.backward, args, device_of(args.grad_outputs),
             [&](OpProfile& profile, int64_t ns) { profile.add_backward(record, kernels, args, ns); });
}

ForwardCall call_forward(const OpRow& row, std::vector<Tensor> inputs, const Attrs& attrs, Backend backend) {
  const OpRecord& record = *row.record;
  infer_outputs(record, inputs, attrs,
                Layout::kPlain);  // for its errors: the code below relies on valid inputs
  LayoutChoice layout;
  if (backend == Backend::kCpu)  // other backends only have plain kernels
    layout = choose_layout(row, specs_of(inputs), defined_of(inputs), attrs);
  lay_out_inputs(record, inputs, layout.inputs);
  const ChosenKernels chosen = choose_kernels(row, backend, inputs, attrs);
  const Kernels& kernels = *chosen.kernels;
  if (chosen.is_reference) {
    layout = {};
    lay_out_inputs(record, inputs, Layout::kPlain);
  }
  make_contiguous(inputs);
  Device& device = device_of(inputs);
  ForwardCall call;
  call.kernels = &kernels;
  call.outputs = allocate(infer_outputs(record, inputs, attrs, layout.outputs), device);
  run_forward(record, kernels, {inputs, call.outputs, attrs});
  call.inputs = std::move(inputs);
  return call;
}

namespace {

// The cpu's kernels if they support the inputs, else the reference's. Throws kUnsupported if they have no gradient.
const Kernels& backward_kernels(const OpRow& row, const SavedCall& saved, const Attrs& attrs) {
  const Kernels* kernels = row.kernels[static_cast<int>(Backend::kCpu)];
  const bool takes =
      kernels != nullptr && (kernels->supports == nullptr || kernels->supports(saved.input_specs, attrs));
  if (!takes) kernels = row.kernels[static_cast<int>(Backend::kReference)];
  if (kernels == nullptr || kernels->backward == nullptr)
    throw Error(Status(ErrorCode::kUnsupported, concat("[", row.record->name, "] has no gradient")));
  return *kernels;
}

}  // namespace

std::vector<Tensor> call_backward(const OpRow& row, SavedCall saved, std::vector<Tensor> grad_outputs,
                                  uint32_t wanted, const Attrs& attrs) {
  const OpRecord& record = *row.record;
  if (saved.input_specs.size() < saved.inputs.size() ||
      saved.input_specs.size() > size_t{OpRecord::kMostInputs} ||
      grad_outputs.size() != static_cast<size_t>(record.visible_outputs)) {
    refuse(record.name, "backward needs a spec of every input and one gradient per visible output");
  }
  for (size_t i = 0; i < saved.inputs.size(); ++i) {
    if (saved.inputs[i].defined()) saved.input_specs[i] = saved.inputs[i].spec();
  }
  saved.inputs.resize(saved.input_specs.size());
  LayoutChoice layout = saved.layouts.value_or(
      choose_layout(row, saved.input_specs, std::vector<bool>(saved.input_specs.size(), true), attrs));
  for (size_t i = 0; i < saved.input_specs.size(); ++i) {
    const bool is_image = (record.image_inputs & bit(static_cast<int>(i))) != 0;
    saved.input_specs[i].layout = is_image ? layout.inputs : Layout::kPlain;
  }
  const Kernels& kernels = backward_kernels(row, saved, attrs);
  if (&kernels == row.kernels[static_cast<int>(Backend::kReference)]) {
    if (saved.layouts.has_value() && saved.layouts->outputs != Layout::kPlain)
      refuse(record.name,
             "forward's hidden outputs are in a blocked layout, and the reference kernels only support plain "
             "memory");
    layout = {};
    for (TensorSpec& spec : saved.input_specs) spec.layout = Layout::kPlain;
  }
  lay_out_inputs(record, saved.inputs, layout.inputs);
  const uint32_t visible_images = record.image_outputs & (bit(record.visible_outputs) - 1);
  lay_out(saved.outputs, visible_images, layout.outputs);
  lay_out(grad_outputs, visible_images, layout.outputs);
  make_contiguous(saved.inputs);
  make_contiguous(saved.outputs);
  make_contiguous(grad_outputs);
  std::vector<Tensor> gradients(saved.input_specs.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (wanted & record.differentiable & bit(static_cast<int>(i)))
      gradients[i] = Tensor::empty(saved.input_specs[i]);
  }
  run_backward(record, kernels,
               {saved.inputs, saved.outputs, grad_outputs, gradients, attrs, saved.input_specs});
  return gradients;
}

}  // namespace dlpipe::engine
