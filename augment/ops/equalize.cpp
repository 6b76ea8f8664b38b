// equalize: every channel's values by their rank (PIL.ImageOps.equalize). Looks at the whole picture.
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Equalize : public HistogramOp {
 public:
  explicit Equalize(OpArguments&) {}
  void table(const Histogram& seen, LookupTable& table) const override {
    uint32_t total = 0;
    int last = 0;  // the highest value that occurs
    for (int v = 0; v < 256; ++v) {
      total += seen[static_cast<size_t>(v)];
      if (seen[static_cast<size_t>(v)] > 0) last = v;
    }
    const uint32_t step = (total - seen[static_cast<size_t>(last)]) / 255;
    uint32_t below = step / 2;
    for (size_t v = 0; v < table.size(); ++v) {
      table[v] = static_cast<uint8_t>(step == 0 ? v : std::min(below / step, 255u));
      below += seen[v];
    }
  }
};

}  // namespace

extern const OpRecord equalize_augmentation = {
    .name = "equalize",
    .help = "every channel stretched so that all values occur about equally often",
    .version = 1,
    .params = {probability()},
    .build = build_op<Equalize>};

}  // namespace dlpipe::augment
