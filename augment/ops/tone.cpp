// Ops on single values, independent of colour: each value is looked up in a table, which depends on a drawn
// factor or on the image's own histogram.
#include <array>
#include <bit>
#include <cmath>

#include "augment/color_kernels.h"
#include "augment/copy.h"
#include "augment/kinds.h"
#include "base/portable_math.h"

namespace dlpipe::augment {

// invert: the negative (PIL.ImageOps.invert).
namespace {

class Invert : public PixelOp {
 public:
  explicit Invert(OpArguments&) {}
  Status apply(const OpDraw&, const ConstImageView& in, const ImageView& out, ChainScratch&) const override {
    fold_values(0xff, 0, in, out);
    return {};
  }
};

}  // namespace

extern const OpRecord invert_augmentation = {.name = "invert",
                                             .help = "the negative: every value v becomes 255 - v",
                                             .version = 1,
                                             .params = {probability()},
                                             .build = build_op<Invert>};

// solarize(threshold): inverts values of at least a threshold (PIL.ImageOps.solarize).
namespace {

class Solarize : public PixelOp {
 public:
  explicit Solarize(OpArguments& arguments) : threshold_(arguments.drawn("threshold")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(std::ceil(threshold_.draw(rng)));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    fold_values(0xff, static_cast<int>(draw.values[0]), in, out);
    return {};
  }

 private:
  Drawn threshold_;
};

}  // namespace

extern const OpRecord solarize_augmentation = {.name = "solarize",
                                               .help = "invert values from a threshold on",
                                               .version = 1,
                                               .params = {{.name = "threshold",
                                                           .kind = "drawn",
                                                           .default_value = "128",
                                                           .help = "values from here on are inverted",
                                                           .low = 0,
                                                           .high = 256},
                                                          probability()},
                                               .build = build_op<Solarize>};

// posterize(bits): keeps only the highest bits of every value (PIL.ImageOps.posterize).
namespace {

class Posterize : public PixelOp {
 public:
  explicit Posterize(OpArguments& arguments) : bits_(arguments.drawn("bits")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(bits_.draw_int(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    fold_values(0xff << (8 - static_cast<int>(draw.values[0])) & 0xff, 256, in, out);
    return {};
  }

 private:
  Drawn bits_;
};

}  // namespace

extern const OpRecord posterize_augmentation = {.name = "posterize",
                                                .help = "keep only the highest bits of each value",
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

// brightness(factor): multiplies every value by a factor and truncates it to a whole number (PIL.ImageEnhance.Brightness).
namespace {

class Brightness : public LookupOp {
 public:
  explicit Brightness(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override { return blend(0, from, draw.values[0]); }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord brightness_augmentation = {
    .name = "brightness",
    .help = "multiply each value by a factor",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is black, 1 changes nothing"), probability()},
    .build = build_op<Brightness>};

// contrast(factor): multiplies every value's distance from the image's mean grey by a factor
// (PIL.ImageEnhance.Contrast: the mean of luma, rounded). Reads the whole image.
namespace {

class Contrast : public Op {
 public:
  explicit Contrast(OpArguments& arguments) : factor_(arguments.drawn("factor")) {}
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(factor_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    const auto pixels = static_cast<double>(int64_t{in.width} * in.height);
    const int mean = static_cast<int>(std::floor(static_cast<double>(luma_sum(in)) / pixels + 0.5));
    LookupTables tables;
    for (int v = 0; v < 256; ++v) tables.of[0][static_cast<size_t>(v)] = blend(mean, v, draw.values[0]);
    for (size_t c = 1; c < tables.of.size(); ++c) tables.of[c] = tables.of[0];
    look_up(tables, in, out);
    return {};
  }

 private:
  Drawn factor_;
};

}  // namespace

extern const OpRecord contrast_augmentation = {
    .name = "contrast",
    .help = "scale each value's distance from the image's mean grey",
    .version = 1,
    .params = {factor_parameter("factor", "0.4", "0 is grey, 1 changes nothing"), probability()},
    .build = build_op<Contrast>};

// gamma(gamma, gain): 255 gain (v / 255)^gamma, truncated to whole numbers as torchvision's adjust_gamma does for PIL images:
// with (255 + 1 - 0.001) in place of 255.
namespace {

class Gamma : public LookupOp {
 public:
  explicit Gamma(OpArguments& arguments) : gamma_(arguments.drawn("gamma")), gain_(arguments.number("gain")) {
    for (int value = 1; value < 256; ++value) logs_[static_cast<size_t>(value)] = portable_log(value / 255.0);
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(gamma_.draw(rng));
    return {};
  }
  uint8_t value(const OpDraw& draw, int from) const override {
    if (from == 0) return 0;
    const double power = portable_exp(static_cast<double>(draw.values[0]) * logs_[static_cast<size_t>(from)]);
    return static_cast<uint8_t>(std::min((255 + 1 - 1e-3) * gain_ * power, 255.0));
  }

 private:
  Drawn gamma_;
  double gain_;
  std::array<double, 256> logs_{};  // of value / 255
};

}  // namespace

extern const OpRecord gamma_augmentation = {
    .name = "gamma",
    .help = "raise each value to the power of gamma, on a scale of 0 to 1",
    .version = 1,
    .params = {{.name = "gamma",
                .kind = "drawn",
                .default_value = "0.8..1.2",
                .help = "above 1 darkens, below 1 brightens",
                .low = 0.01,
                .high = 100},
               {.name = "gain",
                .kind = "float",
                .default_value = "1",
                .help = "factor of the result",
                .low = 0,
                .high = 100},
               probability()},
    .build = build_op<Gamma>};

// autocontrast: maps every channel's darkest value to 0 and its brightest to 255 (PIL.ImageOps.autocontrast). Reads the whole
// image.
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
                                                   .help = "stretch each channel to 0..255",
                                                   .version = 1,
                                                   .params = {probability()},
                                                   .build = build_op<Autocontrast>};

// equalize: replaces every channel's values according to their rank (PIL.ImageOps.equalize). Reads the whole image.
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

extern const OpRecord equalize_augmentation = {.name = "equalize",
                                               .help = "equalize the histogram of each channel",
                                               .version = 1,
                                               .params = {probability()},
                                               .build = build_op<Equalize>};

// clahe(clip, grid): contrast-limited adaptive histogram equalization (Zuiderveld, "Contrast Limited Adaptive Histogram
// Equalization", Graphics Gems IV, 1994), as OpenCV's createCLAHE does it and Albumentations applies it: to L of OpenCV's 8-bit
// Lab, for grey images to the values themselves. Reads the whole image; the pixels are exactly OpenCV's.
namespace {

constexpr int kMostTiles = 64;  // on each side

/// Tiles of equal size; if they don't divide the image, it is mirrored at its right and lower border.
struct TileGrid {
  int across;
  int down;
  int tile_width;
  int tile_height;

  TileGrid(int across_in, int down_in, int width, int height) : across(across_in), down(down_in) {
    // As in OpenCV: if one side is not divisible, both sides are extended, the divisible one by one pixel per tile.
    const bool divides = width % across == 0 && height % down == 0;
    tile_width = (divides ? width : width + across - width % across) / across;
    tile_height = (divides ? height : height + down - height % down) / down;
  }
  int area() const { return tile_width * tile_height; }
};

float nearest_whole(float value) {
  return static_cast<float>(std::bit_cast<uint32_t>(value + 8388608.0f) & 0xFF);
}

/// Spreads what is above the limit evenly over all values; the remainder goes to values at even distances.
void clip_histogram(Histogram& seen, uint32_t limit) {
  uint32_t over = 0;
  for (uint32_t& count : seen) {
    if (count <= limit) continue;
    over += count - limit;
    count = limit;
  }
  for (uint32_t& count : seen) count += over / 256;
  const uint32_t rest = over % 256;
  if (rest == 0) return;
  const size_t step = std::max<size_t>(256 / rest, 1);
  for (size_t i = 0, given = 0; i < seen.size() && given < rest; i += step, ++given) ++seen[i];
}

/// One table of 256 per tile, in rows of tiles.
void tile_tables(const ConstImageView& gray, const TileGrid& grid, double clip, float* to) {
  const auto limit = static_cast<uint32_t>(std::max(static_cast<int>(clip * grid.area() / 256), 1));
  const float scale = 255.0f / static_cast<float>(grid.area());
  for (int row = 0; row < grid.down; ++row) {
    for (int column = 0; column < grid.across; ++column) {
      Histogram seen{};
      for (int y = 0; y < grid.tile_height; ++y) {
        const uint8_t* const from = gray.row(reflected(row * grid.tile_height + y, gray.height));
        const int begin = column * grid.tile_width;
        const int inside = std::clamp(gray.width - begin, 0, grid.tile_width);
        for (int x = 0; x < inside; ++x) ++seen[from[begin + x]];
        for (int x = inside; x < grid.tile_width; ++x) ++seen[from[reflected(begin + x, gray.width)]];
      }
      clip_histogram(seen, limit);
      uint32_t sum = 0;
      for (const uint32_t count : seen) {
        sum += count;
        *to++ = nearest_whole(static_cast<float>(sum) * scale);
      }
    }
  }
}

/// The two tiles of `tiles` that a place is between, and the second one's weight.
struct Neighbours {
  int first;
  int second;
  float share;
  Neighbours(int place, float per_size, int tiles) {
    const float at = static_cast<float>(place) * per_size - 0.5f;
    const float whole = std::floor(at);
    share = at - whole;
    first = std::max(static_cast<int>(whole), 0);
    second = std::min(static_cast<int>(whole) + 1, tiles - 1);
  }
};

class Clahe : public Op {
 public:
  explicit Clahe(OpArguments& arguments) : clip_(arguments.drawn("clip")), grid_(arguments.size("grid")) {
    if (grid_.width > kMostTiles || grid_.height > kMostTiles)
      arguments.refuse({ErrorCode::kMisuse, "grid must have at most 64 tiles on a side"});
  }
  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.values[0] = static_cast<float>(clip_.draw(rng));
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    const TileGrid grid(grid_.width, grid_.height, in.width, in.height);
    const size_t tables = table_bytes();
    const auto width = static_cast<size_t>(in.width);
    scratch.work.resize(std::max(scratch.work.size(), tables + column_bytes(in.width)));
    scratch.rows.resize(std::max(scratch.rows.size(), plane_bytes(in.width, in.height)));
    auto* const table = reinterpret_cast<float*>(scratch.work.data());
    auto* const left = reinterpret_cast<int*>(scratch.work.data() + tables);
    auto* const share = reinterpret_cast<float*>(left + 2 * width);
    auto* const bytes = reinterpret_cast<uint8_t*>(scratch.rows.data());

    const bool is_color = in.channels >= 3;
    const size_t plane = width * size_t(in.height);
    const LabPlanes lab{{bytes, bytes + plane, bytes + 2 * plane}, in.width};
    if (is_color) to_lab(in, lab);
    if (!is_color) {
      for (int y = 0; y < in.height; ++y) {
        for (int x = 0; x < in.width; ++x)
          lab.of[0][size_t(y) * width + size_t(x)] = in.row(y)[x * in.channels];
      }
    }
    tile_tables(ConstImageView(lab.of[0], in.width, in.height, 1, in.width), grid,
                static_cast<double>(draw.values[0]), table);
    for (int x = 0; x < in.width; ++x) {
      const Neighbours tiles(x, 1.0f / static_cast<float>(grid.tile_width), grid.across);
      left[x] = tiles.first * 256;
      left[width + size_t(x)] = tiles.second * 256;
      share[x] = tiles.share;
    }
    uint8_t* const row = bytes + 3 * plane;
    for (int y = 0; y < in.height; ++y) {
      const Neighbours tiles(y, 1.0f / static_cast<float>(grid.tile_height), grid.down);
      const auto tables_of = [&](int tile_row) { return table + ptrdiff_t{tile_row} * grid.across * 256; };
      const ptrdiff_t begin = ptrdiff_t{y} * in.width;
      between_tiles(lab.of[0] + begin, in.width, {left, left + width, share}, tables_of(tiles.first),
                    tables_of(tiles.second), tiles.share, row);
      write_row(row, lab, begin, out, y);
    }
    copy_alpha(in, 0, 0, out);
    return {};
  }
  size_t scratch_bytes(const OpDraw& draw, int) const override {
    const Region& all = draw.region;
    return table_bytes() + column_bytes(all.width) + plane_bytes(all.width, all.height);
  }

 private:
  size_t table_bytes() const { return size_t(grid_.width) * size_t(grid_.height) * 256 * sizeof(float); }
  /// Bytes for the tiles that each column is between.
  static size_t column_bytes(int width) { return 3 * size_t(width) * sizeof(int); }
  /// Bytes of three planes, also for grey images, and a row.
  static size_t plane_bytes(int width, int height) { return (3 * size_t(height) + 1) * size_t(width); }
  /// Writes a row of new lightness with its own colours, or with its own second channel.
  static void write_row(const uint8_t* light, const LabPlanes& lab, ptrdiff_t begin, const ImageView& out,
                        int y) {
    uint8_t* const to = out.row(y);
    if (out.channels < 3) {
      for (int x = 0; x < out.width; ++x) to[x * out.channels] = light[x];
      return;
    }
    const uint8_t* const planes[3] = {light, lab.of[1] + begin, lab.of[2] + begin};
    row_from_lab(planes, out.width, out.channels, to);
  }

  Drawn clip_;
  ImageSize grid_;
};

}  // namespace

extern const OpRecord clahe_augmentation = {
    .name = "clahe",
    .help = "equalize lightness tile by tile with limited contrast (CLAHE)",
    .version = 1,
    .params = {{.name = "clip",
                .kind = "drawn",
                .default_value = "1..4",
                .help = "contrast limit: how often a value may occur, in multiples of the mean",
                .low = 0.01,
                .high = 1000},
               {.name = "grid", .kind = "size", .default_value = "8", .help = "tiles, height x width"},
               probability()},
    .build = build_op<Clahe>};

}  // namespace dlpipe::augment
