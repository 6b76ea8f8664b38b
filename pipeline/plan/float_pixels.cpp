#include "dlpipe/pipeline/plan/float_pixels.h"

#include <type_traits>

namespace dlpipe::pipeline {

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
  if (has_box) {  // rows of the partner's pixels in the picture's own
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
