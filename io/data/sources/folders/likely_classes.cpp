#include "dlpipe/io/data/sources/folders/likely_classes.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/folders/names_as_classes.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

/// Whether the classes are called like splits, and nothing else: train_images and test_images, train and train_masks.
bool are_called_like_splits(const std::vector<std::string>& classes) {
  std::set<std::string> splits;
  for (const std::string& name : classes) splits.insert(split_in_words(name));
  const bool has_split = std::any_of(classes.begin(), classes.end(),
                                     [](const std::string& name) { return !split_of_name(name).empty(); });
  return classes.size() > 1 && !splits.contains("") && (splits.size() > 1 || has_split);
}

/// Whether the classes are called alike but for their numbers: part_1 and part_2.
bool are_called_alike(const std::vector<std::string>& classes) {
  std::set<std::string> words;
  for (std::string name : classes) {
    std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
    words.insert(std::move(name));
  }
  return classes.size() > 1 && words.size() == 1 && !words.contains("");
}

/// Whether a folder that holds all pictures says by its name that it is no class: images, train, train_images, data.
bool says_no_class(const std::string& name) {
  const std::string lower = lower_text(name);
  return is_called_pictures(name) || !split_in_words(name).empty() || lower == "data" || lower == "dataset";
}

}  // namespace

// Only one of the folders of SRC holds pictures, in several folders.
Result<std::string> LikelyClasses::classes_below() const {
  const std::vector<std::string> lone = lone_folders(tree_);
  std::string path;
  std::string name = std::filesystem::path(root_).filename().string();
  for (const std::string& folder : lone) {
    // One of several inputs may well have one class, whose folders say something else.
    if (!options_.alone && folder != name && !is_called_pictures(folder)) return std::string();
    path += concat(path.empty() ? "" : "/", folder);
    name = folder;
    SourceOptions there = options_;
    there.path = concat(root_, "/", path);
    const auto record = find_source(there);
    if (record.ok() && std::string_view((*record)->name) != "folder")
      return misuse("ingest", "all pictures of ", printable(root_), " lie in one folder, ",
                    printable(there.path), ", which would be read as: ", (*record)->name, "; dlpipe ingest ",
                    shell_word(there.path), " DST; ", kTakesLiterally);
  }
  const PictureTree& last = below(tree_, lone);
  return last.pictures == 0 && last.folders.size() > 1 ? path : std::string();
}

std::string LikelyClasses::note_of(const std::string& below_root) const {
  return concat("[ingest] all pictures of ", printable(root_), " lie in ",
                printable(concat(root_, "/", below_root)), ", whose folders are taken",
                labels().has_list ? labels().hint : std::string(), "; ", kTakesLiterally);
}

// What is no dataset of these classes is refused, where it is certain.
Status LikelyClasses::check() const {
  if (!options_.alone) return {};
  if (are_called_like_splits(listing_.classes))
    return misuse("ingest", printable(root_), ": its folders are called like splits, ",
                  quoted_names(listing_.classes), ", and hold no class folders that these share",
                  hint_of_labels("; list the pictures with their classes, and name the list with --manifest"),
                  "; ", kTakesLiterally);
  const bool is_one = tree_.folders.size() == 1 && listing_.classes.size() == 1;
  const std::vector<std::string> lone = lone_folders(tree_);
  const bool is_no_class = is_one && (is_called_pictures(listing_.classes[0]) ||
                                      std::all_of(lone.begin(), lone.end(), says_no_class));
  if (is_one && (labels().has_list || is_no_class))
    return misuse("ingest", printable(root_), ": all pictures lie in one folder, ",
                  in_quotes(listing_.classes[0]), hint_of_labels(hint_without_class()), "; ",
                  kTakesLiterally);
  return {};
}

std::string LikelyClasses::hint_without_class() const {
  std::string folder = root_;
  for (const std::string& name : lone_folders(tree_)) folder += concat("/", name);
  std::vector<std::string> names;
  names.reserve(listing_.entries.size());
  for (const SourceEntry& entry : listing_.entries)
    names.push_back(std::filesystem::path(entry.path).filename().string());
  const std::string hint = hint_of_names(folder, names);
  return concat(", which says no class; ",
                hint.empty() ? std::string("make one folder for each class, or list the pictures with their "
                                           "classes, and name the list with --manifest")
                             : hint);
}

std::string LikelyClasses::deeper_command() const {
  constexpr size_t kMostNamed = 8;
  size_t inside = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root_, error))
    inside += entry.path().filename().string()[0] == '.' ? 0 : 1;
  if (inside == tree_.folders.size())
    return concat("dlpipe ingest ", shell_word(concat(root_, "/*")), " DST");
  if (tree_.folders.size() > kMostNamed) return {};  // a wildcard would take what lies beside them
  std::string command = "dlpipe ingest";
  for (const auto& [name, folder] : tree_.folders) command += " " + shell_word(concat(root_, "/", name));
  return command + " DST";
}

void LikelyClasses::warn_of_deeper_folders(std::vector<std::string>& warnings) const {
  const bool is_deep = std::all_of(tree_.folders.begin(), tree_.folders.end(),
                                   [](const auto& folder) { return folder.second.pictures == 0; });
  if (!is_deep || tree_.folders.empty() || is_each_wrapped(tree_)) return;
  const bool is_one = tree_.folders.size() == 1;
  if (is_one && (options_.alone || tree_.folders.begin()->second.folders.size() < 2))
    return;  // said otherwise
  const SourceEntry& first = listing_.entries.front();
  const std::string command = is_one || !is_two_deep(tree_) ? std::string() : deeper_command();
  warnings.push_back(
      concat("[ingest] all pictures lie in deeper folders: ", in_quotes(first.path), " is of the class ",
             in_quotes(listing_.classes[static_cast<size_t>(first.label)]),
             command.empty() ? std::string("; if others are the classes, list them with --manifest")
                             : concat("; to take the deeper folders as classes: ", command)));
}

// The folders of SRC are classes, but look as if they were something else.
void LikelyClasses::warn(std::vector<std::string>& warnings) const {
  const std::vector<std::string>& classes = listing_.classes;
  const auto split = std::find_if(classes.begin(), classes.end(), [](const std::string& name) {
    return !split_in_words(name).empty() && split_of_name(name).empty();
  });
  const auto deep = std::find_if(tree_.folders.begin(), tree_.folders.end(), [](const auto& folder) {
    return folder.second.pictures == 0 && folder.second.folders.size() > 1;
  });
  if (classes.size() > 1 && std::none_of(classes.begin(), classes.end(), [](const std::string& name) {
        return split_in_words(name).empty();
      })) {
    warnings.push_back(
        concat("[ingest] the classes are called like splits: ", quoted_names(classes),
               hint_of_labels("; if a list gives the classes of the pictures, name it with --manifest")));
  } else if (split != classes.end() && deep != tree_.folders.end() && *split != deep->first) {
    warnings.push_back(concat("[ingest] the class ", in_quotes(*split), " is called like a split, and ",
                              in_quotes(deep->first), " holds folders of its own",
                              hint_of_labels("; if these are the classes, ingest it alone")));
  } else if (are_called_alike(classes) && !labels().hint.empty()) {
    warnings.push_back(concat("[ingest] the classes are called alike but for their numbers: ",
                              quoted_names(classes, 3), labels().hint));
  }
  warn_of_deeper_folders(warnings);
}

const LabelsBeside& LikelyClasses::labels() const {
  if (!labels_) labels_ = labels_beside(root_, options_);
  return *labels_;
}

std::string LikelyClasses::hint_of_labels(std::string_view otherwise) const {
  return labels().hint.empty() ? std::string(otherwise) : labels().hint;
}

// Behind the warning that there is one class alone. A list beside its folder says mostly what the pictures are.
std::string LikelyClasses::hint_for_one_class(bool has_splits) const {
  if (!labels().hint.empty()) return labels().hint;
  const std::filesystem::path path(listing_.entries.front().path);
  const bool nested = !has_splits && std::distance(path.begin(), path.end()) > 2;
  return nested ? concat("; did you mean ", printable(root_), "/", printable(path.begin()->string()), "?")
                : "; give the folder above its classes";
}

}  // namespace dlpipe::data
