// batch_norm on CUDA. Forward and backward each go over the images twice. First they sum over chunks of rows, in f32 within
// a chunk and in double across chunks, and compute the values per channel from the sums. Then they compute every element.
// StatisticsPeers are ignored: training on a device refuses --sync-bn (run/train/session/options.cpp).
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/cuda/loops/windows.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine {
namespace {

/// kWidth consecutive values of an array of floats [C].
template <int kWidth>
struct PerChannel {
  float at[kWidth];

  explicit DLPIPE_DEVICE PerChannel(const float* from) {
    for (int k = 0; k < kWidth; ++k) at[k] = from[k];
  }
};

// ---- every element

/// Calls map(element, factors) for all of [rows, channels]. A thread keeps map.factors(channel) for all of its rows.
template <class Map>
struct MapRows {
  static constexpr const char* kName = Map::kName;
  using Tile = cuda::RowTile<Map::kWidth>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kRows = Tile::kLanes * 8;  // per block
  using Shared = cuda::NoShared;
  Map map;
  int64_t rows;
  int64_t channels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const auto tiles = static_cast<uint32_t>(cuda::blocks_for(channels, Tile::kChannels));
    const auto index = static_cast<uint32_t>(block.index());
    const int64_t first = int64_t{index / tiles} * kRows;
    const int64_t end = first + kRows < rows ? first + kRows : rows;
    block.each([&](int thread) {
      const int64_t channel = int64_t{index % tiles} * Tile::kChannels + thread % Tile::kSide * Map::kWidth;
      if (channel >= channels) return;
      const typename Map::Factors factors = map.factors(channel);
      for (int64_t row = first + thread / Tile::kSide; row < end; row += Tile::kLanes)
        map(row * channels + channel, factors);
    });
  }
};

template <class Map>
void launch_map_rows(int64_t rows, int64_t channels, const Map& map) {
  using Kernel = MapRows<Map>;
  cuda::launch(Kernel{map, rows, channels},
               cuda::blocks_for(rows, Kernel::kRows) * cuda::blocks_for(channels, Kernel::Tile::kChannels));
}

// ---- channels

/// Rows per chunk: about 512 blocks in total, but at least four rows per lane.
template <int kWidth>
int64_t chunk_rows(int64_t rows, int64_t channels) {
  using Tile = cuda::RowTile<kWidth>;
  const int64_t tiles = cuda::blocks_for(channels, Tile::kChannels);
  return std::max<int64_t>(4 * Tile::kLanes, cuda::blocks_for(rows * tiles, 512));
}

/// Adds two sums per channel over the chunks, in double, by task.add(chunk, channel, sums), and passes them to
/// task.finish(channel, sums). A block has the channels of one memory sector (32 bytes of f32) and reads many
/// chunks at once. There are at most 512 chunks, and all later work waits for this kernel.
template <class Task>
struct FinishChannels {
  static constexpr const char* kName = Task::kName;
  static constexpr int kTile = 8;
  static constexpr int kLanes = 64;  // chunks at once
  static constexpr int kThreads = kTile * kLanes;
  struct Shared {
    double part[2][kThreads];
  };
  Task task;
  int chunks;
  int64_t channels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    block.each([&](int thread) {
      const int64_t channel = block.index() * kTile + thread % kTile;
      double sums[2] = {};
      if (channel < channels) {
#if defined(__CUDACC__)
#pragma unroll 4  // several loads at once
#endif
        for (int i = thread / kTile; i < chunks; i += kLanes) task.add(i, channel, sums);
      }
      for (int i = 0; i < 2; ++i) shared.part[i][thread] = sums[i];
    });
    for (int half = kThreads / 2; half >= kTile; half /= 2) {
      block.each([&](int thread) {
        if (thread >= half) return;
        for (int i = 0; i < 2; ++i) shared.part[i][thread] += shared.part[i][thread + half];
      });
    }
    block.each([&](int thread) {
      const int64_t channel = block.index() * kTile + thread;
      if (thread >= kTile || channel >= channels) return;
      const double sums[2] = {shared.part[0][thread], shared.part[1][thread]};
      task.finish(channel, sums);
    });
  }
};

template <class Task>
void launch_finish_channels(int64_t chunks, int64_t channels, const Task& task) {
  using Kernel = FinishChannels<Task>;
  cuda::launch(Kernel{task, static_cast<int>(chunks), channels}, cuda::blocks_for(channels, Kernel::kTile));
}

// ---- forward

/// The sums of d and d^2, with d = x - shift. The shift is the channel's value in the chunk's first row. It
/// comes from the distribution itself, which avoids cancellation if the mean is large.
template <class T, int kWidth_, bool kAligned>
struct ShiftedSums {
  static constexpr const char* kName = "batch_norm sums";
  static constexpr int kWidth = kWidth_;
  static constexpr int kSums = 2;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  float* parts;  // [chunks, 2, C]
  int64_t channels;

  using Factors = Values;  // the shifts
  DLPIPE_DEVICE Factors factors(int64_t first_row, int64_t channel) const {
    return Values::read(x + first_row * channels + channel);
  }
  DLPIPE_DEVICE void add(int64_t i, const Factors& shifts, float (&sums)[2][kWidth]) const {
    const Values values = Values::read(x + i);
    for (int k = 0; k < kWidth; ++k) {
      const float d = cuda::widened(values.at[k]) - cuda::widened(shifts.at[k]);
      sums[0][k] += d;
      sums[1][k] += d * d;
    }
  }
  DLPIPE_DEVICE void store(int64_t chunk, int i, int64_t channel, float sum) const {
    parts[(chunk * 2 + i) * channels + channel] = sum;
  }
};

/// The statistics of each channel: those of the batch, which also update the running ones, or the running ones.
template <class T>
struct Statistics {
  static constexpr const char* kName = "batch_norm statistics";
  const T* x;
  const float* parts;
  const float* gamma;
  float* running_mean;  // [C] each
  float* running_var;
  float* mean;
  float* inv_std;
  float* scale;
  int64_t rows;
  int64_t channels;
  int64_t chunk;
  double epsilon;
  double momentum;
  bool training;

  /// Adds the chunk's sums of x and x^2, with the shift removed. In double, this loses no precision that matters.
  DLPIPE_DEVICE void add(int64_t i, int64_t c, double (&sums)[2]) const {
    const int64_t first = i * chunk;
    const auto count = static_cast<double>(first + chunk < rows ? chunk : rows - first);
    const double shift = cuda::widened(x[first * channels + c]);
    const double sum = parts[i * 2 * channels + c];
    sums[0] += count * shift + sum;
    sums[1] += parts[(i * 2 + 1) * channels + c] + 2 * shift * sum + count * shift * shift;
  }
  DLPIPE_DEVICE void finish(int64_t c, const double (&sums)[2]) const {
    double used_mean = running_mean[c];
    double used_var = running_var[c];
    if (training) {
      const auto count = static_cast<double>(rows);
      used_mean = sums[0] / count;
      const double squares = sums[1] - sums[0] * used_mean;  // sum of (x - mean)^2
      used_var = squares < 0 ? 0 : squares / count;          // NaN stays NaN
      const double unbiased = used_var * (count / (count - 1));
      running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * used_mean);
      running_var[c] = static_cast<float>((1 - momentum) * running_var[c] + momentum * unbiased);
    }
    const double inverse = 1 / vector_math::sqrt(used_var + epsilon);
    mean[c] = static_cast<float>(used_mean);
    inv_std[c] = static_cast<float>(inverse);
    scale[c] = static_cast<float>(inverse * gamma[c]);
  }
};

/// y = (x - mean) scale + beta (+ residual) (then relu).
template <class T, int kWidth_, bool kAligned>
struct Normalise {
  static constexpr const char* kName = "batch_norm";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  const T* residual;  // or null
  T* y;
  const float* mean;  // [C] each
  const float* scale;
  const float* beta;
  bool relu;

  struct Factors {
    PerChannel<kWidth> mean, scale, beta;
  };
  DLPIPE_DEVICE Factors factors(int64_t channel) const {
    return {PerChannel<kWidth>(mean + channel), PerChannel<kWidth>(scale + channel),
            PerChannel<kWidth>(beta + channel)};
  }
  DLPIPE_DEVICE void operator()(int64_t i, const Factors& f) const {
    const Values in = Values::read(x + i);
    Values other = {};
    if (residual != nullptr) other = Values::read(residual + i);
    Values out;
    for (int k = 0; k < kWidth; ++k) {
      float value = (cuda::widened(in.at[k]) - f.mean.at[k]) * f.scale.at[k] + f.beta.at[k];
      if (residual != nullptr) value += cuda::widened(other.at[k]);
      out.at[k] = cuda::narrowed<T>(relu && value < 0 ? 0.0f : value);
    }
    out.write(y + i);
  }
};

void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormTensors t(args);
  const Tensor& x = t.x;
  const Tensor& y = t.y;
  const int64_t channels = x.size(-1);
  const int64_t rows = x.elements() / channels;
  const Tensor scale = Tensor::empty({{channels}, DType::kF32}, x.device());
  auto* mean = t.mean.data<float>();
  const void* residual = data_or_null<void>(t.residual);
  cuda::by_channels(
      x.dtype(), channels, {x.raw(), y.raw(), residual}, [&](auto type, auto width, auto aligned) {
        using T = decltype(type);
        const auto* from = cuda::elements_of<T>(x);
        const int64_t chunk = chunk_rows<width()>(rows, channels);
        const int64_t chunks = cuda::blocks_for(rows, chunk);
        const Tensor parts = Tensor::empty({{chunks, 2, channels}, DType::kF32}, x.device());
        if (attrs.training) {
          cuda::launch_channel_sums(rows, channels, chunk,
                                    ShiftedSums<T, width(), aligned()>{from, parts.data<float>(), channels});
        }
        launch_finish_channels(
            attrs.training ? chunks : 0, channels,
            Statistics<T>{from, parts.data<float>(), t.gamma.data<float>(), t.running_mean.data<float>(),
                          t.running_var.data<float>(), mean, t.inverse.data<float>(), scale.data<float>(),
                          rows, channels, chunk, attrs.epsilon, attrs.momentum, attrs.training});
        launch_map_rows(
            rows, channels,
            Normalise<T, width(), aligned()>{from, static_cast<const T*>(residual), cuda::elements_to<T>(y),
                                             mean, scale.data<float>(), t.beta.data<float>(), attrs.relu});
      });
}

// ---- backward. With g the output's gradient, or 0 where the relu's output is not positive:
//   dbeta = sum g, dgamma = inv_std sum g (x - mean), dresidual = g,
//   dx = a (g - k1 - (x - mean) k2), a = gamma inv_std. In training k1 = dbeta / count and
//   k2 = inv_std dgamma / count; otherwise both are 0.

/// The sums of g and of g (x - mean). Also writes g as the residual's gradient if that is given.
template <class T, int kWidth_, bool kAligned>
struct GradientSums {
  static constexpr const char* kName = "batch_norm gradient sums";
  static constexpr int kWidth = kWidth_;
  static constexpr int kSums = 2;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  const T* y;  // null: no relu
  const T* grad_y;
  T* grad_residual;   // or null
  const float* mean;  // [C]
  float* parts;       // [chunks, 2, C]
  int64_t channels;

  using Factors = PerChannel<kWidth>;  // the means
  DLPIPE_DEVICE Factors factors(int64_t, int64_t channel) const { return Factors(mean + channel); }
  DLPIPE_DEVICE void add(int64_t i, const Factors& means, float (&sums)[2][kWidth]) const {
    const Values in = Values::read(x + i);
    Values g = Values::read(grad_y + i);
    if (y != nullptr) {
      const Values out = Values::read(y + i);
      for (int k = 0; k < kWidth; ++k) g.at[k] = cuda::widened(out.at[k]) > 0 ? g.at[k] : T();
    }
    if (grad_residual != nullptr) g.write(grad_residual + i);
    for (int k = 0; k < kWidth; ++k) {
      sums[0][k] += cuda::widened(g.at[k]);
      sums[1][k] += cuda::widened(g.at[k]) * (cuda::widened(in.at[k]) - means.at[k]);
    }
  }
  DLPIPE_DEVICE void store(int64_t chunk, int i, int64_t channel, float sum) const {
    parts[(chunk * 2 + i) * channels + channel] = sum;
  }
};

/// The parameters' gradients, and the values per channel that the images' gradient needs.
struct ParameterGradients {
  static constexpr const char* kName = "batch_norm parameters' gradients";
  const float* parts;
  const float* gamma;  // [C] each
  const float* inv_std;
  float* grad_gamma;  // null: not needed
  float* grad_beta;
  float* a;
  float* k1;
  float* k2;
  int64_t rows;
  int64_t channels;
  bool training;

  DLPIPE_DEVICE void add(int64_t i, int64_t c, double (&sums)[2]) const {
    sums[0] += parts[i * 2 * channels + c];
    sums[1] += parts[(i * 2 + 1) * channels + c];
  }
  DLPIPE_DEVICE void finish(int64_t c, const double (&sums)[2]) const {
    const double inverse = inv_std[c];
    const auto count = static_cast<double>(rows);
    if (grad_beta != nullptr) grad_beta[c] = static_cast<float>(sums[0]);
    if (grad_gamma != nullptr) grad_gamma[c] = static_cast<float>(sums[1] * inverse);
    a[c] = static_cast<float>(gamma[c] * inverse);
    k1[c] = training ? static_cast<float>(sums[0] / count) : 0.0f;
    k2[c] = training ? static_cast<float>(sums[1] * inverse * inverse / count) : 0.0f;
  }
};

template <class T, int kWidth_, bool kAligned>
struct ImageGradient {
  static constexpr const char* kName = "batch_norm images' gradient";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  const T* y;  // null: no relu, or grad is g already
  const T* grad;
  T* grad_x;
  const float* mean;  // [C] each
  const float* a;
  const float* k1;
  const float* k2;

  struct Factors {
    PerChannel<kWidth> mean, a, k1, k2;
  };
  DLPIPE_DEVICE Factors factors(int64_t channel) const {
    return {PerChannel<kWidth>(mean + channel), PerChannel<kWidth>(a + channel),
            PerChannel<kWidth>(k1 + channel), PerChannel<kWidth>(k2 + channel)};
  }
  DLPIPE_DEVICE void operator()(int64_t i, const Factors& f) const {
    const Values in = Values::read(x + i);
    Values g = Values::read(grad + i);
    if (y != nullptr) {
      const Values out = Values::read(y + i);
      for (int k = 0; k < kWidth; ++k) g.at[k] = cuda::widened(out.at[k]) > 0 ? g.at[k] : T();
    }
    Values to;
    for (int k = 0; k < kWidth; ++k) {
      const float centred = cuda::widened(in.at[k]) - f.mean.at[k];
      to.at[k] = cuda::narrowed<T>(f.a.at[k] * (cuda::widened(g.at[k]) - f.k1.at[k] - centred * f.k2.at[k]));
    }
    to.write(grad_x + i);
  }
};

void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<BatchNormAttrs>();
  const BatchNormGradients t(args);
  const Tensor& x = t.x;
  const int64_t channels = x.size(-1);
  const int64_t rows = x.elements() / channels;
  const Tensor factors = Tensor::empty({{3, channels}, DType::kF32}, x.device());
  auto* a = factors.data<float>();
  auto* k1 = a + channels;
  auto* k2 = k1 + channels;
  const auto* mean = t.mean.data<float>();
  const void* y = attrs.relu ? t.y.raw() : nullptr;
  const void* grad_y = t.grad_y.raw();
  void* grad_x = data_or_null<void>(t.to_x);
  void* grad_residual = data_or_null<void>(t.to_residual);
  cuda::by_channels(
      x.dtype(), channels, {x.raw(), y, grad_y, grad_x, grad_residual},
      [&](auto type, auto width, auto aligned) {
        using T = decltype(type);
        const auto* from = cuda::elements_of<T>(x);
        const int64_t chunk = chunk_rows<width()>(rows, channels);
        const int64_t chunks = cuda::blocks_for(rows, chunk);
        const Tensor parts = Tensor::empty({{chunks, 2, channels}, DType::kF32}, x.device());
        cuda::launch_channel_sums(rows, channels, chunk,
                                  GradientSums<T, width(), aligned()>{
                                      from, static_cast<const T*>(y), static_cast<const T*>(grad_y),
                                      static_cast<T*>(grad_residual), mean, parts.data<float>(), channels});
        launch_finish_channels(
            chunks, channels,
            ParameterGradients{parts.data<float>(), t.gamma.data<float>(), t.inverse.data<float>(),
                               data_or_null<float>(t.to_gamma), data_or_null<float>(t.to_beta), a, k1, k2,
                               rows, channels, attrs.training});
        if (grad_x == nullptr) return;
        // The first pass stored g in the residual's gradient, if there is one.
        const bool has_g = grad_residual != nullptr;
        launch_map_rows(
            rows, channels,
            ImageGradient<T, width(), aligned()>{from, has_g ? nullptr : static_cast<const T*>(y),
                                                 static_cast<const T*>(has_g ? grad_residual : grad_y),
                                                 static_cast<T*>(grad_x), mean, a, k1, k2});
      });
}

bool supports(std::span<const TensorSpec> inputs, const Attrs&) {
  return cuda::is_stored(inputs[0].dtype);
}

}  // namespace

DLPIPE_CUDA_KERNELS(batch_norm) = {forward, backward, supports};

}  // namespace dlpipe::engine
