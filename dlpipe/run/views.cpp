#include "dlpipe/run/views.h"

#include <algorithm>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/cpu/parallel.h"
#include "dlpipe/engine/op.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::run {

using engine::Tensor;

namespace {

Tensor mirrored(const Tensor& pixels) {
  const Tensor from = engine::plain(engine::cast(pixels, DType::kF32)).contiguous_copy();
  Tensor to = Tensor::zeros(from.shape(), DType::kF32);
  const int64_t width = from.size(2);
  const int64_t channels = from.size(3);
  const int64_t rows = from.size(1);
  engine::parallel_slices(from.size(0), [&](int64_t n) {
    const float* pixel = from.data<float>() + n * rows * width * channels;
    float* end = to.data<float>() + n * rows * width * channels;
    for (int64_t y = 0; y < rows; ++y) {
      end += width * channels;  // of row y
      for (int64_t x = 1; x <= width; ++x, pixel += channels)
        std::copy_n(pixel, channels, end - x * channels);
    }
  });
  return to;
}

Tensor plain_logits(engine::Module& model, const Tensor& pixels) {
  return engine::plain(engine::cast(model(pixels), DType::kF32));
}

}  // namespace

Result<Views> parse_views(const std::string& name) {
  static const std::vector<std::string> names = {"none", "flip"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Views>(i);
  }
  return Status(ErrorCode::kMisuse, concat("[eval] --tta ", name, suggestion(name, names)));
}

Tensor view_logits(engine::Module& model, const Tensor& pixels, Views views) {
  Tensor logits = plain_logits(model, pixels);
  if (views == Views::kOne) return logits;
  return engine::scale(engine::add(logits, plain_logits(model, mirrored(pixels))), 0.5);
}

}  // namespace dlpipe::run
