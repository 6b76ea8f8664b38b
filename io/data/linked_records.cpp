#include "dlpipe/io/data/linked_records.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

std::string link_path(const Link& link, const std::string& root) {
  return link.file.starts_with('/') ? link.file : concat(root, "/", link.file);
}

Status no_longer(const std::string& path, std::string_view what) {
  return {ErrorCode::kCorrupt,
          concat("[dataset] the linked file ", printable(path), " ", what, "; restore it, or ingest anew")};
}

}  // namespace

Result<Link> LinkedRecords::link_of(std::span<const std::byte> stored) const {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                          layout_.field(stored, static_cast<size_t>(layout_.image_field())));
  return parse_link(bytes);
}

Result<std::string> LinkedRecords::file(std::span<const std::byte> stored) const {
  DLPIPE_ASSIGN_OR_RETURN(const Link link, link_of(stored));
  return link_path(link, root_);
}

// The time of a file's last change of any kind can't be set, so who gives a changed file its old time is found, too.
Result<RecordStamp> LinkedRecords::stamp(std::span<const std::byte> stored) const {
  DLPIPE_ASSIGN_OR_RETURN(const std::string path, file(stored));
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return no_longer(path, "can't be read");
  const auto ns_of = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  const std::array<int64_t, 4> numbers = {static_cast<int64_t>(stat.st_ino), int64_t{stat.st_size},
                                          ns_of(stat.st_mtim), ns_of(stat.st_ctim)};
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  return RecordStamp{checksum64(stored, checksum64(std::as_bytes(std::span(numbers)))),
                     now_ns - std::max(numbers[2], numbers[3])};
}

bool LinkedRecords::read_cached(std::span<const std::byte> stored, int64_t sample) {
  if (cache_ == nullptr) return false;
  const auto found = cache_->find(sample);
  if (!found) return false;
  const auto now = stamp(stored);
  if (!now.ok()) return false;  // reading the file says what is wrong
  Status status = now->value == found->stamp
                      ? cache_->read(*found, picture_)
                      : Status(ErrorCode::kCorrupt, "its file was written, or given other times, since");
  if (status.ok()) return true;
  cache_->withdraw(sample, status.message());
  return false;
}

// A size is believed only where the file has it.
Status LinkedRecords::read(const Link& link) {
  const std::string path = link_path(link, root_);
  const auto file = RegularFile::open("dataset", path);
  if (file.status().code() == ErrorCode::kIo || file.status().code() == ErrorCode::kOutOfMemory)
    return file.status();
  if (!file.ok())
    return no_longer(path, concat("can't be read (", without_area(file.status().message()), ")"));
  const uint64_t size = file->stamp().size_bytes;
  const bool fits = link.offset <= size && link.size_bytes <= size - link.offset;
  if (!fits || (link.is_whole && size != link.size_bytes))
    return no_longer(path, concat("changed: it has ", size, " bytes now"));
  picture_.resize(link.size_bytes);
  for (size_t done = 0; done < picture_.size();) {
    const ssize_t count = ::pread(file->fd(), picture_.data() + done, picture_.size() - done,
                                  static_cast<off_t>(link.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("dataset", concat("cannot read ", path), errno);
    if (count == 0) return no_longer(path, "changed: it became shorter");
    done += static_cast<size_t>(count);
  }
  if (late_ != nullptr && !file->is_unchanged()) return no_longer(path, "changed while it was read");
  modified_ns_ = file->stamp().modified_ns;
  return {};
}

Status LinkedRecords::check(const Link& link, const RecordHeader& header, int64_t sample) const {
  if (record_.size() == header.size_bytes) {
    if (late_ != nullptr) return check_late(link, header, sample);
    if (checksum64(record_) == header.checksum) return {};
  }
  return no_longer(link_path(link, root_), "changed, or what the dataset says of it is damaged");
}

Status LinkedRecords::check_late(const Link& link, const RecordHeader& header, int64_t sample) const {
  const uint64_t checksum = checksum64(record_);
  DLPIPE_ASSIGN_OR_RETURN(uint64_t known, late_->of(sample));
  if (known == 0) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t begin, layout_.begin_checksum(record_));
    if (link.modified_ns != modified_ns_ || begin != header.checksum)
      return no_longer(link_path(link, root_),
                       "was written since it was listed, or what the dataset says of it is damaged");
    DLPIPE_ASSIGN_OR_RETURN(known, late_->note(sample, checksum));
  }
  if (known == checksum) return {};
  return no_longer(link_path(link, root_),
                   "changed since it was read first, or what the dataset says of it is damaged");
}

Result<std::span<const std::byte>> LinkedRecords::record(std::span<const std::byte> stored,
                                                         const RecordHeader& header, int64_t sample) {
  DLPIPE_ASSIGN_OR_RETURN(const Link link, link_of(stored));
  // A record is its picture and more: what claims to be larger is no link of this record.
  if (link.size_bytes > header.size_bytes)
    return Status(ErrorCode::kCorrupt, "[dataset] a link is of more bytes than its record; ingest anew");
  try {
    if (read_cached(stored, sample)) {
      DLPIPE_RETURN_IF_ERROR(build(stored));
      ++from_cache_;
      return std::span<const std::byte>(record_);
    }
    DLPIPE_RETURN_IF_ERROR(read(link));
    DLPIPE_RETURN_IF_ERROR(build(stored));
  } catch (...) {
    return status_from_current_exception("dataset");
  }
  DLPIPE_RETURN_IF_ERROR(check(link, header, sample));
  if (cache_ != nullptr && header.layout == ImageLayout::kJpeg) cache_->offer(sample);
  return std::span<const std::byte>(record_);
}

Status LinkedRecords::build(std::span<const std::byte> stored) {
  std::vector<std::span<const std::byte>> values(layout_.field_count());
  for (size_t i = 0; i < values.size(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(values[i], layout_.field(stored, i));
  }
  values[static_cast<size_t>(layout_.image_field())] = picture_;
  DLPIPE_ASSIGN_OR_RETURN(record_, layout_.build(values));
  return {};
}

Status LinkedRecords::load(std::span<const std::byte> stored, int64_t sample) {
  const auto link = link_of(stored);
  if (!link.ok()) return {};
  try {
    if (read_cached(stored, sample)) return {};
    Status status = read(*link);
    return status.code() == ErrorCode::kIo ? status : Status();
  } catch (...) {
    return status_from_current_exception("dataset");
  }
}

}  // namespace dlpipe::data
