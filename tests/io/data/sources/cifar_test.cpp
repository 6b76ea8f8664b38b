#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

/// `count` records; pixel (x, y) of channel c in record i has the value i + 2x + 3y + 50c.
std::string records(int count, int labels) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (labels == 2) text += static_cast<char>(i % 20);
    text += static_cast<char>(labels == 2 ? (i * 7) % 100 : i % 10);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) text += static_cast<char>(i + 2 * x + 3 * y + 50 * c);
      }
    }
  }
  return text;
}

std::string lines(int count, const std::string& prefix) {
  std::string text;
  for (int i = 0; i < count; ++i) text += prefix + std::to_string(100 + i) + "\n";
  return text + "\n";
}

std::string error_of(const SourceOptions& options) {
  auto source = open_source(options);
  return source.ok() ? (*source)->list().status().message() : source.status().message();
}

TEST(CifarSource, TheTenClassesHaveTheirNamesAndHalves) {
  TempDir dir;
  for (int i = 1; i <= 5; ++i) write_text(dir / ("data_batch_" + std::to_string(i) + ".bin"), records(12, 1));
  write_text(dir / "test_batch.bin", records(11, 1));
  write_text(dir / "batches.meta.txt", lines(10, "c"));
  auto source = value_or_throw(open_source({dir.path(), ""}));
  const SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 71u);
  EXPECT_TRUE(listing.warnings.empty());
  EXPECT_EQ(listing.classes[3], "c103");
  const SourceEntry& entry = listing.entries[12 + 3];
  EXPECT_EQ(entry.path, "data_batch_2-00003");
  EXPECT_EQ(entry.label, 3);
  EXPECT_EQ(entry.split, "train");
  EXPECT_EQ(listing.entries.back().split, "val");
  const std::vector<std::byte> bytes = value_or_throw(source->read(entry));
  EXPECT_EQ(bytes.size(), entry.size_bytes);
  const ImageInfo info = value_or_throw(probe_image(bytes));
  EXPECT_EQ(info.width, 32);
  EXPECT_EQ(info.channels, 3);
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(static_cast<uint8_t>(bytes[kRawHeaderBytes + 3 * (5 * 32 + 4) + c]),
              static_cast<uint8_t>(3 + 2 * 4 + 3 * 5 + 50 * c));
  auto half = value_or_throw(open_source({dir / "test_batch.bin", ""}));
  EXPECT_EQ(value_or_throw(half->list()).entries.front().split, "");
  auto literal = value_or_throw(open_source({.path = dir.path(), .splits = false}));
  EXPECT_EQ(value_or_throw(literal->list()).entries.front().split, "");
  std::filesystem::remove(dir / "data_batch_4.bin");
  EXPECT_NE(value_or_throw(source->list()).warnings.at(0).find("5 of the 6 files"), std::string::npos);
}

TEST(CifarSource, TheHundredClassesKeepTheirSuperclassAsAField) {
  TempDir dir;
  write_text(dir / "train.bin", records(30, 2));
  write_text(dir / "test.bin", records(3, 2));
  write_text(dir / "fine_label_names.txt", lines(100, "f"));
  write_text(dir / "coarse_label_names.txt", lines(20, "s"));
  SourceListing listing = value_or_throw(value_or_throw(open_source({dir.path(), ""}))->list());
  EXPECT_EQ(listing.entries[21].label, 47);
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"superclass"}));
  EXPECT_EQ(listing.entries[21].extra, (std::vector<std::string>{"s101"}));
  listing = value_or_throw(value_or_throw(open_source({.path = dir.path(), .label = "superclass"}))->list());
  EXPECT_EQ(listing.classes.size(), 20u);
  EXPECT_EQ(listing.entries[21].label, 1);
  EXPECT_NE(error_of({.path = dir.path(), .label = "coarse"})
                .find("is CIFAR-100, whose other label is called superclass"),
            std::string::npos);
}

TEST(CifarSource, ALabelThatTheTenClassesLackIsRefused) {
  TempDir dir;
  write_text(dir / "test_batch.bin", records(2, 1));
  EXPECT_EQ(error_of({dir.path(), ""}), "");
  EXPECT_NE(error_of({.path = dir.path(), .label = "superclass"}).find("is CIFAR-10, which has one label"),
            std::string::npos);
}

TEST(CifarSource, DamagedFilesAreNamed) {
  TempDir dir;
  std::string text = records(4, 1);
  write_text(dir / "data_batch_1.bin", text.substr(0, text.size() - 1));
  EXPECT_NE(error_of({dir.path(), ""}).find("not a multiple of 3073"), std::string::npos);
  write_text(dir / "data_batch_1.bin", "");
  EXPECT_NE(error_of({dir.path(), ""}).find("not a multiple of"), std::string::npos);
  text[2 * 3073] = 77;
  write_text(dir / "data_batch_1.bin", text);
  auto source = value_or_throw(open_source({dir.path(), ""}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.entries[2].problem, "its label is 77 of 10 classes");
  EXPECT_EQ(listing.classes[9], "9") << "without their names, classes are numbers";
  write_text(dir / "data_batch_1.bin", records(2, 1));
  EXPECT_EQ(source->read(listing.entries[0]).status().code(), ErrorCode::kChanged);
  write_text(dir / "batches.meta.txt", "one\ntwo\n");
  EXPECT_NE(error_of({dir.path(), ""}).find("2 classes"), std::string::npos);
}

TEST(CifarSource, ThePickledVersionIsRefusedWithWhatToDo) {
  TempDir dir;
  write_text(dir / "ten/data_batch_1", "\x80\x02}q");
  write_text(dir / "ten/batches.meta", "\x80\x02}q");
  for (const char* name : {"train", "test", "meta"})
    write_text(dir / (std::string("hundred/") + name), "\x80\x02}q");
  write_text(dir / "some/data_batch_1", "\x80\x02}q");
  write_text(dir / "cifar-10-python.tar.gz", "\x1f\x8b");
  write_text(dir / "ten/readme.html", "x");
  for (const char* path :
       {"ten", "hundred", "some", "cifar-10-python.tar.gz", "ten/data_batch_1", "hundred/train"})
    EXPECT_NE(error_of({dir / path, ""}).find("cifar-10-binary.tar.gz"), std::string::npos) << path;
  const SourceOptions page{dir / "ten/readme.html", ""};
  EXPECT_EQ(find_source(page).status().message().find("CIFAR's version for Python"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data
