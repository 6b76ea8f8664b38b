// Ops that draw by a sample's boxes (ssd_crop, safe_crop): the same bits however they are loaded, what the chain alone makes of
// the same boxes, and with the damaged records found.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "dlpipe/augment/moving.h"
#include "dlpipe/pipeline/bench.h"
#include "dlpipe/pipeline/sampler.h"
#include "tests/io/data/temp_dir.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

constexpr int64_t kBoxedCount = 61;
const std::set<int64_t> kBoxedDamaged = {3, 17, 22};

class BoxedTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new data::TempDir;
    const DrawnOptions drawn = {.count = kBoxedCount, .object_fields = true, .mask_field = true};
    write_drawn_dataset(*dir_ / "d", drawn);
    write_drawn_dataset(*dir_ / "bad", drawn);
    for (const int64_t sample : kBoxedDamaged) flip_bit(*dir_ / "bad", sample);
    write_drawn_dataset(*dir_ / "packed",
                        {.count = kBoxedCount, .records_per_value = 4, .zstd = true, .object_fields = true});
    write_drawn_dataset(
        *dir_ / "coefficients",
        {.count = kBoxedCount, .layout = data::ImageLayout::kCoefficients, .object_fields = true});
    write_drawn_dataset(*dir_ / "plain", {.count = 16});
  }
  static void TearDownTestSuite() { delete dir_; }
  static LoaderOptions options(const std::string& name = "d") {
    LoaderOptions options = two_epochs_of(*dir_ / name);
    options.augment = "hflip brightness(0.3) ssd_crop(overlaps=0:0.1:0.3:1) resize(40x40)";
    options.fields = {"image", "mask", "boxes", "kinds", "joints", "spots"};
    return options;
  }
  static LoaderOptions pictures_alone(const std::string& name) {
    LoaderOptions o = options(name);
    o.fields = {"image"};
    return o;
  }
  static data::TempDir* dir_;
};
data::TempDir* BoxedTest::dir_ = nullptr;

TEST_F(BoxedTest, TheSameForAnyThreadsAndSlotsAndResumed) {
  expect_same_everywhere(options(), 14);
  LoaderOptions safe = options();
  safe.augment = "one_of(safe_crop | vflip(1)) resize(40x40)";
  expect_same_everywhere(safe, 14);
}

TEST_F(BoxedTest, TheSameWhereSomeAreDamaged) {
  expect_same_everywhere(options("bad"), 14);
}

TEST_F(BoxedTest, TheSameBehindAMosaicAndInEveryLayout) {
  LoaderOptions o = options("packed");
  o.fields = {"image", "boxes"};
  o.augment = "safe_crop mosaic(40) ssd_crop resize(40x40)";
  expect_same_everywhere(o, 14);
  LoaderOptions jpegs = pictures_alone("d"), coefficients = pictures_alone("coefficients");
  const auto a = open_loader(jpegs);
  const auto b = open_loader(coefficients);
  while (const auto batch = value_or_throw(a->next())) {
    const auto same = value_or_throw(b->next());
    const size_t bytes = batch->field("image")->spec->sample_bytes() * 8;
    EXPECT_EQ(std::memcmp(batch->field("image")->data, same->field("image")->data, bytes), 0);
    throw_if_error(a->release(*batch));
    throw_if_error(b->release(*same));
  }
}

TEST_F(BoxedTest, BatchesHoldWhatTheChainMakesOfTheBoxes) {
  const LoaderOptions o = options();
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const auto dataset = value_or_throw(data::Dataset::open(o.data));
  const auto loader = open_loader(o);
  size_t cropped = 0, dropped = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t sample = batch->sample_ids[static_cast<size_t>(i)];
      const data::RecordHeader header = value_or_throw(dataset->header(sample));
      DrawnObjects objects = drawn_objects(sample, header.width, header.height);
      const augment::PlannedPicture picture = {{header.width, header.height, 3}, sample, objects.boxes};
      augment::ChainPlan plan;
      throw_if_error(
          chain.plan({&picture, 1}, {o.seed, batch->epoch, batch->index * 8 + i, 0, sample}, plan));
      cropped += plan.draws[2].active ? 1u : 0u;
      const augment::Moving moving(plan);
      std::vector<uint8_t> kept;
      const std::vector<float> before = objects.boxes;
      moving.boxes(objects.boxes, kept);
      moving.points(objects.joints);
      moving.points(objects.spots);
      std::vector<float> boxes, joints;
      std::vector<int64_t> kinds;
      for (size_t b = 0; b < kept.size(); ++b) {
        dropped += kept[b] == 0 ? 1u : 0u;
        if (kept[b] == 0) continue;
        kinds.push_back(objects.kinds[b]);
        boxes.insert(boxes.end(), objects.boxes.begin() + 4 * b, objects.boxes.begin() + 4 * b + 4);
        joints.insert(joints.end(), objects.joints.begin() + 6 * b, objects.joints.begin() + 6 * b + 6);
      }
      EXPECT_TRUE(before.empty() || !plan.draws[2].active || !kinds.empty()) << "one box is kept at least";
      EXPECT_EQ(rows_of<float>(*batch, "boxes", i), boxes);
      EXPECT_EQ(rows_of<int64_t>(*batch, "kinds", i), kinds);
      EXPECT_EQ(rows_of<float>(*batch, "joints", i), joints);
      EXPECT_EQ(rows_of<float>(*batch, "spots", i), objects.spots);
      if (sample % 10 == 4) continue;
      std::vector<uint8_t> mask(40 * 40);
      const std::vector<uint8_t> drawn = drawn_mask(sample, header.width, header.height);
      moving.mask({drawn.data(), header.width, header.height, 1, header.width}, {mask.data(), 40, 40, 1, 40},
                  0);
      EXPECT_EQ(std::memcmp(batch->field("mask")->data + static_cast<size_t>(i) * mask.size(), mask.data(),
                            mask.size()),
                0);
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_GT(cropped, 30u);
  EXPECT_GT(dropped, 10u);
}

/// Which of its fields a batch holds changes no pixel.
TEST_F(BoxedTest, PicturesAloneAreCroppedByTheirBoxesToo) {
  LoaderOptions all = options(), alone = pictures_alone("d");
  const auto a = open_loader(all);
  const auto b = open_loader(alone);
  while (const auto batch = value_or_throw(a->next())) {
    const auto same = value_or_throw(b->next());
    const size_t bytes = batch->field("image")->spec->sample_bytes() * 8;
    EXPECT_EQ(std::memcmp(batch->field("image")->data, same->field("image")->data, bytes), 0);
    throw_if_error(a->release(*batch));
    throw_if_error(b->release(*same));
  }
}

TEST_F(BoxedTest, TheDamagedAreReplaced) {
  const auto loader = open_loader(options("bad"));
  std::set<int64_t> bad;
  while (const auto batch = value_or_throw(loader->next())) {
    for (const Substitution& one : batch->substitutions) bad.insert(one.bad_sample);
    for (const int64_t sample : batch->sample_ids) EXPECT_FALSE(kBoxedDamaged.contains(sample));
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(bad, kBoxedDamaged);
}

TEST_F(BoxedTest, ItsStagesAreTimed) {
  for (const char* const name : {"d", "bad"}) {
    const auto rates = value_or_throw(bench_stages(options(name), 0));
    for (const StageRate& rate : rates) EXPECT_GT(rate.samples_per_s, 0) << rate.name;
  }
  EXPECT_GT(value_or_throw(bench_decode(options(), 0)).mean_region_pixels, 0);
}

LoaderOptions pasting(LoaderOptions options) {
  options.augment = "resize(48x56) hflip brightness(0.3) copy_paste(0.8,p=0.9) rotate(10) center_crop(40)";
  options.mask_fill = 255;
  return options;
}

TEST_F(BoxedTest, PastedPicturesAreTheSameForAnyThreadsAndResumed) {
  expect_same_everywhere(pasting(options()), 14);
  expect_same_everywhere(pasting(options("bad")), 14);
  LoaderOptions cropped = pasting(options());
  cropped.augment = "resize(56x56) copy_paste(1,seen=0.3) ssd_crop(0.5..1,overlaps=0.1) resize(40x40)";
  expect_same_everywhere(cropped, 14);
}

TEST_F(BoxedTest, BatchesHoldThePastedObjects) {
  const LoaderOptions o = pasting(options());
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const auto dataset = value_or_throw(data::Dataset::open(o.data));
  const Sampler sampler({.subset = Subset::all(kBoxedCount), .batch = 8, .seed = o.seed});
  const auto loader = open_loader(o);
  size_t pasted = 0, alone = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    for (int64_t i = 0; i < 8; ++i) {
      const SampleKey key = {o.seed, batch->epoch, batch->index * 8 + i, 0,
                             batch->sample_ids[static_cast<size_t>(i)]};
      std::vector<int64_t> samples(static_cast<size_t>(chain.others(key)));
      sampler.companions(key.epoch, key.position, 0, samples);
      samples.insert(samples.begin(), key.sample);
      alone += samples.size() == 1 ? 1u : 0u;
      std::vector<DrawnObjects> objects;
      std::vector<std::vector<uint8_t>> masks;
      std::vector<augment::PlannedPicture> pictures;
      for (const int64_t sample : samples) {
        const data::RecordHeader header = value_or_throw(dataset->header(sample));
        objects.push_back(drawn_objects(sample, header.width, header.height));
        masks.push_back(drawn_mask(sample, header.width, header.height));
        pictures.push_back({{header.width, header.height, 3}, sample});
        if (sample % 10 != 4)
          pictures.back().mask = {masks.back().data(), header.width, header.height, 1, header.width};
      }
      for (size_t k = 0; k < samples.size(); ++k) {
        pictures[k].boxes = objects[k].boxes;
        pictures[k].labels = objects[k].kinds;
      }
      augment::ChainPlan plan;
      throw_if_error(chain.plan(pictures, key, plan));
      std::vector<float> boxes;
      std::vector<int64_t> kinds;
      std::vector<uint8_t> mask(40 * 40, 255);
      for (size_t k = 0; k < samples.size(); ++k) {
        const augment::Moving moving = plan.is_joined() ? augment::Moving(plan, k) : augment::Moving(plan);
        std::vector<uint8_t> kept;
        moving.boxes(objects[k].boxes, kept);
        for (size_t b = 0; b < kept.size(); ++b) {
          if (kept[b] == 0) continue;
          pasted += k > 0 ? 1u : 0u;
          kinds.push_back(objects[k].kinds[b]);
          boxes.insert(boxes.end(), objects[k].boxes.begin() + 4 * b, objects[k].boxes.begin() + 4 * b + 4);
        }
        if (pictures[k].mask.width > 0) moving.paint_mask(pictures[k].mask, {mask.data(), 40, 40, 1, 40});
      }
      EXPECT_EQ(rows_of<float>(*batch, "boxes", i), boxes);
      EXPECT_EQ(rows_of<int64_t>(*batch, "kinds", i), kinds);
      EXPECT_EQ(std::memcmp(batch->field("mask")->data + static_cast<size_t>(i) * mask.size(), mask.data(),
                            mask.size()),
                0);
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_GT(pasted, 20u);
  EXPECT_GT(alone, 2u);
}

/// Its mask has another size than its picture: found while planning, and another is drawn beside the sample.
TEST_F(BoxedTest, APictureWithAWrongMaskIsReplaced) {
  write_drawn_dataset(
      *dir_ / "wrong",
      {.count = kBoxedCount, .object_fields = true, .mask_field = true, .wrong_masks = kBoxedDamaged});
  const auto loader = open_loader(pasting(options("wrong")));
  std::set<int64_t> bad;
  while (const auto batch = value_or_throw(loader->next())) {
    for (const Substitution& one : batch->substitutions) bad.insert(one.bad_sample);
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(bad, kBoxedDamaged);
}

TEST_F(BoxedTest, PastingWithoutAMaskIsRefusedByName) {
  const std::string refused = Loader::open(pasting(pictures_alone("packed"))).status().message();
  EXPECT_NE(refused.find("copy_paste, which takes one field of boxes and one mask, and"), std::string::npos)
      << refused;
}

TEST_F(BoxedTest, ADatasetWithoutBoxesIsRefusedByName) {
  LoaderOptions o = options("plain");
  o.fields = {};
  const std::string refused = Loader::open(o).status().message();
  EXPECT_NE(refused.find("--augment has ssd_crop, which draws by boxes, and"), std::string::npos) << refused;
}

}  // namespace
}  // namespace dlpipe::pipeline
