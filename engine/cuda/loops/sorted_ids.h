// Sorts ids by row, so that the ids of a row are contiguous. It is a radix sort with four bits per pass; each pass is a count, a
// scan and a scatter with O(ids) work. The sort is stable and uses no atomics, so the same ids have the same order on every run.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// An id and its original position. Both are less than 2^32.
struct IdAt {
  uint32_t id;
  uint32_t at;
};

inline constexpr int kSortThreads = 256;
inline constexpr int kSortItems = 8;  // consecutive items per thread
inline constexpr int kSortChunk = kSortThreads * kSortItems;
inline constexpr int kDigitBits = 4;
inline constexpr int kDigits = 1 << kDigitBits;

/// Numbers the ids. An id that is not a row of the table becomes `rows`, so it is sorted last.
struct NumberIds {
  static constexpr const char* kName = "ids with their places";
  static constexpr int kThreads = kSortThreads;
  using Shared = NoShared;
  const int64_t* ids;
  IdAt* to;
  int64_t count;
  int64_t rows;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= count) return;
      const int64_t id = ids[i] >= 0 && ids[i] < rows ? ids[i] : rows;
      to[i] = {static_cast<uint32_t>(id), static_cast<uint32_t>(i)};
    });
  }
};

/// How often each digit occurs in each thread's share of a chunk.
struct DigitCounts {
  uint32_t of[kDigits][kSortThreads];
  uint32_t groups[kDigits][kDigits];  // sums over groups of sixteen threads

  /// Part of a phase: calls each(digit, item) for the thread's items, in order.
  template <class Each>
  DLPIPE_DEVICE static void each_item(const IdAt* items, int64_t first, int64_t count, int shift,
                                      const Each& each) {
    for (int64_t i = first; i < first + kSortItems && i < count; ++i)
      each(static_cast<int>(items[i].id >> shift) % kDigits, items[i]);
  }
  /// Two phases: each thread counts its items in `of`; then one thread per digit and group sums the group's counts.
  template <class Block>
  DLPIPE_DEVICE void count_chunk(Block& block, const IdAt* items, int64_t count, int shift) {
    const int64_t begin = block.index() * kSortChunk;
    block.each([&](int thread) {
      for (int digit = 0; digit < kDigits; ++digit) of[digit][thread] = 0;
      each_item(items, begin + thread * kSortItems, count, shift,
                [&](int digit, const IdAt&) { ++of[digit][thread]; });
    });
    block.each([&](int thread) {
      const int digit = thread / kDigits, group = thread % kDigits;
      uint32_t sum = 0;
      for (int i = 0; i < kDigits; ++i) sum += of[digit][group * kDigits + i];
      groups[digit][group] = sum;
    });
  }
};
static_assert(kSortThreads == kDigits * kDigits);

/// Counts the digits of each chunk into to[digit * chunks + chunk]. One block per chunk.
struct CountDigits {
  static constexpr const char* kName = "digits of ids";
  static constexpr int kThreads = kSortThreads;
  using Shared = DigitCounts;
  const IdAt* items;
  uint32_t* to;
  int64_t count;
  int shift;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    shared.count_chunk(block, items, count, shift);
    block.each([&](int thread) {
      if (thread >= kDigits) return;
      uint32_t sum = 0;
      for (int group = 0; group < kDigits; ++group) sum += shared.groups[thread][group];
      to[thread * block.count() + block.index()] = sum;
    });
  }
};

/// Replaces each number by the sum of the numbers before it. One block.
struct ScanCounts {
  static constexpr const char* kName = "scan of digits";
  static constexpr int kThreads = 1024;
  struct Shared {
    uint32_t part[kThreads];
    uint32_t warp[kThreads / kWarp];
  };
  uint32_t* numbers;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t share = (count + kThreads - 1) / kThreads;
    const auto end_of = [&](int thread) {
      return (thread + 1) * share < count ? (thread + 1) * share : count;
    };
    block.each([&](int thread) {
      uint32_t sum = 0;
      for (int64_t i = thread * share; i < end_of(thread); ++i) sum += numbers[i];
      shared.part[thread] = sum;
    });
    block.each([&](int thread) {
      if (thread >= kThreads / kWarp) return;
      uint32_t sum = 0;
      for (int i = 0; i < kWarp; ++i) sum += shared.part[thread * kWarp + i];
      shared.warp[thread] = sum;
    });
    block.each([&](int thread) {
      uint32_t before = 0;
      for (int i = 0; i < thread / kWarp; ++i) before += shared.warp[i];
      for (int i = thread / kWarp * kWarp; i < thread; ++i) before += shared.part[i];
      for (int64_t i = thread * share; i < end_of(thread); ++i) {
        const uint32_t number = numbers[i];
        numbers[i] = before;
        before += number;
      }
    });
  }
};

/// Moves items to the positions of their digits, in order. One block per chunk.
struct ScatterByDigit {
  static constexpr const char* kName = "ids by digit";
  static constexpr int kThreads = kSortThreads;
  using Shared = DigitCounts;
  const IdAt* items;
  IdAt* to;
  const uint32_t* starts;  // where the chunk's items with a digit go: CountDigits, then ScanCounts
  int64_t count;
  int shift;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    shared.count_chunk(block, items, count, shift);
    block.each([&](int thread) {
      const int digit = thread / kDigits, group = thread % kDigits;
      uint32_t place = starts[digit * block.count() + block.index()];
      for (int i = 0; i < group; ++i) place += shared.groups[digit][i];
      for (int i = 0; i < kDigits; ++i) {
        uint32_t& of = shared.of[digit][group * kDigits + i];
        const uint32_t here = of;
        of = place;
        place += here;
      }
    });
    const int64_t begin = block.index() * kSortChunk;
    block.each([&](int thread) {
      DigitCounts::each_item(items, begin + thread * kSortItems, count, shift,
                             [&](int digit, const IdAt& item) { to[shared.of[digit][thread]++] = item; });
    });
  }
};

/// to[row], for row = 0 .. rows: the position of the first sorted id that is at least `row`.
struct FindRowStarts {
  static constexpr const char* kName = "begins of rows";
  static constexpr int kThreads = kSortThreads;
  using Shared = NoShared;
  const IdAt* items;
  uint32_t* to;
  int64_t count;
  int64_t rows;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t row = block.index() * kThreads + thread;
      if (row > rows) return;
      int64_t first = 0;
      for (int64_t end = count; first < end;) {
        const int64_t middle = (first + end) / 2;
        if (items[middle].id < row) {
          first = middle + 1;
        } else {
          end = middle;
        }
      }
      to[row] = static_cast<uint32_t>(first);
    });
  }
};

/// Ids sorted by row, with their original positions, in device memory.
struct SortedIds {
  Tensor memory, row_starts;
  const IdAt* items = nullptr;       // by row; invalid ids are last
  const uint32_t* starts = nullptr;  // rows + 1 numbers
};

inline Tensor scratch_bytes(int64_t bytes, Device& device) {
  return Tensor::empty({{bytes}, DType::kU8}, device);
}

/// Sorts `ids`, i64 of any shape in device memory, for a table with `rows` rows.
inline SortedIds sort_ids(const Tensor& ids, int64_t rows) {
  Device& device = ids.device();
  const int64_t count = ids.elements();
  const int64_t chunks = blocks_for(count, kSortChunk);
  const Tensor items = scratch_bytes(count * static_cast<int64_t>(sizeof(IdAt)), device);
  const Tensor others = scratch_bytes(count * static_cast<int64_t>(sizeof(IdAt)), device);
  const Tensor counts = scratch_bytes(kDigits * chunks * static_cast<int64_t>(sizeof(uint32_t)), device);
  const Tensor starts = scratch_bytes((rows + 1) * static_cast<int64_t>(sizeof(uint32_t)), device);
  const auto numbers = [](const Tensor& of) { return static_cast<uint32_t*>(of.raw()); };
  auto* from = static_cast<IdAt*>(items.raw());
  auto* to = static_cast<IdAt*>(others.raw());
  launch(NumberIds{ids.data<int64_t>(), from, count, rows}, blocks_for(count, NumberIds::kThreads));
  const int bits = std::bit_width(static_cast<uint64_t>(rows));
  for (int shift = 0; shift < bits && count > 0; shift += kDigitBits) {
    launch(CountDigits{from, numbers(counts), count, shift}, chunks);
    launch(ScanCounts{numbers(counts), kDigits * chunks}, 1);
    launch(ScatterByDigit{from, to, numbers(counts), count, shift}, chunks);
    std::swap(from, to);
  }
  launch(FindRowStarts{from, numbers(starts), count, rows}, blocks_for(rows + 1, FindRowStarts::kThreads));
  return {from == items.raw() ? items : others, starts, from, numbers(starts)};
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
