#include "dlpipe/engine/ops/sub.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

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

}  // namespace dlpipe::engine
