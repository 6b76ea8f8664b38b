// Files as sources read them: with their size and time checked before and after, so that a file that changes
// under an ingest is noticed. Pure functions, any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

struct stat;

namespace dlpipe::data {

struct FileStamp {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Which file it is, under whatever name.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

FileStamp stamp_of(const struct stat& stat);
FileId id_of(const struct stat& stat);
/// kUnsupported for anything but a regular file (links are followed).
Result<FileStamp> stamp_file(const std::string& path);
/// The whole file; kChanged when it isn't, or doesn't stay, what `stamp` says.
Result<std::vector<std::byte>> read_stamped_file(const std::string& path, const FileStamp& stamp);
/// The letters behind the last dot of a name, in lower case: "jpg".
std::string lower_ending(std::string_view path);
/// True for names that end like a picture's (.jpg, .png, .bmp, ...), decodable here or not.
bool has_image_name(const std::string& path);

}  // namespace dlpipe::data
