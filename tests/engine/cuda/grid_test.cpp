#include "engine/cuda/grid/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace dlpipe::engine::cuda {
namespace {

struct SumTo {
  static constexpr const char* kName = "sum to";
  static constexpr int kThreads = 96;
  using Shared = ReduceSpace<float, kThreads>;
  const float* from;
  float* to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    typename Block::template PerThread<float> value;
    block.each([&](int thread) { value[thread] = from[block.index() * kThreads + thread]; });
    const float sum = block.reduce(
        value, [](float a, float b) { return a + b; }, shared);
    block.each([&](int thread) {
      if (thread == 0) to[block.index()] = sum;
    });
  }
};

struct WithoutAName {
  static constexpr int kThreads = 96;
  using Shared = NoShared;
  template <class Block>
  DLPIPE_DEVICE void operator()(Block&, Shared&) const {}
};
struct OfOwnedMemory : WithoutAName {
  static constexpr const char* kName = "of owned memory";
  std::vector<float> values;  // which no device could read
};
struct OfPartOfAWarp : SumTo {
  static constexpr int kThreads = 48;
};
static_assert(GridKernel<SumTo> && !GridKernel<WithoutAName> && !GridKernel<OfOwnedMemory> &&
              !GridKernel<OfPartOfAWarp>);

TEST(Grid, EveryBlockSumsItsThreads) {
  std::vector<float> from(5 * 96);
  std::iota(from.begin(), from.end(), 0.0f);
  std::vector<float> to(5, -1);
  launch(SumTo{from.data(), to.data()}, 5);
  for (int block = 0; block < 5; ++block) {
    const float first = static_cast<float>(block) * 96;
    EXPECT_EQ(to[static_cast<size_t>(block)], 96 * first + 95 * 96 / 2) << block;
  }
}

/// Reads what nobody wrote.
struct ForgetsToWrite {
  static constexpr const char* kName = "forgets to write";
  static constexpr int kThreads = 32;
  struct Shared {
    float value;
  };
  float* to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    typename Block::template PerThread<float> kept;
    block.each([&](int thread) {
      if (thread == 0) to[0] = shared.value;
      if (thread == 1) to[1] = kept[thread];
    });
  }
};

TEST(Grid, MemoryThatNobodyWroteIsNoNumber) {
  std::vector<float> to(2, 0);
  launch(ForgetsToWrite{to.data()}, 1);
  EXPECT_TRUE(std::isnan(to[0]));
  EXPECT_TRUE(std::isnan(to[1]));
}

/// A phase whose threads read what their neighbours write in the same phase.
struct ReadsItsNeighbour {
  static constexpr const char* kName = "reads its neighbour";
  static constexpr int kThreads = 64;
  struct Shared {
    int value[kThreads];
  };
  int* to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    block.each([&](int thread) {
      shared.value[thread] = thread;
      to[thread] = thread > 0 ? shared.value[thread - 1] : 0;
    });
  }
};

TEST(Grid, ThreadsDontRunInOrder) {
  std::vector<int> to(64, 0);
  launch(ReadsItsNeighbour{to.data()}, 1);
  int wrong = 0;
  for (int thread = 1; thread < 64; ++thread) wrong += to[static_cast<size_t>(thread)] != thread - 1 ? 1 : 0;
  EXPECT_GT(wrong, 30);
}

TEST(Grid, NoBlocksAreNoWork) {
  launch(SumTo{nullptr, nullptr}, 0);
}

}  // namespace
}  // namespace dlpipe::engine::cuda
