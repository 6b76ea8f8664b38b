// grayscale: every channel becomes the pixel's luma (PIL's L); the picture keeps its channels.
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Grayscale : public ColorOp {
 public:
  explicit Grayscale(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    to_luma(in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord grayscale_augmentation = {.name = "grayscale",
                                                .help = "no colours; the picture keeps its channels (ToGray)",
                                                .version = 1,
                                                .params = {probability()},
                                                .build = build_op<Grayscale>};

}  // namespace dlpipe::augment
