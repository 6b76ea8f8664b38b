// The ways of storing a picture that a decoder knows.
#pragma once

#include <cstdint>
#include <string_view>

namespace dlpipe::data {

/// How an image's bytes stand in the record. Values stand in files.
enum class ImageLayout : uint8_t {
  kNone = 0,
  kJpeg = 1,
  kPng = 2,
  kRaw = 3,
  kCoefficients = 4,
  kRestart = 5,
  kWebp = 6,
  kBmp = 7,
  kPnm = 8
};
std::string_view image_layout_name(ImageLayout layout);

}  // namespace dlpipe::data
