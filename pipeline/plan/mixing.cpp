#include "dlpipe/pipeline/plan/mixing.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dlpipe/base/portable_math.h"

namespace dlpipe::pipeline {

namespace {

// What a batch and a sample draw here, among the chain's ops, which count from 0.
constexpr uint32_t kBatchDraws = 0xffff;
constexpr uint32_t kSampleDraws = 0xfffe;

/// Uniform in (0, 1].
double positive_uniform(RandomStream& random) {
  return 1 - random.uniform_double();
}

/// A box of (1 - lambda) of the picture around a point drawn anywhere in it, cut off at the borders (Yun et
/// al., section 3.1), in whole pixels.
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
  alpha = std::max(alpha, 1e-9);  // where it is 0 or 1 already
  while (true) {
    const double x = portable_log(positive_uniform(random)) / alpha;  // logarithms, which don't underflow
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

}  // namespace dlpipe::pipeline
