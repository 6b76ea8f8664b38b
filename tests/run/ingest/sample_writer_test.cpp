#include "run/ingest/sample_writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/sample.h"
#include "io/data/verify.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// An image, its class and its name, in the default fields.
NewSample sample_of(std::string_view image, NewSample::Label label, std::string_view path,
                    std::string split = {}) {
  return {{bytes_of(image), {}, bytes_of(path)}, std::move(label), std::move(split)};
}

SampleWriterOptions options_to(const std::string& destination) {
  SampleWriterOptions options;
  options.ingest.destination = destination;
  options.ingest.on_error = OnError::kStop;
  options.ingest.jobs = 2;
  return options;
}

/// The sequence that the tests of kills write: sizes differ, some samples belong to val, names of classes come late.
NewSample drawn_sample(uint64_t number) {
  RandomStream random(11, number);
  const int width = 8 + static_cast<int>(random.below(24));
  return sample_of(jpeg_text(number, width, 20), "class" + std::to_string(number / 90),
                   "s" + std::to_string(number), number % 5 == 3 ? "val" : "train");
}

Status write_all(SampleWriterOptions options, uint64_t count) {
  options.interrupted = Interrupted::kResume;
  auto writer = SampleWriter::open(options);
  if (!writer.ok()) return writer.status();
  for (auto i = static_cast<uint64_t>((*writer)->position()); i < count; ++i)
    DLPIPE_RETURN_IF_ERROR((*writer)->add(drawn_sample(i)));
  return (*writer)->finish().status();
}

TEST(SampleWriter, MakesWhatIngestMakesOfTheSameImages) {
  TempDir dir;
  IngestOptions files = options_for(dir / "src", dir / "files");
  files.jpeg = JpegLayout::kAuto;
  write_images(dir / "src", 30, 3, 60);
  const IngestReport expected = value_or_throw(ingest(files));

  SampleWriterOptions options = options_to(dir / "memory");
  options.ingest.on_error = OnError::kSkip;
  options.classes = expected.classes;
  auto writer = value_or_throw(SampleWriter::open(options));
  for (const auto& [name, text] : [&] {
         std::map<std::string, std::string> all;
         for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "src"))
           if (entry.is_regular_file())
             all[std::filesystem::relative(entry.path(), dir / "src").string()] = file_text(entry.path());
         return all;
       }())
    throw_if_error(writer->add(sample_of(text, name.substr(0, 2), name)));
  const IngestReport report = value_or_throw(writer->finish());
  EXPECT_EQ(report.splits[0].id, expected.splits[0].id);
  EXPECT_EQ(report.splits[0].samples, expected.splits[0].samples);
  ASSERT_EQ(report.skipped.size(), expected.skipped.size());
  for (size_t i = 0; i < report.skipped.size(); ++i) {
    EXPECT_EQ(report.skipped[i].path, expected.skipped[i].path);
    EXPECT_EQ(report.skipped[i].reason, expected.skipped[i].reason);
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "memory.partial"));
}

TEST(SampleWriter, KeepsRawPixelsTensorsAndTexts) {
  TempDir dir;
  SampleWriterOptions options = options_to(dir / "d");
  options.fields = {{"box", data::FieldKind::kTensor, DType::kF32, {2, 2}},
                    {"image", data::FieldKind::kImage, DType::kU8, {}},
                    {"caption", data::FieldKind::kBytes, DType::kU8, {}}};
  auto writer = value_or_throw(SampleWriter::open(options));
  data::Pixels pixels(7, 5, 3);
  for (size_t i = 0; i < pixels.bytes.size(); ++i) pixels.bytes[i] = static_cast<uint8_t>(i * 7);
  const std::vector<float> box = {0.5f, -1, 2, 3};
  NewSample sample;
  sample.values = {bytes_of({reinterpret_cast<const char*>(box.data()), 16}), data::encode_raw(pixels.view()),
                   bytes_of("a text")};
  throw_if_error(writer->add(sample));
  value_or_throw(writer->finish());
  const auto dataset = value_or_throw(data::Dataset::open(dir / "d"));
  const auto reader = value_or_throw(data::SampleReader::open(*dataset));
  const auto stored = value_or_throw(reader->read(0));
  EXPECT_EQ(std::memcmp(stored.view.fields[0].data(), box.data(), 16), 0);
  EXPECT_EQ(to_text(stored.view.fields[2]), "a text");
  EXPECT_EQ(stored.header.layout, data::ImageLayout::kRaw);
  std::vector<uint8_t> decoded(pixels.bytes.size());
  throw_if_error(reader->decode(stored, {decoded.data(), 7, 5, 3, 21}));
  EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), pixels.bytes.begin()));
  EXPECT_EQ(stored.view.label, -1);
}

TEST(SampleWriter, NeedsNoImage) {
  TempDir dir;
  SampleWriterOptions options = options_to(dir / "d");
  options.fields = {{"tokens", data::FieldKind::kTensor, DType::kU8, {4}},
                    {"label", data::FieldKind::kLabel, DType::kI64, {}}};
  auto writer = value_or_throw(SampleWriter::open(options));
  for (int64_t i = 0; i < 10; ++i) throw_if_error(writer->add({{bytes_of("abcd"), {}}, i % 3, ""}));
  value_or_throw(writer->finish());
  const auto dataset = value_or_throw(data::Dataset::open(dir / "d"));
  EXPECT_EQ(dataset->size(), 10);
  EXPECT_EQ(value_or_throw(dataset->header(5)).label, 2);
  ASSERT_EQ(dataset->classes().size(), 3u);
  EXPECT_EQ(dataset->classes()[2], "2");
  EXPECT_TRUE(value_or_throw(data::verify(*dataset, {.decode = true, .stop_requested = {}})).ok());
}

std::vector<std::byte> bytes_of_numbers(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// Images with objects: each a box with its class, its weight and two key points.
SampleWriterOptions objects_to(const std::string& destination) {
  SampleWriterOptions options = options_to(destination);
  using data::FieldKind;
  options.fields = {{"image", FieldKind::kImage, DType::kU8, {}},
                    {"tags", FieldKind::kLabels, DType::kI64, {}},
                    {"boxes", FieldKind::kBoxes, DType::kF32, {4}},
                    {"kind", FieldKind::kLabels, DType::kI64, {}, "boxes"},
                    {"weight", FieldKind::kTensor, DType::kF32, {}, "boxes"},
                    {"joints", FieldKind::kPoints, DType::kF32, {2, 3}, "boxes"}};
  return options;
}

NewSample two_objects() {
  NewSample sample;
  sample.values = {bytes_of(jpeg_text(1, 40, 20)),
                   {},
                   bytes_of_numbers({1, 2, 30, 4, 5, 6, 7, 8}),
                   {},
                   bytes_of_numbers({0.5f, 2}),
                   bytes_of_numbers({1, 2, 1, 3, 4, 0, 5, 6, 1, 7, 8, 1})};
  sample.labels = {{"sunny", "new"}, {"cat", "sunny"}};
  return sample;
}

TEST(SampleWriter, KeepsObjectsWithWhatIsSaidOfThem) {
  TempDir dir;
  auto writer = value_or_throw(SampleWriter::open(objects_to(dir / "d")));
  throw_if_error(writer->add(two_objects()));
  NewSample none;
  none.values = {bytes_of(jpeg_text(2, 20, 20)), {}, {}, {}, {}, {}};
  none.labels = {{}, {}};
  throw_if_error(writer->add(none));
  value_or_throw(writer->finish());

  const auto dataset = value_or_throw(data::Dataset::open(dir / "d"));
  EXPECT_EQ(std::vector<std::string>(dataset->classes().begin(), dataset->classes().end()),
            (std::vector<std::string>{"sunny", "new", "cat"}));
  const auto reader = value_or_throw(data::SampleReader::open(*dataset));
  const auto stored = value_or_throw(reader->read(0));
  const std::vector<int64_t> tags = {0, 1}, kinds = {2, 0};
  EXPECT_EQ(std::memcmp(stored.view.fields[1].data(), tags.data(), 16), 0);
  EXPECT_EQ(std::memcmp(stored.view.fields[3].data(), kinds.data(), 16), 0);
  EXPECT_EQ(stored.view.fields[5].size(), 48u);
  EXPECT_EQ(value_or_throw(reader->read(1)).view.fields[2].size(), 0u);
  EXPECT_TRUE(value_or_throw(data::verify(*dataset, {.decode = true, .stop_requested = {}})).ok());
}

TEST(SampleWriter, RefusesObjectsThatDontFitAndTheirClassesToo) {
  TempDir dir;
  auto writer = value_or_throw(SampleWriter::open(objects_to(dir / "d")));
  const auto refused = [&](auto change, std::string_view words) {
    NewSample sample = two_objects();
    change(sample);
    const Status status = writer->add(std::move(sample));
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  refused([](NewSample& s) { s.labels[1] = {"horse"}; }, "sample 0: field 'kind' has 1 row for 2 boxes");
  refused([](NewSample& s) { s.values[4] = bytes_of_numbers({1}); }, "'weight' has 1 row for 2 boxes");
  refused([](NewSample& s) { s.values[5].resize(12); }, "'joints' holds a partial row");
  refused(
      [](NewSample& s) {
        s.values[2] = bytes_of_numbers({1, 2, 3, 4, 5, 6, 4, 8});
      },
      "'boxes' holds box 2, which ends before it begins");
  refused([](NewSample& s) { s.values[4] = bytes_of_numbers({0, NAN}); }, "'weight' holds NaN or infinity");
  refused([](NewSample& s) { s.labels[0] = {"horse", int64_t{-1}}; }, "a label that is not a class");
  refused([](NewSample& s) { s.labels[0] = {"horse", std::monostate()}; }, "a label that is not a class");
  refused([](NewSample& s) { s.labels.pop_back(); }, "1 lists of labels for 2 fields");
  throw_if_error(writer->add(two_objects()));
  value_or_throw(writer->finish());
  const auto dataset = value_or_throw(data::Dataset::open(dir / "d"));
  EXPECT_EQ(dataset->classes().size(), 3u) << "a refused sample's class stayed";
}

TEST(SampleWriter, RefusesFieldsOfImpossibleForms) {
  TempDir dir;
  const auto refused = [&](const data::Field& field, std::string_view words) {
    SampleWriterOptions options = objects_to(dir / "d");
    options.fields.push_back(field);
    const Status status = SampleWriter::open(options).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  using data::FieldKind;
  refused({"b", FieldKind::kBoxes, DType::kF32, {5}}, "field 'b' holds boxes that are not");
  refused({"p", FieldKind::kPoints, DType::kF32, {2}}, "field 'p' holds points that are not");
  refused({"x", FieldKind::kLabels, DType::kI64, {}, "tags"}, "field 'x' belongs to 'tags'");
  refused({"x", FieldKind::kTensor, DType::kF32, {2}, "boxes"}, "field 'x' belongs to 'boxes'");
  refused({"b", FieldKind::kBoxes, DType::kF32, {4}, "boxes"}, "field 'b' belongs to 'boxes'");
}

TEST(SampleWriter, RefusesWhatFitsNoFieldAndGoesOn) {
  TempDir dir;
  SampleWriterOptions options = options_to(dir / "d");
  options.classes = {"cat", "dog"};
  auto writer = value_or_throw(SampleWriter::open(options));
  const std::string image = jpeg_text(1, 20, 20);
  const auto refused = [&](NewSample sample, std::string_view words) {
    const Status status = writer->add(std::move(sample));
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  refused(sample_of(image, "cta", "a"), "did you mean");
  refused(sample_of(image, int64_t{2}, "a"), "label 2 of 2 classes");
  refused(sample_of(image, int64_t{-2}, "a"), "label -2");
  refused(sample_of(image, "cat", "a", "../x"), "not a valid folder name");
  refused({{bytes_of(image)}, "cat", ""}, "1 values for 3 fields");
  throw_if_error(writer->add(sample_of(image, "cat", "a", "train")));
  refused(sample_of(image, "cat", "b"), "is in no split");
  throw_if_error(writer->add(sample_of(image, int64_t{1}, "b", "val")));
  const IngestReport report = value_or_throw(writer->finish());
  ASSERT_EQ(report.splits.size(), 2u);
  EXPECT_EQ(report.splits[0].samples + report.splits[1].samples, 2);
  EXPECT_EQ(writer->add(sample_of(image, "cat", "a", "train")).code(), ErrorCode::kMisuse);
}

TEST(SampleWriter, LabelsWithoutATableAreOfOneKind) {
  TempDir dir;
  auto writer = value_or_throw(SampleWriter::open(options_to(dir / "d")));
  const std::string image = jpeg_text(1, 20, 20);
  throw_if_error(writer->add(sample_of(image, "zebra", "a")));
  EXPECT_EQ(writer->add(sample_of(image, int64_t{0}, "b")).code(), ErrorCode::kMisuse);
  throw_if_error(writer->add(sample_of(image, "ape", "b")));
  throw_if_error(writer->add(sample_of(image, {}, "c")));
  const IngestReport report = value_or_throw(writer->finish());
  EXPECT_EQ(report.classes, (std::vector<std::string>{"zebra", "ape"}));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "d"));
  EXPECT_EQ(value_or_throw(dataset->header(2)).label, -1);
}

TEST(SampleWriter, ADamagedImageStopsItByName) {
  TempDir dir;
  auto writer = value_or_throw(SampleWriter::open(options_to(dir / "d")));
  throw_if_error(writer->add(sample_of(jpeg_text(1, 20, 20), "a", "good.jpg")));
  throw_if_error(writer->add(sample_of(jpeg_text(2, 20, 20).substr(0, 400), "a", "half.jpg")));
  const Status status = writer->finish().status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("sample 1 (half.jpg)"), std::string::npos) << status.message();
  EXPECT_EQ(writer->add(sample_of(jpeg_text(1, 20, 20), "a", "c")).message(), status.message());
  writer.reset();
  EXPECT_FALSE(std::filesystem::exists(dir / "d"));
  EXPECT_FALSE(std::filesystem::exists(dir / "d.partial")) << "nothing was committed";
}

TEST(SampleWriter, AnImageThatCantBeReadIsABadFile) {
  TempDir dir;
  for (const OnError on_error : {OnError::kStop, OnError::kSkip}) {
    const bool stops = on_error == OnError::kStop;
    SampleWriterOptions options = options_to(dir / (stops ? "stop" : "skip"));
    options.ingest.on_error = on_error;
    auto writer = value_or_throw(SampleWriter::open(options));
    for (uint64_t i = 0; i < 3; ++i) {
      NewSample sample = sample_of(i == 1 ? "" : jpeg_text(i, 16, 12), std::string("cat"), concat("s", i));
      if (i == 1) sample.problem = Status(ErrorCode::kNotFound, "row 1 of a.parquet: b.jpg: No such file");
      throw_if_error(writer->add(std::move(sample)));
    }
    const auto report = writer->finish();
    if (stops) {
      EXPECT_EQ(report.status().code(), ErrorCode::kNotFound);
      EXPECT_NE(report.status().message().find("row 1 of a.parquet: b.jpg: No such file"), std::string::npos);
    } else {
      EXPECT_EQ(value_or_throw(report).splits[0].samples, 2);
      ASSERT_EQ(report->skipped.size(), 1u);
      EXPECT_EQ(report->skipped[0].path, "s1");
    }
  }
}

TEST(SampleWriter, NothingButBadImagesOrNothingAtAllMakesNothing) {
  TempDir dir;
  SampleWriterOptions options = options_to(dir / "d");
  options.ingest.on_error = OnError::kSkip;
  auto writer = value_or_throw(SampleWriter::open(options));
  throw_if_error(writer->add(sample_of("no image", "a", "x.jpg")));
  const Status status = writer->finish().status();
  EXPECT_NE(status.message().find("no usable sample"), std::string::npos) << status.message();
  writer = value_or_throw(SampleWriter::open(options));
  EXPECT_EQ(writer->finish().status().code(), ErrorCode::kMisuse);
  writer.reset();
  EXPECT_FALSE(std::filesystem::exists(dir / "d"));
  EXPECT_FALSE(std::filesystem::exists(dir / "d.partial"));
}

TEST(SampleWriter, SaysWhatAnInterruptedOneLeft) {
  TempDir dir;
  SampleWriterOptions options = options_to(dir / "d");
  options.ingest.commit_entries = 10;
  {
    auto writer = value_or_throw(SampleWriter::open(options));
    EXPECT_EQ(SampleWriter::open(options).status().code(), ErrorCode::kMisuse) << "two at once";
    for (uint64_t i = 0; i < 2500; ++i) throw_if_error(writer->add(drawn_sample(i)));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "d"));
  const Status refused = SampleWriter::open(options).status();
  EXPECT_EQ(refused.code(), ErrorCode::kMisuse);
  EXPECT_NE(refused.message().find("'resume'"), std::string::npos) << refused.message();
  options.interrupted = Interrupted::kResume;
  options.ingest.quality = 70;
  EXPECT_NE(SampleWriter::open(options).status().message().find("--quality"), std::string::npos);
  options.ingest.quality = 90;
  options.source = "other data";
  EXPECT_NE(SampleWriter::open(options).status().message().find("now other data"), std::string::npos);
  options.source = "";
  {
    auto writer = value_or_throw(SampleWriter::open(options));
    EXPECT_GE(writer->position(), 1000);
    EXPECT_EQ(writer->position() % 10, 0);
  }
  options.interrupted = Interrupted::kRestart;
  auto writer = value_or_throw(SampleWriter::open(options));
  EXPECT_EQ(writer->position(), 0);
  throw_if_error(writer->add(drawn_sample(0)));
  EXPECT_EQ(value_or_throw(writer->finish()).splits.front().samples, 1);
}

/// Texts whose val begins long before the writer commits what stands before it: borders lie at 1000, 2000, ...
SampleWriterOptions late_val_to(const std::string& destination) {
  SampleWriterOptions options = options_to(destination);
  options.fields = {{"t", data::FieldKind::kBytes, DType::kU8, {}}};
  options.ingest.commit_entries = 1000;
  return options;
}

constexpr int64_t kLateVal = 1500, kLateEnd = 2500;

Status add_late_val(SampleWriter& writer, int64_t end) {
  for (int64_t i = writer.position(); i < end; ++i)
    DLPIPE_RETURN_IF_ERROR(writer.add({{bytes_of(concat("text ", i))}, {}, i < kLateVal ? "train" : "val"}));
  return {};
}

/// What a writer of late_val_to() leaves when it is killed after its first commit: two portions are full by then.
void interrupt_late_val(const SampleWriterOptions& options) {
  throw_if_error(add_late_val(*value_or_throw(SampleWriter::open(options)), 2100));
}

/// As a kill between the commits of the two splits leaves it: val is named, and nothing of it stands.
void name_val_in_state(const std::string& list) {
  using formats::Json;
  Json state = value_or_throw(formats::read_json(list));
  state.set("splits", Json(Json::Array{Json("train"), Json("val")}));
  throw_if_error(formats::write_file(list, state.dump(2) + "\n"));
}

TEST(SampleWriter, AResumedOneGoesOnBeforeASplitThatNobodyCommitted) {
  TempDir dir;
  auto writer = value_or_throw(SampleWriter::open(late_val_to(dir / "whole")));
  throw_if_error(add_late_val(*writer, kLateEnd));
  value_or_throw(writer->finish());

  SampleWriterOptions options = late_val_to(dir / "d");
  interrupt_late_val(options);
  options.interrupted = Interrupted::kResume;
  writer = value_or_throw(SampleWriter::open(options));
  EXPECT_EQ(writer->position(), 1000);
  throw_if_error(add_late_val(*writer, kLateEnd));
  EXPECT_EQ(value_or_throw(writer->finish()).splits.size(), 2u);
  EXPECT_TRUE(dataset_files(dir / "d") == dataset_files(dir / "whole"));

  options.ingest.destination = dir / "between";
  options.interrupted = Interrupted::kRefuse;
  interrupt_late_val(options);
  name_val_in_state(dir / "between.partial/ingest.list");
  options.interrupted = Interrupted::kResume;
  writer = value_or_throw(SampleWriter::open(options));
  EXPECT_EQ(writer->position(), 0);
  throw_if_error(add_late_val(*writer, kLateEnd));
  value_or_throw(writer->finish());
  EXPECT_TRUE(dataset_files(dir / "between") == dataset_files(dir / "whole"));
}

TEST(SampleWriter, ASplitThatDoesntComeAgainIsNamedAndNothingIsRemoved) {
  TempDir dir;
  SampleWriterOptions options = late_val_to(dir / "d");
  interrupt_late_val(options);
  name_val_in_state(dir / "d.partial/ingest.list");
  options.interrupted = Interrupted::kResume;
  for (int times = 0; times < 2; ++times) {
    auto writer = value_or_throw(SampleWriter::open(options));
    throw_if_error(add_late_val(*writer, kLateVal));
    const Status status = writer->finish().status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    expect_part(status.message(), "no sample was added to the split 'val'");
    writer.reset();
    EXPECT_TRUE(std::filesystem::exists(dir / "d.partial/train/data.mdb"));
    EXPECT_FALSE(std::filesystem::exists(dir / "d"));
  }
  auto writer = value_or_throw(SampleWriter::open(options));
  throw_if_error(add_late_val(*writer, kLateEnd));
  EXPECT_EQ(value_or_throw(writer->finish()).splits[1].samples, kLateEnd - kLateVal);
}

TEST(SampleWriter, OneThatWasOnlyToBeRenamedIsComparedToo) {
  TempDir dir;
  SampleWriterOptions options = late_val_to(dir / "d");
  options.classes = {"cat", "dog"};
  options.fields.push_back({"label", data::FieldKind::kLabel, DType::kI64, {}});
  {
    auto writer = value_or_throw(SampleWriter::open(options));
    throw_if_error(writer->add({{bytes_of("a"), {}}, "cat", ""}));
    std::filesystem::create_directory(dir / "d");  // stands in the way of the rename
    EXPECT_FALSE(writer->finish().ok());
  }
  std::filesystem::remove(dir / "d");
  options.interrupted = Interrupted::kResume;
  const auto refused = [](SampleWriterOptions changed, auto change, std::string_view words) {
    change(changed);
    const Status status = SampleWriter::open(changed).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    expect_part(status.message(), std::string(words));
  };
  refused(
      options, [](SampleWriterOptions& o) { o.ingest.zstd = true; }, "--zstd");
  refused(
      options, [](SampleWriterOptions& o) { o.fields[0].name = "x"; }, "fields t (bytes), label");
  refused(
      options, [](SampleWriterOptions& o) { o.classes = {"cat"}; }, "other options: classes");
  auto writer = value_or_throw(SampleWriter::open(options));
  EXPECT_EQ(writer->position(), 1);
  EXPECT_EQ(value_or_throw(writer->finish()).splits[0].samples, 1);
}

TEST(SampleWriter, KilledAndResumedGivesTheSameBytes) {
  TempDir dir;
  constexpr uint64_t kCount = 3000;
  SampleWriterOptions options = options_to(dir / "whole");
  options.ingest.commit_entries = 150;
  const auto begin = std::chrono::steady_clock::now();
  throw_if_error(write_all(options, kCount));
  double whole_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  const auto expected = dataset_files(dir / "whole");
  ASSERT_EQ(expected.size(), 2u);

  options.ingest.destination = dir / "killed";
  RandomStream random(2024, 1);
  int kills = 0;
  for (int round = 0; kills == 0 && round < 20; ++round) {
    std::filesystem::remove_all(dir / "killed");
    double longest = 0.25 * whole_us;
    bool is_done = false;
    while (!is_done) {
      const pid_t child = fork();
      if (child == 0) _exit(write_all(options, kCount).ok() ? 0 : 1);
      std::this_thread::sleep_for(
          std::chrono::microseconds(1 + static_cast<int64_t>(longest * random.uniform())));
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0) << "the writer failed";
        is_done = true;
      }
      is_done = is_done || std::filesystem::exists(dir / "killed");
      kills += is_done ? 0 : 1;
      longest *= 1.03;
      ASSERT_LT(kills, 1000);
    }
    EXPECT_TRUE(dataset_files(dir / "killed") == expected) << "after " << kills << " kills";
    EXPECT_FALSE(std::filesystem::exists(dir / "killed.partial"));
    whole_us /= 2;  // where nothing was killed, it was timed while the machine had other work
  }
  EXPECT_GT(kills, 0);
}

}  // namespace
}  // namespace dlpipe::ingest
