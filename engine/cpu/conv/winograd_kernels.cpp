#include "engine/cpu/conv/conv2d_winograd.h"

#include <algorithm>

// Transforms keep vectors in arrays. SVE and RVV are excluded because their vectors can't be in arrays; with vectors passed
// one by one instead, the transforms of gradients took a fifth longer.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/conv/winograd_kernels.cpp"
#include <hwy/foreach_target.h>  // NOLINT: includes this file once per target

#include <hwy/highway.h>

#include "engine/cpu/loops/within_isa.h"

HWY_BEFORE_NAMESPACE();
namespace dlpipe::engine::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Points +-kA and +-kB: kA * kB = 1, kA^2 = 1/2, kB^2 = 2.
constexpr float kA = 0.70710678118654752440f;
constexpr float kB = 1.41421356237309504880f;
constexpr int64_t kFrequencies = kWinogradFrequencies;
constexpr int64_t kAhead = 2;  // how many tiles ahead pixels are prefetched

// Transforms process one vector of channels at a time: eight channels, or sixteen if all groups are whole
// and vectors are wide enough (fewer on targets with shorter vectors).
using Narrow = hn::CappedTag<float, kWinogradChannels>;
using Wide = hn::CappedTag<float, 2 * kWinogradChannels>;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load([[maybe_unused]] D d, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<uint32_t, D> du32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, from))));
}
template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}
// Rounds to nearest even; NaN stays NaN.
template <class D>
HWY_INLINE void store([[maybe_unused]] D d, hn::Vec<D> value, uint16_t* to) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<uint32_t, D> du32;
  const hn::Rebind<int32_t, D> di32;
  const auto bits = hn::BitCast(du32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du32, 0x7fff)), odd));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du32, 0x40));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du32, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, chosen)), du16, to);
}

// B^T: six pixels to six frequencies.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transform_input(D d, const V (&x)[6], V (&y)[6]) {
  const V two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f), five_halves = hn::Set(d, 2.5f);
  const V a = hn::Set(d, kA), b = hn::Set(d, kB);
  y[0] = hn::NegMulAdd(five_halves, x[2], hn::Add(x[0], x[4]));
  y[5] = hn::NegMulAdd(five_halves, x[3], hn::Add(x[1], x[5]));
  const V even_a = hn::NegMulAdd(two, x[2], x[4]), odd_a = hn::NegMulAdd(two, x[1], x[3]);
  y[1] = hn::MulAdd(a, odd_a, even_a);
  y[2] = hn::NegMulAdd(a, odd_a, even_a);
  const V even_b = hn::NegMulAdd(half, x[2], x[4]), odd_b = hn::NegMulAdd(half, x[1], x[3]);
  y[3] = hn::MulAdd(b, odd_b, even_b);
  y[4] = hn::NegMulAdd(b, odd_b, even_b);
}

// A^T: six frequencies to four pixels.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transform_output(D d, const V (&m)[6], V (&y)[4]) {
  const V sum_a = hn::Add(m[1], m[2]), difference_a = hn::Sub(m[1], m[2]);
  const V sum_b = hn::Add(m[3], m[4]), difference_b = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(hn::Add(m[0], sum_a), sum_b);
  y[1] = hn::MulAdd(hn::Set(d, kA), difference_a, hn::Mul(hn::Set(d, kB), difference_b));
  y[2] = hn::MulAdd(hn::Set(d, 0.5f), sum_a, hn::Add(sum_b, sum_b));
  y[3] =
      hn::MulAdd(hn::Set(d, 0.5f * kA), difference_a, hn::MulAdd(hn::Set(d, 2.0f * kB), difference_b, m[5]));
}

// A: four pixels to six frequencies.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transform_gradient(D d, const V (&y)[4], V (&z)[6]) {
  const V two = hn::Set(d, 2.0f), half = hn::Set(d, 0.5f);
  const V a = hn::Set(d, kA), b = hn::Set(d, kB);
  const V even_a = hn::MulAdd(half, y[2], y[0]), odd_a = hn::MulAdd(half, y[3], y[1]);
  const V even_b = hn::MulAdd(two, y[2], y[0]), odd_b = hn::MulAdd(two, y[3], y[1]);
  z[0] = y[0];
  z[1] = hn::MulAdd(a, odd_a, even_a);
  z[2] = hn::NegMulAdd(a, odd_a, even_a);
  z[3] = hn::MulAdd(b, odd_b, even_b);
  z[4] = hn::NegMulAdd(b, odd_b, even_b);
  z[5] = y[3];
}

// G: three taps to six frequencies.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transform_taps(D d, const V (&g)[3], V (&u)[6]) {
  const V scale_a = hn::Set(d, -2.0f / 3.0f), scale_b = hn::Set(d, 1.0f / 6.0f);
  const V even_a = hn::Mul(scale_a, hn::MulAdd(hn::Set(d, 0.5f), g[2], g[0]));
  const V odd_a = hn::Mul(hn::Set(d, -2.0f / 3.0f * kA), g[1]);
  const V even_b = hn::Mul(scale_b, hn::MulAdd(hn::Set(d, 2.0f), g[2], g[0]));
  const V odd_b = hn::Mul(hn::Set(d, kB / 6.0f), g[1]);
  u[0] = g[0];
  u[1] = hn::Add(even_a, odd_a);
  u[2] = hn::Sub(even_a, odd_a);
  u[3] = hn::Add(even_b, odd_b);
  u[4] = hn::Sub(even_b, odd_b);
  u[5] = g[2];
}

// G^T: six frequencies to three taps.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transform_taps_gradient(D d, const V (&u)[6], V (&g)[3]) {
  const V sum_a = hn::Add(u[1], u[2]), difference_a = hn::Sub(u[1], u[2]);
  const V sum_b = hn::Add(u[3], u[4]), difference_b = hn::Sub(u[3], u[4]);
  const V third = hn::Set(d, 1.0f / 3.0f);
  g[0] = hn::MulAdd(hn::Set(d, -2.0f / 3.0f), sum_a, hn::MulAdd(hn::Set(d, 1.0f / 6.0f), sum_b, u[0]));
  g[1] =
      hn::MulAdd(hn::Set(d, -2.0f / 3.0f * kA), difference_a, hn::Mul(hn::Set(d, kB / 6.0f), difference_b));
  g[2] = hn::MulAdd(third, hn::Sub(sum_b, sum_a), u[5]);
}

// The position of a tile's pixels: (i, j) at first + i * row_step + j * pixel_step elements from a channel of its image,
// and inside the image where top <= i < bottom and left <= j < right.
struct Place {
  int64_t image, first;
  int64_t top, bottom, left, right;
  bool whole;
};
HWY_INLINE Place place_of(const WinogradImages& images, const WinogradTiles& tiles, int64_t tile,
                          int64_t side) {
  int64_t rest = tile % tiles.an_image();
  const auto next_digit = [&rest](int64_t base) {
    const int64_t digit = rest % base;
    rest /= base;
    return digit;
  };
  const int64_t x_phase = next_digit(tiles.across), column = next_digit(tiles.columns);
  const int64_t y_phase = next_digit(tiles.down), row = rest;
  const int64_t y = y_phase + row * kWinogradTile * tiles.down - tiles.pad_top;
  const int64_t x = x_phase + column * kWinogradTile * tiles.across - tiles.pad_left;
  // The number of steps from `from` to `to`, rounded up.
  const auto steps = [side](int64_t from, int64_t to, int64_t step) {
    return std::clamp<int64_t>((to - from + step - 1) / step, 0, side);
  };
  Place place{tile / tiles.an_image(),
              (y * images.width + x) * images.pixel,
              steps(y, 0, tiles.down),
              steps(y, images.height, tiles.down),
              steps(x, 0, tiles.across),
              steps(x, images.width, tiles.across),
              false};
  place.whole = place.top == 0 && place.left == 0 && place.bottom == side && place.right == side;
  return place;
}

// The distances between a tile's rows and between its columns, in elements.
HWY_INLINE int64_t row_step(const WinogradImages& images, const WinogradTiles& tiles) {
  return images.width * images.pixel * tiles.down;
}
HWY_INLINE int64_t pixel_step(const WinogradImages& images, const WinogradTiles& tiles) {
  return images.pixel * tiles.across;
}

// Calls body(tile, its place, channel) for every tile and group of channels of a range. For each line of
// the transformed range (two vectors of channels), all tiles are visited before the next line: images are
// read in order, which processors prefetch, and lines are written whole.
template <class D, class Body>
HWY_INLINE void for_each_tile(const WinogradImages& images, const WinogradTiles& tiles,
                              const WinogradRange& range, int64_t side, const Body& body) {
  constexpr int64_t kLine = 2 * kWinogradChannels;  // floats
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  Place places[kWinogradMostTiles];
  for (int64_t tile = 0; tile < range.tiles; ++tile) {
    places[tile] = place_of(images, tiles, range.first_tile + tile, side);
  }
  for (int64_t line = 0; line < range.channels; line += kLine) {
    const int64_t end = std::min(line + kLine, range.channels);
    for (int64_t tile = 0; tile < range.tiles; ++tile) {
      for (int64_t channel = line; channel < end; channel += lanes) body(tile, places + tile, channel);
    }
  }
}

template <class T>
HWY_INLINE T* channel_of(const WinogradImages& images, int64_t image, int64_t channel) {
  return static_cast<T*>(images.data) + image * images.image + channel / images.block * images.plane +
         channel % images.block;
}

// Prefetches a tile's pixels, because its rows are only a few lines each, too short for the hardware
// prefetcher. Skips the columns that it shares with the previous tile, which are already in the cache.
template <int kSide, class T>
HWY_INLINE void prefetch_pixels(const WinogradImages& images, const WinogradTiles& tiles, const Place& place,
                                int64_t channel) {
  const T* const from = channel_of<const T>(images, place.image, channel) + place.first;
  const int64_t row = row_step(images, tiles), pixel = pixel_step(images, tiles);
  const int64_t at_once = pixel * static_cast<int64_t>(sizeof(T)) < 64 ? 2 : 1;  // pixels per line
  for (int64_t i = place.top; i < place.bottom; ++i) {
    for (int64_t j = kSide - kWinogradTile; j < kSide; j += at_once)
      __builtin_prefetch(from + i * row + j * pixel);
  }
}

// The addresses of a tile's pixels. All pixels outside the image share one vector of zeros, which needs no branch.
template <int kSide, class T>
class EdgePixels {
 public:
  HWY_INLINE EdgePixels(const T* from, const Place& place, int64_t row, int64_t pixel)
      : base_(reinterpret_cast<uintptr_t>(from) - reinterpret_cast<uintptr_t>(kZeros)),
        row_(static_cast<uintptr_t>(row) * sizeof(T)),
        pixel_(static_cast<uintptr_t>(pixel) * sizeof(T)) {
    for (int64_t i = 0; i < kSide; ++i) {
      inside_rows_[i] = i >= place.top && i < place.bottom ? ~uintptr_t{0} : 0;
      inside_columns_[i] = i >= place.left && i < place.right ? ~uintptr_t{0} : 0;
    }
  }
  HWY_INLINE const T* at(int64_t i, int64_t j) const {
    const uintptr_t offset = base_ + static_cast<uintptr_t>(i) * row_ + static_cast<uintptr_t>(j) * pixel_;
    return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(kZeros) +
                                      (offset & inside_rows_[i] & inside_columns_[j]));
  }

 private:
  HWY_ALIGN static constexpr T kZeros[2 * kWinogradChannels] = {};
  uintptr_t base_, row_, pixel_;
  uintptr_t inside_rows_[kSide], inside_columns_[kSide];
};

// Applies a transform to the columns, then to the rows, of a tile of vectors pixel(i, j). Calls take(i, j,
// value) with each result.
template <int kFrom, int kTo, class D, class Transform, class Pixel, class Take>
HWY_INLINE void transform_tile(D d, const Transform& transform, const Pixel& pixel, const Take& take) {
  HWY_ALIGN float columns[kTo * kFrom * hn::MaxLanes(D())];
  using V = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < kFrom; ++j) {
    V in[kFrom], out[kTo];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kFrom; ++i) in[i] = pixel(i, j);
    transform(d, in, out);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTo; ++i) hn::Store(out[i], d, columns + (i * kFrom + j) * lanes);
  }
  for (int64_t i = 0; i < kTo; ++i) {
    V in[kFrom], out[kTo];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kFrom; ++j) in[j] = hn::Load(d, columns + (i * kFrom + j) * lanes);
    transform(d, in, out);
#pragma GCC unroll 8
    for (int64_t j = 0; j < kTo; ++j) take(i, j, out[j]);
  }
}

// Transforms the tiles of `range` from images to frequencies. Also calls extra(channel, pixel) for each tile and group of
// channels.
template <int kFrom, class T, class D, class Transform, class Extra>
HWY_INLINE void transform_images(D d, const WinogradImages& images, const WinogradTiles& tiles,
                                 const WinogradRange& to, const Transform& transform, const Extra& extra) {
  const int64_t row = row_step(images, tiles), pixel_apart = pixel_step(images, tiles);
  for_each_tile<D>(images, tiles, to, kFrom, [&](int64_t tile, const Place* place, int64_t channel) HWY_ATTR {
    const T* const from =
        channel_of<const T>(images, place->image, to.first_channel + channel) + place->first;
    float* const at = to.data + tile * to.row + channel;
    if (tile + kAhead < to.tiles)
      prefetch_pixels<kFrom, T>(images, tiles, place[kAhead], to.first_channel + channel);
    const auto take = [&](int64_t i, int64_t j, hn::Vec<D> value)
                          HWY_ATTR { hn::StoreU(value, d, at + (i * 6 + j) * to.plane); };
    const auto run = [&](const auto& pixel) HWY_ATTR {
      transform_tile<kFrom, 6>(d, transform, pixel, take);
      extra(channel, pixel);
    };
    if (place->whole) {
      run([&](int64_t i, int64_t j) HWY_ATTR { return load(d, from + i * row + j * pixel_apart); });
    } else {
      const EdgePixels<kFrom, T> edge(from, *place, row, pixel_apart);
      run([&](int64_t i, int64_t j) HWY_ATTR { return load(d, edge.at(i, j)); });
    }
  });
}

template <class T, class D>
void input_of(D d, const WinogradImages& x, const WinogradTiles& tiles, const WinogradRange& to) {
  using V = hn::Vec<D>;
  transform_images<6, T>(
      d, x, tiles, to, [](D dd, const V(&in)[6], V(&out)[6]) HWY_ATTR { transform_input(dd, in, out); },
      [](int64_t, const auto&) HWY_ATTR {});
}

template <class T, class D>
void gradient_of(D d, const WinogradImages& dy, const WinogradTiles& tiles, const WinogradRange& to,
                 float* sums) {
  using V = hn::Vec<D>;
  transform_images<4, T>(
      d, dy, tiles, to, [](D dd, const V(&in)[4], V(&out)[6]) HWY_ATTR { transform_gradient(dd, in, out); },
      [=](int64_t channel, const auto& pixel) HWY_ATTR {
        if (sums == nullptr) return;
        V sum = hn::LoadU(d, sums + channel);
        for (int64_t i = 0; i < kWinogradTile; ++i) {
          for (int64_t j = 0; j < kWinogradTile; ++j) sum = hn::Add(sum, pixel(i, j));
        }
        hn::StoreU(sum, d, sums + channel);
      });
}

template <class T, class D>
void output_of(D d, const WinogradRange& from, const WinogradImages& y, const WinogradTiles& tiles,
               const float* bias, Activation activation) {
  using V = hn::Vec<D>;
  const int64_t row = row_step(y, tiles), pixel_apart = pixel_step(y, tiles);
  // Smaller values become 0; NaN stays NaN. In bf16, values that round to -0 stay, as in the relu op.
  constexpr float kLeast = sizeof(T) == sizeof(float) ? 0.0f : -0x1p-134f;
  const V least = hn::Set(d, activation == Activation::kRelu ? kLeast : -__builtin_inff());
  for_each_tile<D>(
      y, tiles, from, kWinogradTile, [&](int64_t tile, const Place* place, int64_t channel) HWY_ATTR {
        T* const to = channel_of<T>(y, place->image, from.first_channel + channel) + place->first;
        const float* const at = from.data + tile * from.row + channel;
        const V add = bias != nullptr ? hn::LoadU(d, bias + channel) : hn::Zero(d);
        const auto transform = [](D dd, const V(&in)[6], V(&out)[4])
                                   HWY_ATTR { transform_output(dd, in, out); };
        const auto frequency = [&](int64_t i, int64_t j)
                                   HWY_ATTR { return hn::LoadU(d, at + (i * 6 + j) * from.plane); };
        const auto take = [&](int64_t i, int64_t j, V value) HWY_ATTR {
          const V sum = hn::Add(value, add);
          store(d, hn::IfThenZeroElse(hn::Lt(sum, least), sum), to + i * row + j * pixel_apart);
        };
        if (place->whole) {
          transform_tile<6, 4>(d, transform, frequency, take);
        } else {
          transform_tile<6, 4>(d, transform, frequency, [&](int64_t i, int64_t j, V value) HWY_ATTR {
            if (i < place->bottom && j < place->right) take(i, j, value);
          });
        }
      });
}

// Calls work(vector tag, pixel) with the widest vectors for the channels of a range and the type of the images' pixels.
template <class Work>
HWY_INLINE void with_vectors(const WinogradImages& images, const WinogradRange& range, const Work& work) {
  const bool is_wide = (images.block | range.first_channel | range.channels) % (2 * kWinogradChannels) == 0;
  // NOLINTBEGIN(bugprone-branch-clone): where vectors are short, both are the same
  if (is_wide) {
    images.low ? work(Wide(), uint16_t()) : work(Wide(), float());
  } else {
    images.low ? work(Narrow(), uint16_t()) : work(Narrow(), float());
  }
  // NOLINTEND(bugprone-branch-clone)
}

void Input(const WinogradImages& x, const WinogradTiles& tiles, const WinogradRange& to) {
  with_vectors(x, to, [&](auto d, auto type) { input_of<decltype(type)>(d, x, tiles, to); });
}
void Gradient(const WinogradImages& dy, const WinogradTiles& tiles, const WinogradRange& to, float* sums) {
  with_vectors(dy, to, [&](auto d, auto type) { gradient_of<decltype(type)>(d, dy, tiles, to, sums); });
}
void Output(const WinogradRange& from, const WinogradImages& y, const WinogradTiles& tiles, const float* bias,
            Activation activation) {
  with_vectors(y, from,
               [&](auto d, auto type) { output_of<decltype(type)>(d, from, y, tiles, bias, activation); });
}

void Weights(const WinogradWeights& weights, int64_t first, int64_t panel, float* to, int64_t plane) {
  const Wide d;  // panels hold whole vectors
  using V = hn::Vec<Wide>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kTaps = 9;
  constexpr int64_t kMostOuts = 64;  // two vectors of the widest kind
  HWY_ALIGN float taps[kTaps * kMostOuts] = {};
  HWY_ALIGN float transformed[kFrequencies * kMostOuts];
  const int64_t outs = std::min(panel, weights.outs - first);
  for (int64_t in = 0; in < weights.ins; ++in) {
    const float* from = weights.data + first * weights.out_step + in * weights.in_step;
    for (int64_t out = 0; out < outs; ++out, from += weights.out_step) {
      for (int64_t k = 0; k < kTaps; ++k) taps[k * panel + out] = from[weights.flipped ? kTaps - 1 - k : k];
    }
    for (int64_t lane = 0; lane < panel; lane += lanes) {
      transform_tile<3, 6>(
          d, [](Wide dd, const V(&g)[3], V(&u)[6]) HWY_ATTR { transform_taps(dd, g, u); },
          [&](int64_t i, int64_t j) HWY_ATTR { return hn::Load(d, taps + (i * 3 + j) * panel + lane); },
          [&](int64_t i, int64_t j, V value)
              HWY_ATTR { hn::Store(value, d, transformed + (i * 6 + j) * panel + lane); });
    }
    for (int64_t f = 0; f < kFrequencies; ++f) {
      std::copy_n(transformed + f * panel, panel, to + f * plane + in * panel);
    }
  }
}

void WeightsGradient(const float* from, int64_t plane, int64_t outs, float* to, int64_t to_tap) {
  const Narrow d;
  using V = hn::Vec<Narrow>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t out = 0; out < outs; out += lanes) {
    transform_tile<6, 3>(
        d, [](Narrow dd, const V(&u)[6], V(&g)[3]) HWY_ATTR { transform_taps_gradient(dd, u, g); },
        [&](int64_t i, int64_t j) HWY_ATTR { return hn::LoadU(d, from + (i * 6 + j) * plane + out); },
        [&](int64_t i, int64_t j, V value)
            HWY_ATTR { hn::StoreU(value, d, to + (i * 3 + j) * to_tap + out); });
  }
}

const WinogradKernels* Kernels() {
  static constexpr WinogradKernels kKernels = {Input, Gradient, Output, Weights, WeightsGradient};
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace dlpipe::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dlpipe::engine::cpu {

HWY_EXPORT(Kernels);

const WinogradKernels& winograd_kernels() {
  return *dispatch_within_isa(HWY_DISPATCH_TABLE(Kernels))();
}

}  // namespace dlpipe::engine::cpu
#endif
