// Shared by the pooling kernels: images as groups of contiguous channels (all channels if plain, a block if
// blocked), cut into rows, and the windows that cover an input pixel. A slice is some rows of one group of
// one image. Forward writes output rows; backward gathers for input rows, so that slices never overlap. For
// bodies of on_best_isa().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/core/parallel.h"
#include "engine/cpu/loops/vec.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

// Elements of a slice: a few tens of microseconds of work.
inline constexpr int64_t kPoolSliceElements = 1 << 15;

struct PoolImages {
  Pool2dShape shape;
  int64_t width = 0;   // channels of a group, and elements from pixel to pixel
  int64_t groups = 1;  // of an image

  PoolImages(const Pool2dShape& s, Layout layout)
      : shape(s),
        width(layout == Layout::kPlain ? s.c : layout_block(layout)),
        groups(s.c / std::max<int64_t>(width, 1)) {
    for (size_t axis : {0, 1}) {
      for (int64_t i = 0; i < (axis == 0 ? s.h : s.w); ++i) covering_[axis].push_back(find_windows(axis, i));
    }
  }

  /// Calls rows(input group's offset, output group's offset, first row, end row) for slices of the rows of
  /// all groups: output rows, or input rows when `of_input`.
  template <class Rows>
  void for_slices(bool of_input, const Rows& rows) const {
    const int64_t height = of_input ? shape.h : shape.oh;
    const int64_t row_elements = std::max<int64_t>(1, (of_input ? shape.w : shape.ow) * width);
    const int64_t rows_a_slice = std::clamp<int64_t>(kPoolSliceElements / row_elements, 1, height);
    const int64_t slices = (height + rows_a_slice - 1) / rows_a_slice;
    parallel_slices(shape.n * groups * slices, [&](int64_t slice) {
      const int64_t group = slice / slices;
      const int64_t first = slice % slices * rows_a_slice;
      rows(group * shape.h * shape.w * width, group * shape.oh * shape.ow * width, first,
           std::min(height, first + rows_a_slice));
    });
  }

  /// The windows along an axis that cover input row (or column) `i`: [begin, end).
  Pool2dShape::Range windows(size_t axis, int64_t i) const { return covering_[axis][static_cast<size_t>(i)]; }

 private:
  Pool2dShape::Range find_windows(size_t axis, int64_t i) const {
    const int64_t stride = shape.stride[axis];
    const int64_t past =
        i + shape.padding[axis] - shape.kernel[axis] + 1;  // lower bound of the first window's start
    const int64_t begin = past <= 0 ? 0 : (past + stride - 1) / stride;
    const int64_t count = axis == 0 ? shape.oh : shape.ow;
    return {begin, std::min(count, (i + shape.padding[axis]) / stride + 1)};
  }

  // Precomputed, because a division per pixel took longer than the pixel's gradient.
  std::array<std::vector<Pool2dShape::Range>, 2> covering_;
};

/// Calls at(io, c) for every vector of `width` channels; the last may be partial.
template <class At>
DLPIPE_INLINE inline void for_channels(int64_t width, const At& at) {
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) at(WholeVectors{}, c);
  if (c < width) at(PartVectors{width - c}, c);
}

}  // namespace dlpipe::engine::cpu
