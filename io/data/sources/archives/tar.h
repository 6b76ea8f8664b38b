// The index of a tar archive and its samples in WebDataset's layout, shared by tar.cpp and webdataset.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

struct TarMember {
  std::string name;  // without ./ and / before it, never with '..' in it
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  bool is_link = false;  // only the name of an image; its bytes are not in the archive
};

struct TarIndex {
  /// Files, and links with names of images, in the archive's order; of files with the same name only the last.
  std::vector<TarMember> members;
  std::vector<std::string> folders;
  std::map<std::string, int64_t> left_aside;  // kind -> how many: other links, devices, hidden names, ...
  /// Not empty: the archive is corrupt or truncated here, and the rest is lost. A whole sentence.
  std::string problem;
  int64_t replaced = 0;           // members that a later one of the same name replaces
  uint64_t bytes_behind_end = 0;  // after the archive's end mark, not zero: another archive was appended
};

struct TarContents {
  const std::string& name;  // of the archive, for messages
  const ArchiveBytes& archive;
  const SourceOptions& options;
  TarIndex index;
  ReadBudget& budget;  // of what is listed
};

/// An entry that is read at the member's place.
SourceEntry entry_of(const TarMember& member, const ArchiveBytes& archive);
/// The bytes of a member that belongs to an entry, as Source::read_referred() reads them.
std::string refer_to_member(const TarMember& member, const ArchiveBytes& archive);

/// Whether files share keys like those of samples: an image and a .cls, .txt or .json, or an image and its mask.
bool is_webdataset(const TarIndex& index);
/// Samples by key: 0001.jpg with 0001.cls, 0001.json, 0001.txt; 0001.image.png with 0001.target.cls, 0001.mask.png. The class
/// is in .cls or in the JSON's label.
Result<SourceListing> list_webdataset(const TarContents& tar);

}  // namespace dlpipe::data
