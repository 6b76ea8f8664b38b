// channel_drop(channels, fill): some channels set to one value (Albumentations' ChannelDropout).
#include "dlpipe/augment/kinds.h"

namespace dlpipe::augment {

namespace {

class ChannelDrop : public PixelOp {
 public:
  explicit ChannelDrop(OpArguments& arguments)
      : channels_(arguments.drawn("channels")), fill_(arguments.integer("fill")) {}
  Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const override {
    // values[c]: whether channel c is dropped. One at least stays.
    const int most = std::max(in.channels - 1, 0);
    int left = std::min(channels_.draw_int(rng), most);
    draw.active = left > 0;
    for (int c = 0; c < in.channels && left > 0; ++c) {
      if (rng.below(static_cast<uint32_t>(in.channels - c)) >= static_cast<uint32_t>(left)) continue;
      draw.values[static_cast<size_t>(c)] = 1;
      --left;
    }
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    LookupTables tables;
    for (size_t c = 0; c < tables.of.size(); ++c) {
      for (size_t v = 0; v < 256; ++v)
        tables.of[c][v] = static_cast<uint8_t>(draw.values[c] > 0 ? static_cast<size_t>(fill_) : v);
    }
    look_up(tables, in, out);
    return {};
  }

 private:
  Drawn channels_;
  int fill_;
};

}  // namespace

extern const OpRecord channel_drop_augmentation = {
    .name = "channel_drop",
    .help = "some channels set to one value; at least one stays",
    .version = 1,
    .params =
        {{.name = "channels", .kind = "ints", .default_value = "1", .help = "how many", .low = 1, .high = 3},
         {.name = "fill", .kind = "int", .default_value = "0", .help = "their value", .low = 0, .high = 255},
         probability()},
    .build = build_op<ChannelDrop>};

}  // namespace dlpipe::augment
