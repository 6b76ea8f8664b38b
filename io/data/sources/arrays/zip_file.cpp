#include "dlpipe/io/data/sources/arrays/zip_file.h"

#include <zlib.h>

#include <algorithm>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/bytes/inflater.h"
#include "dlpipe/io/data/sources/bytes/unpack.h"

namespace dlpipe::data {

namespace {

// PKWARE's APPNOTE.TXT, 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
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
  if (at-- == 0) return damaged_archive(name, "no zip file, or one that is cut short");
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

/// Sizes and places of 4 GB and more stand in an extra field of kind 1, in this order.
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
      if (place + 8 > field.size()) return damaged_archive(name, "a size is cut short");
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
      return Status(ErrorCode::kCancelled, concat("[ingest] stopped while ", printable(name), " was read"));
    piece.resize(std::min(kPiece, bytes.size_bytes() - at));
    DLPIPE_RETURN_IF_ERROR(bytes.read(at, piece));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  }
  return static_cast<uint32_t>(crc);
}

/// A deflated member into the scratch file; its checksum.
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
                    concat("[ingest] stopped while ", printable(name), " was unpacked"));
    in.resize(std::min<uint64_t>(kPiece, packed.size_bytes() - at));
    DLPIPE_RETURN_IF_ERROR(packed.read(at, in));
    std::span<const std::byte> left(in);
    std::span<const std::byte> piece;
    do {
      const auto step = inflater.step(left, out);
      if (!step.ok())
        return damaged_archive(
            name, concat("the member ", printable(member.name), " is damaged: ", step.status().message()));
      is_end = step->is_end;
      piece = std::span<const std::byte>(out).first(step->made);
      made += piece.size();
      if (made > member.size_bytes)
        return damaged_archive(name, concat(printable(member.name), " is longer than it says"));
      crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
      DLPIPE_RETURN_IF_ERROR(scratch.append(piece));
    } while (!is_end && piece.size() == out.size());
  }
  if (!is_end || made != member.size_bytes)
    return damaged_archive(name, concat("the member ", printable(member.name), " is cut short"));
  return static_cast<uint32_t>(crc);
}

}  // namespace

Result<std::vector<ZipMember>> zip_members(const ArchiveBytes& file, const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const Directory directory, find_directory(file, name));
  constexpr uint64_t kMostDirectory = uint64_t{256} << 20;
  if (directory.begin > file.size_bytes() || directory.size > file.size_bytes() - directory.begin ||
      directory.size > kMostDirectory)
    return damaged_archive(name, "its directory lies behind its end");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, file.read(directory.begin, directory.size));
  std::vector<ZipMember> members;
  for (size_t at = 0; members.size() < directory.members;) {
    const std::span<const std::byte> left = std::span(bytes).subspan(std::min(at, bytes.size()));
    if (left.size() < kCentralBytes || load_le<uint32_t>(left, 0) != kCentralMagic)
      return damaged_archive(name, "its directory is cut short");
    const size_t name_bytes = load_le<uint16_t>(left, 28);
    const size_t extra_bytes = load_le<uint16_t>(left, 30);
    const size_t comment_bytes = load_le<uint16_t>(left, 32);
    if (left.size() < kCentralBytes + name_bytes + extra_bytes + comment_bytes)
      return damaged_archive(name, "its directory is cut short");
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
                    concat("[ingest] ", printable(name), ": ", printable(member.name),
                           " is encrypted; save it without a password"));
    members.push_back(std::move(member));
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }
  return members;
}

Result<ArchiveBytes> member_bytes(const ArchiveBytes& file, const ZipMember& member, const std::string& name,
                                  const SourceOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> head, file.read(member.header_at, kLocalBytes));
  if (load_le<uint32_t>(head, 0) != kLocalMagic)
    return damaged_archive(name, concat(printable(member.name), " is not where the directory says"));
  const uint64_t begin =
      member.header_at + kLocalBytes + load_le<uint16_t>(head, 26) + load_le<uint16_t>(head, 28);
  if (begin > file.size_bytes() || member.packed_bytes > file.size_bytes() - begin)
    return damaged_archive(name, concat(printable(member.name), " is cut short"));
  const ArchiveBytes packed = file.part(begin, member.packed_bytes);
  ArchiveBytes bytes = packed;
  uint32_t crc = 0;
  constexpr uint16_t kStored = 0;
  constexpr uint16_t kDeflated = 8;
  if (member.method == kStored && member.packed_bytes == member.size_bytes) {
    DLPIPE_ASSIGN_OR_RETURN(crc, crc_of(packed, name, options));
  } else if (member.method == kDeflated && options.scratch != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(auto scratch, options.scratch->file());
    const uint64_t at = scratch->size_bytes();
    DLPIPE_ASSIGN_OR_RETURN(crc, inflate_to(packed, member, *scratch, name, options));
    bytes = packed.rewritten(std::move(scratch), at);
  } else {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(name), ": ", printable(member.name), " is packed by method ",
                         member.method, "; numpy.savez and savez_compressed are read"));
  }
  if (crc == member.crc) return bytes;
  return damaged_archive(name, concat("the checksum of ", printable(member.name), " differs"));
}

}  // namespace dlpipe::data
