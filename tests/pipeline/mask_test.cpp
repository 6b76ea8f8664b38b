// Masks in batches: as large as the images, moved with them, their numbers untouched.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "augment/moving.h"
#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

class MaskTest : public DatasetTest<MaskTest> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "d", {.count = 45, .mask_field = true});
    write_drawn_dataset(*dir_ / "bad", {.count = 45, .mask_field = true, .wrong_masks = {5, 20}});
  }

 protected:
  static LoaderOptions options(const std::string& name = "d") {
    LoaderOptions options = two_epochs_of(*dir_ / name);
    options.augment = "rrc(40x48,scale=0.2..1) hflip rotate(15) pad(3)";
    options.mask_fill = 255;
    return options;
  }
  static std::vector<uint8_t> mask_of(const Batch& batch, int64_t i) {
    const auto bytes = bytes_of_sample(batch, "mask", i);
    std::vector<uint8_t> mask(bytes.size());
    std::memcpy(mask.data(), bytes.data(), bytes.size());
    return mask;
  }
};

TEST_F(MaskTest, MasksMoveWithTheirImages) {
  const LoaderOptions o = options();
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const auto loader = open_loader(o);
  read_all(*loader, [&](const Batch& batch) {
    EXPECT_EQ(batch.field("mask")->spec->shape, (Shape{46, 54}));
    EXPECT_FALSE(batch.field("mask")->spec->ragged);
    for (int64_t i = 0; i < batch.count; ++i) {
      const int64_t sample = batch.sample_ids[static_cast<size_t>(i)];
      const data::RecordHeader header = value_or_throw(loader->dataset().header(sample));
      augment::ChainPlan plan;
      throw_if_error(chain.plan({header.width, header.height, 3}, key_of(o, batch, i), plan));
      std::vector<uint8_t> expected(46 * 54, 255);
      const std::vector<uint8_t> mask = drawn_mask(sample, header.width, header.height);
      if (sample % 10 != 4)
        augment::Moving(plan).mask({mask.data(), header.width, header.height, 1, header.width},
                                   {expected.data(), 54, 46, 1, 54}, 255);
      EXPECT_EQ(mask_of(batch, i), expected) << sample;
    }
  });
}

TEST_F(MaskTest, TheSameForAnyThreadsAndOnADevice) {
  LoaderOptions o = options();
  o.threads = 1;
  const auto expected = read_hashes(*open_loader(o));
  o.threads = 3;
  EXPECT_EQ(read_hashes(*open_loader(o)), expected);
  const auto here = open_loader(o);
  const auto device = std::make_unique<SimulatedDevice>();
  o.device = device.get();
  auto there = open_loader(o);
  read_side_by_side(*here, *there, [&](const Batch& batch, const Batch& moved) {
    throw_if_error(device->synchronize(*moved.ready_event));
    const auto open = device->open_to_host();
    for (int64_t i = 0; i < batch.count; ++i) EXPECT_EQ(mask_of(moved, i), mask_of(batch, i));
    EXPECT_EQ(moved.chain, batch.chain);
  });
  there.reset();
  expect_no_violations(*device);
}

TEST_F(MaskTest, AMaskOfAnotherSizeIsABadRecord) {
  const auto loader = open_loader(options("bad"));
  int64_t substituted = 0;
  read_all(*loader, [&](const Batch& batch) {
    for (const Substitution& one : batch.substitutions) {
      EXPECT_TRUE(one.bad_sample == 5 || one.bad_sample == 20) << one.bad_sample;
      EXPECT_NE(one.reason.find("field 'mask' of sample"), std::string::npos) << one.reason;
      EXPECT_NE(one.reason.find("but its image is"), std::string::npos) << one.reason;
      ++substituted;
    }
  });
  EXPECT_GT(substituted, 0);
}

TEST_F(MaskTest, WhatCannotBeIsRefused) {
  LoaderOptions o = options();
  o.mask_fill = 256;
  EXPECT_NE(Loader::open(o).status().message().find("--mask-fill 256; a mask holds 0 to 255"),
            std::string::npos);
  o = options();
  o.augment = "rrc(32) augmix";
  EXPECT_NE(Loader::open(o).status().message().find("the field 'mask' of kind mask can't move with it"),
            std::string::npos);
  o = options();
  o.augment = "";
  o.fields = {"mask"};
  EXPECT_NE(Loader::open(o).status().message().find("'mask' is a mask of images, which are not chosen"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::pipeline
