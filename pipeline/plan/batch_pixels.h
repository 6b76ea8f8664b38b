// Processes a batch's bytes in the loader: draws which samples are mixed and by how much, and converts bytes to normalised
// numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/batch.h"
#include "dlpipe/dtype.h"
#include "dlpipe/random.h"
#include "pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

// Mixup (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018) and CutMix (Yun et al., "CutMix: Regularization
// Strategy to Train Strong Classifiers with Localizable Features", ICCV 2019): which samples are mixed and by how much, drawn
// once the batch's samples are known. The engine does the mixing (BatchPrep::mix).
//
// A batch uses one of the two; if both are on, each is used for half of the batches. Each valid sample is the partner of
// exactly one other: their order is rotated by a drawn number of places. lambda and the box are drawn for each sample, like
// `elem` in timm. Keys are (seed, epoch, batch) and (seed, epoch, position); no draw uses libm, so batches have the same bits
// on every machine.
//
// Pure functions: any thread. Cost: a few Philox blocks and two logarithms per sample.

/// The alpha of Beta(alpha, alpha) for lambda; 0: off.
struct MixingOptions {
  double mixup = 0;
  double cutmix = 0;
  bool is_on() const { return mixup > 0 || cutmix > 0; }
};

/// Fills all of `mixes` ([capacity]). Samples of weight 0, a single sample, and a sample with an empty box
/// get partner -1. `size` is that of the batch's images.
void draw_mixes(const MixingOptions& options, uint64_t seed, const BatchRange& range,
                const augment::ImageSize& size, std::span<const float> weight, std::span<SampleMix> mixes);

/// Beta(alpha, alpha), alpha > 0. Up to 1: Jöhnk's rejection ("Erzeugung von betaverteilten und
/// gammaverteilten Zufallszahlen", Metrika 1964); above: Ulrich's polar method (Devroye, "Non-Uniform Random
/// Variate Generation", 1986, IX.4.3).
double symmetric_beta(double alpha, RandomStream& random);

/// Converts bytes to normalised numbers in the loader: for consumers that need batches as f32, f16 or bf16
/// (LoaderOptions::image_dtype). The engine does the same, with the same bits, from bytes and BatchPrep
/// (engine/ops/conversions.h).
///
/// Immutable once made: any thread. Cost: a table of 256 numbers for each channel, and one look-up for each number of f16 and
/// bf16. f32 and mixed images use arithmetic, in loops that compilers vectorise.
class FloatPixels {
 public:
  /// Numbers of `dtype` are prep's scale * byte + bias in f32, rounded. `size` is that of the images.
  FloatPixels(const BatchPrep& prep, DType dtype, const augment::ImageSize& size);

  /// One image, dense.
  void convert(const uint8_t* pixels, std::byte* out) const;
  /// The same, mixed with a partner according to `mix` before scaling.
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
