// cast, reorder and batch_prep on the CPU.
#include "engine/ops/conversions.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/op.h"
#include "engine/core/parallel.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/image_copy.h"

namespace dlpipe::engine {

namespace {

// Converts between f32 and bf16, the dtypes of autocast.
void convert_all(const Tensor& from, const Tensor& to) {
  cpu::stored(from.dtype(), [&]<class From>(From*) {
    cpu::stored(to.dtype(), [&]<class To>(To*) {
      const From* x = from.data<From>();
      To* y = to.data<To>();
      parallel_ranges(from.elements(), cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        cpu::on_best_isa([=]() DLPIPE_INLINE {
          for (int64_t i = begin; i < end; ++i) cpu::store_one(y + i, cpu::load_one(x + i));
        });
      });
    });
  });
}

}  // namespace

extern const Kernels cast_cpu;
const Kernels cast_cpu = {
    .forward = [](const ForwardArgs& args) { convert_all(args.inputs[0], args.outputs[0]); },
    .backward = [](const BackwardArgs& args) { convert_all(args.grad_outputs[0], args.grad_inputs[0]); },
    .supports =
        [](std::span<const TensorSpec> inputs, const Attrs& attrs) {
          return is_f32_or_bf16(inputs[0].dtype) && is_f32_or_bf16(attrs.as<CastAttrs>().dtype);
        },
};

// reorder on the CPU: copies between plain and channel-blocked images, one slice per image.

namespace {

void copy_flat(const Tensor& from, const Tensor& to) {
  const auto* source = static_cast<const std::byte*>(from.raw());
  auto* target = static_cast<std::byte*>(to.raw());
  parallel_ranges(static_cast<int64_t>(from.size_bytes()), 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

// Copies between layouts. The shape rule has checked that the tensors are f32 images.
void copy_images(const Tensor& from, const Tensor& to) {
  const Shape& shape = from.shape();
  const cpu::ImageRun run{1, shape[1] * shape[2], shape[3], shape[3]};
  const int64_t image = run.pixels * run.channels;
  const auto* source = static_cast<const float*>(from.raw());
  auto* target = static_cast<float*>(to.raw());
  const int from_block = layout_block(from.layout());
  const int to_block = layout_block(to.layout());
  parallel_slices(shape[0], [&](int64_t n) {
    const float* plain = source + n * image;
    if (from.layout() != Layout::kPlain && to.layout() != Layout::kPlain) {
      auto* scratch = reinterpret_cast<float*>(worker_scratch(1, static_cast<size_t>(image) * sizeof(float)));
      cpu::blocked_to_plain(run, from_block, plain, scratch);
      plain = scratch;
    }
    if (to.layout() == Layout::kPlain) {
      cpu::blocked_to_plain(run, from_block, plain, target + n * image);
    } else {
      cpu::plain_to_blocked(run, to_block, plain, target + n * image);
    }
  });
}

void copy(const Tensor& from, const Tensor& to) {
  from.layout() == to.layout() ? copy_flat(from, to) : copy_images(from, to);
}

}  // namespace

extern const Kernels reorder_cpu;
const Kernels reorder_cpu{
    .forward = [](const ForwardArgs& args) { copy(args.inputs[0], args.outputs[0]); },
    .backward = [](const BackwardArgs& args) { copy(args.grad_outputs[0], args.grad_inputs[0]); },
};

namespace {

// Elements per run: a multiple of sixteen lanes and of 1, 2, 3 and 4 channels, so that every vector has the
// same channels in every run.
constexpr int64_t kRun = 48;

struct Channels {
  float scales[kRun];
  float biases[kRun];

  Channels(const BatchPrep& prep, int64_t channels) {
    for (int64_t i = 0; i < kRun; ++i) {
      scales[i] = prep.scale[static_cast<size_t>(i % channels)];
      biases[i] = prep.bias[static_cast<size_t>(i % channels)];
    }
  }
};

/// y[i] = scale value(i) + bias for `count` elements. The first element is of channel 0.
template <class T, class Value>
void prepare(const Channels& channels, int64_t count, T* y, const Value& value) {
  cpu::on_best_isa([=, &channels]() DLPIPE_INLINE {
    int64_t i = 0;
    for (; i + kRun <= count; i += kRun) {
      for (int64_t k = 0; k < kRun; ++k) {
        cpu::store_one(y + i + k, channels.scales[k] * value(i + k) + channels.biases[k]);
      }
    }
    for (int64_t k = 0; i + k < count; ++k) {
      cpu::store_one(y + i + k, channels.scales[k] * value(i + k) + channels.biases[k]);
    }
  });
}

template <class T>
void prepare_bytes(const Channels& channels, int64_t count, const uint8_t* x, T* y) {
  prepare(channels, count, y, [x](int64_t i) DLPIPE_INLINE { return static_cast<float>(x[i]); });
}

/// Prepares image rows [begin, end), counted over all samples.
template <class T>
void prepare_mixed_rows(const Tensor& images, const BatchPrep& prep, const Channels& channels, int64_t begin,
                        int64_t end, T* y) {
  const int64_t height = images.size(1), width = images.size(2), c = images.size(3);
  const int64_t row_elements = width * c;
  for (int64_t row = begin; row < end; ++row) {
    const SampleMix& mix = prep.mix[static_cast<size_t>(row / height)];
    const uint8_t* const own = images.data<uint8_t>() + row * row_elements;
    T* const to = y + row * row_elements;
    const int64_t at = row % height;
    const int64_t distance = mix.partner < 0 ? 0 : (mix.partner - row / height) * height;  // in rows
    const uint8_t* const other = own + distance * row_elements;
    if (mix.partner >= 0 && !has_box(mix)) {
      prepare(channels, row_elements, to, [=, lambda = mix.lambda](int64_t i) DLPIPE_INLINE {
        return averaged(static_cast<float>(own[i]), static_cast<float>(other[i]), lambda);
      });
    } else if (mix.partner >= 0 && at >= mix.box.y && at < mix.box.y + mix.box.height) {
      const int64_t left = mix.box.x * c, right = left + mix.box.width * c;
      prepare_bytes(channels, left, own, to);
      prepare_bytes(channels, right - left, other + left, to + left);
      prepare_bytes(channels, row_elements - right, own + right, to + right);
    } else {
      prepare_bytes(channels, row_elements, own, to);
    }
  }
}

void batch_prep_forward(const ForwardArgs& args) {
  const auto& prep = args.attrs.as<BatchPrep>();
  const Tensor& images = args.inputs[0];
  if (images.elements() == 0) return;
  const Channels channels(prep, images.size(3));
  cpu::stored(prep.dtype, [&]<class T>(T*) {
    T* y = static_cast<T*>(args.outputs[0].raw());
    if (!prep.mix.empty()) {
      const int64_t rows = images.size(0) * images.size(1);
      const int64_t grain = std::max<int64_t>(1, cpu::kElementwiseGrain / (images.size(2) * images.size(3)));
      return parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
        prepare_mixed_rows(images, prep, channels, begin, end, y);
      });
    }
    constexpr int64_t kGrain = cpu::kElementwiseGrain / kRun * kRun;
    const uint8_t* x = images.data<uint8_t>();
    parallel_ranges(images.elements(), kGrain, [&](int64_t begin, int64_t end) {
      prepare_bytes(channels, end - begin, x + begin, y + begin);
    });
  });
}

}  // namespace

extern const Kernels batch_prep_cpu;
const Kernels batch_prep_cpu = {
    .forward = batch_prep_forward,
    .supports = [](std::span<const TensorSpec>,
                   const Attrs& attrs) { return is_f32_or_bf16(attrs.as<BatchPrep>().dtype); },
};

}  // namespace dlpipe::engine
