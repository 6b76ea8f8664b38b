// From files to a dataset and back, and what inspect and verify say on the way.
#include <algorithm>

#include "base/text.h"
#include "io/data/export.h"
#include "io/data/inspect.h"
#include "io/data/sample.h"
#include "io/data/verify.h"
#include "run/ingest/sample_writer.h"
#include "run/ingest/synth.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

std::map<std::string, std::string> tree(const std::string& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), root).string()] = file_text(entry.path().string());
  }
  return files;
}

TEST(RoundTrip, FolderToDatasetToFolderGivesTheSameBytes) {
  TempDir dir;
  write_images(dir / "src", 80, 3, 30);
  write_text(dir / "src/c1/deep/er/image.PNG", to_text(data::read_image("rgba.png")));
  write_text(dir / "src/c2/turned.jpeg", to_text(data::read_image("exif_7.jpg")));
  write_text(dir / "src/c2/\xff odd\n.jpg", to_text(data::read_image("cmyk.jpg")));
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const data::ExportReport exported =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  std::map<std::string, std::string> expected = tree(dir / "src");
  for (const SkippedFile& file : report.skipped) expected.erase(file.path);
  EXPECT_TRUE(tree(dir / "out") == expected);
  EXPECT_EQ(exported.files, static_cast<int64_t>(expected.size()));
  // And once more: the same files make the same dataset.
  value_or_throw(ingest(options_for(dir / "out", dir / "again")));
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "again"))->id(), dataset->id());
}

// The class table is UTF-8, names of folders are bytes: written below the class's name, such folders would be there twice.
TEST(RoundTrip, FoldersOfNamesThatAreNotUtf8ComeBackAsTheyWere) {
  TempDir dir;
  write_text(dir / "src/caf\xe9/1.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/tea/2.jpg", jpeg_text(2, 20, 16));
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_TRUE(tree(dir / "out") == tree(dir / "src")) << tree(dir / "out").begin()->first;
  value_or_throw(ingest(options_for(dir / "out", dir / "again")));
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "again"))->id(), dataset->id());
}

TEST(RoundTrip, CoefficientRecordsGiveTheSameBytesBack) {
  TempDir dir;
  write_images(dir / "src", 20, 2, 30);
  write_text(dir / "src/c1/turned.jpeg", to_text(data::read_image("exif_7.jpg")));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.jpeg = JpegLayout::kCoefficients;
  const IngestReport report = value_or_throw(ingest(options));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  EXPECT_TRUE(value_or_throw(data::kept_as_jpeg(*dataset)).empty());
  EXPECT_TRUE(value_or_throw(data::verify(*dataset, {.decode = true, .stop_requested = {}})).ok());
  value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  std::map<std::string, std::string> expected = tree(dir / "src");
  for (const SkippedFile& file : report.skipped) expected.erase(file.path);
  EXPECT_TRUE(tree(dir / "out") == expected);
}

TEST(RoundTrip, RawPixelsComeBackAsPngs) {
  TempDir dir;
  write_text(dir / "src/a/1.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/b/1.jpg", to_text(data::read_image("grey.jpg")));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.store = Store::kRaw;
  value_or_throw(ingest(options));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  const auto out = tree(dir / "out");
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.begin()->first, "a/1.png");
  options = options_for(dir / "out", dir / "again");
  options.store = Store::kRaw;
  value_or_throw(ingest(options));
  const auto first = samples_of(dir / "dst");
  const auto second = samples_of(dir / "again");
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].image, second[i].image);
}

// a.bmp.jpg, a.jpg and a.png all want to be a PNG of one name or another's numbered name.
TEST(RoundTrip, NamesThatMeetAfterRecodingStayApart) {
  TempDir dir;
  const std::vector<std::string> names = {"a.bmp.jpg", "a.bmp.png", "a.jpeg",  "a.jpg",    "a.png",
                                          "a-3.png",   "a-4.jpg",   "a-4.png", "a-3-3.jpg"};
  for (size_t i = 0; i < names.size(); ++i)
    write_text(dir / "src/c/" + names[i], jpeg_text(i, 9 + static_cast<int>(i), 8));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.store = Store::kRaw;
  value_or_throw(ingest(options));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const auto report =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_EQ(report.files, static_cast<int64_t>(names.size()));
  EXPECT_EQ(tree(dir / "out").size(), names.size());
}

TEST(RoundTrip, AFolderOfTheNameDstPartialIsSomebodyElses) {
  TempDir dir;
  write_images(dir / "src", 10, 2, 30);
  for (const char* name : {"dst", "out", "drawn"})
    write_text(dir / name + ".partial/thesis.txt", "three years");
  SynthOptions drawn;
  drawn.directory = dir / "drawn";
  EXPECT_EQ(synth(drawn).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(ingest(options_for(dir / "src", dir / "dst")).status().code(), ErrorCode::kMisuse);
  std::filesystem::remove_all(dir / "dst.partial");
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  EXPECT_EQ(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}).status().code(),
            ErrorCode::kMisuse);
  for (const char* name : {"out", "drawn"})
    EXPECT_EQ(file_text(dir / name + ".partial/thesis.txt"), "three years");
}

TEST(RoundTrip, ExportNamesStayBelowTheOutput) {
  using data::export_name;
  using enum data::ImageLayout;
  EXPECT_EQ(value_or_throw(export_name("cat/1.jpg", "cat", kJpeg)), "cat/1.jpg");
  EXPECT_EQ(value_or_throw(export_name("p/1.jpg", "cat", kJpeg)), "cat/p/1.jpg");
  EXPECT_EQ(value_or_throw(export_name("train-000001", "7", kRaw)), "7/train-000001.png");
  EXPECT_EQ(value_or_throw(export_name("cat/1.png", "cat", kJpeg)), "cat/1.jpg");
  EXPECT_EQ(value_or_throw(export_name("cat/1.jpg", "cat", kPng)), "cat/1.png");
  EXPECT_EQ(value_or_throw(export_name("category/1.jpg", "cat", kJpeg)), "cat/category/1.jpg");
  EXPECT_EQ(value_or_throw(export_name("1.jpg", "a/b", kJpeg)), "a_b/1.jpg");
  EXPECT_EQ(value_or_throw(export_name("p/1.jpg", "", kJpeg)), "p/1.jpg");
  EXPECT_FALSE(export_name("../1.jpg", "cat", kJpeg).ok());
  EXPECT_FALSE(export_name("/etc/1.jpg", "cat", kJpeg).ok());
  EXPECT_FALSE(export_name("1.jpg", "..", kJpeg).ok());
}

/// Images with boxes, their classes and a mask, whose classes aren't in the order of their names, one of them without
/// a sample; some images have no class. The pixels of a mask are label + 1.
void write_annotated(const TempDir& dir, const std::string& destination) {
  std::string list = R"({"fields": ["boxes:boxes", "box_labels:labels:boxes", "mask:mask"], )"
                     R"("classes": ["zebra", "none of them", "ape"]})"
                     "\n";
  const std::vector<std::string> classes = {"zebra", "none of them", "ape"};
  const std::vector<std::pair<std::string, int64_t>> samples = {
      {"000003.jpg", -1}, {"ape/1.jpg", 2}, {"p/2.jpg", 0}, {"p/4.jpg", -1}};
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& [path, label] = samples[i];
    const int64_t object = label < 0 ? 2 : label;
    data::Pixels mask(16, 12, 1);
    for (size_t p = 0; p < mask.bytes.size(); ++p)
      mask.bytes[p] = static_cast<uint8_t>(p % 2 == 0 ? 0 : object + 1);
    write_text(dir / "src/" + path, jpeg_text(i, 16, 12));
    write_text(dir / concat("src/m/", i, ".png"), to_text(value_or_throw(data::encode_png(mask.view()))));
    list += concat(R"({"path": ")", path, R"(", "boxes": [[0, 0, 9, 9], [1, 1, 4, 4]], "mask": "m/)", i,
                   R"(.png", "box_labels": [")", classes[static_cast<size_t>(object)], R"(", "zebra"])",
                   label < 0 ? "" : concat(R"(, "label": ")", classes[static_cast<size_t>(label)], R"(")"),
                   "}\n");
  }
  write_text(dir / "src/list.jsonl", list);
  value_or_throw(ingest(options_for(dir / "src/list.jsonl", destination)));
}

/// A line for each sample: its name, and all that is stored of it.
std::vector<std::string> contents_of(const std::string& directory) {
  auto dataset = value_or_throw(data::Dataset::open(directory));
  auto reader = value_or_throw(data::SampleReader::open(*dataset));
  std::vector<std::string> all;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto sample = value_or_throw(reader->read(i));
    std::string text = concat(to_text(sample.view.fields[2]), " of ", sample.header.label, "|");
    for (const auto& field : sample.view.fields) text += to_text(field) + "|";
    all.push_back(text + to_text(sample.view.image));
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(RoundTrip, ClassesKeepTheirNumbersAndSamplesTheirNames) {
  TempDir dir;
  write_annotated(dir, dir / "data");
  auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  const auto exported =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_EQ(exported.list, "fields.jsonl");
  for (const char* file : {"000003.jpg", "ape/1.jpg", "zebra/p/2.jpg", "p/4.jpg"})
    EXPECT_TRUE(std::filesystem::exists(dir / "out/" + file)) << file;
  const IngestReport again = value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  EXPECT_EQ(again.classes, (std::vector<std::string>{"zebra", "none of them", "ape"}));
  EXPECT_TRUE(contents_of(dir / "again") == contents_of(dir / "data"));
  // Two lists of the same classes keep them, too.
  std::filesystem::create_directory(dir / "both");
  for (const char* half : {"a", "b"})
    std::filesystem::copy(dir / "out", dir / "both/" + half, std::filesystem::copy_options::recursive);
  IngestOptions both = options_for(dir / "both/a/fields.jsonl", dir / "twice");
  both.sources.push_back(dir / "both/b/fields.jsonl");
  EXPECT_EQ(value_or_throw(ingest(both)).classes, again.classes);
}

TEST(RoundTrip, ListsOfSplitsGiveTheSplitsBack) {
  TempDir dir;
  for (const char* split : {"train", "val"}) {
    write_annotated(dir, dir / concat("data/", split));
    auto dataset = value_or_throw(data::Dataset::open(dir / concat("data/", split)));
    value_or_throw(
        data::export_files(*dataset, {.directory = dir / concat("out/", split), .stop_requested = {}}));
  }
  IngestOptions options = options_for(dir / "out/train/fields.jsonl", dir / "again");
  options.sources.push_back(dir / "out/val/fields.jsonl");
  EXPECT_EQ(value_or_throw(ingest(options)).classes,
            (std::vector<std::string>{"zebra", "none of them", "ape"}));
  for (const char* split : {"train", "val"})
    EXPECT_TRUE(contents_of(dir / concat("again/", split)) == contents_of(dir / concat("data/", split)))
        << split;
}

TEST(RoundTrip, ANameThatWouldLeaveTheOutputKeepsNoOtherFromIt) {
  TempDir dir;
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.classes = {"cat"};
  auto writer = value_or_throw(SampleWriter::open(options));
  for (const std::string path : {"1.jpg", "a/../../evil.jpg", "2.jpg"}) {
    const std::string image = jpeg_text(path.size(), 16, 12);
    const auto bytes = [](const std::string& text) {
      const auto raw = std::as_bytes(std::span(text));
      return std::vector<std::byte>(raw.begin(), raw.end());
    };
    throw_if_error(writer->add({{bytes(image), {}, bytes(path)}, int64_t{0}, ""}));
  }
  value_or_throw(writer->finish());
  auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  const auto report =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_EQ(report.files, 2);
  ASSERT_EQ(report.unwritten.size(), 1u);
  EXPECT_EQ(report.unwritten[0].sample, 1);
  EXPECT_EQ(tree(dir / "out").size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/cat/2.jpg"));
  expect_part(data::unwritten_error(report).message(), "1 of 3 samples is not in ");
  expect_part(data::unwritten_error(report).message(), "'a/../../evil.jpg'");
}

/// A dataset of images of one class, of any names.
void write_named(const TempDir& dir, const std::string& class_name, const std::vector<std::string>& paths) {
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.classes = {class_name};
  auto writer = value_or_throw(SampleWriter::open(options));
  const auto bytes = [](const std::string& text) {
    const auto raw = std::as_bytes(std::span(text));
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  for (size_t i = 0; i < paths.size(); ++i)
    throw_if_error(writer->add({{bytes(jpeg_text(i, 16, 12)), {}, bytes(paths[i])}, int64_t{0}, ""}));
  value_or_throw(writer->finish());
}

TEST(RoundTrip, ANameThatTheFileSystemRefusesGetsASubstituteAndTheOthersStay) {
  TempDir dir;
  const std::string endless(300, 'n');
  write_named(
      dir, "cat",
      {"a.jpg", "a.jpg/b.jpg", "c.jpg/d.jpg", "c.jpg", endless + ".jpg", "e.jpg", endless + "/f.jpg"});
  auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  const auto report =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_EQ(report.files, 7);
  EXPECT_TRUE(report.unwritten.empty());
  std::vector<std::string> names;
  for (const auto& [name, text] : tree(dir / "out")) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"cat/a.jpg", "cat/c.jpg/d.jpg", "cat/e.jpg", "cat/sample-1.jpg",
                                             "cat/sample-3.jpg", "cat/sample-4.jpg", "cat/sample-6.jpg"}));
  ASSERT_EQ(report.renamed.size(), 4u);
  EXPECT_EQ(report.renamed[0].sample, 1);
  EXPECT_EQ(report.renamed[0].path, "a.jpg/b.jpg");
  EXPECT_EQ(report.renamed[0].name, "cat/sample-1.jpg");
  expect_part(data::renamed_text(report), "'cat/sample-1.jpg' is 'a.jpg/b.jpg'");
  EXPECT_LT(data::renamed_text(report).size(), 1000u);
}

TEST(RoundTrip, AClassOfAnEndlessNameIsAShorterFolderAndComesBack) {
  TempDir dir;
  std::string name;
  for (int i = 0; i < 150; ++i) name += "\u00e9";  // 300 bytes
  write_named(dir, name, {"a.jpg"});
  auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  const auto report =
      value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  EXPECT_TRUE(report.unwritten.empty() && report.renamed.empty());
  EXPECT_TRUE(std::filesystem::exists(dir / "out/" + name.substr(0, 254) + "/a.jpg"));
  const IngestReport again = value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  EXPECT_EQ(again.classes, std::vector<std::string>{name});
}

TEST(RoundTrip, NamesThatAreNoFilesComeBack) {
  TempDir dir;
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.classes = {"dog", "cat"};  // an order that folders do not express
  options.ingest.jpeg = JpegLayout::kStandard;
  auto writer = value_or_throw(SampleWriter::open(options));
  const auto bytes = [](const std::string& text) {
    const auto raw = std::as_bytes(std::span(text));
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  int64_t label = 0;
  for (const char* name : {"scan 0", "t10k-001988", "p/scan 0", "scan 2"}) {
    const std::string image = jpeg_text(static_cast<uint64_t>(label + 1), 16, 12);
    throw_if_error(writer->add({{bytes(image), {}, bytes(name)}, label++ % 2, ""}));
  }
  value_or_throw(writer->finish());
  auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
  value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  EXPECT_TRUE(contents_of(dir / "again") == contents_of(dir / "data"));
  // A folder of files is still one group: cat/, dog/ and dog/p/.
  IngestOptions grouped = options_for(dir / "out/fields.jsonl", dir / "grouped");
  grouped.group = "folder";
  grouped.folds = 4;
  EXPECT_EQ(ingest(grouped).status().code(), ErrorCode::kMisuse);
  grouped.folds = 3;
  value_or_throw(ingest(grouped));
}

// Without further fields a list is written all the same where folders would number the classes anew.
TEST(RoundTrip, AListSaysWhatFoldersDoNot) {
  // Of numbers the bytes are in another order, too.
  for (const std::vector<std::string>& classes : {std::vector<std::string>{"dog", "cat"}, {"9", "10"}}) {
    SCOPED_TRACE(classes[0]);
    TempDir dir;
    SampleWriterOptions options;
    options.ingest.destination = dir / "data";
    options.classes = classes;
    options.ingest.jpeg = JpegLayout::kStandard;
    auto writer = value_or_throw(SampleWriter::open(options));
    for (const int64_t label : {0, 1, -1}) {
      const std::string image = jpeg_text(static_cast<uint64_t>(label + 1), 16, 12);
      const std::string path = concat("p/", label, ".jpg");
      const auto bytes = [](const std::string& text) {
        const auto raw = std::as_bytes(std::span(text));
        return std::vector<std::byte>(raw.begin(), raw.end());
      };
      throw_if_error(writer->add({{bytes(image), {}, bytes(path)}, label, ""}));
    }
    value_or_throw(writer->finish());
    auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
    value_or_throw(data::export_files(*dataset, {.directory = dir / "out", .stop_requested = {}}));
    const IngestReport again = value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
    EXPECT_EQ(again.classes, classes);
    EXPECT_TRUE(contents_of(dir / "again") == contents_of(dir / "data"));
  }
}

TEST(RoundTrip, ExportLeavesNothingHalfDone) {
  TempDir dir;
  write_images(dir / "src", 20, 2, 30);
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  EXPECT_EQ(data::export_files(*dataset, {.directory = dir / "dst", .stop_requested = {}}).status().code(),
            ErrorCode::kMisuse);
  data::ExportOptions options{.directory = dir / "out", .stop_requested = [] { return true; }};
  EXPECT_EQ(data::export_files(*dataset, options).status().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out.partial"));
}

// Flips one bit of the `nth` place where `text` stands in a file.
void flip_bit(const std::string& file, const std::string& text, size_t offset) {
  std::string all = file_text(file);
  const size_t at = all.find(text);
  ASSERT_NE(at, std::string::npos);
  all[at + offset] = static_cast<char>(all[at + offset] ^ 1);
  write_text(file, all);
}

TEST(Verify, FindsEveryDamagedRecord) {
  for (const bool zstd : {false, true}) {
    SCOPED_TRACE(zstd);
    TempDir dir;
    write_images(dir / "src", 90, 3, 30);
    IngestOptions options = options_for(dir / "src", dir / "dst");
    options.zstd = zstd;
    value_or_throw(ingest(options));
    {
      auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
      data::VerifyOptions verify;
      verify.decode = true;
      verify.jobs = 3;
      const data::VerifyReport good = value_or_throw(data::verify(*dataset, verify));
      EXPECT_TRUE(good.ok());
      EXPECT_EQ(good.samples, dataset->size());
    }
    const std::string path = "c1/1034.jpg";  // stands in the record as it is, compressed or not
    flip_bit(dir / "dst/data.mdb", path, 3);
    auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
    const data::VerifyReport bad = value_or_throw(data::verify(*dataset, {}));
    EXPECT_FALSE(bad.ok());
    ASSERT_EQ(bad.bad.size(), 1u);
    EXPECT_NE(bad.bad[0].reason.find("checksum differs"), std::string::npos) << bad.bad[0].reason;
    EXPECT_TRUE(bad.id_matches) << "the header table is whole";
  }
}

TEST(Verify, FindsDamagedOffsetsOfPackedRecords) {
  TempDir dir;
  write_images(dir / "src", 30, 3, 20);
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  std::string first;
  {
    auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
    ASSERT_GT(dataset->records_per_value(), dataset->size()) << "all records in one value";
    first = to_text(value_or_throw(value_or_throw(dataset->reader())->record(0)));
  }
  // The offsets end where the first record begins: this is the last but one.
  std::string all = file_text(dir / "dst/data.mdb");
  const size_t at = all.find(first);
  ASSERT_NE(at, std::string::npos);
  all[at - 8] = static_cast<char>(all[at - 8] ^ 1);
  write_text(dir / "dst/data.mdb", all);
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const data::VerifyReport bad = value_or_throw(data::verify(*dataset, {}));
  EXPECT_EQ(bad.bad.size(), 2u) << "the records before and after that offset";
}

TEST(Verify, FindsADamagedHeaderTable) {
  TempDir dir;
  write_images(dir / "src", 30, 3, 30);
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  std::string row;
  {
    auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
    const uint64_t checksum = value_or_throw(dataset->header(4)).checksum;
    row.assign(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  }
  flip_bit(dir / "dst/data.mdb", row, 0);
  EXPECT_EQ(data::Dataset::open(dir / "dst").status().code(), ErrorCode::kCorrupt);
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst", {}, data::Dataset::IdCheck::kLater));
  const data::VerifyReport bad = value_or_throw(data::verify(*dataset, {}));
  EXPECT_FALSE(bad.id_matches);
  ASSERT_EQ(bad.bad.size(), 1u);
  EXPECT_EQ(bad.bad[0].sample, 4);
  EXPECT_FALSE(bad.bad[0].path.empty());
}

TEST(Inspect, CountsWhatIsThere) {
  TempDir dir;
  write_text(dir / "src/a/1.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/a/2.png", to_text(data::read_image("grey.png")));
  write_text(dir / "src/b/3.jpg", to_text(data::read_image("exif_6.jpg")));
  write_text(dir / "src/b/4.jpg", "no image");
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const data::InspectReport report = value_or_throw(data::inspect(*dataset));
  EXPECT_EQ(report.samples, 3);
  EXPECT_EQ(report.class_counts, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(report.layouts, (std::vector<std::pair<std::string, int64_t>>{{"jpeg", 2}, {"png", 1}}));
  EXPECT_EQ(report.width.min, 18);
  EXPECT_EQ(report.width.max, 53);
  EXPECT_EQ(report.height.max, 37);
  EXPECT_EQ(report.grey, 1);
  EXPECT_EQ(report.rotated, 1);
  EXPECT_EQ(report.skipped, 1);
  int64_t counted = 0;
  for (const data::HistogramBin& bin : report.longer_side_histogram) counted += bin.count;
  EXPECT_EQ(counted, 3);
  EXPECT_EQ(report.longer_side_histogram.front().from, 16);
  const std::string json = data::to_json(report);
  for (const char* name : {"\"samples\": 3", "\"classes\"", "\"fields\"", "\"id\""})
    EXPECT_NE(json.find(name), std::string::npos) << json;
}

TEST(BenchStorage, MeasuresEveryWayOfReading) {
  TempDir dir;
  write_images(dir / "src", 30, 3, 30);
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const data::StorageBench bench = value_or_throw(data::bench_storage(*dataset, {.seconds = 0.01}));
  EXPECT_EQ(bench.samples, dataset->size());
  EXPECT_GT(bench.header_ns, 0);
  EXPECT_GT(bench.random_record_ns, 0);
  EXPECT_GT(bench.sequential_record_ns, 0);
  EXPECT_GT(bench.checksum_bytes_per_s, 0);
  EXPECT_GT(bench.samples_per_s, 0);
}

}  // namespace
}  // namespace dlpipe::ingest
