#include <xxhash.h>

#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

uint64_t checksum64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace dlpipe::data
