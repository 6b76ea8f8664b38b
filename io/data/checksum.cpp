#include "io/data/checksum.h"

#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "dlpipe/dataset.h"

namespace dlpipe::data {

uint64_t checksum64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t checksum64_of_pieces(std::span<const std::span<const std::byte>> pieces) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  if (hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash.get());
  for (const std::span<const std::byte> piece : pieces)
    XXH3_64bits_update(hash.get(), piece.data(), piece.size());
  return XXH3_64bits_digest(hash.get());
}

Result<FileChecksum> checksum_file(const std::string& file) {
  constexpr size_t kPieceBytes = 1 << 20;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  if (hash == nullptr) return Status(ErrorCode::kOutOfMemory, concat("[file] out of memory for ", file));
  XXH3_64bits_reset(hash.get());
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile opened, RegularFile::open("file", file));
  std::vector<std::byte> piece(kPieceBytes);
  FileChecksum found;
  Status status;
  while (true) {
    const ssize_t got = ::read(opened.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = status_from_errno("file", concat("cannot read ", file), errno);
    if (got <= 0) break;
    XXH3_64bits_update(hash.get(), piece.data(), static_cast<size_t>(got));
    found.size_bytes += static_cast<uint64_t>(got);
  }
  if (!status.ok()) return status;
  found.checksum = XXH3_64bits_digest(hash.get());
  return found;
}

}  // namespace dlpipe::data
