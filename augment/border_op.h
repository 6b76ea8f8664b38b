// Ops that frame the picture: where it lies in the output, and what stands around it.
#pragma once

#include <algorithm>
#include <cstring>

#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/framed_movement.h"
#include "dlpipe/augment/op.h"

namespace dlpipe::augment {

inline OpParam border_parameter() {
  return {
      .name = "mode",
      .kind = "string",
      .default_value = "constant",
      .help =
          "what is added: fill, the border's pixels, or the picture mirrored without repeating its border",
      .choices = {"constant", "edge", "reflect"}};
}

/// plan sets draw.out and draw.values to the picture's left and top in it.
class BorderOp : public Op {
 public:
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const int left = static_cast<int>(draw.values[0]);
    const int top = static_cast<int>(draw.values[1]);
    if (mode_ == "constant") {
      place_image(in, left, top, fill_.pixel(), out, draw.mirror);
      return {};
    }
    const ptrdiff_t channels = out.channels;
    for (int y = 0; y < out.height; ++y) {
      const uint8_t* const from = in.row(seen(y - top, in.height));
      for (int x = 0; x < out.width; ++x) {
        const int to = draw.mirror ? out.width - 1 - x : x;
        std::memcpy(out.row(y) + to * channels, from + seen(x - left, in.width) * channels, size_t(channels));
      }
    }
    return {};
  }

  Movement movement(const OpDraw& draw) const override {
    const double left = draw.values[0];
    const double top = draw.values[1];
    if (mode_ == "constant") return Movement::shifted(-left, -top);
    return Movement(std::make_shared<const FramedMovement>(left, top, draw.in, mode_ == "reflect"));
  }

 protected:
  explicit BorderOp(OpArguments& arguments) : mode_(arguments.text("mode")), fill_(arguments, "fill") {}
  Status check(const ImageSize& in) const { return fill_.check(in.channels); }

 private:
  int seen(int i, int size) const {
    if (mode_ == "edge") return std::clamp(i, 0, size - 1);
    return reflected(i, size);
  }

  std::string mode_;
  Fill fill_;
};

}  // namespace dlpipe::augment
