// Records of a dataset: where they lie in a value, and what they are unpacked to.
#include <algorithm>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset_impl.h"
#include "dlpipe/io/data/linked_records.h"

namespace dlpipe::data {

namespace {

using Bytes = LmdbFile::Bytes;

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
      return dataset_.damaged(concat("sample ", sample, " has ", bytes.size(), " bytes of ", size));
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
    return own.ok() ? linked_->load(*own, sample) : Status();  // what is damaged is the record's affair
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
    return dataset_.damaged(
        concat("the offsets around sample ", sample, " are not those of the header table"));
  }

 private:
  std::string where(int64_t sample) const {
    return concat("[dataset] sample ", sample, " of ", dataset_.directory, ": ");
  }

  int64_t per_value() const { return dataset_.info.schema.records_per_value; }
  bool is_plain() const { return dataset_.info.schema.is_plain(); }

  // One record's bytes of those that stored() answers where records are not plain.
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
  // Where packed values were found: a look-up takes as long as copying a small record, the map never moves,
  // and many records share a value.
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
