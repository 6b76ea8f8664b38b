#include "dlpipe/io/data/dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/header_table.h"
#include "dlpipe/io/data/lmdb_env.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

struct Dataset::Impl {
  std::string directory;
  uint64_t file_bytes = 0;
  EnvPtr env;
  MDB_dbi records = 0;
  MDB_dbi skipped = 0;
  bool has_skipped = false;
  TxnPtr txn;  // open for the Dataset's life: it keeps the header chunks' addresses valid
  DatasetInfo info;
  std::optional<RecordLayout> layout;
  std::vector<const std::byte*> header_chunks;  // one a value, kRowsPerChunk rows each

  Status open_env();
  Status open_tables();
  Status load_info(MDB_dbi meta);
  Status load_header_chunks(MDB_dbi headers);
  RecordHeader row(int64_t sample) const {
    const std::byte* chunk = header_chunks[static_cast<size_t>(sample / kRowsPerChunk)];
    return load_row({chunk + (sample % kRowsPerChunk) * kRowBytes, kRowBytes});
  }
  Status check_sample(int64_t sample) const {
    if (sample >= 0 && sample < info.samples) return {};
    return Status(ErrorCode::kMisuse, concat("[dataset] sample ", sample, " of ", directory, ", which has ",
                                             info.samples, " samples"));
  }
  Status damaged(std::string_view what) const {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory, ": ", what, "; copy or ingest the dataset again"));
  }
};

Status Dataset::Impl::open_env() {
  const std::string file = directory + "/data.mdb";
  struct stat stat {};
  if (::stat(file.c_str(), &stat) != 0)
    return status_from_errno("dataset", concat("cannot open ", file), errno);
  file_bytes = static_cast<uint64_t>(stat.st_size);
  if (file_bytes == 0) return damaged("data.mdb is empty");  // LMDB would answer "Bad file descriptor"

  MDB_env* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(lmdb_status(mdb_env_create(&raw), "creating an environment", directory));
  env.reset(raw);
  mdb_env_set_maxdbs(raw, 8);
  // The dataset never changes: no lock file, no reader table, and the map needs no room to grow.
  unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;
  // Readahead around random records evicts useful pages once the file doesn't fit the memory.
  if (file_bytes > available_memory_bytes()) flags |= MDB_NORDAHEAD;
  DLPIPE_RETURN_IF_ERROR(
      lmdb_status(mdb_env_set_mapsize(raw, std::max<uint64_t>(file_bytes, 1 << 16)), "mapping", directory));
  DLPIPE_RETURN_IF_ERROR(
      lmdb_status(mdb_env_open(raw, directory.c_str(), flags, 0444), "opening data.mdb", directory));

  // A file cut short still opens; touching a page that is not there would be a SIGBUS.
  MDB_envinfo env_info{};
  MDB_stat env_stat{};
  mdb_env_info(raw, &env_info);
  mdb_env_stat(raw, &env_stat);
  const uint64_t needed = (uint64_t{env_info.me_last_pgno} + 1) * env_stat.ms_psize;
  if (file_bytes < needed)
    return damaged(concat("data.mdb has ", file_bytes, " bytes of ", needed, ": it was cut short"));
  return {};
}

Status Dataset::Impl::load_info(MDB_dbi meta) {
  MDB_val key = value_of(kDatasetKey);
  MDB_val value{};
  const int code = mdb_get(txn.get(), meta, &key, &value);
  if (code == MDB_NOTFOUND) {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory,
                         " is incomplete: its ingest was interrupted; run the same ingest command again"));
  }
  DLPIPE_RETURN_IF_ERROR(lmdb_status(code, "reading the description", directory));
  auto parsed = parse_dataset_info(text_of(value));
  if (!parsed.ok()) return parsed.status().with_context(concat("[dataset] ", directory, ": "));
  info = *std::move(parsed);
  layout.emplace(info.schema.fields);
  return {};
}

Status Dataset::Impl::load_header_chunks(MDB_dbi headers) {
  MDB_cursor* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(
      lmdb_status(mdb_cursor_open(txn.get(), headers, &raw), "opening the header table", directory));
  const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, mdb_cursor_close);
  const int64_t chunks = (info.samples + kRowsPerChunk - 1) / kRowsPerChunk;
  MDB_val key{};
  MDB_val value{};
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT);
    if (code == MDB_NOTFOUND) return damaged("the header table is too short");
    DLPIPE_RETURN_IF_ERROR(lmdb_status(code, "reading the header table", directory));
    const int64_t rows = std::min(kRowsPerChunk, info.samples - chunk * kRowsPerChunk);
    if (key.mv_size != sizeof(uint64_t) ||
        load_le<uint64_t>(bytes_of(key), 0) != static_cast<uint64_t>(chunk) ||
        value.mv_size != static_cast<size_t>(rows) * kRowBytes)
      return damaged(concat("chunk ", chunk, " of the header table is malformed"));
    header_chunks.push_back(bytes_of(value).data());
  }
  return {};
}

Status Dataset::Impl::open_tables() {
  MDB_txn* raw = nullptr;
  // Handles outlive a transaction only if it is committed, so they are opened in one of their own.
  DLPIPE_RETURN_IF_ERROR(
      lmdb_status(mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &raw), "beginning to read", directory));
  txn.reset(raw);
  MDB_dbi meta = 0;
  MDB_dbi headers = 0;
  const auto open = [&](const char* name, MDB_dbi* dbi) -> Status {
    const int code = mdb_dbi_open(txn.get(), name, 0, dbi);
    if (code == MDB_NOTFOUND) return damaged(concat("it has no database '", name, "'"));
    return lmdb_status(code, concat("opening '", name, "'"), directory);
  };
  DLPIPE_RETURN_IF_ERROR(open(kMetaDb, &meta));
  DLPIPE_RETURN_IF_ERROR(open(kHeadersDb, &headers));
  DLPIPE_RETURN_IF_ERROR(open(kRecordsDb, &records));
  has_skipped = mdb_dbi_open(txn.get(), kSkippedDb, 0, &skipped) == MDB_SUCCESS;
  DLPIPE_RETURN_IF_ERROR(lmdb_status(mdb_txn_commit(txn.release()), "opening the tables", directory));
  DLPIPE_RETURN_IF_ERROR(
      lmdb_status(mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &raw), "beginning to read", directory));
  txn.reset(raw);
  DLPIPE_RETURN_IF_ERROR(load_info(meta));
  return load_header_chunks(headers);
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dataset::~Dataset() = default;

std::vector<std::string> split_names(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  if (fs::exists(directory + "/data.mdb", error)) return names;
  for (auto it = fs::directory_iterator(directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "data.mdb", ignored)) names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::string& directory, std::string_view split) {
  namespace fs = std::filesystem;
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    if (error && error != std::errc::no_such_file_or_directory)
      return status_from_errno("dataset", concat("cannot open ", directory), error.value());
    return Status(ErrorCode::kNotFound, concat("[dataset] no dataset ", directory,
                                               "; make one with `dlpipe ingest SRC ", directory, "`"));
  }
  if (const std::vector<std::string> splits = split_names(directory); !splits.empty()) {
    if (split.empty() || std::find(splits.begin(), splits.end(), split) == splits.end()) {
      const std::string wanted = split.empty() ? "" : concat(" none of them '", split, "';");
      return Status(ErrorCode::kMisuse, concat("[dataset] ", directory, " holds ", splits.size(), " splits;",
                                               wanted, " name one, as ", directory, "/", splits.front()));
    }
    impl->directory += concat("/", split);
  } else if (!fs::exists(directory + "/data.mdb", error)) {
    return Status(ErrorCode::kNotFound,
                  concat("[dataset] ", directory, " is no dataset: it has no data.mdb; make one with ",
                         "`dlpipe ingest SRC DST`"));
  }
  DLPIPE_RETURN_IF_ERROR(impl->open_env());
  DLPIPE_RETURN_IF_ERROR(impl->open_tables());
  return std::shared_ptr<const Dataset>(new Dataset(std::move(impl)));
}

const std::string& Dataset::directory() const {
  return impl_->directory;
}
int64_t Dataset::size() const {
  return impl_->info.samples;
}
std::span<const Field> Dataset::fields() const {
  return impl_->info.schema.fields;
}
std::span<const std::string> Dataset::classes() const {
  return impl_->info.schema.classes;
}
std::span<const int64_t> Dataset::class_counts() const {
  return impl_->info.class_counts;
}
const PixelStats& Dataset::pixel_stats() const {
  return impl_->info.pixel_stats;
}
int64_t Dataset::records_per_value() const {
  return impl_->info.schema.records_per_value;
}
bool Dataset::compressed() const {
  return impl_->info.schema.zstd;
}
const std::string& Dataset::id() const {
  return impl_->info.id;
}
uint64_t Dataset::file_bytes() const {
  return impl_->file_bytes;
}

Result<RecordHeader> Dataset::header(int64_t sample) const {
  DLPIPE_RETURN_IF_ERROR(impl_->check_sample(sample));
  return impl_->row(sample);
}

void Dataset::prefetch_header(int64_t sample) const {
  if (sample < 0 || sample >= impl_->info.samples) return;
  __builtin_prefetch(impl_->header_chunks[static_cast<size_t>(sample / kRowsPerChunk)] +
                     (sample % kRowsPerChunk) * kRowBytes);
}

Result<std::vector<Dataset::Skipped>> Dataset::skipped() const {
  std::vector<Skipped> all;
  if (!impl_->has_skipped) return all;
  MDB_txn* raw_txn = nullptr;
  DLPIPE_RETURN_IF_ERROR(lmdb_status(mdb_txn_begin(impl_->env.get(), nullptr, MDB_RDONLY, &raw_txn),
                                     "beginning to read", directory()));
  const TxnPtr txn(raw_txn);
  MDB_cursor* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(lmdb_status(mdb_cursor_open(raw_txn, impl_->skipped, &raw),
                                     "opening the list of skipped files", directory()));
  const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, mdb_cursor_close);
  MDB_val key{};
  MDB_val value{};
  int code = 0;
  while ((code = mdb_cursor_get(raw, &key, &value, MDB_NEXT)) == MDB_SUCCESS) {
    const std::string_view text = text_of(value);
    const size_t end = std::min(text.find('\0'), text.size());
    all.push_back({std::string(text.substr(0, end)),
                   std::string(end < text.size() ? text.substr(end + 1) : std::string_view())});
  }
  if (code != MDB_NOTFOUND) return lmdb_status(code, "reading the list of skipped files", directory());
  return all;
}

namespace {

class LmdbReader final : public Dataset::Reader {
 public:
  LmdbReader(const Dataset::Impl& dataset, TxnPtr txn) : dataset_(dataset), txn_(std::move(txn)) {}

  Result<std::span<const std::byte>> stored(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, value(sample));
    if (per_value() == 1 || dataset_.info.schema.zstd) return bytes;
    return packed(bytes, sample);
  }

  Result<std::span<const std::byte>> record(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, stored(sample));
    return record_in(bytes, sample, dataset_.row(sample).size_bytes);
  }

  Result<std::span<const std::byte>> record_in(std::span<const std::byte> bytes, int64_t sample,
                                               uint32_t size_bytes) override {
    const size_t size = size_bytes;
    if (!dataset_.info.schema.zstd) {
      if (bytes.size() == size) return bytes;
      return dataset_.damaged(concat("sample ", sample, " has ", bytes.size(), " bytes of ", size));
    }
    if (per_value() > 1) {
      DLPIPE_ASSIGN_OR_RETURN(bytes, packed_by_offsets(bytes, sample));
    }
    try {
      scratch_.resize(size);
    } catch (...) {
      return status_from_current_exception("dataset");
    }
    const Status status = zstd_.decompress(bytes, scratch_);
    if (!status.ok()) return status.with_context(where(sample));
    return std::span<const std::byte>(scratch_);
  }

  Status check_packing(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, value(sample));
    if (per_value() == 1) return {};
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> by_offsets, packed_by_offsets(bytes, sample));
    if (dataset_.info.schema.zstd) return {};
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> by_sizes, packed(bytes, sample));
    if (by_offsets.data() == by_sizes.data() && by_offsets.size() == by_sizes.size()) return {};
    return dataset_.damaged(
        concat("the offsets around sample ", sample, " are not those of the header table"));
  }

 private:
  std::string where(int64_t sample) const {
    return concat("[dataset] sample ", sample, " of ", dataset_.directory, ": ");
  }

  int64_t per_value() const { return dataset_.info.schema.records_per_value; }

  Result<std::span<const std::byte>> value(int64_t sample) {
    DLPIPE_RETURN_IF_ERROR(dataset_.check_sample(sample));
    const auto number = static_cast<uint64_t>(sample / per_value());
    if (per_value() == 1) return find_value(number, sample);
    if (packed_values_.empty())
      packed_values_.resize(static_cast<size_t>((dataset_.info.samples - 1) / per_value() + 1));
    std::span<const std::byte>& found = packed_values_[number];
    if (found.empty()) {
      DLPIPE_ASSIGN_OR_RETURN(found, find_value(number, sample));
    }
    return found;
  }

  Result<std::span<const std::byte>> find_value(uint64_t number, int64_t sample) const {
    MDB_val key = key_of(number);
    MDB_val value{};
    const int code = mdb_get(txn_.get(), dataset_.records, &key, &value);
    if (code == MDB_NOTFOUND) return dataset_.damaged(concat("sample ", sample, " is missing"));
    if (code != MDB_SUCCESS)  // the text is not put together for every record
      return lmdb_status(code, concat("reading sample ", sample), dataset_.directory);
    return bytes_of(value);
  }

  // A packed value is u32 offsets[n + 1], counted from its start, and the n records.
  int64_t first_of_value(int64_t sample) const { return sample / per_value() * per_value(); }
  size_t offsets_bytes(int64_t sample) const {
    const int64_t count = std::min(per_value(), dataset_.info.samples - first_of_value(sample));
    return 4 * (static_cast<size_t>(count) + 1);
  }

  // Records that are not compressed have the sizes that the header table gives: adding them up finds the
  // record without touching the value, whose offsets may lie on another page that nobody has loaded.
  Result<std::span<const std::byte>> packed(std::span<const std::byte> value, int64_t sample) const {
    size_t begin = offsets_bytes(sample);
    for (int64_t before = first_of_value(sample); before < sample; ++before)
      begin += dataset_.row(before).size_bytes;
    const size_t size = dataset_.row(sample).size_bytes;
    if (begin > value.size() || size > value.size() - begin)
      return dataset_.damaged(concat("the value of sample ", sample, " is too short"));
    return value.subspan(begin, size);
  }

  Result<std::span<const std::byte>> packed_by_offsets(std::span<const std::byte> value,
                                                       int64_t sample) const {
    const size_t table_bytes = offsets_bytes(sample);
    const auto index = static_cast<size_t>(sample - first_of_value(sample));
    if (value.size() < table_bytes)
      return dataset_.damaged(concat("the value of sample ", sample, " is too short"));
    const size_t begin = load_le<uint32_t>(value, 4 * index);
    const size_t end = load_le<uint32_t>(value, 4 * index + 4);
    if (begin < table_bytes || end < begin || end > value.size())
      return dataset_.damaged(concat("the offsets around sample ", sample, " contradict each other"));
    return value.subspan(begin, end - begin);
  }

  const Dataset::Impl& dataset_;
  TxnPtr txn_;
  // Where packed values were found: a look-up takes as long as copying a small record, the map never moves,
  // and many records share a value.
  std::vector<std::span<const std::byte>> packed_values_;
  ZstdDecompressor zstd_;
  std::vector<std::byte> scratch_;
};

}  // namespace

Result<std::unique_ptr<Dataset::Reader>> Dataset::reader() const {
  MDB_txn* raw = nullptr;
  DLPIPE_RETURN_IF_ERROR(lmdb_status(mdb_txn_begin(impl_->env.get(), nullptr, MDB_RDONLY, &raw),
                                     "beginning to read", directory()));
  return std::unique_ptr<Reader>(std::make_unique<LmdbReader>(*impl_, TxnPtr(raw)));
}

Result<RecordView> parse_record(const Dataset& dataset, std::span<const std::byte> record) {
  const RecordLayout& layout = *dataset.impl().layout;
  RecordView view;
  view.fields.reserve(layout.field_count());
  for (size_t i = 0; i < layout.field_count(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, layout.field(record, i));
    view.fields.push_back(bytes);
  }
  if (layout.image_field() >= 0) view.image = view.fields[static_cast<size_t>(layout.image_field())];
  if (layout.label_field() >= 0)
    view.label = load_le<int64_t>(view.fields[static_cast<size_t>(layout.label_field())], 0);
  return view;
}

Result<std::span<const std::byte>> image_bytes(const Dataset& dataset, std::span<const std::byte> record) {
  const RecordLayout& layout = *dataset.impl().layout;
  if (layout.image_field() < 0) return std::span<const std::byte>();
  return layout.field(record, static_cast<size_t>(layout.image_field()));
}

Result<std::span<const std::byte>> field_bytes(const Dataset& dataset, std::span<const std::byte> record,
                                               std::string_view name) {
  const std::span<const Field> fields = dataset.fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return dataset.impl().layout->field(record, i);
  }
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return Status(ErrorCode::kNotFound,
                concat("[dataset] no field '", name, "' in ", dataset.directory(), suggestion(name, names)));
}

}  // namespace dlpipe::data
