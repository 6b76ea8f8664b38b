// FFCV's .beton: its RGB pictures, stored as JPEGs or raw, with the class of an integer field (label, or what --label names)
// and all other fields. A folder of them, train.beton and val.beton, is several inputs.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/raw.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/archives/beton_file.h"
#include "dlpipe/io/data/sources/read_budget.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

namespace beton {

namespace {

/// The field of a record that holds a .beton's; nothing where none can.
std::optional<Field> field_for(const BetonField& field) {
  switch (field.kind) {
    case BetonKind::kFloat:
      return Field{field.name, FieldKind::kTensor, DType::kF64, {1}};
    case BetonKind::kInt:
      return Field{field.name, FieldKind::kTensor, DType::kI64, {1}};
    case BetonKind::kBytes:
    case BetonKind::kJson:
      return text_field(field.name);
    case BetonKind::kPicture:
    case BetonKind::kTensor:
      return std::nullopt;
    case BetonKind::kArray:
      break;
  }
  constexpr std::array<std::pair<std::string_view, DType>, 6> kDTypes = {{{"<f4", DType::kF32},
                                                                          {"<f8", DType::kF64},
                                                                          {"<f2", DType::kF16},
                                                                          {"|u1", DType::kU8},
                                                                          {"<i4", DType::kI32},
                                                                          {"<i8", DType::kI64}}};
  constexpr uint64_t kMostElements = uint64_t{1} << 30;
  std::vector<int64_t> sizes;
  uint64_t elements = 1;
  for (const uint64_t size : field.shape) {
    if (size > kMostElements / elements) return std::nullopt;
    elements *= size;
    sizes.push_back(static_cast<int64_t>(size));
  }
  for (const auto& [name, dtype] : kDTypes) {
    if (field.dtype == name && !sizes.empty() && sizes.size() <= size_t{Shape::kMaxRank})
      return Field{field.name, FieldKind::kTensor, dtype, Shape(std::span<const int64_t>(sizes))};
  }
  return std::nullopt;
}

class BetonSource final : public Source {
 public:
  explicit BetonSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  Status choose_fields(SourceListing& listing);
  Status choose_label();
  Result<std::string> value_of(const BetonField& field, std::span<const std::byte> row) const;
  Result<SourceEntry> entry_of(std::span<const std::byte> row, uint64_t sample, ReadBudget& budget) const;

  SourceOptions options_;
  std::optional<BetonFile> file_;
  size_t picture_ = 0;           // index into the file's fields
  std::optional<size_t> label_;  // the same
  std::vector<size_t> others_;   // those that records keep
};

Status BetonSource::choose_label() {
  const std::vector<BetonField>& fields = file_->fields();
  std::vector<std::string> numbers;
  std::optional<size_t> only;
  label_.reset();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != BetonKind::kInt) continue;
    numbers.push_back(fields[i].name);
    only = i;
    const std::string name = lower_text(fields[i].name);
    const bool is_it = options_.label.empty()
                           ? name == "label" || name == "class" || name == "target" || name == "y"
                           : fields[i].name == options_.label;
    if (is_it) label_ = i;
  }
  if (!label_ && !options_.label.empty())
    return misuse("ingest", "--label ", printable(options_.label), ": ", printable(options_.path),
                  " has no such field of integers", printable(suggestion(options_.label, numbers)));
  if (!label_ && numbers.size() == 1) label_ = only;
  return {};
}

Status BetonSource::choose_fields(SourceListing& listing) {
  const std::vector<BetonField>& fields = file_->fields();
  std::vector<std::string> left_aside;
  std::optional<size_t> picture;
  others_.clear();
  DLPIPE_RETURN_IF_ERROR(choose_label());
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind == BetonKind::kPicture && !picture) {
      picture = i;
    } else if (i != label_) {
      const std::optional<Field> field = field_for(fields[i]);
      if (!field) {
        left_aside.push_back(fields[i].name);
        continue;
      }
      others_.push_back(i);
      listing.fields.push_back(*field);
    }
  }
  if (!picture)
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(options_.path),
                         " has no field of RGB pictures; write it with an RGBImageField"));
  picture_ = *picture;
  if (!left_aside.empty())
    listing.warnings.push_back(concat("[ingest] left aside: the fields ", quoted_names(left_aside), " of ",
                                      printable(options_.path)));
  return {};
}

Result<std::string> BetonSource::value_of(const BetonField& field, std::span<const std::byte> row) const {
  constexpr size_t kNumberBytes = 8;
  if (field.kind == BetonKind::kFloat || field.kind == BetonKind::kInt)
    return std::string(reinterpret_cast<const char*>(row.data()) + field.begin, kNumberBytes);
  DLPIPE_ASSIGN_OR_RETURN(const BetonPiece piece, file_->piece(field, row));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file_->read(piece));
  std::string value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (field.kind == BetonKind::kJson) value = value.substr(0, value.find('\0'));
  const std::optional<Field> stored = field_for(field);
  if (field.kind == BetonKind::kArray &&
      value.size() != static_cast<size_t>(stored->shape.elements()) * dtype_size(stored->dtype))
    return Status(ErrorCode::kCorrupt,
                  concat("its '", printable(field.name), "' has ", value.size(), " bytes"));
  return value;
}

Result<SourceEntry> BetonSource::entry_of(std::span<const std::byte> row, uint64_t sample,
                                          ReadBudget& budget) const {
  const std::vector<BetonField>& fields = file_->fields();
  SourceEntry entry;
  constexpr size_t kDigits = 6;
  entry.path = numbered_path(std::filesystem::path(options_.path).stem().string(), sample, kDigits);
  entry.modified_ns = file_->modified_ns();
  entry.place = sample;
  const auto picture = file_->picture(fields[picture_], row);
  if (picture.ok())
    entry.size_bytes = picture->bytes.size + (picture->is_raw ? kRawHeaderBytes : 0);
  else
    entry.problem = picture.status().message();
  for (const size_t i : others_) {
    auto value = value_of(fields[i], row);
    if (!value.ok() && value.status().code() != ErrorCode::kCorrupt) return value.status();
    if (!value.ok()) entry.problem = without_area(value.status().message());
    entry.extra.push_back(value.ok() ? std::move(*value) : std::string());
    DLPIPE_RETURN_IF_ERROR(budget.take(entry.extra.back().size(), 1, "the values of its samples"));
  }
  return entry;
}

Result<SourceListing> BetonSource::list() {
  DLPIPE_ASSIGN_OR_RETURN(file_, BetonFile::open(options_.path));
  SourceListing listing;
  DLPIPE_RETURN_IF_ERROR(choose_fields(listing));
  std::vector<std::string> class_of_entry;
  ArchiveBytes::Scan scan = file_->scan();
  ReadBudget budget(options_, options_.path, file_->size_bytes());
  DLPIPE_RETURN_IF_ERROR(check_field_count(options_.path, listing.fields.size()));
  DLPIPE_RETURN_IF_ERROR(budget.take_entries(file_->samples(), listing.fields.size()));
  for (uint64_t i = 0; i < file_->samples(); ++i) {
    if (options_.stop_requested && options_.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped while ", printable(options_.path), " was listed"));
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> row, file_->row(scan, i));
    DLPIPE_ASSIGN_OR_RETURN(SourceEntry entry, entry_of(row, i, budget));
    class_of_entry.push_back(label_ ? std::to_string(load_le<int64_t>(row, file_->fields()[*label_].begin))
                                    : "");
    listing.entries.push_back(std::move(entry));
  }
  number_classes(class_of_entry, listing);
  if (!label_)
    warn_of_no_class(options_.path, listing);
  else if (options_.alone)
    warn_of_classes(listing);
  return listing;
}

Result<std::vector<std::byte>> BetonSource::read(const SourceEntry& entry) const {
  ArchiveBytes::Scan scan = file_->scan();
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> row, file_->row(scan, entry.place));
  DLPIPE_ASSIGN_OR_RETURN(const BetonPicture picture, file_->picture(file_->fields()[picture_], row));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, file_->read(picture.bytes));
  if (!picture.is_raw) return bytes;
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data());
  return encode_raw({pixels, picture.width, picture.height, 3, ptrdiff_t{3} * picture.width});
}

int recognizes_beton(const SourceOptions& options) {
  return options.manifest.empty() && lower_ending(options.path) == "beton" ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_beton(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<BetonSource>(options));
}

}  // namespace

}  // namespace beton

extern const SourceRecord beton_source;
const SourceRecord beton_source = {"beton", "FFCV's .beton, or a folder of them: RGB pictures, JPEG or raw",
                                   beton::recognizes_beton, beton::open_beton, "--label"};

}  // namespace dlpipe::data
