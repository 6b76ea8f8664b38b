// Ops that draw by a sample's boxes (ssd_crop, safe_crop): the same bits however they are loaded, what the chain alone makes of
// the same boxes, and with the corrupt records found.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "augment/kinds.h"
#include "pipeline/bench.h"
#include "pipeline/plan/sampler.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/pipeline/moved_objects.h"

namespace dlpipe::pipeline {
namespace {

constexpr int64_t kBoxedCount = 61;
const std::set<int64_t> kBoxedDamaged = {3, 17, 22};

class BoxedTest : public DatasetTest<BoxedTest> {
 public:
  static void write_datasets() {
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

 protected:
  static LoaderOptions options(const std::string& name = "d") {
    LoaderOptions options = two_epochs_of(*dir_ / name);
    options.augment = "hflip brightness(0.3) ssd_crop(overlaps=0:0.1:0.3:1) resize(40x40)";
    options.fields = {"image", "mask", "boxes", "kinds", "joints", "spots"};
    return options;
  }
};

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
  expect_same_images(images_alone(options()), images_alone(options("coefficients")));
}

TEST_F(BoxedTest, BatchesHoldWhatTheChainMakesOfTheBoxes) {
  const LoaderOptions o = options();
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const auto dataset = value_or_throw(data::Dataset::open(o.data));
  const auto loader = open_loader(o);
  size_t cropped = 0, dropped = 0;
  read_all(*loader, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) {
      const int64_t sample = batch.sample_ids[static_cast<size_t>(i)];
      const data::RecordHeader header = value_or_throw(dataset->header(sample));
      const DrawnObjects objects = drawn_objects(sample, header.width, header.height);
      const augment::PlannedImage image = {{header.width, header.height, 3}, sample, objects.boxes};
      augment::ChainPlan plan;
      throw_if_error(chain.plan({&image, 1}, key_of(o, batch, i), plan));
      cropped += plan.draws[2].active ? 1u : 0u;
      const augment::Moving moving(plan);
      MovedObjects moved;
      const size_t kept = moved.add(moving, objects);
      dropped += moved.dropped;
      EXPECT_TRUE(objects.boxes.empty() || !plan.draws[2].active || kept > 0) << "one box is kept at least";
      moved.expect_in(batch, i);
      if (sample % 10 == 4) continue;
      std::vector<uint8_t> mask(40 * 40);
      const std::vector<uint8_t> drawn = drawn_mask(sample, header.width, header.height);
      moving.mask({drawn.data(), header.width, header.height, 1, header.width}, {mask.data(), 40, 40, 1, 40},
                  0);
      EXPECT_TRUE(std::ranges::equal(bytes_of_sample(batch, "mask", i), std::as_bytes(std::span(mask))));
    }
  });
  EXPECT_GT(cropped, 30u);
  EXPECT_GT(dropped, 10u);
}

std::atomic<int64_t> boxes_met = 0;

/// A program's own: its class alone says that it draws by boxes and drops them.
class DropAll final : public augment::CopyingOp<augment::BoxedOp>, public augment::BoxJudge {
 public:
  explicit DropAll(augment::OpArguments&) {}
  Status plan_around(std::span<const augment::MovedBox> boxes, const augment::ImageSize&, RandomStream&,
                     augment::OpDraw& draw) const override {
    boxes_met += static_cast<int64_t>(boxes.size());
    draw.crop_only = true;
    return {};
  }
  bool keeps(const augment::OpDraw&, const augment::MovedBox&) const override { return false; }
};

TEST_F(BoxedTest, AProgramsOwnOpGetsBoxesByItsClass) {
  static const augment::OpRecord record{"drop_all", "drops all boxes", 1, {}, augment::build_op<DropAll>};
  augment::OpRegistry registry = augment::OpRegistry::builtin();
  registry.add(record);
  LoaderOptions o = options();
  o.ops = &registry;
  o.augment = "drop_all resize(40x40)";
  o.fields = {"image", "boxes"};
  boxes_met = 0;
  read_all(*open_loader(o), [](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) EXPECT_TRUE(rows_of<float>(batch, "boxes", i).empty());
  });
  EXPECT_GT(boxes_met, kBoxedCount);
  o.data = (*dir_ / "plain");
  o.fields.clear();
  const auto without = Loader::open(o);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.status().message().find("drop_all, which needs boxes"), std::string::npos)
      << without.status().message();
}

/// Which of its fields a batch holds changes no pixel.
TEST_F(BoxedTest, ImagesAloneAreCroppedByTheirBoxesToo) {
  expect_same_images(options(), images_alone(options()));
}

TEST_F(BoxedTest, TheDamagedAreReplaced) {
  EXPECT_EQ(replaced_samples(*open_loader(options("bad"))), kBoxedDamaged);
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

TEST_F(BoxedTest, PastedImagesAreTheSameForAnyThreadsAndResumed) {
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
  read_all(*loader, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) {
      const SampleKey key = key_of(o, batch, i);
      std::vector<int64_t> samples(static_cast<size_t>(chain.others(key)));
      sampler.companions(key.epoch, key.position, 0, samples);
      samples.insert(samples.begin(), key.sample);
      alone += samples.size() == 1 ? 1u : 0u;
      std::vector<DrawnObjects> objects;
      std::vector<std::vector<uint8_t>> masks;
      std::vector<augment::PlannedImage> images;
      for (const int64_t sample : samples) {
        const data::RecordHeader header = value_or_throw(dataset->header(sample));
        objects.push_back(drawn_objects(sample, header.width, header.height));
        masks.push_back(drawn_mask(sample, header.width, header.height));
        images.push_back({{header.width, header.height, 3}, sample});
        if (sample % 10 != 4)
          images.back().mask = {masks.back().data(), header.width, header.height, 1, header.width};
      }
      for (size_t k = 0; k < samples.size(); ++k) {
        images[k].boxes = objects[k].boxes;
        images[k].labels = objects[k].kinds;
      }
      augment::ChainPlan plan;
      throw_if_error(chain.plan(images, key, plan));
      MovedObjects moved;
      std::vector<uint8_t> mask(40 * 40, 255);
      for (size_t k = 0; k < samples.size(); ++k) {
        const augment::Moving moving = plan.is_joined() ? augment::Moving(plan, k) : augment::Moving(plan);
        pasted += moved.add(moving, objects[k]) * (k > 0 ? 1u : 0u);
        if (images[k].mask.width > 0) moving.paint_mask(images[k].mask, {mask.data(), 40, 40, 1, 40});
      }
      moved.expect_in(batch, i);
      EXPECT_TRUE(std::ranges::equal(bytes_of_sample(batch, "mask", i), std::as_bytes(std::span(mask))));
    }
  });
  EXPECT_GT(pasted, 20u);
  EXPECT_GT(alone, 2u);
}

/// Its mask has another size than its image: found while planning, and another is drawn beside the sample.
TEST_F(BoxedTest, AnImageWithAWrongMaskIsReplaced) {
  write_drawn_dataset(
      *dir_ / "wrong",
      {.count = kBoxedCount, .object_fields = true, .mask_field = true, .wrong_masks = kBoxedDamaged});
  EXPECT_EQ(replaced_samples(*open_loader(pasting(options("wrong")))), kBoxedDamaged);
}

TEST_F(BoxedTest, PastingWithoutAMaskIsRefusedByName) {
  const std::string refused = Loader::open(pasting(images_alone(options("packed")))).status().message();
  EXPECT_NE(refused.find("copy_paste, which needs one field of boxes and one mask, but"), std::string::npos)
      << refused;
}

/// As where no op looks at boxes, and the chain is planned before the record is there.
TEST_F(BoxedTest, AChainThatCannotTakeAnImageEndsTheStreamAndBlamesNoRecord) {
  for (const OnBadRecord on_bad : {OnBadRecord::kSubstitute, OnBadRecord::kDrop}) {
    LoaderOptions o = options();
    o.on_bad = on_bad;
    o.augment = "ssd_crop random_crop(500) resize(32x32)";
    o.quarantine_file = *dir_ / "quarantine.txt";
    const auto loader = open_loader(o);
    const Status late = read_to_error(*loader);
    EXPECT_NE(late.message().find("is smaller than the crop of 500x500"), std::string::npos)
        << late.message();
    EXPECT_TRUE(loader->state().bad_samples.empty());
    EXPECT_FALSE(std::filesystem::exists(o.quarantine_file));
    o.augment = "random_crop(500) resize(32x32)";
    const Status early = read_to_error(*open_loader(o));
    EXPECT_NE(early.message().find("is smaller than the crop of 500x500"), std::string::npos)
        << early.message();
    EXPECT_EQ(early.code(), late.code());
    EXPECT_FALSE(bench_decode(o, 0).ok());
  }
}

TEST_F(BoxedTest, ADatasetWithoutBoxesIsRefusedByName) {
  LoaderOptions o = options("plain");
  o.fields = {};
  const std::string refused = Loader::open(o).status().message();
  EXPECT_NE(refused.find("--augment has ssd_crop, which needs boxes, but"), std::string::npos) << refused;
}

}  // namespace
}  // namespace dlpipe::pipeline
