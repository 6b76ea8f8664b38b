// Every operation over simulated ranks: 1, 2, 4 and 8 of them, with messages that are held back at random.
#include "engine/collective/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "dlpipe/dtype.h"
#include "tests/engine/collective/simulated_ranks.h"

namespace dlpipe::test {
namespace {

using engine::Collective;
using engine::SimulatedNetwork;

/// `count` numbers of one leaf, of very different sizes, so that another order of sums gives other bits.
std::vector<float> leaf_values(int leaf, size_t count) {
  std::mt19937 random(static_cast<unsigned>(leaf) + 1);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(mantissa(random), exponent(random));
  return values;
}

/// The sum of leaves [first, first + leaves) along the binary tree.
std::vector<float> tree_sum(int first, int leaves, size_t count) {
  if (leaves == 1) return leaf_values(first, count);
  std::vector<float> left = tree_sum(first, leaves / 2, count);
  const std::vector<float> right = tree_sum(first + leaves / 2, leaves / 2, count);
  for (size_t i = 0; i < count; ++i) left[i] += right[i];
  return left;
}

/// The same with every leaf and every sum of two rounded to bf16.
std::vector<float> rounded_tree_sum(int first, int leaves, size_t count) {
  const auto rounded = [](float value) { return static_cast<float>(BFloat16(value)); };
  std::vector<float> left;
  if (leaves == 1) {
    left = leaf_values(first, count);
    for (float& value : left) value = rounded(value);
    return left;
  }
  left = rounded_tree_sum(first, leaves / 2, count);
  const std::vector<float> right = rounded_tree_sum(first + leaves / 2, leaves / 2, count);
  for (size_t i = 0; i < count; ++i) left[i] = rounded(left[i] + right[i]);
  return left;
}

/// The bits; memcmp may not be given the null pointer of an empty vector.
bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

class CollectiveTest : public testing::TestWithParam<int> {
 protected:
  CollectiveTest() : network_(GetParam(), {.seed = 7, .most_delay_us = 300}) {}
  void on_all(const std::function<void(Collective&)>& body) { on_ranks(network_, GetParam(), body); }
  SimulatedNetwork network_;
};

INSTANTIATE_TEST_SUITE_P(Worlds, CollectiveTest, testing::Values(1, 2, 4, 8),
                         [](const auto& info) { return std::to_string(info.param); });

// Sizes that don't divide by the ranks, fewer values than ranks, none at all.
TEST_P(CollectiveTest, SumsHaveTheBitsOfTheTree) {
  constexpr int kLeaves = 8;
  for (const size_t count : std::vector<size_t>{0, 1, 3, 1000, 4097}) {
    const std::vector<float> expected = tree_sum(0, kLeaves, count);
    on_all([&](Collective& ranks) {
      const int leaves = kLeaves / ranks.world();
      std::vector<float> values = tree_sum(ranks.rank() * leaves, leaves, count);
      const Status status = ranks.all_reduce(values, "values").wait();
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(same_bits(values, expected)) << count << " values";
    });
  }
}

TEST_P(CollectiveTest, EachRankKeepsItsPartAndGathersTheRest) {
  constexpr size_t kCount = 1003;
  const std::vector<float> expected = tree_sum(0, GetParam(), kCount);
  on_all([&](Collective& ranks) {
    std::vector<float> values = leaf_values(ranks.rank(), kCount);
    const Collective::Part part = ranks.part_of(kCount);
    EXPECT_TRUE(ranks.reduce_scatter(values, ranks.even_cuts(kCount), "values").wait().ok());
    const auto own = [&](std::span<const float> all) {
      return all.subspan(part.begin, part.end - part.begin);
    };
    EXPECT_TRUE(same_bits(own(values), own(expected)));
    std::fill(values.begin(), values.begin() + static_cast<int64_t>(part.begin), 0.0f);
    std::fill(values.begin() + static_cast<int64_t>(part.end), values.end(), 0.0f);
    EXPECT_TRUE(ranks.all_gather(values, ranks.even_cuts(kCount), "values").wait().ok());
    EXPECT_TRUE(same_bits(values, expected));
  });
}

// Parts of any sizes, none among them.
TEST_P(CollectiveTest, PartsMayBeOfAnySize) {
  constexpr size_t kCount = 1003;
  const std::vector<float> expected = tree_sum(0, GetParam(), kCount);
  on_all([&](Collective& ranks) {
    Collective::Cuts cuts(static_cast<size_t>(ranks.world()) + 1, 700);
    cuts.front() = 0;
    cuts.back() = kCount;
    std::vector<float> values = leaf_values(ranks.rank(), kCount);
    const Collective::Part part = ranks.part_of(cuts);
    EXPECT_TRUE(ranks.reduce_scatter(values, cuts, "values").wait().ok());
    for (size_t i = 0; i < kCount; ++i) {
      if (i < part.begin || i >= part.end) values[i] = 0.0f;
    }
    EXPECT_TRUE(ranks.all_gather(values, cuts, "values").wait().ok());
    EXPECT_TRUE(same_bits(values, expected));
  });
}

// Half the bytes, and the bits of a tree whose leaves and sums are rounded, whoever holds which of them.
TEST_P(CollectiveTest, SumsRoundedToBf16HaveTheBitsOfTheRoundedTree) {
  constexpr int kLeaves = 8;
  constexpr size_t kCount = 1 << 10;
  const std::vector<float> expected = rounded_tree_sum(0, kLeaves, kCount);
  on_all([&](Collective& ranks) {
    const int leaves = kLeaves / ranks.world();
    std::vector<float> values = leaves == 1 ? leaf_values(ranks.rank(), kCount)
                                            : rounded_tree_sum(ranks.rank() * leaves, leaves, kCount);
    EXPECT_TRUE(ranks.all_reduce(values, "values", engine::Wire::kBf16).wait().ok());
    EXPECT_TRUE(same_bits(values, expected));
    const auto n = static_cast<int64_t>(ranks.world());
    EXPECT_EQ(ranks.stats().bytes_sent, 2 * (n - 1) * static_cast<int64_t>(kCount * sizeof(BFloat16)) / n);
  });
}

// 2 (n-1)/n of the bytes.
TEST_P(CollectiveTest, ASumMovesAsManyBytesAsItMust) {
  constexpr size_t kCount = 1 << 12;
  on_all([&](Collective& ranks) {
    std::vector<float> values(kCount, 1.0f);
    EXPECT_TRUE(ranks.all_reduce(values, "values").wait().ok());
    const auto n = static_cast<int64_t>(ranks.world());
    EXPECT_EQ(ranks.stats().bytes_sent, 2 * (n - 1) * static_cast<int64_t>(kCount * sizeof(float)) / n);
  });
}

TEST_P(CollectiveTest, GathersTextsOfAnySizeByRank) {
  on_all([&](Collective& ranks) {
    const auto text_of = [](int rank) { return std::string(static_cast<size_t>(rank * 3), 'a' + rank); };
    const auto all = ranks.gather(text_of(ranks.rank()), "texts");
    ASSERT_TRUE(all.ok());
    ASSERT_EQ(static_cast<int>(all->size()), ranks.world());
    for (int rank = 0; rank < ranks.world(); ++rank)
      EXPECT_EQ((*all)[static_cast<size_t>(rank)], text_of(rank));
  });
}

TEST_P(CollectiveTest, BroadcastsFromAnyRank) {
  for (int root = 0; root < GetParam(); ++root) {
    on_all([&](Collective& ranks) {
      std::vector<std::byte> bytes(100, static_cast<std::byte>(ranks.rank()));
      EXPECT_TRUE(ranks.broadcast(bytes, root, "bytes").wait().ok());
      EXPECT_EQ(bytes, std::vector<std::byte>(100, static_cast<std::byte>(root)));
    });
  }
}

TEST_P(CollectiveTest, SendsAndReceivesInOrder) {
  if (GetParam() == 1) return;  // a rank alone has no peer
  on_all([&](Collective& ranks) {
    const int peer = ranks.rank() ^ 1;
    for (int round = 0; round < 20; ++round) {
      std::byte mine{static_cast<unsigned char>(round)};
      std::byte its{};
      auto first = ranks.rank() < peer ? ranks.send(peer, std::span(&mine, 1), "a byte")
                                       : ranks.receive(peer, std::span(&its, 1), "a byte");
      auto second = ranks.rank() < peer ? ranks.receive(peer, std::span(&its, 1), "a byte")
                                        : ranks.send(peer, std::span(&mine, 1), "a byte");
      EXPECT_TRUE(first.wait().ok());
      EXPECT_TRUE(second.wait().ok());
      EXPECT_EQ(static_cast<int>(its), round);
    }
  });
}

// Asked for one behind the other, waited for at the end. The others ask when the first one has: it can't have waited for them.
TEST_P(CollectiveTest, OperationsGoOnWhileTheCallerDoes) {
  std::promise<void> first_has_asked;
  const std::shared_future<void> asked = first_has_asked.get_future().share();
  on_all([&](Collective& ranks) {
    std::vector<std::vector<float>> values(16, std::vector<float>(100, 1.0f));
    std::vector<Collective::Handle> handles;
    if (ranks.rank() > 0) {
      EXPECT_EQ(asked.wait_for(std::chrono::seconds(30)), std::future_status::ready)
          << "the first rank waits for its operations";
    }
    for (auto& each : values) handles.push_back(ranks.all_reduce(each, "values"));
    if (ranks.rank() == 0) first_has_asked.set_value();
    for (auto& handle : handles) EXPECT_TRUE(handle.wait().ok());
    for (const auto& each : values) EXPECT_EQ(each[99], static_cast<float>(ranks.world()));
    EXPECT_TRUE(ranks.barrier("the end").wait().ok());
    EXPECT_TRUE(ranks.close().ok());
  });
}

// Ranks in a grid, asked for in turn and waited for at the end: each sum is of its group alone.
TEST_P(CollectiveTest, GroupsOfRanksSumAmongThemselves) {
  for (int stages = 1; stages <= GetParam(); stages *= 2) {
    for (int parts = 1; stages * parts <= GetParam(); parts *= 2) {
      on_all([&](Collective& ranks) {
        const engine::RankGrid grid = engine::make_rank_grid(&ranks, stages, parts);
        EXPECT_EQ(grid.data_world() * stages * parts, ranks.world());
        EXPECT_EQ(grid.data_rank(), grid.data_rank_of(ranks.rank()));
        const auto place = [&](int rank) {
          return std::array{rank / (stages * parts), rank / parts % stages, rank % parts};
        };
        const std::array own = place(ranks.rank());
        const std::array groups = {grid.data, grid.stages, grid.tensor, grid.replica};
        std::array<std::vector<float>, 4> values;
        std::array<int, 4> expected = {0, 0, 0, 0};
        std::vector<Collective::Handle> handles;
        for (size_t g = 0; g < groups.size(); ++g) {
          values[g].assign(101, static_cast<float>(1 << ranks.rank()));
          if (groups[g] != nullptr) handles.push_back(groups[g]->all_reduce(values[g], "values"));
        }
        for (Collective::Handle& handle : handles) EXPECT_TRUE(handle.wait().ok());
        for (int rank = 0; rank < ranks.world(); ++rank) {
          const std::array its = place(rank);
          for (size_t g = 0; g < 3; ++g) {
            bool differs_in_this_alone = true;
            for (size_t axis = 0; axis < 3; ++axis)
              differs_in_this_alone &= axis == g || its[axis] == own[axis];
            if (differs_in_this_alone) expected[g] += 1 << rank;
          }
          if (its[0] == own[0]) expected[3] += 1 << rank;
        }
        for (size_t g = 0; g < groups.size(); ++g)
          EXPECT_EQ(values[g], std::vector<float>(101, static_cast<float>(expected[g]))) << g;
        EXPECT_TRUE(ranks.barrier("the end").wait().ok());
      });
    }
  }
}

// Messages that a rank sends and takes at once; the last one only goes one way.
TEST_P(CollectiveTest, ExchangesBothWaysAtOnce) {
  if (GetParam() == 1) return;  // a rank alone has no peer
  on_all([&](Collective& ranks) {
    const int peer = ranks.rank() ^ 1;
    std::vector<std::byte> mine(1 << 16, static_cast<std::byte>(ranks.rank())), its(1 << 16);
    EXPECT_TRUE(ranks.exchange(peer, mine, its, "bytes").wait().ok());
    EXPECT_EQ(its, std::vector<std::byte>(1 << 16, static_cast<std::byte>(peer)));
    const bool sends = ranks.rank() < peer;
    EXPECT_TRUE(
        (sends ? ranks.exchange(peer, mine, {}, "bytes") : ranks.receive(peer, its, "bytes")).wait().ok());
  });
}

TEST(CollectiveFaultTest, ARankThatHangsIsNamedByItsNumberAmongAllInAGroup) {
  SimulatedNetwork network(4, {.peer_timeout_s = 0.3});
  network.hang(3, 0);
  on_ranks(network, 4, [&](Collective& ranks) {
    const engine::RankGrid grid = engine::make_rank_grid(&ranks, 1, 2);
    if (ranks.rank() != 2) return;
    const Status status = grid.tensor->barrier("a row").wait();
    EXPECT_NE(status.message().find("rank 2 of 4 waited for a row"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("rank 3 has not responded"), std::string::npos) << status.message();
  });
}

TEST(CollectiveFaultTest, AGroupWithoutThisRankIsRefused) {
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [&](Collective& ranks) {
    const std::vector<int> others = {(ranks.rank() + 1) % 4, (ranks.rank() + 2) % 4};
    EXPECT_THROW((void)ranks.group(others), Error);
    EXPECT_THROW((void)ranks.group(std::vector<int>{0, 1, 2}), Error);
  });
}

TEST(CollectiveFaultTest, ARankThatHangsIsNamedWithWhatWasWaitedFor) {
  SimulatedNetwork network(4, {.peer_timeout_s = 0.3});
  network.hang(2, 1);
  std::mutex mutex;
  std::vector<std::string> messages(4);
  on_ranks(network, 4, [&](Collective& ranks) {
    std::vector<float> values(64, 1.0f);
    const Status status = ranks.all_reduce(values, "gradients of step 17").wait();
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    const std::lock_guard lock(mutex);
    messages[static_cast<size_t>(ranks.rank())] = status.message();
    int said = 0;
    for (const int rank : {0, 1, 3}) said += messages[static_cast<size_t>(rank)].empty() ? 0 : 1;
    if (said == 3) network.end();  // wakes rank 2
  });
  for (const int rank : {0, 1, 3}) {
    const std::string& message = messages[static_cast<size_t>(rank)];
    EXPECT_NE(message.find("rank 2 has not responded for 0.3 s"), std::string::npos) << message;
    EXPECT_NE(message.find("waited for gradients of step 17"), std::string::npos) << message;
    EXPECT_NE(message.find(dlpipe::concat("rank ", rank, " of 4")), std::string::npos) << message;
  }
}

TEST(CollectiveFaultTest, ARankThatStopsTellsWhy) {
  SimulatedNetwork network(4, {.peer_timeout_s = 60});
  on_ranks(network, 4, [&](Collective& ranks) {
    if (ranks.rank() == 3) {
      ranks.abort("the disk is full");
      EXPECT_EQ(ranks.barrier("step 2").wait().code(), ErrorCode::kCancelled);
      return;
    }
    const Status status = ranks.barrier("step 2").wait();
    EXPECT_NE(status.message().find("rank 3 stopped: the disk is full"), std::string::npos)
        << status.message();
    EXPECT_FALSE(ranks.barrier("step 3").wait().ok());  // and so does all that comes after
  });
}

// It waits for rank 0 while it stops.
TEST(CollectiveFaultTest, ARankThatStopsAmidAnExchangeTellsWhy) {
  SimulatedNetwork network(2, {.peer_timeout_s = 60});
  std::atomic<bool> waits = false;
  on_ranks(network, 2, [&](Collective& ranks) {
    if (ranks.rank() == 1) {
      std::byte byte{};
      Collective::Handle handle = ranks.receive(0, {&byte, 1}, "gradients of step 2");
      std::this_thread::sleep_for(
          std::chrono::milliseconds(50));  // sooner: it is told as an idle rank is, alike
      ranks.abort("the disk is full");
      const Status status = handle.wait();
      EXPECT_EQ(status.code(), ErrorCode::kCancelled);
      EXPECT_NE(status.message().find("the disk is full"), std::string::npos) << status.message();
      waits = true;
      return;
    }
    while (!waits) std::this_thread::yield();
    const Status status = ranks.barrier("step 3").wait();
    EXPECT_NE(status.message().find("rank 1 stopped: the disk is full"), std::string::npos)
        << status.message();
  });
}

TEST(CollectiveFaultTest, ThreeRanksAreRefused) {
  SimulatedNetwork network(3, {});
  const auto ranks = Collective::create([&] { return network.transport(0); });
  EXPECT_EQ(ranks.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(ranks.status().message().find("power of two"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::test
