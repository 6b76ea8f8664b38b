// The folder that a list's paths begin in, where it isn't the list's own: images/ beside labels.csv, train/ beside train.csv.
#include <algorithm>
#include <filesystem>

#include "dlpipe/io/data/sources/manifest_source.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFolders = 256;
constexpr size_t kLooked = 32;  // files that decide

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

}  // namespace

std::optional<std::string> ManifestSource::find_root(const SourceListing& listing) const {
  const std::string stem = fs::path(list_).stem().string();
  size_t most = 0;
  std::vector<fs::path> best;  // that have as many
  for (const fs::path& folder : folders_in(root_)) {
    size_t found = 0;
    for (size_t i = 0; i < std::min(kLooked, listing.entries.size()); ++i) {
      const std::string& path = listing.entries[i].path;
      std::error_code ignored;
      if (!path.starts_with('/'))
        found += fs::is_regular_file(full(with_ending(path, folder), folder), ignored) ? 1 : 0;
    }
    if (2 * found <= std::min(kLooked, listing.entries.size()) || found < most) continue;
    if (found > most) best.clear();
    most = found;
    best.push_back(folder);
  }
  if (best.size() > 1)
    std::erase_if(best, [&](const fs::path& folder) {
      const std::string name = folder.filename().string();
      return name != stem && name != split_in_words(stem);
    });
  if (best.size() != 1) return std::nullopt;
  return best.front().string();
}

}  // namespace dlpipe::data
