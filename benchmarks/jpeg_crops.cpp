// How fast are RandomResizedCrop regions decoded from each layout of a JPEG at rest? One thread, one process,
// rounds interleaved, no resize:
//   jpeg_crops DIR [--seconds S]      DIR: any folder of JPEG files
// Every picture's regions are first compared with libjpeg-turbo's whole decode, sample by sample.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/coef/jpeg_coefficients.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/restart.h"

namespace dlpipe::data {
namespace {

struct Picture {
  std::vector<std::byte> jpeg;
  std::vector<std::byte> coefficients;
  std::vector<std::byte> restart;
  int width = 0;
  int height = 0;
};

/// torchvision's RandomResizedCrop: area in [0.08, 1], aspect in [3/4, 4/3], ten attempts.
Region draw_region(const Picture& picture, RandomStream& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (0.08 + 0.92 * random.uniform()) * picture.width * picture.height;
    const double ratio = std::exp(std::log(0.75) + random.uniform() * (std::log(4.0 / 3) - std::log(0.75)));
    const int width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    const int x = static_cast<int>(random.below(static_cast<uint32_t>(picture.width - width + 1)));
    const int y = static_cast<int>(random.below(static_cast<uint32_t>(picture.height - height + 1)));
    return {x, y, width, height};
  }
  return {0, 0, picture.width, picture.height};
}

struct Totals {
  size_t files = 0, kept = 0, source_bytes = 0, record_bytes = 0, restart_bytes = 0, jpeg_bytes = 0;
};

std::vector<Picture> load(const std::string& directory, Totals& totals) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Picture> pictures;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    Picture picture;
    picture.jpeg.assign(first, first + text.size());
    const auto info = probe_image(picture.jpeg);
    if (!info.ok() || info->layout != ImageLayout::kJpeg) continue;
    ++totals.files;
    auto record = encode_coefficients(picture.jpeg);
    if (!record.ok()) {
      std::printf("%s stays a JPEG: %s\n", path.filename().c_str(), record.status().message().c_str());
      continue;
    }
    picture.coefficients = std::move(*record);
    picture.restart = value_or_throw(encode_restart(picture.jpeg));
    totals.restart_bytes += picture.restart.size();
    picture.width = info->width;
    picture.height = info->height;
    ++totals.kept;
    totals.jpeg_bytes += picture.jpeg.size();
    totals.record_bytes += picture.coefficients.size();
    totals.source_bytes += *keeps_source_bytes(picture.coefficients) ? 1 : 0;
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

ImageView view_of(std::vector<uint8_t>& pixels, const Region& region) {
  pixels.resize(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * 3);
  return {pixels.data(), region.width, region.height, 3, ptrdiff_t{3} * region.width};
}

size_t count_differences(const std::vector<Picture>& pictures, size_t* samples) {
  ImageDecoder decoder;
  RandomStream random(1, 0);
  std::vector<uint8_t> whole, part;
  size_t differing = 0;
  for (const Picture& picture : pictures) {
    const Region all{0, 0, picture.width, picture.height};
    const ImageView full = view_of(whole, all);
    throw_if_error(decoder.decode(picture.jpeg, all, full));
    for (int i = 0; i < 3; ++i) {
      const Region region = i == 0 ? all : draw_region(picture, random);
      const ImageView out = view_of(part, region);
      for (const auto* layout : {&picture.coefficients, &picture.restart}) {
        throw_if_error(decoder.decode(*layout, region, out));
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

struct Contender {
  const char* name;
  std::vector<std::byte> Picture::*layout;
  bool whole;
  std::vector<double> rates;
};

double measure(const Contender& contender, const std::vector<Picture>& pictures, uint64_t round,
               double seconds) {
  using Clock = std::chrono::steady_clock;
  ImageDecoder decoder;
  RandomStream random(2, round);  // the same regions for every contender
  std::vector<uint8_t> pixels;
  size_t images = 0;
  const Clock::time_point start = Clock::now();
  double spent = 0;
  while (spent < seconds) {
    for (const Picture& picture : pictures) {
      const Region region =
          contender.whole ? Region{0, 0, picture.width, picture.height} : draw_region(picture, random);
      throw_if_error(decoder.decode(picture.*contender.layout, region, view_of(pixels, region)));
      ++images;
    }
    spent = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(images) / spent;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const std::string& directory, double seconds) {
  Totals totals;
  const std::vector<Picture> pictures = load(directory, totals);
  if (pictures.empty()) {
    std::fprintf(stderr, "no JPEG files in %s\n", directory.c_str());
    return 1;
  }
  std::printf("%s, %s\n", cpu_model().c_str(), directory.c_str());
  const auto of_jpeg = [&](size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(totals.jpeg_bytes);
  };
  std::printf(
      "%zu JPEGs, %zu as coefficients (%zu give back the file's own bytes), %.4f of the JPEGs' bytes\n",
      totals.files, totals.kept, totals.source_bytes, of_jpeg(totals.record_bytes));
  std::printf("with a restart index: %.4f of the JPEGs' bytes\n", of_jpeg(totals.restart_bytes));
  size_t samples = 0;
  const size_t differing = count_differences(pictures, &samples);
  std::printf("%zu of %zu samples differ from libjpeg-turbo's\n", differing, samples);
  std::vector<Contender> contenders = {{"libjpeg-turbo, whole picture", &Picture::jpeg, true, {}},
                                       {"libjpeg-turbo, crop and skip", &Picture::jpeg, false, {}},
                                       {"restart index, crop", &Picture::restart, false, {}},
                                       {"coefficients, whole picture", &Picture::coefficients, true, {}},
                                       {"coefficients, crop", &Picture::coefficients, false, {}}};
  constexpr uint64_t kRounds = 5;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (Contender& contender : contenders)
      contender.rates.push_back(measure(contender, pictures, round, seconds));
  }
  const double whole = median(contenders[0].rates);
  const double crop = median(contenders[1].rates);
  std::printf("%-30s %9s %9s %9s\n", "one thread", "img/s", "/ whole", "/ crop");
  for (const Contender& contender : contenders) {
    const double rate = median(contender.rates);
    std::printf("%-30s %9.0f %9.2f %9.2f\n", contender.name, rate, rate / whole, rate / crop);
  }
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
    } else {
      directory = arguments[i];
    }
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: jpeg_crops DIR [--seconds S]\n");
    return 2;
  }
  return dlpipe::data::run(directory, seconds);
}
