#include "run/record/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

static const Tensor& find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return named.tensor;
  }
  throw std::out_of_range(std::string(name));
}

TEST(TensorFile, TensorsComeBackWhateverTheirDtypeAndStrides) {
  test::ScratchFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor matrix = Tensor::from(std::span(values), {2, 3});
  const std::vector<int64_t> swapped = {1, 3};
  const std::vector<NamedTensor> tensors = {{"matrix", matrix},
                                            {"transposed", matrix.view_as({3, 2}, swapped, 0)},
                                            {"count", Tensor::full({}, 7, DType::kI64)},
                                            {"low", Tensor::full({2}, 0.5, DType::kBF16)},
                                            {"half", Tensor::full({2}, 0.1, DType::kF16)}};
  ASSERT_TRUE(save_tensors(folder / "a", tensors).ok());
  const auto back = load_tensors(folder / "a");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(find(*back, "transposed").to_doubles(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(find(*back, "count").dtype(), DType::kI64);
  EXPECT_EQ(find(*back, "count").to_doubles(), std::vector<double>{7});
  EXPECT_EQ(find(*back, "low").to_doubles(), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(find(*back, "half").to_doubles(), find(tensors, "half").to_doubles());
}

TEST(TensorFile, TensorsOfTheMostAxesComeBack) {
  test::ScratchFolder folder;
  Shape most;
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) most.push_back(1);
  const std::vector<NamedTensor> tensors = {{"dot", Tensor::full(most, 3)}};
  ASSERT_TRUE(save_tensors(folder / "a", tensors).ok());
  const auto back = load_tensors(folder / "a");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(find(*back, "dot").shape(), most);
}

// The file was written by numpy and the safetensors package (tests/io/formats/golden/make_safetensors.py).
TEST(TensorFile, HalfPrecisionIsRead) {
  const auto tensors = load_tensors(test_file("io/formats/golden/reference.safetensors"));
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  const Tensor& half = find(*tensors, "half");
  EXPECT_EQ(half.dtype(), DType::kF16);
  EXPECT_EQ(half.to_doubles(), (std::vector<double>{1, -0.5, 65504, std::ldexp(1.0, -24)}));
}

TEST(TensorFile, AnElementTypeThatThereIsNoneForIsNamed) {
  test::ScratchFolder folder;
  const std::string json = R"({"mask":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})";
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += json + "\x01";
  ASSERT_TRUE(formats::write_file(folder / "a", bytes).ok());
  const Status status = load_tensors(folder / "a").status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("'mask'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("BOOL"), std::string::npos) << status.message();
}

TEST(TensorFile, TheHashSeesNamesShapesValuesAndOrder) {
  const std::vector<NamedTensor> a = {{"x", Tensor::full({2, 3}, 1)}, {"y", Tensor::full({1}, 2)}};
  const std::vector<NamedTensor> renamed = {{"z", a[0].tensor}, a[1]};
  const std::vector<NamedTensor> reshaped = {{"x", Tensor::full({3, 2}, 1)}, a[1]};
  const std::vector<NamedTensor> changed = {{"x", Tensor::full({2, 3}, 1.0000001)}, a[1]};
  const std::vector<NamedTensor> turned = {a[1], a[0]};
  const uint64_t hash = hash_tensors(a, 0);
  EXPECT_EQ(hash_tensors(a, 0), hash);
  for (const auto& other : {renamed, reshaped, changed, turned}) EXPECT_NE(hash_tensors(other, 0), hash);
  EXPECT_NE(hash_tensors(a, 1), hash);
}

}  // namespace dlpipe::run
