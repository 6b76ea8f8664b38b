// What `inspect --problems` finds.
#include "io/data/problems.h"

#include <array>
#include <limits>

#include "run/ingest/sample_writer.h"
#include "tests/io/data/scenes.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

using data::Pixels;
using data::scene;

void write_png(const std::string& file, Pixels pixels) {
  write_text(file, to_text(*data::encode_png(pixels.view())));
}

/// Noise on top, as no scene has anything fine.
Pixels noisy(Pixels pixels) {
  RandomStream random(3, 3);
  for (uint8_t& value : pixels.bytes) value = static_cast<uint8_t>(value / 2 + random.below(120));
  return pixels;
}

data::ProblemReport problems_of(const std::vector<std::string>& directories, int threads) {
  std::vector<std::shared_ptr<const data::Dataset>> splits;
  for (const std::string& directory : directories)
    splits.push_back(value_or_throw(data::Dataset::open(directory)));
  return value_or_throw(data::find_problems(splits, {threads, 178'956'970, {}}));
}

/// "0 dark c0/1.png", ... of all images; the split, the problem, the path and the detail.
std::vector<std::string> texts_of(const data::ProblemReport& report) {
  std::vector<std::string> texts;
  for (const auto& image : report.images)
    texts.push_back(std::to_string(image.place.split) + " " + image.problem + " " + image.place.path +
                    (image.detail.empty() ? "" : ": " + image.detail));
  return texts;
}

TEST(Problems, NumbersThatAreNotFinite) {
  TempDir dir;
  SampleWriterOptions options;
  options.ingest.destination = dir / "data";
  options.fields = {{"image", data::FieldKind::kImage, DType::kU8, {}},
                    {"x", data::FieldKind::kTensor, DType::kF32, {2}}};
  const auto writer = value_or_throw(SampleWriter::open(options));
  for (const float second :
       {1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f, -std::numeric_limits<float>::infinity()}) {
    const std::array<float, 2> numbers = {0.5f, second};
    const auto bytes = std::as_bytes(std::span(numbers));
    const std::string image = to_text(*data::encode_png(noisy(scene(7, 96, 72)).view()));
    const auto of_image = std::as_bytes(std::span(image));
    throw_if_error(writer->add({{{of_image.begin(), of_image.end()}, {bytes.begin(), bytes.end()}}, {}, {}}));
  }
  throw_if_error(writer->finish().status());
  const std::vector<std::string> texts = texts_of(problems_of({dir / "data"}, 2));
  EXPECT_EQ(std::ranges::count_if(
                texts, [](const std::string& text) { return text.find("not finite") != text.npos; }),
            2)
      << texts.size();
}

TEST(Problems, OfImages) {
  TempDir dir;
  for (uint64_t i = 0; i < 12; ++i)
    write_png(dir / ("src/c" + std::to_string(i % 2) + "/" + std::to_string(100 + i) + ".png"),
              noisy(scene(i, 96, 72)));
  write_png(dir / "src/c0/blurred.png", scene(50, 96, 72));
  // So blurred that at full size only rounding is left.
  write_png(dir / "src/c0/very blurred.png", scene(54, 256, 192, {.side = 0.2}));
  Pixels dark = noisy(scene(51, 96, 72));
  for (uint8_t& value : dark.bytes) value /= 4;
  write_png(dir / "src/c0/dark.png", dark);
  Pixels grey(96, 72, 1);
  std::fill(grey.bytes.begin(), grey.bytes.end(), uint8_t{200});
  write_png(dir / "src/c1/grey.png", grey);
  write_png(dir / "src/c1/long.png", noisy(scene(52, 240, 40)));
  write_png(dir / "src/c1/small.png", noisy(scene(53, 20, 18)));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  value_or_throw(ingest(options));
  const data::ProblemReport report = problems_of({dir / "dst"}, 1);
  EXPECT_EQ(report.samples, 18);
  EXPECT_EQ(texts_of(report),
            (std::vector<std::string>{"0 odd size c1/small.png: 20x18", "0 odd shape c1/long.png: 240x40",
                                      "0 one colour c1/grey.png", "0 dark c0/dark.png",
                                      "0 blurred c0/blurred.png", "0 blurred c0/very blurred.png"}));
  EXPECT_TRUE(report.alike.empty());
  EXPECT_TRUE(report.classes.empty());
  EXPECT_EQ(texts_of(problems_of({dir / "dst"}, 3)), texts_of(report));
}

TEST(Problems, OfCopiesInSplitsAndOfRareClasses) {
  TempDir dir;
  for (uint64_t i = 0; i < 40; ++i)
    write_png(dir / ("src/" + std::string(i < 8 ? "val" : "train") + "/often/" + std::to_string(i) + ".png"),
              scene(i, 48, 48));
  write_png(dir / "src/train/once/40.png", scene(40, 48, 48));
  write_png(dir / "src/train/often/a copy.png", scene(3, 48, 48));
  write_png(dir / "src/train/often/b mirrored.png", scene(4, 60, 60, {.mirrored = true}));
  write_text(dir / "src/train/often/c the same.png",
             file_text(dir / "src/val/often/5.png") + "after its end");
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  const data::ProblemReport report = problems_of({dir / "dst/train", dir / "dst/val"}, 2);
  ASSERT_EQ(report.classes.size(), 1u);
  EXPECT_EQ(report.classes[0].name, "once");
  EXPECT_EQ(report.classes[0].field, "label");
  EXPECT_EQ(report.classes[0].samples, 1);
  std::vector<std::string> pairs;
  for (const auto& pair : report.alike)
    pairs.push_back(pair.first.path + " " + pair.second.path + " " + pair.same + (pair.mirrored ? "!" : ""));
  EXPECT_EQ(pairs, (std::vector<std::string>{"often/a copy.png often/3.png bytes",
                                             "often/b mirrored.png often/4.png look!",
                                             "often/c the same.png often/5.png pixels"}));
}

TEST(Problems, OfAnnotations) {
  TempDir dir;
  for (int i = 0; i < 3; ++i)
    write_png(dir / ("src/" + std::to_string(i) + ".png"), scene(uint64_t(i), 40, 40));
  Pixels mask(40, 40, 1);
  write_png(dir / "src/good.mask.png", mask);
  for (int i = 0; i < 5; ++i) mask.bytes[static_cast<size_t>(i)] = 9;
  mask.bytes[7] = 255;
  write_png(dir / "src/bad.mask.png", mask);
  write_text(
      dir / "src/list.jsonl",
      R"({"path": "0.png", "box": [[1, 2, 9, 9], [3, 3, 3, 8]], "kind": ["cat", "dog"], "mask": "good.mask.png"}
{"path": "1.png", "box": [[1, 2, 9, 9]], "kind": ["cat"], "mask": "bad.mask.png"}
{"path": "2.png", "box": [], "kind": [], "mask": "good.mask.png"}
)");
  IngestOptions options = options_for(dir / "src/list.jsonl", dir / "dst");
  options.fields = {"box:boxes", "kind:labels:box", "mask:mask"};
  value_or_throw(ingest(options));
  const data::ProblemReport report = problems_of({dir / "dst"}, 1);
  std::vector<std::string> texts = texts_of(report);
  std::erase_if(texts, [](const std::string& text) { return text.find("blurred") != std::string::npos; });
  EXPECT_EQ(texts, (std::vector<std::string>{"0 empty box 0.png: box 3,3,3,8",
                                             "0 unknown class 1.png: mask: 5 pixels of 9"}));
  std::vector<std::string> classes;
  for (const auto& one : report.classes)
    classes.push_back(one.field + " " + one.name + " " + std::to_string(one.samples));
  EXPECT_EQ(classes, (std::vector<std::string>{"kind dog 1", "mask 9 1"}));
}

TEST(Problems, UnreadableImagesAreNamed) {
  TempDir dir;
  write_images(dir / "src", 4, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.store = Store::kLink;
  value_or_throw(ingest(options));
  write_text(dir / "src/c1/1001.jpg", "changed");
  const data::ProblemReport report = problems_of({dir / "dst"}, 2);
  ASSERT_FALSE(report.images.empty());
  EXPECT_EQ(report.images[0].problem, data::kUnreadable);
  EXPECT_EQ(report.images[0].place.sample, 2);
}

}  // namespace
}  // namespace dlpipe::ingest
