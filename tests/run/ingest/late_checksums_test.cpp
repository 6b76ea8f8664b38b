// Links with late checksums: listing reads what images begin with, and a record's first reading says what it is.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "dlpipe/loader.h"
#include "io/data/linked_records.h"
#include "io/data/record.h"
#include "io/data/verify.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

namespace fs = std::filesystem;

IngestOptions late_options(const std::string& source, const std::string& destination) {
  IngestOptions options = options_for(source, destination);
  options.store = Store::kLink;
  options.late_checksums = true;
  return options;
}

data::VerifyReport verified(const std::string& directory) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  return value_or_throw(data::verify(*dataset, {.decode = true, .jobs = 2, .stop_requested = {}}));
}

int64_t known(const std::string& directory) {
  return value_or_throw(value_or_throw(data::Dataset::open(directory))->known_checksums());
}

Status read_one(const std::string& directory, int64_t sample) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  return value_or_throw(dataset->reader())->record(sample).status();
}

/// The file gets these bytes, and looks as old as it was.
void write_unnoticed(const std::string& file, const std::string& text) {
  const auto time = fs::last_write_time(file);
  write_text(file, text);
  fs::last_write_time(file, time);
}

std::string with_other_end(std::string text) {
  text[text.size() - 20] ^= 1;
  return text;
}

/// JPEGs of more than data::kLateBegin bytes.
std::string large_jpeg(uint64_t number) {
  return jpeg_text(number, 240, 180);
}

void write_large(const std::string& root, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    write_text(root + "/c0/" + std::to_string(10'000 + i) + ".jpg", large_jpeg(i));
}

/// `count` large images in dir / "src", ingested to dir / "late".
void write_late(const TempDir& dir, uint64_t count) {
  write_large(dir / "src", count);
  value_or_throw(ingest(late_options(dir / "src", dir / "late")));
}

pipeline::LoaderOptions two_epochs_of_late(const TempDir& dir) {
  pipeline::LoaderOptions options = pipeline::two_epochs_of(dir / "late");
  options.augment = "rrc(16x16) hflip";
  return options;
}

TEST(LateChecksums, RecordsAreThoseOfTheStoredDataset) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 40);
  value_or_throw(ingest(options_for(dir / "src", dir / "stored")));
  value_or_throw(ingest(late_options(dir / "src", dir / "late")));
  const auto stored = samples_of(dir / "stored");
  const auto late = samples_of(dir / "late");
  ASSERT_EQ(stored.size(), late.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    EXPECT_EQ(stored[i].path, late[i].path);
    EXPECT_EQ(stored[i].image, late[i].image);
    EXPECT_EQ(stored[i].label, late[i].label);
    EXPECT_EQ(stored[i].header.width, late[i].header.width);
    EXPECT_EQ(stored[i].header.height, late[i].header.height);
    EXPECT_EQ(stored[i].header.size_bytes, late[i].header.size_bytes);
  }
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "late"))->format_version(), 6);
  EXPECT_EQ(verified(dir / "late").known, 58);
}

TEST(LateChecksums, TheIdIsOfSizesAndOfWhatImagesBeginWith) {
  TempDir dir;
  write_large(dir / "src", 6);
  ASSERT_GT(large_jpeg(3).size(), data::kLateBegin + 100);
  const auto id_of = [&](const std::string& source) {
    value_or_throw(ingest(late_options(source, source + ".late")));
    return value_or_throw(data::Dataset::open(source + ".late"))->id();
  };
  const std::string id = id_of(dir / "src");
  IngestOptions whole = late_options(dir / "src", dir / "whole");
  whole.late_checksums = false;
  value_or_throw(ingest(whole));
  EXPECT_NE(value_or_throw(data::Dataset::open(dir / "whole"))->id(), id);
  fs::copy(dir / "src", dir / "copy", fs::copy_options::recursive);  // with times of its own
  EXPECT_EQ(id_of(dir / "copy"), id);
  fs::copy(dir / "src", dir / "other", fs::copy_options::recursive);
  write_text(dir / "other/c0/10003.jpg", large_jpeg(77));
  EXPECT_NE(id_of(dir / "other"), id);
}

TEST(LateChecksums, WhatWasReadOnceMustStayAsItIs) {
  TempDir dir;
  write_late(dir, 4);
  EXPECT_EQ(known(dir / "late"), 0);
  EXPECT_TRUE(read_one(dir / "late", 1).ok());
  EXPECT_EQ(known(dir / "late"), 1);
  const std::string file = dir / "src/c0/10001.jpg";
  write_unnoticed(file, with_other_end(large_jpeg(1)));
  const Status changed = read_one(dir / "late", 1);
  EXPECT_EQ(changed.code(), ErrorCode::kCorrupt);
  expect_part(changed.message(), "10001.jpg changed since it was first read");
  write_text(file, large_jpeg(1));  // restored, and newer: contents are what counts now
  EXPECT_TRUE(read_one(dir / "late", 1).ok());
}

TEST(LateChecksums, WhatWasNeverReadMustLookAsWhenItWasListed) {
  TempDir dir;
  write_late(dir, 6);
  const auto file = [&](int number) { return dir / ("src/c0/1000" + std::to_string(number) + ".jpg"); };
  write_unnoticed(file(1), large_jpeg(1) + "more");
  std::string other_begin = large_jpeg(2);
  other_begin[700] ^= 1;
  write_unnoticed(file(2), other_begin);
  fs::last_write_time(file(3), fs::last_write_time(file(3)) + std::chrono::seconds(2));
  fs::remove(file(4));
  const data::VerifyReport report = verified(dir / "late");
  EXPECT_EQ(report.known, 0);
  ASSERT_EQ(report.bad.size(), 4u);
  expect_part(report.bad[0].reason, "10001.jpg changed: it has");
  expect_part(report.bad[1].reason, "10002.jpg was written since it was listed");
  expect_part(report.bad[2].reason, "10003.jpg was written since it was listed");
  expect_part(report.bad[3].reason, "10004.jpg can't be read");
  EXPECT_EQ(verified(dir / "late").known, 2) << "verify read the other two";
}

TEST(LateChecksums, ChangesBetweenEpochsAreNeverTrainedOn) {
  TempDir dir;
  write_late(dir, 24);
  pipeline::LoaderOptions options = two_epochs_of_late(dir);
  options.max_bad = 10;
  options.quarantine_file = dir / "quarantine.txt";
  {
    const auto loader = pipeline::open_loader(options);
    for (int64_t i = 0; i < loader->batches_per_epoch(); ++i)
      throw_if_error(loader->release(*value_or_throw(loader->next())));
  }
  EXPECT_EQ(known(dir / "late"), 24);
  write_unnoticed(dir / "src/c0/10003.jpg", with_other_end(large_jpeg(3)));
  const auto loader = pipeline::open_loader(options);  // as a resumed run does
  throw_if_error(loader->seek_epoch(1));
  while (const auto batch = value_or_throw(loader->next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); ++i) EXPECT_NE(batch->sample_ids[i], 3);
    throw_if_error(loader->release(*batch));
  }
  expect_part(file_text(dir / "quarantine.txt"), "10003.jpg");
}

TEST(LateChecksums, BatchesAreTheSameBeforeAndAfterTheFirstReading) {
  TempDir dir;
  write_late(dir, 24);
  const pipeline::LoaderOptions options = two_epochs_of_late(dir);
  const auto first = pipeline::read_hashes(*pipeline::open_loader(options));
  EXPECT_EQ(pipeline::read_hashes(*pipeline::open_loader(options)), first);
}

TEST(LateChecksums, OfATarArchiveGoIntoTheArchive) {
  TempDir dir;
  std::string tar;
  for (uint64_t i = 0; i < 6; ++i) tar += data::tar_file("s/c0/" + std::to_string(i) + ".jpg", large_jpeg(i));
  write_text(dir / "a.tar", tar + data::tar_end());
  value_or_throw(ingest(late_options(dir / "a.tar", dir / "late")));
  EXPECT_EQ(samples_of(dir / "late").back().image, large_jpeg(5));
  const data::VerifyReport good = verified(dir / "late");
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.known, 6);
  value_or_throw(ingest(late_options(dir / "a.tar", dir / "again")));
  fs::last_write_time(dir / "a.tar", fs::last_write_time(dir / "a.tar") + std::chrono::seconds(2));
  EXPECT_EQ(verified(dir / "again").bad.size(), 6u);
  EXPECT_TRUE(verified(dir / "late").ok()) << "contents are known, and the same";
}

TEST(LateChecksums, OnlyHeadsAreReadAndSayWhatImagesAre) {
  TempDir dir;
  std::vector<std::string> drawn;
  for (uint64_t i = 0; i < 5; ++i) drawn.push_back(large_jpeg(i));
  for (size_t i = 0; i < 1030; ++i)  // every second one is decoded, for mean and standard deviation
    write_text(dir / ("src/c0/" + std::to_string(10'000 + i) + ".jpg"), drawn[i % drawn.size()]);
  const auto file = [&](int number) { return dir / ("src/c0/" + std::to_string(number) + ".jpg"); };
  std::string far = large_jpeg(1);  // its size stands behind 60 KB of a program's notes
  far.insert(2, std::string("\xff\xe5\xea\x62", 4) + std::string(60'000, 'x'));
  write_text(file(10'001), far);
  data::Pixels pixels(31, 17, 3);
  write_text(file(10'003), to_text(*data::encode_png(pixels.view())));
  write_text(file(10'005), "P6 64 40 255\n" + std::string(64 * 40 * 3, 'a'));
  std::string damaged = large_jpeg(2);
  damaged.resize(damaged.size() - 2000);
  write_text(file(10'007), damaged);
  write_text(file(10'009), "no image" + std::string(9000, 'x'));
  const IngestReport report = value_or_throw(ingest(late_options(dir / "src", dir / "late")));
  EXPECT_EQ(report.splits[0].samples, 1029) << "what is corrupt further behind is found when it is read";
  ASSERT_EQ(report.skipped.size(), 1u);
  expect_part(report.skipped[0].reason, "not a JPEG");
  const auto dataset = value_or_throw(data::Dataset::open(dir / "late"));
  const auto size_of = [&](int64_t sample) {
    const data::RecordHeader header = value_or_throw(dataset->header(sample));
    return std::pair(header.width, header.height);
  };
  EXPECT_EQ(size_of(1), std::pair(240, 180));
  EXPECT_EQ(size_of(3), std::pair(31, 17));
  EXPECT_EQ(size_of(5), std::pair(64, 40));
  EXPECT_EQ(dataset->pixel_stats().channels, 3);
  const data::VerifyReport checked = verified(dir / "late");
  ASSERT_EQ(checked.bad.size(), 1u);
  EXPECT_EQ(checked.bad[0].sample, 7);
}

TEST(LateChecksums, AFileOfThemThatIsDamagedNeverMakesARecordWrong) {
  TempDir dir;
  write_late(dir, 3);
  for (int64_t sample = 0; sample < 2; ++sample) throw_if_error(read_one(dir / "late", sample));
  const std::string sums = file_text(dir / "late/late.sums");
  ASSERT_EQ(sums.size(), 24u);
  for (size_t bit = 0; bit < 8 * sums.size(); ++bit) {
    std::string flipped = sums;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_text(dir / "late/late.sums", flipped);
    EXPECT_EQ(read_one(dir / "late", static_cast<int64_t>(bit / 64)).code(), ErrorCode::kCorrupt) << bit;
  }
  write_text(dir / "late/late.sums", sums + "more");
  const Status other = data::Dataset::open(dir / "late").status();
  EXPECT_EQ(other.code(), ErrorCode::kCorrupt);
  expect_part(other.message(), "late.sums does not match the dataset's 3 samples");
  fs::remove(dir / "late/late.sums");
  EXPECT_TRUE(read_one(dir / "late", 0).ok());
  EXPECT_EQ(known(dir / "late"), 0);
}

TEST(LateChecksums, AreForLinkedImagesAlone) {
  TempDir dir;
  write_large(dir / "src", 2);
  IngestOptions options = late_options(dir / "src", dir / "d");
  options.store = Store::kAuto;
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kMisuse);
}

}  // namespace
}  // namespace dlpipe::ingest
