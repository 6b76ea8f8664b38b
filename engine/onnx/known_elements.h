// Elementwise ops on integers that are known before a model runs. Internal to engine/onnx.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/graph/capture.h"
#include "engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

/// The shape that `a` and `b` broadcast to by NumPy's rules; kUnsupported if they don't.
inline Shape broadcast(const Run& run, const NodeEntry& node, std::span<const int64_t> a,
                       std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  if (rank > static_cast<size_t>(Shape::kMaxRank)) run.refuse(node, "too many axes");
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t right = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (left != right && left != 1 && right != 1) run.refuse(node, "its inputs don't broadcast");
    shape.push_back(left == 1 ? right : left);
  }
  return shape;
}

/// The index, in a list of `dims` that broadcasts to `shape`, of the element that becomes element `i`.
inline size_t broadcast_place(int64_t i, const Shape& shape, const std::vector<int64_t>& dims) {
  int64_t place = 0;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const int64_t index = i % shape[axis];
    i /= shape[axis];
    const auto own = static_cast<int64_t>(dims.size()) - (shape.rank() - axis);
    if (own < 0) break;
    const int64_t size = dims[static_cast<size_t>(own)];
    if (size != 1) place += index * stride;
    stride *= size;
  }
  return static_cast<size_t>(place);
}

// Wraps like the model's integers; signed overflow is undefined in C++.
inline int64_t wrapping(uint64_t value) {
  return static_cast<int64_t>(value);
}

inline int64_t known_add(int64_t a, int64_t b) {
  return wrapping(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t known_sub(int64_t a, int64_t b) {
  return wrapping(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t known_mul(int64_t a, int64_t b) {
  return wrapping(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/// Whether the result of `op` grows linearly with the batch if its integers do. A graph can't represent other results, and the two
/// runs of a capture can't recognize them: N / 2 and N > 4 look constant for 2 and 3 samples. Tries small batches, one of each order
/// of magnitude up to 2^30, and those at which one integer overtakes another.
template <class Function>
bool stays_a_line(const Function& op, const auto&... at) {
  constexpr auto kFirst = graph::kCapturedBatches[0], kSecond = graph::kCapturedBatches[1];
  static_assert(kSecond == kFirst + 1);
  const int64_t first = op(at(kFirst)...), growth = known_sub(op(at(kSecond)...), first);
  const auto is_on_it = [&](int64_t samples) {
    return samples < 1 || op(at(samples)...) == known_add(first, known_mul(growth, samples - kFirst));
  };
  static constexpr std::array kTried = [] {
    std::array<int64_t, 33> tried = {1, 4, 5, 6, 7};
    for (size_t power = 3; power <= 30; ++power) tried[power + 2] = (int64_t{1} << power) + 1;
    return tried;
  }();
  if (!std::all_of(kTried.begin(), kTried.end(), is_on_it)) return false;
  const std::array lines = {std::pair(at(0), known_sub(at(1), at(0)))...};
  for (const auto& [a, growth_of_a] : lines) {
    for (const auto& [b, growth_of_b] : lines) {
      const int64_t closing = known_sub(growth_of_b, growth_of_a);
      if (closing == 0 || closing == -1) continue;
      const int64_t crossing = known_sub(a, b) / closing;
      constexpr int64_t kMostSamples = int64_t{1} << 40;
      if (crossing < 0 || crossing > kMostSamples) continue;
      if (!is_on_it(crossing - 1) || !is_on_it(crossing) || !is_on_it(crossing + 1)) return false;
    }
  }
  return true;
}

/// The result of `op` for each element of `lists`, which broadcast to each other, and how much it grows.
template <class Function, class... Lists>
KnownInts known_elements(const Run& run, const NodeEntry& node, const Function& op, const Lists&... lists) {
  Shape shape;
  for (const KnownInts* const list : {&lists...}) shape = broadcast(run, node, shape.dims(), list->dims);
  constexpr int64_t kMost = 1 << 24;
  int64_t elements = 1;
  for (const int64_t size : shape.dims()) {
    if (size > kMost / std::max<int64_t>(elements, 1)) run.refuse(node, "it makes more than 2^24 integers");
    elements *= size;
  }
  const bool grows = (... || !lists.growth.empty());
  KnownInts result{{shape.begin(), shape.end()}, {}};
  constexpr auto kFirst = graph::kCapturedBatches[0], kSecond = graph::kCapturedBatches[1];
  for (int64_t i = 0; i < elements; ++i) {
    const auto of_batch = [&](const KnownInts& list) {
      return [&list, place = broadcast_place(i, shape, list.dims)](int64_t samples) {
        return list.at(place, samples);
      };
    };
    if (grows)
      result.growth.push_back(known_sub(op(of_batch(lists)(kSecond)...), op(of_batch(lists)(kFirst)...)));
    if (grows && !stays_a_line(op, of_batch(lists)...))
      run.refuse(
          node,
          "it computes a number that depends on the batch size, but not linearly; a graph must be the same "
          "for all batches: set the batch size (--input-shape)");
    result.values.push_back(op(lists.values[broadcast_place(i, shape, lists.dims)]...));
  }
  return result;
}

/// One element of a list.
inline KnownInts known_one(const KnownInts& list, size_t i) {
  KnownInts one{{}, {list.values[i]}};
  if (!list.growth.empty()) one.growth = {list.growth[i]};
  return one;
}

inline bool grows(const KnownInts& ints) {
  return std::any_of(ints.growth.begin(), ints.growth.end(), [](int64_t more) { return more != 0; });
}

/// Refuses integers that grow with the batch if an op needs the same ones for every batch: indices, or the diagonal of a mask.
inline void refuse_growing(const Run& run, const NodeEntry& node, const KnownInts& ints, const char* what) {
  if (grows(ints))
    run.refuse(node, what,
               " depends on the batch size, but a graph must be the same for all batches: set the batch size "
               "(--input-shape)");
}

/// The elements at `places` of an axis, in this order.
inline KnownInts known_at(const KnownInts& ints, int axis, const std::vector<int64_t>& places) {
  const auto size = static_cast<size_t>(ints.dims[static_cast<size_t>(axis)]);
  size_t inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < ints.dims.size(); ++i)
    inner *= static_cast<size_t>(ints.dims[i]);
  KnownInts chosen{ints.dims, {}};
  chosen.dims[static_cast<size_t>(axis)] = static_cast<int64_t>(places.size());
  const auto choose = [&](const std::vector<int64_t>& all, std::vector<int64_t>& some) {
    for (size_t block = 0; block < all.size(); block += size * inner) {
      for (const int64_t place : places) {
        const auto from =
            all.begin() + static_cast<std::ptrdiff_t>(block + static_cast<size_t>(place) * inner);
        some.insert(some.end(), from, from + static_cast<std::ptrdiff_t>(inner));
      }
    }
  };
  choose(ints.values, chosen.values);
  choose(ints.growth, chosen.growth);
  return chosen;
}

/// Concatenates along an axis; kUnsupported if other axes differ.
inline KnownInts known_joined(const Run& run, const NodeEntry& node, const KnownInts& a, const KnownInts& b,
                              int axis) {
  const auto at = static_cast<size_t>(axis);
  if (a.dims.size() <= at || b.dims.size() != a.dims.size())
    run.refuse(node, "its inputs don't have the same axes");
  KnownInts joined{a.dims, {}};
  joined.dims[at] = b.dims[at];
  if (joined.dims != b.dims) run.refuse(node, "its inputs don't have the same sizes");
  joined.dims[at] = a.dims[at] + b.dims[at];
  size_t blocks = 1;
  for (size_t i = 0; i < at; ++i) blocks *= static_cast<size_t>(a.dims[i]);
  for (size_t block = 0; block < blocks; ++block) {
    for (const KnownInts* const part : {&a, &b}) {
      const auto length = static_cast<std::ptrdiff_t>(part->values.size() / blocks);
      const auto from = part->values.begin() + static_cast<std::ptrdiff_t>(block) * length;
      joined.values.insert(joined.values.end(), from, from + length);
    }
  }
  return joined;
}

/// Transposes: axis i of the result is axis `order[i]` of `ints`.
inline KnownInts known_transposed(const KnownInts& ints, const std::vector<int>& order) {
  std::vector<size_t> stride(ints.dims.size(), 1);
  for (size_t i = ints.dims.size(); i-- > 1;) stride[i - 1] = stride[i] * static_cast<size_t>(ints.dims[i]);
  KnownInts turned;
  for (const int axis : order) turned.dims.push_back(ints.dims[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < ints.values.size(); ++i) {
    size_t left = i, from = 0;
    for (size_t k = order.size(); k-- > 0;) {
      const auto size = static_cast<size_t>(turned.dims[k]);
      from += left % size * stride[static_cast<size_t>(order[k])];
      left /= size;
    }
    turned.values.push_back(ints.values[from]);
  }
  return turned;
}

inline int64_t known_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? known_sub(0, a) : a / b;
}

inline int64_t known_equal(int64_t a, int64_t b) {
  return a == b ? 1 : 0;
}
inline int64_t known_less(int64_t a, int64_t b) {
  return a < b ? 1 : 0;
}
inline int64_t known_greater(int64_t a, int64_t b) {
  return a > b ? 1 : 0;
}
inline int64_t known_less_or_equal(int64_t a, int64_t b) {
  return a <= b ? 1 : 0;
}
inline int64_t known_greater_or_equal(int64_t a, int64_t b) {
  return a >= b ? 1 : 0;
}
inline int64_t known_rest(int64_t a, int64_t b) {  // as in C: with the dividend's sign
  return b == 0 || b == -1 ? 0 : a % b;
}
inline int64_t known_mod(int64_t a, int64_t b) {  // as in Python: with the divisor's sign
  const int64_t rest = known_rest(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline int64_t known_or(int64_t a, int64_t b) {
  return a != 0 || b != 0 ? 1 : 0;
}
inline int64_t known_and(int64_t a, int64_t b) {
  return a != 0 && b != 0 ? 1 : 0;
}

inline int64_t known_choice(int64_t which, int64_t yes, int64_t no) {
  return which != 0 ? yes : no;
}
inline int64_t known_min(int64_t a, int64_t b) {
  return std::min(a, b);
}
inline int64_t known_max(int64_t a, int64_t b) {
  return std::max(a, b);
}

}  // namespace dlpipe::engine::onnx
