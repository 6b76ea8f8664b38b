// --store link: the dataset has links, the images stay where they are, and everybody reads the same records.
#include <algorithm>
#include <filesystem>

#include "dlpipe/loader.h"
#include "io/data/export.h"
#include "io/data/verify.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

namespace fs = std::filesystem;

IngestOptions link_options(const std::string& source, const std::string& destination) {
  IngestOptions options = options_for(source, destination);
  options.store = Store::kLink;
  return options;
}

std::string id_of(const std::string& directory) {
  return value_or_throw(data::Dataset::open(directory))->id();
}

/// "" where nothing is wrong; else path and reason of each bad record.
std::string what_verify_finds(const std::string& directory) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  std::string text;
  for (const auto& bad :
       value_or_throw(data::verify(*dataset, {.decode = true, .jobs = 2, .stop_requested = {}})).bad)
    text += bad.path + ": " + bad.reason + "\n";
  return text;
}

pipeline::LoaderOptions loader_options(const std::string& data) {
  pipeline::LoaderOptions options;
  options.data = data;
  options.augment = "rrc(16x16) hflip";
  options.batch = 8;
  options.threads = 2;
  options.epochs = 2;
  options.hash_pixels = true;
  return options;
}

TEST(Link, IsTheDatasetThatStoresTheFiles) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 40);  // some are corrupt, and skipped by both
  value_or_throw(ingest(options_for(dir / "src", dir / "stored")));
  const IngestReport report = value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  EXPECT_EQ(report.skipped.size(), 2u);
  EXPECT_EQ(id_of(dir / "linked"), id_of(dir / "stored"));
  const auto stored = samples_of(dir / "stored");
  const auto linked = samples_of(dir / "linked");
  ASSERT_EQ(stored.size(), linked.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    EXPECT_EQ(stored[i].path, linked[i].path);
    EXPECT_EQ(stored[i].image, linked[i].image);
    EXPECT_EQ(stored[i].label, linked[i].label);
    EXPECT_EQ(stored[i].header.checksum, linked[i].header.checksum);
  }
  EXPECT_EQ(what_verify_finds(dir / "linked"), "");
  const auto dataset = value_or_throw(data::Dataset::open(dir / "linked"));
  EXPECT_EQ(dataset->links(), dir / "src");
  EXPECT_EQ(dataset->format_version(), 5);
  EXPECT_GT(dataset->records_per_value(), 1) << "links are small";
}

TEST(Link, BatchesAreThoseOfTheStoredDataset) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 40);
  value_or_throw(ingest(options_for(dir / "src", dir / "stored")));
  value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  EXPECT_EQ(pipeline::read_hashes(*pipeline::open_loader(loader_options(dir / "linked"))),
            pipeline::read_hashes(*pipeline::open_loader(loader_options(dir / "stored"))));
}

TEST(Link, OfATarArchiveGoesIntoTheArchive) {
  TempDir dir;
  std::string tar;
  for (uint64_t i = 0; i < 12; ++i)
    tar += data::tar_file("s/c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg",
                          jpeg_text(i, 20, 12));
  write_text(dir / "a.tar", tar + data::tar_end());
  value_or_throw(ingest(options_for(dir / "a.tar", dir / "stored")));
  value_or_throw(ingest(link_options(dir / "a.tar", dir / "linked")));
  EXPECT_EQ(id_of(dir / "linked"), id_of(dir / "stored"));
  EXPECT_EQ(samples_of(dir / "linked").back().image, samples_of(dir / "stored").back().image);
  // A byte of one image.
  std::string changed = file_text(dir / "a.tar");
  changed[changed.find(jpeg_text(4, 20, 12)) + 300] ^= 1;
  write_text(dir / "a.tar", changed);
  const std::string bad = what_verify_finds(dir / "linked");
  expect_part(bad, dir / "a.tar");
  EXPECT_EQ(std::count(bad.begin(), bad.end(), '\n'), 1) << bad;
}

TEST(Link, VerifyNamesFilesThatChangedOrAreGone) {
  TempDir dir;
  for (uint64_t i = 0; i < 6; ++i)
    write_text(dir / ("src/c0/" + std::to_string(i) + ".jpg"), jpeg_text(i, 20, 12));
  value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  write_text(dir / "src/c0/1.jpg", jpeg_text(77, 20, 12));
  write_text(dir / "src/c0/2.jpg", file_text(dir / "src/c0/2.jpg") + "more");
  fs::remove(dir / "src/c0/3.jpg");
  fs::remove(dir / "src/c0/4.jpg");
  fs::create_directory(dir / "src/c0/4.jpg");
  const std::string bad = what_verify_finds(dir / "linked");
  EXPECT_EQ(std::count(bad.begin(), bad.end(), '\n'), 4) << bad;
  for (const char* name : {"1.jpg changed", "2.jpg changed", "3.jpg can't be read (cannot open",
                           "4.jpg can't be read (", "a folder"})
    expect_part(bad, name);
}

TEST(Link, ChangedFilesAreNeverTrainedOn) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 40);
  value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  pipeline::LoaderOptions options = loader_options(dir / "linked");
  options.max_bad = 10;
  options.quarantine_file = dir / "quarantine.txt";
  const auto loader = pipeline::open_loader(options);
  // The first epoch reads all of them: what changes later is noticed, too.
  for (int64_t i = 0; i < loader->batches_per_epoch(); ++i) {
    const auto batch = value_or_throw(loader->next());
    throw_if_error(loader->release(*batch));
  }
  const std::vector<Sample> samples = samples_of(dir / "linked");
  const auto file_of = [&](size_t sample) { return dir / ("src/" + samples[sample].path); };
  std::string other = file_text(file_of(3));
  other[other.size() / 2] ^= 4;
  for (const auto& [sample, text] : {std::pair(size_t{3}, other), std::pair(size_t{11}, std::string())}) {
    if (text.empty())
      fs::remove(file_of(sample));
    else
      write_text(file_of(sample), text);
  }
  loader->interrupt();
  throw_if_error(loader->seek_epoch(1));
  bool substituted = false;
  while (const auto batch = value_or_throw(loader->next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); ++i)
      EXPECT_TRUE(batch->sample_ids[i] != 3 && batch->sample_ids[i] != 11);
    substituted |= !batch->substitutions.empty();
    throw_if_error(loader->release(*batch));
  }
  EXPECT_TRUE(substituted);
  const std::string quarantined = file_text(dir / "quarantine.txt");
  expect_part(quarantined, samples[3].path);
  expect_part(quarantined, samples[11].path);
}

TEST(Link, TrustedImagesAreNotAllDecoded) {
  TempDir dir;
  for (uint64_t i = 0; i < 1030; ++i)
    write_text(dir / ("src/c0/" + std::to_string(10'000 + i) + ".jpg"), jpeg_text(i % 7, 16, 16));
  std::string damaged = file_text(dir / "src/c0/10001.jpg");
  damaged.resize(damaged.size() / 2);
  write_text(dir / "src/c0/10001.jpg", damaged);
  IngestOptions options = link_options(dir / "src", dir / "linked");
  EXPECT_EQ(value_or_throw(ingest(options)).splits[0].samples, 1029);
  options.trust = true;
  options.destination = dir / "trusted";
  EXPECT_EQ(value_or_throw(ingest(options)).splits[0].samples, 1030);
  const auto dataset = value_or_throw(data::Dataset::open(dir / "trusted"));
  EXPECT_EQ(dataset->pixel_stats().channels, 3);
  expect_part(what_verify_finds(dir / "trusted"), "10001.jpg");
}

TEST(Link, IsRefusedWhereThereIsNothingToLinkTo) {
  TempDir dir;
  write_text(dir / "a.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  const Status text = ingest(link_options(dir / "a.txt", dir / "linked")).status();
  EXPECT_EQ(text.code(), ErrorCode::kMisuse) << text.message();
  expect_part(text.message(), "--store link");
  write_images(dir / "src", 4, 1, 20);
  IngestOptions options = link_options(dir / "src", dir / "linked");
  options.resize_max = 100;
  expect_part(ingest(options).status().message(), "leave --resize-max or --store link out");
  EXPECT_FALSE(fs::exists(dir / "linked"));
  EXPECT_FALSE(fs::exists(dir / "linked.partial"));
}

TEST(Link, ExportWritesTheFilesAgain) {
  TempDir dir;
  for (uint64_t i = 0; i < 4; ++i)
    write_text(dir / ("src/c0/" + std::to_string(i) + ".jpg"), jpeg_text(i, 20, 12));
  value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "linked"));
  value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  for (int i = 0; i < 4; ++i) {
    const std::string name = "c0/" + std::to_string(i) + ".jpg";
    EXPECT_EQ(file_text(dir / ("out/" + name)), file_text(dir / ("src/" + name)));
  }
}

/// Each sample's record is the one of `expected`, or a corrupt one.
void expect_the_same_or_damaged(const std::string& directory, const std::vector<Sample>& expected,
                                const std::string& what) {
  const auto dataset = data::Dataset::open(directory);
  if (!dataset.ok()) return;
  const auto reader = value_or_throw((*dataset)->reader());
  ASSERT_EQ((*dataset)->size(), static_cast<int64_t>(expected.size())) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto record = reader->record(static_cast<int64_t>(i));
    if (!record.ok()) continue;
    const data::RecordView view = value_or_throw(data::parse_record(**dataset, *record));
    ASSERT_EQ(to_text(view.image), expected[i].image) << what << ", sample " << i;
    ASSERT_EQ(view.label, expected[i].label) << what << ", sample " << i;
  }
}

TEST(Link, OneWrongBitOfAFileOrADatasetIsNoticed) {
  TempDir dir;
  for (uint64_t i = 0; i < 3; ++i)
    write_text(dir / ("src/c0/" + std::to_string(i) + ".jpg"), jpeg_text(i, 20, 12));
  value_or_throw(ingest(link_options(dir / "src", dir / "linked")));
  const std::vector<Sample> samples = samples_of(dir / "linked");
  const auto reader_of = value_or_throw(data::Dataset::open(dir / "linked"));
  const auto reader = value_or_throw(reader_of->reader());
  const auto with_flip = [](std::string text, size_t bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    return text;
  };
  const std::string image = file_text(dir / "src/c0/1.jpg");
  for (size_t bit = 0; bit < 8 * image.size(); bit += 29) {
    write_text(dir / "src/c0/1.jpg", with_flip(image, bit));
    ASSERT_EQ(reader->record(1).status().code(), ErrorCode::kCorrupt) << "bit " << bit;
    ASSERT_TRUE(reader->record(0).ok());
  }
  write_text(dir / "src/c0/1.jpg", image);
  ASSERT_TRUE(reader->record(1).ok());
  // The dataset itself, links among the rest: a flipped path may name another image that is there.
  const std::string data = file_text(dir / "linked/data.mdb");
  fs::create_directory(dir / "flipped");
  for (size_t bit = 0; bit < 8 * data.size(); bit += 151) {
    if (data[bit / 8] == 0 && bit % 8 != 0) continue;  // mostly gaps
    write_text(dir / "flipped/data.mdb", with_flip(data, bit));
    expect_the_same_or_damaged(dir / "flipped", samples, "bit " + std::to_string(bit));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace dlpipe::ingest
