#include "dlpipe/io/data/sources/archives/beton_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

constexpr size_t kHeaderBytes = 24;
constexpr size_t kNameBytes = 16;
constexpr size_t kFieldBytes = 1 + kNameBytes + 1024;
constexpr size_t kPieceBytes = 24;
constexpr uint64_t kMostBetonFields = 256;

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat(what, "; download or make it again"));
}

/// Bytes and alignment of a field's metadata, as NumPy lays out its rows.
struct Extent {
  size_t bytes;
  size_t alignment;
};
Extent extent_of(BetonKind kind) {
  constexpr size_t kPictureBytes = 13;  // u8 mode, u16 width, u16 height, u64 place
  if (kind == BetonKind::kPicture) return {kPictureBytes, 1};
  if (kind == BetonKind::kBytes || kind == BetonKind::kJson) return {16, 1};  // u64 place, u64 size
  return {8, 8};
}

/// Arrays have u64 sizes of 32 dimensions, zeros behind the last one, and a u64 length of the dtype as JSON behind it.
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
    return wrong(concat("the dtype of '", printable(field.name), "' is cut short"));
  const auto* text = reinterpret_cast<const char*>(arguments.data()) + kJsonBegin;
  const auto json = nlohmann::json::parse(text, text + length, nullptr, false);
  const bool fits = json.is_array() && json.size() == 1 && json[0].is_array() && json[0].size() == 2 &&
                    json[0][1].is_string();
  if (fits) field.dtype = json[0][1].get<std::string>();
  return {};
}

}  // namespace

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
                    concat("its field '", printable(field.name), "' is of a program's own kind (", kind,
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

// The table ends with the file. It is read in order, and may be longer than what is read as one.
Status BetonFile::read_pieces(uint64_t begin) {
  const uint64_t size = bytes_.size_bytes() - std::min(begin, bytes_.size_bytes());
  if (begin > bytes_.size_bytes() || size % kPieceBytes != 0)
    return wrong("its table of pieces is cut short, or was never written");
  // a field's value is in one piece at most
  if (size / kPieceBytes > samples_ * fields_.size())
    return wrong(concat("its table of pieces is longer than its ", samples_, " samples need"));
  ArchiveBytes::Scan scan = bytes_.scan();
  std::vector<std::byte> some;
  constexpr uint64_t kAtOnce = 65'536;
  for (uint64_t done = 0; done < size / kPieceBytes;) {
    const uint64_t count = std::min(kAtOnce, size / kPieceBytes - done);
    some.resize(count * kPieceBytes);
    DLPIPE_ASSIGN_OR_RETURN(const size_t got, scan.read(begin + done * kPieceBytes, some));
    if (got < some.size()) return wrong("its table of pieces is cut short");
    for (uint64_t i = 0; i < count; ++i) {
      const BetonPiece piece{load_le<uint64_t>(some, i * kPieceBytes + 8),
                             load_le<uint64_t>(some, i * kPieceBytes + 16)};
      if (piece.begin > begin || piece.size > begin - piece.begin)
        return wrong("a piece lies behind its pages");
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
    return in_file(
        Status(ErrorCode::kUnsupported,
               concat("version ", version, " of .beton; 2 is read, so write it again with a current FFCV")));
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
  if (got < row.size()) return wrong("a sample's row is cut short");
  return row;
}

// An empty value's piece begins where the next value's does: of bytes and JSON the row says which one is meant, and pictures
// and arrays are never empty.
Result<BetonPiece> BetonFile::piece(const BetonField& field, std::span<const std::byte> row) const {
  const bool is_picture = field.kind == BetonKind::kPicture;
  const auto begin = load_le<uint64_t>(row, field.begin + (is_picture ? 5 : 0));
  auto it = std::lower_bound(pieces_.begin(), pieces_.end(), begin,
                             [](const BetonPiece& piece, uint64_t at) { return piece.begin < at; });
  const auto end = std::upper_bound(it, pieces_.end(), begin,
                                    [](uint64_t at, const BetonPiece& piece) { return at < piece.begin; });
  if (it == end)
    return Status(ErrorCode::kCorrupt, concat("its '", printable(field.name), "' is nowhere in the file"));
  if (field.kind != BetonKind::kBytes && field.kind != BetonKind::kJson) return *(end - 1);
  const auto size = load_le<uint64_t>(row, field.begin + 8);
  it = std::lower_bound(it, end, size,
                        [](const BetonPiece& piece, uint64_t bytes) { return piece.size < bytes; });
  if (it == end || it->size != size)
    return Status(ErrorCode::kCorrupt,
                  concat("its '", printable(field.name), "' has another size than its piece"));
  return *it;
}

Result<BetonPicture> BetonFile::picture(const BetonField& field, std::span<const std::byte> row) const {
  BetonPicture picture;
  const int mode = load_u8(row, field.begin);
  if (mode > 1)
    return Status(ErrorCode::kUnsupported,
                  concat("its picture is stored in mode ", mode, "; jpg (0) and raw (1) are read"));
  picture.is_raw = mode == 1;
  picture.width = load_le<uint16_t>(row, field.begin + 1);
  picture.height = load_le<uint16_t>(row, field.begin + 3);
  DLPIPE_ASSIGN_OR_RETURN(picture.bytes, piece(field, row));
  const uint64_t pixels =
      uint64_t{3} * static_cast<uint64_t>(picture.width) * static_cast<uint64_t>(picture.height);
  if (picture.is_raw && (pixels == 0 || picture.bytes.size != pixels))
    return Status(ErrorCode::kCorrupt, concat("its picture of ", picture.width, "x", picture.height, " has ",
                                              picture.bytes.size, " bytes"));
  return picture;
}

}  // namespace dlpipe::data
