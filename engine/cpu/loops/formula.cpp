#include "engine/cpu/loops/formula.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/cpu/loops/elementwise.h"

namespace dlpipe::engine::cpu {

namespace {

// Elements per slice, and the most terms that are summed in f32. Partial sums are added in double.
constexpr int64_t kChunk = 32768;
constexpr int kSumLanes = 16;

struct SummedAxis {
  int64_t size;
  bool reduced;
};

// Merges neighbouring axes of one kind and skips axes of size 1.
std::vector<SummedAxis> merged_axes(const Shape& shape, uint32_t reduced) {
  std::vector<SummedAxis> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool is_reduced = (reduced >> i & 1u) != 0;
    if (shape[i] == 1) continue;
    if (!axes.empty() && axes.back().reduced == is_reduced) {
      axes.back().size *= shape[i];
    } else {
      axes.push_back({shape[i], is_reduced});
    }
  }
  return axes;
}

template <class T>
DLPIPE_FORMULA float lanes_sum(const T* x, int64_t count) {
  std::array<float, kSumLanes> lanes{};
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) lanes[lane] += load_one(x + i + lane);
  }
  float sum = 0;
  for (; i < count; ++i) sum += load_one(x + i);
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return sum + lanes[0];
}

// [rows, count] -> [rows].
template <class T>
void sum_rows(const T* from, int64_t rows, int64_t count, double factor, float* to) {
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<size_t>(rows * chunks));
  const int64_t per_slice = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, count));
  parallel_ranges(rows * chunks, per_slice, [&](int64_t begin, int64_t end) {
    on_best_isa([=, out = partial.data()]() DLPIPE_INLINE {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % chunks * kChunk;
        out[task] = lanes_sum(from + task / chunks * count + first, std::min(kChunk, count - first));
      }
    });
  });
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      sum += partial[static_cast<size_t>(row * chunks + chunk)];
    to[row] = static_cast<float>(sum * factor);
  }
}

// [outer, rows, columns] -> [outer, columns].
template <class T>
void sum_columns(const T* from, int64_t outer, int64_t rows, int64_t columns, double factor, float* to) {
  const int64_t chunk_rows = std::clamp<int64_t>(kChunk / columns, 1, rows);
  const int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  const Tensor partial = chunks == 1 ? Tensor() : Tensor::empty({outer * chunks, columns});
  float* sums = chunks == 1 ? to : partial.data<float>();
  const int64_t per_slice = std::max<int64_t>(1, kChunk / (chunk_rows * columns));
  parallel_ranges(outer * chunks, per_slice, [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % chunks * chunk_rows;
        const int64_t last = std::min(rows, first + chunk_rows);
        float* __restrict sum = sums + task * columns;
        for (int64_t c = 0; c < columns; ++c) sum[c] = 0;
        for (int64_t r = first; r < last; ++r) {
          const T* __restrict x = from + (task / chunks * rows + r) * columns;
          for (int64_t c = 0; c < columns; ++c) sum[c] += load_one(x + c);
        }
      }
    });
  });
  const auto narrow = static_cast<float>(factor);
  if (chunks == 1) {
    if (factor != 1) {
      for (int64_t i = 0; i < outer * columns; ++i) to[i] *= narrow;
    }
    return;
  }
  parallel_ranges(outer, std::max<int64_t>(1, kChunk / (chunks * columns)), [&](int64_t begin, int64_t end) {
    std::vector<double> total(static_cast<size_t>(columns));
    for (int64_t o = begin; o < end; ++o) {
      std::fill(total.begin(), total.end(), 0.0);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const float* sum = sums + (o * chunks + chunk) * columns;
        for (int64_t c = 0; c < columns; ++c) total[static_cast<size_t>(c)] += sum[c];
      }
      for (int64_t c = 0; c < columns; ++c)
        to[o * columns + c] = static_cast<float>(total[static_cast<size_t>(c)] * factor);
    }
  });
}

// Sums over the innermost reduced axis and removes it from `axes`. The result is f32.
template <class T>
Tensor reduce_one(const T* from, std::vector<SummedAxis>& axes, double factor) {
  const auto innermost =
      std::find_if(axes.rbegin(), axes.rend(), [](const SummedAxis& axis) { return axis.reduced; });
  const auto position = axes.rend() - innermost - 1;
  int64_t outer = 1;
  int64_t inner = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(axes.size()); ++i) {
    if (i < position) outer *= axes[static_cast<size_t>(i)].size;
    if (i > position) inner *= axes[static_cast<size_t>(i)].size;
  }
  const int64_t count = innermost->size;
  Tensor to = Tensor::empty({outer, inner});
  if (inner == 1) {
    sum_rows(from, outer, count, factor, to.data<float>());
  } else {
    sum_columns(from, outer, count, inner, factor, to.data<float>());
  }
  axes.erase(axes.begin() + position);
  return to;
}

void copy_result(const Tensor& from, const Tensor& to, double factor) {
  stored(from.dtype(), [&]<class From>(From*) {
    stored(to.dtype(), [&]<class To>(To*) {
      const From* x = static_cast<const From*>(from.raw());
      To* y = static_cast<To*>(to.raw());
      const auto narrow = static_cast<float>(factor);
      parallel_ranges(to.elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
        on_best_isa([=]() DLPIPE_INLINE {
          for (int64_t i = begin; i < end; ++i) store_one(y + i, narrow * load_one(x + i));
        });
      });
    });
  });
}

}  // namespace

void reduce_sum(const Tensor& from, uint32_t reduced, double factor, const Tensor& to) {
  std::vector<SummedAxis> axes = merged_axes(from.shape(), reduced);
  if (from.elements() == 0) {  // for a mean, factor is 1/0, which gives NaN
    const auto nothing = static_cast<float>(0 * factor);
    return stored(to.dtype(), [&]<class T>(T*) {
      for (int64_t i = 0; i < to.elements(); ++i) store_one(static_cast<T*>(to.raw()) + i, nothing);
    });
  }
  auto is_reduced = [](const SummedAxis& axis) { return axis.reduced; };
  auto left = std::count_if(axes.begin(), axes.end(), is_reduced);
  if (left == 0) return copy_result(from, to, factor);
  Tensor current;
  stored(from.dtype(), [&]<class T>(T*) {
    current = reduce_one(static_cast<const T*>(from.raw()), axes, left == 1 ? factor : 1.0);
  });
  for (--left; left > 0; --left) current = reduce_one(current.data<float>(), axes, left == 1 ? factor : 1.0);
  copy_result(current, to, 1.0);
}

uint32_t stretched_axes(const Shape& shape, const Shape& narrow) {
  uint32_t axes = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int of_narrow = i - (shape.rank() - narrow.rank());
    if (of_narrow < 0 || (narrow[of_narrow] == 1 && shape[i] != 1)) axes |= bit(i);
  }
  return axes;
}

BroadcastPlan::BroadcastPlan(const Shape& shape, const Shape& a, const Shape& b) {
  std::vector<Axis> axes;  // from the last to the first; neighbours that both operands can merge are merged
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
