// batch_norm on the CPU. Sums go over chunks (channel_walk.h) in an order that the shape alone decides: f32
// within a chunk, double from chunk to chunk. In blocked layouts with enough blocks, one slice does all of a
// block of channels, sums and second pass, while its images are still in the cache; otherwise every chunk is
// a slice and the passes follow each other.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/images/batch_norm_lanes.h"
#include "dlpipe/engine/cpu/loops/supports.h"
#include "dlpipe/engine/cpu/loops/with_type.h"
#include "dlpipe/engine/ops/batch_norm.h"
#include "dlpipe/engine/ops/batch_statistics.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

using cpu::Chunk;

// Blocks of channels from which one slice per block keeps the usual number of cores busy.
constexpr int64_t kEnoughGroups = 8;
// Chunks of plain rows: this many when there is work for them.
constexpr int64_t kPlainChunks = 32;
constexpr int64_t kLeastElements = 1 << 13;
// Elements of a plain tile that strips of channels walk through together: half a second-level cache in f32.
constexpr int64_t kTileElements = 1 << 15;

/// The chunks of a tensor: groups of channels, and `per_group` chunks that together are all of a group.
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
  /// Values of one channel.
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

  /// For every group: `first` for its chunks, then `between` once, then `second` for its chunks.
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

  /// `first` for all chunks, then `between` once, on the calling thread, then `second` for all chunks.
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

/// `arrays` rows of C floats for every chunk of a group.
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

/// What the forward pass needs of each channel, [C] each.
struct ForwardChannels {
  const float* gamma;
  float* running_mean;
  float* running_var;
  float* mean;
  float* inv_std;
  float* scale;
  bool keeps_running;  // statistics, of a batch whose parts share theirs
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

/// Of the whole batch, where its parts are computed apart.
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

/// What the backward pass makes of each channel, [C] each.
struct BackwardChannels {
  const float* gamma;
  const float* inv_std;
  float* dgamma;  // null: not wanted
  float* dbeta;
  float* a;
  float* k1;
  float* k2;
};

/// Of the samples at hand; `weighted` by the distance to the mean.
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

/// `count` values of the channel are in `all`; 0: statistics weren't theirs.
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
      if constexpr (has_residual.value) {  // the first pass left g there
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
