#include "io/data/dataset_writer.h"

#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "io/data/linked_records.h"
#include "io/data/lmdb_file.h"
#include "io/data/schema.h"

namespace dlpipe::data {

namespace {

// Wraps LMDB in RAII and Status. Only writing needs LMDB: lmdb_file.h reads the file.

struct CloseEnv {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
struct AbortTxn {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using EnvPtr = std::unique_ptr<MDB_env, CloseEnv>;
using TxnPtr = std::unique_ptr<MDB_txn, AbortTxn>;  // release() before mdb_txn_commit

MDB_val value_of(std::span<const std::byte> bytes) {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}
MDB_val value_of(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}
MDB_val key_of(const uint64_t& number) {
  return {sizeof number, const_cast<uint64_t*>(&number)};
}
std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}
std::string_view text_of(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

// LMDB reports a short write as EIO; full disks and limits on file sizes are what cause short writes.
bool disk_is_full(const std::string& directory) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return false;
  constexpr uint64_t kNothingLeft = 1 << 20;
  return uint64_t{disk.f_bavail} * disk.f_frsize < kNothingLeft;
}

bool file_is_at_limit(const std::string& directory) {
  struct rlimit limit {};
  struct stat file {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  constexpr uint64_t kOneWrite = 64 << 20;  // more than LMDB writes in one call
  return stat((directory + "/data.mdb").c_str(), &file) == 0 &&
         static_cast<uint64_t>(file.st_size) + kOneWrite > limit.rlim_cur;
}

/// ok for 0; `what` names the step and the file. Full maps and disks become kNoSpace.
Status lmdb_status(int code, std::string_view what, const std::string& directory) {
  if (code == MDB_SUCCESS) return {};
  const std::string step = concat(what, " in ", directory);
  if (code == MDB_MAP_FULL) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] map full: ", step,
                         " needs more than the map reserved for it; run again with a larger --map-size"));
  }
  if (code == EFBIG || (code == EIO && file_is_at_limit(directory))) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] file too large: ", step,
                         " exceeds the limit on file sizes (ulimit -f); raise it and run again"));
  }
  if (code == ENOSPC || code == EDQUOT || (code == EIO && disk_is_full(directory))) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] no space left on the disk: ", step, "; free space and run again"));
  }
  if (code == ENOMEM) {
    return Status(ErrorCode::kOutOfMemory,
                  concat("[dataset] no address space: ", step,
                         " maps the whole file; raise ulimit -v (or ingest with a smaller --map-size)"));
  }
  if (code > 0) return status_from_errno("dataset", step, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_PANIC;
  return Status(damaged ? ErrorCode::kCorrupt : ErrorCode::kInternal,
                concat("[dataset] ", step, ": ", mdb_strerror(code),
                       damaged ? "; the file is corrupt or not a dataset: ingest or copy it again" : ""));
}

// Everything that a resumed writer must know, as one value of fixed size that each commit rewrites.
struct Progress {
  uint64_t position = 0;
  uint64_t samples = 0;
  PixelSums sums;
};
static_assert(sizeof(Progress) == 10 * sizeof(uint64_t));

/// The description as JSON; an error if readers would reject it.
Result<std::string> description_of(const DatasetInfo& info) {
  std::string description = to_json(info);
  const auto read = parse_dataset_info(description);
  if (read.ok()) return description;
  return Status(
      ErrorCode::kUnsupported,
      concat("[dataset] the names of ", info.schema.classes.size(), " classes and ",
             info.schema.fields.size(), " fields need a description of ", human_bytes(description.size()),
             ", which readers reject (", read.status().message(), "); use fewer or shorter names"));
}

// LMDB trusts the file's contents: a page number beyond the file, or an entry beyond its page, would crash the program.
Status check_file(const std::string& directory) {
  struct stat stat {};
  if (::stat((directory + "/data.mdb").c_str(), &stat) != 0 || stat.st_size == 0)
    return {};  // LMDB creates it
  DLPIPE_ASSIGN_OR_RETURN(const auto file, LmdbFile::open(directory));
  return file->check_all();
}

}  // namespace

struct DatasetWriter::Impl {
  std::string directory;
  Schema schema;
  uint64_t map_bytes = 0;
  Progress progress;
  bool finished = false;

  // The transaction in progress.
  EnvPtr env;
  TxnPtr txn;
  MDB_dbi records = 0, headers = 0, meta = 0, skips = 0;
  std::vector<std::byte> rows;                 // of the header chunk being filled
  std::vector<std::vector<std::byte>> packed;  // records of the value being filled
  bool rows_stored = false;                    // the chunk is in the file already, shorter
  bool packed_stored = false;                  // the value is in the file too

  Status open_env();
  Status begin();
  Status load_progress();
  Status load_open_ends();
  Status put_rows();
  Status put_packed();
  Status put(MDB_dbi dbi, uint64_t number, std::span<const std::byte> bytes, bool replaces, const char* what);
  Status put_meta(std::string_view name, std::string_view text);
  Status describe();
  Result<SkippedSum> sum_skipped();
  Status write_out(uint64_t position);
  Status check(int code, std::string_view what) const { return lmdb_status(code, what, directory); }
  int64_t per_value() const { return schema.records_per_value; }
};

Status DatasetWriter::Impl::open_env() {
  MDB_env* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(check(mdb_env_create(&raw), "creating an environment"));
  env.reset(raw);
  mdb_env_set_maxdbs(raw, 8);
  DLPIPE_RETURN_IF_ERROR(check(mdb_env_set_mapsize(raw, map_bytes), "setting the map size"));
  return check(mdb_env_open(raw, directory.c_str(), MDB_NOLOCK, 0644), "opening data.mdb");
}

Status DatasetWriter::Impl::begin() {
  if (txn != nullptr) return {};
  DLPIPE_RETURN_IF_ERROR(open_env());
  MDB_txn* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(check(mdb_txn_begin(env.get(), nullptr, 0, &raw), "beginning to write"));
  txn.reset(raw);
  const auto open = [&](const char* name, unsigned flags, MDB_dbi* dbi) {
    return check(mdb_dbi_open(raw, name, flags | MDB_CREATE, dbi), concat("opening '", name, "'"));
  };
  DLPIPE_RETURN_IF_ERROR(open(kMetaDb, 0, &meta));
  DLPIPE_RETURN_IF_ERROR(open(kHeadersDb, MDB_INTEGERKEY, &headers));
  DLPIPE_RETURN_IF_ERROR(open(kRecordsDb, MDB_INTEGERKEY, &records));
  DLPIPE_RETURN_IF_ERROR(open(kSkippedDb, MDB_INTEGERKEY, &skips));
  DLPIPE_RETURN_IF_ERROR(load_progress());
  return load_open_ends();
}

Status DatasetWriter::Impl::load_progress() {
  MDB_val key = value_of(kProgressKey);
  MDB_val value{};
  int code = mdb_get(txn.get(), meta, &key, &value);
  if (code == MDB_SUCCESS) {
    if (value.mv_size != sizeof progress)
      return Status(ErrorCode::kCorrupt, concat("[dataset] the progress stored in ", directory,
                                                " is malformed; remove it and ingest again"));
    std::memcpy(&progress, value.mv_data, sizeof progress);
    return {};
  }
  if (code != MDB_NOTFOUND) return check(code, "reading the progress");
  progress = {};
  key = value_of(kDatasetKey);
  code = mdb_get(txn.get(), meta, &key, &value);
  if (code == MDB_NOTFOUND) return {};
  DLPIPE_RETURN_IF_ERROR(check(code, "reading the description"));
  DLPIPE_ASSIGN_OR_RETURN(const DatasetInfo info, parse_dataset_info(text_of(value)));
  progress.samples = static_cast<uint64_t>(info.samples);
  finished = true;
  return {};
}

// A commit stores the header chunk and the packed value that are not full yet. The next transaction loads
// them and, when they have grown, stores them again.
Status DatasetWriter::Impl::load_open_ends() {
  rows.clear();
  packed.clear();
  rows_stored = packed_stored = false;
  if (finished) return {};
  const uint64_t samples = progress.samples;
  const auto damaged = [&] {
    return Status(ErrorCode::kCorrupt, concat("[dataset] the unfinished dataset ", directory,
                                              " is corrupt; remove it and ingest again"));
  };
  MDB_val value{};
  if (const uint64_t open_rows = samples % kRowsPerChunk; open_rows != 0) {
    const uint64_t number = samples / kRowsPerChunk;
    MDB_val key = key_of(number);
    DLPIPE_RETURN_IF_ERROR(check(mdb_get(txn.get(), headers, &key, &value), "reading the header table"));
    if (value.mv_size != open_rows * kRowBytes) return damaged();
    rows.assign(bytes_of(value).begin(), bytes_of(value).end());
    rows_stored = true;
  }
  const auto per = static_cast<uint64_t>(per_value());
  if (const uint64_t open_records = samples % per; per > 1 && open_records != 0) {
    const uint64_t number = samples / per;
    MDB_val key = key_of(number);
    DLPIPE_RETURN_IF_ERROR(check(mdb_get(txn.get(), records, &key, &value), "reading the last records"));
    const std::span<const std::byte> bytes = bytes_of(value);
    if (bytes.size() < 4 * (open_records + 1)) return damaged();
    for (size_t i = 0; i < open_records; ++i) {
      const size_t begin = load_le<uint32_t>(bytes, 4 * i);
      const size_t end = load_le<uint32_t>(bytes, 4 * i + 4);
      if (begin > end || end > bytes.size()) return damaged();
      packed.emplace_back(bytes.begin() + begin, bytes.begin() + end);
    }
    packed_stored = true;
  }
  return {};
}

Status DatasetWriter::Impl::put(MDB_dbi dbi, uint64_t number, std::span<const std::byte> bytes, bool replaces,
                                const char* what) {
  MDB_val key = key_of(number);
  MDB_val value = value_of(bytes);
  // MDB_APPEND fills pages completely; it rejects a key that exists already.
  return check(mdb_put(txn.get(), dbi, &key, &value, replaces ? 0 : MDB_APPEND), what);
}

Status DatasetWriter::Impl::put_meta(std::string_view name, std::string_view text) {
  MDB_val key = value_of(name);
  MDB_val value = value_of(text);
  return check(mdb_put(txn.get(), meta, &key, &value, 0), "writing the description");
}

Status DatasetWriter::Impl::put_rows() {
  const uint64_t chunk = (progress.samples - 1) / kRowsPerChunk;
  DLPIPE_RETURN_IF_ERROR(put(headers, chunk, rows, rows_stored, "writing the header table"));
  rows_stored = true;
  return {};
}

Status DatasetWriter::Impl::put_packed() {
  uint64_t size = 4 * (packed.size() + 1);
  for (const auto& record : packed) size += record.size();
  if (size > UINT32_MAX)
    return Status(ErrorCode::kUnsupported, concat("[dataset] ", packed.size(), " records packed together in ",
                                                  directory, " exceed 4 GB"));
  std::vector<std::byte> value(size);
  size_t at = 4 * (packed.size() + 1);
  for (size_t i = 0; i < packed.size(); ++i) {
    store_le(value.data() + 4 * i, static_cast<uint32_t>(at));
    if (!packed[i].empty()) std::memcpy(value.data() + at, packed[i].data(), packed[i].size());
    at += packed[i].size();
  }
  store_le(value.data() + 4 * packed.size(), static_cast<uint32_t>(at));
  const uint64_t number = (progress.samples - 1) / static_cast<uint64_t>(per_value());
  DLPIPE_RETURN_IF_ERROR(put(records, number, value, packed_stored, "writing records"));
  packed_stored = true;
  return {};
}

Result<SkippedSum> DatasetWriter::Impl::sum_skipped() {
  MDB_cursor* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(check(mdb_cursor_open(txn.get(), skips, &raw), "reading the skipped files"));
  const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, mdb_cursor_close);
  SkippedSum sum;
  MDB_val key{};
  MDB_val value{};
  int code = mdb_cursor_get(raw, &key, &value, MDB_FIRST);
  for (; code == MDB_SUCCESS; code = mdb_cursor_get(raw, &key, &value, MDB_NEXT))
    sum.add(bytes_of(key), bytes_of(value));
  if (code != MDB_NOTFOUND) DLPIPE_RETURN_IF_ERROR(check(code, "reading the skipped files"));
  return sum;
}

// Counts and id come from the finished header table in one pass.
Status DatasetWriter::Impl::describe() {
  DatasetInfo info;
  info.schema = schema;
  info.samples = static_cast<int64_t>(progress.samples);
  info.class_counts.resize(schema.classes.size());
  info.pixel_stats = progress.sums.stats();
  ImageLayout newest = ImageLayout::kNone;
  DatasetIdHash hash;
  for (uint64_t chunk = 0; chunk * kRowsPerChunk < progress.samples; ++chunk) {
    MDB_val key = key_of(chunk);
    MDB_val value{};
    DLPIPE_RETURN_IF_ERROR(check(mdb_get(txn.get(), headers, &key, &value), "reading the header table"));
    const std::span<const std::byte> bytes = bytes_of(value);
    hash.add_rows(bytes);
    for (size_t at = 0; at + kRowBytes <= bytes.size(); at += kRowBytes) {
      const RecordHeader row = load_row(bytes.subspan(at, kRowBytes));
      const int64_t label = row.label;
      newest = std::max(newest, row.layout);
      if (label >= 0 && label < static_cast<int64_t>(info.class_counts.size()))
        ++info.class_counts[static_cast<size_t>(label)];
    }
  }
  info.version = version_for(schema, newest);
  info.id = hash.id(info);
  DLPIPE_ASSIGN_OR_RETURN(info.skipped, sum_skipped());
  MDB_val key = value_of(kProgressKey);
  if (const int code = mdb_del(txn.get(), meta, &key, nullptr); code != MDB_NOTFOUND)
    DLPIPE_RETURN_IF_ERROR(check(code, "removing the progress"));
  DLPIPE_ASSIGN_OR_RETURN(const std::string description, description_of(info));
  return put_meta(kDatasetKey, description);
}

// Ends the transaction. The environment is closed too: pages that LMDB keeps for reuse would carry stale
// bytes of this transaction into the gaps of later pages, and two runs would differ.
Status DatasetWriter::Impl::write_out(uint64_t position) {
  progress.position = position;
  if (!rows.empty() && rows.size() < kRowBytes * kRowsPerChunk) DLPIPE_RETURN_IF_ERROR(put_rows());
  if (!packed.empty()) DLPIPE_RETURN_IF_ERROR(put_packed());
  return {};
}

DatasetWriter::DatasetWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DatasetWriter::~DatasetWriter() = default;

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::open(const std::string& directory, const Schema& schema,
                                                           uint64_t map_bytes) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->schema = schema;
  impl->map_bytes = map_bytes;
  DatasetInfo largest;  // must be readable, which is checked before any work is done
  largest.schema = schema;
  largest.class_counts.assign(schema.classes.size(), std::numeric_limits<int64_t>::max());
  DLPIPE_RETURN_IF_ERROR(description_of(largest).status());
  DLPIPE_RETURN_IF_ERROR(check_file(directory));
  DLPIPE_RETURN_IF_ERROR(impl->begin());
  impl->txn.reset();  // used only for reading: the first add begins the transaction that writes
  impl->env.reset();
  return std::unique_ptr<DatasetWriter>(new DatasetWriter(std::move(impl)));
}

int64_t DatasetWriter::samples() const {
  return static_cast<int64_t>(impl_->progress.samples);
}
uint64_t DatasetWriter::position() const {
  return impl_->progress.position;
}
bool DatasetWriter::finished() const {
  return impl_->finished;
}

void DatasetWriter::set_classes(std::vector<std::string> classes) {
  impl_->schema.classes = std::move(classes);
}

Status DatasetWriter::add(const PackedRecord& record) {
  Impl& w = *impl_;
  DLPIPE_RETURN_IF_ERROR(w.begin());
  const auto number = w.progress.samples++;
  w.progress.sums.add(record.pixel_sums);
  w.rows.resize(w.rows.size() + kRowBytes);
  store_row(w.rows.data() + w.rows.size() - kRowBytes, record.header);
  if (w.rows.size() == kRowBytes * kRowsPerChunk) {
    DLPIPE_RETURN_IF_ERROR(w.put_rows());
    w.rows.clear();
    w.rows_stored = false;
  }
  if (w.per_value() == 1) return w.put(w.records, number, record.stored, false, "writing a record");
  w.packed.push_back(record.stored);
  if (static_cast<int64_t>(w.packed.size()) == w.per_value()) {
    DLPIPE_RETURN_IF_ERROR(w.put_packed());
    w.packed.clear();
    w.packed_stored = false;
  }
  return {};
}

Status DatasetWriter::skip(uint64_t position, std::string_view path, std::string_view reason) {
  Impl& w = *impl_;
  DLPIPE_RETURN_IF_ERROR(w.begin());
  std::string text(path);
  text += '\0';
  text += reason;
  return w.put(w.skips, position, std::as_bytes(std::span(text)), false, "noting a skipped file");
}

Status DatasetWriter::commit(uint64_t position) {
  Impl& w = *impl_;
  DLPIPE_RETURN_IF_ERROR(w.begin());
  DLPIPE_RETURN_IF_ERROR(w.write_out(position));
  const auto progress = std::as_bytes(std::span(&w.progress, 1));
  DLPIPE_RETURN_IF_ERROR(
      w.put_meta(kProgressKey, {reinterpret_cast<const char*>(progress.data()), progress.size()}));
  Status status = w.check(mdb_txn_commit(w.txn.release()), "committing");
  w.env.reset();
  return status;
}

Status DatasetWriter::finish(uint64_t position) {
  Impl& w = *impl_;
  DLPIPE_RETURN_IF_ERROR(w.begin());
  if (w.finished) return {};
  DLPIPE_RETURN_IF_ERROR(w.write_out(position));
  DLPIPE_RETURN_IF_ERROR(w.describe());
  if (w.schema.late_checksums) DLPIPE_RETURN_IF_ERROR(LateChecksums::create(w.directory, samples()));
  Status status = w.check(mdb_txn_commit(w.txn.release()), "committing");
  w.env.reset();
  w.finished = status.ok();
  return status;
}

}  // namespace dlpipe::data
