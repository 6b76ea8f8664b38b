#include "io/data/sources/bytes/archive_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/sources/bytes/remote.h"
#include "io/data/sources/bytes/unpack.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

Result<size_t> read_piece(int fd, std::span<std::byte> to, const std::string& name) {
  while (true) {
    const ssize_t count = ::read(fd, to.data(), to.size());
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return status_from_errno("ingest", concat("cannot read ", name), errno);
  }
}

/// Returns fewer bytes than `to` holds only at the end.
Result<size_t> fill_from(RemoteStream& stream, std::span<std::byte> to) {
  size_t filled = 0;
  while (filled < to.size()) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, stream.read(to.subspan(filled)));
    if (count == 0) break;
    filled += count;
  }
  return filled;
}

// HTTP's times are in whole seconds. The nanoseconds hold a hash of the content's identity, so that a resumed ingest detects
// that the file has changed.
int64_t marked_time(const RemoteStream& stream) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t mark = checksum64(std::as_bytes(std::span(stream.validator()))) % kSecond;
  return stream.modified_ns() + static_cast<int64_t>(stream.validator().empty() ? 0 : mark);
}

/// Sets `input_bytes` to the number of bytes received.
Status unpack_to(ScratchFile& scratch, int fd, const std::string& name, const SourceOptions& options,
                 IsZlib is_zlib, uint64_t* input_bytes) {
  *input_bytes = 0;
  const auto read = [&](std::span<std::byte> to) -> Result<size_t> {
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled, concat("[ingest] stopped while ", name, " was being unpacked"));
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_piece(fd, to, name));
    *input_bytes += count;
    return count;
  };
  return unpack(
      read, [&](std::span<const std::byte> bytes) { return scratch.append(bytes); }, name, is_zlib);
}

}  // namespace

Result<ArchiveBytes> ArchiveBytes::open(const std::string& path, const SourceOptions& options,
                                        IsZlib is_zlib) {
  ArchiveBytes archive;
  const bool is_stream = path == "-";
  archive.path_ = is_stream ? "standard input" : path;
  int fd = STDIN_FILENO;
  std::vector<RegularFile> file;
  const bool is_remote = !options.address.empty();
  if (is_remote) {
    DLPIPE_RETURN_IF_ERROR(archive.open_remote(options, is_zlib));
    return archive;
  }
  if (!is_stream) {
    DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("ingest", path));
    archive.stamp_ = opened.stamp();
    archive.size_ = archive.input_bytes_ = opened.stamp().size_bytes;
    std::array<std::byte, 16> begin{};
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_at(opened.fd(), 0, begin, path));
    DLPIPE_ASSIGN_OR_RETURN(const Packing packing,
                            packing_of(std::span<const std::byte>(begin).first(count), path, is_zlib));
    if (packing == Packing::kNone) return archive;
    fd = opened.fd();
    file.push_back(std::move(opened));
  } else if (is_stream && ::isatty(fd) == 1) {
    return misuse("ingest",
                  "SRC is - (standard input), which is a terminal; pipe an archive into it: `cat "
                  "shards-*.tar | dlpipe ingest - DST`");
  }
  if (options.scratch == nullptr)
    return misuse("ingest", "there is no scratch file to unpack ", archive.path_, " to");
  DLPIPE_ASSIGN_OR_RETURN(archive.scratch_, options.scratch->file());
  archive.begin_ = archive.scratch_->size_bytes();
  DLPIPE_RETURN_IF_ERROR(
      unpack_to(*archive.scratch_, fd, archive.path_, options, is_zlib, &archive.input_bytes_));
  archive.size_ = archive.scratch_->size_bytes() - archive.begin_;
  if (!file.empty() && !file.front().is_unchanged()) return changed_since_listed(path, "changed");
  return archive;
}

// A plain archive is read remotely if the server supports ranges and identifies the content that they belong to. All others are
// downloaded completely.
Status ArchiveBytes::open_remote(const SourceOptions& options, IsZlib is_zlib) {
  if (options.scratch == nullptr)
    return misuse("ingest", "there is no scratch file to unpack ", path_, " to");
  DLPIPE_ASSIGN_OR_RETURN(auto stream, RemoteStream::open(options.address, options.stop_requested));
  std::vector<std::byte> begin(512);
  DLPIPE_ASSIGN_OR_RETURN(const size_t filled, fill_from(*stream, begin));
  begin.resize(filled);
  stamp_.modified_ns = marked_time(*stream);
  DLPIPE_ASSIGN_OR_RETURN(const Packing packing, packing_of(begin, path_, is_zlib));
  if (packing == Packing::kNone && stream->parted_bytes() > 0 && !stream->validator().empty()) {
    remote_ = std::make_shared<RemoteFile>(options.address, options.stop_requested, std::move(stream),
                                           std::move(begin), options.scratch->windows());
    size_ = input_bytes_ = remote_->size_bytes();
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(scratch_, options.scratch->file());
  begin_ = scratch_->size_bytes();
  std::span<const std::byte> first = begin;
  const auto read = [&](std::span<std::byte> to) -> Result<size_t> {
    size_t count = std::min(first.size(), to.size());
    std::copy_n(first.begin(), count, to.begin());
    first = first.subspan(count);
    if (count == 0) {
      DLPIPE_ASSIGN_OR_RETURN(count, stream->read(to));
    }
    input_bytes_ += count;
    return count;
  };
  DLPIPE_RETURN_IF_ERROR(unpack(
      read, [&](std::span<const std::byte> bytes) { return scratch_->append(bytes); }, path_, is_zlib));
  size_ = scratch_->size_bytes() - begin_;
  return {};
}

Result<ArchiveBytes> ArchiveBytes::open_unpacked(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile opened, RegularFile::open("ingest", path));
  ArchiveBytes archive;
  archive.path_ = path;
  archive.stamp_ = opened.stamp();
  archive.size_ = archive.input_bytes_ = opened.stamp().size_bytes;
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
  made.remote_ = nullptr;
  return made;
}

Status ArchiveBytes::read(uint64_t at, std::span<std::byte> to) const {
  if (at > size_ || to.size() > size_ - at)
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(path_), " ends before byte ",
                                              at + to.size(), "; download or create it again"));
  if (scratch_ != nullptr) return scratch_->read(begin_ + at, to);
  if (remote_ != nullptr) return remote_->read(begin_ + at, to);
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
                                              "; download or create it again"));
  const uint64_t most = std::min(kMostImageBytes, ReadBudget::most(input_bytes_));
  if (size > most)
    return Status(
        ErrorCode::kUnsupported,
        concat(
            "[ingest] it has ", human_bytes(size), "; the limit for one file is ", human_bytes(most),
            most < kMostImageBytes ? concat(" in a compressed archive of ", human_bytes(input_bytes_)) : ""));
  std::vector<std::byte> bytes(size);
  DLPIPE_RETURN_IF_ERROR(read(at, bytes));
  return bytes;
}

Result<std::vector<std::byte>> ArchiveBytes::read_image(uint64_t at, uint64_t size) const {
  constexpr uint64_t kLarge = uint64_t{1} << 20;  // for smaller ones, a look costs more than it saves
  constexpr uint64_t kLook = 64;
  if (size > kLarge) {
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> begin, read(at, kLook));
    if (sniff_layout(begin) == ImageLayout::kNone) return probe_image(begin).status();
  }
  return read(at, size);
}

Result<Link> ArchiveBytes::where(uint64_t at, uint64_t size) const {
  if (scratch_ == nullptr && remote_ == nullptr) return Link{path_, begin_ + at, size, false};
  return misuse("ingest", "only images in files and tar archives on this disk can be linked, but ",
                printable(path_), " is compressed or elsewhere; unpack it to this disk");
}

Result<size_t> ArchiveBytes::Scan::read(uint64_t at, std::span<std::byte> to) {
  const uint64_t left = at < archive_.size_ ? archive_.size_ - at : 0;
  to = to.first(std::min<uint64_t>(to.size(), left));
  if (to.empty()) return size_t{0};
  if (at < begin_ || at + to.size() > begin_ + filled_) {
    constexpr size_t kLeast = 4096;  // a header and small contents after it
    const bool is_file = archive_.scratch_ == nullptr && archive_.remote_ == nullptr;
    if (is_file && file_.empty()) {
      DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("ingest", archive_.path_));
      if (opened.stamp() != archive_.stamp_) return changed_since_listed(archive_.path_, "changed");
      file_.push_back(std::move(opened));
    }
    buffer_.resize(std::max(kLeast, to.size()));
    const auto into = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), left));
    begin_ = at;
    filled_ = 0;
    if (!is_file) {
      DLPIPE_RETURN_IF_ERROR(archive_.read(at, into));
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

void ArchiveBytes::drop_kept() const {
  if (remote_ != nullptr) remote_->drop_kept();
}

Status ArchiveBytes::Scan::keep(uint64_t at, uint64_t size) {
  return archive_.remote_ != nullptr && size > 0 ? archive_.remote_->keep(archive_.begin_ + at, size)
                                                 : Status();
}

}  // namespace dlpipe::data
