// motion_blur(size, angle): the mean along a line through every pixel, its points rounded to pixels; mirrored at the border.
#include <cmath>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

namespace {

class MotionBlur : public NeighbourhoodOp {
 public:
  explicit MotionBlur(OpArguments& arguments)
      : size_(arguments.drawn("size")), angle_(arguments.drawn("angle")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    const int far = draw_reach(size_, rng);
    draw.values = {static_cast<float>(far), static_cast<float>(angle_.draw(rng))};
    return {};
  }
  int reach(const OpDraw& draw) const override { return static_cast<int>(draw.values[0]); }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const int far = reach(draw);
    const SineAndCosine along =
        portable_sine_and_cosine(static_cast<double>(draw.values[1]) * (3.14159265358979323846 / 180));
    std::vector<TapOffset> taps;
    for (int i = -far; i <= far; ++i)
      taps.push_back({static_cast<int>(std::nearbyint(far + i * along.cosine)),
                      static_cast<int>(std::nearbyint(far - i * along.sine))});
    const ConstImageView wide = surroundings(draw, in, Border::kReflect, scratch);
    average_taps(wide, taps, out);
    return {};
  }

 private:
  Drawn size_;
  Drawn angle_;
};

}  // namespace

extern const OpRecord motion_blur_augmentation = {
    .name = "motion_blur",
    .help = "blurred along a line",
    .version = 2,
    .params = {{.name = "size",
                .kind = "ints",
                .default_value = "3..7",
                .help = "length of the line; an even number becomes the next odd one",
                .low = 1,
                .high = 99,
                .unit = "pixels"},
               {.name = "angle",
                .kind = "drawn",
                .default_value = "0..180",
                .help = "of the line, counterclockwise from the horizontal",
                .low = -360,
                .high = 360,
                .unit = "degrees"},
               probability()},
    .build = build_op<MotionBlur>};

}  // namespace dlpipe::augment
