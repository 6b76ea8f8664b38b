#include "dlpipe/io/data/sources/folders/labels_beside.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/picture_folder.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

SourceOptions options_for(const std::string& path, const SourceOptions& options) {
  SourceOptions one;
  one.path = path;
  one.scratch = options.scratch;
  one.known = options.known;
  one.stop_requested = options.stop_requested;
  return one;
}

/// Whether what reads it takes the options.
bool takes_its_options(const SourceOptions& options) {
  const auto record = find_source(options);
  return record.ok() && check_taken(options, std::span(&*record, 1)).ok();
}

bool may_be_list(const std::string& name) {
  static constexpr std::array kEndings = {"csv", "tsv", "jsonl", "json", "txt", "lst", "list"};
  return std::find(kEndings.begin(), kEndings.end(), lower_ending(name)) != kEndings.end();
}

/// How much a list says of pictures: classes, 1 for other fields or for a question that its source asks; 0: nothing.
struct Said {
  size_t classes = 0;
  bool is_certain = false;
  std::string images = {};  // the folder of its pictures, where that must be named
  std::string folder = {};  // the same, where the list is only read as that one's manifest
};
Said what_says(const SourceOptions& one) {
  const auto record = find_source(one);
  if (!record.ok() || std::string_view((*record)->name) == "text") return {};
  const auto source = (*record)->open(one);
  if (!source.ok()) return {};
  const auto listing = (*source)->list();
  if (!listing.ok()) {
    // A table whose columns nobody knows asks which is the class. What another source refuses lists other things.
    const bool asks =
        listing.status().code() == ErrorCode::kMisuse && std::string_view((*record)->name) == "manifest";
    return {asks ? size_t{1} : 0, false};
  }
  const auto there =
      static_cast<size_t>(std::count_if(listing->entries.begin(), listing->entries.end(),
                                        [](const SourceEntry& entry) { return entry.problem.empty(); }));
  if (listing->tokens > 0 || 2 * there <= listing->entries.size()) return {};
  if (listing->classes.size() > 1) return {listing->classes.size(), true};
  return {listing->fields.empty() ? size_t{0} : 1, !listing->fields.empty()};
}

/// The same, where that is nothing certain also with each of the folders for its pictures: by --images, or as its --manifest.
Said what_says_of(const std::string& list, std::span<const std::string> folders,
                  const SourceOptions& options) {
  // Each line costs a look at the disk, or several, and ImageNet's lists have half a million.
  constexpr uint64_t kLookedBytes = 256 << 10;
  std::error_code ignored;
  const auto every = static_cast<int64_t>(1 + fs::file_size(list, ignored) / kLookedBytes);
  SourceOptions one = options_for(list, options);
  one.every = every;
  Said alone = what_says(one);
  if (alone.is_certain) return alone;
  for (const std::string& folder : folders) {
    one.images = folder;
    Said said = takes_its_options(one) ? what_says(one) : Said();
    said.images = folder;
    if (said.is_certain) return said;
    SourceOptions beside = options_for(folder, options);
    beside.manifest = list;
    beside.every = every;
    said = what_says(beside);
    said.folder = folder;
    if (said.is_certain && said.classes > 1) return said;
  }
  return alone;
}

struct List {
  std::string name;
  Said said;
};

std::string hint_of(const std::string& root, std::vector<List>& lists) {
  std::stable_sort(lists.begin(), lists.end(), [](const List& a, const List& b) {
    return std::tuple(b.said.is_certain, b.said.classes) < std::tuple(a.said.is_certain, a.said.classes);
  });
  std::vector<std::string> names;
  names.reserve(lists.size());
  for (const List& list : lists) names.push_back(list.name);
  const Said& said = lists[0].said;
  const std::string list = shell_word(concat(root, "/", names[0]));
  return concat("; if ", quoted_names(names, 3), names.size() == 1 ? " beside it says" : " beside it say",
                " what its pictures are: dlpipe ingest ",
                said.folder.empty() ? list : shell_word(said.folder), " DST",
                said.images.empty() ? std::string() : concat(" --images ", shell_word(said.images)),
                said.folder.empty() ? std::string() : concat(" --manifest ", list));
}

}  // namespace

LabelsBeside labels_beside(const std::string& root, const SourceOptions& options) {
  constexpr size_t kMostFolders = 8;
  std::vector<std::string> names;
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && entry.is_regular_file(ignored)) names.push_back(name);
    if (name[0] != '.' && entry.is_directory(ignored)) folders.push_back(concat(root, "/", name));
  }
  std::sort(names.begin(), names.end());
  std::sort(folders.begin(), folders.end());
  if (folders.size() > kMostFolders) folders.clear();  // classes, mostly
  std::vector<List> lists;
  std::vector<std::string> matlab;
  for (const std::string& name : names) {
    if (lower_ending(name) == "mat") matlab.push_back(name);
    if (!may_be_list(name)) continue;
    Said said = what_says_of(concat(root, "/", name), folders, options);
    if (said.classes > 0) lists.push_back({name, std::move(said)});
  }
  if (!lists.empty()) {
    const std::string hint = hint_of(root, lists);
    return {hint, true};
  }
  if (matlab.empty()) return {};
  return {concat("; ", quoted_names(matlab, 3),
                 " beside it may say what its pictures are, but MATLAB's files aren't read: write a list of "
                 "PATH,LABEL lines from it, and name that with --manifest")};
}

std::string other_source_below(const std::string& root, const SourceOptions& options) {
  constexpr int kDeepest = 3;
  constexpr size_t kMostFolders = 256;
  size_t looked = 0;
  std::error_code error;
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, error), end;
       at != end && looked < kMostFolders; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    const std::string name = at->path().filename().string();
    const bool is_aside = name[0] == '.' || is_system_folder(name);
    if (is_aside || at.depth() + 1 >= kDeepest) at.disable_recursion_pending();
    if (is_aside) continue;
    ++looked;
    const auto record = find_source(options_for(at->path().string(), options));
    if (record.ok() && std::string_view((*record)->name) != "folder") found.push_back(at->path().string());
  }
  return found.empty() ? std::string() : *std::min_element(found.begin(), found.end());
}

}  // namespace dlpipe::data
