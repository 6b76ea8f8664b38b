// posterize(bits): only the highest bits of every value kept (PIL.ImageOps.posterize).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Posterize : public PixelOp {
 public:
  explicit Posterize(OpArguments& arguments) : bits_(arguments.drawn("bits")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(bits_.draw_int(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    fold_values(0xff << (8 - static_cast<int>(draw.values[0])) & 0xff, 256, in, out);
    return {};
  }

 private:
  Drawn bits_;
};

}  // namespace

extern const OpRecord posterize_augmentation = {.name = "posterize",
                                                .help = "only the highest bits of every value kept",
                                                .version = 1,
                                                .params = {{.name = "bits",
                                                            .kind = "ints",
                                                            .default_value = "4",
                                                            .help = "how many bits of eight are kept",
                                                            .low = 0,
                                                            .high = 8,
                                                            .unit = "bits"},
                                                           probability()},
                                                .build = build_op<Posterize>};

}  // namespace dlpipe::augment
