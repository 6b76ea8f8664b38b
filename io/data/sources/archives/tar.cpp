// A tar archive, unpacked or packed (.gz, .zst), or on the standard input: WebDataset's samples (webdataset.cpp), class folders,
// class archives, or images whose classes a list names; the names of its files decide which. A packed one is unpacked once, to a
// scratch file next to DST.
//
// First the index: POSIX ustar and pax, GNU and the old forms. No size is trusted before it is compared with the archive's.
// Then the layouts, then the source.
#include "io/data/sources/archives/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/data/sources/bytes/unpack.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

constexpr uint64_t kBlock = 512;

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

/// The attributes of a member from the headers before it.
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
  /// False if the archive ends here or is corrupt.
  Result<bool> next(uint64_t& at);
  Result<bool> add(const Header& header, char type, uint64_t data, uint64_t size);
  Status take_name(const std::string& name);
  void add_file(std::string name, uint64_t data, uint64_t size);
  void add_link(const std::string& name, const std::string& target);
  Result<std::string> read_text(uint64_t at, uint64_t size);
  bool read_pax(std::string_view text);
  Status look_behind(uint64_t at);
  /// The normalized path; empty if it leads out of the archive.
  static std::string plain(std::string_view name);
  bool damaged(uint64_t at, std::string_view what) {
    index_.problem = concat("the archive is corrupt at byte ", at - begin_, ": ", what,
                            "; the rest is lost, so download or create it again");
    return false;
  }
  bool cut_short(std::string_view in) {
    index_.problem = concat("the archive is truncated ", in, " after ", end_ - begin_,
                            " bytes; download or create it again");
    return false;
  }
  /// A link whose target's bytes are not known here.
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

/// Members that a listing reads when it knows all names: classes and texts of WebDataset's samples.
bool says_of_samples(const std::string& name, uint64_t size) {
  constexpr uint64_t kMost = 1 << 20;
  const std::string ending = lower_ending(name);
  return size <= kMost && (ending == "cls" || ending == "json" || ending == "txt");
}

/// Takes from the budget the memory of a member, of its place by its name, and of the entry that it may become.
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
  if (it == place_of_.end()) return leave_link(name, "link without a target in the archive");
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
  constexpr uint64_t kMostName = 1 << 20;
  constexpr uint64_t kMostExtended = 16 << 20;  // with comments and attributes, which are not used
  const bool is_extended = type == 'x' || type == 'X' || type == 'L' || type == 'K';
  if (type == 'g') return true;  // for all files: no names
  if (is_extended) {
    const bool is_name = type == 'L' || type == 'K';
    if (size > (is_name ? kMostName : kMostExtended))
      return damaged(data - kBlock,
                     is_name ? "a name is longer than 1 MB" : "an extended header is longer than 16 MB");
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(data, size));
    if (type == 'L') extended_.name = up_to_zero(text);
    if (type == 'K') extended_.link = up_to_zero(text);
    if ((type == 'x' || type == 'X') && !read_pax(text))
      return damaged(data, "an extended header is invalid");
    if (extended_.name.value_or("").size() > kMostName || extended_.link.value_or("").size() > kMostName)
      return damaged(data - kBlock, "a name is longer than 1 MB");
    return true;
  }
  const Extended extended = std::move(extended_);
  extended_ = {};
  const bool is_ustar = text_at(header, 257, 5) == "ustar";
  const bool is_posix = is_ustar && header[262] == std::byte{0};  // GNU has other data in the prefix's place
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
    leave("name that leads outside the archive");
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

// Archives are padded to whole tape records, of 10 KB by default. A file with more padding than that, or only zeros, is not
// read to its end.
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
    return damaged(at, at == begin_ ? "not a tar header" : "the checksum of a header differs");
  const char type = static_cast<char>(header[156]);
  std::optional<uint64_t> size = number_at(header, 124, 12);
  if (!size) return damaged(at, "a size is invalid");
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

/// Indexes the `size` bytes after `begin` (an archive may contain archives). Errors come from reading or from the budget;
/// problems of the archive itself are in TarIndex::problem.
Result<TarIndex> index_tar(ArchiveBytes::Scan& scan, uint64_t begin, uint64_t size, ReadBudget& budget) {
  return Indexer(scan, begin, size, budget).run();
}

/// "a/b/c.jpg" -> "a", "b/c.jpg"; without a slash -> "", the name.
std::pair<std::string_view, std::string_view> first_part(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {{}, name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// The length of the path to the class folders: the folders that all images share, as long as each still has one.
size_t common_root(const std::vector<const TarMember*>& images) {
  size_t root = 0;
  while (true) {
    const std::string_view shared = first_part(std::string_view(images.front()->name).substr(root)).first;
    const bool all = !shared.empty() && std::all_of(images.begin(), images.end(), [&](const TarMember* one) {
      const auto [first, rest] = first_part(std::string_view(one->name).substr(root));
      return first == shared && rest.find('/') != std::string_view::npos;
    });
    if (!all) return root;
    root += shared.size() + 1;
  }
}

/// The folders directly below the root, with what is in each: files and folders of the archive alike.
std::vector<TopFolder> top_folders(const TarIndex& index, std::string_view root) {
  std::map<std::string, std::pair<std::set<std::string>, size_t>, std::less<>> found;
  const auto add = [&](std::string_view name, bool is_image) {
    if (!name.starts_with(root)) return;
    const auto [top, rest] = first_part(name.substr(root.size()));
    if (top.empty()) return;
    auto& [folders, images] = found[std::string(top)];
    const auto [next, below] = first_part(rest);
    if (!next.empty()) folders.insert(std::string(next));
    if (next.empty() && is_image) ++images;
  };
  for (const TarMember& one : index.members) {
    if (has_image_name(one.name)) add(one.name, true);
  }
  for (const std::string& folder : index.folders) add(folder + "/", false);
  for (const std::string& folder : index.folders) {  // a folder of a folder may be empty
    if (!folder.starts_with(root)) continue;
    const auto [top, rest] = first_part(std::string_view(folder).substr(root.size()));
    if (!top.empty() && rest.find('/') == std::string_view::npos && !rest.empty())
      found[std::string(top)].first.insert(std::string(rest));
  }
  std::vector<TopFolder> tops;
  tops.reserve(found.size());
  for (auto& [name, inside] : found)
    tops.push_back({name, {inside.first.begin(), inside.first.end()}, inside.second});
  return tops;
}

}  // namespace

SourceEntry entry_of(const TarMember& member, const ArchiveBytes& archive) {
  SourceEntry entry;
  entry.path = member.name;
  entry.size_bytes = member.size_bytes;
  entry.modified_ns = archive.modified_ns();
  entry.place = member.begin;
  if (member.is_link)
    entry.problem =
        "is a link in the archive, without its contents; tar -h and --hard-dereference store the "
        "images "
        "themselves";
  return entry;
}

std::string refer_to_member(const TarMember& member, const ArchiveBytes& archive) {
  return refer_to({member.size_bytes, archive.modified_ns()}, std::to_string(member.begin));
}

namespace {

/// CLASS/.../IMAGE, with or without train, val and test above, as a folder of these.
Result<SourceListing> list_class_folders(const TarContents& tar) {
  std::vector<const TarMember*> images;
  std::map<std::string, int64_t> others;
  for (const TarMember& one : tar.index.members) {
    if (has_image_name(one.name)) {
      images.push_back(&one);
    } else {
      const std::string ending = std::filesystem::path(one.name).extension().string();
      ++others[ending.empty() ? "no ending" : ending];
    }
  }
  const size_t root = common_root(images);
  const std::string shown = concat(tar.name, root > 0 ? "/" : "", images.front()->name.substr(0, root));
  const std::vector<TopFolder> tops =
      top_folders(tar.index, std::string_view(images.front()->name).substr(0, root));
  SplitLayout layout;
  if (tar.options.splits) {
    DLPIPE_ASSIGN_OR_RETURN(layout, find_split_layout(shown, tops));
  }
  SourceListing listing;
  listing.warnings = layout.notes;
  listing.classes_are_folders = true;
  listing.classes = layout.classes;
  if (layout.parts.empty()) {
    for (const TopFolder& top : tops) listing.classes.push_back(top.name);
  }
  std::sort(listing.classes.begin(), listing.classes.end());
  int64_t beside = 0;
  for (const TarMember* one : images) {
    SourceEntry entry = entry_of(*one, tar.archive);
    entry.path = one->name.substr(root);
    auto [folder, rest] = first_part(entry.path);
    if (!layout.parts.empty()) {
      const auto part =
          std::find_if(layout.parts.begin(), layout.parts.end(),
                       [&folder = folder](const SplitLayout::Part& p) { return p.folder == folder; });
      if (part == layout.parts.end()) continue;  // a note says what was ignored
      entry.split = part->split;
      entry.name_begin = folder.size() + 1;
      folder = first_part(rest).first;
    }
    const auto label = std::lower_bound(listing.classes.begin(), listing.classes.end(), folder);
    if (folder.empty() || label == listing.classes.end() || *label != folder) {
      ++beside;
      continue;
    }
    entry.label = label - listing.classes.begin();
    listing.entries.push_back(std::move(entry));
  }
  drop_empty_classes(listing);
  if (tar.options.alone) warn_of_classes(listing);
  if (beside > 0)
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(static_cast<int64_t>(beside), "image"),
                                      " next to the class folders of ", printable(tar.name),
                                      ", without a class"));
  if (!others.empty())
    listing.warnings.push_back(concat("[ingest] ", printable(tar.name),
                                      ": ignored because they are not images: ", kinds_text(others)));
  return listing;
}

/// CLASS.tar, each with images: ImageNet as published.
Result<SourceListing> list_class_archives(const TarContents& tar) {
  SourceListing listing;
  std::vector<std::string> class_of_entry;
  std::map<std::string, int64_t> left_aside;
  ArchiveBytes::Scan scan = tar.archive.scan();
  for (const TarMember& one : tar.index.members) {
    if (!has_tar_name(one.name)) {
      ++left_aside[std::filesystem::path(one.name).extension().string()];
      continue;
    }
    const std::string name = tar_stem(one.name);
    std::array<std::byte, 6> begin{};
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, scan.read(one.begin, begin));
    DLPIPE_ASSIGN_OR_RETURN(const Packing packing,
                            packing_of(std::span<const std::byte>(begin).first(count), one.name));
    TarIndex inner;
    if (packing != Packing::kNone) {
      inner.problem = "a compressed archive in an archive is not supported; unpack the outer one";
    } else {
      DLPIPE_ASSIGN_OR_RETURN(inner, index_tar(scan, one.begin, one.size_bytes, tar.budget));
    }
    for (const TarMember& image : inner.members) {
      if (!has_image_name(image.name)) {
        ++left_aside[std::filesystem::path(image.name).extension().string()];
        continue;
      }
      listing.entries.push_back(entry_of(image, tar.archive));
      listing.entries.back().path = concat(name, "/", image.name);
      class_of_entry.push_back(name);
    }
    if (!inner.problem.empty()) {
      SourceEntry lost;
      lost.path = concat(one.name, " (its end)");
      lost.problem = inner.problem;
      lost.is_rest = true;
      listing.entries.push_back(std::move(lost));
      class_of_entry.push_back(name);
    }
  }
  number_classes(class_of_entry, listing);
  drop_empty_classes(listing);
  if (tar.options.alone) warn_of_classes(listing);
  if (!left_aside.empty())
    listing.warnings.push_back(
        concat("[ingest] ", printable(tar.name), ": ignored in its archives: ", kinds_text(left_aside)));
  return listing;
}

/// Images without folders, whose classes are the lines of --labels.
Result<SourceListing> list_flat_images(const TarContents& tar) {
  SourceListing listing;
  for (const TarMember& one : tar.index.members) {
    if (has_image_name(one.name)) listing.entries.push_back(entry_of(one, tar.archive));
  }
  if (tar.options.labels.empty()) return no_classes(tar.name, static_cast<int64_t>(listing.entries.size()));
  DLPIPE_RETURN_IF_ERROR(take_labels(tar.options, listing));
  return listing;
}

class TarSource final : public Source {
 public:
  explicit TarSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return archive_->read_image(entry.place, entry.size_bytes);
  }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override;
  Result<Link> where(const SourceEntry& entry) const override {
    return archive_->where(entry.place, entry.size_bytes);
  }

 private:
  std::string name() const { return options_.path == "-" ? "standard input" : options_.path; }
  Result<SourceListing> list_files(const TarContents& tar) const;
  void note_damage(const TarIndex& index, SourceListing& listing) const;

  SourceOptions options_;
  std::optional<ArchiveBytes> archive_;
};

Result<std::vector<std::byte>> TarSource::read_referred(const SourceEntry&,
                                                        std::string_view reference) const {
  DLPIPE_ASSIGN_OR_RETURN(const Referred file, referred(reference));
  int64_t begin = 0;
  if (!parse_int(file.path, &begin))
    return Status(ErrorCode::kInternal, concat("[ingest] not a place in an archive: ", printable(reference)));
  return archive_->read_image(static_cast<uint64_t>(begin), file.stamp.size_bytes);
}

Result<SourceListing> TarSource::list_files(const TarContents& tar) const {
  const std::vector<TarMember>& members = tar.index.members;
  const auto any = [&](auto is) { return std::any_of(members.begin(), members.end(), is); };
  if (is_webdataset(tar.index)) return list_webdataset(tar);
  if (!options_.fields.empty() && options_.alone)
    return misuse("ingest", "--field has no effect on ", printable(name()),
                  ", whose files are not samples of WebDataset; leave it out");
  const bool has_images = any([](const TarMember& one) { return has_image_name(one.name); });
  if (!has_images && any([](const TarMember& one) { return has_tar_name(one.name); }))
    return list_class_archives(tar);
  if (!has_images) {
    std::map<std::string, int64_t> kinds = tar.index.left_aside;
    for (const TarMember& one : members) {
      const std::string ending = std::filesystem::path(one.name).extension().string();
      ++kinds[ending.empty() ? "no ending" : ending];
    }
    const std::string there = kinds_text(kinds);
    return Status(tar.index.problem.empty() ? ErrorCode::kNotFound : ErrorCode::kCorrupt,
                  concat("[ingest] no image in ", printable(name()), "; looked for .jpg, .jpeg, .png, ...",
                         there.empty() ? "" : concat(", there is ", there),
                         tar.index.problem.empty() ? "" : concat("; ", tar.index.problem)));
  }
  const bool has_folders = any([](const TarMember& one) {
    return has_image_name(one.name) && one.name.find('/') != std::string::npos;
  });
  return has_folders ? list_class_folders(tar) : list_flat_images(tar);
}

// A corrupt end is an entry that can't be read: --on-error decides whether the members before it are used.
void TarSource::note_damage(const TarIndex& index, SourceListing& listing) const {
  if (index.replaced > 0)
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": ",
                                      counted(index.replaced, "file appears", "files appear"),
                                      " in it twice; the later one is used, as tar does"));
  if (index.bytes_behind_end > 0)
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": ",
                                      human_bytes(index.bytes_behind_end),
                                      " after the archive's end mark were ignored; give archives that were "
                                      "appended to each other one by one"));
  if (const std::string rest = kinds_text(index.left_aside); !rest.empty())
    listing.warnings.push_back(concat("[ingest] ", printable(name()), ": ignored: ", rest));
  if (index.problem.empty()) return;
  SourceEntry lost;
  lost.path = concat(std::filesystem::path(name()).filename().string(), " (its end)");
  lost.problem = index.problem;
  lost.is_rest = true;
  lost.extra.resize(listing.fields.size());
  if (!listing.entries.empty()) lost.split = listing.entries.front().split;
  listing.entries.push_back(std::move(lost));
}

Result<SourceListing> TarSource::list() {
  const bool is_stream =
      options_.path == "-" || !options_.address.empty();  // it can be read once, or is fetched once
  if (!archive_ || !is_stream) {
    DLPIPE_ASSIGN_OR_RETURN(archive_, ArchiveBytes::open(options_.path, options_));
  }
  ArchiveBytes::Scan scan = archive_->scan();
  const std::string shown = name();
  ReadBudget budget(options_, shown, archive_->input_bytes());
  DLPIPE_ASSIGN_OR_RETURN(TarIndex index, index_tar(scan, 0, archive_->size_bytes(), budget));
  const TarContents tar{shown, *archive_, options_, std::move(index), budget};
  if (tar.index.members.empty() && !tar.index.problem.empty())
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(shown), ": ", tar.index.problem));
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, list_files(tar));
  note_damage(tar.index, listing);
  archive_->drop_kept();
  return listing;
}

int recognizes_tar(const SourceOptions& options) {
  if (!options.manifest.empty()) return 0;
  if (options.path == "-") return 2;
  return has_tar_name(options.path) && !is_folder(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_tar(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<TarSource>(options));
}

}  // namespace

extern const SourceRecord tar_source;
const SourceRecord tar_source = {"tar",
                                 "a .tar, .tar.gz or .tar.zst (or - for one on standard input) with "
                                 "WebDataset samples, class folders or "
                                 "class archives",
                                 recognizes_tar,
                                 open_tar,
                                 "--label --labels --field",
                                 true};

}  // namespace dlpipe::data
