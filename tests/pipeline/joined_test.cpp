// Images put together from several of the dataset (mosaic): the same bits however they are loaded, with the boxes, points,
// labels and masks of all, and without the corrupt ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "pipeline/plan/sampler.h"
#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/pipeline/moved_objects.h"

namespace dlpipe::pipeline {
namespace {

constexpr int kSide = 48;
constexpr int64_t kCount = 61;
const std::set<int64_t> kDamaged = {3, 17, 22};

class JoinedTest : public DatasetTest<JoinedTest> {
 public:
  static void write_datasets() {
    const DrawnOptions drawn = {.count = kCount, .size = kSide, .object_fields = true, .mask_field = true};
    write_drawn_dataset(*dir_ / "d", drawn);
    DrawnOptions bad = drawn;
    bad.truncated = kDamaged;
    write_drawn_dataset(*dir_ / "bad", bad);
    write_drawn_dataset(*dir_ / "sizes", {.count = kCount});
    write_drawn_dataset(*dir_ / "packed",
                        {.count = kCount, .records_per_value = 4, .zstd = true, .object_fields = true});
    write_drawn_dataset(*dir_ / "coefficients",
                        {.count = kCount, .layout = data::ImageLayout::kCoefficients});
  }

 protected:
  static LoaderOptions options(const std::string& name = "d") {
    LoaderOptions options = two_epochs_of(*dir_ / name);
    options.augment = "hflip brightness(0.3) mosaic(40) rotate(10) center_crop(56)";
    options.fields = {"image", "mask", "boxes", "kinds", "scores", "joints", "tags", "spots", "caption"};
    options.mask_fill = 255;
    return options;
  }
};

TEST_F(JoinedTest, TheSameForAnyThreadsAndSlotsAndResumed) {
  expect_same_everywhere(options(), 14);
}

TEST_F(JoinedTest, TheSameWhereSomeAreDamaged) {
  expect_same_everywhere(options("bad"), 14);
}

TEST_F(JoinedTest, TheSameForManySizesAndInEveryLayout) {
  expect_same_everywhere(images_alone(options("sizes")), 14);
  expect_same_everywhere(images_alone(options("packed")), 14);
  expect_same_images(images_alone(options("sizes")), images_alone(options("coefficients")));
}

TEST_F(JoinedTest, BatchesHoldTheFieldsOfAllImages) {
  const LoaderOptions o = options();
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const Sampler sampler({.subset = Subset::all(kCount), .batch = 8, .seed = o.seed});
  const auto loader = open_loader(o);
  size_t boxes_of_others = 0;
  read_all(*loader, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) {
      const SampleKey key = key_of(o, batch, i);
      std::array<int64_t, 4> samples = {key.sample};
      sampler.companions(key.epoch, key.position, 0, std::span(samples).last(3));
      std::vector<augment::PlannedImage> images;
      for (const int64_t sample : samples) images.push_back({{kSide, kSide, 3}, sample});
      augment::ChainPlan plan;
      throw_if_error(chain.plan(images, key, plan));
      MovedObjects moved;
      std::set<int64_t> tags;
      std::vector<uint8_t> mask(56 * 56, 255);
      for (size_t k = 0; k < samples.size(); ++k) {
        const augment::Moving moving(plan, k);
        const DrawnObjects objects = drawn_objects(samples[k], kSide, kSide);
        boxes_of_others += moved.add(moving, objects) * (k > 0 ? 1u : 0u);
        if (plan.images[k].needed.width > 0) tags.insert(objects.tags.begin(), objects.tags.end());
        if (samples[k] % 10 == 4) continue;
        const std::vector<uint8_t> drawn = drawn_mask(samples[k], kSide, kSide);
        moving.paint_mask({drawn.data(), kSide, kSide, 1, kSide}, {mask.data(), 56, 56, 1, 56});
      }
      moved.expect_in(batch, i);
      const std::vector<int64_t> seen = rows_of<int64_t>(batch, "tags", i);
      EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()), tags);
      EXPECT_EQ(seen.size(), tags.size());
      const std::vector<char> caption = rows_of<char>(batch, "caption", i);
      EXPECT_EQ(std::string(caption.begin(), caption.end()), drawn_objects(samples[0], kSide, kSide).caption);
      EXPECT_TRUE(std::ranges::equal(bytes_of_sample(batch, "mask", i), std::as_bytes(std::span(mask))));
    }
  });
  EXPECT_GT(boxes_of_others, 20u);
}

TEST_F(JoinedTest, WhereAnotherImageIsDamagedTheSampleStays) {
  const auto loader = open_loader(options("bad"));
  const auto whole = open_loader(options());
  std::set<int64_t> bad;
  int kept = 0;
  read_side_by_side(*loader, *whole, [&](const Batch& batch, const Batch& undamaged) {
    for (const Substitution& one : batch.substitutions) {
      bad.insert(one.bad_sample);
      EXPECT_TRUE(kDamaged.contains(one.bad_sample)) << one.bad_sample;
      EXPECT_FALSE(kDamaged.contains(one.used_sample)) << one.used_sample;
      const auto i = static_cast<size_t>(one.position - batch.index * 8);
      const int64_t own = undamaged.sample_ids[i];
      if (kDamaged.contains(own)) continue;
      EXPECT_EQ(batch.sample_ids[i], own);
      ++kept;
    }
    for (const int64_t sample : batch.sample_ids) EXPECT_FALSE(kDamaged.contains(sample));
  });
  EXPECT_EQ(bad, kDamaged);
  EXPECT_GT(kept, 5);
}

TEST_F(JoinedTest, DroppedAndStoppedNameTheDamagedOne) {
  LoaderOptions o = options("bad");
  o.on_bad = OnBadRecord::kDrop;
  const auto loader = open_loader(o);
  int64_t dropped = 0;
  read_all(*loader, [&](const Batch& batch) {
    for (const Substitution& one : batch.substitutions) {
      EXPECT_TRUE(kDamaged.contains(one.bad_sample)) << one.bad_sample;
      EXPECT_EQ(batch.weight[static_cast<size_t>(one.position - batch.index * 8)], 0.0f);
      ++dropped;
    }
  });
  EXPECT_GT(dropped, 5);
  o.on_bad = OnBadRecord::kStop;
  const std::string stopped = read_to_error(*open_loader(o)).message();
  EXPECT_NE(stopped.find("bad sample"), std::string::npos) << stopped;
  bool is_named = false;
  for (const int64_t sample : kDamaged)
    is_named = is_named || stopped.find("bad sample " + std::to_string(sample) + " of") != std::string::npos;
  EXPECT_TRUE(is_named) << stopped;
}

TEST_F(JoinedTest, OnADeviceTheHostDecodes) {
  const auto device = std::make_unique<SimulatedDevice>();
  LoaderOptions o = images_alone(options("coefficients"));
  o.hash_pixels = false;
  o.augment = "rrc(40) mosaic(20,p=0.5) center_crop(40)";
  const auto here = open_loader(o);
  o.device = device.get();
  auto there = open_loader(o);
  EXPECT_FALSE(there->decode_reason().empty());
  read_side_by_side(*here, *there, [&](const Batch& batch, const Batch& moved) {
    throw_if_error(device->synchronize(*moved.ready_event));
    const auto open = device->open_to_host();
    expect_same_images(batch, moved);
    EXPECT_EQ(moved.chain, batch.chain);
  });
  there.reset();
  expect_no_violations(*device);
}

TEST_F(JoinedTest, WhatAnImageHasOneOfIsRefusedByName) {
  LoaderOptions o = options();
  o.fields = {};
  const std::string refused = Loader::open(o).status().message();
  EXPECT_NE(refused.find("--augment has mosaic, which joins several images, but the joined image can "
                         "have only one value of the field 'label'"),
            std::string::npos)
      << refused;
}

// What COCO and the like are ingested to: a field for a class of the image, and nothing in it.
TEST_F(JoinedTest, WhereNoSampleHasAClassAllFieldsMayBeTaken) {
  write_drawn_dataset(*dir_ / "unlabelled",
                      {.count = 16, .size = kSide, .unlabelled = true, .object_fields = true});
  LoaderOptions o = options("unlabelled");
  o.fields = {};
  const auto loader = open_loader(o);
  const auto batch = value_or_throw(loader->next());
  for (int64_t i = 0; i < 8; ++i) {
    int64_t label = 0;
    std::memcpy(&label, batch->field("label")->data + static_cast<size_t>(i) * sizeof label, sizeof label);
    EXPECT_EQ(label, -1);
  }
  throw_if_error(loader->release(*batch));
}

}  // namespace
}  // namespace dlpipe::pipeline
