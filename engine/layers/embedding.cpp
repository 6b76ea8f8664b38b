#include "dlpipe/engine/layers/embedding.h"

#include <limits>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

Embedding::Embedding(int64_t count, int64_t size) {
  if (count < 1 || size < 1) {
    refuse("Embedding", "expected positive sizes, got ", count, " x ", size, "; change them");
  }
  weight_ = add_parameter("weight", Tensor::full({count, size}, std::numeric_limits<double>::quiet_NaN()));
}

Tensor Embedding::forward(const Tensor& ids) {
  return embedding(weight_, ids);
}

double Embedding::flops(const TensorSpec& /*x*/, const TensorSpec& /*y*/) const {
  return 0.0;
}

void Embedding::reset_parameters(uint64_t seed, const std::string& prefix) {
  fill_normal(weight_, {seed, prefix + "weight"}, 0.0, 1.0);
}

}  // namespace dlpipe::engine
