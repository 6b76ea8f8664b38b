#include "run/ingest/synth.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/random.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

TEST(Synth, EqualSeedsGiveEqualFilesWhateverTheThreads) {
  TempDir dir;
  SynthOptions options;
  options.per_class = 5;
  options.size_min = 24;
  options.size_max = 40;
  for (const auto& [name, seed, jobs] :
       {std::tuple("a", 3, 1), std::tuple("b", 3, 4), std::tuple("c", 4, 1)}) {
    options.directory = dir / name;
    options.seed = static_cast<uint64_t>(seed);
    options.jobs = jobs;
    const SynthReport report = value_or_throw(synth(options));
    EXPECT_EQ(report.files, 50);
    EXPECT_EQ(report.classes.size(), 10u);
  }
  const auto a = dataset_files(dir / "a");
  EXPECT_EQ(a.size(), 50u);
  EXPECT_TRUE(a == dataset_files(dir / "b"));
  EXPECT_FALSE(a == dataset_files(dir / "c"));
  EXPECT_EQ(a.begin()->first, "bar/00000.jpg");
}

TEST(Synth, ImagesAreDecodableAndOfTheSizesAskedFor) {
  SynthOptions options;
  options.size_min = 20;
  options.size_max = 30;
  data::ImageDecoder decoder;
  bool differ = false;
  for (int i = 0; i < 40; ++i) {
    const std::vector<std::byte> bytes = value_or_throw(draw_image(i % 10, i, options));
    const data::ImageInfo info = value_or_throw(data::probe_image(bytes));
    EXPECT_GE(std::min(info.width, info.height), 20);
    EXPECT_LE(std::max(info.width, info.height), 30);
    differ = differ || info.width != info.height;
    data::Pixels pixels(info.width, info.height, 3);
    EXPECT_TRUE(decoder.decode(bytes, {0, 0, info.width, info.height}, pixels.view()).ok());
  }
  EXPECT_TRUE(differ);
}

// What a linear model would live on: the mean image of a class. It must not tell classes apart, so it must
// be as flat as the mean of images of all classes.
TEST(Synth, MeanImagesOfClassesAreAlike) {
  SynthOptions options;
  options.size_min = options.size_max = 24;
  constexpr int kImages = 150;
  data::ImageDecoder decoder;
  std::vector<std::vector<double>> means;
  for (int c = 0; c < 10; ++c) {
    std::vector<double> mean(24 * 24 * 3);
    for (int i = 0; i < kImages; ++i) {
      data::Pixels pixels(24, 24, 3);
      const auto bytes = value_or_throw(draw_image(c, i, options));
      ASSERT_TRUE(decoder.decode(bytes, {0, 0, 24, 24}, pixels.view()).ok());
      for (size_t p = 0; p < mean.size(); ++p) mean[p] += pixels.bytes[p] / double{kImages};
    }
    means.push_back(mean);
  }
  // Single pixels vary by about 65 grey levels, so means of 150 by about 5.3; a shape that showed through
  // would be off by tens.
  for (const auto& mean : means) {
    for (const auto& other : means) {
      double squares = 0;
      for (size_t p = 0; p < mean.size(); ++p) squares += (mean[p] - other[p]) * (mean[p] - other[p]);
      EXPECT_LT(std::sqrt(squares / static_cast<double>(mean.size())), 13.0);
    }
  }
}

TEST(Synth, ShapesFitTheUnitCircleAndDiffer) {
  const auto& shapes = synth_shapes();
  ASSERT_EQ(shapes.size(), 10u);
  EXPECT_TRUE(std::is_sorted(shapes.begin(), shapes.end(), [](const SynthShape& a, const SynthShape& b) {
    return std::string(a.name) < b.name;
  }));
  for (const SynthShape& shape : shapes) {
    int inside = 0;
    int outside_circle = 0;
    for (int y = -130; y <= 130; ++y) {
      for (int x = -130; x <= 130; ++x) {
        if (!shape.contains(x / 100.0, y / 100.0)) continue;
        ++inside;
        outside_circle += x * x + y * y > 130 * 130 ? 1 : 0;
      }
    }
    EXPECT_GT(inside, 2500) << shape.name;  // of 31416 in the unit circle
    EXPECT_EQ(outside_circle, 0) << shape.name;
  }
}

// A C library's angles would move the edges of shapes with another version of it.
TEST(Synth, ShapesAreTheseEverywhere) {
  uint64_t hash = 0;
  for (const SynthShape& shape : synth_shapes()) {
    RandomStream random(6, 0);
    for (int i = 0; i < 10000; ++i) {
      const double x = 2.4 * random.uniform_double() - 1.2, y = 2.4 * random.uniform_double() - 1.2;
      hash = philox_mix(hash, shape.contains(x, y) ? 1 : 0);
    }
  }
  EXPECT_EQ(hash, 14628754952667657960u);
}

TEST(Synth, MistakesAreNamed) {
  TempDir dir;
  const auto message = [&](auto change) {
    SynthOptions options;
    options.directory = dir / "out";
    change(options);
    return synth(options).status().message();
  };
  EXPECT_NE(message([](auto& o) { o.per_class = 0; }).find("--per-class 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.size_min = 5; }).find("--size 5..32"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.size_min = 64; }).find("--size 64..32"), std::string::npos);
  EXPECT_NE(message([&](auto& o) { o.directory = dir.path(); }).find("already exists"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::ingest
