#include "io/data/look_alike.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <tuple>

#include "base/mutex.h"
#include "base/threads.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

namespace {

constexpr int kCells = 32;
constexpr int kFrequencies = 8;
constexpr int kMostSigns = 11;      // that differ
constexpr int kCosinePercent = 90;  // at least
constexpr int kMostColour = 8;      // of 255: by how much a share differs
constexpr int kTables = 4;
constexpr int kTableBits = 16;

/// Tables for computing looks.
struct LookTables {
  int32_t cosine[kFrequencies][kCells];  // times 4096
  struct Place {
    int x = 0, y = 0;   // frequencies
    double weight = 0;  // root of the frequency, times the factor that makes the transform orthonormal
  };
  std::array<Place, 63> places;  // by rising frequency
  std::array<int, 63> bits;      // of a place's sign; neighbouring frequencies are in different tables
  uint64_t mirror = 0;           // signs that mirroring flips

  LookTables() {
    const double step = std::acos(-1.0) / kCells;
    for (int f = 0; f < kFrequencies; ++f) {
      for (int i = 0; i < kCells; ++i)
        cosine[f][i] = static_cast<int32_t>(std::lround(4096 * std::cos((i + 0.5) * f * step)));
    }
    size_t k = 0;
    for (int sum = 1; sum <= 2 * (kFrequencies - 1); ++sum) {
      for (int y = std::max(0, sum - kFrequencies + 1); y <= std::min(sum, kFrequencies - 1); ++y, ++k) {
        const int x = sum - y;
        const double normal = x == 0 || y == 0 ? std::sqrt(0.5) : 1;
        places[k] = {x, y, normal * std::sqrt(std::sqrt(x * x + y * y))};
        bits[k] = static_cast<int>(k % kTables * kTableBits + k / kTables);
        if (x % 2 == 1) mirror |= uint64_t{1} << bits[k];
      }
    }
  }
};

const LookTables& look_tables() {
  static const LookTables tables;
  return tables;
}

/// Mean luma of each cell, times 16, and the mean colour. Cells of images below 32 pixels repeat pixels.
void fill_cells(const ConstImageView& image, std::vector<uint16_t>& work, int32_t (&cells)[kCells][kCells],
                std::array<uint8_t, 2>& colour) {
  std::array<uint64_t, 3> total{};
  constexpr int kMostRows = 257;  // whose sum fits 16 bits
  const int row_bytes = image.width * image.channels;
  work.resize(static_cast<size_t>(row_bytes));
  uint16_t* const sums = work.data();
  const auto border = [](int i, int side) { return static_cast<int>(int64_t{i} * side / kCells); };
  for (int y = 0; y < kCells; ++y) {
    const int top = border(y, image.height);
    const int bottom = std::max(top + 1, border(y + 1, image.height));
    std::fill_n(sums, row_bytes, uint16_t{0});
    const int step = (bottom - top + kMostRows - 1) / kMostRows;
    int rows = 0;
    for (int row = top; row < bottom; row += step, ++rows) {
      const uint8_t* const pixels = image.row(row);
      for (int i = 0; i < row_bytes; ++i) sums[i] = static_cast<uint16_t>(sums[i] + pixels[i]);
    }
    for (int x = 0; x < kCells; ++x) {
      const int left = border(x, image.width);
      const int right = std::max(left + 1, border(x + 1, image.width));
      uint64_t luma = 0;
      for (int column = left; column < right; ++column) {
        const uint16_t* const sum = sums + ptrdiff_t{column} * image.channels;
        const uint64_t red = sum[0];
        const uint64_t green = image.channels == 1 ? red : sum[1];
        const uint64_t blue = image.channels == 1 ? red : sum[2];
        luma += static_cast<uint64_t>(luma_times_256(sum, image.channels));
        total = {total[0] + red, total[1] + green, total[2] + blue};
      }
      const auto pixels = static_cast<uint64_t>(right - left) * static_cast<uint64_t>(rows);
      cells[y][x] = static_cast<int32_t>(luma / (16 * pixels));
    }
  }
  const uint64_t sum = std::max<uint64_t>(1, total[0] + total[1] + total[2]);
  colour = {static_cast<uint8_t>(255 * total[0] / sum), static_cast<uint8_t>(255 * total[2] / sum)};
}

bool have_like_colours(const ImageLook& a, const ImageLook& b) {
  constexpr int kGrey = 85;
  const auto differ = [](int one, int other, int most) { return std::abs(one - other) > most; };
  for (const ImageLook* look : {&a, &b}) {
    if (!differ(look->colour[0], kGrey, 1) && !differ(look->colour[1], kGrey, 1)) return true;
  }
  return !differ(a.colour[0], b.colour[0], kMostColour) && !differ(a.colour[1], b.colour[1], kMostColour);
}

/// The weighted cosine is at least kCosinePercent.
bool have_like_coefficients(const ImageLook& a, const ImageLook& b, bool mirrored) {
  const LookTables& tables = look_tables();
  int64_t product = 0, of_a = 0, of_b = 0;
  for (size_t k = 0; k < a.coefficients.size(); ++k) {
    const int sign = mirrored && tables.places[k].x % 2 == 1 ? -1 : 1;
    product += sign * a.coefficients[k] * b.coefficients[k];
    of_a += a.coefficients[k] * a.coefficients[k];
    of_b += b.coefficients[k] * b.coefficients[k];
  }
  return product > 0 && product * product * 100 * 100 >= of_a * of_b * kCosinePercent * kCosinePercent;
}

/// One of four tables of the images' signs. They are in buckets by 16 of the bits, and in a bucket by the images' numbers. If at
/// most 11 of all bits differ, at most 2 differ in one of the tables.
class SignTable {
 public:
  SignTable(std::span<const ImageLook> looks, std::span<const uint32_t> images, int table)
      : looks_(looks), table_(table), begins_(kBuckets + 1), entries_(images.size()) {
    for (const uint32_t image : images) ++begins_[key(looks[image].signs, table) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    for (const uint32_t image : images)
      entries_[next[key(looks[image].signs, table)]++] = {looks[image].signs, image};
    flips_.push_back(0);
    for (int i = 0; i < kTableBits; ++i) flips_.push_back(size_t{1} << i);
    for (int i = 0; i < kTableBits; ++i) {
      for (int j = 0; j < i; ++j) flips_.push_back(size_t{1} << i | size_t{1} << j);
    }
  }

  static constexpr size_t kBuckets = size_t{1} << kTableBits;

  /// Appends the pairs of each image of `bucket` with earlier images, except those that is_first() leaves to another table. An
  /// image has at most 8 pairs and 50,000 comparisons, the nearest buckets first: in some datasets all images are alike.
  void find_pairs(size_t bucket, std::vector<AlikePair>& pairs) const {
    struct Left {
      size_t pairs = 8;
      size_t comparisons = 50'000;
    };
    const std::span<const Entry> own = in_bucket(bucket);
    if (own.empty()) return;
    std::vector<Left> left(own.size());
    for (const size_t flip : flips_) {
      for (const uint64_t mirror : {uint64_t{0}, look_tables().mirror}) {
        const std::span<const Entry> others = in_bucket(bucket ^ key(mirror, table_) ^ flip);
        for (size_t i = 0; i < own.size(); ++i) {
          for (const Entry& other : others.first(std::min(others.size(), left[i].comparisons))) {
            if (other.image >= own[i].image || left[i].pairs == 0) break;
            --left[i].comparisons;
            const uint64_t differs = own[i].signs ^ mirror ^ other.signs;
            if (std::popcount(differs) > kMostSigns || !is_first(differs)) continue;
            if (!have_like_colours(looks_[own[i].image], looks_[other.image])) continue;
            if (!have_like_coefficients(looks_[own[i].image], looks_[other.image], mirror != 0)) continue;
            pairs.push_back({other.image, own[i].image, false, mirror != 0});
            --left[i].pairs;
          }
        }
      }
    }
  }

 private:
  struct Entry {
    uint64_t signs = 0;
    uint32_t image = 0;
  };
  static size_t key(uint64_t signs, int table) { return signs >> (table * kTableBits) & (kBuckets - 1); }
  std::span<const Entry> in_bucket(size_t bucket) const {
    return std::span(entries_).subspan(begins_[bucket], begins_[bucket + 1] - begins_[bucket]);
  }
  /// Whether fewer bits differ in this table than in any other; of several such tables, the first one counts.
  bool is_first(uint64_t differs) const {
    const int here = std::popcount(key(differs, table_));
    for (int t = 0; t < kTables; ++t) {
      const int there = std::popcount(key(differs, t));
      if (there < here || (there == here && t < table_)) return false;
    }
    return true;
  }

  std::span<const ImageLook> looks_;
  int table_;
  std::vector<uint32_t> begins_;
  std::vector<Entry> entries_;
  std::vector<size_t> flips_;  // of none, one or two bits
};

/// Pairs each image with the first one of equal pixels. Appends the first images to `firsts`, unless they have no signs.
std::vector<AlikePair> pairs_of_pixels(std::span<const ImageLook> looks, std::vector<uint32_t>& firsts) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < looks.size(); ++i) {
    if (looks[i].pixels != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(looks[a].pixels, a) < std::tie(looks[b].pixels, b);
  });
  std::vector<AlikePair> pairs;
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (i > 0 && looks[order[i]].pixels == looks[order[first]].pixels) {
      pairs.push_back({order[first], order[i], true, false});
      continue;
    }
    first = i;
    if (looks[order[i]].signs != 0) firsts.push_back(order[i]);
  }
  std::sort(firsts.begin(), firsts.end());
  return pairs;
}

}  // namespace

ImageLook look_of(const ConstImageView& image, std::vector<uint16_t>& work) {
  const LookTables& tables = look_tables();
  ImageLook look;
  look.pixels = static_cast<uint64_t>(image.width) << 32 | static_cast<uint64_t>(image.channels);
  const std::span pixels(image.data, static_cast<size_t>(image.stride) * image.height);
  look.pixels = checksum64(std::as_bytes(pixels), look.pixels);
  int32_t cells[kCells][kCells];
  fill_cells(image, work, cells, look.colour);
  int32_t rows[kCells][kFrequencies] = {};
  for (int y = 0; y < kCells; ++y) {
    for (int f = 0; f < kFrequencies; ++f) {
      for (int x = 0; x < kCells; ++x) rows[y][f] += cells[y][x] * tables.cosine[f][x];
    }
  }
  std::array<double, 63> weighted{};
  double largest = 0;
  for (size_t k = 0; k < weighted.size(); ++k) {
    const LookTables::Place& place = tables.places[k];
    int64_t sum = 0;
    for (int y = 0; y < kCells; ++y) sum += int64_t{rows[y][place.x]} * tables.cosine[place.y][y];
    weighted[k] = place.weight * static_cast<double>(sum);
    largest = std::max(largest, std::abs(weighted[k]));
    if (sum > 0) look.signs |= uint64_t{1} << tables.bits[k];
  }
  // A wave with an amplitude of one level has a sum of 16 * 4096 * 4096 * kCells * kCells / 4.
  constexpr double kOneLevel = 16.0 * 4096 * 4096 * kCells * kCells / 4;
  if (largest < kOneLevel) look.signs = 0;
  for (size_t k = 0; look.signs != 0 && k < weighted.size(); ++k)
    look.coefficients[k] = static_cast<int8_t>(std::lround(127 * weighted[k] / largest));
  return look;
}

std::vector<AlikePair> alike_pairs(std::span<const ImageLook> looks, int threads) {
  std::vector<uint32_t> images;
  std::vector<AlikePair> pairs = pairs_of_pixels(looks, images);
  for (int t = 0; t < kTables && !images.empty(); ++t) {
    const SignTable table(looks, images, t);
    std::atomic<size_t> next = 0;
    Mutex mutex;
    Threads workers("alike", threads, [&](int) {
      constexpr size_t kRun = 64;
      std::vector<AlikePair> found;
      for (size_t begin = next.fetch_add(kRun); begin < SignTable::kBuckets; begin = next.fetch_add(kRun)) {
        for (size_t bucket = begin; bucket < begin + kRun; ++bucket) table.find_pairs(bucket, found);
      }
      const MutexLock lock(mutex);
      pairs.insert(pairs.end(), found.begin(), found.end());
    });
    throw_if_error(workers.join());
  }
  std::sort(pairs.begin(), pairs.end(), [](const AlikePair& a, const AlikePair& b) {
    return std::tie(a.second, a.first, a.mirrored) < std::tie(b.second, b.first, b.mirrored);
  });
  // An image that is its own mirror image is found twice.
  const auto is_same_pair = [](const AlikePair& a, const AlikePair& b) {
    return a.first == b.first && a.second == b.second;
  };
  pairs.erase(std::unique(pairs.begin(), pairs.end(), is_same_pair), pairs.end());
  return pairs;
}

std::vector<int64_t> alike_groups(size_t count, std::span<const AlikePair> pairs) {
  std::vector<size_t> parent(count);
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const AlikePair& pair : pairs) {
    const size_t a = root(pair.first), b = root(pair.second);
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::vector<int64_t> groups(count, -1);
  for (const AlikePair& pair : pairs) {
    for (const size_t i : {pair.first, pair.second}) groups[i] = static_cast<int64_t>(root(i));
  }
  return groups;
}

size_t alike_by_nature(size_t count, std::span<const AlikePair> pairs) {
  constexpr int64_t kMany = 100;
  constexpr size_t kSharePercent = 10;
  std::vector<AlikePair> near;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(near),
               [](const AlikePair& pair) { return !pair.same_pixels; });
  std::vector<int64_t> sizes(count);
  for (const int64_t group : alike_groups(count, near)) {
    if (group >= 0) ++sizes[static_cast<size_t>(group)];
  }
  size_t alike = 0;
  for (const int64_t size : sizes) alike += size > kMany ? static_cast<size_t>(size) : 0;
  return alike * 100 > count * kSharePercent ? alike : 0;
}

AlikeImages alike_images(std::vector<SeenImage>& images, int threads) {
  std::sort(images.begin(), images.end(), [](const SeenImage& a, const SeenImage& b) {
    return std::tie(a.split, a.sample) < std::tie(b.split, b.sample);
  });
  std::vector<ImageLook> looks;
  looks.reserve(images.size());
  for (const SeenImage& image : images) looks.push_back(image.look);
  AlikeImages alike;
  alike.pairs = alike_pairs(looks, threads);
  alike.by_nature = alike_by_nature(looks.size(), alike.pairs);
  return alike;
}

std::vector<int64_t> copies_of(size_t count, std::span<const AlikePair> pairs) {
  std::vector<int64_t> copies(count, -1);
  for (const AlikePair& pair : pairs) {
    if (copies[pair.second] >= 0) continue;
    if (copies[pair.first] < 0)
      copies[pair.second] = static_cast<int64_t>(pair.first);
    else if (pair.same_pixels)  // of equal images, only the first is compared with others
      copies[pair.second] = copies[pair.first];
  }
  return copies;
}

}  // namespace dlpipe::data
