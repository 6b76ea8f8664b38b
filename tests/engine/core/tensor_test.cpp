#include "dlpipe/tensor.h"

#include <gtest/gtest.h>

#include <array>

#include "dlpipe/error.h"

namespace dlpipe::engine {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tensor, BytesAreThoseOfRowsWithoutGaps) {
  const Tensor x = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(bytes_of(x).size(), 24u);
  EXPECT_EQ(static_cast<void*>(bytes_of(x).data()), x.raw());
  EXPECT_TRUE(bytes_of(Tensor()).empty());
  const std::array<int64_t, 2> strides = {1, 3};
  const Tensor transposed = x.view_as({3, 2}, strides, 0);
  EXPECT_NE(message_of([&] { bytes_of(transposed); }).find("contiguous"), std::string::npos);
}

TEST(Tensor, ViewsShareStorageAndVersion) {
  Tensor x = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const std::array<int64_t, 2> strides = {1, 3};
  Tensor transposed = x.view_as({3, 2}, strides, 0);
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_EQ(transposed.to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  x.data<float>()[1] = 10;
  x.bump_version();
  EXPECT_EQ(transposed.version(), x.version());
  EXPECT_EQ(transposed.to_doubles()[2], 10);
}

TEST(Tensor, CloneAndDetachDifferInStorage) {
  Tensor x = Tensor::full({3}, 2.0);
  Tensor copy = x.clone();
  Tensor alias = x.detach();
  x.data<float>()[0] = 5;
  EXPECT_EQ(copy.to_doubles()[0], 2);
  EXPECT_EQ(alias.to_doubles()[0], 5);
}

TEST(Tensor, DataOfAnotherTypeIsRefused) {
  const Tensor x = Tensor::zeros({2}, DType::kF64);
  EXPECT_NE(message_of([&] { x.data<float>(); }).find("[tensor] data<f32>() of a tensor of f64"),
            std::string::npos);
  EXPECT_NE(message_of([] { Tensor().shape(); }).find("undefined"), std::string::npos);
}

TEST(Tensor, BlockedTensorsNeedAnF32ImageOfWholeBlocks) {
  EXPECT_NO_THROW(Tensor::empty({{1, 2, 2, 16}, DType::kF32, Layout::kBlocked16}));
  EXPECT_THROW(Tensor::empty({{1, 2, 2, 12}, DType::kF32, Layout::kBlocked8}), Error);
  EXPECT_THROW(Tensor::empty({int64_t{1} << 31, int64_t{1} << 31}), Error);
  EXPECT_THROW(Tensor::empty({0, int64_t{1} << 31, int64_t{1} << 31}), Error);
  EXPECT_THROW(Tensor::empty({{2, 16}, DType::kF32, Layout::kBlocked16}), Error);
  EXPECT_THROW(Tensor::empty({{1, 2, 2, 16}, DType::kBF16, Layout::kBlocked16}), Error);
}

TEST(Tensor, BlockedToDoublesReadsLogicalOrder) {
  Tensor blocked = Tensor::empty({{1, 1, 2, 16}, DType::kF32, Layout::kBlocked8});
  auto* raw = static_cast<float*>(blocked.raw());
  for (int i = 0; i < 32; ++i) raw[i] = static_cast<float>(i);  // [C/8][W][8]
  const std::vector<double> values = blocked.to_doubles();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[8], 16);  // pixel 0, channel 8: second block
  EXPECT_EQ(values[16], 8);  // pixel 1, channel 0
  EXPECT_EQ(values[31], 31);
  EXPECT_THROW(blocked.data<float>(), Error);
}

TEST(Tensor, CopyFromHostChecksTheSizeAndCountsAsAWrite) {
  Tensor x = Tensor::zeros({4});
  const uint32_t before = x.version();
  const std::array<float, 4> values = {1, 2, 3, 4};
  x.copy_from_host(values.data(), sizeof(values));
  EXPECT_EQ(x.to_doubles(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_GT(x.version(), before);
  EXPECT_THROW(x.copy_from_host(values.data(), 8), Error);
}

TEST(Tensor, BorrowedMemoryIsReadInPlace) {
  std::array<uint8_t, 4> memory = {1, 2, 3, 4};
  const Tensor x = Tensor::borrow(memory.data(), {2, 2}, DType::kU8);
  EXPECT_EQ(x.raw(), memory.data());
  EXPECT_EQ(x.to_doubles(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(Tensor, LargeTransposedViewsBecomeContiguous) {
  Tensor x = Tensor::empty({37, 53, 41});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i);
  const std::array<int64_t, 3> strides = {1, 53 * 41, 41};  // [41, 37, 53]
  const Tensor copy = x.view_as({41, 37, 53}, strides, 0).contiguous_copy();
  for (int64_t a = 0; a < 41; ++a) {
    for (int64_t b = 0; b < 37; ++b) {
      for (int64_t c = 0; c < 53; ++c) {
        ASSERT_EQ(copy.data<float>()[(a * 37 + b) * 53 + c], x.data<float>()[(b * 53 + c) * 41 + a]);
      }
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
