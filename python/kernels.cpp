// Kernels of single ops, forward and backward, on memory that Python owns or borrows, for torch_compile.py.
//
// A Tensor here is an image batch [N,H,W,C] in any layout, or any plain tensor. It keeps alive the Python object whose
// memory it borrows. Kernels run without the interpreter lock; different threads may use different tensors.
#include "engine/core/kernel_call.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/attr_form.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "python/calls.h"
#include "python/module.h"
#include "python/values.h"
#include "run/record/kernels.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

using engine::Layout;

struct KernelTensor {
  engine::Tensor tensor;
  nb::object owner;  // of borrowed memory; null: the tensor owns it
  /// The layout in memory. It is the tensor's layout except for hidden outputs, which have the layout of their call's
  /// images without recording it.
  Layout layout = Layout::kPlain;
};
using Sizes = std::vector<int64_t>;

Layout layout_of_block(int block) {
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked8, Layout::kBlocked16}) {
    if (engine::layout_block(layout) == block) return layout;
  }
  refuse("kernels", "blocks of ", block, " channels, expected 1, 8 or 16");
}

Shape shape_of(const Sizes& sizes) {
  if (sizes.size() > Shape::kMaxRank)
    refuse("kernels", "a tensor of ", sizes.size(), " axes, expected ", Shape::kMaxRank, " or fewer");
  return Shape(sizes);
}

/// Memory of `owner` at `address`. Empty strides: row-major. `block` above 1: channel-blocked; `sizes` are the logical ones.
KernelTensor borrow(nb::object owner, uintptr_t address, const Sizes& sizes, const Sizes& strides,
                    const std::string& dtype, int block) {
  const Layout layout = layout_of_block(block);
  engine::TensorSpec spec{shape_of(sizes), value_or_throw(parse_dtype(dtype)), Layout::kPlain};
  if (spec.dtype == DType::kF32) spec.layout = layout;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch returns an address
  engine::Tensor tensor = engine::borrow_laid_out(reinterpret_cast<void*>(address), spec);
  if (!strides.empty()) tensor = tensor.view_as(spec.shape, strides, 0);
  return {std::move(tensor), std::move(owner), layout};
}

/// The memory as a PyTorch tensor, without a copy: [N,H,W,C] unchanged, blocks as [N,C/block,H,W,block].
nb::any to_torch(const nb::handle& self) {
  const auto& value = nb::cast<const KernelTensor&>(self);
  if (value.layout == Layout::kPlain && !value.tensor.is_contiguous())
    refuse("kernels", "expected contiguous memory; only results of kernels can become PyTorch tensors");
  ArrayForm form;
  form.dtype = value.tensor.dtype();
  const Shape& shape = value.tensor.shape();
  for (int i = 0; i < shape.rank(); ++i) form.shape.push_back(static_cast<size_t>(shape[i]));
  if (value.layout != Layout::kPlain) {
    const auto block = static_cast<size_t>(engine::layout_block(value.layout));
    form.shape = {form.shape[0], form.shape[3] / block, form.shape[1], form.shape[2], block};
  }
  return make_array(Framework::kTorch, value.tensor.raw(), form, memory_of(nb::borrow(self)));
}

KernelTensor to_plain(const KernelTensor& value) {
  const engine::NoGrad no_grad;
  const Unlocked no_lock;
  engine::Tensor tensor = engine::plain(value.tensor);
  return {tensor.is_contiguous() ? std::move(tensor) : tensor.contiguous_copy(), value.owner, Layout::kPlain};
}

/// The choices of these kernels, separate from those of runs in the same process.
engine::KernelTable& choices() {
  static auto* const table = [] {
    auto* const made = new engine::KernelTable;  // never destroyed: threads may end after main
    const engine::UseKernelTable use(made);
    run::use_kernels("auto");
    return made;
  }();
  return *table;
}

/// None: an undefined tensor.
std::vector<engine::Tensor> tensors_of(const nb::list& values) {
  std::vector<engine::Tensor> tensors;
  for (const nb::handle value : values)
    tensors.push_back(value.is_none() ? engine::Tensor() : nb::cast<const KernelTensor&>(value).tensor);
  return tensors;
}

engine::AttrValue attr_value(const nb::handle& value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  return nb::cast<Sizes>(value);
}

/// An op with all of its attributes.
class KernelCall {
 public:
  KernelCall(const std::string& op, const nb::dict& attrs) {
    const auto rows = engine::op_table();
    const auto found =
        std::ranges::find_if(rows, [&](const engine::OpRow& row) { return op == row.record->name; });
    if (found == rows.end()) refuse("kernels", "no op is called '", op, "'");
    row_ = &*found;
    std::vector<engine::NamedAttr> list;
    for (const auto& [name, value] : attrs) list.push_back({nb::cast<std::string>(name), attr_value(value)});
    attrs_ = engine::make_attrs(*row_->record, list);
  }

  /// All outputs, hidden ones last.
  std::vector<KernelTensor> forward(const nb::list& given) const {
    std::vector<engine::Tensor> inputs = tensors_of(given);
    engine::ForwardCall call;
    {
      const Unlocked no_lock;
      const engine::InferenceMode mode;  // also if there will be gradients: PyTorch keeps the history
      const engine::UseKernelTable use(&choices());
      call = engine::call_forward(*row_, std::move(inputs), attrs_, engine::Backend::kCpu);
    }
    pass_log_on();
    const Layout layout = call.outputs[0].layout();
    const Shape shape = call.outputs[0].shape();
    std::vector<KernelTensor> outputs;
    for (engine::Tensor& output : call.outputs) {
      const bool is_image = output.shape() == shape;
      outputs.push_back({std::move(output), {}, is_image ? layout : Layout::kPlain});
    }
    return outputs;
  }

  /// Gradients of the inputs with a bit in `wanted`. `shapes`: those of all inputs.
  nb::list backward(const nb::list& inputs, const std::vector<Sizes>& shapes, const nb::list& outputs,
                    const nb::list& grads, uint32_t wanted) const {
    engine::SavedCall saved;
    saved.inputs = tensors_of(inputs);
    saved.outputs = tensors_of(outputs);
    for (const Sizes& shape : shapes) saved.input_specs.push_back({shape_of(shape)});
    for (const nb::handle output : outputs) {
      if (output.is_none()) continue;
      const auto& value = nb::cast<const KernelTensor&>(output);
      if (value.tensor.dtype() != DType::kF32)
        saved.layouts = engine::LayoutChoice{value.layout, value.layout};
    }
    std::vector<engine::Tensor> grad_outputs = tensors_of(grads);
    std::vector<engine::Tensor> gradients;
    {
      const Unlocked no_lock;
      const engine::NoGrad no_grad;
      const engine::UseKernelTable use(&choices());
      gradients = engine::call_backward(*row_, std::move(saved), std::move(grad_outputs), wanted, attrs_);
    }
    pass_log_on();
    nb::list answers;
    for (engine::Tensor& gradient : gradients) {
      if (!gradient.defined()) {
        answers.append(nb::none());
        continue;
      }
      const Layout layout = gradient.layout();
      answers.append(nb::cast(KernelTensor{std::move(gradient), {}, layout}));
    }
    return answers;
  }

 private:
  const engine::OpRow* row_ = nullptr;
  engine::Attrs attrs_;
};

void use_threads(int threads) {
  if (threads == engine::engine_threads()) return;
  const Unlocked no_lock;
  engine::set_engine_threads(threads);
}

}  // namespace

void bind_kernels(nb::module_& module) {
  nb::class_<KernelTensor>(module, "KernelTensor")
      .def_static("borrow", borrow)
      .def_prop_ro("shape",
                   [](const KernelTensor& self) {
                     const auto dims = self.tensor.shape().dims();
                     return nb::tuple(nb::cast(Sizes(dims.begin(), dims.end())));
                   })
      .def_prop_ro("block", [](const KernelTensor& self) { return engine::layout_block(self.layout); })
      .def("plain", to_plain)
      .def("torch", [](const nb::handle& self) { return to_torch(self); });
  nb::class_<KernelCall>(module, "KernelCall")
      .def(nb::init<const std::string&, const nb::dict&>())
      .def("forward", &KernelCall::forward)
      .def("backward", &KernelCall::backward);
  module.def("use_kernel_threads", use_threads);
  module.def("kernel_threads", engine::engine_threads);
}

}  // namespace dlpipe::python
