// autocontrast: every channel's darkest value becomes 0, its brightest 255 (PIL.ImageOps.autocontrast). Looks at the
// whole picture.
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class Autocontrast : public HistogramOp {
 public:
  explicit Autocontrast(OpArguments&) {}
  void table(const Histogram& seen, LookupTable& table) const override {
    int low = 0;
    int high = 255;
    while (low < 255 && seen[static_cast<size_t>(low)] == 0) ++low;
    while (high > 0 && seen[static_cast<size_t>(high)] == 0) --high;
    const double scale = high > low ? 255.0 / (high - low) : 1;
    const double offset = high > low ? -low * scale : 0;
    for (size_t v = 0; v < table.size(); ++v)
      table[v] = static_cast<uint8_t>(std::clamp(static_cast<double>(v) * scale + offset, 0.0, 255.0));
  }
};

}  // namespace

extern const OpRecord autocontrast_augmentation = {.name = "autocontrast",
                                                   .help = "every channel stretched to 0..255",
                                                   .version = 1,
                                                   .params = {probability()},
                                                   .build = build_op<Autocontrast>};

}  // namespace dlpipe::augment
