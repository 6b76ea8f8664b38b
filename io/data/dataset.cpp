#include "dlpipe/dataset.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/dataset_impl.h"
#include "io/data/linked_records.h"
#include "io/data/schema.h"

namespace dlpipe::data {

using Bytes = LmdbFile::Bytes;

Status Dataset::Impl::open_tables() {
  DLPIPE_ASSIGN_OR_RETURN(file, LmdbFile::open(directory));
  const auto table = [&](std::string_view name) -> Result<LmdbFile::Tree> {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<LmdbFile::Tree> tree, file->tree(name));
    if (!tree) return damaged(concat("it has no database '", name, "'"));
    return *tree;
  };
  DLPIPE_ASSIGN_OR_RETURN(const LmdbFile::Tree meta, table(kMetaDb));
  DLPIPE_ASSIGN_OR_RETURN(const LmdbFile::Tree headers, table(kHeadersDb));
  DLPIPE_ASSIGN_OR_RETURN(records, table(kRecordsDb));
  DLPIPE_ASSIGN_OR_RETURN(skipped, file->tree(kSkippedDb));
  DLPIPE_RETURN_IF_ERROR(load_info(meta));
  return load_header_chunks(headers);
}

Status Dataset::Impl::load_info(const LmdbFile::Tree& meta) {
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<Bytes> text, file->find(meta, kDatasetKey));
  if (!text) {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory,
                         " is incomplete: its ingest was interrupted; run the same ingest command again"));
  }
  auto parsed = parse_dataset_info({reinterpret_cast<const char*>(text->data()), text->size()});
  if (!parsed.ok()) return parsed.status().with_context(concat("[dataset] ", directory, ": "));
  info = *std::move(parsed);
  layout.emplace(info.schema.fields);
  if (!info.schema.late_checksums) return {};
  DLPIPE_ASSIGN_OR_RETURN(late, LateChecksums::open(directory, info.samples));
  return {};
}

Status Dataset::Impl::load_header_chunks(const LmdbFile::Tree& headers) {
  int64_t rows_left = info.samples;
  const Status status = file->walk(headers, [&](Bytes key, Bytes value) {
    const auto chunk = static_cast<int64_t>(header_chunks.size());
    const int64_t rows = std::min(kRowsPerChunk, rows_left);
    if (key.size() != sizeof(uint64_t) || load_le<uint64_t>(key, 0) != static_cast<uint64_t>(chunk) ||
        value.size() != static_cast<size_t>(rows) * kRowBytes || rows == 0)
      return damaged(concat("chunk ", chunk, " of the header table is malformed"));
    header_chunks.push_back(value.data());
    rows_left -= rows;
    return Status();
  });
  DLPIPE_RETURN_IF_ERROR(status);
  return rows_left == 0 ? Status() : damaged("the header table is too short");
}

Bytes Dataset::Impl::chunk_rows(size_t chunk) const {
  const int64_t first = static_cast<int64_t>(chunk) * kRowsPerChunk;
  return {header_chunks[chunk],
          static_cast<size_t>(std::min(kRowsPerChunk, info.samples - first)) * kRowBytes};
}

// One pass over the header table. Sizes are compared here so that no reader or batch allocates more than the file can hold.
Status Dataset::Impl::check_rows(bool* same_id) const {
  DatasetIdHash hash;
  std::vector<int64_t> counts(info.class_counts.size());
  uint64_t record_bytes = 0;
  size_t least_bytes = std::numeric_limits<size_t>::max();
  for (size_t chunk = 0; chunk < header_chunks.size(); ++chunk) {
    const Bytes rows = chunk_rows(chunk);
    hash.add_rows(rows);
    for (size_t at = 0; at < rows.size(); at += kRowBytes) {
      const RecordHeader row = load_row(rows.subspan(at, kRowBytes));
      record_bytes += row.size_bytes;
      least_bytes = std::min<size_t>(least_bytes, row.size_bytes);
      if (row.label >= 0 && row.label < static_cast<int64_t>(counts.size()))
        ++counts[static_cast<size_t>(row.label)];
    }
  }
  *same_id = info.is_whole && hash.id(info) == info.id && counts == info.class_counts;
  if (!*same_id) return {};
  if (info.schema.is_plain() && record_bytes > file->size_bytes())
    return damaged(concat("its header table claims ", record_bytes, " bytes of records"));
  if (least_bytes < layout->least_bytes())
    return damaged(concat("a record of ", least_bytes, " bytes is too small for its fields"));
  return {};
}

Status Dataset::check_id() const {
  bool same = false;
  DLPIPE_RETURN_IF_ERROR(impl_->check_rows(&same));
  if (same) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[dataset] ", directory(),
                       " is corrupt: its header table, classes, counts, statistics or description do "
                       "not match its id ",
                       id(), "; `dlpipe verify ", shell_word(directory()),
                       "` lists the samples; copy or ingest the dataset again"));
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dataset::~Dataset() = default;

Result<std::vector<std::string>> split_names(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  if (fs::exists(directory + "/data.mdb", error)) return names;
  for (auto it = fs::directory_iterator(directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "data.mdb", ignored)) names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    return status_from_errno("dataset", concat("cannot list ", directory), error.value());
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> holds_dataset(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/data.mdb", ignored)) return true;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> splits, split_names(path));
  return !splits.empty();
}

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::string& directory, std::string_view split,
                                                     IdCheck check) {
  namespace fs = std::filesystem;
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    if (error && error != std::errc::no_such_file_or_directory)
      return status_from_errno("dataset", concat("cannot open ", directory), error.value());
    if (fs::is_other(directory, error))
      return Status(ErrorCode::kNotFound,
                    concat("[dataset] ", directory, " is a pipe or a device, not a dataset"));
    if (fs::exists(directory, error))
      return Status(ErrorCode::kNotFound,
                    concat("[dataset] ", directory,
                           " is a file, not a dataset; make a dataset from it with `dlpipe ingest ",
                           shell_word(directory), " DST`"));
    return Status(ErrorCode::kNotFound,
                  concat("[dataset] there is no dataset ", directory, "; make one with `dlpipe ingest SRC ",
                         shell_word(directory), "`"));
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> splits, split_names(directory));
  if (!splits.empty()) {
    if (split.empty() || std::find(splits.begin(), splits.end(), split) == splits.end()) {
      const std::string wanted = split.empty() ? "" : concat(", but not '", split, "'");
      return misuse("dataset", directory, " holds ", counted(static_cast<int64_t>(splits.size()), "split"),
                    wanted, "; name one, such as ", directory, "/", splits.front());
    }
    impl->directory += concat("/", split);
  } else if (!fs::exists(directory + "/data.mdb", error)) {
    return Status(ErrorCode::kNotFound,
                  concat("[dataset] ", directory, " is not a dataset: it has no data.mdb; give the DST of ",
                         "`dlpipe ingest SRC DST`"));
  }
  try {
    DLPIPE_RETURN_IF_ERROR(impl->open_tables());
    std::shared_ptr<const Dataset> dataset(new Dataset(std::move(impl)));
    if (check == IdCheck::kRefuse) DLPIPE_RETURN_IF_ERROR(dataset->check_id());
    return dataset;
  } catch (...) {
    return status_from_current_exception("dataset");
  }
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
const std::optional<std::string>& Dataset::links() const {
  return impl_->info.schema.links;
}
bool Dataset::has_late_checksums() const {
  return impl_->late != nullptr;
}
Result<int64_t> Dataset::known_checksums() const {
  return impl_->late == nullptr ? Result<int64_t>(size()) : impl_->late->known();
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
int Dataset::format_version() const {
  return impl_->info.version;
}
uint64_t Dataset::file_bytes() const {
  return impl_->file->size_bytes();
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
  const std::optional<SkippedSum>& written = impl_->info.skipped;
  SkippedSum sum;
  std::optional<uint64_t> before;
  const auto take = [&](Bytes key, Bytes value) {
    const uint64_t place = key.size() == sizeof(uint64_t) ? load_le<uint64_t>(key, 0) : 0;
    if (key.size() != sizeof place || (before && place <= *before))
      return impl_->damaged("the list of skipped files is malformed");
    before = place;
    sum.add(key, value);
    const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
    const size_t end = std::min(text.find('\0'), text.size());
    all.push_back({std::string(text.substr(0, end)),
                   std::string(end < text.size() ? text.substr(end + 1) : std::string_view()), place});
    return Status();
  };
  if (impl_->skipped) DLPIPE_RETURN_IF_ERROR(impl_->file->walk(*impl_->skipped, take));
  if (written && sum != *written)
    return impl_->damaged("the list of skipped files differs from the one that was written");
  return all;
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

namespace {

/// Finds a record in its LMDB value and unpacks it.
class LmdbReader final : public Dataset::Reader {
 public:
  LmdbReader(const Dataset::Impl& dataset, CoefficientCache* cache) : dataset_(dataset) {
    const Schema& schema = dataset.info.schema;
    if (schema.links) linked_.emplace(*dataset.layout, *schema.links, dataset.late.get(), cache);
  }

  Result<std::span<const std::byte>> stored(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, value(sample));
    if (per_value() == 1 || !is_plain()) return bytes;
    return packed(bytes, sample);
  }

  Result<std::span<const std::byte>> stored_record(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, stored(sample));
    if (per_value() == 1 || is_plain()) return bytes;
    return packed_by_offsets(bytes, sample);
  }

  Result<std::span<const std::byte>> record(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, stored(sample));
    return record_in(bytes, sample, dataset_.row(sample).size_bytes);
  }

  Result<std::span<const std::byte>> record_in(std::span<const std::byte> bytes, int64_t sample,
                                               uint32_t size_bytes) override {
    const size_t size = size_bytes;
    if (is_plain()) {
      if (bytes.size() == size) return bytes;
      return dataset_.damaged(concat("sample ", sample, " has ", bytes.size(), " of ", size, " bytes"));
    }
    DLPIPE_ASSIGN_OR_RETURN(bytes, own_bytes(bytes, sample));
    if (linked_) return linked_->record(bytes, dataset_.row(sample), sample);
    if (!zstd_can_hold(bytes.size(), size))
      return dataset_.damaged(
          concat("sample ", sample, " claims ", size, " bytes in a frame of ", bytes.size()));
    try {
      scratch_.resize(size);
    } catch (...) {
      return status_from_current_exception("dataset");
    }
    const Status status = zstd_.decompress(bytes, scratch_);
    if (status.code() == ErrorCode::kCorrupt)
      return dataset_.damaged(concat("sample ", sample, ": ", without_area(status.message())));
    if (!status.ok()) return status.with_context(where(sample));
    return std::span<const std::byte>(scratch_);
  }

  Status load(std::span<const std::byte> bytes, int64_t sample) override {
    if (!linked_) return {};
    const auto own = own_bytes(bytes, sample);
    return own.ok() ? linked_->load(*own, sample)
                    : Status();  // corruption is reported when the record is read
  }

  Result<std::string> linked_file(int64_t sample) override {
    if (!linked_) return std::string();
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, stored(sample));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> own, own_bytes(bytes, sample));
    return linked_->file(own);
  }

  bool is_intact(std::span<const std::byte> record, const RecordHeader& header) override {
    return linked_ || checksum64(record) == header.checksum;
  }

  int64_t from_cache() const override { return linked_ ? linked_->from_cache() : 0; }

  Status check_packing(int64_t sample) override {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, value(sample));
    if (per_value() == 1) return {};
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> by_offsets, packed_by_offsets(bytes, sample));
    if (!is_plain()) return {};
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> by_sizes, packed(bytes, sample));
    if (by_offsets.data() == by_sizes.data() && by_offsets.size() == by_sizes.size()) return {};
    return dataset_.damaged(concat("the offsets around sample ", sample, " differ from the header table"));
  }

 private:
  std::string where(int64_t sample) const {
    return concat("[dataset] sample ", sample, " of ", dataset_.directory, ": ");
  }

  int64_t per_value() const { return dataset_.info.schema.records_per_value; }
  bool is_plain() const { return dataset_.info.schema.is_plain(); }

  // Extracts one record's bytes from those that stored() returns if records are not plain.
  Result<std::span<const std::byte>> own_bytes(std::span<const std::byte> bytes, int64_t sample) const {
    if (per_value() == 1) return bytes;
    return packed_by_offsets(bytes, sample);
  }

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
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<Bytes> bytes, dataset_.file->find(dataset_.records, number));
    if (!bytes) return dataset_.damaged(concat("sample ", sample, " is missing"));
    return *bytes;
  }

  // A packed value is u32 offsets[n + 1], counted from its start, and the n records.
  int64_t first_of_value(int64_t sample) const { return sample / per_value() * per_value(); }
  size_t offsets_bytes(int64_t sample) const {
    const int64_t count = std::min(per_value(), dataset_.info.samples - first_of_value(sample));
    return 4 * (static_cast<size_t>(count) + 1);
  }

  // Records that are not compressed have the sizes in the header table: adding them up finds the record without touching the
  // value, whose offsets may be on another page that is not loaded yet.
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
      return dataset_.damaged(concat("the offsets around sample ", sample, " are inconsistent"));
    return value.subspan(begin, end - begin);
  }

  const Dataset::Impl& dataset_;
  // Packed values that were already found. A look-up takes as long as copying a small record, and many
  // records share a value. The map never moves.
  std::vector<std::span<const std::byte>> packed_values_;
  ZstdDecompressor zstd_;
  std::optional<LinkedRecords> linked_;
  std::vector<std::byte> scratch_;
};

}  // namespace

Result<std::unique_ptr<Dataset::Reader>> Dataset::reader(CoefficientCache* cache) const {
  return std::unique_ptr<Reader>(std::make_unique<LmdbReader>(*impl_, cache));
}

}  // namespace dlpipe::data
