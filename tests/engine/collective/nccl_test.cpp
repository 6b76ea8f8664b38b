// NCCL's transport over a library with NCCL's and the driver's functions whose devices are memory (fake_nccl.cpp). No GPU
// ran it.
#include "engine/collective/nccl.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/collective/collective.h"
#include "engine/collective/simulated.h"

namespace dlpipe::test {
namespace {

using engine::Collective;
using engine::NcclOptions;
using engine::SimulatedNetwork;
using engine::Transport;

NcclOptions fake(double peer_timeout_s = 20) {
  return {.peer_timeout_s = peer_timeout_s,
          .piece_bytes = 1000,  // so that messages are of several
          .nccl_library = DLPIPE_FAKE_NCCL,
          .driver_library = DLPIPE_FAKE_NCCL};
}

Result<std::unique_ptr<Transport>> open(SimulatedNetwork& network, int rank, const NcclOptions& options) {
  auto meeting = network.transport(rank);
  if (!meeting.ok()) return meeting.status();
  return engine::open_nccl_transport(std::move(*meeting), options);
}

void on_threads(int world, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Of very different sizes, so that another order of sums gives other bits.
std::vector<float> values_of(int rank) {
  std::vector<float> values(3001);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        std::ldexp(1.0F + 0.001F * static_cast<float>(i), static_cast<int>((i * 7 + 5 * rank) % 23) - 11);
  }
  return values;
}

/// The sums over all ranks, from rank 0.
std::vector<float> sums(int world,
                        const std::function<Result<std::unique_ptr<Transport>>(int rank)>& transport) {
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < world; ++rank) values.push_back(values_of(rank));
  on_threads(world, [&](int rank) {
    auto ranks = Collective::create([&] { return transport(rank); });
    ASSERT_TRUE(ranks.ok()) << ranks.status().message();
    EXPECT_EQ((*ranks)->world(), world);
    const Status summed = (*ranks)->all_reduce(values[static_cast<size_t>(rank)], "values").wait();
    EXPECT_TRUE(summed.ok()) << summed.message();
    const Status closed = (*ranks)->close();
    EXPECT_TRUE(closed.ok()) << closed.message();
  });
  for (const std::vector<float>& each : values) EXPECT_EQ(each, values[0]);
  return values[0];
}

class NcclTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, NcclTest, testing::Values(2, 4, 8),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(NcclTest, SumsHaveTheBitsOfAnyOtherTransport) {
  SimulatedNetwork meeting(GetParam(), {}), other(GetParam(), {});
  const std::vector<float> mine = sums(GetParam(), [&](int rank) { return open(meeting, rank, fake()); });
  const std::vector<float> theirs = sums(GetParam(), [&](int rank) { return other.transport(rank); });
  ASSERT_EQ(mine.size(), theirs.size());
  EXPECT_EQ(std::memcmp(mine.data(), theirs.data(), mine.size() * sizeof(float)), 0);
}

/// A stream of the fake driver.
class FakeStream final : public Stream {
 public:
  FakeStream() {
    void* const library = dlopen(DLPIPE_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
    const auto find = [&](const char* name) { return dlsym(library, name); };
    reinterpret_cast<int (*)(void**, unsigned)>(find("cuStreamCreate"))(&stream_, 0);
    query_ = reinterpret_cast<int (*)(void*)>(find("cuStreamQuery"));
    destroy_ = reinterpret_cast<int (*)(void*)>(find("cuStreamDestroy_v2"));
  }
  ~FakeStream() override { destroy_(stream_); }
  void* native() const override { return stream_; }
  bool is_over() const { return query_(stream_) == 0; }

 private:
  void* stream_ = nullptr;
  int (*query_)(void*) = nullptr;
  int (*destroy_)(void*) = nullptr;
};

engine::DeviceSumsOptions fake_sums() {
  return {.device = 0, .nccl_library = DLPIPE_FAKE_NCCL, .driver_library = DLPIPE_FAKE_NCCL};
}

TEST(NcclSums, AddUpWhatAllRanksHaveOnTheirDevices) {
  constexpr int kWorld = 4;
  SimulatedNetwork network(kWorld, {});
  std::vector<std::vector<float>> sums(kWorld);
  on_threads(kWorld, [&](int rank) {
    auto ranks = Collective::create([&] { return network.transport(rank); });
    ASSERT_TRUE(ranks.ok()) << ranks.status().message();
    const auto device = engine::open_nccl_sums(**ranks, fake_sums());
    ASSERT_TRUE(device.ok()) << device.status().message();
    std::vector<float>& values = sums[static_cast<size_t>(rank)];
    for (int i = 0; i < 5; ++i) values.push_back(static_cast<float>((rank + 1) * (i + 1)));
    FakeStream stream;
    EXPECT_TRUE((*device)->all_reduce(values.data(), 3, stream).ok());
    EXPECT_TRUE((*device)->all_reduce(values.data() + 3, 2, stream).ok());
    while (!stream.is_over()) EXPECT_TRUE((*device)->check().ok());
    EXPECT_TRUE((*ranks)->barrier("the end").wait().ok());
    EXPECT_TRUE((*ranks)->close().ok());
  });
  for (const std::vector<float>& each : sums) EXPECT_EQ(each, (std::vector<float>{10, 20, 30, 40, 50}));
}

TEST(NcclSums, ARankThatLeavesIsAnErrorOfTheOthers) {
  SimulatedNetwork network(2, {});
  on_threads(2, [&](int rank) {
    auto ranks = Collective::create([&] { return network.transport(rank); });
    ASSERT_TRUE(ranks.ok());
    const auto device = engine::open_nccl_sums(**ranks, fake_sums());
    ASSERT_TRUE(device.ok());
    if (rank == 1) return;
    FakeStream stream;
    std::vector<float> values(3);
    EXPECT_TRUE((*device)->all_reduce(values.data(), values.size(), stream).ok());
    while ((*device)->check().ok()) std::this_thread::yield();
    EXPECT_EQ((*device)->check().message(), "[ranks] NCCL: a sum over the ranks: remote error");
    (*device)->abort();
    EXPECT_EQ((*device)->check().code(), ErrorCode::kCancelled);
    while (!stream.is_over()) std::this_thread::yield();
  });
}

TEST(NcclSums, ALibraryThatOneRankLacksIsSaidOnAll) {
  SimulatedNetwork network(2, {});
  std::vector<std::string> said(2);
  on_threads(2, [&](int rank) {
    auto ranks = Collective::create([&] { return network.transport(rank); });
    ASSERT_TRUE(ranks.ok());
    engine::DeviceSumsOptions options = fake_sums();
    if (rank == 1) options.nccl_library = "libno_such_nccl.so.2";
    const auto device = engine::open_nccl_sums(**ranks, options);
    EXPECT_EQ(device.status().code(), ErrorCode::kUnsupported);
    said[static_cast<size_t>(rank)] = device.status().message();
    EXPECT_TRUE((*ranks)->close().ok());
  });
  EXPECT_NE(said[0].find("[ranks] rank 1: "), std::string::npos) << said[0];
  for (const std::string& text : said)
    EXPECT_NE(text.find("libno_such_nccl.so.2"), std::string::npos) << text;
}

TEST(Nccl, APeerThatDoesNotAnswerIsNamedAndItsLateBytesTouchNothing) {
  SimulatedNetwork meeting(2, {});
  std::vector<std::unique_ptr<Transport>> ranks(2);
  on_threads(2, [&](int rank) {
    auto opened = open(meeting, rank, fake(0.2));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ranks[static_cast<size_t>(rank)] = std::move(*opened);
  });
  std::vector<std::byte> in(500);
  const Status status = ranks[0]->exchange(1, {}, in);
  EXPECT_EQ(
      status.message(),
      "rank 1 has not responded for 0.2 s (--peer-timeout); check its last output, and resume with --resume");
  in.assign(in.size(), std::byte{7});
  const std::vector<std::byte> out(500);
  (void)ranks[1]->exchange(0, out, {});
  EXPECT_FALSE(ranks[0]->exchange(1, {}, in).ok());
  EXPECT_EQ(in, std::vector<std::byte>(500, std::byte{7}));
}

TEST(Nccl, ARankThatLeavesEndsTheOthersWait) {
  SimulatedNetwork meeting(2, {});
  on_threads(2, [&](int rank) {
    auto opened = open(meeting, rank, fake());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    if (rank == 1) return;  // its destructor leaves at once
    std::vector<std::byte> in(500);
    const Status status = (*opened)->exchange(1, {}, in);
    EXPECT_EQ(status.message(), "NCCL: exchange with rank 1: remote error");
  });
}

TEST(Nccl, SaysWhichLibraryFunctionOrDeviceIsMissing) {
  SimulatedNetwork meeting(1, {});
  NcclOptions options = fake();
  options.nccl_library = "libno_such_nccl.so.2";
  const auto no_library = open(meeting, 0, options);
  EXPECT_EQ(no_library.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(no_library.status().message().find("libno_such_nccl.so.2"), std::string::npos);
  options.nccl_library = "libc.so.6";
  const auto no_function = open(meeting, 0, options);
  EXPECT_EQ(no_function.status().message(), "[ranks] NCCL: libc.so.6 has no ncclGetUniqueId");
  options = fake();
  options.device = 8;
  const auto no_device = open(meeting, 0, options);
  EXPECT_EQ(no_device.status().message(), "[ranks] NCCL: cuDeviceGet returned CUDA error 101");
}

}  // namespace
}  // namespace dlpipe::test
