#include "dlpipe/io/data/sources/inputs/inputs.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/archives/tar_file.h"
#include "dlpipe/io/data/sources/archives/tfrecord.h"
#include "dlpipe/io/data/sources/bytes/remote.h"
#include "dlpipe/io/data/sources/inputs/many_sources.h"
#include "dlpipe/io/data/sources/lists/caffe_list.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostInputs = 1'000'000;

/// "000..127" as its numbers, as wide as the wider end; nothing for anything else.
std::optional<std::vector<std::string>> range_of(std::string_view text) {
  const size_t dots = text.find("..");
  int64_t first = 0;
  int64_t last = 0;
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view left = text.substr(0, dots);
  const std::string_view right = text.substr(dots + 2);
  if (!parse_int(left, &first) || !parse_int(right, &last) || first < 0 || last < 0) return std::nullopt;
  const auto count = static_cast<uint64_t>(std::abs(last - first)) + 1;
  if (count > kMostInputs) return std::vector<std::string>(kMostInputs + 1);
  const bool padded = (left.size() > 1 && left[0] == '0') || (right.size() > 1 && right[0] == '0');
  const size_t width = padded ? std::max(left.size(), right.size()) : 0;
  std::vector<std::string> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t number = last >= first ? first + static_cast<int64_t>(i) : first - static_cast<int64_t>(i);
    std::string digits = std::to_string(number);
    if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return numbers;
}

/// The alternatives of "a,b" or "1..3" between braces; nothing where it has neither comma nor dots.
std::optional<std::vector<std::string>> alternatives(std::string_view inside) {
  if (inside.find(',') != std::string_view::npos) return split(inside, ',');
  return range_of(inside);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::vector<std::string>> expand_one(const std::string& given) {
  if (given == "-" || is_there(given)) return std::vector<std::string>{given};
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand_braces(given));
  if (is_address(given)) {
    if (shown_address(given).find('*') != std::string::npos)
      return misuse("ingest", printable(shown_address(given)),
                    ": what lies at an address can't be listed; name the files, as shards-{000..127}.tar");
    return names;
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (is_there(name)) {
      paths.push_back(name);
      continue;
    }
    const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> found = is_pattern ? matches(name) : std::vector<std::string>();
    if (found.empty())
      return Status(ErrorCode::kNotFound, concat("[ingest] no file or folder ", printable(name),
                                                 name == given ? "" : concat(", of ", printable(given))));
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

Result<std::vector<std::string>> lines_of(const std::string& list) {
  if (kind_of_picture_list(list, {}) != PictureListKind::kNone)
    return misuse("ingest", "--list takes a file that lists folders, archives and manifests, and ",
                  printable(list), " lists pictures; give it as SRC");
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> paths, lines_in_file(list));
  const fs::path folder = fs::path(list).parent_path();
  for (std::string& path : paths) {
    if (!is_address(path)) path = (folder / path).string();
  }
  if (paths.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] --list ", printable(list), " is empty"));
  return paths;
}

bool is_archive(const std::string& path) {
  return has_tar_name(path) || has_tfrecord_name(path) || lower_ending(path) == "beton";
}

/// What lies directly in a folder, as far as it tells a folder of archives from one of pictures.
struct FolderContents {
  std::vector<std::string> archives;
  std::vector<std::string> devkits;  // ImageNet's, which hold no pictures
  std::vector<std::string> folders;
  size_t pictures = 0;
};

FolderContents look_into(const std::string& folder) {
  FolderContents contents;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || is_system_folder(name)) continue;
    if (entry.is_directory(ignored)) {
      contents.folders.push_back(name);
    } else if (is_archive(name) && (entry.is_regular_file(ignored) || is_dead_link(entry.path().string()))) {
      (lower_text(name).find("devkit") == std::string::npos ? contents.archives : contents.devkits)
          .push_back(name);
    } else if (has_image_name(name)) {
      ++contents.pictures;
    }
  }
  std::sort(contents.archives.begin(), contents.archives.end());
  std::sort(contents.folders.begin(), contents.folders.end());
  return contents;
}

Status check_not_mixed(const std::string& folder, const FolderContents& contents) {
  if (contents.archives.empty() || (contents.folders.empty() && contents.pictures == 0)) return {};
  const std::string others = contents.folders.empty()
                                 ? concat(contents.pictures, " pictures")
                                 : concat("the folders ", quoted_names(contents.folders, 3));
  return misuse("ingest", printable(folder), " holds both the archives ", quoted_names(contents.archives, 3),
                " and ", others, "; give either alone: '", printable(folder), "/*.tar' or ",
                contents.folders.empty() ? "a folder of the pictures"
                                         : concat(printable(folder), "/", printable(contents.folders[0])));
}

/// Adds the archives of a folder, or of its train, val and test folders; false where it is no folder of archives.
Result<bool> add_archives(const std::string& folder, bool splits, SourceInputs& all) {
  const FolderContents contents = look_into(folder);
  DLPIPE_RETURN_IF_ERROR(check_not_mixed(folder, contents));
  for (const std::string& name : contents.archives) all.inputs.push_back({concat(folder, "/", name)});
  if (!contents.archives.empty()) {
    if (!contents.devkits.empty())
      all.notes.push_back(concat("[ingest] left aside, no pictures: ", quoted_names(contents.devkits)));
    return true;
  }
  bool found = false;
  for (const std::string& name : contents.folders) {
    const std::string split(split_of_name(name));
    if (split.empty()) continue;
    const std::string below = concat(folder, "/", name);
    const FolderContents inside = look_into(below);
    DLPIPE_RETURN_IF_ERROR(check_not_mixed(below, inside));
    for (const std::string& archive : inside.archives) {
      all.inputs.push_back({concat(below, "/", archive), splits ? split : ""});
      found = true;
    }
  }
  return found;
}

/// "file", "archive", "folder", or "input" where they are of several kinds.
std::string kind_of_inputs(const std::vector<SourceInput>& inputs) {
  std::set<std::string> kinds;
  for (const SourceInput& input : inputs) {
    kinds.insert(is_archive(input.path) ? "archive" : is_folder(input.path) ? "folder" : "file");
  }
  return kinds.size() == 1 ? *kinds.begin() : "input";
}

/// Of each input the split that its own name says, or that of the folder which it lies in; "" for none.
std::vector<std::string> splits_by_names(const std::vector<SourceInput>& inputs, bool of_folders) {
  std::vector<std::string> splits;
  for (const SourceInput& input : inputs) {
    fs::path path(input.path);
    if (!path.has_filename()) path = path.parent_path();  // FOLDER/
    splits.push_back(
        split_in_words(of_folders ? path.parent_path().filename().string() : tar_stem(path.string())));
  }
  return splits;
}

/// Of each input the split that it is of a published set; "" for none.
std::vector<std::string> published_splits(const std::vector<SourceInput>& inputs) {
  std::vector<std::string> splits;
  for (const SourceInput& input : inputs) {
    std::string& split = splits.emplace_back();
    if (!is_file(input.path)) continue;
    for (const SourceRecord* record : source_table()) {
      if (split.empty() && record->published_split != nullptr) split = record->published_split(input.path);
    }
  }
  return splits;
}

std::map<std::string, int64_t> counts_of(const std::vector<std::string>& splits) {
  std::map<std::string, int64_t> counts;
  for (const std::string& split : splits) ++counts[split];
  return counts;
}

bool tell_splits(const std::vector<std::string>& splits) {
  const std::map<std::string, int64_t> counts = counts_of(splits);
  return counts.size() > 1 && !counts.contains("");
}

/// Where some inputs are called like splits, and others aren't.
void note_half_splits(const std::vector<std::string>& splits, SourceInputs& all) {
  std::vector<std::string> called;
  for (const auto& [split, count] : counts_of(splits)) {
    if (!split.empty()) called.push_back(split);
  }
  const auto other = std::find(splits.begin(), splits.end(), "");
  if (called.empty() || other == splits.end()) return;
  all.notes.push_back(concat("[ingest] one dataset is made of all: some are called like the split",
                             called.size() == 1 ? " " : "s ", quoted_names(called), ", but ",
                             printable(all.inputs[other - splits.begin()].path),
                             " isn't; name all of them so, or ingest each split alone"));
}

/// Splits where all inputs are those of published sets, or all inputs, or all folders that these lie in, are called so, by
/// two or more.
void split_by_names(SourceInputs& all) {
  const std::string kind = kind_of_inputs(all.inputs);
  std::vector<std::string> splits = published_splits(all.inputs);
  if (!tell_splits(splits)) splits = splits_by_names(all.inputs, false);
  std::string what = concat("the ", kind, "s' names tell");
  if (!tell_splits(splits)) {
    const std::vector<std::string> of_folders = splits_by_names(all.inputs, true);
    if (!tell_splits(of_folders)) return note_half_splits(splits, all);
    splits = of_folders;
    what = concat("the folders of the ", kind, "s tell");
  }
  std::string text;
  for (const auto& [split, count] : counts_of(splits))
    text += concat(text.empty() ? "" : ", ", count, " ", kind, count == 1 ? " of " : "s of ", split);
  all.notes.push_back(
      concat("[ingest] ", what, " the splits: ", text, "; --no-splits makes one dataset of all"));
  for (size_t i = 0; i < splits.size(); ++i) all.inputs[i].split = std::move(splits[i]);
}

Status check_each_once(const std::vector<SourceInput>& inputs) {
  std::map<FileId, std::string> seen;
  int64_t streams = 0;
  for (const SourceInput& input : inputs) {
    if (input.path == "-") {
      if (++streams > 1) return misuse("ingest", "SRC is - twice; there is one standard input");
      continue;
    }
    if (!input.address.empty()) continue;
    struct stat stat {};
    if (::stat(input.path.c_str(), &stat) != 0) continue;  // opening it says why
    const auto [former, fresh] = seen.emplace(id_of(stat), input.path);
    if (!fresh)
      return misuse("ingest", printable(input.path),
                    former->second == input.path
                        ? std::string()
                        : concat(" is the same as ", printable(former->second), " and"),
                    " is given twice; give it once");
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_braces(const std::string& text) {
  std::vector<std::string> done = {""};
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('{', at);
    const size_t close = open == std::string::npos ? open : text.find('}', open);
    const auto choices = close == std::string::npos
                             ? std::nullopt
                             : alternatives(std::string_view(text).substr(open + 1, close - open - 1));
    const size_t end = close == std::string::npos ? text.size() : close + 1;
    const std::string before = text.substr(at, (choices ? open : end) - at);
    const std::vector<std::string> pieces = choices ? *choices : std::vector<std::string>{""};
    if (done.size() * pieces.size() > kMostInputs)
      return misuse("ingest", printable(text), " stands for more than ", human_count(kMostInputs),
                    " files; name fewer, or the folder that they are in");
    std::vector<std::string> next;
    for (const std::string& head : done) {
      for (const std::string& piece : pieces) next.push_back(concat(head, before, piece));
    }
    done = std::move(next);
    at = end;
  }
  return done;
}

Result<SourceInputs> expand_inputs(std::span<const std::string> given, const std::string& list, bool splits) {
  std::vector<std::string> all_given(given.begin(), given.end());
  if (!list.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, lines_of(list));
    all_given.insert(all_given.end(), lines.begin(), lines.end());
  }
  SourceInputs all;
  for (const std::string& one : all_given) {
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, expand_one(one));
    for (const std::string& path : paths) {
      if (is_address(path)) {
        all.inputs.push_back({shown_address(path), "", path});
        continue;
      }
      if (path != "-" && is_folder(path)) {
        DLPIPE_ASSIGN_OR_RETURN(const bool has_archives, add_archives(path, splits, all));
        if (has_archives) continue;
      }
      all.inputs.push_back({path});
    }
  }
  DLPIPE_RETURN_IF_ERROR(check_each_once(all.inputs));
  const bool has_splits = std::any_of(all.inputs.begin(), all.inputs.end(),
                                      [](const SourceInput& input) { return !input.split.empty(); });
  if (splits && !has_splits) split_by_names(all);
  return all;
}

Result<std::unique_ptr<Source>> open_sources(std::span<const std::string> given, const std::string& list,
                                             const SourceOptions& options) {
  if (!options.manifest.empty() && (given.size() != 1 || !list.empty()))
    return misuse("ingest", "--manifest goes with one SRC, the folder that its paths are below");
  if (!options.manifest.empty()) {
    SourceOptions one = options;
    one.path = given.front();
    return open_source(one);
  }
  DLPIPE_ASSIGN_OR_RETURN(SourceInputs all, expand_inputs(given, list, options.splits));
  if (all.inputs.size() == 1 && all.inputs.front().split.empty() && all.notes.empty()) {
    SourceOptions one = options;
    one.path = all.inputs.front().path;
    one.address = all.inputs.front().address;
    return open_source(one);
  }
  return open_many(std::move(all), options);
}

}  // namespace dlpipe::data
