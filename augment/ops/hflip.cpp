// hflip(p): left and right swapped with probability p. The chain folds it into the op before it, which then
// writes mirrored; standing first it copies.
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/ops/mirror.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

class HorizontalFlip : public MirrorOp {
 public:
  explicit HorizontalFlip(double probability) : probability_(probability) {}

  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    return draw_mirror(rng.uniform_double() < probability_, in, draw);
  }

 private:
  double probability_;
};

Result<std::shared_ptr<const Op>> build(const OpArguments& arguments) {
  DLPIPE_ASSIGN_OR_RETURN(const double p, arguments.number("p"));
  if (p < 0 || p > 1) return Status(ErrorCode::kMisuse, concat("p must lie in 0..1, got ", p));
  return std::shared_ptr<const Op>(std::make_shared<HorizontalFlip>(p));
}

}  // namespace

extern const OpRecord hflip_augmentation = {.name = "hflip",
                                            .help = "left and right swapped at random",
                                            .version = 1,
                                            .params = {{"p", "float", "0.5", "probability"}},
                                            .build = build,
                                            .traits = {.can_mirror = true, .is_mirror = true}};

}  // namespace dlpipe::augment
