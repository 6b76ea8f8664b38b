// copy_paste(share, seen, p): objects of another picture of the dataset, cut out by its mask and laid over this one where they
// stood (Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", 2021).
//
// The ops before it are run for both pictures; the paper's are a large jitter of scale, a crop and a flip. Every object of the
// other picture is taken with probability `share`. Of this picture's objects those of which less than `seen` is left are
// dropped. The output has this picture's size. paste.h has the rules; edges aren't blurred, which the paper found to be as good.
#include "dlpipe/augment/join.h"

namespace dlpipe::augment {

namespace {

class CopyPaste : public PasteOp {
 public:
  explicit CopyPaste(OpArguments& arguments)
      : share_(arguments.number("share")), seen_(arguments.number("seen")) {}
  void choose(RandomStream& rng, std::span<uint8_t> chosen) const override {
    for (uint8_t& one : chosen) one = rng.uniform_double() < share_ ? 1 : 0;
  }
  double least_seen() const override { return seen_; }

 private:
  double share_;
  double seen_;
};

}  // namespace

extern const OpRecord copy_paste_augmentation = {
    .name = "copy_paste",
    .help = "objects of another picture, cut out by its mask, over this one (simple copy-paste)",
    .version = 1,
    .params = {{"share", "float", "0.5",
                "share of the other picture's objects that are pasted; each is drawn", 0, 1},
               {"seen", "float", "0.1",
                "share of an object's pixels that must stay visible, else it is dropped", 0, 1},
               probability()},
    .build = build_op<CopyPaste>};

}  // namespace dlpipe::augment
