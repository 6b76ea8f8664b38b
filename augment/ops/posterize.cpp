// posterize(bits): only the highest bits of every value kept (PIL.ImageOps.posterize).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Posterize : public LookupOp {
 public:
  explicit Posterize(OpArguments& arguments) : bits_(arguments.drawn("bits")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(bits_.draw_int(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override {
    return static_cast<uint8_t>(from & ~((1 << (8 - static_cast<int>(draw.values[0]))) - 1));
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
