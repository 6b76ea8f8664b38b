#include "dlpipe/run/train/gradients/gradient_block.h"

namespace dlpipe::run {

using Place = GradientLayout::Place;

GradientBlock::GradientBlock(const GradientLayout& layout)
    : layout_(layout), buckets_(layout.buckets.size()) {}

float* GradientBlock::take(const Place& place) {
  Bucket& bucket = buckets_[place.bucket];
  if (bucket.wanted++ == 0)
    bucket.values = engine::Tensor::empty(
        {{layout_.buckets[place.bucket].elements()}, DType::kF32, engine::Layout::kPlain}, layout_.device());
  return at(place);
}

float* GradientBlock::at(const Place& place) const {
  engine::Tensor values = buckets_[place.bucket].values;
  return values.data<float>() + (place.begin - layout_.buckets[place.bucket].begin);
}

void GradientBlock::let_go(const Place& place) {
  Bucket& bucket = buckets_[place.bucket];
  if (--bucket.wanted == 0) bucket.values = engine::Tensor();
}

void GradientBlock::let_go() {
  for (Bucket& bucket : buckets_) bucket = {};
}

}  // namespace dlpipe::run
