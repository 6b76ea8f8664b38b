// The records and functions of elementwise ops with one input.
#include "engine/ops/unary.h"

#include "dlpipe/ops.h"

namespace dlpipe::engine {

extern const OpRecord relu_op;
constinit const OpRecord relu_op =
    elementwise_record<ReluFormula, "relu">([] { return unary_samples(-1, 1); });

Tensor relu(const Tensor& x) {
  return apply_one(relu_op, {x}, NoAttrs{});
}

extern const OpRecord gelu_op;
constinit const OpRecord gelu_op =
    elementwise_record<GeluFormula, "gelu">([] { return unary_samples(-4, 4); });

Tensor gelu(const Tensor& x) {
  return apply_one(gelu_op, {x}, NoAttrs{});
}

extern const OpRecord silu_op;
constinit const OpRecord silu_op =
    elementwise_record<SiluFormula, "silu">([] { return unary_samples(-4, 4); });

Tensor silu(const Tensor& x) {
  return apply_one(silu_op, {x}, NoAttrs{});
}

extern const OpRecord sigmoid_op;
constinit const OpRecord sigmoid_op =
    elementwise_record<SigmoidFormula, "sigmoid">([] { return unary_samples(-4, 4); });

Tensor sigmoid(const Tensor& x) {
  return apply_one(sigmoid_op, {x}, NoAttrs{});
}

extern const OpRecord tanh_op;
constinit const OpRecord tanh_op =
    elementwise_record<TanhFormula, "tanh">([] { return unary_samples(-3, 3); });

Tensor tanh(const Tensor& x) {
  return apply_one(tanh_op, {x}, NoAttrs{});
}

extern const OpRecord erf_op;
constinit const OpRecord erf_op = elementwise_record<ErfFormula, "erf">([] { return unary_samples(-3, 3); });

Tensor erf(const Tensor& x) {
  return apply_one(erf_op, {x}, NoAttrs{});
}

extern const OpRecord exp_op;
constinit const OpRecord exp_op = elementwise_record<ExpFormula, "exp">([] { return unary_samples(-3, 3); });

Tensor exp(const Tensor& x) {
  return apply_one(exp_op, {x}, NoAttrs{});
}

extern const OpRecord log_op;
constinit const OpRecord log_op = elementwise_record<LogFormula, "log">([] { return unary_samples(0.1, 4); });

Tensor log(const Tensor& x) {
  return apply_one(log_op, {x}, NoAttrs{});
}

extern const OpRecord sqrt_op;
constinit const OpRecord sqrt_op =
    elementwise_record<SqrtFormula, "sqrt">([] { return unary_samples(0.1, 4); });

Tensor sqrt(const Tensor& x) {
  return apply_one(sqrt_op, {x}, NoAttrs{});
}

extern const OpRecord sin_op;
constinit const OpRecord sin_op =
    elementwise_record<SinFormula, "sin">([] { return unary_samples(-10, 10); });

Tensor sin(const Tensor& x) {
  return apply_one(sin_op, {x}, NoAttrs{});
}

extern const OpRecord cos_op;
constinit const OpRecord cos_op =
    elementwise_record<CosFormula, "cos">([] { return unary_samples(-10, 10); });

Tensor cos(const Tensor& x) {
  return apply_one(cos_op, {x}, NoAttrs{});
}

extern const OpRecord clip_op;
constinit const OpRecord clip_op = elementwise_record<ClipFormula, "clip">([] {
  return unary_samples(-2, 2, ClipAttrs{-0.751, 1.252});
});

Tensor clip(const Tensor& x, double low, double high) {
  return apply_one(clip_op, {x}, ClipAttrs{low, high});
}

extern const OpRecord scale_op;
constinit const OpRecord scale_op = elementwise_record<ScaleFormula, "scale">([] {
  return unary_samples(-1, 1, ScaleAttrs{-1.5, 0.25});
});

Tensor scale(const Tensor& x, double factor, double offset) {
  return apply_one(scale_op, {x}, ScaleAttrs{factor, offset});
}

}  // namespace dlpipe::engine
