#include "io/data/sources/arrays/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/data/sources/bytes/unpack.h"

namespace dlpipe::data {

namespace {

// Zip archives: PKWARE's APPNOTE.TXT, 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kCentralMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kLocator64Magic = 0x07064b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr uint32_t kIn64 = 0xffffffff;

struct Directory {
  uint64_t begin = 0;
  uint64_t size = 0;
  uint64_t members = 0;
};

Result<Directory> find_directory(const ArchiveBytes& file, const std::string& name) {
  constexpr uint64_t kMostComment = 65'535;
  const uint64_t tail_bytes = std::min(file.size_bytes(), kMostComment + kEndBytes + kLocatorBytes);
  const uint64_t tail_at = file.size_bytes() - tail_bytes;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> tail, file.read(tail_at, tail_bytes));
  size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1;
  while (at > 0 && load_le<uint32_t>(tail, at - 1) != kEndMagic) --at;
  if (at-- == 0) return damaged_archive(name, "it is not a zip file, or is truncated");
  Directory directory;
  directory.members = load_le<uint16_t>(tail, at + 10);
  directory.size = load_le<uint32_t>(tail, at + 12);
  directory.begin = load_le<uint32_t>(tail, at + 16);
  if (at < kLocatorBytes || load_le<uint32_t>(tail, at - kLocatorBytes) != kLocator64Magic) return directory;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> end,
                          file.read(load_le<uint64_t>(tail, at - kLocatorBytes + 8), kEnd64Bytes));
  if (load_le<uint32_t>(end, 0) != kEnd64Magic)
    return damaged_archive(name, "its directory is not where it should be");
  directory.members = load_le<uint64_t>(end, 32);
  directory.size = load_le<uint64_t>(end, 40);
  directory.begin = load_le<uint64_t>(end, 48);
  return directory;
}

/// Sizes and places of 4 GB and more are in an extra field of kind 1, in this order.
Status take_zip64(std::span<const std::byte> extra, ZipMember& member, const std::string& name) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint16_t kind = load_le<uint16_t>(extra, at);
    const size_t size = load_le<uint16_t>(extra, at + 2);
    const std::span<const std::byte> field = extra.subspan(at + 4, std::min(size, extra.size() - at - 4));
    at += 4 + size;
    if (kind != 1) continue;
    size_t place = 0;
    for (uint64_t* value : {&member.size_bytes, &member.packed_bytes, &member.header_at}) {
      if (*value != kIn64) continue;
      if (place + 8 > field.size()) return damaged_archive(name, "a size is truncated");
      *value = load_le<uint64_t>(field, place);
      place += 8;
    }
  }
  return {};
}

/// The checksum of bytes that are stored, read once.
Result<uint32_t> crc_of(const ArchiveBytes& bytes, const std::string& name, const SourceOptions& options) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  uLong crc = crc32(0, nullptr, 0);
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < bytes.size_bytes(); at += piece.size()) {
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped while ", printable(name), " was being read"));
    piece.resize(std::min(kPiece, bytes.size_bytes() - at));
    DLPIPE_RETURN_IF_ERROR(bytes.read(at, piece));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  }
  return static_cast<uint32_t>(crc);
}

Status damaged_member(const std::string& name, const ZipMember& member, std::string_view what) {
  return damaged_archive(name, concat("the member ", short_name(member.name), " is corrupt: ", what));
}

/// Unpacks a deflated member to the scratch file; returns its checksum.
Result<uint32_t> inflate_to(const ArchiveBytes& packed, const ZipMember& member, ScratchFile& scratch,
                            const std::string& name, const SourceOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(Inflater inflater, Inflater::begin(Inflater::Form::kBare));
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> in;
  std::vector<std::byte> out(kPiece);
  uLong crc = crc32(0, nullptr, 0);
  uint64_t made = 0;
  bool is_end = false;
  for (uint64_t at = 0; !is_end && at < packed.size_bytes(); at += in.size()) {
    if (options.stop_requested && options.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped while ", printable(name), " was being unpacked"));
    in.resize(std::min<uint64_t>(kPiece, packed.size_bytes() - at));
    DLPIPE_RETURN_IF_ERROR(packed.read(at, in));
    std::span<const std::byte> left(in);
    std::span<const std::byte> piece;
    do {
      const auto step = inflater.step(left, out);
      if (!step.ok()) return damaged_member(name, member, step.status().message());
      is_end = step->is_end;
      piece = std::span<const std::byte>(out).first(step->made);
      made += piece.size();
      if (made > member.size_bytes)
        return damaged_archive(name, concat(short_name(member.name), " is longer than declared"));
      crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
      DLPIPE_RETURN_IF_ERROR(scratch.append(piece));
    } while (!is_end && piece.size() == out.size());
  }
  if (!is_end || made != member.size_bytes)
    return damaged_archive(name, concat("the member ", short_name(member.name), " is truncated"));
  return static_cast<uint32_t>(crc);
}

/// Programs do not write archives whose members share bytes; such archives could unpack to any multiple of the file's size. A
/// member has at least its header of fixed size and its packed bytes.
Status check_apart(std::span<const ZipMember> members, uint64_t directory_at, const std::string& name) {
  std::vector<const ZipMember*> in_order;
  in_order.reserve(members.size());
  for (const ZipMember& member : members) in_order.push_back(&member);
  std::sort(in_order.begin(), in_order.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->header_at < b->header_at; });
  for (size_t i = 0; i < in_order.size(); ++i) {
    const uint64_t begin = in_order[i]->header_at;
    const uint64_t end = i + 1 < in_order.size() ? in_order[i + 1]->header_at : directory_at;
    const bool fits =
        begin <= end && end - begin >= kLocalBytes && in_order[i]->packed_bytes <= end - begin - kLocalBytes;
    if (fits) continue;
    return damaged_archive(
        name, concat("the member ", short_name(in_order[i]->name), " overlaps ",
                     i + 1 < in_order.size() ? short_name(in_order[i + 1]->name) : "the directory"));
  }
  return {};
}

}  // namespace

Result<std::vector<ZipMember>> zip_members(const ArchiveBytes& file, const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const Directory directory, find_directory(file, name));
  constexpr uint64_t kMostDirectory = uint64_t{256} << 20;
  if (directory.begin > file.size_bytes() || directory.size > file.size_bytes() - directory.begin ||
      directory.size > kMostDirectory)
    return damaged_archive(name, "its directory is after its end");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file.read(directory.begin, directory.size));
  std::vector<ZipMember> members;
  for (size_t at = 0; members.size() < directory.members;) {
    const std::span<const std::byte> left = std::span(bytes).subspan(std::min(at, bytes.size()));
    if (left.size() < kCentralBytes || load_le<uint32_t>(left, 0) != kCentralMagic)
      return damaged_archive(name, "its directory is truncated");
    const size_t name_bytes = load_le<uint16_t>(left, 28);
    const size_t extra_bytes = load_le<uint16_t>(left, 30);
    const size_t comment_bytes = load_le<uint16_t>(left, 32);
    if (left.size() < kCentralBytes + name_bytes + extra_bytes + comment_bytes)
      return damaged_archive(name, "its directory is truncated");
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(left.data()) + kCentralBytes, name_bytes);
    member.method = load_le<uint16_t>(left, 10);
    member.crc = load_le<uint32_t>(left, 16);
    member.packed_bytes = load_le<uint32_t>(left, 20);
    member.size_bytes = load_le<uint32_t>(left, 24);
    member.header_at = load_le<uint32_t>(left, 42);
    DLPIPE_RETURN_IF_ERROR(take_zip64(left.subspan(kCentralBytes + name_bytes, extra_bytes), member, name));
    if ((load_le<uint16_t>(left, 8) & 1) != 0)
      return Status(ErrorCode::kUnsupported,
                    concat("[ingest] ", printable(name), ": ", short_name(member.name),
                           " is encrypted; save it without a password"));
    members.push_back(std::move(member));
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }
  DLPIPE_RETURN_IF_ERROR(check_apart(members, directory.begin, name));
  return members;
}

namespace {

constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;

/// The position of a member's bytes in the file, after its own header.
Result<ArchiveBytes> packed_bytes_of(const ArchiveBytes& file, const ZipMember& member,
                                     const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> head, file.read(member.header_at, kLocalBytes));
  if (load_le<uint32_t>(head, 0) != kLocalMagic)
    return damaged_archive(name, concat(short_name(member.name), " is not where the directory says"));
  const uint64_t begin =
      member.header_at + kLocalBytes + load_le<uint16_t>(head, 26) + load_le<uint16_t>(head, 28);
  if (begin > file.size_bytes() || member.packed_bytes > file.size_bytes() - begin)
    return damaged_archive(name, concat(short_name(member.name), " is truncated"));
  const bool is_stored = member.method == kStored && member.packed_bytes == member.size_bytes;
  if (is_stored || member.method == kDeflated) return file.part(begin, member.packed_bytes);
  return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(name), ": ", short_name(member.name),
                                                " is compressed with method ", member.method,
                                                "; save it with numpy.savez or savez_compressed"));
}

/// The first bytes of a member, as many as an array's header may need.
Result<std::vector<std::byte>> member_begin(const ArchiveBytes& packed, const ZipMember& member,
                                            const std::string& name) {
  std::vector<std::byte> begin(std::min<uint64_t>(formats::kNpyHeadBytes, member.size_bytes));
  if (member.method == kStored) {
    DLPIPE_RETURN_IF_ERROR(packed.read(0, begin));
    return begin;
  }
  DLPIPE_ASSIGN_OR_RETURN(Inflater inflater, Inflater::begin(Inflater::Form::kBare));
  // Deflate makes incompressible bytes only slightly larger.
  DLPIPE_ASSIGN_OR_RETURN(
      const std::vector<std::byte> in,
      packed.read(0, std::min<uint64_t>(packed.size_bytes(), formats::kNpyHeadBytes + 1024)));
  std::span<const std::byte> left(in);
  size_t made = 0;
  while (made < begin.size()) {
    const auto step = inflater.step(left, std::span(begin).subspan(made));
    if (!step.ok()) return damaged_member(name, member, step.status().message());
    made += step->made;
    if (step->is_end || step->made == 0) break;
  }
  begin.resize(made);
  return begin;
}

/// Its bytes in the archive, or in a scratch file if they are packed.
Result<ArchiveBytes> member_bytes(const ArchiveBytes& file, const ZipMember& member, const std::string& name,
                                  const SourceOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes packed, packed_bytes_of(file, member, name));
  ArchiveBytes bytes = packed;
  uint32_t crc = 0;
  if (member.method == kStored) {
    DLPIPE_ASSIGN_OR_RETURN(crc, crc_of(packed, name, options));
  } else {
    if (options.scratch == nullptr)
      return misuse("ingest", "there is no scratch file to unpack ", printable(name), " to");
    DLPIPE_ASSIGN_OR_RETURN(auto scratch, options.scratch->file());
    const uint64_t at = scratch->size_bytes();
    DLPIPE_ASSIGN_OR_RETURN(crc, inflate_to(packed, member, *scratch, name, options));
    bytes = packed.rewritten(std::move(scratch), at);
  }
  if (crc == member.crc) return bytes;
  return damaged_archive(name, concat("the checksum of ", short_name(member.name), " differs"));
}

constexpr uint64_t kMostLabelBytes = uint64_t{1} << 30;

/// An element's bytes, the least significant one first.
uint64_t bits_of(const std::byte* at, size_t bytes, bool is_big) {
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const size_t place = is_big ? bytes - 1 - i : i;
    bits |= static_cast<uint64_t>(at[place]) << (8 * i);
  }
  return bits;
}

template <class To, class From>
To same_bits(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From));
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

/// IEEE 754 binary16.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double size = exponent == 0    ? mantissa / 16777216.0
                      : exponent == 31 ? std::numeric_limits<double>::quiet_NaN()
                                       : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double number_of(const std::byte* at, const formats::NpyHeader& header) {
  const size_t bytes = header.item_bytes;
  const uint64_t bits = bits_of(at, bytes, header.is_big);
  if (header.kind == 'f') {
    if (bytes == 2) return half_value(static_cast<uint16_t>(bits));
    return bytes == 4 ? double{same_bits<float>(static_cast<uint32_t>(bits))} : same_bits<double>(bits);
  }
  if (header.kind != 'i') return static_cast<double>(bits);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  return static_cast<double>(static_cast<int64_t>((bits ^ sign) - sign));
}

}  // namespace

Result<NpyArray> NpyArray::parse(const std::string& name, std::span<const std::byte> begin, uint64_t size) {
  NpyArray array;
  array.name_ = name;
  auto header = formats::parse_npy_header(begin, size);
  if (!header.ok()) return header.status().with_context(concat("[ingest] ", short_name(name), ": "));
  array.header_ = std::move(*header);
  if (array.header_.elements() == 0)
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", short_name(name), " is empty; write it again with numpy.save"));
  return array;
}

Result<NpyArray> NpyArray::open(const ArchiveBytes& file, const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> begin,
                          file.read(0, std::min<uint64_t>(formats::kNpyHeadBytes, file.size_bytes())));
  DLPIPE_ASSIGN_OR_RETURN(NpyArray array, parse(name, begin, file.size_bytes()));
  array.data_ = file;
  return array;
}

Result<NpyArray> NpyArray::open(const ArchiveBytes& zip, const ZipMember& member, const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes packed, packed_bytes_of(zip, member, zip.path()));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> begin, member_begin(packed, member, zip.path()));
  DLPIPE_ASSIGN_OR_RETURN(NpyArray array, parse(name, begin, member.size_bytes));
  array.data_ = zip;
  array.member_ = member;
  return array;
}

Status NpyArray::load(const SourceOptions& options) {
  if (is_loaded_) return {};
  if (member_) {
    DLPIPE_ASSIGN_OR_RETURN(data_, member_bytes(data_, *member_, data_.path(), options));
  }
  data_ = data_.part(header_.data_begin, data_.size_bytes() - header_.data_begin);
  if (header_.is_fortran && header_.shape.size() > 1) DLPIPE_RETURN_IF_ERROR(reorder(options));
  is_loaded_ = true;
  return {};
}

// Fortran's [N, H, W, C] is C's [C, W, H, N]: the elements of all samples at one place are adjacent. Each band of samples is
// gathered from all places.
Status NpyArray::reorder(const SourceOptions& options) {
  if (options.scratch == nullptr)
    return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(name_),
                                                  " is in Fortran order; save numpy.ascontiguousarray(x)"));
  DLPIPE_ASSIGN_OR_RETURN(auto scratch, options.scratch->file());
  const uint64_t begin = scratch->size_bytes();
  const uint64_t places = sample_elements();
  const uint64_t item = header_.item_bytes;
  constexpr uint64_t kBandBytes = uint64_t{32} << 20;
  const uint64_t band = std::clamp<uint64_t>(kBandBytes / (places * item), 1, samples());
  std::vector<uint64_t> sizes(header_.shape.begin() + 1, header_.shape.end());
  std::vector<std::byte> row;
  std::vector<std::byte> gathered;
  ArchiveBytes::Scan scan = data_.scan();
  for (uint64_t first = 0; first < samples(); first += band) {
    const uint64_t count = std::min(band, samples() - first);
    gathered.resize(count * places * item);
    row.resize(count * item);
    std::vector<uint64_t> at(sizes.size());  // the place in each dimension; the first one changes fastest
    for (uint64_t p = 0; p < places; ++p) {
      if (options.stop_requested && options.stop_requested())
        return Status(ErrorCode::kCancelled,
                      concat("[ingest] stopped while ", printable(name_), " was being read"));
      DLPIPE_ASSIGN_OR_RETURN(const size_t got, scan.read((p * samples() + first) * item, row));
      if (got < row.size())
        return Status(ErrorCode::kIo,
                      concat("[ingest] ", printable(name_), " shrank; download or create it again"));
      uint64_t to = 0;
      for (size_t d = 0; d < sizes.size(); ++d) to = to * sizes[d] + at[d];
      for (uint64_t n = 0; n < count; ++n)
        std::memcpy(gathered.data() + (n * places + to) * item, row.data() + n * item, item);
      for (size_t d = 0; d < sizes.size() && ++at[d] == sizes[d]; ++d) at[d] = 0;
    }
    DLPIPE_RETURN_IF_ERROR(scratch->append(gathered));
  }
  data_ = data_.rewritten(std::move(scratch), begin);
  return {};
}

std::string NpyArray::form() const {
  std::string sizes;
  for (const uint64_t size : header_.shape) sizes += concat(sizes.empty() ? "" : ", ", size);
  std::string type;
  for (const auto& [kind, name] : {std::pair('u', "uint"), std::pair('i', "int"), std::pair('f', "float")}) {
    if (header_.kind == kind) type = concat(name, 8 * header_.item_bytes);
  }
  return concat("[", sizes, "] of ", header_.kind == 'b' ? "bool" : !type.empty() ? type : header_.dtype);
}

Result<std::vector<std::byte>> NpyArray::read(uint64_t sample) const {
  const uint64_t bytes = sample_elements() * header_.item_bytes;
  return data_.read(sample * bytes, bytes);
}

Result<std::vector<std::byte>> NpyArray::all() const {
  if (data_.size_bytes() > kMostLabelBytes)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(name_), " has ", human_bytes(data_.size_bytes()),
                         ", too many for labels; give the array of labels with --label"));
  return data_.read(0, data_.size_bytes());
}

Result<std::vector<double>> NpyArray::numbers() const {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, all());
  std::vector<double> values;
  values.reserve(header_.elements());
  for (size_t at = 0; at < bytes.size(); at += header_.item_bytes)
    values.push_back(number_of(bytes.data() + at, header_));
  return values;
}

Result<std::vector<std::string>> NpyArray::texts() const {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, all());
  std::vector<std::string> values;
  const bool is_unicode = header_.kind == 'U';
  const size_t step = is_unicode ? 4 : 1;
  for (size_t at = 0; at < bytes.size(); at += header_.item_bytes) {
    std::string& text = values.emplace_back();
    for (size_t i = 0; i < header_.item_bytes; i += step) {
      const auto code = static_cast<uint32_t>(bits_of(bytes.data() + at + i, step, header_.is_big));
      if (code == 0) break;
      constexpr uint32_t kLastCode = 0x10ffff;
      if (is_unicode && code <= kLastCode)
        append_utf8(code, text);
      else
        text += is_unicode ? '?' : static_cast<char>(code);
    }
  }
  return values;
}

}  // namespace dlpipe::data
