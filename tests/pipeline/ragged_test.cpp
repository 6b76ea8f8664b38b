// Fields without a fixed size in batches: each sample's own rows, in the batch's order, whatever happens to the batch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/pipeline/moved_objects.h"

namespace dlpipe::pipeline {
namespace {

constexpr int kSize = 48;

class RaggedTest : public DatasetTest<RaggedTest> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "d", {.count = 61, .size = kSize, .object_fields = true});
    write_drawn_dataset(*dir_ / "bad",
                        {.count = 61, .size = kSize, .object_fields = true, .truncated = {3, 17, 22}});
  }

 protected:
  static LoaderOptions options(const std::string& name = "d") { return two_epochs_of(*dir_ / name); }
};

void expect_objects_of(const Batch& batch, int64_t i, int64_t sample) {
  const DrawnObjects objects = drawn_objects(sample, kSize, kSize);
  EXPECT_EQ(rows_of<float>(batch, "boxes", i), objects.boxes) << sample;
  EXPECT_EQ(rows_of<int64_t>(batch, "kinds", i), objects.kinds) << sample;
  EXPECT_EQ(rows_of<float>(batch, "scores", i), objects.scores) << sample;
  EXPECT_EQ(rows_of<float>(batch, "joints", i), objects.joints) << sample;
  EXPECT_EQ(rows_of<int64_t>(batch, "tags", i), objects.tags) << sample;
  EXPECT_EQ(rows_of<float>(batch, "spots", i), objects.spots) << sample;
  const std::vector<char> caption = rows_of<char>(batch, "caption", i);
  EXPECT_EQ(std::string(caption.begin(), caption.end()), objects.caption);
}

TEST_F(RaggedTest, BatchesHoldTheRowsOfTheirSamples) {
  LoaderOptions o = validation_options(options());  // the last batch has 5 samples
  o.epochs = 1;
  const auto loader = open_loader(o);
  int64_t seen = 0;
  read_all(*loader, [&](const Batch& batch) {
    EXPECT_EQ(batch.field("path"), nullptr);
    const BatchField& joints = *batch.field("joints");
    EXPECT_TRUE(joints.spec->ragged);
    EXPECT_EQ(joints.spec->shape, (Shape{2, 3}));
    ASSERT_EQ(joints.offsets.size(), 9u);
    for (int64_t i = 0; i < batch.count; ++i) expect_objects_of(batch, i, seen++);
    for (int64_t i = batch.count; i < 8; ++i) EXPECT_TRUE(rows_of<float>(batch, "boxes", i).empty());
  });
  EXPECT_EQ(seen, 61);
}

TEST_F(RaggedTest, TheSameForAnyThreadsAndSlotsAndResumed) {
  expect_same_everywhere(options(), 14);
}

TEST_F(RaggedTest, BoxesAndPointsMoveWithTheImages) {
  LoaderOptions o = options();
  o.augment = "rrc(32,scale=0.1..0.5) hflip rotate(20) drop_boxes(share=0.1)";
  o.threads = 1;
  const auto expected = read_hashes(*open_loader(o));
  o.threads = 3;
  EXPECT_EQ(read_hashes(*open_loader(o)), expected);
  const augment::Chain chain = value_or_throw(augment::Chain::parse(o.augment));
  const auto loader = open_loader(o);
  size_t kept = 0, dropped = 0;
  read_all(*loader, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) {
      const int64_t sample = batch.sample_ids[static_cast<size_t>(i)];
      augment::ChainPlan plan;
      throw_if_error(chain.plan({kSize, kSize, 3}, key_of(o, batch, i), plan));
      const DrawnObjects objects = drawn_objects(sample, kSize, kSize);
      MovedObjects moved;
      kept += moved.add(augment::Moving(plan), objects);
      dropped += moved.dropped;
      moved.expect_in(batch, i);
      EXPECT_EQ(rows_of<int64_t>(batch, "tags", i), objects.tags);
    }
  });
  EXPECT_GT(kept, (kept + dropped) / 10);
  EXPECT_GT(dropped, 0u);
}

TEST_F(RaggedTest, WhatCannotMoveIsRefusedByName) {
  LoaderOptions o = options();
  o.augment = "rrc(32) one_of(augmix|hflip)";
  const Status refused = Loader::open(o).status();
  EXPECT_EQ(refused.code(), ErrorCode::kMisuse);
  EXPECT_NE(refused.message().find("--augment has augmix, which shows an image in several places at once, "
                                   "but the field 'boxes' of kind boxes can't move with it"),
            std::string::npos)
      << refused.message();
  o.fields = {"image", "label"};
  EXPECT_TRUE(Loader::open(o).ok());
  o.augment = "";
  o.fields = {"kinds"};
  EXPECT_NE(
      Loader::open(o).status().message().find("the field 'kinds' belongs to 'boxes', which is not chosen"),
      std::string::npos);
}

TEST_F(RaggedTest, SubstitutesBringTheirOwnRowsAndDroppedSamplesHaveNone) {
  LoaderOptions o = options("bad");
  o.epochs = 3;
  const auto loader = open_loader(o);
  int64_t substituted = 0;
  read_all(*loader, [&](const Batch& batch) {
    substituted += static_cast<int64_t>(batch.substitutions.size());
    for (int64_t i = 0; i < batch.count; ++i)
      expect_objects_of(batch, i, batch.sample_ids[static_cast<size_t>(i)]);
  });
  EXPECT_GE(substituted, 6);
  o = validation_options(o);
  o.epochs = 1;
  const auto validation = open_loader(o);
  read_all(*validation, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i) {
      if (batch.weight[static_cast<size_t>(i)] == 0) {
        EXPECT_TRUE(rows_of<float>(batch, "boxes", i).empty());
        EXPECT_TRUE(rows_of<char>(batch, "caption", i).empty());
      }
    }
  });
}

TEST_F(RaggedTest, OnADeviceTheRowsStayInHostMemory) {
  const auto device = std::make_unique<SimulatedDevice>();
  LoaderOptions o = options();
  o.device = device.get();
  auto loader = open_loader(o);
  read_all(*loader, [&](const Batch& batch) {
    for (int64_t i = 0; i < batch.count; ++i)
      expect_objects_of(batch, i, batch.sample_ids[static_cast<size_t>(i)]);
  });
  loader.reset();
  expect_no_violations(*device);
}

TEST_F(RaggedTest, HeldBatchesKeepTheirRows) {
  LoaderOptions o = options();
  o.slots = 4;
  auto loader = open_loader(o);
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(**loader->next());
  EXPECT_TRUE(loader->next().ok());
  loader.reset();
  for (const Batch& batch : held) {
    for (int64_t i = 0; i < batch.count; ++i)
      expect_objects_of(batch, i, batch.sample_ids[static_cast<size_t>(i)]);
  }
}

TEST_F(RaggedTest, FieldsAreChosenByName) {
  LoaderOptions o = options();
  o.fields = {"path", "boxes"};
  const auto loader = open_loader(o);
  ASSERT_EQ(loader->schema().size(), 2u);
  EXPECT_EQ(loader->schema()[0].name, "path");
  EXPECT_NE(loader->pipeline_id(), open_loader(options())->pipeline_id());
  const auto batch = value_or_throw(loader->next());
  const std::vector<char> path = rows_of<char>(*batch, "path", 2);
  EXPECT_EQ(std::string(path.begin(), path.end()), "drawn/" + std::to_string(batch->sample_ids[2]));
  o.fields = {"bboxes"};
  const Status unknown = Loader::open(o).status();
  EXPECT_EQ(unknown.code(), ErrorCode::kMisuse);
  EXPECT_NE(unknown.message().find("no field 'bboxes'; did you mean 'boxes'"), std::string::npos)
      << unknown.message();
}

TEST_F(RaggedTest, WhatCannotBeMixedIsRefusedByName) {
  LoaderOptions o = options();
  o.mixup = 0.2;
  const Status refused = Loader::open(o).status();
  EXPECT_EQ(refused.code(), ErrorCode::kMisuse);
  EXPECT_NE(refused.message().find("the field 'boxes' of kind boxes, which can't be mixed"),
            std::string::npos)
      << refused.message();
  o.fields = {"image", "label", "caption"};
  EXPECT_TRUE(Loader::open(o).ok());
}

}  // namespace
}  // namespace dlpipe::pipeline
