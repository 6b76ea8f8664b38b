// The images that the codec's tests share (tests/io/data/codec/images, written by make_images.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/image.h"
#include "tests/base/test_file.h"

namespace dlpipe::data {

inline std::vector<std::byte> read_test_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::vector<std::byte> read_image(const std::string& name) {
  return read_test_file(test_file("io/data/codec/images/") + name);
}

struct Golden {
  std::string name;
  int width = 0;
  int height = 0;
  uint64_t rgb = 0;   // FNV-1a-64 of the pixels Pillow gives
  uint64_t grey = 0;  // the same after convert("L")
};

inline std::vector<Golden> golden_images() {
  std::ifstream file(test_file("io/data/codec/images/golden.txt"));
  std::vector<Golden> all;
  Golden one;
  while (file >> one.name >> std::dec >> one.width >> one.height >> std::hex >> one.rgb >> one.grey)
    all.push_back(one);
  return all;
}

inline uint64_t fnv1a(std::span<const uint8_t> bytes) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001b3u;
  return value;
}

/// Pixels that own their memory.
struct Pixels {
  Pixels(int width_in, int height_in, int channels_in)
      : width(width_in),
        height(height_in),
        channels(channels_in),
        bytes(static_cast<size_t>(width_in) * height_in * channels_in) {}
  ImageView view() { return {bytes.data(), width, height, channels, ptrdiff_t{width} * channels}; }

  int width, height, channels;
  std::vector<uint8_t> bytes;
};

inline Region all_of(const Pixels& pixels) {
  return {0, 0, pixels.width, pixels.height};
}

}  // namespace dlpipe::data
