#include <gtest/gtest.h>
#include <zlib.h>

#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string idx(std::vector<uint32_t> dims, const std::string& items) {
  std::string text("\0\0\x08", 3);
  text += static_cast<char>(dims.size());
  for (const uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift);
  }
  return text + items;
}

std::string pixels(size_t count) {
  std::string text(count, '\0');
  for (size_t i = 0; i < count; ++i) text[i] = static_cast<char>(i * 7);
  return text;
}

void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

Result<SourceListing> list_idx(const std::string& path) {
  auto source = open_source({path, ""});
  if (!source.ok()) return source.status();
  return (*source)->list();
}

const std::string kLabels("\3\0\3\1\2", 5);

TEST(IdxSource, ReadsPlainAndGzippedPairs) {
  TempDir dir;
  write_text(dir / "plain/x-images-idx3-ubyte", idx({5, 3, 4}, pixels(60)));
  write_text(dir / "plain/x-labels-idx1-ubyte", idx({5}, kLabels));
  std::filesystem::create_directories(dir / "gz");
  write_gzip(dir / "gz/x-images-idx3-ubyte.gz", idx({5, 3, 4}, pixels(60)));
  write_gzip(dir / "gz/x-labels-idx1-ubyte.gz", idx({5}, kLabels));
  for (const char* path : {"plain", "plain/x-images-idx3-ubyte", "gz", "gz/x-images-idx3-ubyte.gz"}) {
    SCOPED_TRACE(path);
    auto source = value_or_throw(open_source({dir / path, ""}));
    const SourceListing listing = value_or_throw(source->list());
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "1", "2", "3"}));
    ASSERT_EQ(listing.entries.size(), 5u);
    EXPECT_EQ(listing.entries[4].path, "x-000004");
    EXPECT_EQ(listing.entries[4].label, 2);
    EXPECT_TRUE(listing.entries[4].split.empty());
    const std::vector<std::byte> bytes = value_or_throw(source->read(listing.entries[4]));
    EXPECT_EQ(bytes.size(), listing.entries[4].size_bytes);
    const ImageInfo info = value_or_throw(probe_image(bytes));
    EXPECT_EQ(info.width, 4);
    EXPECT_EQ(info.height, 3);
    EXPECT_EQ(info.channels, 1);
    EXPECT_EQ(static_cast<uint8_t>(bytes[kRawHeaderBytes + 5]), static_cast<uint8_t>((48 + 5) * 7));
  }
}

TEST(IdxSource, ATrainAndATestPairBecomeSplits) {
  TempDir dir;
  for (const char* prefix : {"train", "t10k"}) {
    write_text(dir / (std::string(prefix) + "-images.idx3-ubyte"), idx({5, 2, 2}, pixels(20)));
    write_text(dir / (std::string(prefix) + "-labels.idx1-ubyte"), idx({5}, kLabels));
  }
  const SourceListing listing = value_or_throw(list_idx(dir.path()));
  ASSERT_EQ(listing.entries.size(), 10u);
  for (const SourceEntry& entry : listing.entries)
    EXPECT_EQ(entry.split, entry.path.substr(0, 5) == "train" ? "train" : "val") << entry.path;
  auto literal = value_or_throw(open_source({.path = dir.path(), .splits = false}));
  for (const SourceEntry& entry : value_or_throw(literal->list()).entries) EXPECT_EQ(entry.split, "");
  write_text(dir / "more-images.idx3-ubyte", idx({5, 2, 2}, pixels(20)));
  write_text(dir / "more-labels.idx1-ubyte", idx({5}, kLabels));
  EXPECT_NE(list_idx(dir.path()).status().message().find("holds 3 IDX image files"), std::string::npos);
}

TEST(IdxSource, AFileUnpackedBesideItsArchiveIsOneFile) {
  TempDir dir;
  for (const std::string prefix : {"train", "t10k"}) {
    const std::string images = idx({5, 2, 2}, pixels(20));
    write_text(dir / (prefix + "-images-idx3-ubyte"), images);
    write_gzip(dir / (prefix + "-images-idx3-ubyte.gz"), images);
    write_text(dir / (prefix + "-labels-idx1-ubyte"), idx({5}, kLabels));
    write_gzip(dir / (prefix + "-labels-idx1-ubyte.gz"), idx({5}, kLabels));
  }
  EXPECT_EQ(value_or_throw(list_idx(dir.path())).entries.size(), 10u);
}

// Kaggle's MNIST has both, and macOS its hidden files.
TEST(IdxSource, FoldersAndHiddenFilesCalledAsImagesAreNone) {
  TempDir dir;
  for (const std::string prefix : {"train", "t10k"}) {
    for (const std::string& place : {dir / prefix + "-images.idx3-ubyte",
                                     dir / prefix + "-images-idx3-ubyte/" + prefix + "-images-idx3-ubyte"})
      write_text(place, idx({5, 2, 2}, pixels(20)));
    write_text(dir / prefix + "-labels.idx1-ubyte", idx({5}, kLabels));
    write_text(dir / "._" + prefix + "-images.idx3-ubyte", "Mac OS X");
  }
  EXPECT_EQ(value_or_throw(list_idx(dir.path())).entries.size(), 10u);
}

TEST(IdxSource, WhatMerelyHasItsLettersIsAnotherSources) {
  TempDir dir;
  const auto name_of = [&](const std::string& file) {
    write_text(dir / file, "x,y\n");
    return std::string(value_or_throw(find_source({dir / file, ""}))->name);
  };
  EXPECT_EQ(name_of("train_idx.csv"), "manifest");
  EXPECT_EQ(name_of("train-idx3.csv"), "manifest");
  EXPECT_EQ(name_of("shard-idx-000.tar"), "tar");
  EXPECT_EQ(name_of("my_idx.npz"), "numpy");
  EXPECT_EQ(name_of("idx.yaml"), "yolo");
  for (const char* file : {"x-images-idx3-ubyte", "x-images.idx3-ubyte.gz", "x-images.idx"})
    EXPECT_EQ(name_of(file), "idx") << file;
  write_text(dir / "lists/images_idx.csv", "1.jpg,a\n");
  write_text(dir / "lists/a/1.jpg", "x");
  EXPECT_EQ(std::string(value_or_throw(find_source({dir / "lists", ""}))->name), "folder");
}

TEST(IdxSource, ColourImagesHaveAFourthDimension) {
  TempDir dir;
  write_text(dir / "x-images-idx4-ubyte", idx({5, 2, 2, 3}, pixels(60)));
  write_text(dir / "x-labels-idx1-ubyte", idx({5}, kLabels));
  auto source = value_or_throw(open_source({dir.path(), ""}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(value_or_throw(probe_image(value_or_throw(source->read(listing.entries[0])))).channels, 3);
}

TEST(IdxSource, DamagedFilesAreNamed) {
  TempDir dir;
  const std::string images = dir / "x-images-idx3-ubyte";
  const std::string labels = dir / "x-labels-idx1-ubyte";
  const auto message = [&](const std::string& image_bytes, const std::string& label_bytes) {
    write_text(images, image_bytes);
    write_text(labels, label_bytes);
    return list_idx(images).status().message();
  };
  EXPECT_EQ(message(idx({5, 3, 4}, pixels(60)), idx({5}, kLabels)), "");
  EXPECT_NE(message(idx({5, 3, 4}, pixels(59)), idx({5}, kLabels)).find("its header declares"),
            std::string::npos);
  EXPECT_NE(message(idx({4, 3, 4}, pixels(48)), idx({5}, kLabels)).find("5 labels for 4 images"),
            std::string::npos);
  EXPECT_NE(message(idx({5, 12}, pixels(60)), idx({5}, kLabels)).find("images"), std::string::npos);
  EXPECT_NE(message(idx({0xffffffff, 0xffffffff, 0xffffffff}, ""), idx({5}, kLabels)).find("invalid size"),
            std::string::npos);
  EXPECT_NE(message("hello world", idx({5}, kLabels)).find("not an IDX file"), std::string::npos);
  EXPECT_NE(message("", idx({5}, kLabels)).find("too short"), std::string::npos);
  std::filesystem::remove(labels);
  EXPECT_NE(list_idx(images).status().message().find("no labels next to it"), std::string::npos);
  write_text(labels, idx({5}, kLabels));
  EXPECT_NE(list_idx(labels).status().message().find("not the images file"), std::string::npos);
}

TEST(IdxSource, DamagedGzipStreamsAreNamed) {
  TempDir dir;
  const std::string images = dir / "x-images-idx3-ubyte.gz";
  write_text(dir / "x-labels-idx1-ubyte", idx({5}, kLabels));
  write_gzip(images, idx({5, 3, 4}, pixels(60)));
  const std::string good = file_text(images);
  EXPECT_TRUE(list_idx(images).ok());
  write_text(images, good.substr(0, good.size() / 2));
  EXPECT_EQ(list_idx(images).status().code(), ErrorCode::kCorrupt);
  std::string bad = good;
  bad[bad.size() - 6] ^= 1;  // the stream's own checksum
  write_text(images, bad);
  EXPECT_EQ(list_idx(images).status().code(), ErrorCode::kCorrupt);
  write_gzip(images, idx({5, 3, 4}, pixels(61)));
  EXPECT_EQ(list_idx(images).status().code(), ErrorCode::kCorrupt);
  write_gzip(images, idx({60000, 3000, 400}, pixels(61)));
  EXPECT_NE(list_idx(images).status().message().find("more than the file can hold"), std::string::npos);
  RandomStream random(3, 3);
  for (int round = 0; round < 200; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i)
      text[random.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    write_text(images, text);
    const auto listing = list_idx(images);  // a value, whatever the bytes
    EXPECT_EQ(listing.ok(), listing.status().message().empty());
  }
}

}  // namespace
}  // namespace dlpipe::data
