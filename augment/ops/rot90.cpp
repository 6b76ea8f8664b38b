// rot90(times): turned by quarters, counterclockwise (numpy.rot90); a picture that isn't square may change its size.
#include "dlpipe/augment/oriented_op.h"

namespace dlpipe::augment {

namespace {

class Rotate90 : public OrientedOp {
 public:
  explicit Rotate90(OpArguments& arguments) : times_(arguments.drawn("times")) {}
  ImageSize output(const ImageSize& in) const override { return square_or_unknown(in); }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    constexpr std::array<int, 4> kOrientations = {1, 8, 3, 6};
    set_orientation(kOrientations[static_cast<size_t>(times_.draw_int(rng))], draw);
    return {};
  }

 private:
  Drawn times_;
};

}  // namespace

extern const OpRecord rot90_augmentation = {.name = "rot90",
                                            .help = "turned by quarters, counterclockwise (RandomRotate90)",
                                            .version = 1,
                                            .params = {{.name = "times",
                                                        .kind = "ints",
                                                        .default_value = "0..3",
                                                        .help = "quarters of a turn, counterclockwise",
                                                        .low = 0,
                                                        .high = 3,
                                                        .unit = "quarters"},
                                                       probability()},
                                            .build = build_op<Rotate90>};

}  // namespace dlpipe::augment
