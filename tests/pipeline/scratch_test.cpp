// What a loader says beforehand that its threads will take, beside what they took.
#include <gtest/gtest.h>

#include <string>

#include "tests/io/data/temp_dir.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

TEST(ScratchPlan, HoldsForWhatTheThreadsTake) {
  const data::TempDir dir;
  write_drawn_dataset(dir / "sizes", {.count = 61});
  write_drawn_dataset(dir / "coefficients", {.count = 61, .layout = data::ImageLayout::kCoefficients});
  for (const char* data : {"sizes", "coefficients"}) {
    for (const char* chain : {"rrc(24) hflip", "rrc(4000) resize(32)", "resize(1500) center_crop(64) hflip",
                              "mosaic(640) affine resize(64)", "rrc(64) hflip randaugment",
                              "resize(64x64) augmix", "rrc(64) three_augment color_jitter(0.3,0.3,0.3)"}) {
      SCOPED_TRACE(std::string(data) + ": " + chain);
      LoaderOptions options;
      options.data = dir / data;
      options.augment = chain;
      options.fields = {"image"};
      options.batch = 8;
      options.threads = 2;
      options.epochs = 1;
      const auto loader = open_loader(options);
      const int64_t planned = loader->planned_scratch_bytes();
      read_hashes(*loader);
      const int64_t taken = loader->stats().scratch_bytes;
      EXPECT_GT(taken, 0);
      EXPECT_GE(planned, taken);
      constexpr int64_t kSmall =
          int64_t{8} << 20;  // one thread may not have had a sample; tables count for little images
      EXPECT_LE(planned, 8 * taken + kSmall) << "a plan that nobody could keep to is none";
    }
  }
}

TEST(ScratchPlan, CountsWhatStandsBetweenTwoOps) {
  const data::TempDir dir;
  write_drawn_dataset(dir / "d", {.count = 8});
  LoaderOptions options;
  options.data = dir / "d";
  options.augment = "rrc(12000) resize(32)";
  options.batch = 2;
  options.threads = 3;
  EXPECT_GE(open_loader(options)->planned_scratch_bytes(), int64_t{3} * 12000 * 12000 * 3);
}

}  // namespace
}  // namespace dlpipe::pipeline
