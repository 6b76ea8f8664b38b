#include "dlpipe/io/data/sources/bytes/remote_file.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

// Of a read behind another one that is taken for the beginning of many.
constexpr uint64_t kNearBytes = uint64_t{1} << 20;
constexpr size_t kPullBytes = size_t{256} << 10;

Status became_shorter(const std::string& address) {
  return {ErrorCode::kChanged,
          concat("[ingest] ", printable(shown_address(address)),
                 ": it ended before its last byte; ingest again when it no longer changes")};
}

bool copy_from(std::span<const std::byte> bytes, uint64_t begin, uint64_t at, std::span<std::byte> to) {
  if (at < begin || at - begin > bytes.size() || to.size() > bytes.size() - (at - begin)) return false;
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at - begin), to.size(), to.begin());
  return true;
}

}  // namespace

// What a file that is given back takes its own mutex for is done without this one.
void RemoteWindows::used(const std::shared_ptr<RemoteFile>& file) {
  std::shared_ptr<RemoteFile> oldest;
  {
    const MutexLock lock(mutex_);
    std::erase_if(files_, [&](const std::weak_ptr<RemoteFile>& one) {
      const auto other = one.lock();
      return other == nullptr || other == file;
    });
    files_.push_back(file);
    if (files_.size() > kMost) {
      oldest = files_.front().lock();
      files_.erase(files_.begin());
    }
  }
  if (oldest != nullptr) oldest->forget();
}

RemoteFile::RemoteFile(std::string address, std::function<bool()> stop_requested,
                       std::unique_ptr<RemoteStream> stream, std::vector<std::byte> begin,
                       std::shared_ptr<RemoteWindows> windows)
    : address_(std::move(address)),
      stop_requested_(std::move(stop_requested)),
      validator_(stream->validator()),
      size_(stream->parted_bytes()),
      windows_(std::move(windows)),
      stream_(std::move(stream)),
      window_(std::move(begin)) {}

void RemoteFile::forget() {
  const MutexLock lock(mutex_);
  stream_.reset();
  window_ = std::vector<std::byte>();  // {} would keep its memory
}

void RemoteFile::drop_kept() {
  const MutexLock lock(mutex_);
  kept_.clear();
}

Status RemoteFile::read(uint64_t at, std::span<std::byte> to) {
  windows_->used(shared_from_this());
  MutexLock lock(mutex_);
  DLPIPE_ASSIGN_OR_RETURN(const bool is_here, read_here(at, to));
  const bool follows = at >= last_end_ && at - last_end_ <= kNearBytes;
  last_end_ = at + to.size();
  if (is_here) return {};
  if (!follows) {
    lock.unlock();
    return read_apart(at, to);
  }
  DLPIPE_ASSIGN_OR_RETURN(
      stream_, RemoteStream::open(address_, stop_requested_, {.begin = at, .validator = validator_}));
  window_.clear();
  window_begin_ = at;
  DLPIPE_ASSIGN_OR_RETURN(const bool is_read, read_here(at, to));
  return is_read ? Status() : became_shorter(address_);
}

Result<bool> RemoteFile::read_here(uint64_t at, std::span<std::byte> to) {
  if (const auto next = kept_.upper_bound(at); next != kept_.begin()) {
    const auto& [begin, bytes] = *std::prev(next);
    if (copy_from(bytes, begin, at, to)) return true;
  }
  const bool can_go_on = stream_ != nullptr && at >= window_begin_ && at <= window_end() + kSkipBytes;
  if (can_go_on && at + to.size() > window_end()) DLPIPE_RETURN_IF_ERROR(pull(at + to.size()));
  if (!copy_from(window_, window_begin_, at, to)) return false;
  // What is behind is let go now and then, not at each read.
  const uint64_t behind = at > window_begin_ ? at - window_begin_ : 0;
  if (behind > 2 * kBehindBytes) {
    const uint64_t gone = behind - kBehindBytes;
    window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(gone));
    window_begin_ += gone;
  }
  return true;
}

Status RemoteFile::pull(uint64_t end) {
  while (window_end() < end) {
    const size_t filled = window_.size();
    const uint64_t left = end - window_end();
    window_.resize(filled + std::min<uint64_t>(left, kPullBytes));
    const auto count = stream_->read(std::span(window_).subspan(filled));
    window_.resize(filled + (count.ok() ? *count : 0));
    if (!count.ok()) stream_.reset();
    DLPIPE_RETURN_IF_ERROR(count.status());
    if (*count == 0) return became_shorter(address_);
  }
  return {};
}

Status RemoteFile::read_apart(uint64_t at, std::span<std::byte> to) const {
  DLPIPE_ASSIGN_OR_RETURN(const auto stream,
                          RemoteStream::open(address_, stop_requested_, {at, at + to.size(), validator_}));
  while (!to.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, stream->read(to));
    if (count == 0) return became_shorter(address_);
    to = to.subspan(count);
  }
  return {};
}

Status RemoteFile::keep(uint64_t at, uint64_t size) {
  std::vector<std::byte> bytes(size);
  DLPIPE_RETURN_IF_ERROR(read(at, bytes));
  const MutexLock lock(mutex_);
  kept_.emplace(at, std::move(bytes));
  return {};
}

}  // namespace dlpipe::data
