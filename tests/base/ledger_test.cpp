#include "base/counters.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace dlpipe {
namespace {

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

TEST(Ledger, SpansAndTheUnaccountedRestAddUpToTheWall) {
  Ledger ledger;
  ledger.make_current();
  ledger.begin_step();
  {
    const SpanScope forward(Span::kForward);
    sleep_ms(5);
    const SpanScope metrics(Span::kMetrics);  // inner time is not the outer's
    sleep_ms(10);
  }
  sleep_ms(20);  // unmarked
  const LedgerEntry step = ledger.end_step();
  EXPECT_EQ(step.covered_ns() + step.unaccounted_ns(), step.wall_ns);
  EXPECT_GE(step.span_ns[static_cast<size_t>(Span::kForward)], 5'000'000);
  EXPECT_GE(step.span_ns[static_cast<size_t>(Span::kMetrics)], 10'000'000);
  EXPECT_GE(step.unaccounted_ns(), 20'000'000) << "an unmarked sleep must show";
  EXPECT_EQ(ledger.total().wall_ns, step.wall_ns);
  EXPECT_EQ(ledger.steps(), 1);
}

TEST(Ledger, ReassignMovesTimeAndKeepsTheSum) {
  Ledger ledger;
  ledger.make_current();
  ledger.begin_step();
  {
    const SpanScope idle(Span::kDataIdle);
    sleep_ms(2);
  }
  ledger.reassign(Span::kDataIdle, Span::kDataDecode, 1'000'000);
  const LedgerEntry step = ledger.end_step();
  EXPECT_EQ(step.span_ns[static_cast<size_t>(Span::kDataDecode)], 1'000'000);
  EXPECT_GE(step.span_ns[static_cast<size_t>(Span::kDataIdle)], 1'000'000);
}

TEST(Ledger, PartsAndTheStartAreInTheTotalAndNoSteps) {
  Ledger ledger;
  ledger.make_current();
  ledger.add(Span::kStart, 7'000'000);
  ledger.begin_part();
  {
    const SpanScope save(Span::kCheckpoint);
    sleep_ms(3);
  }
  const LedgerEntry part = ledger.end_part();
  EXPECT_EQ(ledger.steps(), 0);
  EXPECT_EQ(ledger.total().wall_ns, part.wall_ns + 7'000'000);
  EXPECT_EQ(ledger.total().span_ns[static_cast<size_t>(Span::kStart)], 7'000'000);
  EXPECT_EQ(ledger.total().training_ns(), part.unaccounted_ns())
      << "neither start nor checkpoint is training";
}

TEST(Ledger, SoFarHoldsTheRunningStep) {
  Ledger ledger;
  ledger.make_current();
  ledger.add(Span::kKernelSearch, 9'000'000);
  EXPECT_EQ(ledger.so_far().wall_ns, 9'000'000);
  ledger.begin_step();
  {
    const SpanScope search(Span::kKernelSearch);
    sleep_ms(3);
  }
  const LedgerEntry running = ledger.so_far();
  EXPECT_EQ(ledger.total().wall_ns, 9'000'000);
  EXPECT_GE(running.span_ns[static_cast<size_t>(Span::kKernelSearch)], 12'000'000);
  EXPECT_GE(running.wall_ns, running.covered_ns());
  EXPECT_EQ(running.training_ns(), running.unaccounted_ns()) << "a search is no training";
  ledger.end_step();
  EXPECT_EQ(ledger.so_far().wall_ns, ledger.total().wall_ns);
}

TEST(Ledger, WithoutACurrentLedgerSpansDoNothing) {
  ASSERT_EQ(Ledger::current(), nullptr);
  const SpanScope forward(Span::kForward);
  { const Ledger ledger; }
  EXPECT_EQ(Ledger::current(), nullptr);
}

}  // namespace
}  // namespace dlpipe
