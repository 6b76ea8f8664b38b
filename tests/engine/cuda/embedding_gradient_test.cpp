// The gradient of embedding over the simulated grid, for more ids and rows than the op's samples have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "dlpipe/random.h"
#include "engine/cuda/loops/sorted_ids.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {
namespace {

std::vector<int64_t> draw_ids(int64_t count, int64_t rows, uint64_t key) {
  RandomStream random(9, key);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int64_t>(random.uniform() * static_cast<float>(rows)));
  return ids;
}
Tensor tensor_of(const std::vector<int64_t>& ids) {
  return Tensor::from<int64_t>(ids, {static_cast<int64_t>(ids.size())});
}

TEST(SortedIds, AreTheStableSort) {
  for (const int64_t rows : {1, 15, 16, 65, 50257}) {
    for (const int64_t count : {1, 7, cuda::kSortChunk, 3 * cuda::kSortChunk + 5}) {
      std::vector<int64_t> ids = draw_ids(count, rows, static_cast<uint64_t>(rows));
      ids.back() = rows - 1;
      if (count > 3) ids[2] = -1, ids[3] = rows;  // no rows: they come last
      const cuda::SortedIds sorted = cuda::sort_ids(tensor_of(ids), rows);
      for (int64_t& id : ids) id = id < 0 ? rows : id;
      std::vector<int64_t> order(ids.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      const auto id_at = [&](int64_t i) { return ids[static_cast<size_t>(i)]; };
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return id_at(a) < id_at(b); });
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(sorted.items[i].at, order[i]) << rows << " rows, " << count << " ids, place " << i;
        ASSERT_EQ(sorted.items[i].id, id_at(order[i]));
      }
      std::sort(ids.begin(), ids.end());
      for (int64_t row = 0; row <= rows; ++row)
        ASSERT_EQ(sorted.starts[row], std::lower_bound(ids.begin(), ids.end(), row) - ids.begin()) << row;
    }
  }
}

TEST(EmbeddingGradient, IsTheSumOfEachRow) {
  const auto table = simulated_table();
  const auto row = std::find_if(table.begin(), table.end(),
                                [](const auto& one) { return std::string_view(one.name) == "embedding"; });
  ASSERT_NE(row, table.end());
  struct {
    int64_t rows, width, count;
    bool skewed;  // most ids are one row
  } const cases[] = {
      {65, 33, 5000, false}, {2000, 3, 700, false}, {300, 5, 6000, true}, {4, 3, 1, false}, {3, 2, 0, false}};
  for (const auto& c : cases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << c.rows << "x" << c.width << ", " << c.count << " ids");
      std::vector<int64_t> ids = draw_ids(c.count, c.rows, 1);
      for (size_t i = 0; c.skewed && i < ids.size(); ++i) ids[i] = i % 17 == 0 ? ids[i] : 7;
      // Small whole numbers: sums are exact in f32 in any order, and rounded once in bf16.
      std::vector<double> expected(static_cast<size_t>(c.rows * c.width), 0.0);
      const Tensor grad = Tensor::empty({c.count, c.width}, dtype);
      for (int64_t i = 0; i < grad.elements(); ++i) {
        const auto value = static_cast<float>(i * 7 % 5 - 2);
        if (dtype == DType::kF32) grad.data<float>()[i] = value;
        if (dtype == DType::kBF16) grad.data<BFloat16>()[i] = BFloat16(value);
        const int64_t at = ids[static_cast<size_t>(i / c.width)] * c.width + i % c.width;
        expected[static_cast<size_t>(at)] += value;
      }
      const Tensor inputs[] = {Tensor(), tensor_of(ids)};
      const Tensor grads[] = {grad};
      Tensor wanted[] = {Tensor::empty({c.rows, c.width}, dtype), Tensor()};
      row->kernels->backward({inputs, {}, grads, wanted, Attrs{}});
      const std::vector<double> got = wanted[0].to_doubles();
      for (size_t i = 0; i < got.size(); ++i) {
        const auto once = static_cast<float>(expected[i]);
        ASSERT_EQ(got[i], dtype == DType::kF32 ? once : static_cast<float>(BFloat16(once))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
