#include "io/formats/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"
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

const std::string kGolden = test_file("io/formats/golden/");

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

// golden/make_npy.py has NumPy write them.
TEST(Npy, ReadsNumPysFiles) {
  const auto numbers = [](const NpyArray& array, auto of) {
    std::vector<decltype(of)> values(array.bytes.size() / sizeof(of));
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    return values;
  };
  const NpyArray rows = value_or_throw(read_npy(kGolden + "reference.npy"));
  EXPECT_EQ(rows.dtype, DType::kF32);
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers(rows, float{}), (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5}));
  const NpyArray columns = value_or_throw(read_npy(kGolden + "fortran.npy"));
  EXPECT_EQ(columns.dtype, DType::kI64);
  EXPECT_EQ(columns.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers(columns, int64_t{}), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, MutatedFilesOpenOrAreRefused) {
  RandomStream random(9, 0);
  int opened = 0;
  for (const char* const name : {"reference.npy", "fortran.npy"}) {
    const std::string whole = *read_file(kGolden + name);
    for (int i = 0; i < 400; ++i) {
      std::string mutated = whole;
      for (uint32_t changes = 1 + random.below(3); changes > 0; --changes)
        mutated[random.below(static_cast<uint32_t>(whole.size()))] = static_cast<char>(random.below(256));
      if (random.below(4) == 0) mutated.resize(random.below(static_cast<uint32_t>(whole.size())));
      const auto array = parse_npy(mutated, "x.npy");
      if (!array.ok()) {
        EXPECT_TRUE(array.status().message().starts_with("[npy] x.npy ") ||
                    array.status().message().starts_with("[npy] x.npy: "))
            << array.status().message();
        continue;
      }
      ++opened;
      uint64_t size = dtype_size(array->dtype);
      for (const int64_t axis : array->shape) size *= static_cast<uint64_t>(axis);
      EXPECT_EQ(array->bytes.size(), size);
    }
  }
  EXPECT_GT(opened, 20) << "the elements may be anything";
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
  expect_refused("", ErrorCode::kCorrupt, "x.npy is not a .npy file");
  const std::string unknown("\x93NUMPY\x07\0\0\0\0\0", 12);
  expect_refused(unknown, ErrorCode::kCorrupt, "is not a .npy file: it has version 7");
  expect_refused(npy(good, "abc"), ErrorCode::kCorrupt, "it is truncated: 3 B are too few for its shape");
  expect_refused(npy(good, "abcde"), ErrorCode::kCorrupt,
                 "has 5 bytes after its header, but its shape and dtype need 4");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", ""), ErrorCode::kCorrupt,
                 "'shape' holds '-1'");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }\n", ""),
                 ErrorCode::kCorrupt, "is not a .npy file: it is truncated");
  expect_refused(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd"),
                 ErrorCode::kUnsupported, "astype");
  expect_refused(npy("{'descr': '|u1', 'fortran_order': banana, 'shape': (1,), }\n", "a"),
                 ErrorCode::kCorrupt, "neither True nor False");
  expect_refused("PK\x03\x04 and more", ErrorCode::kUnsupported, "an archive of arrays (.npz)");
  expect_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "abcd"),
                 ErrorCode::kUnsupported, "records");
  expect_refused(npy("{'descr':", ""), ErrorCode::kCorrupt, "'descr' is not a string");
}

}  // namespace
}  // namespace dlpipe::formats
