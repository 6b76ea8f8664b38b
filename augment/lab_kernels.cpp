#include "dlpipe/augment/lab_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "dlpipe/base/portable_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/lab_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

#ifndef DLPIPE_AUGMENT_LAB_TABLES
#define DLPIPE_AUGMENT_LAB_TABLES
namespace dlpipe::augment {

// CIE's functions, sampled: linear light with 3 more bits than the values have, f(t) with 15 bits after the point, and on
// the way back values with 14 bits and linear light with 12.
struct LabTables {
  std::array<int32_t, 256> linear;    // of an sRGB value, 255 * 8 being white
  std::array<int32_t, 3072> f;        // of linear light, up to 1.5
  std::array<int32_t, 256> y;         // of L
  std::array<int32_t, 256> f_y;       // of L
  std::array<int32_t, 4096> encoded;  // of linear light, an sRGB value
};

// 4096 times RGB to XYZ, each divided by the white's; and XYZ back to RGB.
constexpr int32_t kToXyz[3][3] = {{1777, 1541, 778}, {871, 2929, 296}, {73, 448, 3575}};
constexpr int32_t kToRgb[3][3] = {{12615, -6296, -2223}, {-3773, 7684, 185}, {217, -836, 4715}};

inline double power(double x, double exponent) {
  return portable_exp(exponent * portable_log(x));
}

inline LabTables make_lab_tables() {
  const auto rounded = [](double value) { return static_cast<int32_t>(std::floor(value + 0.5)); };
  LabTables tables{};
  for (size_t i = 0; i < 256; ++i) {
    const double x = static_cast<double>(i) / 255;
    tables.linear[i] = rounded(2040 * (x <= 0.04045 ? x / 12.92 : power((x + 0.055) / 1.055, 2.4)));
  }
  for (size_t i = 0; i < tables.f.size(); ++i) {
    const double x = static_cast<double>(i) / 2040;
    tables.f[i] = rounded(32768 * (x < 216.0 / 24389 ? x * 841 / 108 + 16.0 / 116 : power(x, 1.0 / 3)));
  }
  // Two lie within 2e-4 of a half, where OpenCV's 32-bit floats fall to the other side.
  tables.f[49] = 9454;
  tables.f[628] = 22126;
  for (size_t i = 0; i < 256; ++i) {
    const double l = static_cast<double>(i) * 100 / 255;
    const double f = i <= 20 ? 16.0 / 116 + l * 27 / 24389 * 841 / 108 : (l + 16) / 116;
    tables.f_y[i] = rounded(16384 * f);
    tables.y[i] = rounded(16384 * (i <= 20 ? l * 27 / 24389 : f * f * f));
  }
  for (size_t i = 0; i < tables.encoded.size(); ++i) {
    const double x = static_cast<double>(i) / 4096;
    tables.encoded[i] = rounded(255 * (x <= 0.0031308 ? x * 12.92 : 1.055 * power(x, 1 / 2.4) - 0.055));
  }
  return tables;
}

inline const LabTables& lab_tables() {
  static const LabTables tables = make_lab_tables();
  return tables;
}

}  // namespace dlpipe::augment
#endif

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

constexpr int kLabBlock = 128;

HWY_INLINE uint8_t Clipped(int32_t value) {
  return static_cast<uint8_t>(std::min(std::max(value, 0), 255));
}

void ToLab(const ConstImageView& in, const LabPlanes& out) {
  const LabTables& tables = lab_tables();
  alignas(64) int32_t light[3][kLabBlock];
  alignas(64) int32_t f[3][kLabBlock];
  for (int y = 0; y < in.height; ++y) {
    for (int x = 0; x < in.width; x += kLabBlock) {
      const int count = std::min(kLabBlock, in.width - x);
      const uint8_t* const from = in.row(y) + ptrdiff_t{x} * in.channels;
      for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < count; ++i) light[c][i] = tables.linear[from[i * in.channels + c]];
      }
      for (int k = 0; k < 3; ++k) {
        const int32_t r = kToXyz[k][0], g = kToXyz[k][1], b = kToXyz[k][2];
        for (int i = 0; i < count; ++i)
          f[k][i] =
              tables
                  .f[static_cast<size_t>((light[0][i] * r + light[1][i] * g + light[2][i] * b + 2048) >> 12)];
      }
      uint8_t* HWY_RESTRICT to[3];
      for (int c = 0; c < 3; ++c) to[c] = out.of[c] + ptrdiff_t{y} * out.stride + x;
      // L = 116 f(Y) - 16, a = 500 (f(X) - f(Y)), b = 200 (f(Y) - f(Z)).
      constexpr int32_t kHalf = 1 << 14;
      constexpr int32_t kMiddle = (128 << 15) + kHalf;
      for (int i = 0; i < count; ++i) {
        to[0][i] = Clipped((296 * f[1][i] - 1336934 + kHalf) >> 15);
        to[1][i] = Clipped((500 * (f[0][i] - f[1][i]) + kMiddle) >> 15);
        to[2][i] = Clipped((200 * (f[1][i] - f[2][i]) + kMiddle) >> 15);
      }
    }
  }
}

/// The inverse of f, 14 bits after the point.
HWY_INLINE int32_t LightOf(int32_t f) {
  const int32_t low = f * 108 / 841 - 290;
  const int32_t high = ((f * f >> 14) * f) >> 14;
  return f <= 3390 ? low : high;
}

void RowFromLab(const uint8_t* const lab[3], int width, int channels, uint8_t* HWY_RESTRICT to) {
  const LabTables& tables = lab_tables();
  alignas(64) int32_t light[3][kLabBlock];
  for (int x = 0; x < width; x += kLabBlock) {
    const int count = std::min(kLabBlock, width - x);
    const uint8_t* HWY_RESTRICT l = lab[0] + x;
    const uint8_t* HWY_RESTRICT a = lab[1] + x;
    const uint8_t* HWY_RESTRICT b = lab[2] + x;
    for (int i = 0; i < count; ++i) {
      const int32_t f_y = tables.f_y[l[i]];
      // a / 500 and b / 200 with 14 bits, by OpenCV's multiplications.
      light[0][i] = LightOf(f_y + ((5 * 53687 * a[i] + 128) >> 13) - 4194);
      light[1][i] = tables.y[l[i]];
      light[2][i] = LightOf(f_y - ((41943 * b[i] + 16) >> 9) + 10484);
    }
    for (int c = 0; c < 3; ++c) {
      const int32_t r = kToRgb[c][0], g = kToRgb[c][1], z = kToRgb[c][2];
      uint8_t* const channel = to + ptrdiff_t{x} * channels + c;
      for (int i = 0; i < count; ++i) {
        const int32_t sum = (light[0][i] * r + light[1][i] * g + light[2][i] * z + (1 << 13)) >> 14;
        channel[i * channels] =
            static_cast<uint8_t>(tables.encoded[static_cast<size_t>(std::min(std::max(sum, 0), 4095))]);
      }
    }
  }
}

void BetweenTiles(const uint8_t* HWY_RESTRICT from, int width, const TileColumns& columns, const float* above,
                  const float* below, float share, uint8_t* HWY_RESTRICT to) {
  const float rest = 1.0f - share;
  const int* HWY_RESTRICT left = columns.left;
  const int* HWY_RESTRICT right = columns.right;
  const float* HWY_RESTRICT right_share = columns.share;
  for (int x = 0; x < width; ++x) {
    const int32_t value = from[x];
    const float b = right_share[x];
    const float a = 1.0f - b;
    const float upper = above[left[x] + value] * a + above[right[x] + value] * b;
    const float lower = below[left[x] + value] * a + below[right[x] + value] * b;
    const float between = upper * rest + lower * share;
    // Behind 2^23 a float has no place for fractions.
    to[x] = static_cast<uint8_t>(std::bit_cast<uint32_t>(between + 8388608.0f) & 0xFF);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(ToLab);
HWY_EXPORT(RowFromLab);
HWY_EXPORT(BetweenTiles);

void to_lab(const ConstImageView& in, const LabPlanes& out) {
  HWY_DYNAMIC_DISPATCH(ToLab)(in, out);
}
void row_from_lab(const uint8_t* const lab[3], int width, int channels, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(RowFromLab)(lab, width, channels, to);
}
void between_tiles(const uint8_t* from, int width, const TileColumns& columns, const float* above,
                   const float* below, float share, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(BetweenTiles)(from, width, columns, above, below, share, to);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
