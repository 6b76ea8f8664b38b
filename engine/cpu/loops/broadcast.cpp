#include "dlpipe/engine/cpu/loops/broadcast.h"

namespace dlpipe::engine::cpu {

BroadcastPlan::BroadcastPlan(const Shape& shape, const Shape& a, const Shape& b) {
  std::vector<Axis> axes;  // from the last to the first, neighbours along which both go on alike merged
  std::array<int64_t, 2> next = {1, 1};
  for (int i = 1; i <= shape.rank(); ++i) {
    Axis axis = {shape[-i], {0, 0}};
    if (axis.size == 1) continue;
    for (int k = 0; k < 2; ++k) {
      const Shape& operand = k == 0 ? a : b;
      const int64_t size = i <= operand.rank() ? operand[-i] : 1;
      axis.stride[k] = size == 1 ? 0 : next[k];
      next[k] *= size;
    }
    auto goes_on = [&](int k) { return axis.stride[k] == axes.back().stride[k] * axes.back().size; };
    if (!axes.empty() && goes_on(0) && goes_on(1)) {
      axes.back().size *= axis.size;
    } else {
      axes.push_back(axis);
    }
  }
  if (!axes.empty()) {
    inner_ = axes[0].size;
    inner_moves_ = {axes[0].stride[0] != 0, axes[0].stride[1] != 0};
    outer_.assign(axes.begin() + 1, axes.end());
  }
  for (const Axis& axis : outer_) rows_ *= axis.size;
  if (inner_ == 0 || rows_ == 0) {
    rows_ = 0;
    inner_ = 1;
  }
}

BroadcastPlan::Row BroadcastPlan::row(int64_t index, int64_t first) const {
  Row row = {index * inner_ + first,
             {moves(0) ? first : 0, moves(1) ? first : 0},
             std::min(kElementwiseGrain, inner_ - first)};
  for (const Axis& axis : outer_) {
    const int64_t at = index % axis.size;
    index /= axis.size;
    for (int k = 0; k < 2; ++k) row.from[k] += at * axis.stride[k];
  }
  return row;
}

}  // namespace dlpipe::engine::cpu
