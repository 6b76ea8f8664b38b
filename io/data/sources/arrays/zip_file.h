// A zip archive, as .npz files are: which members it has, and the bytes of one, stored or deflated. Zip64 is read,
// encryption and other packings are refused by name. One thread; what member_bytes() answers may be read from any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

struct ZipMember {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t header_at = 0;
};

/// In the order of the archive's directory. kCorrupt for what is no zip or is cut short.
Result<std::vector<ZipMember>> zip_members(const ArchiveBytes& file, const std::string& name);
/// Where it lies, or, if it is packed, in a scratch file. kCorrupt where its checksum differs.
Result<ArchiveBytes> member_bytes(const ArchiveBytes& file, const ZipMember& member, const std::string& name,
                                  const SourceOptions& options);

}  // namespace dlpipe::data
