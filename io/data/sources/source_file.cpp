#include "io/data/sources/source_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "io/data/file_name.h"
#include "io/data/schema.h"

namespace dlpipe::data {

FileId id_of(const struct stat& stat) {
  return {static_cast<uint64_t>(stat.st_dev), static_cast<uint64_t>(stat.st_ino)};
}

Status changed_since_listed(const std::string& path, std::string_view how) {
  return Status(ErrorCode::kChanged,
                concat("[ingest] ", printable(path), " ", how,
                       " since it was listed; when nothing writes to it any more, remove the "
                       ".partial directory and ingest again"));
}

Result<FileStamp> stamp_file(const std::string& path) {
  return stamp_regular_file("ingest", path);
}

Result<std::vector<std::byte>> read_stamped_file(const std::string& path, const FileStamp& stamp,
                                                 uint64_t most_bytes) {
  const auto file = RegularFile::open("ingest", path);
  if (file.status().code() == ErrorCode::kNotFound) return changed_since_listed(path, "was removed");
  if (!file.ok()) return file.status();
  if (file->stamp() != stamp) return changed_since_listed(path, "changed");
  if (stamp.size_bytes > most_bytes)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(path), " has ", human_bytes(stamp.size_bytes),
                         "; the limit for one file is ", human_bytes(most_bytes)));
  std::vector<std::byte> bytes(stamp.size_bytes);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file->fd(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot read ", path), errno);
    if (count == 0) return changed_since_listed(path, "shrank");
    done += static_cast<size_t>(count);
  }
  if (!file->is_unchanged()) return changed_since_listed(path, "changed");
  return bytes;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

Result<std::vector<std::string>> lines_in_file(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> lines;
  for (const std::string& line : split(without_mark(text), '\n')) {
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  }
  return lines;
}

std::string refer_to(const FileStamp& stamp, const std::string& path) {
  return concat(stamp.size_bytes, " ", stamp.modified_ns, " ", path);
}

static bool parse_reference(std::string_view reference, Referred* out) {
  const size_t size_end = reference.find(' ');
  const size_t time_end = size_end == std::string_view::npos ? size_end : reference.find(' ', size_end + 1);
  if (time_end == std::string_view::npos) return false;
  int64_t size = 0;
  if (!parse_int(reference.substr(0, size_end), &size) || size < 0 ||
      !parse_int(reference.substr(size_end + 1, time_end - size_end - 1), &out->stamp.modified_ns))
    return false;
  out->stamp.size_bytes = static_cast<uint64_t>(size);
  out->path = reference.substr(time_end + 1);
  return true;
}

Result<Referred> referred(std::string_view reference) {
  Referred found;
  if (!parse_reference(reference, &found))
    return Status(ErrorCode::kInternal, concat("[ingest] not a reference to a file: ", printable(reference)));
  if (found.stamp.size_bytes == 0)  // no bytes in a record mean that there is no mask
    return Status(ErrorCode::kCorrupt, "the file of its mask is empty");
  return found;
}

std::string lasting_reference(const std::string& reference) {
  Referred found;
  return parse_reference(reference, &found) ? concat(found.stamp.size_bytes, " ", found.path) : reference;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_dead_link(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_symlink(path, ignored) && !std::filesystem::exists(path, ignored);
}

size_t count_files(const std::filesystem::path& folder, std::span<const std::string> paths) {
  return static_cast<size_t>(std::count_if(paths.begin(), paths.end(), [&](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(folder / path, ignored);
  }));
}

std::optional<std::filesystem::path> find_below(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::directory_entry&)>& fits) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    if (fits(*at)) return at->path();
  }
  return std::nullopt;
}

bool holds_ending(const std::filesystem::path& folder, std::string_view ending) {
  return find_below(
             folder,
             [&](const auto& entry) { return lower_ending(entry.path().filename().string()) == ending; })
      .has_value();
}

uint64_t ReadBudget::most(uint64_t input_bytes) {
  return input_bytes > (UINT64_MAX - kBase) / kPerByte ? UINT64_MAX : kBase + kPerByte * input_bytes;
}

ReadBudget::ReadBudget(const SourceOptions& options, std::string name, uint64_t input_bytes)
    : name_(std::move(name)),
      base_(options.shared_budget != nullptr ? options.shared_budget : std::make_shared<uint64_t>(kBase)) {
  add_input(input_bytes);
}

void ReadBudget::add_input(uint64_t bytes) {
  input_bytes_ += bytes;
  if (__builtin_add_overflow(left_, most(bytes) - kBase, &left_)) left_ = UINT64_MAX;
}

bool ReadBudget::spend(uint64_t bytes, uint64_t times) {
  uint64_t all = 0;
  if (__builtin_mul_overflow(bytes, times, &all)) return false;
  const uint64_t own = std::min(all, left_);
  if (all - own > *base_) return false;
  left_ -= own;
  *base_ -= all - own;
  return true;
}

Status ReadBudget::too_much(std::string_view what) const {
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(name_), ": ", what, " would need more than ", kPerByte,
                       " times its ", human_bytes(input_bytes_), " and ", human_bytes(kBase),
                       " for all inputs together; leave out what is not needed, or divide it into several"));
}

Status ReadBudget::take(uint64_t bytes, uint64_t times, std::string_view what) {
  return spend(bytes, times) ? Status() : too_much(what);
}

Status ReadBudget::take_entries(uint64_t entries, uint64_t fields) {
  constexpr uint64_t kNameBytes = 2 * sizeof(std::string) + 32;
  constexpr uint64_t kGrowth = 2;  // of a vector that is filled one by one
  if (spend(kGrowth * (sizeof(SourceEntry) + kNameBytes) + fields * sizeof(std::string), entries)) return {};
  return too_much(concat("the list of its samples (", human_count(static_cast<int64_t>(entries)), " more)"));
}

Status check_field_count(const std::string& name, uint64_t fields) {
  if (fields <= kMostFields) return {};
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(name), " has more than the ", human_count(kMostFields),
                       " fields of a dataset; leave some out"));
}

}  // namespace dlpipe::data
