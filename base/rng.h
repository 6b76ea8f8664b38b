// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011, table 2). A number is a pure function of (key, counter): no state, no thread, no
// order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace dlpipe {

using PhiloxBlock = std::array<uint32_t, 4>;

/// One block of four 32-bit words. In numbers of its own: builds that inline nothing (tests with sanitizers) would call
/// std::array for each of them.
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

/// Mixes two 64-bit words into one (two Philox blocks' worth of avalanche is not needed for keys; one is
/// used).
constexpr uint64_t philox_mix(uint64_t a, uint64_t b) {
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                        static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
                                       {0x243F6A88u, 0x85A308D3u});
  return (uint64_t{block[1]} << 32) | block[0];
}

/// What names a random decision in the pipeline (design: keyed by seed, epoch, position, attempt, op).
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  // place in the epoch's global order
  int32_t attempt = 0;   // 0, or the substitution attempt
  int64_t sample = 0;    // the record; names what a sample keeps over all epochs, no other draw
};

/// A short sequence of numbers for one op on one sample. Value type; copy freely; two with equal keys agree.
class RandomStream {
 public:
  RandomStream(const SampleKey& key, uint32_t op_index) : RandomStream(epoch_key(key), key, op_index) {}
  /// The same with epoch_key(key) given, which all of a sample's ops share.
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
  /// Uniform in [0, 1), 24 bits, exact in float.
  float uniform() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }
  /// Uniform in [0, 1), 53 bits.
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
