// channel_shuffle: the channels in a random order, all orders equally often.
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class ChannelShuffle : public PixelOp {
 public:
  explicit ChannelShuffle(OpArguments&) {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    for (int c = 0; c < in.channels; ++c) draw.values[static_cast<size_t>(c)] = static_cast<float>(c);
    for (int c = in.channels - 1; c > 0; --c)
      std::swap(draw.values[static_cast<size_t>(c)], draw.values[rng.below(static_cast<uint32_t>(c) + 1)]);
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    std::array<int, 4> source{};
    for (size_t c = 0; c < source.size(); ++c) source[c] = static_cast<int>(draw.values[c]);
    permute_channels(source, in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord channel_shuffle_augmentation = {.name = "channel_shuffle",
                                                      .help = "the channels in a random order",
                                                      .version = 1,
                                                      .params = {probability()},
                                                      .build = build_op<ChannelShuffle>};

}  // namespace dlpipe::augment
