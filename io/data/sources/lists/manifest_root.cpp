// The folder that a list's paths begin in, where it isn't the list's own: images/ beside labels.csv, train/ beside train.csv,
// part_1/ and part_2/ beside metadata.csv.
#include <algorithm>
#include <filesystem>

#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFolders = 256;

/// Those in `root` and those in them, in the order of their names; not the hidden ones.
std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, ignored), end;
       at != end && folders.size() < kMostFolders; at.increment(ignored)) {
    if (!at->is_directory(ignored)) continue;
    const bool is_hidden = at->path().filename().string().starts_with('.');
    if (at.depth() == 1 || is_hidden) at.disable_recursion_pending();
    if (!is_hidden) folders.push_back(at->path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// So many of the files as decide, from the whole of the list: what one folder holds may stand together in it.
std::vector<std::string> some_paths(const SourceListing& listing) {
  const size_t count = std::min(kFilesThatDecide, listing.entries.size());
  std::vector<std::string> paths;
  for (size_t i = 0; i < count; ++i) {
    const std::string& path = listing.entries[i * listing.entries.size() / count].path;
    if (!path.starts_with('/')) paths.push_back(path);
  }
  return paths;
}

}  // namespace

std::optional<ManifestSource::Places> ManifestSource::find_places(const SourceListing& listing) const {
  struct Candidate {
    fs::path folder;
    size_t found = 0;
  };
  const std::string stem = fs::path(list_).stem().string();
  const std::vector<std::string> paths = some_paths(listing);
  std::vector<size_t> times(paths.size());  // in how many folders each is
  std::vector<Candidate> some;              // that have any
  size_t most = 0;
  for (const fs::path& folder : folders_in(root_)) {
    Candidate candidate{folder};
    for (size_t i = 0; i < paths.size(); ++i) {
      std::error_code ignored;
      if (!fs::is_regular_file(folder / with_ending(paths[i], folder.string()), ignored)) continue;
      ++times[i];
      ++candidate.found;
    }
    most = std::max(most, candidate.found);
    if (candidate.found > 0) some.push_back(std::move(candidate));
  }
  const size_t looked = std::min(kFilesThatDecide, listing.entries.size());
  const auto there = static_cast<size_t>(
      std::count_if(times.begin(), times.end(), [](size_t in_folders) { return in_folders > 0; }));
  if (2 * there <= looked) return std::nullopt;
  if (there > most && std::all_of(times.begin(), times.end(), [](size_t n) { return n <= 1; })) {
    Places places{root_, {}};
    for (const Candidate& one : some) places.parts.push_back(fs::relative(one.folder, root_).string());
    return places;
  }
  if (2 * most <= looked) return std::nullopt;
  std::erase_if(some, [&](const Candidate& one) { return one.found < most; });
  if (some.size() > 1)
    std::erase_if(some, [&](const Candidate& one) {
      const std::string name = one.folder.filename().string();
      return name != stem && name != split_in_words(stem);
    });
  if (some.size() != 1) return std::nullopt;
  return Places{some.front().folder.string(), {}};
}

std::string ManifestSource::placed(const std::string& path) const {
  if (parts_.empty() || path.starts_with('/')) return with_ending(path, root_);
  std::string found;
  for (const std::string& part : parts_) {
    const std::string file = concat(part, "/", with_ending(path, full(part)));
    std::error_code ignored;
    if (!fs::is_regular_file(full(file), ignored)) continue;
    if (!found.empty()) return path;  // which one is meant nobody knows
    found = file;
  }
  return found.empty() ? path : found;
}

uint64_t ManifestSource::part_size(const std::string& placed) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const std::string& one) { return placed.starts_with(one + "/"); });
  return part == parts_.end() ? 0 : part->size() + 1;
}

}  // namespace dlpipe::data
