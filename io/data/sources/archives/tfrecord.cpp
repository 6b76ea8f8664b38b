// TFRecord files of tf.train.Example: length, its masked CRC-32C, the record, its CRC. The image is image/encoded or image, the
// class image/class/label or label, or the key that --label names. Listing reads everything except the images; a record's
// checksum is compared when its image is read. Packed files (.gz, and those of TensorFlow's options GZIP and ZLIB) are unpacked
// to a scratch file.
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/data/sources/source_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/protobuf_wire.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"

namespace dlpipe::data {

namespace {

constexpr size_t kHead = 12;  // length and its checksum
constexpr size_t kTail = 4;

constexpr std::array<std::string_view, 4> kImageKeys = {"image/encoded", "image", "image_raw", "jpeg"};
constexpr std::array<std::string_view, 5> kLabelKeys = {"image/class/label", "label", "class", "target",
                                                        "image/class/text"};

/// The first value of a feature.
struct Feature {
  std::string key;
  bool is_bytes = false;
  bool is_number = false;  // an integer
  int64_t number = 0;
  WireField bytes;
  size_t count = 0;  // of values; only the first is read
};

/// Features.feature: a map entry of key and Feature.
Result<Feature> read_feature(const ReadAt& read, const WireField& entry) {
  constexpr uint64_t kMostKey = 1024;
  Feature feature;
  WireCursor cursor(read, entry.begin, entry.size);
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> field, cursor.next());
    if (!field) return feature;
    if (!field->has_bytes) continue;
    if (field->number == 1) {
      DLPIPE_ASSIGN_OR_RETURN(feature.key, cursor.text(*field, kMostKey));
    }
    if (field->number != 2) continue;
    WireCursor lists(read, field->begin, field->size);
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> list, lists.next());
    if (!list || !list->has_bytes) continue;
    WireCursor values(read, list->begin, list->size);
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> value, values.next());
    if (!value) continue;
    feature.is_bytes = list->number == 1 && value->has_bytes;
    feature.is_number = list->number == 3;
    feature.count = values.at_end() ? 1 : 2;
    feature.bytes = *value;
    feature.number = static_cast<int64_t>(value->value);
    if (feature.is_number && value->has_bytes) {  // packed
      WireCursor packed(read, value->begin, value->size);
      DLPIPE_ASSIGN_OR_RETURN(const uint64_t number, packed.varint());
      feature.number = static_cast<int64_t>(number);
      feature.count = packed.at_end() ? 1 : 2;
    }
  }
}

Result<std::vector<Feature>> read_example(const ReadAt& read, uint64_t begin, uint64_t size) {
  constexpr size_t kMost = 4096;
  std::vector<Feature> features;
  WireCursor example(read, begin, size);
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> field, example.next());
    if (!field) return features;
    if (field->number != 1 || !field->has_bytes) continue;
    WireCursor entries(read, field->begin, field->size);
    while (true) {
      DLPIPE_ASSIGN_OR_RETURN(const std::optional<WireField> entry, entries.next());
      if (!entry) break;
      if (entry->number != 1 || !entry->has_bytes) continue;
      if (features.size() == kMost) return Status(ErrorCode::kUnsupported, "it has too many features");
      DLPIPE_ASSIGN_OR_RETURN(Feature feature, read_feature(read, *entry));
      features.push_back(std::move(feature));
    }
  }
}

template <size_t N>
const Feature* find(const std::vector<Feature>& features, const std::array<std::string_view, N>& keys) {
  for (const std::string_view key : keys) {
    for (const Feature& feature : features) {
      if (feature.key == key) return &feature;
    }
  }
  return nullptr;
}

/// TensorFlow's option ZLIB compresses the whole file without changing its name. It is recognized because the checksum of the
/// first record's length does not match.
bool is_zlib(std::span<const std::byte> begin) {
  return begins_as_zlib(begin) && begin.size() >= kHead &&
         masked_crc32c(begin.first(8)) != load_le<uint32_t>(begin, 8);
}

class TfrecordSource final : public Source {
 public:
  explicit TfrecordSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  /// Adds the record at `at` and moves past it; false if the file is corrupt there.
  Result<bool> add(ArchiveBytes::Scan& scan, uint64_t& at, ReadBudget& budget, SourceListing& listing);
  /// Sets the entry's class; errors become the entry's problem.
  Result<std::string> describe(const ReadAt& read, uint64_t begin, uint64_t size, SourceEntry& entry);
  void lose_rest(const std::string& why, SourceListing& listing);

  SourceOptions options_;
  std::optional<ArchiveBytes> file_;
  std::vector<std::string> class_of_entry_;
  std::map<std::string, int64_t>
      left_aside_;  // keys other than image and class, and how many records have them
};

void TfrecordSource::lose_rest(const std::string& why, SourceListing& listing) {
  SourceEntry lost;
  lost.path = concat(std::filesystem::path(options_.path).filename().string(), " (its end)");
  lost.is_rest = true;
  lost.problem = concat("the file is corrupt: ", why, "; the rest is lost, so download or create it again");
  listing.entries.push_back(std::move(lost));
  class_of_entry_.emplace_back();
}

Result<std::string> TfrecordSource::describe(const ReadAt& read, uint64_t begin, uint64_t size,
                                             SourceEntry& entry) {
  const auto features = read_example(read, begin, size);
  if (features.status().code() == ErrorCode::kCorrupt ||
      features.status().code() == ErrorCode::kUnsupported) {
    entry.problem = concat("not a tf.train.Example: ", features.status().message());
    return std::string();
  }
  if (!features.ok()) return features.status();
  const Feature* const image = find(*features, kImageKeys);
  if (image == nullptr || !image->is_bytes) {
    std::string keys;
    for (const Feature& feature : *features) keys += concat(keys.empty() ? "" : ", ", printable(feature.key));
    entry.problem = concat("it has no image under image/encoded or image, only: ", keys);
    return std::string();
  }
  entry.size_bytes = image->bytes.size;
  const Feature* const label = options_.label.empty()
                                   ? find(*features, kLabelKeys)
                                   : find(*features, std::array<std::string_view, 1>{options_.label});
  for (const Feature& feature : *features) {
    if (&feature != image && &feature != label) ++left_aside_[feature.key];
  }
  constexpr std::string_view kOfObjects = "image/object/";
  const bool has_objects = std::ranges::any_of(*features, [&](const Feature& feature) {
    return std::string_view(feature.key).starts_with(kOfObjects);
  });
  if (has_objects && (label == nullptr || options_.label.starts_with(kOfObjects))) {
    entry.problem =
        "it has boxes (image/object/...), which are not read from TFRecord; write COCO's JSON, or a list "
        "with a line per box";
    return std::string();
  }
  if (label == nullptr) {
    entry.problem = concat("no ", options_.label.empty() ? "label" : printable(options_.label),
                           "; give the key of the class with --label KEY");
    return std::string();
  }
  if (label->count > 1 || (!label->is_number && !label->is_bytes)) {
    entry.problem = concat("'", printable(label->key), "' is neither a single whole number nor a name");
    return std::string();
  }
  if (label->is_number) return std::to_string(label->number);
  constexpr uint64_t kMostName = 4096;
  if (label->bytes.size > kMostName) {
    entry.problem = concat("'", printable(label->key), "' has ", label->bytes.size,
                           " bytes; the name of a class has at most ", kMostName);
    return std::string();
  }
  return WireCursor(read, 0, 0).text(label->bytes, kMostName);
}

Result<bool> TfrecordSource::add(ArchiveBytes::Scan& scan, uint64_t& at, ReadBudget& budget,
                                 SourceListing& listing) {
  std::array<std::byte, kHead> head{};
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, scan.read(at, head));
  if (count < kHead) {
    lose_rest("it is truncated within a record's head", listing);
    return false;
  }
  if (masked_crc32c(std::span<const std::byte>(head).first(8)) != load_le<uint32_t>(head, 8)) {
    lose_rest(concat("the checksum of a record's length differs at byte ", at), listing);
    return false;
  }
  const auto size = load_le<uint64_t>(head, 0);
  const uint64_t left = file_->size_bytes() - at - kHead;
  if (left < kTail || size > left - kTail) {
    lose_rest("it is truncated within a record", listing);
    return false;
  }
  DLPIPE_RETURN_IF_ERROR(budget.take_entries(1, 1));
  SourceEntry entry;
  entry.path =
      numbered_path(std::filesystem::path(options_.path).filename().string(), listing.entries.size(), 6);
  entry.modified_ns = file_->modified_ns();
  entry.place = at;
  const ReadAt read = [&](uint64_t place, std::span<std::byte> to) { return scan.read(place, to); };
  DLPIPE_ASSIGN_OR_RETURN(std::string name, describe(read, at + kHead, size, entry));
  listing.entries.push_back(std::move(entry));
  class_of_entry_.push_back(std::move(name));
  at += kHead + size + kTail;
  return true;
}

Result<SourceListing> TfrecordSource::list() {
  class_of_entry_.clear();
  left_aside_.clear();
  if (!file_ || options_.address.empty()) {  // a remote one is fetched once
    DLPIPE_ASSIGN_OR_RETURN(file_, ArchiveBytes::open(options_.path, options_, is_zlib));
  }
  SourceListing listing;
  ArchiveBytes::Scan scan = file_->scan();
  ReadBudget budget(options_, options_.path, file_->input_bytes());
  for (uint64_t at = 0; at < file_->size_bytes();) {
    if (options_.stop_requested && options_.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped while ", printable(options_.path), " was being listed"));
    DLPIPE_ASSIGN_OR_RETURN(const bool more, add(scan, at, budget, listing));
    if (!more) break;
  }
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(options_.path), " is empty"));
  if (listing.entries.size() == 1 && listing.entries[0].place == 0 && !listing.entries[0].problem.empty())
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", printable(options_.path), ": ", listing.entries[0].problem));
  number_classes(class_of_entry_, listing);
  if (options_.alone) warn_of_classes(listing, "; are there more files?");
  if (!left_aside_.empty())
    listing.warnings.push_back(
        concat("[ingest] ", printable(options_.path),
               ": ignored keys that are neither image nor class: ", kinds_text(left_aside_)));
  return listing;
}

Result<std::vector<std::byte>> TfrecordSource::read(const SourceEntry& entry) const {
  const auto wrong = [&](std::string_view what) {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", what, "; download or create the file again"));
  };
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> head, file_->read(entry.place, kHead));
  const auto size = load_le<uint64_t>(head, 0);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> record, file_->read(entry.place + kHead, size));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> tail, file_->read(entry.place + kHead + size, kTail));
  if (masked_crc32c(record) != load_le<uint32_t>(tail, 0))
    return wrong("the record is corrupt (its checksum differs)");
  const ReadAt memory = read_memory(record);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Feature> features, read_example(memory, 0, record.size()));
  const Feature* const image = find(features, kImageKeys);
  if (image == nullptr || !image->is_bytes) return wrong("the record has no image");
  const auto begin = record.begin() + static_cast<ptrdiff_t>(image->bytes.begin);
  return std::vector<std::byte>(begin, begin + static_cast<ptrdiff_t>(image->bytes.size));
}

int recognizes_tfrecord(const SourceOptions& options) {
  if (!options.manifest.empty() || !has_tfrecord_name(options.path)) return 0;
  return is_folder(options.path) ? 0 : 2;
}

Result<std::unique_ptr<Source>> open_tfrecord(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<TfrecordSource>(options));
}

}  // namespace

extern const SourceRecord tfrecord_source;
const SourceRecord tfrecord_source = {
    "tfrecord",          "a .tfrecord file (or NAME-00000-of-00010) of tf.train.Example, or a folder of them",
    recognizes_tfrecord, open_tfrecord,
    "--label",           true};

}  // namespace dlpipe::data
