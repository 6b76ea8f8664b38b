// The records and functions of elementwise ops with two inputs.
#include "engine/ops/binary.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "dlpipe/ops.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

extern const OpRecord add_op;
constinit const OpRecord add_op = [] {
  OpRecord record = elementwise_record<AddFormula, "add">([] { return binary_samples(-1, 1); });
  record.view_gradient = [](size_t, const Tensor& grad, const Shape& shape, const Attrs&) {
    return grad.shape() == shape ? grad : Tensor();
  };
  return record;
}();

Tensor add(const Tensor& a, const Tensor& b) {
  return apply_one(add_op, {a, b}, NoAttrs{});
}

extern const OpRecord add_relu_op;
constinit const OpRecord add_relu_op =
    elementwise_record<AddReluFormula, "add_relu">([] { return binary_samples(-1, 1); });

Tensor add_relu(const Tensor& a, const Tensor& b) {
  return apply_one(add_relu_op, {a, b}, NoAttrs{});
}

extern const OpRecord sub_op;
constinit const OpRecord sub_op = [] {
  OpRecord record = elementwise_record<SubFormula, "sub">([] { return binary_samples(-1, 1); });
  record.view_gradient = [](size_t input, const Tensor& grad, const Shape& shape, const Attrs&) {
    return input == 0 && grad.shape() == shape ? grad : Tensor();
  };
  return record;
}();

Tensor sub(const Tensor& a, const Tensor& b) {
  return apply_one(sub_op, {a, b}, NoAttrs{});
}

extern const OpRecord mul_op;
constinit const OpRecord mul_op = elementwise_record<MulFormula, "mul">([] { return binary_samples(-1, 1); });

Tensor mul(const Tensor& a, const Tensor& b) {
  return apply_one(mul_op, {a, b}, NoAttrs{});
}

extern const OpRecord div_op;
constinit const OpRecord div_op =
    elementwise_record<DivFormula, "div">([] { return binary_samples(0.5, 2); });

Tensor div(const Tensor& a, const Tensor& b) {
  return apply_one(div_op, {a, b}, NoAttrs{});
}

// Samples of ops that compare: those of binary ops, except the one that broadcasts a number over 70,001 others. Some of these
// differ from it by less than the step of a numeric gradient, where the functions jump or bend.
static std::vector<OpSample> compared_samples() {
  std::vector<OpSample> samples = binary_samples(-1, 1);
  std::erase_if(samples,
                [](const OpSample& sample) { return std::string_view(sample.name) == "large rows"; });
  return samples;
}

extern const OpRecord maximum_op;
constinit const OpRecord maximum_op =
    elementwise_record<MaximumFormula, "maximum">([] { return compared_samples(); });

Tensor maximum(const Tensor& a, const Tensor& b) {
  return apply_one(maximum_op, {a, b}, NoAttrs{});
}

extern const OpRecord minimum_op;
constinit const OpRecord minimum_op =
    elementwise_record<MinimumFormula, "minimum">([] { return compared_samples(); });

Tensor minimum(const Tensor& a, const Tensor& b) {
  return apply_one(minimum_op, {a, b}, NoAttrs{});
}

extern const OpRecord greater_op;
constinit const OpRecord greater_op =
    elementwise_record<GreaterFormula, "greater">([] { return compared_samples(); });

Tensor greater(const Tensor& a, const Tensor& b) {
  return apply_one(greater_op, {a, b}, NoAttrs{});
}

extern const OpRecord equal_op;
constinit const OpRecord equal_op =
    elementwise_record<EqualFormula, "equal">([] { return compared_samples(); });

Tensor equal(const Tensor& a, const Tensor& b) {
  return apply_one(equal_op, {a, b}, NoAttrs{});
}

extern const OpRecord mask_op;
constinit const OpRecord mask_op =
    elementwise_record<MaskFormula, "mask">([] { return binary_samples(-1, 1); });

Tensor mask(const Tensor& a, const Tensor& b) {
  return apply_one(mask_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
