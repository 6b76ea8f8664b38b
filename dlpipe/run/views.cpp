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

/// Pictures whose pixel (y, x) is the given ones' (row(y), column(x)).
template <class Row, class Column>
Tensor rearranged(const Tensor& pixels, const Row& row, const Column& column) {
  const Tensor from = engine::plain(engine::cast(pixels, DType::kF32)).contiguous_copy();
  Tensor to = Tensor::empty(from.shape(), DType::kF32);
  const int64_t rows = from.size(1), columns = from.size(2), channels = from.size(3);
  engine::parallel_slices(from.size(0), [&](int64_t n) {
    const float* image = from.data<float>() + n * rows * columns * channels;
    float* out = to.data<float>() + n * rows * columns * channels;
    for (int64_t y = 0; y < rows; ++y) {
      const float* line = image + row(y) * columns * channels;
      for (int64_t x = 0; x < columns; ++x, out += channels)
        std::copy_n(line + column(x) * channels, channels, out);
    }
  });
  return to;
}

Tensor mirrored(const Tensor& pixels) {
  const int64_t last = pixels.size(2) - 1;
  return rearranged(
      pixels, [](int64_t y) { return y; }, [=](int64_t x) { return last - x; });
}

// Moved so that (y, x) shows what was at (y + by, x + by), edges reflected about the outermost pixel.
Tensor translated(const Tensor& pixels, int64_t by) {
  const auto moved_along = [=](int64_t size) {
    return [=](int64_t at) {
      const int64_t wanted = at + by;
      const int64_t inside = wanted < 0 ? -wanted : wanted >= size ? 2 * (size - 1) - wanted : wanted;
      return std::clamp<int64_t>(inside, 0, size - 1);
    };
  };
  return rearranged(pixels, moved_along(pixels.size(1)), moved_along(pixels.size(2)));
}

Tensor plain_logits(engine::Module& model, const Tensor& pixels) {
  return engine::plain(engine::cast(model(pixels), DType::kF32));
}

Tensor flip_logits(engine::Module& model, const Tensor& pixels) {
  return engine::scale(engine::add(plain_logits(model, pixels), plain_logits(model, mirrored(pixels))), 0.5);
}

}  // namespace

Result<Views> parse_views(const std::string& name) {
  static const std::vector<std::string> names = {"none", "flip", "flip_translate"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Views>(i);
  }
  return Status(ErrorCode::kMisuse, concat("[eval] --tta ", name, suggestion(name, names)));
}

Tensor view_logits(engine::Module& model, const Tensor& pixels, Views views) {
  if (views == Views::kOne) return plain_logits(model, pixels);
  Tensor logits = flip_logits(model, pixels);
  if (views == Views::kFlip) return logits;
  const Tensor moved =
      engine::add(flip_logits(model, translated(pixels, -1)), flip_logits(model, translated(pixels, 1)));
  return engine::add(engine::scale(logits, 0.5), engine::scale(moved, 0.25));
}

}  // namespace dlpipe::run
