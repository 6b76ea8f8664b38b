// `ingest --dedup`.
#include "run/ingest/dedup.h"

#include <set>

#include "run/ingest/options.h"
#include "tests/io/data/scenes.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

std::string scene_text(uint64_t seed, int quality = 90, const data::SceneView& view = {}) {
  data::Pixels pixels = data::scene(seed, 64, 48, view);
  return to_text(*data::encode_jpeg(pixels.view(), quality));
}

/// In each of two classes 20 images; each of the first 8 has two copies.
void write_scenes(const TempDir& dir) {
  for (uint64_t i = 0; i < 40; ++i) {
    const std::string name = dir / ("src/c" + std::to_string(i % 2) + "/" + std::to_string(100 + i));
    write_text(name + ".jpg", scene_text(i));
    if (i >= 16) continue;
    write_text(name + " again.jpg", scene_text(i, 50));  // sorts before ".jpg"
    write_text(name + "~mirrored.jpg", scene_text(i, 80, {.mirrored = true}));
  }
}

/// Paths of a dataset or split.
std::set<std::string> paths_of(const std::string& directory) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  std::set<std::string> paths;
  const auto reader = value_or_throw(dataset->reader());
  for (int64_t i = 0; i < dataset->size(); ++i)
    paths.insert(
        to_text(value_or_throw(data::field_bytes(*dataset, value_or_throw(reader->record(i)), "path"))));
  return paths;
}

TEST(Dedup, DropStoresTheFirstByPathAndListsTheOthers) {
  TempDir dir;
  write_scenes(dir);
  write_text(dir / "src/c0/broken.jpg", scene_text(0).substr(0, 300));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.dedup = Dedup::kDrop;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits[0].samples, 40);
  ASSERT_EQ(report.skipped.size(), 33u);
  const std::set<std::string> paths = paths_of(dir / "dst");
  EXPECT_TRUE(paths.contains("c0/100 again.jpg"));
  for (const SkippedFile& skipped : report.skipped) {
    EXPECT_FALSE(paths.contains(skipped.path)) << skipped.path;
  }
  const auto copy = std::ranges::find(report.skipped, "c0/100.jpg", &SkippedFile::path);
  ASSERT_NE(copy, report.skipped.end());
  EXPECT_EQ(copy->reason, "a copy of c0/100 again.jpg");
  expect_part(skipped_text(report), "33 files skipped:\n  32 copies: --dedup drop\n  c0/broken.jpg: ");
  EXPECT_TRUE(value_or_throw(ingest(options)).already_complete);
}

TEST(Dedup, CopiesAreNoBadFiles) {
  TempDir dir;
  write_scenes(dir);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.dedup = Dedup::kDrop;
  options.on_error = OnError::kStop;
  EXPECT_EQ(value_or_throw(ingest(options)).splits[0].samples, 40);
}

TEST(Dedup, GroupKeepsCopiesInOneSplitAndDropDividesWhatIsLeft) {
  TempDir dir;
  write_scenes(dir);
  IngestOptions options = options_for(dir / "src", dir / "off");
  options.split = {0.6, 0.4};
  EXPECT_EQ(value_or_throw(ingest(options)).warnings.size(), 1u);  // copies are in both splits
  options.destination = dir / "group";
  options.dedup = Dedup::kGroup;
  const IngestReport grouped = value_or_throw(ingest(options));
  EXPECT_EQ(grouped.warnings, std::vector<std::string>());
  EXPECT_EQ(grouped.splits[0].samples + grouped.splits[1].samples, 72);
  options.destination = dir / "drop";
  options.dedup = Dedup::kDrop;
  const IngestReport dropped = value_or_throw(ingest(options));
  EXPECT_EQ(dropped.warnings, std::vector<std::string>());
  EXPECT_EQ(dropped.splits[0].samples, 24);
  EXPECT_EQ(dropped.splits[1].samples, 16);
}

TEST(Dedup, FoldsKeepCopiesTogetherWithTheGroupsOfAField) {
  TempDir dir;
  write_scenes(dir);
  std::string list = "path,label,person\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "c" + std::to_string(i % 2) + "/" + std::to_string(100 + i);
    list += name + ".jpg,a," + (i < 32 ? std::to_string(i / 4) : "") + "\n";
    if (i < 16) list += name + " again.jpg,a,\n" + name + "~mirrored.jpg,a,\n";
  }
  write_text(dir / "src/list.csv", list);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.manifest = dir / "src/list.csv";
  options.group = "person";
  options.folds = 2;
  options.dedup = Dedup::kGroup;
  value_or_throw(ingest(options));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const auto reader = value_or_throw(dataset->reader());
  std::map<int, std::set<std::byte>> folds;  // of the images of four scenes, by their first number
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto record = value_or_throw(reader->record(i));
    const std::string path = to_text(value_or_throw(data::field_bytes(*dataset, record, "path")));
    const int scene = std::stoi(path.substr(3)) - 100;
    if (scene < 32) folds[scene / 4].insert(value_or_throw(data::field_bytes(*dataset, record, "fold"))[0]);
  }
  EXPECT_EQ(folds.size(), 8u);
  for (const auto& [person, own] : folds) EXPECT_EQ(own.size(), 1u) << person;
}

TEST(Dedup, AResumedIngestAndOtherThreadsWriteTheSameBytes) {
  TempDir dir;
  write_scenes(dir);
  for (const Dedup dedup : {Dedup::kDrop, Dedup::kGroup}) {
    const std::string name = dedup == Dedup::kDrop ? "drop" : "group";
    IngestOptions options = options_for(dir / "src", dir / name);
    options.dedup = dedup;
    options.split = {0.6, 0.4};
    options.commit_entries = 8;
    options.jobs = 1;
    value_or_throw(ingest(options));
    options.destination = dir / (name + " resumed");
    options.jobs = 3;
    bool is_frozen = false;
    options.stop_requested = [&] {
      is_frozen = is_frozen || std::filesystem::exists(options.destination + ".partial/ingest.list");
      return is_frozen;
    };
    EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCancelled);
    options.stop_requested = {};
    EXPECT_TRUE(value_or_throw(ingest(options)).resumed);
    EXPECT_EQ(dataset_files(options.destination), dataset_files(dir / name));
  }
}

TEST(Dedup, LimitComesFirst) {
  TempDir dir;
  write_scenes(dir);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.dedup = Dedup::kDrop;
  options.limit = 30;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits[0].samples + static_cast<int64_t>(report.skipped.size()), 30);
}

TEST(Dedup, RefusesWhatHasNoEffect) {
  TempDir dir;
  write_scenes(dir);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.dedup = Dedup::kGroup;
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kMisuse);
  write_text(dir / "book.txt", std::string(2000, 'a') + "b");
  options = options_for(dir / "book.txt", dir / "text");
  options.dedup = Dedup::kDrop;
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(parse_dedup("keep").status().code(), ErrorCode::kMisuse);
}

}  // namespace
}  // namespace dlpipe::ingest
