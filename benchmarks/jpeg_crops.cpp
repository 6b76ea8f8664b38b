// How fast are RandomResizedCrop regions decoded from each layout of a JPEG at rest? One thread, one process,
// rounds interleaved, no resize:
//   jpeg_crops DIR [--seconds S] [--avx2]      DIR: any folder of JPEG files; --avx2: as on a machine without
//                                              AVX-512 (our code; libjpeg-turbo has none of it)
// The last row is what a host does where the GPU decodes (tile_selection.h): it copies the crop's tiles.
// Every image's regions are first compared with libjpeg-turbo's whole decode, sample by sample.
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/coef/tile_selection.h"
#include "io/data/codec/restart.h"

namespace dlpipe::data {
namespace {

using Bytes = std::vector<std::byte>;

/// A way to store a JPEG.
struct Layout {
  const char* name;
  Result<Bytes> (*encode)(const Bytes& jpeg);
};

template <coef::TileForm kForm, int kBlocks>
Result<Bytes> in_tiles(const Bytes& jpeg) {
  return encode_coefficients(jpeg, {}, {kForm, kBlocks});
}

constexpr std::array<Layout, 7> kLayouts = {{
    {"JPEG", [](const Bytes& jpeg) -> Result<Bytes> { return jpeg; }},
    {"restart index", [](const Bytes& jpeg) { return encode_restart(jpeg); }},
    {"coded, tiles of 16", in_tiles<coef::TileForm::kCoded, 16>},
    {"coded, tiles of 8", in_tiles<coef::TileForm::kCoded, 8>},
    {"packed, tiles of 16", in_tiles<coef::TileForm::kPacked, 16>},
    {"packed, tiles of 8", in_tiles<coef::TileForm::kPacked, 8>},
    {"packed, tiles of 4", in_tiles<coef::TileForm::kPacked, 4>},
}};
constexpr size_t kCoefficients = 4;  // what `dlpipe ingest --jpeg coefficients` writes

struct Image {
  std::array<Bytes, kLayouts.size()> stored;
  int width = 0;
  int height = 0;
};

/// torchvision's RandomResizedCrop: area in [0.08, 1], aspect in [3/4, 4/3], ten attempts.
Region draw_region(const Image& image, RandomStream& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (0.08 + 0.92 * random.uniform()) * image.width * image.height;
    const double ratio = std::exp(std::log(0.75) + random.uniform() * (std::log(4.0 / 3) - std::log(0.75)));
    const int width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const int x = static_cast<int>(random.below(static_cast<uint32_t>(image.width - width + 1)));
    const int y = static_cast<int>(random.below(static_cast<uint32_t>(image.height - height + 1)));
    return {x, y, width, height};
  }
  return {0, 0, image.width, image.height};
}

struct Totals {
  size_t files = 0, source_bytes = 0;
  std::array<size_t, kLayouts.size()> bytes{};
};

/// False when a layout can't hold it.
bool encode(const Bytes& jpeg, const std::string& name, Image& image) {
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    auto stored = kLayouts[i].encode(jpeg);
    if (!stored.ok()) {
      std::printf("%s stays a JPEG: %s\n", name.c_str(), stored.status().message().c_str());
      return false;
    }
    image.stored[i] = *std::move(stored);
  }
  return true;
}

std::vector<Image> load(const std::string& directory, Totals& totals) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Image> images;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    const Bytes jpeg(first, first + text.size());
    const auto info = probe_image(jpeg);
    if (!info.ok() || info->layout != ImageLayout::kJpeg) continue;
    ++totals.files;
    Image image;
    if (!encode(jpeg, path.filename().string(), image)) continue;
    image.width = info->width;
    image.height = info->height;
    for (size_t i = 0; i < kLayouts.size(); ++i) totals.bytes[i] += image.stored[i].size();
    totals.source_bytes += *keeps_source_bytes(image.stored[kCoefficients]) ? 1 : 0;
    images.push_back(std::move(image));
  }
  return images;
}

ImageView view_of(std::vector<uint8_t>& pixels, const Region& region) {
  pixels.resize(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * 3);
  return {pixels.data(), region.width, region.height, 3, ptrdiff_t{3} * region.width};
}

size_t count_differences(const std::vector<Image>& images, size_t* samples) {
  ImageDecoder decoder;
  RandomStream random(1, 0);
  std::vector<uint8_t> whole, part;
  size_t differing = 0;
  for (const Image& image : images) {
    const Region all{0, 0, image.width, image.height};
    const ImageView full = view_of(whole, all);
    throw_if_error(decoder.decode(image.stored[0], all, full));
    for (int i = 0; i < 3; ++i) {
      const Region region = i == 0 ? all : draw_region(image, random);
      const ImageView out = view_of(part, region);
      for (size_t layout = 1; layout < kLayouts.size(); ++layout) {
        throw_if_error(decoder.decode(image.stored[layout], region, out));
        *samples += part.size();
        for (int y = 0; y < region.height; ++y) {
          const uint8_t* const expected = full.row(region.y + y) + ptrdiff_t{3} * region.x;
          for (int x = 0; x < 3 * region.width; ++x) differing += out.row(y)[x] != expected[x] ? 1 : 0;
        }
      }
    }
  }
  return differing;
}

enum class Work : uint8_t { kWhole, kCrop, kSelect };

struct Contender {
  size_t layout;
  Work work;
  std::vector<double> rates;
};

/// The tiles under a region, as they go to a GPU that resizes to 224x224; answers their bytes.
size_t select_tiles(TileSelector& selector, const Bytes& record, const Region& region, Bytes& tiles) {
  coef::CoefSample sample;
  const size_t bytes = value_or_throw(selector.select(record, whole_crop(region, 224, 224, false), sample));
  if (tiles.size() < bytes) tiles.resize(bytes);
  selector.copy({tiles.data(), bytes});
  return bytes;
}

double measure(const Contender& contender, const std::vector<Image>& from, uint64_t round, double seconds) {
  using Clock = std::chrono::steady_clock;
  ImageDecoder decoder;
  TileSelector selector;
  RandomStream random(2, round);  // the same regions for every contender
  std::vector<uint8_t> pixels;
  Bytes tiles;
  size_t images = 0;
  const Clock::time_point start = Clock::now();
  double spent = 0;
  while (spent < seconds) {
    for (const Image& image : from) {
      const Bytes& stored = image.stored[contender.layout];
      const Region region = contender.work == Work::kWhole ? Region{0, 0, image.width, image.height}
                                                           : draw_region(image, random);
      if (contender.work == Work::kSelect) {
        select_tiles(selector, stored, region, tiles);
      } else {
        throw_if_error(decoder.decode(stored, region, view_of(pixels, region)));
      }
      ++images;
    }
    spent = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(images) / spent;
}

void print_selection(const std::vector<Image>& images, double crop_rate, double selection_rate) {
  TileSelector selector;
  RandomStream random(2, 0);
  Bytes tiles;
  size_t bytes = 0;
  for (const Image& image : images)
    bytes += select_tiles(selector, image.stored[kCoefficients], draw_region(image, random), tiles);
  std::printf("selecting a crop's tiles takes %.1f %% of the time of decoding it; they are %.0f bytes\n",
              100 * crop_rate / selection_rate,
              static_cast<double>(bytes) / static_cast<double>(images.size()));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const std::string& directory, double seconds) {
  Totals totals;
  const std::vector<Image> images = load(directory, totals);
  if (images.empty()) {
    std::fprintf(stderr, "no JPEG files in %s\n", directory.c_str());
    return 1;
  }
  std::printf("%s, %s\n", cpu_model().c_str(), directory.c_str());
  std::printf("%zu JPEGs, %zu as coefficients, of which %zu give back the file's own bytes\n", totals.files,
              images.size(), totals.source_bytes);
  size_t samples = 0;
  const size_t differing = count_differences(images, &samples);
  std::printf("%zu of %zu samples differ from libjpeg-turbo's\n", differing, samples);
  std::vector<Contender> contenders;
  for (size_t layout = 0; layout < kLayouts.size(); ++layout) {
    for (const Work work : {Work::kWhole, Work::kCrop}) contenders.push_back({layout, work, {}});
  }
  contenders.push_back({kCoefficients, Work::kSelect, {}});
  constexpr uint64_t kRounds = 5;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (Contender& contender : contenders)
      contender.rates.push_back(measure(contender, images, round, seconds));
  }
  const double whole = median(contenders[0].rates);
  const double crop = median(contenders[1].rates);
  std::printf("%-34s %9s %9s %9s %9s\n", "one thread", "bytes", "img/s", "/ whole", "/ crop");
  constexpr std::array<const char*, 3> kNames = {"whole", "crop", "select"};
  for (const Contender& contender : contenders) {
    const double rate = median(contender.rates);
    const double bytes =
        static_cast<double>(totals.bytes[contender.layout]) / static_cast<double>(totals.bytes[0]);
    std::printf("%-26s %-7s %9.4f %9.0f %9.2f %9.2f\n", kLayouts[contender.layout].name,
                kNames[static_cast<size_t>(contender.work)], bytes, rate, rate / whole, rate / crop);
  }
  print_selection(images, median(contenders[2 * kCoefficients + 1].rates), median(contenders.back().rates));
  return differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dlpipe::data

int main(int count, char** arguments) {
  double seconds = 2;
  std::string directory;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--seconds") == 0 && i + 1 < count) {
      dlpipe::parse_double(arguments[++i], &seconds);
    } else if (std::strcmp(arguments[i], "--avx2") == 0) {
      hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
    } else {
      directory = arguments[i];
    }
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: jpeg_crops DIR [--seconds S] [--avx2]\n");
    return 2;
  }
  try {
    return dlpipe::data::run(directory, seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jpeg_crops: %s\n", error.what());
    return 1;
  }
}
