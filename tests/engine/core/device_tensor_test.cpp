// Tensors on a device that isn't the host: the simulated one, which watches what is copied when.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <numeric>
#include <optional>
#include <thread>

#include "dlpipe/error.h"
#include "dlpipe/layers.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"
#include "engine/core/device_memory.h"
#include "tests/base/device/violations.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {
namespace {

// Lives as long as the streams that threads have on it.
SimulatedDevice& device() {
  static SimulatedDevice simulated(std::chrono::microseconds(50));
  return simulated;
}

class DeviceTensor : public testing::Test {
 protected:
  void TearDown() override {
    synchronize(device());
    expect_no_violations(device());
  }
};

TEST_F(DeviceTensor, KeepsItsValuesThereAndBack) {
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor there = host.to(device());
  EXPECT_EQ(&there.device(), &device());
  EXPECT_EQ(there.shape(), host.shape());
  EXPECT_EQ(there.to_doubles(), host.to_doubles());
  EXPECT_EQ(there.clone().to(cpu_device()).to_doubles(), host.to_doubles());
}

TEST_F(DeviceTensor, StridedViewsComeContiguous) {
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor transposed = host.view_as({3, 2}, std::array<int64_t, 2>{1, 3}, 0);
  EXPECT_EQ(transposed.to(device()).to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST_F(DeviceTensor, LargerThanOneCopy) {
  std::vector<int32_t> values(3'000'000);  // 12 MB
  std::iota(values.begin(), values.end(), 0);
  const Tensor there = Tensor::from<int32_t>(values, {3'000'000}).to(device()).clone();
  const Tensor back = there.to(cpu_device());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.data<int32_t>()));
}

TEST_F(DeviceTensor, IsFilledAndWrittenFromTheHost) {
  const SimulatedCuda kernels(device());
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF16, DType::kF32, DType::kF64, DType::kI64}) {
    const Tensor there = Tensor::full({300}, 3, dtype, device());
    EXPECT_EQ(there.to_doubles(), std::vector<double>(300, 3)) << dtype_name(dtype);
  }
  Tensor number = Tensor::empty({Shape(), DType::kF32}, device());
  const float value = 7;
  const uint32_t version = number.version();
  number.copy_from_host(&value, sizeof value);
  EXPECT_EQ(number.item(), 7);
  EXPECT_GT(number.version(), version);
}

TEST_F(DeviceTensor, WhatIsThereIsNotCopied) {
  const Tensor there = Tensor::full({4}, 1.0).to(device());
  EXPECT_EQ(there.to(device()).raw(), there.raw());
}

TEST_F(DeviceTensor, OpsAndViewsRunThere) {
  const SimulatedCuda kernels(device());
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor there = host.to(device());
  EXPECT_EQ(transpose(there, {1, 0}).contiguous_copy().to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  Tensor weight = host.to(device());
  weight.set_requires_grad(true);
  sum(mul(weight, add(there, there))).backward();
  EXPECT_EQ(&weight.grad().device(), &device());
  EXPECT_EQ(weight.grad().to_doubles(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
}

// Counts that only the host looks at would be waited for.
TEST_F(DeviceTensor, ModulesTakeTheirFloatsThereAndLeaveTheirCounts) {
  BatchNorm2d layer(4);
  layer.to(device());
  int counts = 0;
  for (const NamedTensor& entry : layer.state_dict()) {
    const bool is_count = entry.name == "num_batches_tracked";
    counts += is_count ? 1 : 0;
    EXPECT_EQ(&entry.tensor.device(), is_count ? &cpu_device() : &device()) << entry.name;
  }
  EXPECT_EQ(counts, 1);
}

SimulatedDevice::Range memory_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.size_bytes()};
}
Tensor tensor_there(int64_t megabytes) {
  return Tensor::empty({{megabytes << 20}, DType::kU8}, device());
}

/// A thread that has freed a block which a kernel of its own is still writing.
class ThreadWithABlock {
 public:
  enum class Then : uint8_t { kWaits, kCaptures };
  explicit ThreadWithABlock(int64_t megabytes, Then then = Then::kWaits)
      : thread_([this, megabytes, then] { run(megabytes, then); }) {
    is_freed_.wait();
  }
  ~ThreadWithABlock() { end(); }
  ThreadWithABlock(const ThreadWithABlock&) = delete;
  ThreadWithABlock& operator=(const ThreadWithABlock&) = delete;

  const void* block() const { return block_; }
  /// Its kernel may end.
  void open() { is_open_ = true; }
  void end() {
    if (!thread_.joinable()) return;
    open();
    may_end_.count_down();
    thread_.join();
  }

 private:
  void run(int64_t megabytes, Then then) {
    Tensor tensor = tensor_there(megabytes);
    block_ = tensor.raw();
    device().launch(engine_stream(device()), "a slow kernel", {}, {memory_of(tensor)}, [this] {
      while (!is_open_) std::this_thread::yield();
    });
    tensor = Tensor();
    std::optional<Capture> capture;
    if (then == Then::kCaptures) capture.emplace(device());
    is_freed_.count_down();
    may_end_.wait();
  }

  const void* block_ = nullptr;
  std::atomic<bool> is_open_ = false;
  std::latch is_freed_{1}, may_end_{1};
  std::thread thread_;
};

TEST_F(DeviceTensor, NobodyElseGetsABlockWhoseKernelsAreQueued) {
  ThreadWithABlock other(3);
  const Tensor mine = tensor_there(3);
  EXPECT_NE(mine.raw(), other.block());
  device().launch(engine_stream(device()), "my kernel", {}, {memory_of(mine)});
  other.end();
  EXPECT_EQ(tensor_there(3).raw(), other.block()) << "the thread is over, and nothing it asked for runs";
}

TEST_F(DeviceTensor, WhoFreesTheBlockOfAnotherThreadIsDoneWithIt) {
  Tensor tensor = tensor_there(5);
  const void* const block = tensor.raw();
  std::latch is_freed{1}, may_end{1};
  std::thread other([&] {
    device().launch(engine_stream(device()), "a reader", {memory_of(tensor)}, {});
    tensor = Tensor();
    is_freed.count_down();
    may_end.wait();
  });
  is_freed.wait();
  const Tensor again = tensor_there(5);
  EXPECT_EQ(again.raw(), block);
  device().launch(engine_stream(device()), "my kernel", {}, {memory_of(again)});
  may_end.count_down();
  other.join();
}

TEST_F(DeviceTensor, AShortageReleasesTheBlocksOfOtherThreads) {
  release_cached_blocks(device());
  ThreadWithABlock other(7);
  other.open();
  device().memory_bytes = device().bytes_held + (2 << 20);
  EXPECT_NO_THROW(tensor_there(8));
  device().memory_bytes = int64_t{1} << 40;
}

TEST_F(DeviceTensor, NobodyWaitsForAThreadThatCaptures) {
  release_cached_blocks(device());
  ThreadWithABlock other(9, ThreadWithABlock::Then::kCaptures);
  EXPECT_EQ(release_cached_blocks(device()), 0u);
  other.end();
  EXPECT_GE(release_cached_blocks(device()), 9u << 20);
}

TEST_F(DeviceTensor, TwoThreadsComputeAtOnce) {
  const SimulatedCuda kernels(device());
  const auto compute = [](float value) {
    const OnSimulatedDevice here(device());
    const Tensor x = Tensor::full({3000}, value).to(device());
    for (int round = 0; round < 5; ++round) {
      Tensor y = x;
      for (int i = 0; i < 20; ++i) y = add(mul(x, x), y);
      EXPECT_EQ(y.to_doubles(), std::vector<double>(3000, value + 20 * value * value));
    }
  };
  std::thread other([&] { compute(3); });
  compute(5);
  other.join();
}

TEST_F(DeviceTensor, WithoutKernelsItSaysWhy) {
  const Tensor there = Tensor::full({2, 3}, 1.0).to(device());
  const Tensor transposed = there.view_as({3, 2}, std::array<int64_t, 2>{1, 3}, 0);
  try {
    (void)transposed.contiguous_copy();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("simulated"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine
