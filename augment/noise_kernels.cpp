#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "augment/noise.h"
#include "base/portable_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/noise_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

// 16 blocks of Philox4x32-10 (dlpipe/random.h) side by side: 128 numbers of 16 bits.
void PhiloxBlocks(uint64_t key, uint32_t row, uint32_t first, uint16_t* HWY_RESTRICT out) {
  constexpr int kSide = 16;
  alignas(64) uint32_t c0[kSide], c1[kSide], c2[kSide], c3[kSide];
  for (int i = 0; i < kSide; ++i) {
    c0[i] = first + static_cast<uint32_t>(i);
    c1[i] = row;
    c2[i] = 0;
    c3[i] = 0;
  }
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kSide; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2[i];
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c0[i] = n0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = n2;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const uint32_t* const words[] = {c0, c1, c2, c3};
  for (const uint32_t* const from : words) {
    for (int i = 0; i < kSide; ++i) out[i] = static_cast<uint16_t>(from[i]);
    for (int i = 0; i < kSide; ++i) out[kSide + i] = static_cast<uint16_t>(from[i] >> 16);
    out += 2 * kSide;
  }
}

void UniformRow(uint64_t key, uint32_t row, uint16_t* HWY_RESTRICT out, size_t count) {
  for (size_t at = 0; at < count; at += kNoiseBlock)
    PhiloxBlocks(key, row, static_cast<uint32_t>(at / 8), out + at);
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(UniformRow);

void uniform_row(uint64_t key, uint32_t row, std::span<uint16_t> out) {
  HWY_DYNAMIC_DISPATCH(UniformRow)(key, row, out.data(), out.size());
}

namespace {

/// The normal distribution function's inverse: Acklam's rational approximations (2003), relative error below 1.15e-9.
double normal_quantile(double p) {
  constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                           1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                           6.680131188771972e+01, -1.328068155288572e+01};
  constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                           -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                           3.754408661907416e+00};
  constexpr double kLow = 0.02425;
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p < kLow) {
    const double q = std::sqrt(-2 * portable_log(p));
    return (((((kC[0] * q + kC[1]) * q + kC[2]) * q + kC[3]) * q + kC[4]) * q + kC[5]) /
           ((((kD[0] * q + kD[1]) * q + kD[2]) * q + kD[3]) * q + 1);
  }
  const double q = p - 0.5;
  const double r = q * q;
  return (((((kA[0] * r + kA[1]) * r + kA[2]) * r + kA[3]) * r + kA[4]) * r + kA[5]) * q /
         (((((kB[0] * r + kB[1]) * r + kB[2]) * r + kB[3]) * r + kB[4]) * r + 1);
}

}  // namespace

std::span<const int16_t> normal_quantiles() {
  static const std::array<int16_t, 4096> table = [] {
    std::array<int16_t, 4096> made{};
    for (size_t i = 0; i < made.size(); ++i) {
      const double z = normal_quantile((static_cast<double>(i) + 0.5) / static_cast<double>(made.size()));
      made[i] = static_cast<int16_t>(std::floor(z * (1 << kNormalBits) + 0.5));
    }
    return made;
  }();
  return table;
}

void add_normal_noise(uint64_t key, const std::array<int, 256>& deviation, int offset,
                      const ConstImageView& in, const ImageView& out, std::vector<std::byte>& work) {
  constexpr int kShift = 8 + kNormalBits;
  const int64_t added = int64_t{offset} * (1 << kNormalBits) + (int64_t{1} << (kShift - 1));
  const std::span<const int16_t> normal = normal_quantiles();
  const size_t size = size_t(out.width) * size_t(out.channels);
  const size_t room = (size + kNoiseBlock) * sizeof(uint16_t);
  if (work.size() < room) work.resize(room);
  auto* const noise = reinterpret_cast<uint16_t*>(work.data());
  for (int y = 0; y < out.height; ++y) {
    uniform_row(key, static_cast<uint32_t>(y), {noise, size});
    const uint8_t* const from = in.row(y);
    uint8_t* const to = out.row(y);
    for (size_t i = 0; i < size; ++i) {
      const int64_t sum = int64_t{normal[noise[i] >> 4]} * deviation[from[i]] + added;
      to[i] = static_cast<uint8_t>(std::clamp(from[i] + static_cast<int>(sum >> kShift), 0, 255));
    }
  }
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
