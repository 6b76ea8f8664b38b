#include "dlpipe/pipeline/stages/tile_sender.h"

#include <optional>

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

TileSender::TileSender(const Setup& setup)
    : chain_(setup.chain),
      channels_(setup.image_size.channels),
      selector_({.max_pixels = setup.options.max_pixels}) {}

Result<size_t> TileSender::select(const SamplePlan& plan, std::span<const std::byte> image,
                                  coef::CoefSample& sample) {
  const std::optional<augment::PlannedResize> planned = chain_.as_resize(plan.chain);
  if (!planned) {
    return Status(ErrorCode::kUnsupported, concat("--augment \"", chain_.canonical(),
                                                  "\" does more than crop, resize and then flip an image"));
  }
  const augment::ResizeGeometry& resize = planned->geometry;
  const data::CoefCrop crop{
      plan.chain.source_region, resize.source_width, resize.source_height, resize.out_width,
      resize.out_height,        resize.window,       planned->mirror,      channels_};
  return selector_.select(image, crop, sample);
}

size_t TileSender::send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i) {
  const auto bytes = select(plan, image, sample_);
  if (!bytes.ok()) return 0;
  const std::span<std::byte> part = slot.take_tiles(sample_);
  if (part.empty()) return 0;
  selector_.copy(part);
  sample_.out = slot.pixel_offset(i);
  slot.tiles().samples[static_cast<size_t>(i)] = sample_;
  return *bytes;
}

}  // namespace dlpipe::pipeline
