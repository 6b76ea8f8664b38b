// Rows of layer_norm and add_layer_norm on CUDA. Each tensor may be f32, bf16 or f16. Each pass reads memory
// once. Work is queued in the calling thread's stream.
#include "engine/ops/layer_norm.h"

#include <algorithm>
#include <span>

#include "dlpipe/op.h"
#include "engine/cuda/grid/grid.h"
#include "engine/cuda/loops/sums.h"

namespace dlpipe::engine {

namespace cuda {
inline namespace DLPIPE_GRID_NAMESPACE {
namespace {

constexpr int kOwn = 8;  // neighbouring elements of a row that a thread keeps in registers
// Chunks of the gradient. With fewer, a GPU waits for memory; with more, adding up the chunks takes long.
constexpr int64_t kMostChunks = 512;
// With short rows there are more chunks, up to this many threads. This limit has not been tried on a GPU yet.
constexpr int64_t kMostThreads = kMostChunks * 256;

struct Own {
  float at[kOwn];
};

template <class T>
DLPIPE_DEVICE void read_own(const T* from, int count, bool in_packs, Own& to) {
  if (in_packs) {
    for (int first = 0; first < kOwn; first += kPackWidth<T>) {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(from + first);
      for (int k = 0; k < kPackWidth<T>; ++k) to.at[first + k] = widened(pack.at[k]);
    }
    return;
  }
  for (int k = 0; k < kOwn; ++k) to.at[k] = k < count ? widened(from[k]) : 0.0f;
}

/// Also sets `values` to the rounded values that it stores.
template <class T>
DLPIPE_DEVICE void write_own(T* to, int count, bool in_packs, Own& values) {
  T stored[kOwn];
  for (int k = 0; k < kOwn; ++k) {
    stored[k] = narrowed<T>(values.at[k]);
    values.at[k] = widened(stored[k]);
  }
  if (in_packs) {
    for (int first = 0; first < kOwn; first += kPackWidth<T>) {
      Pack<T> pack;
      for (int k = 0; k < kPackWidth<T>; ++k) pack.at[k] = stored[first + k];
      *reinterpret_cast<Pack<T>*>(to + first) = pack;
    }
    return;
  }
  for (int k = 0; k < kOwn; ++k) {
    if (k < count) to[k] = stored[k];
  }
}

/// A tensor's memory, or none. All threads have the same dtype, so the check costs next to nothing, and one
/// kernel serves all combinations.
struct Rows {
  void* data = nullptr;
  DType dtype = DType::kF32;

  Rows() = default;
  explicit Rows(const Tensor& tensor) {
    if (!tensor.defined()) return;
    data = tensor.raw();
    dtype = tensor.dtype();
  }

  DLPIPE_DEVICE void read(int64_t at, int count, bool in_packs, Own& to) const {
    if (dtype == DType::kBF16) return read_own(static_cast<const BFloat16*>(data) + at, count, in_packs, to);
    if (dtype == DType::kF16) return read_own(static_cast<const Float16*>(data) + at, count, in_packs, to);
    read_own(static_cast<const float*>(data) + at, count, in_packs, to);
  }
  DLPIPE_DEVICE void write(int64_t at, int count, bool in_packs, Own& values) const {
    if (dtype == DType::kBF16) return write_own(static_cast<BFloat16*>(data) + at, count, in_packs, values);
    if (dtype == DType::kF16) return write_own(static_cast<Float16*>(data) + at, count, in_packs, values);
    write_own(static_cast<float*>(data) + at, count, in_packs, values);
  }
};

/// The number of a thread's elements, from `first` on, that are within the row.
DLPIPE_DEVICE int own_count(int64_t first, int64_t channels) {
  const int64_t left = channels - first;
  return left >= kOwn ? kOwn : left > 0 ? static_cast<int>(left) : 0;
}

/// One block per row.
template <int kThreads_>
struct NormalizeRows {
  static constexpr const char* kName = "layer_norm";
  static constexpr int kThreads = kThreads_;
  using Shared = ReduceSpace<float, kThreads>;
  Rows x;
  Rows branch;
  Rows sum;
  Rows y;
  const float* gamma;
  const float* beta;
  float* means;
  float* inverses;
  int64_t channels;
  float epsilon;
  bool in_packs;  // rows begin at packs

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t row = block.index() * channels;
    const auto count = static_cast<float>(channels);
    typename Block::template PerThread<Own> own;
    typename Block::template PerThread<float> part;
    block.each([&](int thread) {
      const int64_t first = int64_t{thread} * kOwn;
      const int mine = own_count(first, channels);
      Own values = {};
      if (mine > 0) {
        x.read(row + first, mine, in_packs, values);
        if (branch.data != nullptr) {
          Own other;
          branch.read(row + first, mine, in_packs, other);
          for (int k = 0; k < kOwn; ++k) values.at[k] += other.at[k];
          sum.write(row + first, mine, in_packs, values);
        }
      }
      float total = 0;
      for (int k = 0; k < kOwn; ++k) total += values.at[k];
      own[thread] = values;
      part[thread] = total;
    });
    const float mean = block.reduce(part, Add(), shared) / count;
    block.each([&](int thread) {
      const int mine = own_count(int64_t{thread} * kOwn, channels);
      float total = 0;
      for (int k = 0; k < kOwn; ++k) {
        const float distance = own[thread].at[k] - mean;
        if (k < mine) total += distance * distance;
      }
      part[thread] = total;
    });
    const float variance = block.reduce(part, Add(), shared) / count;
    const float inverse = 1.0f / vector_math::sqrt(variance + epsilon);
    block.each([&](int thread) {
      const int64_t first = int64_t{thread} * kOwn;
      const int mine = own_count(first, channels);
      if (mine > 0) {
        Own scale;
        Own shift;
        read_own(gamma + first, mine, in_packs, scale);
        read_own(beta + first, mine, in_packs, shift);
        Own values = own[thread];
        for (int k = 0; k < kOwn; ++k)
          values.at[k] = (values.at[k] - mean) * inverse * scale.at[k] + shift.at[k];
        y.write(row + first, mine, in_packs, values);
      }
      if (thread == 0) {
        means[block.index()] = mean;
        inverses[block.index()] = inverse;
      }
    });
  }
};

/// With n = (x - mean) / std and g = dy gamma: dx = (g - mean(g) - n mean(g n)) / std, plus x's own incoming
/// gradient. One block per chunk of rows. Its threads keep the chunk's sums for the gradients of gamma and beta.
template <int kThreads_>
struct NormalizeRowsGradient {
  static constexpr const char* kName = "layer_norm gradient";
  static constexpr int kThreads = kThreads_;
  using Shared = ReduceSpace<float, kThreads>;
  Rows x;
  Rows grad_x;
  Rows grad_y;
  Rows to[2];
  const float* gamma;
  const float* means;
  const float* inverses;
  float* gamma_parts;  // [chunks, C]; null: not wanted
  float* beta_parts;
  int64_t rows;
  int64_t channels;
  int64_t chunk;  // rows per chunk
  bool in_packs;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const auto count = static_cast<float>(channels);
    const int64_t end = (block.index() + 1) * chunk < rows ? (block.index() + 1) * chunk : rows;
    typename Block::template PerThread<Own> gamma_sums;
    typename Block::template PerThread<Own> beta_sums;
    typename Block::template PerThread<Own> normals;
    typename Block::template PerThread<Own> scaled;  // dy gamma
    typename Block::template PerThread<float> parts[2];
    block.each([&](int thread) {
      gamma_sums[thread] = {};
      beta_sums[thread] = {};
    });
    for (int64_t row = block.index() * chunk; row < end; ++row) {
      const float inverse = inverses[row];
      block.each([&](int thread) {
        const int64_t first = int64_t{thread} * kOwn;
        const int mine = own_count(first, channels);
        Own normal = {};
        Own grad = {};
        float sums[2] = {};
        if (mine > 0 && grad_y.data != nullptr) {
          Own scale;
          x.read(row * channels + first, mine, in_packs, normal);
          grad_y.read(row * channels + first, mine, in_packs, grad);
          read_own(gamma + first, mine, in_packs, scale);
          for (int k = 0; k < kOwn; ++k) {
            normal.at[k] = (normal.at[k] - means[row]) * inverse;
            gamma_sums[thread].at[k] += grad.at[k] * normal.at[k];
            beta_sums[thread].at[k] += grad.at[k];
            grad.at[k] *= scale.at[k];
            sums[0] += grad.at[k];
            sums[1] += grad.at[k] * normal.at[k];
          }
        }
        normals[thread] = normal;
        scaled[thread] = grad;
        parts[0][thread] = sums[0];
        parts[1][thread] = sums[1];
      });
      const float mean_g = block.reduce(parts[0], Add(), shared) / count;
      const float mean_gn = block.reduce(parts[1], Add(), shared) / count;
      block.each([&](int thread) {
        const int64_t first = int64_t{thread} * kOwn;
        const int mine = own_count(first, channels);
        if (mine == 0) return;
        Own values = {};
        if (grad_x.data != nullptr) grad_x.read(row * channels + first, mine, in_packs, values);
        for (int k = 0; k < kOwn; ++k)
          values.at[k] += (scaled[thread].at[k] - mean_g - normals[thread].at[k] * mean_gn) * inverse;
        for (const Rows& place : to) {
          Own copy = values;
          if (place.data != nullptr) place.write(row * channels + first, mine, in_packs, copy);
        }
      });
    }
    block.each([&](int thread) {
      const int64_t first = int64_t{thread} * kOwn;
      const int mine = own_count(first, channels);
      const int64_t at = block.index() * channels + first;
      if (gamma_parts != nullptr && mine > 0) write_own(gamma_parts + at, mine, in_packs, gamma_sums[thread]);
      if (beta_parts != nullptr && mine > 0) write_own(beta_parts + at, mine, in_packs, beta_sums[thread]);
    });
  }
};

/// The gradients of gamma and beta: adds up the chunks' sums. 32 channels per block.
struct SumShares {
  static constexpr const char* kName = "layer_norm parameters' gradients";
  static constexpr int kTile = 32;
  static constexpr int kLanes = 32;  // chunks at once
  static constexpr int kThreads = kTile * kLanes;
  struct Shared {
    float part[kLanes][kTile];
  };
  struct Shares {
    const float* parts;  // [chunks, C]
    float* to;
  };
  Shares shares[2];  // the needed ones come first
  int64_t chunks;
  int64_t channels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t tiles = (channels + kTile - 1) / kTile;
    const Shares& own = shares[block.index() / tiles];
    const int64_t left = block.index() % tiles * kTile;
    block.each([&](int thread) {
      const int64_t channel = left + thread % kTile;
      float sum = 0;
      if (channel < channels) {
        for (int64_t i = thread / kTile; i < chunks; i += kLanes) sum += own.parts[i * channels + channel];
      }
      shared.part[thread / kTile][thread % kTile] = sum;
    });
    block.each([&](int thread) {
      if (thread >= kTile || left + thread >= channels) return;
      float sum = 0;
      for (int lane = 0; lane < kLanes; ++lane) sum += shared.part[lane][thread];
      own.to[left + thread] = sum;
    });
  }
};

/// Calls body(threads), a constant: the fewest threads that can hold a row.
template <class Body>
void with_threads(int64_t channels, const Body& body) {
  if (channels <= 64 * kOwn) return body(std::integral_constant<int, 64>());
  if (channels <= 128 * kOwn) return body(std::integral_constant<int, 128>());
  if (channels <= 256 * kOwn) return body(std::integral_constant<int, 256>());
  body(std::integral_constant<int, 1024>());
}

bool all_in_packs(int64_t channels, std::initializer_list<const void*> pointers) {
  return channels % kOwn == 0 && std::all_of(pointers.begin(), pointers.end(), is_pack_aligned);
}

}  // namespace

void normalize_rows(const RowNorms& norms) {
  const int64_t channels = norms.x.size(-1);
  const Rows from(norms.x), other(norms.branch), both(norms.sum), to(norms.y);
  const bool in_packs = all_in_packs(
      channels, {from.data, other.data, both.data, to.data, norms.gamma.raw(), norms.beta.raw()});
  with_threads(channels, [&](auto threads) {
    launch(NormalizeRows<threads>{from, other, both, to, norms.gamma.data<float>(), norms.beta.data<float>(),
                                  norms.means.data<float>(), norms.inverses.data<float>(), channels,
                                  static_cast<float>(norms.epsilon), in_packs},
           norms.means.elements());
  });
}

void normalize_rows_gradient(const RowNormGradients& gradients) {
  const int64_t channels = gradients.x.size(-1);
  const int64_t rows = gradients.means.elements();
  const Rows from(gradients.x), own(gradients.grad_x), grad(gradients.grad_y), first(gradients.to_x[0]),
      second(gradients.to_x.size() > 1 ? gradients.to_x[1] : Tensor());
  int64_t chunk = 1;
  with_threads(channels, [&](auto threads) {
    chunk = std::max(chunk, blocks_for(rows, std::max(kMostChunks, kMostThreads / threads)));
  });
  const int64_t chunks = blocks_for(rows, chunk);
  const auto parts_for = [&](const Tensor& wanted) {
    return wanted.defined() ? Tensor::empty({{chunks, channels}, DType::kF32}, gradients.x.device())
                            : Tensor();
  };
  const Tensor gamma_parts = parts_for(gradients.to_gamma), beta_parts = parts_for(gradients.to_beta);
  const Rows to_gamma_parts(gamma_parts), to_beta_parts(beta_parts);
  const bool in_packs =
      all_in_packs(channels, {from.data, own.data, grad.data, first.data, second.data, gradients.gamma.raw(),
                              to_gamma_parts.data, to_beta_parts.data});
  with_threads(channels, [&](auto threads) {
    launch(NormalizeRowsGradient<threads>{from,
                                          own,
                                          grad,
                                          {first, second},
                                          gradients.gamma.data<float>(),
                                          gradients.means.data<float>(),
                                          gradients.inverses.data<float>(),
                                          static_cast<float*>(to_gamma_parts.data),
                                          static_cast<float*>(to_beta_parts.data),
                                          rows,
                                          channels,
                                          chunk,
                                          in_packs},
           chunks);
  });
  SumShares sums{{}, chunks, channels};
  int64_t wanted = 0;
  for (const auto& [parts, to] :
       {std::pair(gamma_parts, gradients.to_gamma), std::pair(beta_parts, gradients.to_beta)}) {
    if (to.defined()) sums.shares[wanted++] = {parts.data<float>(), to.data<float>()};
  }
  launch(sums, wanted * blocks_for(channels, SumShares::kTile));
}

bool supports_normalize_rows(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return supports_stored(inputs, attrs) && is_stored(attrs.as<LayerNormAttrs>().output) &&
         inputs[0].shape[-1] <= 1024 * kOwn;
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace cuda

DLPIPE_CUDA_KERNELS(layer_norm) =
    layer_norm_kernels<cuda::normalize_rows, cuda::normalize_rows_gradient>(cuda::supports_normalize_rows);

DLPIPE_CUDA_KERNELS(add_layer_norm) =
    add_layer_norm_kernels<cuda::normalize_rows, cuda::normalize_rows_gradient>(
        cuda::supports_normalize_rows);

}  // namespace dlpipe::engine
