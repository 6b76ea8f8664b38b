// One value for every element of all gradients, on the parameters' device, in memory that is there while a value in it is wanted: bucket by bucket, so
// that what one layer's backward writes may lie where the values of another were.
//
// Refers to the layout. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/run/train/gradients/gradient_layout.h"

namespace dlpipe::run {

class GradientBlock {
 public:
  explicit GradientBlock(const GradientLayout& layout);

  /// Where a place's values go, and are until let_go(); undefined at first.
  float* take(const GradientLayout::Place& place);
  /// Of a place that was taken.
  float* at(const GradientLayout::Place& place) const;
  void let_go(const GradientLayout::Place& place);
  /// Of all places.
  void let_go();

 private:
  struct Bucket {
    engine::Tensor values = {};  // undefined: nothing in it is wanted
    int64_t wanted = 0;          // places
  };
  const GradientLayout& layout_;
  std::vector<Bucket> buckets_;
};

}  // namespace dlpipe::run
