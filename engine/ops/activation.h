// What the ops with an activation of their own share on all backends: linear and conv2d.
#pragma once

#include <span>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/activation_kind.h"
#include "dlpipe/engine/ops/gelu.h"
#include "dlpipe/engine/ops/relu.h"

namespace dlpipe::engine {

extern const OpRecord relu_op;
extern const OpRecord gelu_op;

/// relu's, gelu's or, for kNone, null.
template <class T>
const T* of_activation(Activation activation, const T& relu, const T& gelu) {
  if (activation == Activation::kNone) return nullptr;
  return activation == Activation::kRelu ? &relu : &gelu;
}

/// For OpRecord::fused.
template <class OpAttrs>
const OpRecord* fused_op(const Attrs& attrs) {
  return of_activation(attrs.as<OpAttrs>().activation, relu_op, gelu_op);
}

/// Calls use(formula) with the activation's, or not at all.
template <class Use>
void with_formula(Activation activation, const Use& use) {
  if (activation == Activation::kRelu) use(ReluFormula());
  if (activation == Activation::kGelu) use(GeluFormula());
}

/// Where a kernel leaves the product: gelu's backward wants it, so it is a hidden output; relu's doesn't, and
/// works in place.
inline const Tensor& product_of(std::span<const Tensor> outputs) {
  return outputs.back();
}

}  // namespace dlpipe::engine
