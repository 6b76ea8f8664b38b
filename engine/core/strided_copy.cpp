#include "dlpipe/engine/core/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/parallel.h"

namespace dlpipe::engine {

namespace {

struct Axis {
  int64_t size;
  int64_t from;  // stride in elements
  int64_t to;
};

// Axes without those of size 1, neighbours that lie together merged; at least one is left.
std::vector<Axis> merged_axes(const Shape& shape, std::span<const int64_t> strides) {
  std::vector<Axis> axes;
  int64_t to = shape.elements();
  for (int i = 0; i < shape.rank(); ++i) {
    to /= shape[i];
    if (shape[i] == 1) continue;
    const Axis axis = {shape[i], strides[i], to};
    if (!axes.empty() && axes.back().from == axis.from * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

// One plane of a transposition: `rows` x `columns` written row by row, read down the columns. Tiles of 16
// keep the lines of both sides in the first-level cache.
template <class T>
void copy_plane(T* to, const T* from, const Axis& row, const Axis& column) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < row.size; r0 += kTile) {
    const int64_t r1 = std::min(r0 + kTile, row.size);
    for (int64_t c0 = 0; c0 < column.size; c0 += kTile) {
      const int64_t c1 = std::min(c0 + kTile, column.size);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c)
          to[r * row.to + c * column.to] = from[r * row.from + c * column.from];
      }
    }
  }
}

template <class T>
void copy_typed(T* to, const T* from, std::vector<Axis> axes) {
  // The plane: the last axis, and the one along which the source is densest.
  const Axis column = axes.back();
  axes.pop_back();
  Axis row = {1, 0, 0};
  if (!axes.empty()) {
    auto densest = axes.end() - 1;
    if (column.from != 1) {
      densest = std::min_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
        return std::abs(a.from) < std::abs(b.from);
      });
    }
    row = *densest;
    axes.erase(densest);
  }
  int64_t planes = 1;
  for (const Axis& axis : axes) planes *= axis.size;
  const int64_t plane_elements = row.size * column.size;
  // About 64 KB per slice: enough to pay for handing it to another core.
  const int64_t planes_per_slice =
      std::max<int64_t>(1, 65536 / std::max<int64_t>(1, plane_elements * static_cast<int64_t>(sizeof(T))));
  auto copy_range = [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      int64_t rest = plane;
      int64_t from_offset = 0;
      int64_t to_offset = 0;
      for (size_t i = axes.size(); i-- > 0;) {
        const int64_t index = rest % axes[i].size;
        rest /= axes[i].size;
        from_offset += index * axes[i].from;
        to_offset += index * axes[i].to;
      }
      if (column.from == 1) {
        for (int64_t r = 0; r < row.size; ++r) {
          std::memcpy(to + to_offset + r * row.to, from + from_offset + r * row.from,
                      column.size * sizeof(T));
        }
      } else {
        copy_plane(to + to_offset, from + from_offset, row, column);
      }
    }
  };
  parallel_ranges(planes, planes_per_slice, copy_range);
}

}  // namespace

void copy_strided(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                  size_t element_bytes) {
  if (shape.elements() == 0) return;
  std::vector<Axis> axes = merged_axes(shape, strides);
  switch (element_bytes) {
    case 1:
      return copy_typed(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), std::move(axes));
    case 2:
      return copy_typed(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), std::move(axes));
    case 4:
      return copy_typed(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), std::move(axes));
    case 8:
      return copy_typed(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), std::move(axes));
    default:
      throw Error(
          Status(ErrorCode::kInternal, "[tensor] copy_strided of elements that are not 1, 2, 4 or 8 bytes"));
  }
}

}  // namespace dlpipe::engine
