#include "dlpipe/io/data/sources/archives/tar_layout.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/bytes/unpack.h"
#include "dlpipe/io/data/sources/label_list.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

/// "a/b/c.jpg" -> "a", "b/c.jpg"; without a slash -> "", the name.
std::pair<std::string_view, std::string_view> first_part(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {{}, name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// Bytes of what leads to the class folders: the folders that all pictures share, as long as each still has one.
size_t common_root(const std::vector<const TarMember*>& pictures) {
  size_t root = 0;
  while (true) {
    const std::string_view shared = first_part(std::string_view(pictures.front()->name).substr(root)).first;
    const bool all =
        !shared.empty() && std::all_of(pictures.begin(), pictures.end(), [&](const TarMember* one) {
          const auto [first, rest] = first_part(std::string_view(one->name).substr(root));
          return first == shared && rest.find('/') != std::string_view::npos;
        });
    if (!all) return root;
    root += shared.size() + 1;
  }
}

/// The folders directly below the root, with what lies in each: files and folders of the archive alike.
std::vector<TopFolder> top_folders(const TarIndex& index, std::string_view root) {
  std::map<std::string, std::pair<std::set<std::string>, size_t>, std::less<>> found;
  const auto add = [&](std::string_view name, bool is_picture) {
    if (!name.starts_with(root)) return;
    const auto [top, rest] = first_part(name.substr(root.size()));
    if (top.empty()) return;
    auto& [folders, pictures] = found[std::string(top)];
    const auto [next, below] = first_part(rest);
    if (!next.empty()) folders.insert(std::string(next));
    if (next.empty() && is_picture) ++pictures;
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
        "is a link in the archive, which holds no bytes of it; tar -h and --hard-dereference store the "
        "pictures "
        "themselves";
  return entry;
}

std::string refer_to_member(const TarMember& member, const ArchiveBytes& archive) {
  return refer_to({member.size_bytes, archive.modified_ns()}, std::to_string(member.begin));
}

Result<SourceListing> list_class_folders(const TarContents& tar) {
  std::vector<const TarMember*> pictures;
  std::map<std::string, int64_t> others;
  for (const TarMember& one : tar.index.members) {
    if (has_image_name(one.name)) {
      pictures.push_back(&one);
    } else {
      const std::string ending = std::filesystem::path(one.name).extension().string();
      ++others[ending.empty() ? "no ending" : ending];
    }
  }
  const size_t root = common_root(pictures);
  const std::string shown = concat(tar.name, root > 0 ? "/" : "", pictures.front()->name.substr(0, root));
  const std::vector<TopFolder> tops =
      top_folders(tar.index, std::string_view(pictures.front()->name).substr(0, root));
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
  for (const TarMember* one : pictures) {
    SourceEntry entry = entry_of(*one, tar.archive);
    entry.path = one->name.substr(root);
    auto [folder, rest] = first_part(entry.path);
    if (!layout.parts.empty()) {
      const auto part =
          std::find_if(layout.parts.begin(), layout.parts.end(),
                       [&folder = folder](const SplitLayout::Part& p) { return p.folder == folder; });
      if (part == layout.parts.end()) continue;  // a note says what was left aside
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
  if (tar.options.alone) warn_of_classes(listing);
  if (beside > 0)
    listing.warnings.push_back(concat("[ingest] ", beside, " pictures beside the class folders of ",
                                      printable(tar.name), " were left aside: they have no class"));
  if (!others.empty())
    listing.warnings.push_back(
        concat("[ingest] ", printable(tar.name), ": left aside, no pictures: ", kinds_text(others)));
  return listing;
}

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
      inner.problem = "a packed archive in an archive isn't read; unpack the outer one";
    } else {
      DLPIPE_ASSIGN_OR_RETURN(inner, index_tar(scan, one.begin, one.size_bytes, tar.budget));
    }
    for (const TarMember& picture : inner.members) {
      if (!has_image_name(picture.name)) {
        ++left_aside[std::filesystem::path(picture.name).extension().string()];
        continue;
      }
      listing.entries.push_back(entry_of(picture, tar.archive));
      listing.entries.back().path = concat(name, "/", picture.name);
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
  if (tar.options.alone) warn_of_classes(listing);
  if (!left_aside.empty())
    listing.warnings.push_back(
        concat("[ingest] ", printable(tar.name), ": left aside in its archives: ", kinds_text(left_aside)));
  return listing;
}

Result<SourceListing> list_flat_pictures(const TarContents& tar) {
  SourceListing listing;
  for (const TarMember& one : tar.index.members) {
    if (has_image_name(one.name)) listing.entries.push_back(entry_of(one, tar.archive));
  }
  if (tar.options.labels.empty()) return no_classes(tar.name, static_cast<int64_t>(listing.entries.size()));
  DLPIPE_RETURN_IF_ERROR(take_labels(tar.options, listing));
  return listing;
}

}  // namespace dlpipe::data
