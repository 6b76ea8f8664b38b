#include "io/data/linked_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/bytes.h"
#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/data/coefficient_cache.h"

namespace dlpipe::data {

namespace {

// Parts of a link's bytes.
constexpr size_t kLinkHead = 17;  // offset, size, flags
constexpr size_t kTimeBytes = 8;  // after it, if there is a time
constexpr uint8_t kWhole = 1;
constexpr uint8_t kHasTime = 2;

constexpr size_t kSumBytes = sizeof(uint64_t);  // of a late checksum

std::string late_path(const std::string& directory) {
  return directory + "/late.sums";
}

std::string link_path(const Link& link, const std::string& root) {
  return link.file.starts_with('/') ? link.file : concat(root, "/", link.file);
}

Status no_longer(const std::string& path, std::string_view what) {
  return {ErrorCode::kCorrupt,
          concat("[dataset] the linked file ", printable(path), " ", what, "; restore it, or ingest again")};
}

}  // namespace

Status write_bytes_at(std::string_view area, int fd, std::span<const std::byte> bytes, uint64_t at,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno(area, concat("cannot write ", path), errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
  return {};
}

Status read_bytes_at(std::string_view area, int fd, std::span<std::byte> bytes, uint64_t at,
                     const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno(area, concat("cannot read ", path), errno);
    if (count == 0) return Status(ErrorCode::kCorrupt, concat("[", area, "] ", path, " shrank"));
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
  return {};
}

std::vector<std::byte> encode_link(const Link& link) {
  const size_t head = kLinkHead + (link.modified_ns ? kTimeBytes : 0);
  std::vector<std::byte> bytes(head + link.file.size());
  store_le(bytes.data(), link.offset);
  store_le(bytes.data() + 8, link.size_bytes);
  store_le(bytes.data() + 16,
           static_cast<uint8_t>((link.is_whole ? kWhole : 0) | (link.modified_ns ? kHasTime : 0)));
  if (link.modified_ns) store_le(bytes.data() + kLinkHead, *link.modified_ns);
  std::memcpy(bytes.data() + head, link.file.data(), link.file.size());
  return bytes;
}

Result<Link> parse_link(std::span<const std::byte> bytes) {
  const auto malformed = [] {
    return Status(ErrorCode::kCorrupt, "[dataset] a link is malformed; ingest again");
  };
  if (bytes.size() <= kLinkHead) return malformed();
  const uint8_t flags = load_u8(bytes, 16);
  const size_t head = kLinkHead + ((flags & kHasTime) != 0 ? kTimeBytes : 0);
  if (flags > (kWhole | kHasTime) || bytes.size() <= head) return malformed();
  Link link;
  link.offset = load_le<uint64_t>(bytes, 0);
  link.size_bytes = load_le<uint64_t>(bytes, 8);
  link.is_whole = (flags & kWhole) != 0;
  if ((flags & kHasTime) != 0) link.modified_ns = load_le<int64_t>(bytes, kLinkHead);
  link.file.assign(reinterpret_cast<const char*>(bytes.data()) + head, bytes.size() - head);
  if (link.file.find('\0') != std::string::npos) return malformed();
  return link;
}

// Zeros are written explicitly, to reserve disk space for the checksums that are stored later.
Status LateChecksums::create(const std::string& directory, int64_t samples) {
  const std::string path = late_path(directory);
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file,
                          RegularFile::open_to_write("dataset", path, O_WRONLY | O_TRUNC));
  const std::vector<std::byte> zeros(static_cast<size_t>(samples) * kSumBytes);
  Status status = write_bytes_at("dataset", file.fd(), zeros, 0, path);
  if (status.ok() && ::fdatasync(file.fd()) != 0)
    status = status_from_errno("dataset", concat("cannot sync ", path), errno);
  return status;
}

Result<std::unique_ptr<const LateChecksums>> LateChecksums::open(const std::string& directory,
                                                                 int64_t samples) {
  std::string path = late_path(directory);
  int fd = ::open(path.c_str(),
                  O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);  // nothing is written through a symlink
  const bool writes = fd >= 0;
  if (!writes) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno != ENOENT) return status_from_errno("dataset", concat("cannot open ", path), errno);
  std::unique_ptr<const LateChecksums> sums(new LateChecksums(std::move(path), fd, writes, samples));
  struct stat stat {};
  const bool fits = fd < 0 || (::fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
                               stat.st_size % static_cast<off_t>(kSumBytes) == 0 &&
                               stat.st_size / static_cast<off_t>(kSumBytes) == samples);
  if (fits) return sums;
  return Status(ErrorCode::kCorrupt,
                concat("[dataset] ", sums->path_, " does not match the dataset's ", samples,
                       " samples; remove it, and images count as not yet read"));
}

LateChecksums::~LateChecksums() {
  if (fd_ >= 0) ::close(fd_);
}

Result<uint64_t> LateChecksums::of(int64_t sample) const {
  if (fd_ < 0) return uint64_t{0};
  std::array<std::byte, kSumBytes> bytes{};
  DLPIPE_RETURN_IF_ERROR(
      read_bytes_at("dataset", fd_, bytes, kSumBytes * static_cast<uint64_t>(sample), path_));
  return load_le<uint64_t>(bytes, 0);
}

Result<uint64_t> LateChecksums::note(int64_t sample, uint64_t checksum) const {
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t before, of(sample));
  if (before != 0) return before;
  if (!writes_) return checksum;
  std::array<std::byte, kSumBytes> bytes{};
  store_le(bytes.data(), checksum);
  DLPIPE_RETURN_IF_ERROR(
      write_bytes_at("dataset", fd_, bytes, kSumBytes * static_cast<uint64_t>(sample), path_));
  return checksum;
}

Result<int64_t> LateChecksums::known() const {
  if (fd_ < 0) return int64_t{0};
  std::vector<std::byte> bytes(static_cast<size_t>(samples_) * kSumBytes);
  DLPIPE_RETURN_IF_ERROR(read_bytes_at("dataset", fd_, bytes, 0, path_));
  int64_t known = 0;
  for (size_t at = 0; at < bytes.size(); at += kSumBytes) known += load_le<uint64_t>(bytes, at) != 0 ? 1 : 0;
  return known;
}

Result<Link> LinkedRecords::link_of(std::span<const std::byte> stored) const {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                          layout_.field(stored, static_cast<size_t>(layout_.image_field())));
  return parse_link(bytes);
}

Result<std::string> LinkedRecords::file(std::span<const std::byte> stored) const {
  DLPIPE_ASSIGN_OR_RETURN(const Link link, link_of(stored));
  return link_path(link, root_);
}

// The time of a file's last change of any kind can't be set, so a changed file is detected even if its old modification time is
// restored.
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
  if (!now.ok()) return false;  // reading the file reports the error
  Status status = now->value == found->stamp
                      ? cache_->read(*found, image_)
                      : Status(ErrorCode::kCorrupt, "its file, or the file's time, changed since");
  if (status.ok()) return true;
  cache_->withdraw(sample, status.message());
  return false;
}

// A size is trusted only if the file is that large.
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
  image_.resize(link.size_bytes);
  for (size_t done = 0; done < image_.size();) {
    const ssize_t count = ::pread(file->fd(), image_.data() + done, image_.size() - done,
                                  static_cast<off_t>(link.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("dataset", concat("cannot read ", path), errno);
    if (count == 0) return no_longer(path, "changed: it shrank");
    done += static_cast<size_t>(count);
  }
  if (late_ != nullptr && !file->is_unchanged()) return no_longer(path, "changed while it was being read");
  modified_ns_ = file->stamp().modified_ns;
  return {};
}

Status LinkedRecords::check(const Link& link, const RecordHeader& header, int64_t sample) const {
  if (record_.size() == header.size_bytes) {
    if (late_ != nullptr) return check_late(link, header, sample);
    if (checksum64(record_) == header.checksum) return {};
  }
  return no_longer(link_path(link, root_), "changed, or its entry in the dataset is corrupt");
}

Status LinkedRecords::check_late(const Link& link, const RecordHeader& header, int64_t sample) const {
  const uint64_t checksum = checksum64(record_);
  DLPIPE_ASSIGN_OR_RETURN(uint64_t known, late_->of(sample));
  if (known == 0) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t begin, layout_.begin_checksum(record_));
    if (link.modified_ns != modified_ns_ || begin != header.checksum)
      return no_longer(link_path(link, root_),
                       "was written since it was listed, or its entry in the dataset is corrupt");
    DLPIPE_ASSIGN_OR_RETURN(known, late_->note(sample, checksum));
  }
  if (known == checksum) return {};
  return no_longer(link_path(link, root_),
                   "changed since it was first read, or its entry in the dataset is corrupt");
}

Result<std::span<const std::byte>> LinkedRecords::record(std::span<const std::byte> stored,
                                                         const RecordHeader& header, int64_t sample) {
  DLPIPE_ASSIGN_OR_RETURN(const Link link, link_of(stored));
  // A record includes its image: a link with a larger size than the record does not belong to it.
  if (link.size_bytes > header.size_bytes)
    return Status(ErrorCode::kCorrupt, "[dataset] a link has more bytes than its record; ingest again");
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
  values[static_cast<size_t>(layout_.image_field())] = image_;
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
