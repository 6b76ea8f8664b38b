#include "dlpipe/io/data/sources/archive_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/remote.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/unpack.h"

namespace dlpipe::data {

namespace {

Result<size_t> read_piece(int fd, std::span<std::byte> to, const std::string& name) {
  while (true) {
    const ssize_t count = ::read(fd, to.data(), to.size());
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return status_from_errno("ingest", concat("cannot read ", name), errno);
  }
}

Status unpack_remote(ScratchFile& scratch, const std::string& name, const SourceOptions& options,
                     int64_t* modified_ns) {
  DLPIPE_ASSIGN_OR_RETURN(const auto stream, RemoteStream::open(options.address, options.stop_requested));
  DLPIPE_RETURN_IF_ERROR(unpack([&](std::span<std::byte> to) { return stream->read(to); },
                                [&](std::span<const std::byte> bytes) { return scratch.append(bytes); },
                                name));
  *modified_ns = stream->modified_ns();
  return {};
}

Status unpack_to(ScratchFile& scratch, int fd, const std::string& name, const SourceOptions& options) {
  const auto read = [&](std::span<std::byte> to) -> Result<size_t> {
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled, concat("[ingest] stopped while ", name, " was unpacked"));
    return read_piece(fd, to, name);
  };
  return unpack(
      read, [&](std::span<const std::byte> bytes) { return scratch.append(bytes); }, name);
}

}  // namespace

Result<ArchiveBytes> ArchiveBytes::open(const std::string& path, const SourceOptions& options) {
  ArchiveBytes archive;
  const bool is_stream = path == "-";
  archive.path_ = is_stream ? "standard input" : path;
  int fd = STDIN_FILENO;
  std::vector<RegularFile> file;
  const bool is_remote = !options.address.empty();
  if (!is_stream && !is_remote) {
    DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("ingest", path));
    archive.stamp_ = opened.stamp();
    archive.size_ = opened.stamp().size_bytes;
    std::array<std::byte, 8> begin{};
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_at(opened.fd(), 0, begin, path));
    DLPIPE_ASSIGN_OR_RETURN(const Packing packing,
                            packing_of(std::span<const std::byte>(begin).first(count), path));
    if (packing == Packing::kNone) return archive;
    fd = opened.fd();
    file.push_back(std::move(opened));
  } else if (is_stream && ::isatty(fd) == 1) {
    return misuse("ingest",
                  "SRC is -, the standard input, which is a terminal; pipe an archive into it: `cat "
                  "shards-*.tar | dlpipe ingest - DST`");
  }
  if (options.scratch == nullptr) return misuse("ingest", "no scratch file to unpack ", archive.path_, " to");
  DLPIPE_ASSIGN_OR_RETURN(archive.scratch_, options.scratch->file());
  archive.begin_ = archive.scratch_->size_bytes();
  DLPIPE_RETURN_IF_ERROR(
      is_remote ? unpack_remote(*archive.scratch_, archive.path_, options, &archive.stamp_.modified_ns)
                : unpack_to(*archive.scratch_, fd, archive.path_, options));
  archive.size_ = archive.scratch_->size_bytes() - archive.begin_;
  if (!file.empty() && !file.front().is_unchanged()) return changed_since_listed(path, "changed");
  return archive;
}

Result<ArchiveBytes> ArchiveBytes::open_unpacked(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile opened, RegularFile::open("ingest", path));
  ArchiveBytes archive;
  archive.path_ = path;
  archive.stamp_ = opened.stamp();
  archive.size_ = opened.stamp().size_bytes;
  return archive;
}

ArchiveBytes ArchiveBytes::part(uint64_t begin, uint64_t size) const {
  ArchiveBytes piece = *this;
  piece.begin_ += begin;
  piece.size_ = size;
  return piece;
}

ArchiveBytes ArchiveBytes::rewritten(std::shared_ptr<ScratchFile> scratch, uint64_t begin) const {
  ArchiveBytes made = *this;
  made.begin_ = begin;
  made.size_ = scratch->size_bytes() - begin;
  made.scratch_ = std::move(scratch);
  return made;
}

Status ArchiveBytes::read(uint64_t at, std::span<std::byte> to) const {
  if (at > size_ || to.size() > size_ - at)
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(path_), " ends before byte ",
                                              at + to.size(), "; download or make it again"));
  if (scratch_ != nullptr) return scratch_->read(begin_ + at, to);
  const auto file = RegularFile::open("ingest", path_);
  if (file.status().code() == ErrorCode::kNotFound) return changed_since_listed(path_, "changed");
  if (!file.ok()) return file.status();
  if (file->stamp() != stamp_) return changed_since_listed(path_, "changed");
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_at(file->fd(), begin_ + at, to, path_));
  return count == to.size() && file->is_unchanged() ? Status() : changed_since_listed(path_, "changed");
}

Result<std::vector<std::byte>> ArchiveBytes::read(uint64_t at, uint64_t size) const {
  if (at > size_ || size > size_ - at)
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(path_), " ends before byte ", at + size,
                                              "; download or make it again"));
  if (size > kMostPictureBytes)
    return Status(ErrorCode::kUnsupported, concat("[ingest] it has ", human_bytes(size), "; at most ",
                                                  human_bytes(kMostPictureBytes), " are read as one"));
  std::vector<std::byte> bytes(size);
  DLPIPE_RETURN_IF_ERROR(read(at, bytes));
  return bytes;
}

Result<Link> ArchiveBytes::where(uint64_t at, uint64_t size) const {
  if (scratch_ == nullptr) return Link{path_, begin_ + at, size, false};
  return misuse("ingest", "--store link leaves pictures where they are, and ", printable(path_),
                " is packed or not on this disk; unpack it, or leave --store link out");
}

Result<size_t> ArchiveBytes::Scan::read(uint64_t at, std::span<std::byte> to) {
  const uint64_t left = at < archive_.size_ ? archive_.size_ - at : 0;
  to = to.first(std::min<uint64_t>(to.size(), left));
  if (to.empty()) return size_t{0};
  if (at < begin_ || at + to.size() > begin_ + filled_) {
    constexpr size_t kLeast = 4096;  // a header and what is small behind it
    if (archive_.scratch_ == nullptr && file_.empty()) {
      DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("ingest", archive_.path_));
      if (opened.stamp() != archive_.stamp_) return changed_since_listed(archive_.path_, "changed");
      file_.push_back(std::move(opened));
    }
    buffer_.resize(std::max(kLeast, to.size()));
    const auto into = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), left));
    begin_ = at;
    filled_ = 0;
    if (archive_.scratch_ != nullptr) {
      DLPIPE_RETURN_IF_ERROR(archive_.scratch_->read(archive_.begin_ + at, into));
      filled_ = into.size();
    } else {
      DLPIPE_ASSIGN_OR_RETURN(filled_,
                              read_at(file_.front().fd(), archive_.begin_ + at, into, archive_.path_));
      if (filled_ < into.size()) return changed_since_listed(archive_.path_, "changed");
    }
  }
  std::copy_n(buffer_.begin() + static_cast<ptrdiff_t>(at - begin_), to.size(), to.begin());
  return to.size();
}

}  // namespace dlpipe::data
