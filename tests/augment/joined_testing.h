// For tests of ops that put several images into one.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {

/// Hands regions of whole images out, as a decoder would.
class Images : public ImageSource {
 public:
  explicit Images(const std::vector<OwnedImage>& whole) : whole_(whole) {}
  Result<ConstImageView> pixels(size_t index, const ChainPlan& plan, const ImageView& out) override {
    part_ = std::make_unique<OwnedImage>(whole_[index].part(plan.source_region));
    read_ += int64_t{plan.source_region.width} * plan.source_region.height;
    if (!plan.is_copy()) return std::as_const(*part_).view();
    for (int y = 0; y < out.height; ++y)
      std::copy_n(part_->view().row(y), static_cast<size_t>(out.width) * static_cast<size_t>(out.channels),
                  out.row(y));
    return ConstImageView(out);
  }
  int64_t read() const { return read_; }

 private:
  const std::vector<OwnedImage>& whole_;
  std::unique_ptr<OwnedImage> part_;
  int64_t read_ = 0;
};

}  // namespace dlpipe::augment
