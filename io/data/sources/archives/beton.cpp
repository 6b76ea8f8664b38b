// FFCV's .beton, version 2: its RGB images, stored as JPEGs or raw, with the class of an integer field (label, or the one that
// --label names) and all other fields. A folder of them, train.beton and val.beton, is several inputs.
//
// A file is a header, a descriptor for each field, a row of metadata for each sample, pages of bytes, and a table of the pieces
// that were allocated in them. All numbers are little-endian. A BetonFile may be read from any number of threads.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/file_name.h"
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace beton {

namespace {

/// FFCV's numbers.
enum class BetonKind : uint8_t {
  kFloat = 0,
  kInt = 1,
  kImage = 2,
  kBytes = 3,
  kArray = 4,
  kJson = 5,
  kTensor = 6
};

struct BetonField {
  BetonKind kind = BetonKind::kBytes;
  std::string name;
  size_t begin = 0;             // in a sample's metadata
  std::string dtype;            // of arrays: "<f4"
  std::vector<uint64_t> shape;  // of arrays
};

/// The position of a value.
struct BetonPiece {
  uint64_t begin = 0;
  uint64_t size = 0;
};
struct BetonImage {
  bool is_raw = false;  // else a JPEG
  int width = 0;
  int height = 0;
  BetonPiece bytes;
};

class BetonFile {
 public:
  /// kCorrupt if it is not a .beton or is truncated; kUnsupported for other versions and custom fields.
  static Result<BetonFile> open(const std::string& path);

  const std::vector<BetonField>& fields() const { return fields_; }
  uint64_t samples() const { return samples_; }
  uint64_t size_bytes() const { return bytes_.size_bytes(); }
  int64_t modified_ns() const { return bytes_.modified_ns(); }

  /// The metadata of one sample; `scan` is this file's.
  Result<std::vector<std::byte>> row(ArchiveBytes::Scan& scan, uint64_t sample) const;
  ArchiveBytes::Scan scan() const { return bytes_.scan(); }
  /// kCorrupt if an image is not in an allocated piece of the file, or is raw and has another size.
  Result<BetonImage> image(const BetonField& field, std::span<const std::byte> row) const;
  /// For bytes, JSON and arrays.
  Result<BetonPiece> piece(const BetonField& field, std::span<const std::byte> row) const;
  Result<std::vector<std::byte>> read(const BetonPiece& piece) const {
    return bytes_.read(piece.begin, piece.size);
  }

 private:
  Status read_fields(uint64_t count);
  Status read_pieces(uint64_t begin);

  ArchiveBytes bytes_;
  std::vector<BetonField> fields_;
  uint64_t samples_ = 0;
  uint64_t rows_begin_ = 0;
  uint64_t row_bytes_ = 0;
  std::vector<BetonPiece> pieces_;  // by begin, then by size
};

constexpr size_t kHeaderBytes = 24;
constexpr size_t kNameBytes = 16;
constexpr size_t kFieldBytes = 1 + kNameBytes + 1024;
constexpr size_t kPieceBytes = 24;
constexpr uint64_t kMostBetonFields = 256;

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat(what, "; download or create it again"));
}

/// Bytes and alignment of a field's metadata, as NumPy lays out its rows.
struct Extent {
  size_t bytes;
  size_t alignment;
};
Extent extent_of(BetonKind kind) {
  constexpr size_t kImageBytes = 13;  // u8 mode, u16 width, u16 height, u64 place
  if (kind == BetonKind::kImage) return {kImageBytes, 1};
  if (kind == BetonKind::kBytes || kind == BetonKind::kJson) return {16, 1};  // u64 place, u64 size
  return {8, 8};
}

/// Arrays have u64 sizes of 32 dimensions, zeros after the last one, then a u64 length and the dtype as JSON.
Status read_array_form(std::span<const std::byte> arguments, BetonField& field) {
  constexpr size_t kDimensions = 32;
  constexpr size_t kJsonBegin = 8 * kDimensions + 8;
  for (size_t d = 0; d < kDimensions; ++d) {
    const auto size = load_le<uint64_t>(arguments, 8 * d);
    if (size == 0) break;
    field.shape.push_back(size);
  }
  const auto length = load_le<uint64_t>(arguments, 8 * kDimensions);
  if (length > arguments.size() - kJsonBegin)
    return wrong(concat("the dtype of '", printable(field.name), "' is truncated"));
  const auto* text = reinterpret_cast<const char*>(arguments.data()) + kJsonBegin;
  const auto json = nlohmann::json::parse(text, text + length, nullptr, false);
  const bool fits = json.is_array() && json.size() == 1 && json[0].is_array() && json[0].size() == 2 &&
                    json[0][1].is_string();
  if (fits) field.dtype = json[0][1].get<std::string>();
  return {};
}

Status BetonFile::read_fields(uint64_t count) {
  if (count == 0 || count > kMostBetonFields) return wrong(concat("it has ", count, " fields"));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> all, bytes_.read(kHeaderBytes, count * kFieldBytes));
  size_t alignment = 1;
  for (uint64_t i = 0; i < count; ++i) {
    const std::span<const std::byte> one = std::span(all).subspan(i * kFieldBytes, kFieldBytes);
    BetonField field;
    field.name.assign(reinterpret_cast<const char*>(one.data()) + 1, kNameBytes);
    field.name = field.name.substr(0, field.name.find('\0'));
    const int kind = load_u8(one, 0);
    if (kind > static_cast<int>(BetonKind::kTensor))
      return Status(ErrorCode::kUnsupported,
                    concat("its field '", printable(field.name), "' has a custom kind (", kind,
                           "); write the file again without it"));
    field.kind = static_cast<BetonKind>(kind);
    if (field.kind == BetonKind::kArray)
      DLPIPE_RETURN_IF_ERROR(read_array_form(one.subspan(1 + kNameBytes), field));
    const Extent extent = extent_of(field.kind);
    field.begin = (row_bytes_ + extent.alignment - 1) / extent.alignment * extent.alignment;
    row_bytes_ = field.begin + extent.bytes;
    alignment = std::max(alignment, extent.alignment);
    fields_.push_back(std::move(field));
  }
  row_bytes_ = (row_bytes_ + alignment - 1) / alignment * alignment;
  rows_begin_ = kHeaderBytes + count * kFieldBytes;
  return {};
}

// The table ends with the file. It is read in order, and may be too long for a single read.
Status BetonFile::read_pieces(uint64_t begin) {
  const uint64_t size = bytes_.size_bytes() - std::min(begin, bytes_.size_bytes());
  if (begin > bytes_.size_bytes() || size % kPieceBytes != 0)
    return wrong("its table of pieces is truncated, or was never written");
  // a field's value is in one piece at most
  if (size / kPieceBytes > samples_ * fields_.size())
    return wrong(concat("its table of pieces is too long for its ", samples_, " samples"));
  ArchiveBytes::Scan scan = bytes_.scan();
  std::vector<std::byte> some;
  constexpr uint64_t kAtOnce = 65'536;
  for (uint64_t done = 0; done < size / kPieceBytes;) {
    const uint64_t count = std::min(kAtOnce, size / kPieceBytes - done);
    some.resize(count * kPieceBytes);
    DLPIPE_ASSIGN_OR_RETURN(const size_t got, scan.read(begin + done * kPieceBytes, some));
    if (got < some.size()) return wrong("its table of pieces is truncated");
    for (uint64_t i = 0; i < count; ++i) {
      const BetonPiece piece{load_le<uint64_t>(some, i * kPieceBytes + 8),
                             load_le<uint64_t>(some, i * kPieceBytes + 16)};
      if (piece.begin > begin || piece.size > begin - piece.begin)
        return wrong("a piece is outside its pages");
      pieces_.push_back(piece);
    }
    done += count;
  }
  std::sort(pieces_.begin(), pieces_.end(), [](const BetonPiece& a, const BetonPiece& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.size < b.size;
  });
  return {};
}

Result<BetonFile> BetonFile::open(const std::string& path) {
  BetonFile file;
  DLPIPE_ASSIGN_OR_RETURN(file.bytes_, ArchiveBytes::open_unpacked(path));
  const auto in_file = [&](const Status& status) {
    return status.code() == ErrorCode::kCorrupt || status.code() == ErrorCode::kUnsupported
               ? Status(status.code(),
                        concat("[ingest] ", printable(path), ": ", without_area(status.message())))
               : status;
  };
  if (file.bytes_.size_bytes() < kHeaderBytes) return in_file(wrong("it is too short for a .beton"));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> header, file.bytes_.read(0, kHeaderBytes));
  const int version = load_le<uint16_t>(header, 0);
  constexpr int kVersion = 2;
  if (version != kVersion)
    return in_file(Status(ErrorCode::kUnsupported,
                          concat("version ", version,
                                 " of .beton is not supported, only 2; write it again with a current FFCV")));
  file.samples_ = load_le<uint64_t>(header, 8);
  if (const Status read = file.read_fields(load_le<uint16_t>(header, 2)); !read.ok()) return in_file(read);
  const uint64_t left = file.bytes_.size_bytes() - std::min(file.bytes_.size_bytes(), file.rows_begin_);
  if (file.samples_ == 0 || file.samples_ > left / file.row_bytes_)
    return in_file(wrong(concat("it is too short for its ", file.samples_, " samples")));
  if (const Status read = file.read_pieces(load_le<uint64_t>(header, 16)); !read.ok()) return in_file(read);
  return file;
}

Result<std::vector<std::byte>> BetonFile::row(ArchiveBytes::Scan& scan, uint64_t sample) const {
  std::vector<std::byte> row(row_bytes_);
  DLPIPE_ASSIGN_OR_RETURN(const size_t got, scan.read(rows_begin_ + sample * row_bytes_, row));
  if (got < row.size()) return wrong("a sample's row is truncated");
  return row;
}

// Several pieces can begin at one position, because values may be empty. For bytes and JSON, the row's size selects the piece.
// Images and arrays are never empty, so theirs is the largest piece.
Result<BetonPiece> BetonFile::piece(const BetonField& field, std::span<const std::byte> row) const {
  const bool is_image = field.kind == BetonKind::kImage;
  const auto begin = load_le<uint64_t>(row, field.begin + (is_image ? 5 : 0));
  auto it = std::lower_bound(pieces_.begin(), pieces_.end(), begin,
                             [](const BetonPiece& piece, uint64_t at) { return piece.begin < at; });
  const auto end = std::upper_bound(it, pieces_.end(), begin,
                                    [](uint64_t at, const BetonPiece& piece) { return at < piece.begin; });
  if (it == end)
    return Status(ErrorCode::kCorrupt, concat("its '", printable(field.name), "' is missing in the file"));
  if (field.kind != BetonKind::kBytes && field.kind != BetonKind::kJson) return *(end - 1);
  const auto size = load_le<uint64_t>(row, field.begin + 8);
  it = std::lower_bound(it, end, size,
                        [](const BetonPiece& piece, uint64_t bytes) { return piece.size < bytes; });
  if (it == end || it->size != size)
    return Status(ErrorCode::kCorrupt,
                  concat("its '", printable(field.name), "' does not have the size of its piece"));
  return *it;
}

Result<BetonImage> BetonFile::image(const BetonField& field, std::span<const std::byte> row) const {
  BetonImage image;
  const int mode = load_u8(row, field.begin);
  if (mode > 1)
    return Status(ErrorCode::kUnsupported,
                  concat("its image is stored in mode ", mode, "; only jpg (0) and raw (1) are supported"));
  image.is_raw = mode == 1;
  image.width = load_le<uint16_t>(row, field.begin + 1);
  image.height = load_le<uint16_t>(row, field.begin + 3);
  DLPIPE_ASSIGN_OR_RETURN(image.bytes, piece(field, row));
  const uint64_t pixels =
      uint64_t{3} * static_cast<uint64_t>(image.width) * static_cast<uint64_t>(image.height);
  if (image.is_raw && (pixels == 0 || image.bytes.size != pixels))
    return Status(ErrorCode::kCorrupt, concat("its image of ", image.width, "x", image.height, " has ",
                                              image.bytes.size, " bytes"));
  return image;
}

/// The field of a record that can hold a .beton's field; nullopt if there is none.
std::optional<Field> field_for(const BetonField& field) {
  switch (field.kind) {
    case BetonKind::kFloat:
      return Field{field.name, FieldKind::kTensor, DType::kF64, {1}};
    case BetonKind::kInt:
      return Field{field.name, FieldKind::kTensor, DType::kI64, {1}};
    case BetonKind::kBytes:
    case BetonKind::kJson:
      return text_field(field.name);
    case BetonKind::kImage:
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
  size_t image_ = 0;             // index into the file's fields
  std::optional<size_t> label_;  // the same
  std::vector<size_t> others_;   // the fields that records keep
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
  std::optional<size_t> image;
  others_.clear();
  DLPIPE_RETURN_IF_ERROR(choose_label());
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind == BetonKind::kImage && !image) {
      image = i;
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
  if (!image)
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(options_.path),
                         " has no field of RGB images; write it with an RGBImageField"));
  image_ = *image;
  if (!left_aside.empty())
    listing.warnings.push_back(
        concat("[ingest] ignored: the fields ", quoted_names(left_aside), " of ", printable(options_.path)));
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
  const auto image = file_->image(fields[image_], row);
  if (image.ok())
    entry.size_bytes = image->bytes.size + (image->is_raw ? kRawHeaderBytes : 0);
  else
    entry.problem = image.status().message();
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
                    concat("[ingest] stopped while ", printable(options_.path), " was being listed"));
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
  DLPIPE_ASSIGN_OR_RETURN(const BetonImage image, file_->image(file_->fields()[image_], row));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, file_->read(image.bytes));
  if (!image.is_raw) return bytes;
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data());
  return encode_raw({pixels, image.width, image.height, 3, ptrdiff_t{3} * image.width});
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
const SourceRecord beton_source = {"beton", "FFCV's .beton, or a folder of them: RGB images, JPEG or raw",
                                   beton::recognizes_beton, beton::open_beton, "--label"};

}  // namespace dlpipe::data
