#include "dlpipe/io/formats/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {
namespace {

// As numpy.save writes them, version 1.
std::string npy(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes + header + data;
}

void expect_refused(const std::string& bytes, ErrorCode code, const std::string& words) {
  const auto array = parse_npy(bytes, "x.npy");
  ASSERT_FALSE(array.ok());
  EXPECT_EQ(array.status().code(), code);
  EXPECT_NE(array.status().message().find(words), std::string::npos) << array.status().message();
}

TEST(Npy, ReadsWhatItWrites) {
  const test::ScratchFolder folder;
  const std::string path = folder / "x.npy";
  const std::array<int64_t, 2> shape = {2, 3};
  const std::array<float, 6> values = {1, 2, 3, 4, 5, -0.5F};
  throw_if_error(write_npy(path, DType::kF32, shape, std::as_bytes(std::span(values))));
  EXPECT_EQ(std::filesystem::file_size(path) % 8, 0U);
  const NpyArray array = value_or_throw(read_npy(path));
  EXPECT_EQ(array.dtype, DType::kF32);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(array.bytes.data(), values.data(), sizeof(values)), 0);
}

TEST(Npy, ReadsNumPysHeaders) {
  const auto scalar =
      parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", "a"), "x.npy");
  EXPECT_TRUE(value_or_throw(scalar).shape.empty());
  const auto empty =
      parse_npy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 7), }\n", ""), "x.npy");
  EXPECT_EQ(value_or_throw(empty).shape, (std::vector<int64_t>{0, 7}));
}

TEST(Npy, ReadsFortransOrder) {
  const auto read = [](const std::string& shape, const std::string& bytes) {
    const std::string header = "{'descr': '|u1', 'fortran_order': True, 'shape': " + shape + ", }\n";
    return value_or_throw(parse_npy(npy(header, bytes), "x.npy")).bytes;
  };
  EXPECT_EQ(read("(2, 3)", "adbecf"), "abcdef");
  EXPECT_EQ(read("(2, 1, 2)", "acbd"), "abcd");
  EXPECT_EQ(read("(3,)", "abc"), "abc");
  EXPECT_EQ(read("()", "a"), "a");
  EXPECT_EQ(read("(0, 4)", ""), "");
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  expect_refused("", ErrorCode::kCorrupt, "x.npy is no .npy file");
  expect_refused("\x93NUMPY\x07\0\0\0\0\0", ErrorCode::kCorrupt, "is no .npy file");
  expect_refused(npy(good, "abc"), ErrorCode::kCorrupt, "more or fewer elements");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", ""), ErrorCode::kCorrupt,
                 "no sizes");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }\n", ""),
                 ErrorCode::kCorrupt, "more or fewer");
  expect_refused(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd"),
                 ErrorCode::kUnsupported, "astype");
  expect_refused(npy("{'descr': '|u1', 'fortran_order': banana, 'shape': (1,), }\n", "a"),
                 ErrorCode::kCorrupt, "neither C's nor");
  expect_refused("PK\x03\x04 and more", ErrorCode::kUnsupported, "an archive of arrays (.npz)");
  expect_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "abcd"),
                 ErrorCode::kUnsupported, "records");
  expect_refused(npy("{'descr':", ""), ErrorCode::kCorrupt, "ends after");
}

}  // namespace
}  // namespace dlpipe::formats
