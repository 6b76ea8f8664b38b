// reorder on the CPU: copies between plain and channel-blocked images, one slice per image.
#include <algorithm>
#include <cstring>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/images/image_copy.h"

namespace dlpipe::engine {
namespace {

void copy_flat(const Tensor& from, const Tensor& to) {
  const auto* source = static_cast<const std::byte*>(from.raw());
  auto* target = static_cast<std::byte*>(to.raw());
  parallel_ranges(static_cast<int64_t>(from.size_bytes()), 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

// Between layouts; tensors are f32 images, as the shape rule saw to.
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

}  // namespace dlpipe::engine
