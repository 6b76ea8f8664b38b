#include "dlpipe/module.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "base/portable_math.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/random.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

// Blocks of a stream that are computed together; their data fits into the first-level cache.
constexpr int kBlocks = 32;

/// Combines two words as RandomStream::uniform_double() does. Converts each half by adding it to the bits of 2^52, because AVX2
/// can't convert 64-bit integers.
DLPIPE_INLINE inline double unit_interval(uint32_t high, uint32_t low) {
  const uint64_t bits = ((uint64_t{high} << 32) | low) >> 11;
  constexpr uint64_t kBehind = 0x4330000000000000u;
  const double upper = std::bit_cast<double>((bits >> 32) | kBehind) - 0x1p52;
  const double lower = std::bit_cast<double>((bits & 0xffffffffu) | kBehind) - 0x1p52;
  return (upper * 0x1p32 + lower) * 0x1p-53;
}

/// The two uniform numbers of each block.
struct Uniforms {
  alignas(64) std::array<double, kBlocks> first;
  alignas(64) std::array<double, kBlocks> second;
};

DLPIPE_INLINE inline void draw_blocks(uint64_t seed, uint64_t stream, uint32_t from, Uniforms& uniforms) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    // The counter and key are those of RandomStream(seed, stream).
    const PhiloxBlock words = philox4x32(
        {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 0xffffffffu, from + i},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    uniforms.first[i] = unit_interval(words[0], words[1]);
    uniforms.second[i] = unit_interval(words[2], words[3]);
  }
}

/// Box-Muller, as in RandomStream::normal().
DLPIPE_INLINE inline void make_normal(Uniforms& pairs) {
  for (int i = 0; i < kBlocks; ++i) pairs.first[i] = std::sqrt(-2.0 * log_formula(1.0 - pairs.first[i]));
  for (int i = 0; i < kBlocks; ++i) {
    const double radius = pairs.first[i];
    const SineAndCosine direction = sine_and_cosine_formula(2.0 * std::numbers::pi * pairs.second[i]);
    pairs.first[i] = radius * direction.cosine;
    pairs.second[i] = radius * direction.sine;
  }
}

template <bool kNormal>
void draw(uint64_t seed, uint64_t stream, std::span<double> values) {
  cpu::on_best_isa([=]() DLPIPE_INLINE {
    Uniforms uniforms;
    std::array<double, 2 * kBlocks> in_order;
    for (size_t from = 0; from < values.size(); from += 2 * kBlocks) {
      draw_blocks(seed, stream, static_cast<uint32_t>(from / 2), uniforms);
      if constexpr (kNormal) make_normal(uniforms);
      for (size_t i = 0; i < kBlocks; ++i) {
        in_order[2 * i] = uniforms.first[i];
        in_order[2 * i + 1] = uniforms.second[i];
      }
      std::copy_n(in_order.begin(), std::min(in_order.size(), values.size() - from), values.begin() + from);
    }
  });
}

}  // namespace

void draw_uniform(uint64_t seed, uint64_t stream, std::span<double> values) {
  draw<false>(seed, stream, values);
}
void draw_normal(uint64_t seed, uint64_t stream, std::span<double> values) {
  draw<true>(seed, stream, values);
}

namespace {

// Part of the definition of the weights: each run of this many elements has its own stream.
constexpr int64_t kElementsPerStream = 4096;

// FNV-1a, 64 bits (draft-eastlake-fnv). It only has to distinguish the names within a model.
uint64_t hash_name(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Each element is from_draw() of one number from `draw` (draw_uniform or draw_normal).
template <class Draw, class FromDraw>
void fill(Tensor& tensor, const InitKey& key, const Draw& draw, const FromDraw& from_draw) {
  if (thread_state::leaves_uninitialized()) return;
  float* const values = tensor.data<float>();
  const uint64_t stream_key = philox_mix(key.seed, hash_name(key.name));
  parallel_ranges(tensor.elements(), kElementsPerStream, [&](int64_t begin, int64_t end) {
    std::array<double, kElementsPerStream> numbers;
    const std::span<double> drawn(numbers.data(), static_cast<size_t>(end - begin));
    draw(stream_key, static_cast<uint64_t>(begin / kElementsPerStream), drawn);
    std::transform(drawn.begin(), drawn.end(), values + begin, from_draw);
  });
  tensor.bump_version();
}

}  // namespace

bool& thread_state::leaves_uninitialized() {
  thread_local bool t_leaves = false;
  return t_leaves;
}

void fill_uniform(Tensor& tensor, const InitKey& key, double low, double high) {
  // Rounding to float may reach `high`; the largest float below it is still in the interval.
  const float last = std::nextafterf(static_cast<float>(high), static_cast<float>(low));
  fill(tensor, key, draw_uniform,
       [=](double drawn) { return std::min(static_cast<float>(low + (high - low) * drawn), last); });
}

void fill_normal(Tensor& tensor, const InitKey& key, double mean, double standard_deviation) {
  fill(tensor, key, draw_normal,
       [=](double drawn) { return static_cast<float>(mean + standard_deviation * drawn); });
}

void fill_constant(Tensor& tensor, double value) {
  std::fill_n(tensor.data<float>(), tensor.elements(), static_cast<float>(value));
  tensor.bump_version();
}

Fans fans(const Shape& weight) {
  int64_t field = 1;
  for (int axis = 2; axis < weight.rank(); ++axis) field *= weight[axis];
  return {weight.rank() > 1 ? weight[1] * field : 1, weight.rank() > 0 ? weight[0] * field : 1};
}

void fill_kaiming_uniform(Tensor& weight, const InitKey& key, double a) {
  const double bound = std::sqrt(6.0 / ((1.0 + a * a) * static_cast<double>(fans(weight.shape()).in)));
  fill_uniform(weight, key, -bound, bound);
}

void fill_kaiming_normal_fan_out(Tensor& weight, const InitKey& key) {
  fill_normal(weight, key, 0.0, std::sqrt(2.0 / static_cast<double>(fans(weight.shape()).out)));
}

void fill_dirac(Tensor& weight) {
  const Shape& shape = weight.shape();
  const int64_t field = shape[2] * shape[3];
  const int64_t middle = shape[2] / 2 * shape[3] + shape[3] / 2;
  for (int64_t o = 0; o < std::min(shape[0], shape[1]); ++o) {
    float* const filter = weight.data<float>() + o * shape[1] * field;
    std::fill_n(filter, shape[1] * field, 0.0f);
    filter[o * field + middle] = 1.0f;
  }
  weight.bump_version();
}

void reset_affine(Tensor& weight, Tensor& bias, uint64_t seed, const std::string& prefix) {
  fill_kaiming_uniform(weight, {seed, prefix + "weight"}, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1.0 / std::sqrt(static_cast<double>(fans(weight.shape()).in));
  fill_uniform(bias, {seed, prefix + "bias"}, -bound, bound);
}

void initialize(Module& model, uint64_t seed) {
  for (const Module::Named& named : model.modules()) {
    named.module->reset_parameters(seed, named.name.empty() ? "" : named.name + ".");
  }
}

void initialize_fan_out(Module& model, uint64_t seed) {
  initialize(model, seed);
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 4) fill_kaiming_normal_fan_out(parameter.tensor, {seed, parameter.name});
  }
}

namespace {

// A square matrix, stored row by row.
struct Matrix {
  explicit Matrix(int64_t size) : size(size), values(static_cast<size_t>(size * size)) {}
  double& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * size + column)]; }
  int64_t size;
  std::vector<double> values;
};

// The mean of p p^T over all patches p of all images. The elements of p have the order of a filter's: channel,
// row, column.
Matrix second_moment(const Tensor& images, const Shape& filter) {
  const int64_t channels = filter[1], kh = filter[2], kw = filter[3];
  const int64_t height = images.size(1), width = images.size(2);
  Matrix sum(channels * kh * kw);
  std::vector<double> patch(static_cast<size_t>(sum.size));
  const float* const pixels = images.data<float>();
  for (int64_t n = 0; n < images.size(0); ++n) {
    for (int64_t y = 0; y + kh <= height; ++y) {
      for (int64_t x = 0; x + kw <= width; ++x) {
        for (int64_t i = 0; i < sum.size; ++i) {
          const int64_t c = i / (kh * kw), row = y + i / kw % kh, column = x + i % kw;
          patch[static_cast<size_t>(i)] = pixels[((n * height + row) * width + column) * channels + c];
        }
        for (int64_t i = 0; i < sum.size; ++i) {
          for (int64_t j = 0; j <= i; ++j)
            sum.at(i, j) += patch[static_cast<size_t>(i)] * patch[static_cast<size_t>(j)];
        }
      }
    }
  }
  const auto count = static_cast<double>(images.size(0) * (height - kh + 1) * (width - kw + 1));
  for (int64_t i = 0; i < sum.size; ++i) {
    for (int64_t j = 0; j <= i; ++j) sum.at(i, j) = sum.at(j, i) = sum.at(i, j) / count;
  }
  return sum;
}

// Rotates rows and columns p and q of `a` so that a(p, q) becomes 0, and the columns of `vectors` with them.
void rotate(Matrix& a, Matrix& vectors, int64_t p, int64_t q) {
  if (a.at(p, q) == 0.0) return;
  const double theta = (a.at(q, q) - a.at(p, p)) / (2.0 * a.at(p, q));
  const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::sqrt(theta * theta + 1.0));
  const double cosine = 1.0 / std::sqrt(t * t + 1.0);
  const double sine = t * cosine;
  const auto turn = [&](double& first, double& second) {
    const double old = first;
    first = cosine * old - sine * second;
    second = sine * old + cosine * second;
  };
  for (int64_t k = 0; k < a.size; ++k) turn(a.at(k, p), a.at(k, q));
  for (int64_t k = 0; k < a.size; ++k) turn(a.at(p, k), a.at(q, k));
  for (int64_t k = 0; k < a.size; ++k) turn(vectors.at(k, p), vectors.at(k, q));
}

// Jacobi's method (Golub and Van Loan, "Matrix Computations", 8.5): afterwards `a` holds the eigenvalues on
// its diagonal, and the result has their eigenvectors as columns.
Matrix diagonalize(Matrix& a) {
  Matrix vectors(a.size);
  for (int64_t i = 0; i < a.size; ++i) vectors.at(i, i) = 1.0;
  constexpr int kSweeps = 30;  // it converges quadratically: ten are plenty
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int64_t p = 0; p < a.size; ++p) {
      for (int64_t q = p + 1; q < a.size; ++q) rotate(a, vectors, p, q);
    }
  }
  return vectors;
}

}  // namespace

void fill_whitening(Tensor& weight, const Tensor& images, double epsilon) {
  const Shape& filter = weight.shape();
  if (filter.rank() != 4 || images.rank() != 4 || images.size(3) != filter[1] || images.size(1) < filter[2] ||
      images.size(2) < filter[3] || images.size(0) < 1 || filter[0] % 2 != 0 ||
      filter[0] > 2 * filter[1] * filter[2] * filter[3]) {
    refuse("engine", "filters ", filter.to_string(), " can't whiten the patches of images ",
           images.shape().to_string(),
           "; expected an even number of filters, at most two "
           "for each element of a patch");
  }
  Matrix moment = second_moment(images.contiguous_copy(), filter);
  Matrix vectors = diagonalize(moment);
  std::vector<int64_t> order(static_cast<size_t>(moment.size));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return moment.at(a, a) > moment.at(b, b); });
  float* out = weight.data<float>();
  for (int64_t o = 0; o < filter[0]; ++o) {
    const int64_t k = order[static_cast<size_t>(o / 2)];
    const double scale = (o % 2 == 0 ? 1.0 : -1.0) / std::sqrt(std::max(moment.at(k, k), 0.0) + epsilon);
    for (int64_t i = 0; i < moment.size; ++i) *out++ = static_cast<float>(scale * vectors.at(i, k));
  }
  weight.bump_version();
}

}  // namespace dlpipe::engine
