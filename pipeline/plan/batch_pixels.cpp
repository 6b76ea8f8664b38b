#include "pipeline/plan/batch_pixels.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/portable_math.h"

namespace dlpipe::pipeline {

namespace {

// Keys of these draws for a batch and for a sample, in place of an op's index in the chain (which counts from 0).
constexpr uint32_t kBatchDraws = 0xffff;
constexpr uint32_t kSampleDraws = 0xfffe;

/// Uniform in (0, 1].
double positive_uniform(RandomStream& random) {
  return 1 - random.uniform_double();
}

/// A box of (1 - lambda) of the image around a point drawn anywhere in it, clipped at the borders (Yun et al., section 3.1), in
/// whole pixels.
Region draw_box(double lambda, const augment::ImageSize& size, RandomStream& random) {
  const double ratio = std::sqrt(1 - lambda);
  const auto cut = [&](int whole, int& first) {
    const int half = static_cast<int>(whole * ratio) / 2;
    const auto center = static_cast<int>(random.below(static_cast<uint32_t>(whole)));
    first = std::max(0, center - half);
    return std::min(whole, center + half) - first;
  };
  Region box;
  box.width = cut(size.width, box.x);
  box.height = cut(size.height, box.y);
  return box;
}

}  // namespace

double symmetric_beta(double alpha, RandomStream& random) {
  if (alpha > 1) {
    while (true) {
      const double u = random.uniform_double();
      const double v = 2 * random.uniform_double() - 1;
      const double s = u * u + v * v;
      if (s > 1 || s == 0) continue;
      return 0.5 + u * v / s * std::sqrt(1 - portable_exp(portable_log(s) * 2 / (2 * alpha - 1)));
    }
  }
  alpha = std::max(alpha, 1e-9);  // with less, lambda is 0 or 1 anyway
  while (true) {
    const double x = portable_log(positive_uniform(random)) / alpha;  // logarithms do not underflow
    const double y = portable_log(positive_uniform(random)) / alpha;
    if (portable_exp(x) + portable_exp(y) > 1) continue;
    const double less = portable_exp(-std::abs(x - y));
    return x >= y ? 1 / (1 + less) : less / (1 + less);
  }
}

void draw_mixes(const MixingOptions& options, uint64_t seed, const BatchRange& range,
                const augment::ImageSize& size, std::span<const float> weight, std::span<SampleMix> mixes) {
  std::fill(mixes.begin(), mixes.end(), SampleMix());
  std::vector<int32_t> counting;
  for (int32_t i = 0; i < range.count; ++i) {
    if (weight[static_cast<size_t>(i)] != 0) counting.push_back(i);
  }
  const size_t count = counting.size();
  if (count < 2) return;
  RandomStream shared({seed, range.epoch, range.index, 0, 0}, kBatchDraws);
  const size_t turn = 1 + shared.below(static_cast<uint32_t>(count - 1));
  const bool is_cutmix = options.cutmix > 0 && (options.mixup == 0 || shared.uniform() < 0.5f);
  const double alpha = is_cutmix ? options.cutmix : options.mixup;
  for (size_t k = 0; k < count; ++k) {
    RandomStream own({seed, range.epoch, range.first + counting[k], 0, 0}, kSampleDraws);
    SampleMix mix{counting[(k + turn) % count], static_cast<float>(symmetric_beta(alpha, own)), {}};
    if (is_cutmix) {
      mix.box = draw_box(mix.lambda, size, own);
      const double area = static_cast<double>(mix.box.width) * mix.box.height;
      if (area == 0) continue;
      mix.lambda = static_cast<float>(1 - area / (static_cast<double>(size.width) * size.height));
    }
    mixes[static_cast<size_t>(counting[k])] = mix;
  }
}

// --- bytes as numbers

template <class Work>
void FloatPixels::visit(Work work) const {
  if (dtype_ == DType::kF32) work(float());
  if (dtype_ == DType::kF16) work(Float16());
  if (dtype_ == DType::kBF16) work(BFloat16());
}

template <class T>
const T* FloatPixels::table(int channel) const {
  return reinterpret_cast<const T*>(tables_.data()) + static_cast<size_t>(channel) * 256;
}

FloatPixels::FloatPixels(const BatchPrep& prep, DType dtype, const augment::ImageSize& size)
    : prep_(prep),
      dtype_(dtype),
      size_(size),
      tables_(static_cast<size_t>(size.channels) * 256 * dtype_size(dtype)) {
  for (size_t i = 0; i < kPiece; ++i) {
    const size_t channel = i % static_cast<size_t>(size.channels);
    scales_[i] = prep.scale[channel];
    biases_[i] = prep.bias[channel];
  }
  visit([&]<class T>(T) {
    T* out = reinterpret_cast<T*>(tables_.data());
    for (size_t c = 0; c < static_cast<size_t>(size.channels); ++c) {
      for (int value = 0; value < 256; ++value)
        *out++ = T(prep.scale[c] * static_cast<float>(value) + prep.bias[c]);
    }
  });
}

template <class T, class Value>
void FloatPixels::scale(size_t count, Value value, T* __restrict out) const {
  const float* const scales = scales_.data();
  const float* const biases = biases_.data();
  size_t i = 0;
  for (; i + kPiece <= count; i += kPiece) {
    std::array<float, kPiece> piece;
    for (size_t j = 0; j < kPiece; ++j) piece[j] = scales[j] * value(i + j) + biases[j];
    for (size_t j = 0; j < kPiece; ++j) out[i + j] = T(piece[j]);
  }
  for (size_t j = 0; i < count; ++i, ++j) out[i] = T(scales[j] * value(i) + biases[j]);
}

template <class T>
void FloatPixels::convert_as(const uint8_t* pixels, size_t count, T* out) const {
  if constexpr (std::is_same_v<T, float>) {
    const uint8_t* const __restrict from = pixels;
    return scale(
        count * static_cast<size_t>(size_.channels), [from](size_t i) { return static_cast<float>(from[i]); },
        out);
  }
  if (size_.channels == 3) {
    const T* const red = table<T>(0);
    const T* const green = table<T>(1);
    const T* const blue = table<T>(2);
    for (size_t i = 0; i < count; ++i, pixels += 3, out += 3) {
      out[0] = red[pixels[0]];
      out[1] = green[pixels[1]];
      out[2] = blue[pixels[2]];
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    for (int c = 0; c < size_.channels; ++c) *out++ = table<T>(c)[*pixels++];
  }
}

void FloatPixels::convert(const uint8_t* pixels, std::byte* out) const {
  const size_t count = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.height);
  visit([&]<class T>(T) { convert_as(pixels, count, reinterpret_cast<T*>(out)); });
}

template <class T>
void FloatPixels::mix_as(const uint8_t* pixels, const uint8_t* partner, const SampleMix& mix, T* out) const {
  const auto width = static_cast<size_t>(size_.width);
  const auto channels = static_cast<size_t>(size_.channels);
  const bool has_box = mix.box.width > 0 && mix.box.height > 0;
  if (has_box) {  // rows of the partner's pixels within the image's own
    convert_as(pixels, width * static_cast<size_t>(size_.height), out);
    for (int y = mix.box.y; y < mix.box.y + mix.box.height; ++y) {
      const size_t at = (static_cast<size_t>(y) * width + static_cast<size_t>(mix.box.x)) * channels;
      convert_as(partner + at, static_cast<size_t>(mix.box.width), out + at);
    }
    return;
  }
  const uint8_t* const __restrict own = pixels;
  const uint8_t* const __restrict others = partner;
  const float lambda = mix.lambda, other = 1.0f - mix.lambda;
  const auto averaged = [=](size_t i) {
    return lambda * static_cast<float>(own[i]) + other * static_cast<float>(others[i]);
  };
  scale(width * static_cast<size_t>(size_.height) * channels, averaged, out);
}

void FloatPixels::convert_mixed(const uint8_t* pixels, const uint8_t* partner, const SampleMix& mix,
                                std::byte* out) const {
  visit([&]<class T>(T) { mix_as(pixels, partner, mix, reinterpret_cast<T*>(out)); });
}

}  // namespace dlpipe::pipeline
