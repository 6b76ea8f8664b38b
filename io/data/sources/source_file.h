// How sources read files: size and time are checked before and after, so that a file that changes during an ingest is noticed;
// and how much memory a source may use for what it reads. The functions may be called from any thread; a ReadBudget belongs to
// one thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"

struct stat;

namespace dlpipe::data {

/// Identifies a file independently of its name.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): what clang-tidy 14 makes of a defaulted comparison
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

FileId id_of(const struct stat& stat);
/// kChanged: `path` is no longer what was listed. `how`: "changed", "was removed", "shrank".
Status changed_since_listed(const std::string& path, std::string_view how);
/// kUnsupported for anything but a regular file (links are followed).
Result<FileStamp> stamp_file(const std::string& path);
/// The whole file; kChanged if it does not match `stamp` before or after; kUnsupported for more than `most_bytes`.
Result<std::vector<std::byte>> read_stamped_file(const std::string& path, const FileStamp& stamp,
                                                 uint64_t most_bytes = kMostImageBytes);
/// `text` without the byte order mark that editors on Windows write before UTF-8.
std::string_view without_mark(std::string_view text);
/// The non-empty lines of a file, trimmed and without_mark().
Result<std::vector<std::string>> lines_in_file(const std::string& path);
/// A reference in an entry's extra to a file that belongs to it, such as a mask: size, time and path.
std::string refer_to(const FileStamp& stamp, const std::string& path);
struct Referred {
  FileStamp stamp;
  std::string path;
};
/// kInternal if refer_to() did not write it, kCorrupt if the file is empty.
Result<Referred> referred(std::string_view reference);
/// The same without the time, which may differ for a copy of the file; other texts unchanged.
std::string lasting_reference(const std::string& reference);
/// Whether `path` exists; is a regular file; is a folder. False if that can't be determined.
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
/// Whether `path` is a broken link: its target is missing, which differs from a missing file.
bool is_dead_link(const std::string& path);
/// The first files of a list decide in which folder all of them are.
inline constexpr size_t kFilesThatDecide = 32;
/// How many of `paths` are files below `folder`.
size_t count_files(const std::filesystem::path& folder, std::span<const std::string> paths);
/// The first entry below `folder`, at any depth, that `fits`; nullopt if there is no such folder. Unreadable folders are
/// skipped.
std::optional<std::filesystem::path> find_below(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::directory_entry&)>& fits);
/// Whether any file below `folder`, at any depth, has the ending ("txt"); false if there is no such folder.
bool holds_ending(const std::filesystem::path& folder, std::string_view ending);

/// How much memory a source may use for what it reads: a multiple of its bytes, and a constant that all inputs of an ingest
/// share. A small file can describe millions of samples, columns and cells, or refer to one of its pieces that often. Code that
/// allocates something for each of these asks here first.
class ReadBudget {
 public:
  /// Real data needs less: a sample makes an entry of about 300 bytes, and hardly any has fewer than eight bytes of its own.
  static constexpr uint64_t kPerByte = 128;
  static constexpr uint64_t kBase = uint64_t{64} << 20;

  static uint64_t most(uint64_t input_bytes);

  /// `name`: of the source, for messages. Its bytes are those of the stored file, compressed or not.
  ReadBudget(const SourceOptions& options, std::string name, uint64_t input_bytes);

  /// Adds the bytes of another file.
  void add_input(uint64_t bytes);

  /// kUnsupported if `times` pieces of `bytes` exceed what is left; `what` describes them, such as "the entries of its 9
  /// samples".
  Status take(uint64_t bytes, uint64_t times, std::string_view what);
  /// The same for entries with this many fields, with their paths and class names, without the fields' bytes.
  Status take_entries(uint64_t entries, uint64_t fields);

 private:
  bool spend(uint64_t bytes, uint64_t times);
  Status too_much(std::string_view what) const;

  std::string name_;
  uint64_t input_bytes_ = 0;
  uint64_t left_ = 0;               // of kPerByte times them
  std::shared_ptr<uint64_t> base_;  // what is left of kBase
};

/// kUnsupported for more fields than a dataset can have; call it before allocating for each field and sample.
Status check_field_count(const std::string& name, uint64_t fields);

}  // namespace dlpipe::data
