// What could a resize fused into the decoder save, by strips that never leave the cache? At most this: decode
// and resize of RandomResizedCrop regions as they are, and with every row of the image between them in one
// row's memory.
//   fused_bound DIR        DIR: any folder of JPEG files
// One thread, rounds interleaved.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "augment/resize.h"
#include "base/machine.h"
#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "io/data/codec/coef/jpeg_coefficients.h"

namespace dlpipe {
namespace {

struct Image {
  std::vector<std::byte> record;
  int width = 0;
  int height = 0;
};

std::vector<Image> load(const std::string& directory) {
  std::vector<Image> images;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    const auto info = data::probe_image(bytes);
    auto record = data::encode_coefficients(bytes);
    if (info.ok() && record.ok()) images.push_back({*std::move(record), info->width, info->height});
  }
  return images;
}

Region draw_region(const Image& image, RandomStream& random) {
  const double area = (0.08 + 0.92 * random.uniform()) * image.width * image.height;
  const double ratio = std::exp(std::log(0.75) + random.uniform() * std::log(16.0 / 9));
  const int width = std::min(image.width, static_cast<int>(std::lround(std::sqrt(area * ratio))));
  const int height = std::min(image.height, static_cast<int>(std::lround(std::sqrt(area / ratio))));
  return {static_cast<int>(random.below(static_cast<uint32_t>(image.width - width + 1))),
          static_cast<int>(random.below(static_cast<uint32_t>(image.height - height + 1))), width, height};
}

/// Microseconds per image. With `one_row` every row is written to and read from the same place.
double measure(const std::vector<Image>& images, uint64_t round, bool one_row) {
  constexpr int kSize = 224;
  data::ImageDecoder decoder;
  RandomStream random(7, round);
  std::vector<uint8_t> pixels, out(size_t{3} * kSize * kSize);
  std::vector<std::byte> work;
  const auto begin = std::chrono::steady_clock::now();
  for (const Image& image : images) {
    const Region region = draw_region(image, random);
    const ptrdiff_t row = ptrdiff_t{3} * region.width;
    pixels.resize(std::max(pixels.size(), static_cast<size_t>(row * region.height)));
    const ImageView view{pixels.data(), region.width, region.height, 3, one_row ? 0 : row};
    throw_if_error(decoder.decode(image.record, region, view));
    augment::resize(augment::whole_resize(region.width, region.height, kSize, kSize), ConstImageView(view),
                    {out.data(), kSize, kSize, 3, ptrdiff_t{3} * kSize}, false, work);
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / static_cast<double>(images.size());
}

int run(const std::string& directory) {
  const std::vector<Image> images = load(directory);
  if (images.empty()) {
    std::fprintf(stderr, "no JPEG files in %s\n", directory.c_str());
    return 1;
  }
  std::vector<double> as_it_is, bound, shares;
  constexpr uint64_t kRounds = 15;
  for (uint64_t round = 0; round < kRounds; ++round) {
    as_it_is.push_back(measure(images, round, false));
    bound.push_back(measure(images, round, true));
    shares.push_back(bound.back() / as_it_is.back());
  }
  for (auto* values : {&as_it_is, &bound, &shares}) std::sort(values->begin(), values->end());
  std::printf("%s, %zu images, %d rounds, one thread\n", cpu_model().c_str(), images.size(), int{kRounds});
  std::printf(
      "decode and resize %.1f us per image; with one row between them %.1f us; %.3f of it (%.3f to %.3f)\n",
      as_it_is[kRounds / 2], bound[kRounds / 2], shares[kRounds / 2], shares.front(), shares.back());
  return 0;
}

}  // namespace
}  // namespace dlpipe

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: fused_bound DIR\n");
    return 2;
  }
  return dlpipe::run(arguments[1]);
}
