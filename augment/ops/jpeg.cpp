// jpeg(quality): what is left of a picture that was saved as JPEG and read again (torchvision's JPEG, Albumentations'
// ImageCompression): baseline, chroma 4:2:0, libjpeg's scale of qualities. The pixels are those that Pillow gets.
#include "dlpipe/augment/jpeg_kernels.h"
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Jpeg : public Op {
 public:
  explicit Jpeg(OpArguments& arguments) : quality_(arguments.drawn("quality")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(quality_.draw_int(rng));
    return {};
  }
  bool narrow(const Region& needed, OpDraw& draw) const override {
    draw.region = jpeg_surroundings(draw.in, needed);
    draw.window = needed;
    return true;
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    through_jpeg(jpeg_divisors(static_cast<int>(draw.values[0])), draw.in, draw.region, draw.window, in, out,
                 scratch.work);
    return {};
  }

 private:
  Drawn quality_;
};

}  // namespace

extern const OpRecord jpeg_augmentation = {.name = "jpeg",
                                           .help = "saved as JPEG and read again (ImageCompression)",
                                           .version = 1,
                                           .params = {{.name = "quality",
                                                       .kind = "ints",
                                                       .default_value = "",
                                                       .help = "as libjpeg counts it",
                                                       .low = 1,
                                                       .high = 100},
                                                      probability()},
                                           .build = build_op<Jpeg>};

}  // namespace dlpipe::augment
