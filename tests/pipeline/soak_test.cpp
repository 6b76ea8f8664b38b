// Memory stays flat: slots, scratch and the dataset's pages, and nothing that grows with epochs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/machine.h"
#include "tests/io/data/temp_dir.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

TEST(Soak, ResidentMemoryStaysFlatOverTwentyEpochs) {
  data::TempDir dir;
  write_drawn_dataset(dir / "d", {.count = 150, .truncated = {7, 99}});
  LoaderOptions o;
  o.data = dir / "d";
  o.augment = "rrc(40) hflip";
  o.batch = 16;
  o.threads = 3;
  o.epochs = 25;
  o.max_bad = 10;
  const uint64_t before = resident_bytes();
  const auto loader = open_loader(o);
  const int64_t epoch = loader->batches_per_epoch();
  read_hashes(*loader, 5 * epoch);  // every image has been the largest for some thread by now
  const uint64_t warm = resident_bytes();
  uint64_t most = warm;
  for (int i = 0; i < 20; ++i) {
    read_hashes(*loader, epoch);
    most = std::max(most, resident_bytes());
  }
  // A leak of a kilobyte per sample would be 3 MB here.
  EXPECT_LE(most, warm + (uint64_t{1} << 20)) << "grew by " << most - warm;
  const SourceStats stats = loader->stats();
  const uint64_t dataset_pages = loader->dataset().file_bytes();
  const auto known = static_cast<uint64_t>(stats.slot_bytes + stats.scratch_bytes) + dataset_pages;
  // What else comes with a loader: stacks of its threads, TBB, counters, codecs.
  EXPECT_LE(most, before + known + (uint64_t{16} << 20)) << "known " << known << " before " << before;
}

// Pages of records that were used leave the process, and the batches stay the same.
TEST(Soak, ACeilingHoldsForADatasetSeveralTimesAsLarge) {
  data::TempDir dir;
  write_drawn_dataset(dir / "d", {.count = 1000, .layout = data::ImageLayout::kRaw, .size = 160});
  LoaderOptions o;
  o.data = dir / "d";
  o.augment = "rrc(32) hflip";
  o.batch = 2;
  o.slots = 2;  // the kernel may map a megabyte for each of a batch's records
  o.threads = 2;
  o.epochs = 2;
  const std::vector<uint64_t> expected = read_hashes(*open_loader(o));
  constexpr uint64_t kRoom = uint64_t{20} << 20;
  o.memory_bytes = static_cast<int64_t>(resident_bytes() + kRoom);
  const auto loader = open_loader(o);
  ASSERT_GT(loader->dataset().file_bytes(), 3 * kRoom);
  uint64_t most = 0;
  for (const uint64_t hash : expected) {
    ASSERT_EQ(read_hashes(*loader, 1), std::vector<uint64_t>{hash});
    most = std::max(most, resident_bytes());
  }
  // What a loader brings along: stacks of its threads, TBB, codecs.
  EXPECT_LE(most, static_cast<uint64_t>(o.memory_bytes) + (uint64_t{12} << 20));

  o.memory_bytes = 1 << 20;
  const Status refused = Loader::open(o).status();
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfMemory);
  // It names the parts: batches of 2 x 32 x 32 x 3 bytes, and what else belongs to a slot.
  for (const char* part :
       {"--memory 1.0 MiB is less than the ", " that the process needs: ", " already in use, ",
        " for 2 batches (--slots) of 6.", " for the pages of their records", "decoding buffers of 2 threads"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << part << " in " << refused.message();
}

}  // namespace
}  // namespace dlpipe::pipeline
