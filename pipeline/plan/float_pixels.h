// From bytes to normalised numbers, in the loader itself: for consumers that take batches as f32, f16 or bf16
// (LoaderOptions::image_dtype). The engine does the same, to the same bits, from bytes and BatchPrep (engine/ops/batch_prep.h).
//
// Immutable once made: any thread. Cost: a table of 256 numbers for each channel, and one look-up for each number of f16 and
// bf16. f32 is arithmetic, in loops that compilers turn into vectors, and so is what is mixed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/dtype.h"

namespace dlpipe::pipeline {

class FloatPixels {
 public:
  /// Numbers of `dtype` are prep's scale * byte + bias in f32, rounded. `size` is the pictures'.
  FloatPixels(const BatchPrep& prep, DType dtype, const augment::ImageSize& size);

  /// One picture, dense.
  void convert(const uint8_t* pixels, std::byte* out) const;
  /// The same, mixed with a partner as `mix` says before it is scaled.
  void convert_mixed(const uint8_t* pixels, const uint8_t* partner, const SampleMix& mix,
                     std::byte* out) const;

 private:
  static constexpr size_t kPiece = 48;  // values at a time: whole pixels of one to four channels

  template <class T>
  const T* table(int channel) const;
  /// scale * value(i) + bias for each i below `count`, which begins with a pixel's first channel.
  template <class T, class Value>
  void scale(size_t count, Value value, T* out) const;
  template <class T>
  void convert_as(const uint8_t* pixels, size_t count, T* out) const;
  template <class T>
  void mix_as(const uint8_t* pixels, const uint8_t* partner, const SampleMix& mix, T* out) const;
  /// Calls work(T()) for the dtype's T.
  template <class Work>
  void visit(Work work) const;

  BatchPrep prep_;
  DType dtype_;
  augment::ImageSize size_;
  std::array<float, kPiece> scales_{};  // of each value of a piece
  std::array<float, kPiece> biases_{};
  std::vector<std::byte> tables_;  // [channels, 256]
};

}  // namespace dlpipe::pipeline
