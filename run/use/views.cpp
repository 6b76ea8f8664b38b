#include "dlpipe/run/use/views.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/inference_mode.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::run {

using engine::Tensor;

namespace {

/// Places [first, last) of an axis.
Tensor part(const Tensor& pixels, int axis, int64_t first, int64_t last) {
  return engine::slice(pixels, axis, first, last);
}

Tensor mirrored(const Tensor& pixels) {
  const Tensor x = engine::plain(pixels);
  const Tensor whole = x.is_contiguous() ? x : x.contiguous_copy();
  const int64_t columns = whole.size(2), channels = whole.size(3);
  const std::span<const int64_t> strides = whole.strides();
  const std::array<int64_t, 4> turned = {strides[0], strides[1], -channels, 1};
  return whole.view_as(whole.shape(), turned, (columns - 1) * channels).contiguous_copy();
}

// Place i shows what was at i + by (1 or -1), the edge reflected about the outermost place.
Tensor moved(const Tensor& pixels, int axis, int64_t by) {
  const int64_t size = pixels.size(axis);
  if (size < 2) return pixels;
  const Tensor reflected = by > 0 ? part(pixels, axis, size - 2, size - 1) : part(pixels, axis, 1, 2);
  if (by > 0) return engine::concat({part(pixels, axis, 1, size), reflected}, axis);
  return engine::concat({reflected, part(pixels, axis, 0, size - 1)}, axis);
}

Tensor translated(const Tensor& pixels, int64_t by) {
  return moved(moved(engine::plain(pixels), 1, by), 2, by);
}

Tensor plain_logits(engine::Module& model, const Tensor& pixels) {
  return engine::plain(engine::cast(model(pixels), DType::kF32));
}

Tensor flip_logits(engine::Module& model, const Tensor& pixels) {
  return engine::scale(engine::add(plain_logits(model, pixels), plain_logits(model, mirrored(pixels))), 0.5);
}

/// The least extent of which a crop shows all of `extent`.
int64_t extent_for_crop(int64_t extent) {
  return (extent * 8 + 6) / 7;
}

/// A chain that makes pictures of one size.
std::string chain_for(int64_t height, int64_t width) {
  return height == width ? concat("resize(", height, ") center_crop(", height, ")")
                         : concat("resize(", height, "x", width, ")");
}

/// `error`, of a model that was shown crops of `whole`: most likely it takes pictures of the whole's size alone.
Error with_crop_advice(const Error& error, const Tensor& whole, bool flips) {
  const int64_t height = whole.size(1), width = whole.size(2);
  return Error(Status(
      error.code(),
      concat(error.what(), "; --tta ", flips ? "ten_crop" : "five_crop", " shows the model ",
             seen_extent(height, Views::kFiveCrop), "x", seen_extent(width, Views::kFiveCrop),
             " pixels of each picture of ", height, "x", width, "; for a model of ", height, "x", width,
             " give --val-augment \"", chain_for(extent_for_crop(height), extent_for_crop(width)), "\"")));
}

/// The mean over corners and centre, of each also mirrored if `flips`.
Tensor crop_logits(engine::Module& model, const Tensor& pixels, bool flips) {
  const Tensor whole = engine::plain(pixels);
  const int64_t height = seen_extent(whole.size(1), Views::kFiveCrop);
  const int64_t width = seen_extent(whole.size(2), Views::kFiveCrop);
  const int64_t down = whole.size(1) - height, across = whole.size(2) - width;
  // Half of what is left over, a half rounded to even: torchvision's centre.
  const auto middle = [](int64_t rest) { return rest / 2 + (rest % 2 == 1 && rest / 2 % 2 == 1 ? 1 : 0); };
  const std::array<std::array<int64_t, 2>, 5> places = {
      {{0, 0}, {0, across}, {down, 0}, {down, across}, {middle(down), middle(across)}}};
  Tensor sum;
  for (const auto& [top, left] : places) {
    const Tensor crop = part(part(whole, 1, top, top + height), 2, left, left + width).contiguous_copy();
    Tensor logits;
    try {
      logits = flips ? flip_logits(model, crop) : plain_logits(model, crop);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kMisuse) throw;
      throw with_crop_advice(error, whole, flips);
    }
    sum = sum.defined() ? engine::add(sum, logits) : logits;
  }
  return engine::scale(sum, 1.0 / static_cast<double>(places.size()));
}

}  // namespace

int64_t seen_extent(int64_t extent, Views views) {
  const bool is_cropped = views == Views::kFiveCrop || views == Views::kTenCrop;
  return is_cropped ? std::max<int64_t>(extent * 7 / 8, 1) : extent;
}

Tensor view_logits(engine::Module& model, const Tensor& pixels, Views views) {
  const engine::InferenceMode mode;
  if (views == Views::kOne) return plain_logits(model, pixels);
  if (views == Views::kFiveCrop || views == Views::kTenCrop)
    return crop_logits(model, pixels, views == Views::kTenCrop);
  Tensor logits = flip_logits(model, pixels);
  if (views == Views::kFlip) return logits;
  const Tensor moved =
      engine::add(flip_logits(model, translated(pixels, -1)), flip_logits(model, translated(pixels, 1)));
  return engine::add(engine::scale(logits, 0.5), engine::scale(moved, 0.25));
}

}  // namespace dlpipe::run
