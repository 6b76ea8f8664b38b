// The inner loops of resample.h: plain loops, compiled once per instruction set. Internal to augment.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// Per output pixel the first source pixel and the weights, with kWeightBits after the point.
struct ResampleTable {
  std::vector<int> begin;         // [out]
  std::vector<int> first_weight;  // [out + 1] in weights
  std::vector<int32_t> weights;
};

void resample_rows(const ResampleTable& across, const ConstImageView& in, const ImageView& out);
void resample_columns(const ResampleTable& down, const ConstImageView& in, const ImageView& out);

}  // namespace dlpipe::augment
