#include "dlpipe/io/data/sources/archives/tar_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/bytes/unpack.h"
#include "dlpipe/io/data/sources/picture_folder.h"

namespace dlpipe::data {

namespace {

constexpr uint64_t kBlock = 512;
constexpr std::array<std::string_view, 5> kEndings = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"};

using Header = std::array<std::byte, kBlock>;

std::string_view up_to_zero(std::string_view text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

std::string_view text_at(const Header& header, size_t at, size_t size) {
  return up_to_zero({reinterpret_cast<const char*>(header.data()) + at, size});
}

/// Octal digits between blanks, or GNU's binary form; nothing for anything else, or 2^62 and more.
std::optional<uint64_t> number_at(const Header& header, size_t at, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(header[at + i]); };
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t value = 0;
  if (byte(0) == 0x80) {
    for (size_t i = 1; i < size; ++i) {
      if (value >= kMost >> 8) return std::nullopt;
      value = value << 8 | byte(i);
    }
    return value;
  }
  const std::string_view digits = trim(text_at(header, at, size));
  for (const char c : digits) {
    if (c < '0' || c > '7' || value >= kMost >> 3) return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool checksum_fits(const Header& header) {
  constexpr size_t kAt = 148;
  constexpr size_t kSize = 8;
  const std::optional<uint64_t> noted = number_at(header, kAt, kSize);
  if (!noted) return false;
  int64_t as_unsigned = 0;
  int64_t as_signed = 0;  // some old programs
  for (size_t i = 0; i < header.size(); ++i) {
    const bool own = i >= kAt && i < kAt + kSize;
    as_unsigned += own ? ' ' : static_cast<uint8_t>(header[i]);
    as_signed += own ? ' ' : static_cast<int8_t>(header[i]);
  }
  const auto sum = static_cast<int64_t>(*noted);
  return sum == as_unsigned || sum == as_signed;
}

/// What the headers before a member say about it.
struct Extended {
  std::optional<std::string> name;
  std::optional<std::string> link;
  std::optional<uint64_t> size;
  bool sparse = false;
};

class Indexer {
 public:
  Indexer(ArchiveBytes::Scan& scan, uint64_t begin, uint64_t size, ReadBudget& budget)
      : scan_(scan), begin_(begin), end_(begin + size), budget_(budget) {}

  Result<TarIndex> run();

 private:
  /// False where the archive ends here, or is found to be damaged.
  Result<bool> next(uint64_t& at);
  Result<bool> add(const Header& header, char type, uint64_t data, uint64_t size);
  Status take_name(const std::string& name);
  void add_file(std::string name, uint64_t data, uint64_t size);
  void add_link(const std::string& name, const std::string& target);
  Result<std::string> read_text(uint64_t at, uint64_t size);
  bool read_pax(std::string_view text);
  Status look_behind(uint64_t at);
  /// Without what leads to it; empty where it leads out of the archive.
  static std::string plain(std::string_view name);
  bool damaged(uint64_t at, std::string_view what) {
    index_.problem = concat("the archive is damaged at byte ", at - begin_, ": ", what,
                            "; what follows is lost, so download or make it again");
    return false;
  }
  bool cut_short(std::string_view in) {
    index_.problem = concat("the archive is cut short ", in, " after ", end_ - begin_,
                            " bytes; download or make it again");
    return false;
  }
  /// A link whose target's bytes aren't known here.
  void leave_link(const std::string& name, std::string_view kind);
  void leave(std::string_view kind) { ++index_.left_aside[std::string(kind)]; }

  ArchiveBytes::Scan& scan_;
  uint64_t begin_;
  uint64_t end_;
  ReadBudget& budget_;
  TarIndex index_;
  Extended extended_;
  std::unordered_map<std::string, size_t> place_of_;  // name -> in index_.members
};

std::string Indexer::plain(std::string_view name) {
  std::string out;
  for (const std::string& part : split(name, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    out += (out.empty() ? "" : "/") + part;
  }
  return out;
}

bool is_hidden(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  return std::any_of(parts.begin(), parts.end(),
                     [](const std::string& part) { return part[0] == '.' || is_system_folder(part); });
}

/// What a listing looks into when it knows all names: classes and texts of WebDataset's samples.
bool says_of_samples(const std::string& name, uint64_t size) {
  constexpr uint64_t kMost = 1 << 20;
  const std::string ending = lower_ending(name);
  return size <= kMost && (ending == "cls" || ending == "json" || ending == "txt");
}

/// A member, its place by its name, and the entry that it may become.
Status Indexer::take_name(const std::string& name) {
  constexpr uint64_t kBytes = 2 * (sizeof(TarMember) + sizeof(SourceEntry)) + 64;
  return budget_.take(kBytes + 3 * name.size(), 1, "the list of its files");
}

void Indexer::add_file(std::string name, uint64_t data, uint64_t size) {
  const auto [it, fresh] = place_of_.emplace(name, index_.members.size());
  if (fresh) {
    index_.members.push_back({std::move(name), data, size});
    return;
  }
  ++index_.replaced;
  index_.members[it->second] = {std::move(name), data, size};
}

void Indexer::leave_link(const std::string& name, std::string_view kind) {
  if (!has_image_name(name)) return leave(kind);
  add_file(name, 0, 0);
  index_.members[place_of_.at(name)].is_link = true;
}

void Indexer::add_link(const std::string& name, const std::string& target) {
  const auto it = place_of_.find(plain(target));
  if (it == place_of_.end()) return leave_link(name, "link to nothing in the archive");
  const TarMember other = index_.members[it->second];
  if (other.is_link) return leave_link(name, "link to a link in the archive");
  add_file(name, other.begin, other.size_bytes);
}

Result<std::string> Indexer::read_text(uint64_t at, uint64_t size) {
  std::string text(size, '\0');
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, scan_.read(at, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

// "27 path=a/long/name.jpg\n", each with its own length.
bool Indexer::read_pax(std::string_view text) {
  while (!text.empty() && text[0] != '\0') {
    const size_t blank = text.find(' ');
    int64_t length = 0;
    if (blank == std::string_view::npos || !parse_int(text.substr(0, blank), &length) ||
        length < static_cast<int64_t>(blank) + 2 || static_cast<uint64_t>(length) > text.size())
      return false;
    const auto size = static_cast<size_t>(length);
    const std::string_view record = text.substr(blank + 1, size - blank - 1);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos || record.back() != '\n') return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1, record.size() - equals - 2);
    if (key == "path") extended_.name = value;
    if (key == "linkpath") extended_.link = value;
    if (key.starts_with("GNU.sparse")) extended_.sparse = true;
    if (key == "size") {
      int64_t bytes = 0;
      if (!parse_int(value, &bytes) || bytes < 0) return false;
      extended_.size = static_cast<uint64_t>(bytes);
    }
    text.remove_prefix(size);
  }
  return true;
}

Result<bool> Indexer::add(const Header& header, char type, uint64_t data, uint64_t size) {
  constexpr uint64_t kMostExtended = 1 << 20;
  const bool is_extended = type == 'x' || type == 'g' || type == 'X' || type == 'L' || type == 'K';
  if (is_extended) {
    if (size > kMostExtended) return damaged(data - kBlock, "a name of over 1 MB");
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(data, size));
    if (type == 'L') extended_.name = up_to_zero(text);
    if (type == 'K') extended_.link = up_to_zero(text);
    if ((type == 'x' || type == 'X') && !read_pax(text)) return damaged(data, "an extended header");
    return true;
  }
  const Extended extended = std::move(extended_);
  extended_ = {};
  const bool is_ustar = text_at(header, 257, 5) == "ustar";
  const bool is_posix =
      is_ustar && header[262] == std::byte{0};  // GNU has other things in the prefix's place
  const std::string_view prefix = is_posix ? text_at(header, 345, 155) : std::string_view();
  const std::string full =
      extended.name ? *extended.name : concat(prefix, prefix.empty() ? "" : "/", text_at(header, 0, 100));
  const std::string name = plain(full);
  DLPIPE_RETURN_IF_ERROR(take_name(name));
  if (type == '5' || (type == '\0' && full.ends_with('/'))) {
    if (!name.empty() && !is_hidden(name)) index_.folders.push_back(name);
    return true;
  }
  if (name.empty()) {
    leave("name that leads out of the archive");
  } else if (is_hidden(name)) {
    leave("hidden");
  } else if (extended.sparse || type == 'S') {
    leave("sparse file");
  } else if (type == '0' || type == '\0' || type == '7') {
    if (says_of_samples(name, size)) DLPIPE_RETURN_IF_ERROR(scan_.keep(data, size));
    add_file(name, data, size);
  } else if (type == '1') {
    add_link(name, extended.link ? *extended.link : std::string(text_at(header, 157, 100)));
  } else if (type == '2') {
    leave_link(name, "symbolic link");
  } else {
    leave("device, pipe or unknown kind");
  }
  return true;
}

// Archives are padded to whole tape records, of 10 KB by default. A file that was made larger than that, or that is nothing
// but zeros, isn't read through.
Status Indexer::look_behind(uint64_t at) {
  constexpr uint64_t kMostPadding = uint64_t{64} << 20;
  std::array<std::byte, kBlock * 64> piece;
  for (const uint64_t stop = std::min(end_, at + kMostPadding); at < stop; at += piece.size()) {
    const auto want = std::span(piece).first(std::min<uint64_t>(piece.size(), end_ - at));
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, scan_.read(at, want));
    if (all_zero(want.first(count))) continue;
    index_.bytes_behind_end = end_ - at;
    break;
  }
  return {};
}

Result<bool> Indexer::next(uint64_t& at) {
  Header header;
  if (end_ - at < kBlock) return cut_short(at == end_ ? "(it has no end mark)" : "within a header");
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, scan_.read(at, header));
  if (count < kBlock) return cut_short("within a header");
  if (all_zero(header)) {
    DLPIPE_RETURN_IF_ERROR(look_behind(at + kBlock));
    return false;
  }
  if (!checksum_fits(header))
    return damaged(at, at == begin_ ? "no tar header" : "a header's checksum differs");
  const char type = static_cast<char>(header[156]);
  std::optional<uint64_t> size = number_at(header, 124, 12);
  if (!size) return damaged(at, "an impossible size");
  if (extended_.size && type != 'x' && type != 'g' && type != 'L' && type != 'K') size = extended_.size;
  if (type >= '1' && type <= '6') size = 0;  // links, devices and folders have no data
  const uint64_t data = at + kBlock;
  const uint64_t padded = (*size + kBlock - 1) / kBlock * kBlock;
  if (*size > end_ - data) {
    const std::string_view name = text_at(header, 0, 100);
    return cut_short(concat("within ", printable(extended_.name ? *extended_.name : std::string(name))));
  }
  DLPIPE_ASSIGN_OR_RETURN(const bool sane, add(header, type, data, *size));
  at = data + padded;
  if (sane && at > end_) return cut_short("in the padding of its last file");
  return sane;
}

Result<TarIndex> Indexer::run() {
  uint64_t at = begin_;
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const bool more, next(at));
    if (!more) return std::move(index_);
  }
}

}  // namespace

Result<TarIndex> index_tar(ArchiveBytes::Scan& scan, uint64_t begin, uint64_t size, ReadBudget& budget) {
  return Indexer(scan, begin, size, budget).run();
}

bool has_tar_name(const std::string& path) {
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return path.size() > ending.size() && lower_text(path).ends_with(ending);
  });
}

std::string tar_stem(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : kEndings) {
    if (lower_text(name).ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

}  // namespace dlpipe::data
