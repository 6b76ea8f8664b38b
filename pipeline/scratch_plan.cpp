#include "dlpipe/pipeline/scratch_plan.h"

#include <algorithm>
#include <vector>

namespace dlpipe::pipeline {

namespace {

augment::ImageSize largest_picture(const Setup& setup) {
  augment::ImageSize largest{1, 1, setup.image_size.channels};
  const data::Dataset& dataset = *setup.dataset;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    const auto header = dataset.header(sample);
    if (!header.ok()) continue;  // a bad record: no picture
    const int64_t pixels = int64_t{header->width} * header->height;
    if (pixels <= int64_t{largest.width} * largest.height || pixels > setup.options.max_pixels) continue;
    largest.width = static_cast<int>(header->width);
    largest.height = static_cast<int>(header->height);
  }
  return largest;
}

/// What is decoded before a chain begins: the region's pixels, and as much for what the codec keeps of it.
size_t decoded_bytes(const augment::ChainPlan& plan, int channels) {
  const auto of = [&](const augment::ChainPlan& one) {
    return 2 * static_cast<size_t>(one.source_region.width) * static_cast<size_t>(one.source_region.height) *
           static_cast<size_t>(channels);
  };
  size_t most = plan.is_joined() ? 0 : of(plan);
  for (const augment::JoinedPicture& picture : plan.pictures) most = std::max(most, of(picture.plan));
  return most;
}

}  // namespace

int64_t planned_scratch_bytes(const Setup& setup) {
  if (setup.image_field < 0) return 0;
  constexpr int64_t kKeys = 64;
  constexpr int64_t kOfEachThread = int64_t{1} << 20;  // rows and tables of a decoder, whatever the picture
  const augment::ImageSize size = largest_picture(setup);
  augment::ChainPlan plan;
  size_t most = 0;
  for (int64_t i = 0; i < kKeys; ++i) {
    const SampleKey key{.seed = setup.options.seed, .epoch = i, .position = i};
    const std::vector<augment::PlannedPicture> pictures(1 + static_cast<size_t>(setup.chain.others(key)),
                                                        {size});
    if (!setup.chain.plan(std::span(pictures), key, plan).ok()) continue;  // training will say so
    most = std::max(most, augment::Chain::scratch_bytes(plan) + decoded_bytes(plan, size.channels));
  }
  most += most / 8;
  return setup.options.threads * (static_cast<int64_t>(most) + kOfEachThread);
}

}  // namespace dlpipe::pipeline
