// contrast(factor): every value's distance from the picture's mean grey times a factor (PIL.ImageEnhance.Contrast: the
// mean of luma, rounded). Looks at the whole picture.
#include <cmath>

#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Contrast : public Op {
 public:
  explicit Contrast(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const auto pixels = static_cast<double>(int64_t{in.width} * in.height);
    const int mean = static_cast<int>(std::floor(static_cast<double>(luma_sum(in)) / pixels + 0.5));
    LookupTables tables;
    for (int v = 0; v < 256; ++v) tables.of[0][static_cast<size_t>(v)] = blend(mean, v, draw.values[0]);
    for (size_t c = 1; c < tables.of.size(); ++c) tables.of[c] = tables.of[0];
    look_up(tables, in, out);
    return {};
  }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord contrast_augmentation = {
    .name = "contrast",
    .help = "every value's distance from the picture's mean grey times a factor",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is grey, 1 changes nothing"), probability()},
    .build = build_op<Contrast>};

}  // namespace dlpipe::augment
