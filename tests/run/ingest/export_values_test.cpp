// What the list of an export holds of fields, masks and classes, and what its report says that it doesn't.
#include <bit>
#include <cstring>

#include "base/text.h"
#include "dlpipe/dtype.h"
#include "io/data/export.h"
#include "io/data/sample.h"
#include "run/ingest/sample_writer.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

using data::Field;
using data::FieldKind;

std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<std::byte> values(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// A dataset of images with these fields behind them; `samples` has their values.
void write_dataset(const std::string& destination, const std::vector<Field>& fields,
                   const std::vector<std::vector<std::vector<std::byte>>>& samples) {
  SampleWriterOptions options;
  options.ingest.destination = destination;
  options.fields = {{"image", FieldKind::kImage, DType::kU8, {}},
                    {"path", FieldKind::kBytes, DType::kU8, {}}};
  options.fields.insert(options.fields.end(), fields.begin(), fields.end());
  auto writer = value_or_throw(SampleWriter::open(options));
  for (size_t i = 0; i < samples.size(); ++i) {
    NewSample sample;
    sample.values = {to_bytes(jpeg_text(i, 16, 12)), to_bytes(concat(i, ".jpg"))};
    sample.values.insert(sample.values.end(), samples[i].begin(), samples[i].end());
    throw_if_error(writer->add(sample));
  }
  value_or_throw(writer->finish());
}

data::ExportReport export_all(const std::string& from, const std::string& to) {
  const auto dataset = value_or_throw(data::Dataset::open(from));
  return value_or_throw(data::export_files(*dataset, {.directory = to, .stop_requested = {}}));
}

/// A field's bytes, sample by sample.
std::vector<std::string> field_of(const std::string& directory, const std::string& name) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  const auto reader = value_or_throw(data::SampleReader::open(*dataset));
  std::vector<std::string> all;
  for (size_t f = 0; f < dataset->fields().size(); ++f) {
    for (int64_t i = 0; dataset->fields()[f].name == name && i < dataset->size(); ++i)
      all.push_back(to_text(value_or_throw(reader->read(i)).view.fields[f]));
  }
  return all;
}

TEST(ExportValues, TheReportNamesWhatComesBackChanged) {
  TempDir dir;
  write_dataset(dir / "data",
                {{"id", FieldKind::kTensor, DType::kI64, {1}},
                 {"half", FieldKind::kTensor, DType::kF16, {2}},
                 {"low", FieldKind::kTensor, DType::kBF16, {1}},
                 {"exact", FieldKind::kTensor, DType::kF64, {2, 2}},
                 {"score", FieldKind::kTensor, DType::kF32, {1}},
                 {"blob", FieldKind::kBytes, DType::kU8, {}},
                 {"note", FieldKind::kBytes, DType::kU8, {}}},
                {{values<int64_t>({16'777'217}), values<Float16>({Float16(0.5f), Float16(-1)}),
                  values<BFloat16>({BFloat16(3)}), values<double>({0.1, 1, 2, 3}), values<float>({0.1f}),
                  to_bytes("\xff\xfe"), to_bytes("caf\xc3\xa9")},
                 {values<int64_t>({-3}), values<Float16>({Float16(2), Float16(65504)}),
                  values<BFloat16>({BFloat16(-0.25f)}), values<double>({0.5, 1, 2, 3}),
                  values<float>({1e-30f}), to_bytes("a"), to_bytes("b")}});
  EXPECT_EQ(export_all(dir / "data", dir / "out").changed,
            (std::vector<std::string>{"'exact' as [4]",
                                      "'blob' without the bytes that are not UTF-8 in 1 sample"}));
  value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  const auto again = value_or_throw(data::Dataset::open(dir / "again"));
  for (const Field& field : dataset->fields()) {
    const auto same = std::find_if(again->fields().begin(), again->fields().end(),
                                   [&](const Field& one) { return one.name == field.name; });
    ASSERT_NE(same, again->fields().end()) << field.name;
    EXPECT_EQ(same->dtype, field.dtype) << field.name;
  }
  for (const char* same : {"id", "half", "low", "exact", "score", "note"})
    EXPECT_EQ(field_of(dir / "again", same), field_of(dir / "data", same)) << same;
}

// COCO's key points are several for each box, for which lists have no word.
TEST(ExportValues, PointsOfBoxesAreReadBackAsText) {
  TempDir dir;
  write_dataset(dir / "data",
                {{"boxes", FieldKind::kBoxes, DType::kF32, {4}},
                 {"points", FieldKind::kPoints, DType::kF32, {2, 3}, "boxes"},
                 {"eyes", FieldKind::kPoints, DType::kF32, {3}}},
                {{values<float>({0, 0, 9, 9}), values<float>({1, 1, 2, 3, 3, 2}), values<float>({4, 4, 1})}});
  EXPECT_EQ(export_all(dir / "data", dir / "out").changed, std::vector<std::string>{"'points' as text"});
  value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  EXPECT_EQ(field_of(dir / "again", "points"), std::vector<std::string>{"[[1.0,1.0,2.0,3.0,3.0,2.0]]"});
  for (const char* same : {"boxes", "eyes"})
    EXPECT_EQ(field_of(dir / "again", same), field_of(dir / "data", same)) << same;
}

TEST(ExportValues, MasksOfImagesThatDifferInTheirEndingAreFilesOfTheirOwn) {
  TempDir dir;
  std::string list = "{\"fields\": [\"mask:mask\"]}\n";
  for (const std::string name : {"a.png", "a.jpg", "a-1.jpg"}) {
    data::Pixels mask(16, 12, 1);
    std::fill(mask.bytes.begin(), mask.bytes.end(), static_cast<uint8_t>(name.size() + (name[2] == 'p')));
    const std::string jpeg = jpeg_text(name.size(), 16, 12);
    data::Pixels image(16, 12, 3);
    write_text(dir / "src/" + name,
               name == "a.png" ? to_text(value_or_throw(data::encode_png(image.view()))) : jpeg);
    write_text(dir / "src/m/" + name + ".png", to_text(value_or_throw(data::encode_png(mask.view()))));
    list += concat(R"({"path": ")", name, R"(", "label": "c", "mask": "m/)", name, ".png\"}\n");
  }
  write_text(dir / "src/list.jsonl", list);
  value_or_throw(ingest(options_for(dir / "src/list.jsonl", dir / "data")));
  EXPECT_EQ(export_all(dir / "data", dir / "out").files, 3);
  value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again")));
  EXPECT_EQ(field_of(dir / "again", "path"), field_of(dir / "data", "path"));
  EXPECT_EQ(field_of(dir / "again", "mask"), field_of(dir / "data", "mask"));
}

TEST(ExportValues, AClassWithAZeroByteHasAFolderOfItsOwn) {
  TempDir dir;
  const std::string odd("x\0y", 3);
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.classes = {"x", odd};
  auto writer = value_or_throw(SampleWriter::open(options));
  for (const int64_t label : {0, 1}) {
    const std::string image = jpeg_text(static_cast<uint64_t>(label), 16, 12);
    throw_if_error(writer->add({{to_bytes(image), {}, to_bytes("1.jpg")}, label, ""}));
  }
  value_or_throw(writer->finish());
  EXPECT_EQ(export_all(dir / "data", dir / "out").list, "fields.jsonl");
  EXPECT_TRUE(std::filesystem::exists(dir / "out/x/1.jpg"));
  EXPECT_TRUE(std::filesystem::exists(dir / "out/x_y/1.jpg"));
  EXPECT_EQ(value_or_throw(ingest(options_for(dir / "out/fields.jsonl", dir / "again"))).classes,
            (std::vector<std::string>{"x", odd}));
}

}  // namespace
}  // namespace dlpipe::ingest
