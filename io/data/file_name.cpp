#include "io/data/file_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace dlpipe::data {

std::string lower_text(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string lower_ending(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || path.find('/', dot) != std::string_view::npos) return {};
  return lower_text(path.substr(dot + 1));
}

bool has_image_name(const std::string& path) {
  static constexpr std::array<std::string_view, 19> kEndings = {
      "jpg", "jpeg", "jpe", "jfif", "png",  "bmp",  "gif", "webp", "tif", "tiff",
      "ppm", "pgm",  "jp2", "heic", "avif", "heif", "jxl", "pbm",  "pnm"};
  return std::find(kEndings.begin(), kEndings.end(), lower_ending(path)) != kEndings.end();
}

}  // namespace dlpipe::data
