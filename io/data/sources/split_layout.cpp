#include "dlpipe/io/data/sources/split_layout.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"

namespace dlpipe::data {

namespace {

struct Named {
  std::string split;
  const TopFolder* folder;
};

Status unclear(const std::string& source, const std::string& what) {
  return misuse("ingest", printable(source), what, "; ", kTakesLiterally);
}

/// Names of `names` that `known` (sorted) doesn't have.
std::vector<std::string> missing_in(const std::vector<std::string>& known,
                                    const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  std::copy_if(names.begin(), names.end(), std::back_inserter(missing), [&](const std::string& name) {
    return !std::binary_search(known.begin(), known.end(), name);
  });
  return missing;
}

bool share_a_class(const TopFolder& a, const TopFolder& b) {
  return missing_in(a.folders, b.folders).size() < b.folders.size();
}

std::string path_of(const TopFolder& folder) {
  return folder.path.empty() ? folder.name : folder.path;
}

/// The folders that `split_of` gives a split: train, then val, then test.
template <typename SplitOf>
std::vector<Named> named_splits(std::span<const TopFolder> top, const SplitOf& split_of) {
  std::vector<Named> found;
  for (const std::string_view split : {"train", "val", "test"}) {
    for (const TopFolder& folder : top) {
      if (split_of(folder.name) == split) found.push_back({std::string(split), &folder});
    }
  }
  return found;
}

/// Whether two folders of different splits hold folders of one name.
bool share_classes(const std::vector<Named>& found) {
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (found[i].split != found[k].split && share_a_class(*found[k].folder, *found[i].folder)) return true;
    }
  }
  return false;
}

std::string names_of(const std::vector<Named>& found) {
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const Named& one : found) names.push_back(one.folder->name);
  return quoted_names(names);
}

/// Of a folder of pictures without class folders, beside one with them.
std::string what_to_do_without_classes(const std::string& source, const Named& one,
                                       const TopFolder& reference) {
  const auto full = [&](const std::string& path) { return shell_word(concat(source, "/", path)); };
  const std::string train = full(path_of(reference));
  if (!one.folder->list.empty())
    return concat("if ", in_quotes(one.folder->list), " says their classes: dlpipe ingest ", train,
                  " DST/train, then dlpipe ingest ", full(path_of(*one.folder)), " DST/", one.split,
                  " --manifest ", full(one.folder->list), " --classes-from DST/train");
  return concat("name a list of their classes with --labels, sort them into folders, or ingest ", train,
                " with --split 0.9,0.1");
}

/// Makes `one` a part, leaves it aside with a note, or says why neither will do.
Status add_part(const std::string& source, const Named& one, const TopFolder& reference, bool has_labels,
                SplitLayout& layout) {
  const TopFolder& folder = *one.folder;
  const bool is_reference = &folder == &reference;
  if (!is_reference && folder.folders.empty() && folder.pictures == 0) {
    layout.notes.push_back(
        concat("[ingest] the folder ", in_quotes(folder.name), " is empty and gives no split"));
    return {};
  }
  if (!is_reference && folder.folders.empty() && has_labels && one.split == "val") {
    layout.parts.push_back({one.split, path_of(folder), true});
    return {};
  }
  // Test pictures are often published without labels; validation pictures that lack them are a mistake.
  const bool unlabeled = folder.folders.empty() || !share_a_class(reference, folder);
  if (!is_reference && unlabeled && one.split == "test") {
    layout.notes.push_back(
        concat("[ingest] the folder ", in_quotes(folder.name), " has none of the class folders of ",
               in_quotes(reference.name), ": it is left aside; `dlpipe predict --ckpt RUN ",
               shell_word(concat(source, "/", path_of(folder))), "` takes pictures without labels"));
    return {};
  }
  if (!is_reference && folder.folders.empty()) {
    return unclear(source, concat(": the folder ", in_quotes(folder.name),
                                  " holds pictures, but no class folders as ", in_quotes(reference.name),
                                  " does; ", what_to_do_without_classes(source, one, reference)));
  }
  const std::vector<std::string> unknown = missing_in(reference.folders, folder.folders);
  if (!unknown.empty()) {
    return unclear(source, concat(": the folder ", in_quotes(folder.name), " has classes that ",
                                  in_quotes(reference.name), " has not: ", quoted_names(unknown),
                                  "; the classes of both must be the same, so rename or remove them"));
  }
  layout.parts.push_back({one.split, path_of(folder), false});
  return {};
}

/// One for each split; several inputs may be of one.
Status check_named_once(const std::string& source, const std::vector<Named>& found, bool in_words) {
  std::string inputs;
  for (const Named& one : found) inputs += concat(" ", shell_word(concat(source, "/", path_of(*one.folder))));
  for (size_t i = 1; i < found.size(); ++i) {
    if (found[i].split != found[i - 1].split) continue;
    return unclear(source,
                   concat(" has two folders for the split ", found[i].split, ", ",
                          in_quotes(found[i - 1].folder->name), " and ", in_quotes(found[i].folder->name),
                          in_words ? concat("; to put them together: dlpipe ingest", inputs, " DST")
                                   : "; move one away"));
  }
  return {};
}

/// train/ beside dev/ or holdout/, with the same classes: two classes called so are what nobody means.
Status check_not_half_named(const std::string& source, std::span<const TopFolder> top) {
  if (top.size() != 2 || top[0].folders.size() < 2 || top[0].folders != top[1].folders) return {};
  const auto named = std::find_if(top.begin(), top.end(),
                                  [](const TopFolder& one) { return !split_of_name(one.name).empty(); });
  if (named == top.end()) return {};
  const TopFolder& other = named == top.begin() ? top[1] : top[0];
  return unclear(
      source,
      concat(": ", in_quotes(named->name), " is called like a split, and ", in_quotes(other.name),
             ", which has the same class folders, isn't; rename it to train, val or test, or move it away"));
}

}  // namespace

std::string_view split_of_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNames = {
      {{"train", "train"},
       {"training", "train"},
       {"val", "val"},
       {"valid", "val"},
       {"validation", "val"},
       {"test", "test"},
       {"testing", "test"}}};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [known, split] : kNames) {
    if (lower == known) return split;
  }
  return {};
}

std::string split_in_words(std::string_view text) {
  std::string lower = lower_text(text);
  // MNIST's test set and those of its kin, whose digits would end the word.
  constexpr std::string_view kTestOfTenThousand = "t10k";
  if (const size_t at = lower.find(kTestOfTenThousand); at != std::string::npos)
    lower.replace(at, kTestOfTenThousand.size(), "-test-");
  std::string found;
  std::string word;
  for (const char c : lower + "-") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    const std::string split(split_of_name(word));
    word.clear();
    if (split.empty()) continue;
    if (!found.empty() && found != split) return {};
    found = split;
  }
  return found;
}

std::string splits_text(std::span<const std::pair<std::string, std::string>> folders_and_splits) {
  std::string text;
  for (const auto& [folder, split] : folders_and_splits)
    text += concat(text.empty() ? "" : ", ", in_quotes(folder), folder == split ? "" : concat(" as ", split));
  return text;
}

Result<SplitLayout> find_split_layout(const std::string& source, std::span<const TopFolder> top,
                                      bool has_labels) {
  SplitLayout layout;
  std::vector<Named> found = named_splits(top, split_of_name);
  const bool in_words = found.size() < 2;
  if (in_words) found = named_splits(top, split_in_words);
  if (found.size() < 2 || (in_words && !share_classes(found))) {
    DLPIPE_RETURN_IF_ERROR(check_not_half_named(source, top));
    return layout;
  }
  const bool alone = found.size() == top.size();
  const auto first =
      std::find_if(found.begin(), found.end(), [](const Named& one) { return !one.folder->folders.empty(); });
  if (first == found.end() && alone) {
    return unclear(source,
                   concat(" holds ", names_of(found),
                          " with pictures, but no class folders in them: nothing tells the classes; list "
                          "the files with their labels in a manifest (--manifest)"));
  }
  const bool labelled =
      has_labels && first != found.end() && std::any_of(found.begin(), found.end(), [](const Named& one) {
        return one.split == "val" && one.folder->folders.empty() && one.folder->pictures > 0;
      });
  const bool shared = first != found.end() && std::any_of(first + 1, found.end(), [&](const Named& other) {
                        return share_a_class(*first->folder, *other.folder);
                      });
  if (!shared && !alone && !labelled) {
    layout.notes.push_back(
        concat("[ingest] the folders ", names_of(found),
               " are taken as classes: other folders stand beside them, and no class folder is in "
               "two of them"));
    return layout;
  }
  DLPIPE_RETURN_IF_ERROR(check_named_once(source, found, in_words));
  for (const Named& one : found)
    DLPIPE_RETURN_IF_ERROR(add_part(source, one, *first->folder, has_labels, layout));
  layout.classes = first->folder->folders;
  std::vector<std::pair<std::string, std::string>> parts;
  for (const SplitLayout::Part& part : layout.parts) parts.emplace_back(part.folder, part.split);
  layout.notes.insert(layout.notes.begin(),
                      concat("[ingest] the folders of ", printable(source),
                             " are splits: ", splits_text(parts), "; ", kTakesLiterally));
  std::vector<std::string> others;
  for (const TopFolder& folder : top) {
    if (std::none_of(found.begin(), found.end(), [&](const Named& one) { return one.folder == &folder; }))
      others.push_back(folder.name);
  }
  if (!others.empty())
    layout.notes.push_back(concat("[ingest] beside the splits and left aside: ", quoted_names(others)));
  return layout;
}

}  // namespace dlpipe::data
