// Images that are in several splits or under several classes.
#include "io/data/verify.h"

#include "io/data/record.h"
#include "run/ingest/join.h"
#include "run/ingest/sample_writer.h"
#include "tests/io/data/scenes.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

/// Two images of val are in train, too; one of them and another one have two classes. A copy in its own class is none.
void write_copies(const TempDir& dir) {
  write_text(dir / "src/train/cat/1.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/train/cat/1 again.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/train/cat/2.jpg", jpeg_text(2, 20, 16));
  write_text(dir / "src/train/dog/3.jpg", jpeg_text(3, 20, 16));
  write_text(dir / "src/train/dog/also 2.jpg", jpeg_text(2, 20, 16));
  write_text(dir / "src/val/cat/4.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/val/cat/5.jpg", jpeg_text(3, 20, 16));
  write_text(dir / "src/val/dog/6.jpg", jpeg_text(6, 20, 16));
}

void expect_warnings(std::vector<std::string> warnings, const std::string& area) {
  std::erase_if(warnings,
                [](const std::string& one) { return one.find("byte for byte") == std::string::npos; });
  ASSERT_EQ(warnings.size(), 2u);
  expect_part(warnings[0], "[" + area + "] 2 images are in more than one split");
  expect_part(warnings[0], "train 'cat/1 again.jpg' of class 'cat' and val 'cat/4.jpg' of class 'cat'");
  expect_part(warnings[1], "[" + area + "] 2 images are in more than one class");
  expect_part(warnings[1], "train 'cat/2.jpg' of class 'cat' and train 'dog/also 2.jpg' of class 'dog'");
  expect_part(warnings[1], "train 'dog/3.jpg' of class 'dog' and val 'cat/5.jpg' of class 'cat'");
}

TEST(Duplicates, IngestWarnsOfThem) {
  TempDir dir;
  write_copies(dir);
  for (const Store store : {Store::kAuto, Store::kRaw, Store::kLink}) {
    IngestOptions options = options_for(dir / "src", dir / ("dst" + std::to_string(static_cast<int>(store))));
    options.store = store;
    std::vector<std::string> warnings;
    options.on_warning = [&](const std::string& warning) { warnings.push_back(warning); };
    const IngestReport report = value_or_throw(ingest(options));
    expect_warnings(warnings, "ingest");
    EXPECT_EQ(report.warnings, warnings);
  }
}

// Files of one size that begin alike are read, and only the same ones are copies.
TEST(Duplicates, LinksWithLateChecksumsAreFound) {
  TempDir dir;
  write_copies(dir);
  const std::string large = jpeg_text(9, 240, 180);
  ASSERT_GT(large.size(), data::kLateBegin);
  write_text(dir / "src/train/cat/7.jpg", large + "a");
  write_text(dir / "src/val/cat/8.jpg", large + "b");
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.store = Store::kLink;
  options.late_checksums = true;
  expect_warnings(value_or_throw(ingest(options)).warnings, "ingest");
}

// What was stored by an earlier call counts, too: it is read.
TEST(Duplicates, AContinuedIngestFindsTheSame) {
  TempDir dir;
  write_copies(dir);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.commit_entries = 1;
  int files = 0;
  options.stop_requested = [&] { return ++files == 6; };
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCancelled);
  options.stop_requested = {};
  expect_warnings(value_or_throw(ingest(options)).warnings, "ingest");
}

TEST(Duplicates, JoinFindsThoseOfDifferentParts) {
  TempDir dir;
  write_copies(dir);
  JoinOptions join_all;
  join_all.destination = dir / "dst";
  for (const int number : {1, 2}) {
    IngestOptions options = options_for(dir / "src", dir / ("part" + std::to_string(number)));
    options.part = Part{number, 2};
    value_or_throw(ingest(options));
    join_all.parts.push_back(options.destination);
  }
  expect_warnings(value_or_throw(join(join_all)).warnings, "join");
}

/// A mirrored copy and one with the same pixels of val are in train; one that is near another of train is not reported.
void write_near_copies(const TempDir& dir) {
  const auto jpeg = [](data::Pixels pixels, int quality) {
    return to_text(*data::encode_jpeg(pixels.view(), quality));
  };
  for (uint64_t i = 1; i < 9; ++i)
    write_text(dir / ("src/train/c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg"),
               jpeg(data::scene(i, 80, 60), 90));
  write_text(dir / "src/train/c1/5 again.jpg", jpeg(data::scene(5, 80, 60), 60));
  write_text(dir / "src/val/c0/2 mirrored.jpg", jpeg(data::scene(2, 40, 30, {.mirrored = true}), 80));
  write_text(dir / "src/val/c0/4 with a comment.jpg", jpeg(data::scene(4, 80, 60), 90) + "end");
  write_text(dir / "src/val/c1/11.jpg", jpeg(data::scene(11, 80, 60), 90));
}

void expect_near(std::vector<std::string> warnings) {
  std::erase_if(warnings, [](const std::string& one) { return one.find("look like") == std::string::npos; });
  ASSERT_EQ(warnings.size(), 1u);
  expect_part(warnings[0], "2 images look like one in another split");
  expect_part(warnings[0], "train 'c0/2.jpg' of class 'c0' and val 'c0/2 mirrored.jpg'");
  expect_part(warnings[0], "train 'c0/4.jpg' of class 'c0' and val 'c0/4 with a comment.jpg'");
  expect_part(warnings[0], "--dedup drop");
}

TEST(Duplicates, IngestWarnsOfNearCopiesInOtherSplits) {
  TempDir dir;
  write_near_copies(dir);
  for (const Store store : {Store::kAuto, Store::kLink}) {
    IngestOptions options = options_for(dir / "src", dir / ("dst" + std::to_string(static_cast<int>(store))));
    options.store = store;
    expect_near(value_or_throw(ingest(options)).warnings);
  }
  IngestOptions options = options_for(dir / "src", dir / "resumed");
  options.commit_entries = 1;
  int files = 0;
  options.stop_requested = [&] { return ++files == 10; };
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCancelled);
  options.stop_requested = {};
  expect_near(value_or_throw(ingest(options)).warnings);  // decodes what was stored
}

TEST(Duplicates, IngestWarnsOfThoseInOtherFolds) {
  TempDir dir;
  const auto write = [&](const std::string& name, data::Pixels pixels, int quality = 90) {
    write_text(dir / ("src/" + name), to_text(*data::encode_jpeg(pixels.view(), quality)));
  };
  std::string list = "path,label,fold\n";
  for (uint64_t i = 0; i < 8; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    write(name, data::scene(i, 80, 60));
    list += name + ",c," + std::to_string(i % 2) + "\n";
  }
  write("0 again.jpg", data::scene(0, 80, 60));
  write("1 mirrored.jpg", data::scene(1, 40, 30, {.mirrored = true}), 80);
  write("2 worse.jpg", data::scene(2, 80, 60), 50);
  write("3 again.jpg", data::scene(3, 80, 60));
  write_text(dir / "src/list.csv",
             list + "0 again.jpg,c,1\n1 mirrored.jpg,c,0\n2 worse.jpg,c,0\n3 again.jpg,c,1\n");
  const auto expect_two = [](const std::vector<std::string>& warnings) {
    std::string all;
    for (const std::string& warning : warnings) all += warning + "\n";
    expect_part(all,
                "1 image is in more than one fold, byte for byte: '0 again.jpg' of class 'c' and '0.jpg'");
    expect_part(all, "1 image looks like one in another fold");
    expect_part(all, "'1 mirrored.jpg' of class 'c' and '1.jpg'");
    expect_part(all, "Metrics of a fold are valid only");
    EXPECT_EQ(all.find("2 worse.jpg"), std::string::npos) << "both are in one fold: " << all;
    EXPECT_EQ(all.find("3 again.jpg"), std::string::npos) << "both are in one fold: " << all;
  };
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.manifest = dir / "src/list.csv";
  expect_two(value_or_throw(ingest(options)).warnings);
  options.destination = dir / "resumed";
  options.commit_entries = 1;
  int files = 0;
  options.stop_requested = [&] { return ++files == 9; };
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCancelled);
  options.stop_requested = {};
  expect_two(value_or_throw(ingest(options)).warnings);
}

TEST(Duplicates, DrawnFoldsAreToldHowToKeepCopiesTogether) {
  TempDir dir;
  for (int i = 0; i < 8; ++i) write_text(dir / ("src/c/" + std::to_string(i) + ".jpg"), jpeg_text(1, 20, 16));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.folds = 2;
  const IngestReport report = value_or_throw(ingest(options));
  ASSERT_FALSE(report.warnings.empty());
  expect_part(report.warnings.back(), "1 image is in more than one fold");
  expect_part(report.warnings.back(), "--dedup group, which keeps them in one fold");
}

TEST(Duplicates, VerifyKnowsThemAndCallsTheDatasetGood) {
  TempDir dir;
  write_copies(dir);
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  std::vector<std::shared_ptr<const data::Dataset>> splits;
  data::StoredImages images;
  for (const char* split : {"train", "val"}) {
    splits.push_back(value_or_throw(data::Dataset::open(dir / "dst", split)));
    const data::VerifyReport report = value_or_throw(data::verify(*splits.back(), {}));
    EXPECT_TRUE(report.ok());
    for (size_t i = 0; i < report.image_checksums.size(); ++i)
      images.add(splits.size() - 1, static_cast<int64_t>(i), report.image_checksums[i]);
  }
  const std::vector<std::string> names = {"train", "val"};
  const data::DuplicateImages found = value_or_throw(images.duplicates(splits));
  expect_warnings(value_or_throw(data::warnings_of(found, "verify", names, splits, "remove the copies")),
                  "verify");
}

TEST(Duplicates, AWriterWarnsOfThem) {
  TempDir dir;
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.classes = {"cat", "dog"};
  auto writer = value_or_throw(SampleWriter::open(options));
  const auto bytes = [](const std::string& text) {
    const auto raw = std::as_bytes(std::span(text));
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  for (const auto& [split, label] : {std::pair("train", 0), {"val", 1}, {"train", 1}})
    throw_if_error(writer->add({{bytes(jpeg_text(1, 16, 12)), {}, bytes("a.jpg")}, int64_t{label}, split}));
  const IngestReport report = value_or_throw(writer->finish());
  ASSERT_EQ(report.warnings.size(), 2u);
  expect_part(report.warnings[0], "[writer] 1 image is in more than one split");
}

TEST(Duplicates, AWriterWarnsOfThoseInOtherFolds) {
  TempDir dir;
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.fields = {{"image", data::FieldKind::kImage, DType::kU8, {}},
                    {"fold", data::FieldKind::kBytes, DType::kU8, {}}};
  auto writer = value_or_throw(SampleWriter::open(options));
  const auto bytes = [](const std::string& text) {
    const auto raw = std::as_bytes(std::span(text));
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  for (const char* fold : {"a", "b", "b"})
    throw_if_error(writer->add({{bytes(jpeg_text(1, 16, 12)), bytes(fold)}, {}, ""}));
  const IngestReport report = value_or_throw(writer->finish());
  ASSERT_EQ(report.warnings.size(), 1u);
  expect_part(report.warnings[0], "[writer] 1 image is in more than one fold");
}

}  // namespace
}  // namespace dlpipe::ingest
