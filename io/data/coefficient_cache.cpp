#include "io/data/coefficient_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/bytes.h"
#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "io/data/dataset_impl.h"

namespace dlpipe::data {

namespace {

// The head and the rows of the index have the same size, so that a torn write corrupts only one of them.
constexpr size_t kRow = 48;
constexpr size_t kRowSum = 40;
using RowBytes = std::array<std::byte, kRow>;
constexpr std::string_view kIndexMagic = "dlpcach1";
constexpr size_t kIdBytes = 16;

uint64_t size_of(int fd) {
  struct stat stat {};
  return ::fstat(fd, &stat) == 0 ? static_cast<uint64_t>(stat.st_size) : 0;
}

void close_row(RowBytes& row) {
  store_le(row.data() + kRowSum, checksum64(std::span(row).first(kRowSum)));
}
bool is_whole_row(std::span<const std::byte> row) {
  return load_le<uint64_t>(row, kRowSum) == checksum64(row.first(kRowSum));
}

RowBytes head_of(const CacheOptions& options) {
  RowBytes head{};
  std::memcpy(head.data(), kIndexMagic.data(), kIndexMagic.size());
  std::memcpy(head.data() + kIndexMagic.size(), options.dataset_id.data(),
              std::min(kIdBytes, options.dataset_id.size()));
  store_le(head.data() + kIndexMagic.size() + kIdBytes, static_cast<uint64_t>(options.samples));
  close_row(head);
  return head;
}

Result<int> open_to_grow(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(RegularFile file, RegularFile::open_to_write("cache", path, O_RDWR));
  return file.release();
}

Status others_file(const std::string& path) {
  return misuse("cache", path, " does not belong to a cache; use a separate directory, or move it away");
}

// A file that is changed in the same tick of the file system's clock in which it was read keeps its time.
constexpr int64_t kSettledNs = 100'000'000;

Status stays(const char* why) {
  return {ErrorCode::kUnsupported, why};
}

}  // namespace

CoefficientCache::CoefficientCache(CacheOptions options, int records_fd, int index_fd)
    : options_(std::move(options)),
      records_fd_(records_fd),
      index_fd_(index_fd),
      entries_(static_cast<size_t>(options_.samples)) {
  for (std::atomic<int64_t>& offer : offers_) offer.store(-1, std::memory_order_relaxed);
}

CoefficientCache::~CoefficientCache() {
  ::close(records_fd_);
  close_locked(index_fd_, process_);
}

Result<std::unique_ptr<CoefficientCache>> CoefficientCache::open(CacheOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error)
    return status_from_errno("cache", concat("cannot create the directory ", options.directory),
                             error.value());
  const std::string records_path = options.directory + "/records";
  if (!std::filesystem::exists(options.directory + "/index", error) &&
      std::filesystem::exists(records_path, error))
    return others_file(records_path);
  DLPIPE_ASSIGN_OR_RETURN(const int index, open_to_grow(options.directory + "/index"));
  if (::flock(index, LOCK_EX | LOCK_NB) != 0) {
    const std::string holder = lock_holder(index);
    ::close(index);
    return misuse("cache", options.directory, " is in use by another loader or run (", holder,
                  "); use a separate directory for each");
  }
  const auto records = open_to_grow(records_path);
  if (!records.ok()) {
    ::close(index);
    return records.status();
  }
  std::unique_ptr<CoefficientCache> cache(new CoefficientCache(std::move(options), *records, index));
  DLPIPE_RETURN_IF_ERROR(cache->load());
  return cache;
}

// An incomplete row is one whose write was interrupted by a kill or a full disk. The last row of a sample counts.
Status CoefficientCache::load() {
  std::vector<std::byte> index(size_of(index_fd_));
  DLPIPE_RETURN_IF_ERROR(read_bytes_at("cache", index_fd_, index, 0, index_path()));
  const RowBytes head = head_of(options_);
  const std::string_view begin(reinterpret_cast<const char*>(index.data()),
                               std::min(index.size(), kIndexMagic.size()));
  // A truncated (also empty) or corrupt index is a cache's if the records are. A corrupt one without records may be any file.
  const bool is_begin = kIndexMagic.starts_with(begin);
  if (!is_begin || begin.size() < kIndexMagic.size()) {
    std::vector<std::byte> record(std::min<uint64_t>(size_of(records_fd_), 4));
    DLPIPE_RETURN_IF_ERROR(read_bytes_at("cache", records_fd_, record, 0, records_path()));
    if (!is_begin && record.empty()) return others_file(index_path());
    if (!begins_as_coefficients(record)) return others_file(is_begin ? records_path() : index_path());
  }
  if (index.size() < kRow || std::memcmp(index.data(), head.data(), kRow) != 0) {
    if (!index.empty())
      log(LogLevel::kWarning,
          concat("[cache] ", options_.directory,
                 " holds records of another dataset, or its index is corrupt; it is filled "
                 "again"));
    return begin_anew();
  }
  end_ = size_of(records_fd_);
  rows_ = (index.size() + kRow - 1) / kRow - 1;
  for (size_t at = kRow; at + kRow <= index.size(); at += kRow) {
    const std::span<const std::byte> row = std::span(index).subspan(at, kRow);
    if (!is_whole_row(row)) continue;
    const auto sample = load_le<uint64_t>(row, 0);
    const auto begin = load_le<uint64_t>(row, 8);
    const auto size = load_le<uint64_t>(row, 16);
    if (sample >= entries_.size()) continue;
    Entry& entry = entries_[sample];
    entry.place = kNothing;
    if (size == 0 || size > UINT32_MAX || begin > end_ || size > end_ - begin) continue;
    entry.size_bytes = static_cast<uint32_t>(size);
    entry.stamp = load_le<uint64_t>(row, 24);
    entry.checksum = load_le<uint64_t>(row, 32);
    entry.place = kFirst + begin;
  }
  for (const Entry& entry : entries_) records_ += entry.place >= kFirst ? 1 : 0;
  return {};
}

Status CoefficientCache::begin_anew() {
  if (::ftruncate(records_fd_, 0) != 0 || ::ftruncate(index_fd_, 0) != 0)
    return status_from_errno("cache", concat("cannot empty ", options_.directory), errno);
  return write_bytes_at("cache", index_fd_, head_of(options_), 0, index_path());
}

std::optional<CoefficientCache::Found> CoefficientCache::find(int64_t sample) const {
  const Entry& entry = entries_[static_cast<size_t>(sample)];
  const uint64_t place = entry.place.load(std::memory_order_acquire);
  if (place < kFirst) return std::nullopt;
  return Found{place - kFirst, entry.size_bytes, entry.checksum, entry.stamp};
}

Status CoefficientCache::read(const Found& found, std::vector<std::byte>& to) const {
  to.resize(found.size_bytes);
  DLPIPE_RETURN_IF_ERROR(read_bytes_at("cache", records_fd_, to, found.begin, records_path()));
  if (checksum64(to) == found.checksum) return {};
  return Status(ErrorCode::kCorrupt, "[cache] its bytes differ from those that were written");
}

void CoefficientCache::withdraw(int64_t sample, const std::string& why) {
  const uint64_t place = entries_[static_cast<size_t>(sample)].place.exchange(kClaimed);
  if (place < kFirst) return;  // another thread has removed it already
  records_.fetch_sub(1, std::memory_order_relaxed);
  if (withdrawn_.fetch_add(1, std::memory_order_relaxed) == 0)
    log(LogLevel::kWarning, concat("[cache] the record of sample ", sample, " in ", options_.directory,
                                   " is not used, and its file is read instead: ", why,
                                   "; the stage table counts all such records"));
  (void)write_row(
      {.sample = static_cast<uint64_t>(sample)});  // if this is not written, the error is found again
}

bool CoefficientCache::claim(int64_t sample) {
  uint64_t nothing = kNothing;
  return entries_[static_cast<size_t>(sample)].place.compare_exchange_strong(nothing, kClaimed);
}

// First the bytes, then the row that refers to them, then the entry.
void CoefficientCache::append(int64_t sample, uint64_t stamp, std::span<const std::byte> record) {
  if (record.empty() || record.size() > UINT32_MAX || is_full() || !has_room(record.size() + kRow)) return;
  const uint64_t begin = end_.fetch_add(record.size());
  const Row row{static_cast<uint64_t>(sample), begin, record.size(), stamp, checksum64(record)};
  Status written = write_bytes_at("cache", records_fd_, record, begin, records_path());
  if (written.ok()) written = write_row(row);
  if (!written.ok()) {
    fill_up(written.message());
    return;
  }
  Entry& entry = entries_[static_cast<size_t>(sample)];
  entry.size_bytes = static_cast<uint32_t>(record.size());
  entry.stamp = stamp;
  entry.checksum = row.checksum;
  entry.place.store(kFirst + begin, std::memory_order_release);
  records_.fetch_add(1, std::memory_order_relaxed);
}

Status CoefficientCache::write_row(const Row& row) {
  RowBytes bytes{};
  size_t at = 0;
  for (const uint64_t value : {row.sample, row.begin, row.size_bytes, row.stamp, row.checksum}) {
    store_le(bytes.data() + at, value);
    at += sizeof value;
  }
  close_row(bytes);
  return write_bytes_at("cache", index_fd_, bytes, kRow * (1 + rows_.fetch_add(1)), index_path());
}

uint64_t CoefficientCache::bytes() const {
  return end_.load(std::memory_order_relaxed) + kRow * (1 + rows_.load(std::memory_order_relaxed));
}

bool CoefficientCache::has_room(uint64_t more) {
  if (options_.most_bytes > 0 && bytes() + more > options_.most_bytes) {
    fill_up(concat("its limit is ", human_bytes(options_.most_bytes), " (--cache-size)"));
    return false;
  }
  struct statvfs disk {};
  if (::fstatvfs(records_fd_, &disk) != 0) return true;  // a write will report it
  if (uint64_t{disk.f_bavail} * disk.f_frsize >= options_.keep_free_bytes + more) return true;
  fill_up(concat("less than ", human_bytes(options_.keep_free_bytes), " would be left on its disk"));
  return false;
}

void CoefficientCache::fill_up(const std::string& why) {
  if (fills_up_.exchange(true)) return;
  log(LogLevel::kWarning,
      concat("[cache] ", options_.directory, " stops growing at ", human_bytes(bytes()), ", ",
             human_count(records()), " of ", counted(options_.samples, "image"), ": ", why,
             "; the cached images are used, and other images are read from "
             "their files"));
  full_ = true;  // set after the message, so that a reader can rely on it
}

void CoefficientCache::offer(int64_t sample) {
  if (is_full()) return;
  const uint64_t number = offered_.fetch_add(1, std::memory_order_relaxed);
  offers_[number % kOffers].store(sample, std::memory_order_relaxed);
}

int64_t CoefficientCache::take_offer() {
  const uint64_t end = offered_.load(std::memory_order_relaxed);
  const uint64_t count = std::min<uint64_t>(end, kOffers);
  for (uint64_t i = 1; i <= count; ++i) {
    std::atomic<int64_t>& offer = offers_[(end - i) % kOffers];
    if (offer.load(std::memory_order_relaxed) < 0) continue;
    const int64_t sample = offer.exchange(-1, std::memory_order_relaxed);
    if (sample >= 0) return sample;
  }
  return -1;
}

Result<std::unique_ptr<CacheCoder>> CacheCoder::create(const Dataset& dataset, CoefficientCache& cache,
                                                       const DecodeLimits& limits) {
  DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
  return std::unique_ptr<CacheCoder>(new CacheCoder(dataset, cache, limits, std::move(reader)));
}

CacheCoder::CacheCoder(const Dataset& dataset, CoefficientCache& cache, const DecodeLimits& limits,
                       std::unique_ptr<Dataset::Reader> reader)
    : dataset_(dataset),
      cache_(cache),
      limits_(limits),
      reader_(std::move(reader)),
      linked_(*dataset.impl().layout, *dataset.links(), dataset.impl().late.get()),
      decoder_(limits) {}

Status CacheCoder::code(int64_t sample) {
  const RecordHeader header = dataset_.impl().row(sample);
  if (header.layout != ImageLayout::kJpeg) return stays("[cache] it is not a JPEG");
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> stored, reader_->stored_record(sample));
  DLPIPE_ASSIGN_OR_RETURN(const RecordStamp before, linked_.stamp(stored));
  if (before.age_ns < kSettledNs) return stays("[cache] the file was written just now");
  if (!cache_.claim(sample)) return {};
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, linked_.record(stored, header, sample));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> jpeg, image_bytes(dataset_, record));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> coded, encode(jpeg, header));
  DLPIPE_ASSIGN_OR_RETURN(const RecordStamp after, linked_.stamp(stored));
  if (after.value != before.value) return stays("[cache] the file changed while it was being read");
  cache_.append(sample, before.value, coded);
  return {};
}

// As in ingest: an image that decodes to other pixels is not stored.
Result<std::vector<std::byte>> CacheCoder::encode(std::span<const std::byte> jpeg,
                                                  const RecordHeader& header) {
  const bool swaps = swaps_axes(header.orientation);
  const int width = swaps ? header.height : header.width;
  const int height = swaps ? header.width : header.height;
  DLPIPE_RETURN_IF_ERROR(check_pixels({.width = width, .height = height}, limits_.max_pixels));
  const ptrdiff_t stride = ptrdiff_t{width} * header.channels;
  const size_t bytes = static_cast<size_t>(stride) * static_cast<size_t>(height);
  expected_.resize(bytes);
  decoded_.resize(bytes);
  const ImageView expected{expected_.data(), width, height, header.channels, stride};
  const ImageView decoded{decoded_.data(), width, height, header.channels, stride};
  DLPIPE_RETURN_IF_ERROR(encoder_.read(jpeg, limits_, &expected));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> coded, encoder_.encode(jpeg, kFastTiles));
  DLPIPE_RETURN_IF_ERROR(decoder_.decode(coded, {0, 0, width, height}, decoded));
  if (std::memcmp(expected_.data(), decoded_.data(), bytes) != 0)
    return stays("[cache] its coefficients decode to different pixels");
  return coded;
}

}  // namespace dlpipe::data
