#include "io/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

using test::ScratchFolder;

template <class T>
static std::vector<T> read_values(const SafetensorsFile& file, std::string_view name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) return {};
  std::vector<T> values(entry->size_bytes() / sizeof(T));
  EXPECT_TRUE(file.read(*entry, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

TEST(Safetensors, WhatIsWrittenComesBack) {
  ScratchFolder folder;
  const std::vector<float> weights = {1.5f, -2.0f, 0.25f};
  const std::vector<int64_t> count = {7};
  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5};
  const std::vector<BFloat16> low = {BFloat16(1.0f), BFloat16(-0.5f)};
  const std::vector<SafetensorsTensor> tensors = {
      {"bytes", DType::kU8, {5}, std::as_bytes(std::span(bytes))},
      {"layer.weight", DType::kF32, {3, 1}, std::as_bytes(std::span(weights))},
      {"low", DType::kBF16, {2}, std::as_bytes(std::span(low))},
      {"count", DType::kI64, {}, std::as_bytes(std::span(count))},
      {"nothing", DType::kF64, {0, 3}, {}},
  };
  const auto written = write_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}});
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(*written, std::filesystem::file_size(folder / "a.safetensors"));

  const auto file = SafetensorsFile::open(folder / "a.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(read_values<float>(*file, "layer.weight"), weights);
  EXPECT_EQ(read_values<int64_t>(*file, "count"), count);
  EXPECT_EQ(read_values<uint8_t>(*file, "bytes"), bytes);
  EXPECT_EQ(read_values<BFloat16>(*file, "low"), low);
  EXPECT_EQ(file->find("layer.weight")->shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(file->find("nothing")->size_bytes(), 0u);
  EXPECT_EQ(file->find("absent"), nullptr);
  for (const SafetensorsEntry& entry : file->entries()) {
    EXPECT_EQ(entry.begin % dtype_size(*entry.dtype), 0u) << entry.name << " is not aligned to its element";
  }
}

// tests/io/formats/golden/make_safetensors.py wrote the file with the safetensors package, from numpy arrays.
TEST(Safetensors, ReadsAFileWrittenByTheReferencePackage) {
  const auto file = SafetensorsFile::open(test_file("io/formats/golden/reference.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(read_values<float>(*file, "fc.weight"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file->find("fc.weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read_values<int64_t>(*file, "bn.num_batches_tracked"), (std::vector<int64_t>{42}));
  EXPECT_EQ(file->find("half")->dtype_text, "F16");
  EXPECT_EQ(file->find("half")->dtype, DType::kF16);
  EXPECT_EQ(file->metadata().at("format"), "np");
}

TEST(Safetensors, RefusesHeadersThatDoNotFitTheirData) {
  struct Case {
    const char* json;
    uint64_t data_bytes;
    const char* message;
  };
  const std::vector<Case> cases = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "spans 4 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "outside the file"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "outside the file"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "outside the file"},
      {R"({"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'X9'"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", 4, "bad size"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,16],"data_offsets":[0,0]}})", 0,
       "more than 2^64"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "cover 1 bytes, but the file has 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "gap or an overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "appears twice"},
      {"[]", 0, "not a JSON object"},
      {"{", 0, "not valid JSON"},
  };
  for (const Case& c : cases) {
    const auto header = parse_safetensors_header(c.json, c.data_bytes);
    ASSERT_FALSE(header.ok()) << c.json;
    EXPECT_EQ(header.status().code(), ErrorCode::kCorrupt);
    EXPECT_NE(header.status().message().find(c.message), std::string::npos) << header.status().message();
  }
}

TEST(Safetensors, AnyBytesOpenOrAnswerAnError) {
  ScratchFolder folder;
  const std::vector<float> values(16, 1.0f);
  const std::vector<SafetensorsTensor> tensors = {
      {"a", DType::kF32, {4, 4}, std::as_bytes(std::span(values))}};
  ASSERT_TRUE(write_safetensors(folder / "good", tensors).ok());
  const std::string good = *read_file(folder / "good");
  RandomStream random(3, 0);
  for (int i = 0; i < 400; ++i) {
    std::string bytes = good;
    if (i % 4 == 0) bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
    for (uint32_t k = 0; k <= random.below(3) && !bytes.empty(); ++k) {
      bytes[random.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.below(256));
    }
    std::ofstream(folder / "bad", std::ios::binary | std::ios::trunc) << bytes;
    const auto file = SafetensorsFile::open(folder / "bad");
    if (!file.ok()) continue;
    for (const SafetensorsEntry& entry : file->entries()) {
      std::vector<std::byte> to(entry.size_bytes());
      EXPECT_TRUE(file->read(entry, to).ok());
    }
  }
}

TEST(Safetensors, AHugeClaimedHeaderIsRefusedWithoutAllocating) {
  ScratchFolder folder;
  std::ofstream(folder / "bad", std::ios::binary) << std::string(8, '\xff') << "{}";
  const auto file = SafetensorsFile::open(folder / "bad");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("claims a header of"), std::string::npos);
}

TEST(Safetensors, WritingANameTwiceIsAnErrorAndLeavesNoFile) {
  ScratchFolder folder;
  const std::vector<uint8_t> byte = {1};
  const std::vector<SafetensorsTensor> tensors = {{"a", DType::kU8, {1}, std::as_bytes(std::span(byte))},
                                                  {"a", DType::kU8, {1}, std::as_bytes(std::span(byte))}};
  EXPECT_FALSE(write_safetensors(folder / "a", tensors).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

}  // namespace dlpipe::formats
