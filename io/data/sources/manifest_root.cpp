// The folder that a list's paths begin in, where it isn't the list's own: images/ beside labels.csv, train/ beside train.csv.
#include <algorithm>
#include <filesystem>

#include "dlpipe/io/data/sources/manifest_source.h"
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

}  // namespace

std::optional<std::string> ManifestSource::find_root(const SourceListing& listing) const {
  const std::string stem = fs::path(list_).stem().string();
  const size_t looked = std::min(kFilesThatDecide, listing.entries.size());
  size_t most = 0;
  std::vector<fs::path> best;  // that have as many
  for (const fs::path& folder : folders_in(root_)) {
    std::vector<std::string> first;
    for (size_t i = 0; i < looked; ++i) {
      const std::string& path = listing.entries[i].path;
      if (!path.starts_with('/')) first.push_back(with_ending(path, folder.string()));
    }
    const size_t found = count_files(folder, first);
    if (2 * found <= looked || found < most) continue;
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
