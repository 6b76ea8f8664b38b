// invert: the negative (PIL.ImageOps.invert).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Invert : public LookupOp {
 public:
  explicit Invert(OpArguments&) {}
  uint8_t value(const OpDraw&, int from) const override { return static_cast<uint8_t>(255 - from); }
};

}  // namespace

extern const OpRecord invert_augmentation = {.name = "invert",
                                             .help = "the negative: every value v becomes 255 - v",
                                             .version = 1,
                                             .params = {probability()},
                                             .build = build_op<Invert>};

}  // namespace dlpipe::augment
