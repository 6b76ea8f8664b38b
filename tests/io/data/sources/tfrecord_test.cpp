#include <gtest/gtest.h>
#include <zlib.h>

#include "base/text.h"
#include "dlpipe/random.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/inputs/inputs.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string problem_of(const std::string& path, SourceOptions options = {}) {
  options.path = path;
  const auto listing = value_or_throw(open_source(options))->list();
  return listing.ok() ? listing->entries.back().problem : listing.status().message();
}

const std::string kImage(5000, 'p');

std::string packed_by_zlib(const std::string& text, int window, int level) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(TfrecordSource, TheChecksumIsCrc32c) {
  EXPECT_EQ(crc_of("123456789"), ((0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u))
      << "RFC 3720's example";
}

TEST(TfrecordSource, ExamplesHaveTheirImageAndClass) {
  TempDir dir;
  write_text(dir / "a.tfrecord",
             tfrecord(number_feature("image/class/label", 12) + bytes_feature("image/encoded", kImage) +
                      bytes_feature("image/class/text", "cat")) +
                 tfrecord(bytes_feature("image/encoded", "two") + bytes_feature("image/class/text", "dog") +
                          number_feature("image/class/label", 3, false)));
  auto source = value_or_throw(open_source({dir / "a.tfrecord", ""}));
  SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"3", "12"}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "a.tfrecord-000000");
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(text_of(value_or_throw(source->read(listing.entries[0]))), kImage);
  EXPECT_EQ(text_of(value_or_throw(source->read(listing.entries[1]))), "two");
  ASSERT_FALSE(listing.warnings.empty());
  EXPECT_NE(
      listing.warnings.back().find("ignored keys that are neither image nor class: 2 x image/class/text"),
      std::string::npos)
      << listing.warnings.back();
  listing = value_or_throw(
      value_or_throw(open_source({.path = dir / "a.tfrecord", .label = "image/class/text"}))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
}

TEST(TfrecordSource, BoxesAreNotTakenForAClass) {
  TempDir dir;
  write_text(dir / "a.tfrecord", tfrecord(bytes_feature("image/encoded", kImage) +
                                          number_feature("image/object/class/label", 3)));
  for (const char* label : {"", "image/object/class/label"}) {
    SourceOptions options;
    options.label = label;
    const std::string problem = problem_of(dir / "a.tfrecord", options);
    EXPECT_NE(problem.find("it has boxes (image/object/...), which are not"), std::string::npos) << problem;
  }
  write_text(dir / "b.tfrecord",
             tfrecord(bytes_feature("image/encoded", kImage) + number_feature("image/object/class/label", 3) +
                      number_feature("image/class/label", 1)));
  EXPECT_EQ(problem_of(dir / "b.tfrecord"), "") << "the image's own class";
}

// TensorFlow's options GZIP and ZLIB pack the whole file under its own name.
TEST(TfrecordSource, PackedFilesAreUnpackedWhateverTheyAreCalled) {
  const std::string plain = tfrecord(number_feature("label", 12) + bytes_feature("image", kImage)) +
                            tfrecord(number_feature("label", 3) + bytes_feature("image", "two"));
  for (const int window : {15, 9, 15 + 16}) {  // zlib's largest and smallest, and gzip
    for (const int level : {0, 1, 9}) {
      SCOPED_TRACE(concat("window ", window, ", level ", level));
      TempDir dir;
      std::string packed = packed_by_zlib(plain, window, level);
      write_text(dir / "a.tfrecord", packed);
      SourceOptions options;
      options.path = dir / "a.tfrecord";
      options.scratch = std::make_shared<ScratchSpace>(dir.path());
      const auto source = value_or_throw(open_source(options));
      const SourceListing listing = value_or_throw(source->list());
      EXPECT_EQ(listing.classes, (std::vector<std::string>{"3", "12"}));
      ASSERT_EQ(listing.entries.size(), 2u);
      EXPECT_EQ(text_of(value_or_throw(source->read(listing.entries[0]))), kImage);
      packed.resize(packed.size() / 2);
      write_text(dir / "a.tfrecord", packed);
      const Status cut = value_or_throw(open_source(options))->list().status();
      EXPECT_EQ(cut.code(), ErrorCode::kCorrupt) << cut.message();
      EXPECT_NE(cut.message().find("stream is truncated"), std::string::npos) << cut.message();
    }
  }
}

// Its length's low bytes are those that zlib begins with, and its checksum fits.
TEST(TfrecordSource, ARecordThatBeginsAsZlibDoesIsARecord) {
  std::string record;
  for (size_t size = 40'056 - 60; record.size() != 40'056 && size < 40'056; ++size)
    record = wire_bytes(1, number_feature("label", 1) + bytes_feature("image", std::string(size, 'p')));
  ASSERT_EQ(record.size(), 0x9c78u);
  const std::string length = le_bytes(record.size(), 8);
  TempDir dir;
  write_text(dir / "a.tfrecord", length + le_bytes(crc_of(length), 4) + record + le_bytes(crc_of(record), 4));
  EXPECT_EQ(value_or_throw(value_or_throw(open_source({dir / "a.tfrecord", ""}))->list()).entries.size(), 1u);
}

TEST(TfrecordSource, AFolderOfThemIsOneSourceWithSplits) {
  TempDir dir;
  const auto record = [](int label) {
    return tfrecord(bytes_feature("image", "x") + number_feature("label", static_cast<uint64_t>(label)));
  };
  write_text(dir / "train-00000-of-00002", record(0) + record(1));
  write_text(dir / "train-00001-of-00002", record(1));
  write_text(dir / "validation-00000-of-00001", record(0));
  const std::vector<std::string> given = {dir.path()};
  const SourceListing listing = value_or_throw(value_or_throw(open_sources(given, "", {}))->list());
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(listing.entries[2].split, "train");
  EXPECT_EQ(listing.entries[3].split, "val");
}

TEST(TfrecordSource, WhatARecordLacksIsNamed) {
  TempDir dir;
  const auto problem = [&](const std::string& features) {
    write_text(dir / "a.tfrecord",
               tfrecord(bytes_feature("image", "x") + number_feature("label", 1)) + tfrecord(features));
    return problem_of(dir / "a.tfrecord");
  };
  EXPECT_EQ(problem(bytes_feature("image", "x") + number_feature("label", 2)), "");
  EXPECT_NE(problem(bytes_feature("photo", "x") + number_feature("label", 2)).find("photo, label"),
            std::string::npos);
  EXPECT_NE(problem(bytes_feature("image", "x")).find("--label KEY"), std::string::npos);
  EXPECT_NE(problem(bytes_feature("image", "x") +
                    example_feature("label", wire_bytes(3, wire_bytes(1, wire_varint(1) + wire_varint(2)))))
                .find("neither a single whole number"),
            std::string::npos);
  EXPECT_NE(problem("\xff\xff\xff").find("not a tf.train.Example"), std::string::npos);
  EXPECT_EQ(problem(bytes_feature("image", "x") + bytes_feature("label", std::string(4096, 'n'))), "");
  EXPECT_EQ(problem(bytes_feature("image", "x") + bytes_feature("label", std::string(4097, 'n'))),
            "'label' has 4097 bytes; the name of a class has at most 4096");
}

TEST(TfrecordSource, DamageIsNamedAndNothingBehindItIsTaken) {
  TempDir dir;
  const std::string one = tfrecord(bytes_feature("image", kImage) + number_feature("label", 1));
  const std::string file = dir / "a.tfrecord";
  const auto problem = [&](const std::string& text) {
    write_text(file, text);
    return problem_of(file);
  };
  EXPECT_NE(problem(one + one.substr(0, one.size() - 1)).find("truncated within a record"),
            std::string::npos);
  EXPECT_NE(problem(one + one.substr(0, 5)).find("within a record's head"), std::string::npos);
  std::string bad = one + one;
  bad[one.size() + 2] ^= 1;
  EXPECT_NE(problem(bad).find("length differs at byte"), std::string::npos);
  const std::string length = le_bytes(~uint64_t{0} >> 1, 8);
  EXPECT_NE(problem(one + length + le_bytes(crc_of(length), 4) + "rest").find("truncated within a record"),
            std::string::npos);
  EXPECT_NE(problem("hello world, no records").find("length differs"), std::string::npos);
  EXPECT_NE(problem("").find("is empty"), std::string::npos);
  bad = one;
  bad[one.size() - 2000] ^= 1;  // in the image: found when it is read
  write_text(file, bad);
  auto source = value_or_throw(open_source({file, ""}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_NE(source->read(listing.entries[0]).status().message().find("checksum differs"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data
