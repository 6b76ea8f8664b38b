// batch_norm on the CPU. Sums are over chunks (loops/vec.h), in an order that depends only on the shape: in
// f32 within a chunk, in double across chunks. In blocked layouts with enough blocks, one slice computes
// all of a block of channels, sums and second pass, while its images are still in the cache. Otherwise
// every chunk is a slice, and the second pass starts after all sums.
#include "engine/ops/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/vec.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cpu {

// The inner loops, as visitors of walk(). T is the images' type; statistics are f32 within a chunk.

/// Adds up lanes that belong to the same channel: vectors v and v + kPixel.
template <int kVectors, int kPixel>
DLPIPE_INLINE inline void fold(F32x8 (&lanes)[kVectors]) {
  for (int v = kPixel; v < kVectors; ++v) lanes[v % kPixel] += lanes[v];
}

/// Per channel of one chunk: the sums of d and d^2, with d = x - shift. The shift is the channel's value in
/// the chunk's first row. It comes from the distribution itself, which avoids cancellation if the mean is
/// large.
template <class T>
struct ShiftedSums {
  const T* x;
  int64_t first_row;  // offset of the chunk's first row minus its first channel
  float* shift;       // [C] each. shift is written for the chunk's channels; the sums are added to
  float* sum;
  float* square;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 base[kVectors], sums[kVectors], squares[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      base[v] = io.get(x + first_row + channel + (v % kPixel) * kLanes);
      sums[v] = F32x8{};
      squares[v] = F32x8{};
    }
    for (int64_t row = 0; row < rows; ++row) {
      const T* here = x + offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const F32x8 d = io.get(here + v * kLanes) - base[v];
        sums[v] += d;
        squares[v] += d * d;
      }
    }
    fold<kVectors, kPixel>(sums);
    fold<kVectors, kPixel>(squares);
    for (int v = 0; v < kPixel; ++v) {
      const int64_t c = channel + v * kLanes;
      io.put(shift + c, base[v]);
      io.put(sum + c, io.get(sum + c) + sums[v]);
      io.put(square + c, io.get(square + c) + squares[v]);
    }
  }
};

/// y = (x - mean) * scale + beta (+ residual) (then relu).
template <class T, bool kRelu, bool kResidual>
struct Normalise {
  const T* x;
  const T* residual;
  T* y;
  const float* mean;  // [C] each
  const float* scale;
  const float* beta;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], scales[kVectors], betas[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = channel + (v % kPixel) * kLanes;
      means[v] = io.get(mean + c);
      scales[v] = io.get(scale + c);
      betas[v] = io.get(beta + c);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        F32x8 value = (io.get(x + here + v * kLanes) - means[v]) * scales[v] + betas[v];
        if constexpr (kResidual) value += io.get(residual + here + v * kLanes);
        if constexpr (kRelu) value = relu_of(value);
        io.put(y + here + v * kLanes, value);
      }
    }
  }
};

/// Per channel of one chunk: the sums of g and g * (x - mean). g is dy, or 0 where the relu's output is not
/// positive. With kResidual, stores g as the residual's gradient.
template <class T, bool kRelu, bool kResidual>
struct GradientSums {
  const T* x;
  const T* y;
  const T* dy;
  T* dresidual;
  const float* mean;  // [C] each; the sums are added to
  float* sum;
  float* sum_centred;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], sums[kVectors], centred[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      means[v] = io.get(mean + channel + (v % kPixel) * kLanes);
      sums[v] = F32x8{};
      centred[v] = F32x8{};
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t i = here + v * kLanes;
        F32x8 g = io.get(dy + i);
        if constexpr (kRelu) g = where_positive(io.get(y + i), g);
        if constexpr (kResidual) io.put(dresidual + i, g);
        sums[v] += g;
        centred[v] += g * (io.get(x + i) - means[v]);
      }
    }
    fold<kVectors, kPixel>(sums);
    fold<kVectors, kPixel>(centred);
    for (int v = 0; v < kPixel; ++v) {
      const int64_t c = channel + v * kLanes;
      io.put(sum + c, io.get(sum + c) + sums[v]);
      io.put(sum_centred + c, io.get(sum_centred + c) + centred[v]);
    }
  }
};

/// dx = a * (g - k1 - (x - mean) * k2), with a = gamma * inv_std. In training, k1 = mean of g and k2 =
/// inv_std^2 * mean of g * (x - mean). With running statistics, both are 0.
template <class T, bool kRelu>
struct GradientOfImages {
  const T* x;
  const T* y;
  const T* dy;
  T* dx;
  const float* mean;  // [C] each
  const float* a;
  const float* k1;
  const float* k2;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], as[kVectors], k1s[kVectors], k2s[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = channel + (v % kPixel) * kLanes;
      means[v] = io.get(mean + c);
      as[v] = io.get(a + c);
      k1s[v] = io.get(k1 + c);
      k2s[v] = io.get(k2 + c);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t i = here + v * kLanes;
        F32x8 g = io.get(dy + i);
        if constexpr (kRelu) g = where_positive(io.get(y + i), g);
        io.put(dx + i, as[v] * (g - k1s[v] - (io.get(x + i) - means[v]) * k2s[v]));
      }
    }
  }
};

}  // namespace dlpipe::engine::cpu

namespace dlpipe::engine {
namespace {

using cpu::Chunk;

// With this many blocks of channels, one slice per block keeps the usual number of cores busy.
constexpr int64_t kEnoughGroups = 8;
// The number of chunks of plain rows, as long as each has at least kLeastElements elements.
constexpr int64_t kPlainChunks = 32;
constexpr int64_t kLeastElements = 1 << 13;
// Elements per tile of plain rows: half a second-level cache in f32. All strips of a tile are computed before the next
// tile.
constexpr int64_t kTileElements = 1 << 15;

/// The chunks of a tensor: groups of channels, each with `per_group` chunks.
class Chunks {
 public:
  explicit Chunks(const Tensor& x) : channels_(x.shape()[-1]), rows_(x.elements() / channels_) {
    block_ = layout_block(x.layout());
    if (x.layout() == Layout::kPlain) {
      const int64_t least = std::max<int64_t>(1, kLeastElements / channels_);
      rows_a_chunk_ = std::max(least, (rows_ + kPlainChunks - 1) / kPlainChunks);
      per_group_ = (rows_ + rows_a_chunk_ - 1) / rows_a_chunk_;
    } else {
      groups_ = channels_ / block_;
      per_group_ = x.shape()[0];
      rows_a_chunk_ = rows_ / per_group_;
    }
  }

  int64_t groups() const { return groups_; }
  int64_t per_group() const { return per_group_; }
  int64_t channels() const { return channels_; }
  /// The number of values per channel.
  int64_t count() const { return rows_; }
  int64_t group_channels() const { return channels_ / groups_; }

  Chunk at(int64_t group, int64_t number) const {
    if (groups_ == 1 && block_ == 1) {
      const int64_t first = number * rows_a_chunk_;
      return {first * channels_, std::min(rows_a_chunk_, rows_ - first), channels_, 0, channels_};
    }
    return {(number * groups_ + group) * rows_a_chunk_ * block_, rows_a_chunk_, block_, group * block_,
            block_};
  }

  /// For every group: calls `first` for its chunks, then `between` once, then `second` for its chunks.
  template <class First, class Between, class Second>
  void run(const First& first, const Between& between, const Second& second) const {
    if (groups_ >= kEnoughGroups) {
      parallel_slices(groups_, [&](int64_t group) {
        for (int64_t i = 0; i < per_group_; ++i) first(at(group, i), i);
        between(group);
        for (int64_t i = 0; i < per_group_; ++i) second(at(group, i));
      });
      return;
    }
    run_apart(
        first, [&] { parallel_slices(groups_, between); }, second);
  }

  /// Calls `first` for all chunks, then `between` once on the calling thread, then `second` for all chunks.
  template <class First, class Between, class Second>
  void run_apart(const First& first, const Between& between, const Second& second) const {
    const int64_t chunks = groups_ * per_group_;
    parallel_slices(chunks, [&](int64_t i) { first(at(i / per_group_, i % per_group_), i % per_group_); });
    between();
    parallel_slices(chunks, [&](int64_t i) { second(at(i / per_group_, i % per_group_)); });
  }

 private:
  int64_t channels_, rows_;
  int64_t block_ = 1;
  int64_t groups_ = 1, per_group_ = 1, rows_a_chunk_ = 1;
};

template <class Visitor>
void walk_tiles(Chunk chunk, const Visitor& visitor) {
  cpu::on_best_isa([=]() DLPIPE_INLINE {
    const int64_t tile =
        is_one_pass(chunk) ? chunk.rows : std::max<int64_t>(8, kTileElements / chunk.channels);
    for (int64_t row = 0; row < chunk.rows; row += tile) {
      Chunk part = chunk;
      part.offset += row * chunk.stride;
      part.rows = std::min(tile, chunk.rows - row);
      walk(part, visitor);
    }
  });
}

template <class Work>
void with_flags(bool a, bool b, const Work& work) {
  if (a) {
    b ? work(std::true_type(), std::true_type()) : work(std::true_type(), std::false_type());
  } else {
    b ? work(std::false_type(), std::true_type()) : work(std::false_type(), std::false_type());
  }
}

/// `arrays` rows of C floats per chunk of a group.
class Sums {
 public:
  Sums(const Chunks& chunks, int64_t arrays)
      : channels_(chunks.channels()),
        arrays_(arrays),
        values_(Tensor::empty({chunks.per_group(), arrays, channels_})) {}
  float* at(int64_t number, int64_t array) const {
    return static_cast<float*>(values_.raw()) + (number * arrays_ + array) * channels_;
  }
  /// Zeros `array` in the channels of `chunk`.
  void clear(const Chunk& chunk, int64_t number, int64_t array) const {
    std::fill_n(at(number, array) + chunk.channel, chunk.channels, 0.0f);
  }

 private:
  int64_t channels_, arrays_;
  Tensor values_;
};

// ---- forward
// -------------------------------------------------------------------------------------------------

enum SumArray { kShift, kSum, kSquare };

Moments moments_of(const Chunks& chunks, const Sums& sums, int64_t group, int64_t channel) {
  Moments all;
  for (int64_t i = 0; i < chunks.per_group(); ++i) {
    const auto count = static_cast<double>(chunks.at(group, i).rows);
    const double sum = sums.at(i, kSum)[channel];
    const double squares = sums.at(i, kSquare)[channel] - sum * sum / count;
    all.add(count, sums.at(i, kShift)[channel] + sum / count, std::max(squares, 0.0));
  }
  return all;
}

/// Per-channel parameters and results of the forward pass, [C] each.
struct ForwardChannels {
  const float* gamma;
  float* running_mean;
  float* running_var;
  float* mean;
  float* inv_std;
  float* scale;
  bool keeps_running;  // updates running statistics; in synchronised batch norm one part does
};

void conclude_channel(const BatchNormAttrs& attrs, const Moments* moments, const ForwardChannels& out,
                      int64_t c) {
  double mean = out.running_mean[c];
  double var = out.running_var[c];
  if (moments != nullptr) {
    mean = moments->mean;
    var = moments->squares / moments->count;
    const double unbiased = moments->squares / (moments->count - 1);
    const double kept = 1 - attrs.momentum;
    if (out.keeps_running) {
      out.running_mean[c] = static_cast<float>(kept * out.running_mean[c] + attrs.momentum * mean);
      out.running_var[c] = static_cast<float>(kept * out.running_var[c] + attrs.momentum * unbiased);
    }
  }
  const double inv_std = 1 / std::sqrt(var + attrs.epsilon);
  out.mean[c] = static_cast<float>(mean);
  out.inv_std[c] = static_cast<float>(inv_std);
  out.scale[c] = static_cast<float>(inv_std * out.gamma[c]);
}

/// Statistics of the whole batch, if peers compute its parts (synchronised batch norm).
std::vector<Moments> shared_moments(StatisticsPeers& peers, const Chunks& chunks, const Sums& sums) {
  std::vector<Moments> all(static_cast<size_t>(chunks.channels()));
  for (int64_t c = 0; c < chunks.channels(); ++c)
    all[static_cast<size_t>(c)] = moments_of(chunks, sums, c / chunks.group_channels(), c);
  share_moments(peers, all);
  return all;
}

template <class T>
void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormTensors t(args);
  const Chunks chunks(t.x);
  const Sums sums(chunks, 3);
  const Tensor scale = Tensor::empty({chunks.channels()});
  const auto* x = static_cast<const T*>(t.x.raw());
  const auto* residual = data_or_null<const T>(t.residual);
  auto* y = static_cast<T*>(t.y.raw());
  const auto* beta = t.beta.data<float>();
  StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr;
  const ForwardChannels out{t.gamma.data<float>(),
                            t.running_mean.data<float>(),
                            t.running_var.data<float>(),
                            t.mean.data<float>(),
                            t.inverse.data<float>(),
                            scale.data<float>(),
                            peers == nullptr || peers->leads()};
  const auto measure = [&](const Chunk& chunk, int64_t number) {
    if (!attrs.training) return;
    sums.clear(chunk, number, kSum);
    sums.clear(chunk, number, kSquare);
    walk_tiles(chunk, cpu::ShiftedSums<T>{x, chunk.offset - chunk.channel, sums.at(number, kShift),
                                          sums.at(number, kSum), sums.at(number, kSquare)});
  };
  const auto conclude = [&](int64_t group) {
    const int64_t first = group * chunks.group_channels();
    for (int64_t c = first; c < first + chunks.group_channels(); ++c) {
      const Moments moments = attrs.training ? moments_of(chunks, sums, group, c) : Moments();
      conclude_channel(attrs, attrs.training ? &moments : nullptr, out, c);
    }
  };
  with_flags(attrs.relu, residual != nullptr, [&](auto relu, auto has_residual) {
    const auto normalise = [&](const Chunk& chunk) {
      walk_tiles(chunk, cpu::Normalise<T, relu.value, has_residual.value>{x, residual, y, out.mean, out.scale,
                                                                          beta});
    };
    if (peers == nullptr) return chunks.run(measure, conclude, normalise);
    const auto conclude_all = [&] {
      const std::vector<Moments> all = shared_moments(*peers, chunks, sums);
      for (size_t c = 0; c < all.size(); ++c) conclude_channel(attrs, &all[c], out, static_cast<int64_t>(c));
    };
    chunks.run_apart(measure, conclude_all, normalise);
  });
}

// ---- backward
// ------------------------------------------------------------------------------------------------

/// Per-channel parameters and results of the backward pass, [C] each.
struct BackwardChannels {
  const float* gamma;
  const float* inv_std;
  float* dgamma;  // null: not needed
  float* dbeta;
  float* a;
  float* k1;
  float* k2;
};

/// The totals over this part of the batch; `weighted` is by the distance to the mean.
GradientTotals totals_of(const Chunks& chunks, const Sums& sums, int64_t c) {
  GradientTotals totals;
  for (int64_t i = 0; i < chunks.per_group(); ++i) {
    totals.sum += sums.at(i, 0)[c];
    totals.weighted += sums.at(i, 1)[c];
  }
  return totals;
}

void write_parameter_gradients(const GradientTotals& own, const BackwardChannels& out, int64_t c) {
  if (out.dbeta != nullptr) out.dbeta[c] = static_cast<float>(own.sum);
  if (out.dgamma != nullptr)
    out.dgamma[c] = static_cast<float>(own.weighted * static_cast<double>(out.inv_std[c]));
}

/// `all` has the totals of `count` values per channel. With running statistics `count` is 0, and k1 and k2 are 0.
void write_factors(const GradientTotals& all, double count, const BackwardChannels& out, int64_t c) {
  const double inv_std = out.inv_std[c];
  out.a[c] = static_cast<float>(out.gamma[c] * inv_std);
  out.k1[c] = count > 0 ? static_cast<float>(all.sum / count) : 0.0f;
  out.k2[c] = count > 0 ? static_cast<float>(all.weighted * inv_std * inv_std / count) : 0.0f;
}

template <class T>
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormGradients t(args);
  const Chunks chunks(t.x);
  const Sums sums(chunks, 2);
  const Tensor factors = Tensor::empty({3, chunks.channels()});
  auto* a = static_cast<float*>(factors.raw());
  const auto* x = static_cast<const T*>(t.x.raw());
  const auto* y = data_or_null<const T>(t.y);
  const auto* dy = static_cast<const T*>(t.grad_y.raw());
  auto* dx = data_or_null<T>(t.to_x);
  auto* dresidual = data_or_null<T>(t.to_residual);
  const auto* mean = t.mean.data<float>();
  const BackwardChannels out{t.gamma.data<float>(),
                             t.inverse.data<float>(),
                             data_or_null<float>(t.to_gamma),
                             data_or_null<float>(t.to_beta),
                             a,
                             a + chunks.channels(),
                             a + 2 * chunks.channels()};
  StatisticsPeers* const peers = attrs.training ? statistics_peers() : nullptr;
  const double count = attrs.training ? static_cast<double>(chunks.count()) : 0.0;
  const auto conclude = [&](int64_t group) {
    const int64_t first = group * chunks.group_channels();
    for (int64_t c = first; c < first + chunks.group_channels(); ++c) {
      const GradientTotals totals = totals_of(chunks, sums, c);
      write_parameter_gradients(totals, out, c);
      write_factors(totals, count, out, c);
    }
  };
  const auto conclude_all = [&] {
    std::vector<GradientTotals> all;
    for (int64_t c = 0; c < chunks.channels(); ++c) {
      all.push_back(totals_of(chunks, sums, c));
      write_parameter_gradients(all.back(), out, c);
    }
    share_totals(*peers, all);
    const double all_count = count * static_cast<double>(peers->parts());
    for (size_t c = 0; c < all.size(); ++c) write_factors(all[c], all_count, out, static_cast<int64_t>(c));
  };
  with_flags(attrs.relu, dresidual != nullptr, [&](auto relu, auto has_residual) {
    const auto measure = [&](const Chunk& chunk, int64_t number) {
      sums.clear(chunk, number, 0);
      sums.clear(chunk, number, 1);
      walk_tiles(chunk, cpu::GradientSums<T, relu.value, has_residual.value>{
                            x, y, dy, dresidual, mean, sums.at(number, 0), sums.at(number, 1)});
    };
    const auto differentiate = [&](const Chunk& chunk) {
      if (dx == nullptr) return;
      if constexpr (has_residual.value) {  // the first pass stored g there
        walk_tiles(chunk, cpu::GradientOfImages<T, false>{x, y, dresidual, dx, mean, out.a, out.k1, out.k2});
      } else {
        walk_tiles(chunk, cpu::GradientOfImages<T, relu.value>{x, y, dy, dx, mean, out.a, out.k1, out.k2});
      }
    };
    if (peers == nullptr) return chunks.run(measure, conclude, differentiate);
    chunks.run_apart(measure, conclude_all, differentiate);
  });
}

}  // namespace

extern const Kernels batch_norm_cpu;
const Kernels batch_norm_cpu{
    .forward =
        [](const ForwardArgs& args) {
          cpu::with_type(args.inputs[0].dtype(), [&](auto type) { forward<decltype(type)>(args); });
        },
    .backward =
        [](const BackwardArgs& args) {
          cpu::with_type(args.inputs[0].dtype(), [&](auto type) { backward<decltype(type)>(args); });
        },
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
