#include "run/train/session/plans.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {
namespace {

constexpr Interval kNever{Interval::Unit::kNever, 0};
constexpr Interval kEachEpoch{Interval::Unit::kEpochs, 1};
constexpr Interval kFiveMinutes{Interval::Unit::kSeconds, 300};

TEST(DiskPlan, CountsWhatIsKeptTheBestAndTheOneBeingWritten) {
  CheckpointCount count{2, kFiveMinutes, kEachEpoch, 1000, 10.0, 0};
  EXPECT_EQ(checkpoints_at_once(count), 4);
  count.val_every = kNever;
  EXPECT_EQ(checkpoints_at_once(count), 3) << "without a best";
  count.checkpoint_every = kNever;
  EXPECT_EQ(checkpoints_at_once(count), 1) << "the end's alone";
  count.held = 2;
  EXPECT_EQ(checkpoints_at_once(count), 3) << "beside those that are there";
  count = {100, {Interval::Unit::kSteps, 300}, kNever, 1000, 10.0, 0};
  EXPECT_EQ(checkpoints_at_once(count), 5) << "--keep has room for more than the run saves";
  count.steps = 0;
  EXPECT_EQ(checkpoints_at_once(count), 1) << "the weights as they are";
}

TEST(DiskPlan, WhatDoesNotFitIsRefusedOrWarnedOf) {
  DiskPlan plan{"runs/a", 1 << 20, 3, 0, 3 << 20};
  EXPECT_EQ(value_or_throw(check_checkpoints_fit(plan)), "");
  plan.free_bytes = 2 << 20;
  const std::string warning = value_or_throw(check_checkpoints_fit(plan));
  for (const char* part : {"each takes 1.0 MiB", "up to 3 exist at once", "3.0 MiB in total",
                           "2.0 MiB are free in runs/a", "a smaller --keep"})
    EXPECT_NE(warning.find(part), std::string::npos) << part << ": " << warning;
  plan.held_bytes = 1 << 20;  // goes when the next ones are there
  EXPECT_EQ(value_or_throw(check_checkpoints_fit(plan)), "");
  plan.free_bytes = (1 << 20) - 1;
  const Status refused = check_checkpoints_fit(plan).status();
  EXPECT_EQ(refused.code(), ErrorCode::kNoSpace);
  EXPECT_NE(refused.message().find("a checkpoint takes 1.0 MiB, but 1024.0 KiB are free in runs/a"),
            std::string::npos)
      << refused.message();
}

TEST(DiskPlan, LooksAtTheRunsDirectory) {
  test::ScratchFolder folder;
  std::filesystem::create_directories(folder / "checkpoints/step-000000001");
  ASSERT_TRUE(formats::write_file(folder / "checkpoints/step-000000001/model.safetensors", "12345").ok());
  std::filesystem::create_symlink("step-000000001", folder / "checkpoints/last");
  const DiskPlan plan = value_or_throw(plan_disk(folder / "", 10, 2));
  EXPECT_EQ(plan.held_bytes, 5u);
  EXPECT_GT(plan.free_bytes, 0u);
  EXPECT_EQ(plan_disk(folder / "nowhere", 10, 2).status().code(), ErrorCode::kNotFound);
}

TEST(DiskPlan, LooksAtTheDiskThatTheCheckpointsLieOn) {
  test::ScratchFolder folder;
  std::filesystem::create_directory_symlink("/proc/self/ns",
                                            folder / "checkpoints");  // nothing is free there
  EXPECT_EQ(value_or_throw(plan_disk(folder.path(), 10, 2)).free_bytes, 0u);
}

}  // namespace
}  // namespace dlpipe::run
