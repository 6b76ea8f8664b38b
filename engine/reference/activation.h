// The activation behind a product: the loops of its own op. One thread.
#pragma once

#include <vector>

#include "dlpipe/engine/ops/activation.h"
#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels relu_reference;
extern const Kernels gelu_reference;

namespace reference {

/// For Kernels::fused.
template <class OpAttrs>
const Kernels* fused_kernels(const Attrs& attrs) {
  return of_activation(attrs.as<OpAttrs>().activation, relu_reference, gelu_reference);
}

/// to = the activation of `from`; relu also in place. kNone: nothing happens.
inline void activate(Activation activation, const Tensor& from, const Tensor& to) {
  with_formula(activation, [&]<class F>(F) {
    std::vector<Tensor> inputs = {from}, outputs = {to};
    const Attrs attrs = NoAttrs{};
    unary_forward<F>({inputs, outputs, attrs});
  });
}

}  // namespace reference
}  // namespace dlpipe::engine
