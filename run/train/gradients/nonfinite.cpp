#include "dlpipe/run/train/gradients/nonfinite.h"

#include <bit>
#include <cstdint>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/hook_scope.h"

namespace dlpipe::run {

namespace {

using engine::Module;
using engine::NamedTensor;
using engine::Tensor;

// An IEEE number isn't finite when all bits of its exponent are set. Without branches, so that it vectorises.
template <class Bits>
bool bits_finite(const Bits* bits, int64_t count, Bits exponent) {
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
  return found == 0;
}

}  // namespace

bool all_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return true;
  const bool is_flat = tensor.layout() != engine::Layout::kPlain || tensor.is_contiguous();
  const Tensor on_host = (is_flat ? tensor : tensor.contiguous_copy());
  const Tensor flat = tensor.device().is_host() ? on_host : on_host.to(cpu_device());
  switch (flat.dtype()) {
    case DType::kF64:
      return bits_finite(static_cast<const uint64_t*>(flat.raw()), flat.elements(),
                         uint64_t{0x7ff0000000000000});
    case DType::kBF16:
      return bits_finite(static_cast<const uint16_t*>(flat.raw()), flat.elements(), uint16_t{0x7f80});
    case DType::kF16:
      return bits_finite(static_cast<const uint16_t*>(flat.raw()), flat.elements(), uint16_t{0x7c00});
    default:
      return bits_finite(static_cast<const uint32_t*>(flat.raw()), flat.elements(), uint32_t{0x7f800000});
  }
}

bool all_finite(std::span<const float> values) {
  return bits_finite(reinterpret_cast<const uint32_t*>(values.data()), static_cast<int64_t>(values.size()),
                     uint32_t{0x7f800000});
}

std::string first_nonfinite_input(Module& model, const Tensor& pixels) {
  for (const NamedTensor& named : model.state_dict()) {
    if (!all_finite(named.tensor)) return concat(named.name, ": the weights");
  }
  return all_finite(pixels) ? "" : "the model's input";
}

std::string first_nonfinite_output(Module& model, const Tensor& pixels) {
  std::string found;
  const engine::HookScope hooks(
      model, [&found](const std::string& name, Module& module, const Tensor&, const Tensor& y) {
        if (found.empty() && module.children().empty() && !all_finite(y)) {
          found = concat(name.empty() ? "the model" : name, " (", module.kind(), "): its output");
        }
      });
  const engine::NoGrad no_grad;
  const Tensor y = model(pixels);
  if (found.empty() && !all_finite(y)) found = "the model's output";
  return found;
}

std::string first_nonfinite_gradient(std::span<const NamedTensor> parameters) {
  for (size_t i = parameters.size(); i-- > 0;) {
    if (!all_finite(parameters[i].tensor.grad())) return concat(parameters[i].name, ": its gradient");
  }
  return "";
}

}  // namespace dlpipe::run
