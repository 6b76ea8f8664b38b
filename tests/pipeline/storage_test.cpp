// Queues and pages: the parts that stand between the disk and the decoders.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "pipeline/pipeline.h"
#include "pipeline/plan/stage_counters.h"
#include "pipeline/stages/prefault.h"
#include "pipeline/stages/sample_worker.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::pipeline {
namespace {

// A file of `pages` pages, mapped for as long as the object lives.
class Map {
 public:
  explicit Map(size_t pages)
      : path_(dir_ / "file"), size_(pages * static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    std::ofstream(path_, std::ios::binary) << std::string(size_, 'x');
    const int file = open(path_.c_str(), O_RDONLY);
    data_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0));
    close(file);
  }
  ~Map() { munmap(data_, size_); }
  const std::string& path() const { return path_; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  data::TempDir dir_;
  std::string path_;
  size_t size_;
  std::byte* data_;
};

class MappedFileTest : public testing::TestWithParam<MappedFile::Method> {};

TEST_P(MappedFileTest, FindsTheMapAndPopulatesRanges) {
  const Map map(10);
  const auto file = value_or_throw(MappedFile::open(map.path(), map.data() + map.size() / 2, GetParam()));
  EXPECT_EQ(file->map().data(), map.data());
  EXPECT_EQ(file->map().size(), map.size());
  file->prefetch(file->map().subspan(5000, 100));
  EXPECT_TRUE(file->populate(file->map()).ok());
  EXPECT_TRUE(file->populate(file->map().subspan(4095, 2)).ok());
  EXPECT_TRUE(file->populate({}).ok());
}

// Touching the page would be SIGBUS; asking for it is an error that names file and place.
TEST_P(MappedFileTest, ATruncatedFileIsAnErrorAndNoSignal) {
  const Map map(10);
  const auto file = value_or_throw(MappedFile::open(map.path(), map.data(), GetParam()));
  ASSERT_EQ(truncate(map.path().c_str(), static_cast<off_t>(map.size() / 2)), 0);
  EXPECT_TRUE(file->populate(file->map().subspan(0, map.size() / 2)).ok());
  const Status status = file->populate(file->map().subspan(map.size() - 100, 100));
  EXPECT_EQ(status.code(), ErrorCode::kIo);
  EXPECT_NE(status.message().find(map.path()), std::string::npos) << status.message();
}

TEST_P(MappedFileTest, ARangeOutsideTheMapIsRefused) {
  const Map map(2);
  const auto file = value_or_throw(MappedFile::open(map.path(), map.data(), GetParam()));
  const std::byte other[8] = {};
  EXPECT_EQ(file->populate(other).code(), ErrorCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(Methods, MappedFileTest,
                         testing::Values(MappedFile::Method::kPopulate, MappedFile::Method::kRead),
                         [](const auto& info) {
                           return info.param == MappedFile::Method::kPopulate ? "populate" : "pread";
                         });

TEST(PageWindow, PagesOfBatchesThatAreOverLeaveItAlsoAfterAStepBack) {
  constexpr auto kBlock = static_cast<int64_t>(PageWindow::kBlockBytes);
  const Map map(4 * PageWindow::kBlockBytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  const auto file = value_or_throw(MappedFile::open(map.path(), map.data()));
  const auto block = [&](size_t index) { return file->map().subspan(index * PageWindow::kBlockBytes, 100); };
  PageWindow window(*file);
  window.enter(700, block(0));
  window.enter(701, block(1));
  EXPECT_EQ(window.held_bytes(), 2 * kBlock);
  window.shrink(701, 0);
  EXPECT_EQ(window.held_bytes(), kBlock) << "701 is in use";
  window.enter(702, block(2));
  window.all_over();
  window.enter(0, block(3));
  window.shrink(0, 3 * kBlock);
  EXPECT_EQ(window.held_bytes(), 3 * kBlock) << "no more than it must";
  window.shrink(0, 0);
  EXPECT_EQ(window.held_bytes(), kBlock) << "batch 0 is in use";
}

TEST(RunQueueTest, GivesTheOldestBatchFirst) {
  PortionQueue queue;
  for (const int64_t sequence : {5, 3, 4}) {
    for (const int32_t first : {8, 0}) queue.push({sequence, 0, first, 8});
  }
  std::vector<std::pair<int64_t, int32_t>> order;
  for (pipeline::Portion portion; queue.try_pop(&portion);)
    order.push_back({portion.sequence, portion.first});
  EXPECT_EQ(order,
            (std::vector<std::pair<int64_t, int32_t>>{{3, 0}, {3, 8}, {4, 0}, {4, 8}, {5, 0}, {5, 8}}));
}

TEST(RunQueueTest, ClosingLetsTheWaiterGoAfterTheLastRun) {
  PortionQueue queue;
  int got = 0;
  std::thread waiter([&] {
    for (pipeline::Portion portion; queue.wait_pop(&portion);) ++got;
  });
  for (int i = 0; i < 100; ++i) queue.push({i, 0, 0, 1});
  queue.close();
  waiter.join();
  EXPECT_EQ(got, 100);
}

TEST(TouchedBitsTest, ManyThreadsSetNeighbouringBits) {
  TouchedBits bits(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 1000; i += 8) bits.set(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(bits.test(i), i % 8 < 4);
}

// The portion's time is split in the proportion of its laps and nothing is lost.
TEST(StageClockTest, SplitsTheRunExactly) {
  for (const double expected_ns : {1e6, 2e3}) {  // every sample timed, or some
    PipelineCounters counters;
    StageClock clock(counters);
    clock.begin_portion(expected_ns);
    const auto spin = [](int64_t ns) {
      for (const int64_t end = now_ns() + ns; now_ns() < end;) {
      }
    };
    for (int i = 0; i < 40; ++i) {
      clock.begin_sample();
      spin(5'000);
      clock.lap(Stage::kReader);
      spin(20'000);
      clock.lap(Stage::kDecoder);
      spin(10'000);
      clock.lap(Stage::kAugmenter);
    }
    const int64_t total = clock.end_portion();
    const int64_t reader = counters[Stage::kReader].busy_ns.value();
    const int64_t decoder = counters[Stage::kDecoder].busy_ns.value();
    const int64_t augmenter = counters[Stage::kAugmenter].busy_ns.value();
    EXPECT_EQ(reader + decoder + augmenter, total);
    EXPECT_GT(reader, 0);
    EXPECT_GT(decoder, 0);
    EXPECT_GT(augmenter, 0);
  }
}

}  // namespace
}  // namespace dlpipe::pipeline
