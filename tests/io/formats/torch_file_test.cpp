// The files are torch.save's (golden/make_torch_weights.py); the element i of each tensor is i + the tensor's number.
#include "io/formats/torch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "io/formats/weights_file.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {
namespace {

using namespace std::string_literals;
using test::ScratchFolder;

std::string golden(const std::string& name) {
  return test_file("io/formats/golden/") + name;
}

const SafetensorsEntry& entry_called(const WeightsFile& file, const std::string& name) {
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.name == name) return entry;
  }
  throw std::runtime_error("no tensor " + name);
}

template <class T>
std::vector<double> numbers_of(const WeightsFile& file, const std::string& name) {
  const SafetensorsEntry& entry = entry_called(file, name);
  std::vector<T> raw(entry.size_bytes() / sizeof(T));
  throw_if_error(file.read(entry, std::as_writable_bytes(std::span(raw))));
  std::vector<double> numbers;
  for (const T value : raw) numbers.push_back(static_cast<double>(static_cast<float>(value)));
  return numbers;
}

std::vector<double> from(double first, size_t count) {
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(first + static_cast<double>(i));
  return numbers;
}

TEST(TorchFile, GivesTheTensorsOfEveryFormThatTorchWrites) {
  for (const char* name : {"torch_zip.pth", "torch_protocol4.pth", "torch_legacy.pth"}) {
    SCOPED_TRACE(name);
    const WeightsFile file = value_or_throw(WeightsFile::open(golden(name)));
    EXPECT_STREQ(file.kind(), "pytorch");
    EXPECT_EQ(file.part(), "");
    ASSERT_EQ(file.entries().size(), 12u);
    EXPECT_EQ(entry_called(file, "f32").shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(numbers_of<float>(file, "f32"), from(0, 6));
    EXPECT_EQ(numbers_of<Float16>(file, "f16"), from(1, 4));
    EXPECT_EQ(numbers_of<BFloat16>(file, "bf16"), from(2, 3));
    EXPECT_EQ(numbers_of<double>(file, "f64"), from(3, 2));
    EXPECT_TRUE(entry_called(file, "i64").shape.empty());
    EXPECT_EQ(numbers_of<int64_t>(file, "i64"), from(4, 1));
    EXPECT_EQ(numbers_of<float>(file, "base"), from(5, 12));
    EXPECT_EQ(numbers_of<float>(file, "rows"), from(8, 6)) << "a part of another one's storage";
    EXPECT_EQ(numbers_of<float>(file, "turned"), from(7, 6)) << "stored column by column";
    EXPECT_EQ(numbers_of<float>(file, "none"), from(0, 0));
    EXPECT_EQ(numbers_of<uint8_t>(file, "u8"), from(9, 5));
    EXPECT_EQ(entry_called(file, "flags").dtype_text, "BOOL");
    EXPECT_FALSE(entry_called(file, "flags").dtype.has_value());
  }
}

TEST(TorchFile, FindsTheStateDictOfACheckpoint) {
  const struct {
    const char *file, *part, *prefix;
    double first;
  } cases[] = {{"torch_nested.pth", "model", "", 0},
               {"torch_parameters.pth", "state_dict", "", 0},
               {"torch_beside.pth", "state_dict", "", 0},
               {"torch_averaged.pth", "model_ema", "module.", 10}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    const WeightsFile file = value_or_throw(WeightsFile::open(golden(c.file)));
    EXPECT_EQ(file.part(), c.part);
    ASSERT_EQ(file.entries().size(), 2u);
    EXPECT_EQ(numbers_of<float>(file, c.prefix + "weight"s), from(c.first, 2));
    EXPECT_EQ(numbers_of<float>(file, c.prefix + "bias"s), from(c.first + 2, 1));
  }
}

TEST(TorchFile, RefusesTensorsThatAreNegatedWhenRead) {
  const Status status = WeightsFile::open(golden("torch_negated.pth")).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("resolve_neg"), std::string::npos) << status.message();
}

/// A stored zip archive of PyTorch's, without checksums.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  const auto little = [](uint64_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  std::string zip, directory;
  for (const auto& [name, bytes] : members) {
    const std::string sizes =
        little(0, 4) + little(bytes.size(), 4) + little(bytes.size(), 4) + little(name.size(), 2);
    directory += "PK\1\2" + std::string(6, '\0') + std::string(6, '\0') + sizes + std::string(12, '\0') +
                 little(zip.size(), 4) + name;
    zip += "PK\3\4" + std::string(10, '\0') + sizes + little(0, 2) + name + bytes;
  }
  return zip + directory + "PK\5\6" + std::string(4, '\0') + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(zip.size(), 4) + little(0, 2);
}

std::string text_op(const std::string& text) {
  return "X" + std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
}

/// Opcodes that put "w", a tensor of f32, into a dict: `shape` and `strides` are opcodes of tuples.
/// `elements`: what the storage is said to hold.
std::string item_of(const std::string& offset, const std::string& shape, const std::string& strides,
                    const std::string& elements = "K\x04") {
  return text_op("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text_op("storage") +
         "ctorch\nFloatStorage\n" + text_op("0") + text_op("cpu") + elements + "tQ" + offset + shape +
         strides + "tRs";
}

/// A pickle of {"w": a tensor}.
std::string pickle_of(const std::string& offset, const std::string& shape, const std::string& strides,
                      const std::string& elements = "K\x04") {
  return "\x80\x02}" + item_of(offset, shape, strides, elements) + ".";
}

Status open_bytes(const ScratchFolder& folder, const std::string& bytes) {
  std::ofstream(folder / "w.pth", std::ios::binary) << bytes;  // many files: none is synced
  const auto file = WeightsFile::open(folder / "w.pth");
  if (!file.ok()) return file.status();
  for (const SafetensorsEntry& entry : file->entries()) {
    std::vector<std::byte> to(entry.size_bytes());
    DLPIPE_RETURN_IF_ERROR(file->read(entry, to));
  }
  return {};
}

Status open_pickle(const ScratchFolder& folder, const std::string& pickle) {
  return open_bytes(folder, zip_of({{"w/data.pkl", pickle}, {"w/data/0", std::string(16, '\1')}}));
}

TEST(TorchFile, RefusesTensorsThatAreNotInTheirStorage) {
  const ScratchFolder folder;
  ASSERT_TRUE(open_pickle(folder, pickle_of("K\0"s, "K\4\x85", "K\1\x85")).ok());
  const std::string huge = "\x8a\x08" + std::string(7, '\xff') + "\x7f";  // 2^63 - 1
  const struct {
    std::string offset, shape, strides;
  } cases[] = {{"K\1", "K\4\x85", "K\1\x85"},      {"K\0"s, "K\5\x85", "K\1\x85"},
               {"K\0"s, "K\4\x85", "K\2\x85"},     {"K\0"s, huge + huge + "\x86", "K\1K\1\x86"},
               {"K\0"s, "K\2\x85", huge + "\x85"}, {huge, "K\1\x85", "K\1\x85"},
               {"K\0"s, "K\2K\2\x86", "K\1\x85"},  {"K\0"s, "J\xff\xff\xff\xff\x85", "K\1\x85"},
               {"N", "K\4\x85", "K\1\x85"},        {"K\0"s, "N", "K\1\x85"}};
  for (size_t i = 0; i < std::size(cases); ++i)
    EXPECT_EQ(open_pickle(folder, pickle_of(cases[i].offset, cases[i].shape, cases[i].strides)).code(),
              ErrorCode::kCorrupt)
        << i;
}

TEST(TorchFile, RefusesStoragesThatAreNotAsLargeAsThePickleSays) {
  const ScratchFolder folder;
  const std::string huge = "\x8a\x08" + std::string(7, '\0') + "\x40";  // 2^62
  for (const std::string& elements :
       {std::string("K\x03"), std::string("K\x05"), huge, std::string("J\xff\xff\xff\xff"), std::string("N")})
    EXPECT_EQ(open_pickle(folder, pickle_of("K\0"s, "K\2\x85", "K\1\x85", elements)).code(),
              ErrorCode::kCorrupt);
}

TEST(TorchFile, RefusesExpandedTensors) {
  const ScratchFolder folder;
  const std::string huge = "\x8a\x08" + std::string(7, '\xff') + "\x7f";  // 2^63 - 1
  for (const std::string& shape : {std::string("K\x08\x85"), huge + "\x85"}) {
    const Status status = open_pickle(folder, pickle_of("K\0"s, shape, "K\0\x85"s));
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
    EXPECT_NE(status.message().find("contiguous()"), std::string::npos) << status.message();
  }
}

TEST(TorchFile, ComparesTheChecksumsOfTheArchive) {
  const ScratchFolder folder;
  const std::string good = value_or_throw(read_file(golden("torch_zip.pth")));
  ASSERT_TRUE(open_bytes(folder, good).ok());
  const auto changed = [&](const std::string& what) {
    std::string bad = good;
    const size_t at = bad.find(what);
    EXPECT_NE(at, std::string::npos);
    bad[at + what.size() - 1] ^= '\1';
    return open_bytes(folder, bad);
  };
  std::string numbers;
  for (const float value : {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f})
    numbers.append(reinterpret_cast<const char*>(&value), sizeof value);
  const Status tensor = changed(numbers);
  EXPECT_EQ(tensor.code(), ErrorCode::kCorrupt);
  EXPECT_NE(tensor.message().find("checksum"), std::string::npos) << tensor.message();
  EXPECT_EQ(changed("every_other").code(), ErrorCode::kCorrupt) << "a name in the pickle";
}

TEST(TorchFile, RefusesTwoMembersOfOneName) {
  const ScratchFolder folder;
  const std::string pickle = pickle_of("K\0"s, "K\4\x85", "K\1\x85");
  const std::string data(16, '\1');
  EXPECT_EQ(
      open_bytes(folder, zip_of({{"w/data.pkl", pickle}, {"w/data/0", data}, {"w/data/0", data}})).code(),
      ErrorCode::kCorrupt);
}

TEST(TorchFile, TakesTheLastOfEqualNamesAsPythonDoes) {
  const ScratchFolder folder;
  const std::string twice =
      "\x80\x02}" + item_of("K\0"s, "K\4\x85", "K\1\x85") + item_of("K\0"s, "K\3\x85", "K\1\x85") + ".";
  ASSERT_TRUE(open_pickle(folder, twice).ok());
  const WeightsFile file = value_or_throw(WeightsFile::open(folder / "w.pth"));
  ASSERT_EQ(file.entries().size(), 1u);
  EXPECT_EQ(file.entries()[0].shape, std::vector<int64_t>{3});
}

// The word about the machine that wrote it says nothing of the numbers, which torch.save writes little-endian everywhere.
TEST(TorchFile, ReadsTheOldFormOfABigEndianMachineAsTorchDoes) {
  const ScratchFolder folder;
  std::string bytes = value_or_throw(read_file(golden("torch_legacy.pth")));
  const std::string word = "little_endian";
  const size_t is_true = bytes.find('\x88', bytes.find(word) + word.size());
  ASSERT_LT(is_true, bytes.find("type_sizes"));
  bytes[is_true] = '\x89';
  ASSERT_TRUE(open_bytes(folder, bytes).ok());
  EXPECT_EQ(numbers_of<float>(value_or_throw(WeightsFile::open(folder / "w.pth")), "f32"), from(0, 6));
}

TEST(TorchFile, ReadsElementsThatLieFarApartWithoutWhatIsBetween) {
  const ScratchFolder folder;
  constexpr uint64_t kStride = 100'000'000;
  const auto little = [](uint64_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  // Two runs of two elements; then nothing is stored but these.
  const std::string pickle =
      pickle_of("K\0"s, "K\2K\2\x86", "J" + little(kStride, 4) + "K\1\x86", "J" + little(kStride + 2, 4));
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::string head = magic + "\x80\x02M\xe9\x03." + "\x80\x02}." + pickle + "\x80\x02]" + text_op("0") +
                           "a." + little(kStride + 2, 8);
  {
    std::ofstream file(folder / "w.pth", std::ios::binary);
    const auto put = [&](float value) { file.write(reinterpret_cast<const char*>(&value), sizeof value); };
    file << head;
    put(1);
    put(2);
    file.seekp(static_cast<std::streamoff>(head.size() + kStride * sizeof(float)));
    put(3);
    put(4);
  }
  [[maybe_unused]] const uint64_t before = peak_resident_bytes();
  EXPECT_EQ(numbers_of<float>(value_or_throw(WeightsFile::open(folder / "w.pth")), "w"), from(1, 4));
#if !defined(__SANITIZE_ADDRESS__)  // which touches notes on all memory
  EXPECT_LT(peak_resident_bytes() - before, uint64_t{64} << 20);
#endif
}

TEST(TorchFile, RunsNothingAndNamesWhatItWasAskedToRun) {
  const ScratchFolder folder;
  const Status system = open_pickle(folder,
                                    "\x80\x02"
                                    "cos\nsystem\n" +
                                        text_op("true") + "\x85R.");
  EXPECT_EQ(system.code(), ErrorCode::kUnsupported);
  EXPECT_NE(system.message().find("'os.system'"), std::string::npos) << system.message();
  const std::string argparse = "\x80\x02}" + text_op("args") + "cargparse\nNamespace\n)\x81s.";
  EXPECT_NE(open_pickle(folder, argparse).message().find("'argparse.Namespace'"), std::string::npos);
  EXPECT_EQ(open_pickle(folder, "\x80\x02i__builtin__\neval\n.").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(open_pickle(folder, "\x80\x02}.").code(), ErrorCode::kUnsupported) << "no state dict";
}

TEST(TorchFile, RefusesPicklesThatAreNone) {
  const ScratchFolder folder;
  const std::string cases[] = {"",
                               ".",
                               "\x80\x02",
                               "\x80\x02R.",
                               "\x80\x02Q.",
                               "\x80\x02h\5.",
                               "\x80\x02j\xff\xff\xff\xff.",
                               "\x80\x02}q\1r\xff\xff\xff\xff.",
                               "\x80\x02u.",
                               "\x80\x02K\1K\2s.",
                               "\x80\x02X\xff\xff\xff\xff.",
                               "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
                               "\x80\x02\x8b\xff\xff\xff\xff.",
                               "\x80\x02(((t.",
                               "\x80\x02]K\1K\2\x86K\1a."};
  for (const std::string& pickle : cases) EXPECT_FALSE(open_pickle(folder, pickle).ok()) << pickle;
}

// A megabyte of a pickle that names its values again and again, in deep nests and in ever larger tuples.
TEST(TorchFile, HasALimitOfValuesAndOfWork) {
  const ScratchFolder folder;
  const auto many = [](const std::string& text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  EXPECT_FALSE(open_pickle(folder, "\x80\x02" + many("]", 2'000'000) + ".").ok());
  EXPECT_FALSE(open_pickle(folder, "\x80\x02" + many("(", 2'000'000) + ".").ok());
  EXPECT_FALSE(open_pickle(folder, "\x80\x02)" + many("\x85", 1'500'000) + ".").ok());
  EXPECT_FALSE(open_pickle(folder, "\x80\x02]q\0"s + many("h\0"s, 1'500'000) + ".").ok());
  // A tuple of 100,000 that is called a tensor of 100,000 times.
  EXPECT_FALSE(open_pickle(folder, "\x80\x02(" + many("N", 100'000) + "tq\0"s +
                                       "ctorch._utils\n_rebuild_tensor_v2\nq\1" + many("h\1h\0R"s, 100'000) +
                                       ".")
                   .ok());
}

TEST(TorchFile, DamagedFilesOpenOrAnswerAnError) {
  const ScratchFolder folder;
  RandomStream random(7, 0);
  for (const char* name : {"torch_averaged.pth", "torch_legacy.pth", "torch_protocol4.pth"}) {
    const std::string good = value_or_throw(read_file(golden(name)));
    for (int i = 0; i < 300; ++i) {
      std::string bad = good;
      if (i % 3 == 0) bad.resize(random.below(static_cast<uint32_t>(good.size())));
      for (int flips = 0; flips < 1 + i % 4 && !bad.empty(); ++flips)
        bad[random.below(static_cast<uint32_t>(bad.size()))] ^= static_cast<char>(1 << random.below(8));
      (void)open_bytes(folder, bad);
    }
  }
}

}  // namespace
}  // namespace dlpipe::formats
