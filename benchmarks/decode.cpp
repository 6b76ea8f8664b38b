// How fast are whole images decoded to RGB, one thread, from memory? Each line that comes in names a file, and goes back as
// seconds per decode: the best of some. `benchmarks/decode_pillow.py` asks this and Pillow, in turn.
//
//   decode_benchmark [OUT]     OUT: the pixels of the last file, for whoever compares them
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "base/counters.h"
#include "dlpipe/codec.h"
#include "io/formats/atomic_file.h"

namespace {

using namespace dlpipe;

constexpr int kRepeats = 5;
constexpr int kChannels = 3;

struct Decoded {
  std::vector<uint8_t> pixels;
  double seconds = std::numeric_limits<double>::infinity();
};

Result<Decoded> decode(data::ImageDecoder& decoder, const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::read_file(path));
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  Decoded decoded;
  for (int i = 0; i < kRepeats; ++i) {
    const int64_t begin = now_ns();
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(bytes));
    decoded.pixels.resize(size_t(info.width) * size_t(info.height) * kChannels);
    const ImageView out{decoded.pixels.data(), info.width, info.height, kChannels,
                        ptrdiff_t{info.width} * kChannels};
    DLPIPE_RETURN_IF_ERROR(decoder.decode(bytes, {0, 0, info.width, info.height}, out));
    decoded.seconds = std::min(decoded.seconds, double(now_ns() - begin) * 1e-9);
  }
  return decoded;
}

}  // namespace

int main(int argc, char** argv) {
  data::ImageDecoder decoder;
  for (std::string path; std::getline(std::cin, path);) {
    const auto decoded = decode(decoder, path);
    if (!decoded.ok()) {
      std::cout << "failed: " << decoded.status().message() << std::endl;
      continue;
    }
    if (argc > 1) {
      const std::string_view pixels(reinterpret_cast<const char*>(decoded->pixels.data()),
                                    decoded->pixels.size());
      const Status status = formats::write_file(argv[1], pixels);
      if (!status.ok()) {
        std::cerr << status.message() << '\n';
        return 1;
      }
    }
    std::cout << decoded->seconds << std::endl;
  }
  return 0;
}
