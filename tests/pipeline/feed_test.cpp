// Batches that are kept: on any thread, for any time, over any number of passes.
#include "dlpipe/loader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "augment/function_op.h"
#include "pipeline/plan/setup.h"
#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

using std::chrono::milliseconds;
using Held = std::shared_ptr<Feed::Lent>;

class FeedTest : public DatasetTest<FeedTest> {
 public:
  static void write_datasets() { write_drawn_dataset(*dir_ / "d", {.count = 43, .truncated = {9}}); }

 protected:
  /// Eight batches of an epoch.
  static FeedOptions options() {
    FeedOptions options;
    options.loader.data = *dir_ / "d";
    options.loader.augment = "rrc(24) hflip";
    options.loader.batch = 5;
    options.loader.threads = 2;
    options.loader.slots_max = 16;
    return options;
  }
  static std::unique_ptr<Feed> open(const FeedOptions& options) {
    return value_or_throw(Feed::open(options));
  }
  static std::vector<uint64_t> expected(int64_t epochs) {
    LoaderOptions o = options().loader;
    o.slots_max = 0;
    o.epochs = epochs;
    return read_hashes(*open_loader(o));
  }
  /// Checksums of the first batches' images.
  static std::vector<uint64_t> first_pixels(int batches) {
    std::vector<uint64_t> hashes;
    const auto loader = open_loader(options().loader);
    for (int i = 0; i < batches; ++i) {
      const auto batch = value_or_throw(loader->next());
      hashes.push_back(data::checksum64({batch->fields[0].data, 5 * batch->fields[0].spec->sample_bytes()}));
      throw_if_error(loader->release(*batch));
    }
    return hashes;
  }
  static std::vector<uint64_t> read_pass(Feed& feed, int64_t pass, int64_t most = -1) {
    std::vector<uint64_t> hashes;
    while (most < 0 || static_cast<int64_t>(hashes.size()) < most) {
      const Held held = value_or_throw(feed.next(pass));
      if (held == nullptr) break;
      hashes.push_back(batch_hash(held->batch()));
    }
    return hashes;
  }
  static std::vector<uint64_t> read_pass(Feed& feed) {
    return read_pass(feed, value_or_throw(feed.begin_pass()));
  }
};

template <class T>
std::vector<T> part(const std::vector<T>& all, size_t from, size_t to) {
  return {all.begin() + static_cast<ptrdiff_t>(from), all.begin() + static_cast<ptrdiff_t>(to)};
}

TEST_F(FeedTest, PassesGiveTheLoadersBatchesOneEpochEach) {
  const auto all = expected(3);
  ASSERT_EQ(all.size(), 24u);
  for (const int threads : {1, 3}) {
    FeedOptions o = options();
    o.loader.threads = threads;
    const auto feed = open(o);
    EXPECT_EQ(feed->batches_per_pass(), 8);
    for (size_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_EQ(read_pass(*feed), part(all, 8 * epoch, 8 * epoch + 8))
          << threads << " threads, epoch " << epoch;
  }
}

TEST_F(FeedTest, APassMayTakeSeveralEpochsOrHaveNoEnd) {
  const auto all = expected(6);
  FeedOptions o = options();
  o.epochs_per_pass = 3;
  auto feed = open(o);
  EXPECT_EQ(feed->batches_per_pass(), 24);
  EXPECT_EQ(read_pass(*feed), part(all, 0, 24));
  EXPECT_EQ(read_pass(*feed), part(all, 24, 48));
  o.epochs_per_pass = -1;
  feed = open(o);
  EXPECT_EQ(feed->batches_per_pass(), -1);
  EXPECT_EQ(read_pass(*feed, value_or_throw(feed->begin_pass()), 30), part(all, 0, 30));
  o.epochs_per_pass = 0;
  EXPECT_EQ(Feed::open(o).status().code(), ErrorCode::kMisuse);
}

TEST_F(FeedTest, APassThatWasLeftEarlyIsFollowedByTheNextEpoch) {
  const auto feed = open(options());
  const int64_t first = value_or_throw(feed->begin_pass());
  (void)value_or_throw(feed->begin_pass());  // nothing was taken: nothing is left out
  EXPECT_EQ(feed->next(first).status().code(), ErrorCode::kMisuse);
  const int64_t second = value_or_throw(feed->begin_pass());
  read_pass(*feed, second, 3);
  const int64_t third = value_or_throw(feed->begin_pass());
  const Held held = value_or_throw(feed->next(third));
  EXPECT_EQ(held->batch().epoch, 1);
  EXPECT_EQ(held->batch().index, 0);
  LoaderOptions o = options().loader;
  const auto loader = open_loader(o);
  throw_if_error(loader->seek_epoch(1));
  const auto batch = value_or_throw(loader->next());
  EXPECT_TRUE(std::ranges::equal(batch->sample_ids, held->batch().sample_ids));
}

TEST_F(FeedTest, WhatWasReadyAndNobodyGotIsInNoState) {
  FeedOptions o = options();
  o.loader.shuffle = false;
  for (const bool begins_pass : {true, false}) {
    const auto feed = open(o);
    const int64_t pass = value_or_throw(feed->begin_pass());
    read_pass(*feed, pass, 1);
    while (feed->stats().substituted == 0)  // the second batch, which replaces sample 9, is ready
      std::this_thread::sleep_for(milliseconds(1));
    if (begins_pass)
      value_or_throw(feed->begin_pass());
    else
      throw_if_error(feed->seek_epoch(1));
    const auto loader = open_loader(o.loader);
    read_hashes(*loader, 1);
    throw_if_error(loader->seek_epoch(1));
    EXPECT_EQ(feed->state().chain, loader->state().chain);
    EXPECT_EQ(feed->state().bad_samples, std::vector<int64_t>());
    EXPECT_EQ(feed->state(), loader->state());
  }
}

TEST_F(FeedTest, AConsumerThatKeepsBatchesGetsMoreSlotsAndThenAnError) {
  const auto all = expected(3);
  FeedOptions o = options();
  o.epochs_per_pass = 3;
  o.loader.slots = 2;
  o.loader.slots_max = 7;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  std::vector<Held> kept;
  for (int i = 0; i < 7; ++i) kept.push_back(value_or_throw(feed->next(pass)));
  EXPECT_EQ(feed->held(), 7);
  const auto none = feed->next(pass);
  ASSERT_EQ(none.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(none.status().message().find("all 7 allowed batches (slots_max) are held"), std::string::npos)
      << none.status().message();
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(batch_hash(kept[i]->batch()), all[i]);
  kept.erase(kept.begin() + 1, kept.begin() + 6);  // in any order
  EXPECT_EQ(read_pass(*feed, pass), part(all, 7, 24));
  EXPECT_EQ(batch_hash(kept[0]->batch()), all[0]);
  EXPECT_EQ(batch_hash(kept[1]->batch()), all[6]);
}

TEST_F(FeedTest, AsManyBatchesAreKeptAsFitTheMemory) {
  const auto all = expected(14);
  FeedOptions o = options();
  o.epochs_per_pass = 13;
  o.loader.slots = 2;
  o.loader.slots_max = -1;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  std::vector<Held> kept;
  for (int i = 0; i < 100; ++i) kept.push_back(value_or_throw(feed->next(pass)));
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(batch_hash(kept[i]->batch()), all[i]);
  kept.clear();
  EXPECT_EQ(read_pass(*feed, pass), part(all, 100, 104));
  EXPECT_EQ(read_pass(*feed, value_or_throw(feed->begin_pass()), 8), part(all, 104, 112));
}

// As where an augmentation waits for Python's interpreter lock, which is held by whoever drops a batch.
TEST_F(FeedTest, ABatchComesBackWhileAWorkerIsWaitedFor) {
  for (const char* const way : {"seek", "seek_epoch", "begin_pass"}) {
    FeedOptions o = options();
    std::atomic<bool> blocks{false}, waits{false}, is_back{false}, was_back{false};
    o.loader.inject_read_error = [&](int64_t) -> Status {
      if (!blocks || waits.exchange(true)) return {};
      for (int i = 0; i < 5000 && !is_back; ++i) std::this_thread::sleep_for(milliseconds(1));
      was_back = is_back.load();
      return {};
    };
    const auto feed = open(o);
    const int64_t pass = value_or_throw(feed->begin_pass());
    const SourceState begin = feed->state();
    Held held = value_or_throw(feed->next(pass)), other = value_or_throw(feed->next(pass));
    const Held last = value_or_throw(feed->next(pass));
    blocks = true;
    other.reset();  // its memory is filled again
    while (!waits) std::this_thread::sleep_for(milliseconds(1));
    Status moved;
    std::thread mover([&] {
      if (way == std::string("seek")) moved = feed->seek(begin);
      if (way == std::string("seek_epoch")) moved = feed->seek_epoch(5);
      if (way == std::string("begin_pass")) moved = feed->begin_pass().status();
    });
    std::this_thread::sleep_for(milliseconds(30));  // so that the worker is waited for
    held.reset();
    EXPECT_EQ(feed->held(), 1);
    is_back = true;
    mover.join();
    EXPECT_TRUE(was_back) << way << ": the batches came back only after the worker";
    EXPECT_TRUE(moved.ok()) << moved.message();
  }
}

std::unique_ptr<Feed>* feed_of_the_op = nullptr;
Status begun_in_the_op;
std::atomic<bool> is_dropped{false};

void drop_the_feed(uint8_t*, int64_t, int64_t, int64_t, uint64_t, const double*) {
  static std::atomic<bool> is_done{false};
  if (is_done.exchange(true)) return;
  begun_in_the_op = (*feed_of_the_op)->begin_pass().status();
  feed_of_the_op->reset();
  is_dropped = true;
}

// Python's garbage collector runs where it likes, in an augmentation, too.
TEST_F(FeedTest, TheLastCopyMayGoInAnAugmentationOfItsOwn) {
  augment::OpRegistry ops = augment::OpRegistry::builtin();
  throw_if_error(augment::add_function_op(
      {.name = "drop_the_feed", .help = "", .function = drop_the_feed, .code = "c1", .parameters = {}}, ops));
  FeedOptions o = options();
  o.loader.ops = &ops;
  o.loader.augment = "rrc(24) drop_the_feed";
  std::atomic<bool> is_open{false};
  o.loader.inject_read_error = [&is_open](int64_t) -> Status {
    while (!is_open) std::this_thread::sleep_for(milliseconds(1));
    return {};
  };
  std::unique_ptr<Feed> feed = open(o);
  feed_of_the_op = &feed;
  const std::weak_ptr<const data::Dataset> dataset = feed->setup().dataset;
  is_open = true;
  // expired() alone orders nothing before what is read and destroyed here
  for (int i = 0; i < 60'000 && !(is_dropped && dataset.expired()); ++i)
    std::this_thread::sleep_for(milliseconds(1));
  ASSERT_TRUE(is_dropped && dataset.expired()) << "it was never closed";
  EXPECT_EQ(begun_in_the_op.code(), ErrorCode::kMisuse);
}

TEST_F(FeedTest, OneSlotIsEnough) {
  FeedOptions o = options();
  o.loader.slots = o.loader.slots_max = 1;
  EXPECT_EQ(read_pass(*open(o)), expected(1));
}

TEST_F(FeedTest, BatchesOutliveTheFeed) {
  const auto all = expected(1);
  auto feed = open(options());
  const int64_t pass = value_or_throw(feed->begin_pass());
  std::vector<Held> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(value_or_throw(feed->next(pass)));
  kept.erase(kept.begin());
  feed->close();
  feed->close();
  EXPECT_TRUE(feed->is_closed());
  kept.erase(kept.begin());
  EXPECT_NE(feed->next(pass).status().message().find("closed"), std::string::npos);
  EXPECT_EQ(feed->begin_pass().status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(feed->stats().batches, 4);
  EXPECT_EQ(feed->stats().samples, 20);
  EXPECT_EQ(feed->setup().dataset->size(), 43);
  feed.reset();
  EXPECT_EQ(batch_hash(kept[0]->batch()), all[2]);
  EXPECT_EQ(batch_hash(kept[1]->batch()), all[3]);
  EXPECT_EQ(kept[1]->batch().fields[0].spec->name, "image");
}

TEST_F(FeedTest, ManyThreadsShareAPassAndDropBatchesWhereTheyLike) {
  const auto all = expected(12);
  FeedOptions o = options();
  o.epochs_per_pass = 12;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  std::mutex mutex;
  std::map<int64_t, uint64_t> hashes;
  std::vector<Held> shelf(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      while (true) {
        Held held = value_or_throw(feed->next(pass));
        if (held == nullptr) return;
        const uint64_t hash = batch_hash(held->batch());
        const std::lock_guard lock(mutex);
        hashes[held->batch().epoch * 8 + held->batch().index] = hash;
        if (t % 2 == 0) shelf[static_cast<size_t>(t) / 2].swap(held);  // dropped by whoever comes next
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(hashes.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(hashes[static_cast<int64_t>(i)], all[i]) << i;
}

TEST_F(FeedTest, DecodesWhileTheConsumerDoesSomethingElseEvenWithOneThread) {
  FeedOptions o = options();
  o.loader.threads = 1;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  const Held first = value_or_throw(feed->next(pass));
  while (feed->stats().stages[3].items < 5 * o.loader.slots) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(feed->stats().stages[3].name, "decoder");
}

TEST_F(FeedTest, GoesOnInMidEpochInAnotherFeedWithOtherThreads) {
  const auto all = expected(2);
  for (const int64_t taken : {0, 3, 8, 11}) {
    const auto former = open(options());
    std::vector<Held> kept;
    for (int64_t left = taken; left > 0; left -= 8)
      read_pass(*former, value_or_throw(former->begin_pass()), std::min<int64_t>(left, 8));
    const SourceState state = former->state();
    EXPECT_EQ(state.epoch * 8 + state.batch_index, taken);
    FeedOptions o = options();
    o.loader.threads = 3;
    o.loader.slots = 1;
    const auto feed = open(o);
    const int64_t stale = value_or_throw(feed->begin_pass());
    const Held held = value_or_throw(feed->next(stale));
    throw_if_error(feed->seek(state));
    EXPECT_EQ(feed->state(), state);
    EXPECT_EQ(feed->next(stale).status().code(), ErrorCode::kMisuse);
    const auto end = static_cast<size_t>((taken / 8 + 1) * 8);
    EXPECT_EQ(read_pass(*feed), part(all, static_cast<size_t>(taken), end)) << taken;
    if (end < 16) {
      EXPECT_EQ(read_pass(*feed), part(all, end, 16)) << taken;
    }
    EXPECT_EQ(batch_hash(held->batch()), all[0]);
  }
}

TEST_F(FeedTest, AStateOfAnotherStreamIsRefusedAndNothingIsLost) {
  const auto feed = open(options());
  const int64_t pass = value_or_throw(feed->begin_pass());
  const auto begin = read_pass(*feed, pass, 3);
  SourceState wrong = feed->state();
  wrong.seed = 77;
  EXPECT_EQ(feed->seek(wrong).code(), ErrorCode::kMisuse);
  for (const int64_t epoch : {int64_t{-3}, int64_t{800'000'000'000'000'000}})
    EXPECT_EQ(feed->seek_epoch(epoch).code(), ErrorCode::kMisuse);
  EXPECT_EQ(begin, part(expected(1), 0, 3));
  EXPECT_EQ(read_pass(*feed, pass), part(expected(1), 3, 8));
}

TEST_F(FeedTest, SettingTheEpochThatComesAnywayChangesNothing) {
  const auto all = expected(2);
  const auto feed = open(options());
  throw_if_error(feed->seek_epoch(0));
  EXPECT_EQ(read_pass(*feed), part(all, 0, 8));
  throw_if_error(feed->seek_epoch(1));
  EXPECT_EQ(read_pass(*feed), part(all, 8, 16));
  throw_if_error(feed->seek_epoch(0));
  const Held again = value_or_throw(feed->next(value_or_throw(feed->begin_pass())));
  EXPECT_EQ(again->batch().epoch, 0);
  // in mid-epoch of a checkpoint, as loops over epochs do
  SourceState state = feed->state();
  throw_if_error(feed->seek(state));
  throw_if_error(feed->seek_epoch(0));
  EXPECT_EQ(feed->state(), state);
}

TEST_F(FeedTest, WaitsNoLongerThanAskedAndEndsAtOnceWhenClosed) {
  FeedOptions o = options();
  std::atomic<bool> go{false};
  o.loader.inject_read_error = [&go](int64_t) {
    while (!go) std::this_thread::sleep_for(milliseconds(1));
    return Status();
  };
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  EXPECT_FALSE(value_or_throw(feed->next_within(pass, milliseconds(20))).has_value());
  Status answer;
  std::thread consumer([&] { answer = feed->next(pass).status(); });
  std::thread closer([&] { feed->close(); });
  consumer.join();  // although nothing is read
  EXPECT_NE(answer.message().find("closed"), std::string::npos);
  go = true;
  closer.join();
}

TEST_F(FeedTest, AnErrorOfTheStreamComesInItsPlace) {
  write_drawn_dataset(*dir_ / "bad", {.count = 40, .truncated = {2, 3, 5, 8, 13}});
  FeedOptions o = options();
  o.loader.data = *dir_ / "bad";
  o.loader.max_bad = 1;
  o.loader.shuffle = false;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(feed->next(pass).status().code(), ErrorCode::kCorrupt);  // and stays
  throw_if_error(feed->seek_epoch(1));
}

TEST_F(FeedTest, ManyFeedsOpenedAndDroppedInMidFlight) {
  for (int i = 0; i < 300; ++i) {
    FeedOptions o = options();
    o.loader.threads = 1 + i % 3;
    o.loader.slots = 1 + i % 4;
    const auto feed = open(o);
    const int64_t pass = value_or_throw(feed->begin_pass());
    std::vector<Held> kept;
    for (int taken = 0; taken < i % 5; ++taken) kept.push_back(value_or_throw(feed->next(pass)));
    if (i % 3 == 0) kept.clear();
    if (i % 7 == 0) throw_if_error(feed->seek_epoch(2));
  }
}

// No epoch is behind the last: the pass that is there goes on.
TEST_F(FeedTest, APassThatCannotBeginLeavesTheOneBeforeAsItWas) {
  auto feed = open(options());
  const int64_t last = feed->setup().sampler.last_epoch();
  throw_if_error(feed->seek_epoch(last));
  const int64_t pass = value_or_throw(feed->begin_pass());
  const Held first = value_or_throw(feed->next(pass));
  EXPECT_EQ(feed->begin_pass().status().code(), ErrorCode::kMisuse);
  const auto second = value_or_throw(feed->next_within(pass, milliseconds(30'000)));
  ASSERT_TRUE(second.has_value()) << "nothing comes";
  EXPECT_EQ((*second)->batch().epoch, last);
  EXPECT_EQ((*second)->batch().index, 1);
}

TEST_F(FeedTest, AForkedChildIsToldWhatToDoAndDisturbsNothing) {
  const auto all = expected(1);
  auto feed = open(options());
  const int64_t pass = value_or_throw(feed->begin_pass());
  Held held = value_or_throw(feed->next(pass));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // should it hang
    const std::string said = feed->next(pass).status().message();
    const bool is_open_refused = Feed::open(options()).status().code() == ErrorCode::kMisuse;
    const bool is_same = batch_hash(held->batch()) == all[0];
    held.reset();
    feed.reset();
    ::_exit(said.find("forked") != std::string::npos && said.find("spawn") != std::string::npos &&
                    is_open_refused && is_same
                ? 0
                : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_pass(*feed, pass), part(all, 1, 8));
}

TEST_F(FeedTest, StatsSayWhoWaitedForWhom) {
  FeedOptions o = options();
  o.epochs_per_pass = -1;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  // It sleeps longer with each batch, and so decoding takes the smaller share in the end however busy the machine is.
  SourceStats stats;
  for (int i = 0; i < 30 || (i < 200 && stats.stages.back().wait_output_ns <= stats.wall_ns / 2); ++i) {
    const Held held = value_or_throw(feed->next(pass));
    std::this_thread::sleep_for(milliseconds(10 + i));
    stats = feed->stats();
  }
  const StageStats& stager = stats.stages.back();
  EXPECT_EQ(stager.name, "stager");
  EXPECT_GT(stager.wait_output_ns, stats.wall_ns / 2);  // a batch stood ready while the consumer slept
  EXPECT_LT(stager.wait_input_ns, stats.wall_ns / 2);
}

TEST_F(FeedTest, StatsSayThatAConsumerWaitedThatOnlyTakes) {
  FeedOptions o = options();
  o.epochs_per_pass = -1;
  const auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  int64_t waited_ns = 0;
  for (int i = 0; i < 1000 && waited_ns == 0; ++i) {
    value_or_throw(feed->next(pass));
    waited_ns = feed->stats().stages.back().wait_input_ns;
  }
  EXPECT_GT(waited_ns, 0);
}

TEST_F(FeedTest, OnADeviceTwinsGrowAndAreReusedAfterTheConsumersWork) {
  SimulatedDevice device{std::chrono::microseconds(200)};
  const auto all = first_pixels(24);
  FeedOptions o = options();
  o.loader.device = &device;
  o.loader.slots_max = 6;
  o.epochs_per_pass = 3;
  auto feed = open(o);
  const int64_t pass = value_or_throw(feed->begin_pass());
  const std::shared_ptr<Stream> stream = value_or_throw(device.create_stream());
  std::vector<uint64_t> hashes;
  std::vector<Held> kept;
  for (int i = 0; i < 24; ++i) {
    Held held = value_or_throw(feed->next(pass));
    const Batch& batch = held->batch();
    throw_if_error(held->read_on(stream));
    const std::span<const std::byte> pixels(batch.fields[0].data, 5 * batch.fields[0].spec->sample_bytes());
    device.launch(*stream, "training", {{pixels.data(), pixels.size()}}, {},
                  [&hashes, pixels] { hashes.push_back(data::checksum64(pixels)); });
    if (i < 4) kept.push_back(std::move(held));
    if (i == 12) kept.clear();
  }
  throw_if_error(device.synchronize(*stream));
  expect_no_violations(device);
  EXPECT_EQ(hashes, all);
  feed.reset();
}

TEST_F(FeedTest, ABorrowedStreamReadsAndTheDevicesMemoryWaitsForIt) {
  SimulatedDevice device{std::chrono::microseconds(500)};
  const std::unique_ptr<Stream> theirs = value_or_throw(device.create_stream());
  for (const bool is_kept : {false, true}) {  // given back before the loader ends, and after
    FeedOptions o = options();
    o.loader.device = &device;
    auto feed = open(o);
    const int64_t pass = value_or_throw(feed->begin_pass());
    std::vector<Held> kept;
    for (int i = 0; i < 4; ++i) {
      Held held = value_or_throw(feed->next(pass));
      throw_if_error(held->read_on(value_or_throw(device.borrow_stream(theirs->native()))));
      const BatchField& pixels = held->batch().fields[0];
      device.launch(*theirs, "training", {{pixels.data, 5 * pixels.spec->sample_bytes()}}, {});
      if (is_kept) kept = {std::move(held)};
    }
    feed.reset();
    kept.clear();
    expect_no_violations(device);
  }
  throw_if_error(device.synchronize(*theirs));
}

TEST_F(FeedTest, ABatchIsFilledAgainAfterAllStreamsThatReadIt) {
  SimulatedDevice device{std::chrono::microseconds(50)};
  const std::unique_ptr<Stream> early = value_or_throw(device.create_stream());
  const std::unique_ptr<Stream> late = value_or_throw(device.create_stream());
  for (const bool is_on_device : {true, false}) {
    FeedOptions o = options();
    (is_on_device ? o.loader.device : o.loader.pinned_for) = &device;
    o.epochs_per_pass = 3;
    auto feed = open(o);
    const int64_t pass = value_or_throw(feed->begin_pass());
    for (int i = 0; i < 12; ++i) {
      const Held held = value_or_throw(feed->next(pass));
      const BatchField& field = held->batch().fields[0];
      const std::span<const std::byte> pixels(field.data, 5 * field.spec->sample_bytes());
      throw_if_error(held->read_on(value_or_throw(device.borrow_stream(late->native()))));
      device.launch(*late, "a late kernel", {{pixels.data(), pixels.size()}}, {},
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
      throw_if_error(held->read_on(value_or_throw(device.borrow_stream(early->native()))));
      device.launch(*early, "a kernel", {{pixels.data(), pixels.size()}}, {});
    }
    feed.reset();
    expect_no_violations(device);
  }
  throw_if_error(device.synchronize(*late));
  throw_if_error(device.synchronize(*early));
}

// What `images.to("cuda", non_blocking=True)` does, and drops `images`.
TEST_F(FeedTest, APageLockedBatchIsFilledAgainAfterTheConsumersOwnCopy) {
  SimulatedDevice device{std::chrono::microseconds(2000)};
  const auto expected = first_pixels(24);
  const std::unique_ptr<Stream> theirs = value_or_throw(device.create_stream());
  FeedOptions o = options();
  o.loader.pinned_for = &device;
  o.epochs_per_pass = 3;
  auto feed = open(o);
  const size_t bytes = 5 * feed->setup().schema[0].sample_bytes();
  auto* const there = static_cast<std::byte*>(value_or_throw(device.allocate(24 * bytes)));
  const int64_t pass = value_or_throw(feed->begin_pass());
  for (size_t i = 0; i < 24; ++i) {
    const Held held = value_or_throw(feed->next(pass));
    throw_if_error(held->read_on(value_or_throw(device.borrow_stream(theirs->native()))));
    throw_if_error(device.copy_async(there + i * bytes, held->batch().fields[0].data, bytes,
                                     CopyKind::kHostToDevice, *theirs));
  }
  EXPECT_EQ(feed->held(), 0);
  feed.reset();  // while copies are under way
  throw_if_error(device.synchronize(*theirs));
  {
    const auto open = device.open_to_host();
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(data::checksum64({there + i * bytes, bytes}), expected[i]) << i;
  }
  device.deallocate(there, 24 * bytes);
  expect_no_violations(device);
}

TEST_F(FeedTest, ABatchOfTheCpuIsReadOnNoStream) {
  auto feed = open(options());
  const Held held = value_or_throw(feed->next(value_or_throw(feed->begin_pass())));
  EXPECT_EQ(held->read_on(std::make_shared<Stream>()).code(), ErrorCode::kMisuse);
}

}  // namespace
}  // namespace dlpipe::pipeline
