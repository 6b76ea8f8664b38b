// Strided copies on CUDA for elements of any dtype, and fills.
#pragma once

#include <numeric>
#include <span>

#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/sums.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// Strides of `to`, then strides of `from`.
using CopyAxes = Axes<2>;

/// One thread per unit. A unit is an element, or neighbouring elements of up to sixteen bytes.
template <class Unit>
struct StridedCopy {
  static constexpr const char* kName = "strided copy";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  Unit* to;
  const Unit* from;
  CopyAxes axes;
  int64_t units;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= units) return;
      int64_t at[2];
      axes.offsets(i, at);
      to[at[0]] = from[at[1]];
    });
  }
};

/// For neighbours in `to` that aren't neighbours in `from`: copies by square tiles, so that both are accessed in whole lines.
template <class Unit>
struct TransposeTiles {
  static constexpr const char* kName = "transposed tiles";
  static constexpr int kSide = 32;
  static constexpr int kThreads = 256;
  struct Shared {
    Unit tile[kSide][kSide + 1];
  };
  Unit* to;
  const Unit* from;
  CopyAxes outer;
  int64_t columns;      // neighbours in `to`
  int64_t rows;         // neighbours in `from`
  int64_t to_row;       // elements from one row to the next in `to`
  int64_t from_column;  // elements from one column to the next in `from`

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t across = (columns + kSide - 1) / kSide;
    const int64_t down = (rows + kSide - 1) / kSide;
    const int64_t left = block.index() % across * kSide;
    const int64_t top = block.index() / across % down * kSide;
    int64_t at[2];
    outer.offsets(block.index() / across / down, at);
    block.each([&](int thread) {
      const int row = thread % kSide;
      for (int column = thread / kSide; column < kSide; column += kThreads / kSide) {
        if (left + column < columns && top + row < rows)
          shared.tile[row][column] = from[at[1] + (left + column) * from_column + top + row];
      }
    });
    block.each([&](int thread) {
      const int column = thread % kSide;
      for (int row = thread / kSide; row < kSide; row += kThreads / kSide) {
        if (left + column < columns && top + row < rows)
          to[at[0] + (top + row) * to_row + left + column] = shared.tile[row][column];
      }
    });
  }
};

/// Copies by tiles if that is faster and returns true; else does nothing and returns false.
template <class Unit>
bool transpose_tiles(void* to, const void* from, const CopyAxes& axes) {
  using Kernel = TransposeTiles<Unit>;
  constexpr int64_t kLeast = Kernel::kSide / 2;
  if (axes.count < 2 || axes.stride[0][0] != 1 || axes.stride[1][0] == 1 || axes.size[0] < kLeast)
    return false;
  const auto* const begin = axes.stride[1];
  const auto row = static_cast<int>(std::find(begin, begin + axes.count, 1) - begin);
  if (row == axes.count || axes.size[row] < kLeast) return false;
  Kernel kernel{static_cast<Unit*>(to),
                static_cast<const Unit*>(from),
                {},
                axes.size[0],
                axes.size[row],
                axes.stride[0][row],
                axes.stride[1][0]};
  int64_t tiles = blocks_for(kernel.columns, kernel.kSide) * blocks_for(kernel.rows, kernel.kSide);
  for (int axis = 1; axis < axes.count; ++axis) {
    if (axis == row) continue;
    kernel.outer.add(axes.size[axis], {axes.stride[0][axis], axes.stride[1][axis]});
    tiles *= axes.size[axis];
  }
  launch(kernel, tiles);
  return true;
}

/// Chooses the largest unit of neighbours that exists on both sides and to which both are aligned, and converts axes to
/// units. Returns the unit's bytes.
inline size_t widen_units(const void* to, const void* from, CopyAxes& axes, size_t element_bytes) {
  if (axes.count == 0 || axes.stride[0][0] != 1 || axes.stride[1][0] != 1) return element_bytes;
  auto step = static_cast<uint64_t>(axes.size[0]) * element_bytes;
  step = std::gcd(step, std::gcd(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from)));
  for (int axis = 1; axis < axes.count; ++axis) {
    for (const auto& stride : axes.stride)
      step = std::gcd(step, static_cast<uint64_t>(std::abs(stride[axis])) * element_bytes);
  }
  const uint64_t bytes = std::gcd(step, uint64_t{16});
  const auto each = static_cast<int64_t>(bytes / element_bytes);
  axes.size[0] /= each;
  for (int axis = 1; axis < axes.count; ++axis) {
    for (auto& stride : axes.stride) stride[axis] /= each;
  }
  return bytes;
}

/// Copies elements of `element_bytes` bytes (1, 2, 4 or 8). Strides are in elements.
inline void strided_copy(void* to, std::span<const int64_t> to_strides, const void* from,
                         std::span<const int64_t> from_strides, const Shape& shape, size_t element_bytes) {
  CopyAxes axes;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    axes.add(shape[i], {to_strides[at], from_strides[at]});
  }
  const size_t unit_bytes = widen_units(to, from, axes, element_bytes);
  const int64_t units = shape.elements() / static_cast<int64_t>(unit_bytes / element_bytes);
  const auto run = [&](auto unit) {
    using Unit = decltype(unit);
    if constexpr (sizeof(Unit) <= sizeof(uint64_t)) {
      if (transpose_tiles<Unit>(to, from, axes)) return;
    }
    launch(StridedCopy<Unit>{static_cast<Unit*>(to), static_cast<const Unit*>(from), axes, units},
           blocks_for(units, StridedCopy<Unit>::kThreads));
  };
  switch (unit_bytes) {
    case 1:
      return run(uint8_t());
    case 2:
      return run(uint16_t());
    case 4:
      return run(uint32_t());
    case 8:
      return run(uint64_t());
    default:
      return run(Pack<uint64_t>());
  }
}

/// Fills `bytes` bytes of `to` with repetitions of the eight bytes of `pattern`. Sixteen bytes per thread.
struct Fill {
  static constexpr const char* kName = "fill";
  static constexpr int kThreads = 256;
  static constexpr int kEach = 16;
  using Shared = NoShared;
  uint8_t* to;
  uint64_t pattern;
  int64_t bytes;
  bool aligned;  // to sixteen bytes

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t first = (block.index() * kThreads + thread) * kEach;
      if (aligned && first + kEach <= bytes) {
        *reinterpret_cast<Pack<uint64_t>*>(to + first) = {pattern, pattern};
        return;
      }
      for (int64_t i = first; i < first + kEach && i < bytes; ++i)
        to[i] = static_cast<uint8_t>(pattern >> (8 * (i % 8)));
    });
  }
};

/// `value` has the bits of an element of 1, 2, 4 or 8 bytes.
inline void fill_elements(void* to, int64_t count, uint64_t value, size_t element_bytes) {
  uint64_t pattern = 0;
  for (size_t at = 0; at < 8; at += element_bytes) {
    const uint64_t own = element_bytes < 8 ? value & ((uint64_t{1} << (8 * element_bytes)) - 1) : value;
    pattern |= own << (8 * at);
  }
  const int64_t bytes = count * static_cast<int64_t>(element_bytes);
  launch(Fill{static_cast<uint8_t*>(to), pattern, bytes, is_pack_aligned(to)},
         blocks_for(bytes, int64_t{Fill::kThreads} * Fill::kEach));
}

inline void zero(const Tensor& tensor) {
  fill_elements(tensor.raw(), static_cast<int64_t>(tensor.size_bytes()), 0, 1);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
