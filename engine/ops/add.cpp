#include "dlpipe/engine/ops/add.h"

#include "dlpipe/engine/ops/ops.h"

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

}  // namespace dlpipe::engine
