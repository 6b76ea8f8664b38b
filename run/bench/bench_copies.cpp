#include "dlpipe/run/bench/bench_copies.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dlpipe/base/buffer.h"
#include "dlpipe/base/counter.h"

namespace dlpipe::run {

namespace {

class CopyBench {
 public:
  CopyBench(Device& device, double seconds_a_rate)
      : device_(device), seconds_(seconds_a_rate), stream_(value_or_throw(device.create_stream())) {}

  void copy(void* to, const void* from, int64_t bytes, CopyKind kind) {
    throw_if_error(device_.copy_async(to, from, static_cast<size_t>(bytes), kind, *stream_));
    throw_if_error(device_.synchronize(*stream_));
  }

  double rate(void* to, const void* from, int64_t bytes, CopyKind kind) {
    std::vector<double> rates;
    const int64_t begin = now_ns();
    constexpr size_t kFewest = 3;
    while (rates.size() < kFewest || static_cast<double>(now_ns() - begin) * 1e-9 < seconds_) {
      const int64_t copy_begin = now_ns();
      copy(to, from, bytes, kind);
      rates.push_back(static_cast<double>(bytes) / (static_cast<double>(now_ns() - copy_begin) * 1e-9));
    }
    const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    return *middle;
  }

 private:
  Device& device_;
  double seconds_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

std::vector<CopyRate> bench_copies(Device& device, double seconds) {
  constexpr std::array<int64_t, 5> kSizes = {int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20,
                                             int64_t{16} << 20, int64_t{256} << 20};
  constexpr int kRatesASize = 4;
  const auto largest = static_cast<size_t>(kSizes.back());
  const Buffer there = value_or_throw(Buffer::allocate(device, largest));
  const Buffer pinned = value_or_throw(Buffer::allocate(device, largest, Buffer::Memory::kPinned));
  std::vector<std::byte> pageable(largest);
  CopyBench bench(device, seconds / (kSizes.size() * kRatesASize));
  // Memory that nobody wrote yet is the kernel's one page of zeros, which is read from a cache, and written to only after
  // a page was found for it.
  std::memset(pinned.data(), 1, largest);
  bench.copy(there.data(), pinned.data(), kSizes.back(), CopyKind::kHostToDevice);
  std::vector<CopyRate> rates;
  for (const int64_t bytes : kSizes) {
    CopyRate rate;
    rate.bytes = bytes;
    rate.pinned_to_device = bench.rate(there.data(), pinned.data(), bytes, CopyKind::kHostToDevice);
    rate.pinned_to_host = bench.rate(pinned.data(), there.data(), bytes, CopyKind::kDeviceToHost);
    rate.pageable_to_device = bench.rate(there.data(), pageable.data(), bytes, CopyKind::kHostToDevice);
    rate.pageable_to_host = bench.rate(pageable.data(), there.data(), bytes, CopyKind::kDeviceToHost);
    rates.push_back(rate);
  }
  return rates;
}

}  // namespace dlpipe::run
