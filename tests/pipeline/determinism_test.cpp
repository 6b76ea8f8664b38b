// Same seed, same batches, bit for bit, whatever the threads, slots, layouts and interruptions.
#include <gtest/gtest.h>

#include "dlpipe/random.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

class Determinism : public DatasetTest<Determinism> {
 public:
  static void write_datasets() { write_drawn_dataset(*dir_ / "jpeg", {.count = 61}); }

 protected:
  static LoaderOptions options() {
    LoaderOptions options;
    options.data = *dir_ / "jpeg";
    options.augment = "rrc(32) hflip";
    options.batch = 8;
    options.threads = 2;
    options.seed = 11;
    options.hash_pixels = true;
    return options;
  }
  static std::vector<uint64_t> hashes(const LoaderOptions& options) {
    return read_hashes(*open_loader(options));
  }
};

TEST_F(Determinism, BatchesAreTheSameForAnyThreadCountAndSlots) {
  LoaderOptions one = options();
  one.epochs = 3;
  one.threads = 1;
  one.slots = 1;
  const auto expected = hashes(one);
  ASSERT_EQ(expected.size(), 3u * 7u);
  for (const int threads : {1, 2, 3, 8}) {
    for (const int slots : {1, 2, 3, 7}) {
      LoaderOptions other = one;
      other.threads = threads;
      other.slots = slots;
      EXPECT_EQ(hashes(other), expected) << threads << " threads, " << slots << " slots";
    }
  }
}

TEST_F(Determinism, ViewsAreTheSameForAnyThreadCountAndAfterResuming) {
  LoaderOptions two = options();
  two.epochs = 1;
  two.views = 2;
  two.last = LastBatch::kKeep;
  expect_same_everywhere(two, 8);
}

// Each decoder meets other images before a bare one: which, depends on the threads.
TEST_F(Determinism, JpegsWithoutTablesGiveTheSameBatchesForAnyThreadCount) {
  data::TempDir dir;
  DrawnOptions drawn{.count = 60};
  for (int64_t i = 0; i < drawn.count; i += 5) {
    drawn.without_huffman.insert(i);
    drawn.without_quantisation.insert(i + 2);
  }
  write_drawn_dataset(dir / "bare", drawn);
  LoaderOptions o = options();
  o.data = dir / "bare";
  o.epochs = 2;
  o.max_bad = drawn.count;
  o.threads = 1;
  auto first = open_loader(o);
  const auto expected = read_hashes(*first);
  const std::vector<int64_t> bad = first->state().bad_samples;
  first.reset();  // TBB warns where loaders of different thread counts are open at once
  EXPECT_GT(bad.size(), 5u);
  for (const int64_t sample : bad) EXPECT_TRUE(drawn.without_quantisation.contains(sample)) << sample;
  for (const int threads : {2, 3, 3}) {
    o.threads = threads;
    const auto loader = open_loader(o);
    EXPECT_EQ(read_hashes(*loader), expected) << threads << " threads";
    EXPECT_EQ(loader->state().bad_samples, bad) << threads << " threads";
  }
}

TEST_F(Determinism, AnotherSeedGivesOtherBatches) {
  LoaderOptions a = options();
  a.epochs = 1;
  LoaderOptions b = a;
  b.seed = 12;
  EXPECT_NE(hashes(a), hashes(b));
}

TEST_F(Determinism, EpochsDiffer) {
  LoaderOptions o = options();
  o.epochs = 2;
  const auto all = hashes(o);
  for (size_t i = 0; i < 7; ++i) EXPECT_NE(all[i], all[i + 7]);
}

TEST_F(Determinism, ResumesAtEveryPositionWithOtherThreadCounts) {
  LoaderOptions o = options();
  o.epochs = 3;
  o.threads = 8;  // TBB warns when a loader asks for more threads than another that is open
  const auto expected = hashes(o);
  const int thread_counts[] = {1, 2, 3, 8};
  const auto first = open_loader(o);
  for (size_t position = 0; position <= expected.size(); ++position) {
    const SourceState state = first->state();
    LoaderOptions resumed = o;
    resumed.threads = thread_counts[position % 4];
    resumed.slots = 1 + static_cast<int>(position % 3);
    const auto loader = open_loader(resumed);
    throw_if_error(loader->seek(state));
    EXPECT_EQ(loader->state(), state);
    const std::vector<uint64_t> rest(expected.begin() + static_cast<ptrdiff_t>(position), expected.end());
    EXPECT_EQ(read_hashes(*loader), rest) << "resumed at batch " << position;
    read_hashes(*first, 1);
  }
}

TEST_F(Determinism, SeeksBackAndForthInOneLoader) {
  LoaderOptions o = options();
  const auto loader = open_loader(o);
  std::vector<SourceState> states;
  std::vector<uint64_t> expected;
  for (int i = 0; i < 20; ++i) {
    states.push_back(loader->state());
    expected.push_back(read_hashes(*loader, 1).front());
  }
  RandomStream rng(1, 2);
  for (int i = 0; i < 40; ++i) {
    const uint32_t to = rng.below(20);
    throw_if_error(loader->seek(states[to]));
    EXPECT_EQ(read_hashes(*loader, 1).front(), expected[to]);
  }
}

TEST_F(Determinism, StateCountsSamplesOfAllRanks) {
  LoaderOptions o = options();
  o.world = 2;
  o.batch = 4;
  const auto loader = open_loader(o);
  read_hashes(*loader, 8);
  const SourceState state = loader->state();
  EXPECT_EQ(state.epoch, 1);
  EXPECT_EQ(state.batch_index, 1);
  EXPECT_EQ(state.samples_consumed, 7 * 8 + 8);
}

// A world of two ranks gives the same samples as one rank with twice the batch.
TEST_F(Determinism, RanksTakeContiguousPartsOfTheSameGlobalBatches) {
  LoaderOptions whole = options();
  whole.epochs = 2;
  const auto one = open_loader(whole);
  LoaderOptions part = whole;
  part.batch = 4;
  part.world = 2;
  const auto rank0 = open_loader(part);
  part.rank = 1;
  const auto rank1 = open_loader(part);
  EXPECT_EQ(rank0->pipeline_id(), one->pipeline_id());
  while (true) {
    const auto batch = value_or_throw(one->next());
    const auto half0 = value_or_throw(rank0->next());
    const auto half1 = value_or_throw(rank1->next());
    ASSERT_EQ(batch.has_value(), half0.has_value());
    if (!batch.has_value()) break;
    const size_t bytes = 4 * batch->fields[0].spec->sample_bytes();
    EXPECT_EQ(0, memcmp(batch->fields[0].data, half0->fields[0].data, bytes));
    EXPECT_EQ(0, memcmp(batch->fields[0].data + bytes, half1->fields[0].data, bytes));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(batch->sample_ids[i], half0->sample_ids[i]);
      EXPECT_EQ(batch->sample_ids[i + 4], half1->sample_ids[i]);
    }
    throw_if_error(one->release(*batch));
    throw_if_error(rank0->release(*half0));
    throw_if_error(rank1->release(*half1));
  }
}

// The layout at rest, packing and compression leave no trace in the pixels.
TEST_F(Determinism, RawAndPngAndPackedRecordsGiveTheSamePixels) {
  std::vector<std::vector<uint64_t>> all;
  int number = 0;
  for (const auto layout : {data::ImageLayout::kRaw, data::ImageLayout::kPng}) {
    for (const int64_t per_value : {1, 5}) {
      for (const bool zstd : {false, true}) {
        const std::string directory = *dir_ / ("layout" + std::to_string(number++));
        write_drawn_dataset(directory,
                            {.count = 40, .layout = layout, .records_per_value = per_value, .zstd = zstd});
        LoaderOptions o = options();
        o.data = directory;
        o.augment = "pad_crop(40,4) hflip";
        o.epochs = 2;
        const auto loader = open_loader(o);
        std::vector<uint64_t> pixels;
        while (const auto batch = value_or_throw(loader->next())) {
          const BatchField& image = *batch->field("image");
          pixels.push_back(data::checksum64({image.data, image.spec->sample_bytes() * 8}));
          throw_if_error(loader->release(*batch));
        }
        EXPECT_EQ(pixels.size(), 10u);
        all.push_back(std::move(pixels));
      }
    }
  }
  for (const auto& pixels : all) EXPECT_EQ(pixels, all.front());
}

TEST_F(Determinism, ChainCoversDrawsAndRecordsAlsoWithoutPixels) {
  LoaderOptions o = options();
  o.hash_pixels = false;
  o.epochs = 1;
  const auto chain_of = [](const LoaderOptions& options) {
    const auto loader = open_loader(options);
    read_hashes(*loader);
    return loader->state().chain;
  };
  const uint64_t chain = chain_of(o);
  LoaderOptions threads = o;
  threads.threads = 3;
  EXPECT_EQ(chain_of(threads), chain);
  LoaderOptions seed = o;
  seed.seed = 99;
  EXPECT_NE(chain_of(seed), chain);
  LoaderOptions augment = o;
  augment.augment = "rrc(32) hflip(0.1)";
  EXPECT_NE(chain_of(augment), chain);
}

}  // namespace
}  // namespace dlpipe::pipeline
