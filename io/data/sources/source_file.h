// Files as sources read them: with their size and time checked before and after, so that a file that changes
// under an ingest is noticed. Pure functions, any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/io/data/sources/source.h"

struct stat;

namespace dlpipe::data {

/// Which file it is, under whatever name.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what clang-tidy 14 makes of a defaulted comparison
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

FileId id_of(const struct stat& stat);
/// kChanged: `path` is no longer what was listed. `how`: "changed", "was removed", "became shorter".
Status changed_since_listed(const std::string& path, std::string_view how);
/// kUnsupported for anything but a regular file (links are followed).
Result<FileStamp> stamp_file(const std::string& path);
/// The whole file; kChanged when it isn't, or doesn't stay, what `stamp` says; kUnsupported for more than
/// `most_bytes`.
Result<std::vector<std::byte>> read_stamped_file(const std::string& path, const FileStamp& stamp,
                                                 uint64_t most_bytes = kMostPictureBytes);
/// `text` without the byte order mark that editors on Windows write before UTF-8.
std::string_view without_mark(std::string_view text);
/// The lines of a file with something in them, without blanks around, and without_mark().
Result<std::vector<std::string>> lines_in_file(const std::string& path);
/// A file that goes with an entry's own, a mask, as the entry's extra names it: its size, time and path.
std::string refer_to(const FileStamp& stamp, const std::string& path);
struct Referred {
  FileStamp stamp;
  std::string path;
};
/// kInternal for what refer_to() didn't write.
Result<Referred> referred(std::string_view reference);
/// The same without the time, which a copy of the file may have its own of; other texts as they are.
std::string lasting_reference(const std::string& reference);
/// Whether `path` leads to something; to a regular file; to a folder. What can't be told is none.
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
/// Whether `path` is a link that leads to nothing: what it should have led to is missing, and is not nothing.
bool is_dead_link(const std::string& path);
/// The first files of a list decide in which folder they all are.
inline constexpr size_t kFilesThatDecide = 32;
/// How many of `paths` are files below `folder`.
size_t count_files(const std::filesystem::path& folder, std::span<const std::string> paths);
/// The first of what lies below `folder`, at any depth, that `fits`; nothing where there is no such folder. What may not be
/// entered is passed over.
std::optional<std::filesystem::path> find_below(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::directory_entry&)>& fits);
/// Whether any file below `folder`, at any depth, has the ending ("txt"); false where there is no such folder.
bool holds_ending(const std::filesystem::path& folder, std::string_view ending);

}  // namespace dlpipe::data
