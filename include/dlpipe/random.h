// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011, table 2). A number is a pure function of (key, counter), independent of state, threads and
// order. A custom augmentation draws from the RandomStream that it is given, so that a run can be repeated.
//
// Ownership: values. Threads: a RandomStream belongs to one thread; copies are independent. Cost: ten rounds of two
// multiplications for four words of 32 bits.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace dlpipe {

using PhiloxBlock = std::array<uint32_t, 4>;

/// One block of four 32-bit words. Uses scalar variables, because builds without inlining (tests with sanitizers) would call
/// a function of std::array for each access.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// Mixes two 64-bit words into one. One Philox block is used, since keys don't need the avalanche of
/// two.
constexpr uint64_t philox_mix(uint64_t a, uint64_t b) {
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                        static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
                                       {0x243F6A88u, 0x85A308D3u});
  return (uint64_t{block[1]} << 32) | block[0];
}

/// Identifies a random decision in the pipeline, together with the op's index.
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  // index in the epoch's global order
  int32_t attempt = 0;   // 0, or the number of the substitution attempt
  int64_t sample = 0;    // the record; only used for decisions that a sample keeps over all epochs
};

/// A short sequence of random numbers for one op on one sample. A value type; streams with equal keys are equal.
class RandomStream {
 public:
  RandomStream(const SampleKey& key, uint32_t op_index) : RandomStream(epoch_key(key), key, op_index) {}
  /// The same with a precomputed epoch_key(key), which all of a sample's ops share.
  RandomStream(uint64_t epoch_key, const SampleKey& key, uint32_t op_index)
      : key_{static_cast<uint32_t>(epoch_key), static_cast<uint32_t>(epoch_key >> 32)},
        counter_{static_cast<uint32_t>(key.position), static_cast<uint32_t>(key.position >> 32),
                 (static_cast<uint32_t>(key.attempt) << 16) | (op_index & 0xffffu), 0} {}
  RandomStream(uint64_t seed, uint64_t stream)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 0xffffffffu, 0} {}

  static uint64_t epoch_key(const SampleKey& key) {
    return philox_mix(key.seed, static_cast<uint64_t>(key.epoch));
  }

  uint32_t next_u32() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[3];
      used_ = 0;
    }
    return block_[used_++];
  }
  /// Uniform in [0, 1) with 24 bits, exact in float.
  float uniform() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }
  /// Uniform in [0, 1) with 53 bits.
  double uniform_double() {
    const uint64_t high = next_u32();
    return static_cast<double>(((high << 32) | next_u32()) >> 11) * 0x1p-53;
  }
  /// Uniform in [0, n), n > 0, without bias (Lemire, "Fast random integer generation in an interval", 2019).
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{next_u32()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t threshold = (0u - n) % n;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next_u32()} * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }
  /// Standard normal (Box-Muller; both values of a pair are used in order).
  double normal();

 private:
  std::array<uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  int used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

}  // namespace dlpipe
