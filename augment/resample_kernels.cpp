#include "dlpipe/augment/resample_kernels.h"

#include <algorithm>

#include "dlpipe/base/resize_axis.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dlpipe/augment/resample_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once a target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dlpipe::augment {
namespace HWY_NAMESPACE {

HWY_INLINE uint8_t Clipped(int32_t sum) {
  return static_cast<uint8_t>(std::min(std::max(sum >> kWeightBits, 0), 255));
}

HWY_INLINE void ResampledPixel(const uint8_t* from, const int32_t* weights, int taps, int channels,
                               uint8_t* to) {
  for (int c = 0; c < channels; ++c) {
    int32_t sum = kWeightHalf;
    for (int t = 0; t < taps; ++t) sum += weights[t] * from[t * channels + c];
    to[c] = Clipped(sum);
  }
}

#if HWY_TARGET != HWY_SCALAR
/// A pixel's channels side by side in one vector. Reads and writes four bytes per pixel of three.
HWY_INLINE void ResampledRgb(const uint8_t* from, const int32_t* weights, int taps, uint8_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Full128<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  auto sum = hn::Set(d, kWeightHalf);
  for (int t = 0; t < taps; ++t, from += 3)
    sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, from)), hn::Set(d, weights[t])));
  hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<kWeightBits>(sum)), bytes, to);
}
#endif

void ResampleRows(const ResampleTable& across, const ConstImageView& in, const ImageView& out) {
  const int channels = out.channels;
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      const auto at = static_cast<size_t>(x);
      const int32_t* const weights = across.weights.data() + across.first_weight[at];
      const int taps = across.first_weight[at + 1] - across.first_weight[at];
      const uint8_t* const from = in.row(y) + ptrdiff_t{across.begin[at]} * channels;
      uint8_t* const to = out.row(y) + ptrdiff_t{x} * channels;
#if HWY_TARGET != HWY_SCALAR
      // What is behind the row's last pixel is not ours to read or to write.
      if (channels == 3 && x + 1 < out.width && across.begin[at] + taps < in.width) {
        ResampledRgb(from, weights, taps, to);
        continue;
      }
#endif
      ResampledPixel(from, weights, taps, channels, to);
    }
  }
}

void ResampleColumns(const ResampleTable& down, const ConstImageView& in, const ImageView& out) {
  constexpr int kPiece = 64;
  const int size = out.width * out.channels;
  for (int y = 0; y < out.height; ++y) {
    const auto at = static_cast<size_t>(y);
    const int32_t* const weights = down.weights.data() + down.first_weight[at];
    const int taps = down.first_weight[at + 1] - down.first_weight[at];
    for (int i = 0; i < size; i += kPiece) {
      const int count = std::min(kPiece, size - i);
      alignas(64) int32_t sums[kPiece];
      for (int j = 0; j < kPiece; ++j) sums[j] = kWeightHalf;
      for (int t = 0; t < taps; ++t) {
        const uint8_t* HWY_RESTRICT from = in.row(down.begin[at] + t) + i;
        const int32_t weight = weights[t];
        if (count == kPiece) {
          for (int j = 0; j < kPiece; ++j) sums[j] += weight * from[j];
        } else {
          for (int j = 0; j < count; ++j) sums[j] += weight * from[j];
        }
      }
      uint8_t* HWY_RESTRICT to = out.row(y) + i;
      for (int j = 0; j < count; ++j) to[j] = Clipped(sums[j]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::augment
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::augment {

HWY_EXPORT(ResampleRows);
HWY_EXPORT(ResampleColumns);

void resample_rows(const ResampleTable& across, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(ResampleRows)(across, in, out);
}
void resample_columns(const ResampleTable& down, const ConstImageView& in, const ImageView& out) {
  HWY_DYNAMIC_DISPATCH(ResampleColumns)(down, in, out);
}

}  // namespace dlpipe::augment
#endif  // HWY_ONCE
