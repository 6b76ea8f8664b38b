// The watchman watched: correct use raises no violation, and each planted bug its own.
#include "tests/base/device/simulated_device.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/base/device/violations.h"

namespace dlpipe {
namespace {

constexpr size_t kBytes = 1000;

/// A slot, two twins, a copy stream and the trainer's: the stager's world.
class SimulatedDeviceTest : public testing::Test {
 protected:
  SimulatedDeviceTest() {
    slot_ = value_or_throw(device_.allocate_pinned(kBytes));
    twin_ = value_or_throw(device_.allocate(kBytes));
    copy_ = value_or_throw(device_.create_stream());
    train_ = value_or_throw(device_.create_stream());
    ready_ = value_or_throw(device_.create_event());
    released_ = value_or_throw(device_.create_event());
  }
  ~SimulatedDeviceTest() override {
    quiet();
    if (slot_ != nullptr) device_.deallocate_pinned(slot_, kBytes);
    if (twin_ != nullptr) device_.deallocate(twin_, kBytes);
  }

  /// Keeps the copy stream from what comes next until quiet().
  void hold() {
    device_.launch(*copy_, "a gate", {}, {}, [this] {
      while (!open_) std::this_thread::yield();
    });
  }
  void quiet() {
    open_ = true;
    throw_if_error(device_.synchronize(*copy_));
    throw_if_error(device_.synchronize(*train_));
  }
  void stage() {
    throw_if_error(device_.copy_async(twin_, slot_, kBytes, CopyKind::kHostToDevice, *copy_));
    throw_if_error(device_.record(*ready_, *copy_));
  }
  void train() { device_.launch(*train_, "training", {twin()}, {}); }
  SimulatedDevice::Range slot() const { return {slot_, kBytes}; }
  SimulatedDevice::Range twin() const { return {twin_, kBytes}; }

  /// That exactly this kind of violation was seen.
  void expect_violation(const std::string& words) {
    quiet();
    const std::vector<std::string> seen = device_.take_violations();
    ASSERT_FALSE(seen.empty()) << "nothing was noticed";
    for (const std::string& violation : seen)
      EXPECT_NE(violation.find(words), std::string::npos) << violation;
  }
  void expect_none() {
    quiet();
    expect_no_violations(device_);
  }

  SimulatedDevice device_{std::chrono::microseconds(2000)};
  void* slot_ = nullptr;
  void* twin_ = nullptr;
  std::unique_ptr<Stream> copy_, train_;
  std::unique_ptr<Event> ready_, released_;
  std::atomic<bool> open_{false};
};

TEST_F(SimulatedDeviceTest, TheStagersOrderIsInOrder) {
  for (int i = 0; i < 5; ++i) {
    const SimulatedDevice::Step step(device_);
    if (i > 0) throw_if_error(device_.wait(*copy_, *released_));
    stage();
    throw_if_error(device_.wait(*train_, *ready_));
    train();
    throw_if_error(device_.record(*released_, *train_));
  }
  expect_none();
  device_.host_writes(slot());
  device_.host_reads(twin());
  expect_none();
}

TEST_F(SimulatedDeviceTest, CopiesHappenLateAndWhole) {
  std::memset(slot_, 7, kBytes);
  hold();
  stage();
  const auto open = device_.open_to_host();
  EXPECT_EQ(*static_cast<uint8_t*>(twin_), SimulatedDevice::kFresh);
  open_ = true;
  throw_if_error(device_.synchronize(*ready_));
  EXPECT_EQ(*static_cast<uint8_t*>(twin_), 7);
  expect_none();
}

TEST_F(SimulatedDeviceTest, TheHostCantTouchItsMemory) {
  if (!GuardedMemory::kGuards) GTEST_SKIP() << "a sanitizer watches the heap";
  std::vector<void*> pieces;
  for (size_t bytes = 1; bytes < 1000000; bytes = 5 * bytes / 2 + 1) {
    pieces.push_back(value_or_throw(device_.allocate(bytes)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back()) % GuardedMemory::kAlign, 0u);
  }
  const auto byte = [](void* memory) { return *static_cast<volatile uint8_t*>(memory); };
  for (void* const piece : {pieces.front(), pieces.back()})
    EXPECT_EXIT(byte(piece), testing::KilledBySignal(SIGSEGV), "");
  {
    const auto open = device_.open_to_host();
    for (void* const piece : pieces) EXPECT_EQ(byte(piece), SimulatedDevice::kFresh);
    pieces.push_back(value_or_throw(device_.allocate(1 << 20)));
    EXPECT_EQ(byte(pieces.back()), SimulatedDevice::kFresh);
  }
  EXPECT_EXIT(byte(pieces.back()), testing::KilledBySignal(SIGSEGV), "");
  // Pieces that are given back join: what held many holds one of all their bytes.
  void* const first = pieces.front();
  for (size_t bytes = 1, i = 0; i + 1 < pieces.size(); bytes = 5 * bytes / 2 + 1, ++i)
    device_.deallocate(pieces[i], bytes);
  device_.deallocate(pieces.back(), 1 << 20);
  void* const whole = value_or_throw(device_.allocate(1500000));
  EXPECT_EQ(whole, first);
  device_.deallocate(whole, 1500000);
  expect_none();
}

TEST_F(SimulatedDeviceTest, ACapturedStepCanBeReplayed) {
  int runs = 0;
  throw_if_error(device_.begin_capture(*train_));
  device_.launch(*train_, "a kernel", {}, {twin()}, [&] { ++runs; });
  const auto graph = value_or_throw(device_.end_capture(*train_));
  quiet();
  EXPECT_EQ(runs, 0);
  for (int i = 0; i < 3; ++i) throw_if_error(device_.launch(*graph, *train_));
  expect_none();
  EXPECT_EQ(runs, 3);
}

TEST_F(SimulatedDeviceTest, WhatAnotherStreamDidBeforeACallbackIsKnown) {
  stage();
  std::atomic<bool> credited = false;
  throw_if_error(device_.on_complete(*copy_, [&] { credited = true; }));
  while (!credited) std::this_thread::yield();
  device_.host_writes(slot());
  expect_none();
}

// A device that several tests share: each fails for what it did, and for nothing else.
TEST_F(SimulatedDeviceTest, AViolationFailsTheTestItHappenedInAndNoOther) {
  for (int test = 0; test < 2; ++test) {
    stage();
    train();
    quiet();
    EXPECT_NONFATAL_FAILURE(expect_no_violations(device_),
                            "training reads without waiting for a copy writes");
    stage();
    throw_if_error(device_.wait(*train_, *ready_));
    train();
    expect_none();
  }
}

// Planted bugs from here on.

TEST_F(SimulatedDeviceTest, BugTrainingBeforeTheReadyEvent) {
  stage();
  train();
  expect_violation("training reads without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugOverwritingATwinThatIsBeingRead) {
  stage();
  throw_if_error(device_.wait(*train_, *ready_));
  train();
  throw_if_error(device_.record(*released_, *train_));
  stage();
  expect_violation("a copy writes without waiting for training reads");
}

TEST_F(SimulatedDeviceTest, BugWaitingForAnEventThatIsRecordedLater) {
  throw_if_error(device_.wait(*train_, *ready_));
  stage();
  train();
  expect_violation("training reads without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugAnEventRecordedBeforeTheCopy) {
  throw_if_error(device_.record(*ready_, *copy_));
  throw_if_error(device_.copy_async(twin_, slot_, kBytes, CopyKind::kHostToDevice, *copy_));
  throw_if_error(device_.wait(*train_, *ready_));
  train();
  expect_violation("training reads without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugWaitingForTheEventOfAnotherStream) {
  stage();
  throw_if_error(device_.record(*released_, *train_));
  throw_if_error(device_.wait(*train_, *released_));
  train();
  expect_violation("training reads without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugFillingASlotThatIsBeingCopied) {
  hold();
  stage();
  std::memset(slot_, 3, kBytes);
  quiet();
  expect_violation("changed memory while a copy of it was under way");
}

TEST_F(SimulatedDeviceTest, BugSayingSoBeforeTheCopyIsDone) {
  stage();
  device_.host_writes(slot());
  expect_violation("the host writes or frees memory without waiting for a copy reads");
}

TEST_F(SimulatedDeviceTest, BugReadingAResultBeforeItIsThere) {
  throw_if_error(device_.copy_async(slot_, twin_, kBytes, CopyKind::kDeviceToHost, *copy_));
  device_.host_reads(slot());
  expect_violation("the host reads memory without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugFreeingWhatAKernelUses) {
  train();
  device_.host_writes(twin());  // what deallocate asks first; really freed, the kernel would run on anything
  expect_violation("the host writes or frees memory without waiting for training reads");
}

TEST_F(SimulatedDeviceTest, BugTwoStreamsWriteTheSameMemory) {
  device_.launch(*copy_, "one kernel", {}, {twin()});
  device_.launch(*train_, "another", {}, {twin()});
  expect_violation("another writes without waiting for one kernel writes");
}

TEST_F(SimulatedDeviceTest, BugAHostWaitInAStep) {
  stage();
  {
    const SimulatedDevice::Step step(device_);
    throw_if_error(device_.synchronize(*ready_));
  }
  expect_violation("the host waits for an event in a step");
}

TEST_F(SimulatedDeviceTest, BugAnAllocationInACapture) {
  throw_if_error(device_.begin_capture(*train_));
  device_.deallocate(value_or_throw(device_.allocate(10)), 10);
  (void)value_or_throw(device_.end_capture(*train_));
  expect_violation("an allocation in a capture");
}

TEST_F(SimulatedDeviceTest, BugAHostWaitInACapture) {
  throw_if_error(device_.begin_capture(*train_));
  throw_if_error(device_.synchronize(*copy_));
  (void)value_or_throw(device_.end_capture(*train_));
  expect_violation("the host waits for a stream in a capture");
}

TEST_F(SimulatedDeviceTest, BugAGraphThatDoesNotWaitForItsInput) {
  throw_if_error(device_.begin_capture(*train_));
  train();
  const auto graph = value_or_throw(device_.end_capture(*train_));
  stage();
  throw_if_error(device_.launch(*graph, *train_));
  expect_violation("training reads without waiting for a copy writes");
}

TEST_F(SimulatedDeviceTest, BugCopyingFromMemoryThatIsNotPageLocked) {
  std::vector<std::byte> pageable(kBytes);
  throw_if_error(device_.copy_async(twin_, pageable.data(), kBytes, CopyKind::kHostToDevice, *copy_));
  expect_violation("isn't page-locked");
}

TEST_F(SimulatedDeviceTest, BugAKernelThatLeavesItsMemory) {
  device_.launch(*train_, "training", {}, {{twin_, kBytes + 1}});
  expect_violation("training writes outside of any allocation");
}

TEST_F(SimulatedDeviceTest, BugUsingFreedMemory) {
  device_.deallocate(twin_, kBytes);
  train();
  twin_ = nullptr;
  expect_violation("training reads outside of any allocation");
}

}  // namespace
}  // namespace dlpipe
