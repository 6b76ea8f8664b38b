// The colour that an op sets pixels to: a parameter that several ops share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

inline OpParam fill_parameter(const char* default_value = "0") {
  return {"fill", "color", default_value, "the colour, one number for all channels or r:g:b"};
}

class Fill {
 public:
  Fill(OpArguments& arguments, std::string_view name) : values_(arguments.numbers(name)) {
    for (size_t c = 0; c < pixel_.size(); ++c)
      pixel_[c] = static_cast<uint8_t>(values_[std::min(c, values_.size() - 1)]);
  }
  const Pixel& pixel() const { return pixel_; }
  /// What is wrong with it for images of so many channels.
  Status check(int channels) const {
    if (values_.size() == 1 || values_.size() == static_cast<size_t>(channels)) return {};
    return {ErrorCode::kMisuse, concat("fill has ", values_.size(), " values, the image ", channels,
                                       " channels; give one value, or one per channel")};
  }

 private:
  std::vector<double> values_;
  Pixel pixel_{};
};

}  // namespace dlpipe::augment
