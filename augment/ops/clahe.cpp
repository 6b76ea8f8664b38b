// clahe(clip, grid): contrast-limited adaptive histogram equalization (Zuiderveld, "Contrast Limited Adaptive Histogram
// Equalization", Graphics Gems IV, 1994), as OpenCV's createCLAHE does it and Albumentations applies it: to L of OpenCV's
// 8-bit Lab, of grey pictures to the values themselves. Looks at the whole picture; exactly OpenCV's pixels.
#include <bit>
#include <cmath>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/lab_kernels.h"

namespace dlpipe::augment {

namespace {

constexpr int kMostTiles = 64;  // on each side

/// Tiles of one size; where they don't divide the picture, it is mirrored at its right and lower border.
struct TileGrid {
  int across;
  int down;
  int tile_width;
  int tile_height;

  TileGrid(int across_in, int down_in, int width, int height) : across(across_in), down(down_in) {
    // As OpenCV: what doesn't divide on one side adds to both, a whole tile's worth to the one that divides.
    const bool divides = width % across == 0 && height % down == 0;
    tile_width = (divides ? width : width + across - width % across) / across;
    tile_height = (divides ? height : height + down - height % down) / down;
  }
  int area() const { return tile_width * tile_height; }
};

float nearest_whole(float value) {
  return static_cast<float>(std::bit_cast<uint32_t>(value + 8388608.0f) & 0xFF);
}

/// What the histogram's peaks have above the limit is spread evenly; what is left over goes to values at even distances.
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

/// Between which two of `tiles` tiles a place lies, and how near to the second.
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
      arguments.refuse({ErrorCode::kMisuse, "grid has at most 64 tiles on a side"});
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
  /// Between which tiles each column lies.
  static size_t column_bytes(int width) { return 3 * size_t(width) * sizeof(int); }
  /// Three planes, also of grey pictures, and a row.
  static size_t plane_bytes(int width, int height) { return (3 * size_t(height) + 1) * size_t(width); }
  /// The row with its own colours, or its own second channel.
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
    .help = "lightness equalized tile by tile, contrast limited (CLAHE)",
    .version = 1,
    .params = {{.name = "clip",
                .kind = "drawn",
                .default_value = "1..4",
                .help = "limit of the contrast: how often a value may occur, in multiples of the mean",
                .low = 0.01,
                .high = 1000},
               {.name = "grid", .kind = "size", .default_value = "8", .help = "tiles, height x width"},
               probability()},
    .build = build_op<Clahe>};

}  // namespace dlpipe::augment
