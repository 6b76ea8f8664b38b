// Batches lent and given back: who holds which slot, and loaders that are stopped, grown or run side by side.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "tests/pipeline/loader_fixture.h"

namespace dlpipe::pipeline {
namespace {

class LendingTest : public LoaderTest {};

TEST_F(LendingTest, AConsumerThatHoldsEverySlotGetsMisuseNotADeadlock) {
  for (const int threads : {1, 2}) {
    LoaderOptions o = options();
    o.slots = 2;
    o.threads = threads;
    const auto loader = open_loader(o);
    const auto first = value_or_throw(loader->next());
    const auto second = value_or_throw(loader->next());
    const auto third = loader->next();
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.status().code(), ErrorCode::kMisuse);
    EXPECT_NE(third.status().message().find("all 2 batches are held"), std::string::npos);
    throw_if_error(loader->release(*second));  // in any order
    EXPECT_EQ(value_or_throw(loader->next())->index, 2);
    throw_if_error(loader->release(*first));
  }
}

TEST_F(LendingTest, ALentBatchStaysAsItIsWhileOthersAreDecoded) {
  LoaderOptions o = options();
  o.slots = 3;
  const auto loader = open_loader(o);
  const auto held = value_or_throw(loader->next());
  const uint64_t hash = batch_hash(*held);
  read_hashes(*loader, 5);
  EXPECT_EQ(batch_hash(*held), hash);
}

TEST_F(LendingTest, ReleasingTwiceOrTheWrongBatchIsMisuse) {
  const auto loader = open_loader(options());
  const auto batch = value_or_throw(loader->next());
  throw_if_error(loader->release(*batch));
  EXPECT_EQ(loader->release(*batch).code(), ErrorCode::kMisuse);
  const auto other = value_or_throw(loader->next());
  Batch wrong = *other;
  wrong.slot = 99;
  EXPECT_EQ(loader->release(wrong).code(), ErrorCode::kMisuse);
  wrong.slot = -1;
  EXPECT_EQ(loader->release(wrong).code(), ErrorCode::kMisuse);
  throw_if_error(loader->release(*other));
}

TEST_F(LendingTest, SeekingLeavesAHeldBatchAsItIs) {
  LoaderOptions o = options();
  o.slots = 2;
  const auto loader = open_loader(o);
  const auto expected = read_hashes(*open_loader(options()));
  const SourceState begin = loader->state();
  const auto held = value_or_throw(loader->next());
  throw_if_error(loader->seek(begin));
  EXPECT_EQ(read_hashes(*loader), expected);  // with the other slot alone
  EXPECT_EQ(batch_hash(*held), expected[0]);
  throw_if_error(loader->release(*held));
  EXPECT_EQ(loader->release(*held).code(), ErrorCode::kMisuse);
}

TEST_F(LendingTest, ALoaderGrowsByOneSlotAtATimeUpToSlotsMax) {
  LoaderOptions o = options();
  o.slots = 1;
  o.slots_max = 3;
  const auto loader = open_loader(o);
  const auto expected = read_hashes(*open_loader(options()));
  const int64_t slot_bytes = loader->stats().slot_bytes;
  EXPECT_EQ(loader->lendable_max(), 3);
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(loader->lendable(), i + 1);
    held.push_back(*value_or_throw(loader->next()));
    EXPECT_EQ(loader->next().status().code(), ErrorCode::kMisuse);
    if (i < 2) throw_if_error(loader->grow());
  }
  EXPECT_EQ(loader->stats().slot_bytes, 3 * slot_bytes);
  EXPECT_EQ(loader->lendable_max(), 3);
  EXPECT_NE(loader->grow().message().find("slots_max"), std::string::npos);
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(batch_hash(held[i]), expected[i]);
  for (const Batch& batch : held) throw_if_error(loader->release(batch));
  EXPECT_EQ(read_hashes(*loader), std::vector(expected.begin() + 3, expected.end()));
}

TEST_F(LendingTest, ABatchKeepsItsMemoryAfterTheLoader) {
  auto loader = open_loader(options());
  std::optional<Batch> batch = value_or_throw(loader->next());
  const uint64_t hash = batch_hash(*batch);
  loader.reset();
  EXPECT_EQ(batch_hash(*batch), hash);
}

TEST_F(LendingTest, AnInterruptedLoaderAnswersSoUntilItIsSentSomewhere) {
  const auto expected = read_hashes(*open_loader(options()));
  for (int64_t taken = 0; taken < 4; ++taken) {
    const auto loader = open_loader(options());
    read_hashes(*loader, taken);
    const SourceState state = loader->state();
    loader->interrupt();
    EXPECT_EQ(loader->next().status().code(), ErrorCode::kCancelled);
    EXPECT_EQ(loader->next().status().code(), ErrorCode::kCancelled);
    EXPECT_EQ(loader->state(), state);
    throw_if_error(loader->seek(state));
    EXPECT_EQ(read_hashes(*loader), std::vector(expected.begin() + taken, expected.end()));
  }
}

TEST_F(LendingTest, ManyStartsAndStopsInMidFlightDontHang) {
  for (int i = 0; i < 1000; ++i) {
    LoaderOptions o = options();
    o.threads = 1 + i % 4;
    o.slots = 1 + i % 3;
    o.epochs = -1;
    const auto loader = open_loader(o);
    for (int taken = 0; taken < i % 7; ++taken) {
      const auto batch = value_or_throw(loader->next());
      if (taken % 2 == 0 || o.slots == 1) throw_if_error(loader->release(*batch));
      if (loader->stats().batches > o.slots) break;
    }
  }
}

TEST_F(LendingTest, LoadersOfDifferentThreadsGetTheirOwn) {
  const auto expected = read_hashes(*open_loader(options()));
  testing::internal::CaptureStderr();
  for (const auto& [first, second] : {std::pair(1, 3), std::pair(3, 1), std::pair(2, 2)}) {
    LoaderOptions o = options();
    o.threads = first;
    const auto one = open_loader(o);
    o.threads = second;
    const auto other = open_loader(o);
    EXPECT_EQ(read_hashes(*one), expected);
    EXPECT_EQ(read_hashes(*other), expected);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // oneTBB says where it gives fewer
}

TEST_F(LendingTest, TwoLoadersInterleaveInOneThread) {
  const auto train = open_loader(options());
  const auto val = open_loader(validation_options(options("square")));
  const auto alone = read_hashes(*open_loader(options()));
  std::vector<uint64_t> mixed;
  while (true) {
    const auto one = read_hashes(*train, 1);
    if (one.empty()) break;
    mixed.push_back(one.front());
    read_hashes(*val, 1);
  }
  EXPECT_EQ(mixed, alone);
}

}  // namespace
}  // namespace dlpipe::pipeline
