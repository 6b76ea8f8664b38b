#include "dlpipe/engine/layers/embedding.h"

#include <limits>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/ops/embedding.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

Embedding::Embedding(int64_t count, int64_t size) : count_(count) {
  if (count < 1 || size < 1) {
    refuse("Embedding", "expected positive sizes, got ", count, " x ", size, "; change them");
  }
  weight_ = add_parameter("weight", Tensor::full({count, size}, std::numeric_limits<double>::quiet_NaN()));
}

void Embedding::split_over(Collective& ranks) {
  if (count_ < ranks.world())
    refuse("Embedding", count_, " rows can't be split over ", ranks.world(), " ranks; take fewer");
  first_row_ = static_cast<int64_t>(ranks.part_of(static_cast<size_t>(count_)).begin);
  split_parameter(weight_, {.axis = 0}, ranks);
  rows_over_ = &ranks;
}

Tensor Embedding::forward(const Tensor& ids) {
  return rows_over_ != nullptr ? sum_over_ranks(own_rows(ids), *rows_over_) : embedding(weight_, ids);
}

Tensor Embedding::own_rows(const Tensor& ids) {
  const Tensor all = ids.is_contiguous() ? ids : ids.contiguous_copy();
  check_ids(all, count_);
  Shape rows = ids.shape();
  rows.push_back(1);
  Tensor own_ids = Tensor::zeros(ids.shape(), DType::kI64);
  Tensor is_own = Tensor::zeros(rows);
  for (int64_t i = 0; i < all.elements(); ++i) {
    const int64_t row = all.data<int64_t>()[i] - first_row_;
    if (row < 0 || row >= weight_.size(0)) continue;
    own_ids.data<int64_t>()[i] = row;
    is_own.data<float>()[i] = 1.0f;
  }
  return embedding(weight_, own_ids) * is_own;
}

Tensor Embedding::logits(const Tensor& x) {
  if (rows_over_ == nullptr) return run_forward_hooks(x, linear(x, weight_, Tensor()));
  return run_forward_hooks(
      x, join_last_axis(linear(sum_gradient(x, *rows_over_), weight_, Tensor()), count_, *rows_over_));
}

double Embedding::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  if (x.dtype == DType::kI64) return 0.0;  // rows are looked up
  return 2.0 * static_cast<double>(x.shape.elements()) * static_cast<double>(count_);
}

void Embedding::reset_parameters(uint64_t seed, const std::string& prefix) {
  fill_normal(weight_, {seed, prefix + "weight"}, 0.0, 1.0);
}

}  // namespace dlpipe::engine
