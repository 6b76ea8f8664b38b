#include "io/data/sources/folders/likely_classes.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

// The tree of folders.

/// Built from the paths of images below the root.
ImageTree image_tree(std::span<const SourceEntry> entries) {
  ImageTree root;
  // Paths of one folder are adjacent; there may be a million of them.
  std::string_view folder;
  ImageTree* of_folder = &root;
  for (const SourceEntry& entry : entries) {
    const std::string_view own = std::string_view(entry.path).substr(0, entry.path.rfind('/') + 1);
    if (std::exchange(folder, own) == own) {
      ++of_folder->images;
      continue;
    }
    ImageTree* at = &root;
    size_t begin = 0;
    for (size_t end = entry.path.find('/'); end != std::string::npos; end = entry.path.find('/', begin)) {
      at = &at->folders[entry.path.substr(begin, end - begin)];
      begin = end + 1;
    }
    ++at->images;
    of_folder = at;
  }
  return root;
}

/// The nested folders that each contain all images, from the outermost: {"ILSVRC", "Data"}. Empty if several folders have some.
std::vector<std::string> lone_folders(const ImageTree& tree) {
  std::vector<std::string> names;
  for (const ImageTree* at = &tree; at->images == 0 && at->folders.size() == 1;
       at = &at->folders.begin()->second)
    names.push_back(at->folders.begin()->first);
  return names;
}

/// The tree in the last of these.
const ImageTree& below(const ImageTree& tree, std::span<const std::string> folders) {
  const ImageTree* at = &tree;
  for (const std::string& name : folders) at = &at->folders.at(name);
  return *at;
}

/// Whether each folder of the tree has its images in one folder that has the same name as the others, or as its own class:
/// cat/images/1.jpg and dog/images/2.jpg.
bool is_each_wrapped(const ImageTree& tree) {
  const auto inner = [](const ImageTree& folder) {
    const bool is_wrapped =
        folder.images == 0 && folder.folders.size() == 1 && folder.folders.begin()->second.folders.empty();
    return is_wrapped ? folder.folders.begin()->first : std::string();
  };
  if (tree.folders.empty()) return false;
  const std::string first = inner(tree.folders.begin()->second);
  return std::all_of(tree.folders.begin(), tree.folders.end(), [&](const auto& folder) {
    const std::string name = inner(folder.second);
    return !name.empty() && (name == first || name == folder.first);
  });
}

/// Whether folders of the tree contain folders of images and nothing else: plants/rose/1.jpg and animals/cat/2.jpg.
bool is_two_deep(const ImageTree& tree) {
  return std::all_of(tree.folders.begin(), tree.folders.end(), [](const auto& top) {
    return top.second.images == 0 &&
           std::all_of(top.second.folders.begin(), top.second.folders.end(),
                       [](const auto& folder) { return folder.second.folders.empty(); });
  });
}

// Names of files as classes.

// class_in_name() as a shell command.
constexpr std::string_view kSed = R"(sed -nE 's/^([A-Za-z].*)[._-][0-9]+\.[A-Za-z]+$/&,\1/p')";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// What precedes a file's number: "cat" of "cat.0.jpg". "" if the name has another form, or a list could not hold it.
std::string_view class_in_name(std::string_view name) {
  const size_t ending = name.rfind('.');
  const size_t last = name.substr(0, ending).find_last_not_of("0123456789");
  if (ending == std::string_view::npos || last == std::string_view::npos || last == 0 || last + 1 == ending ||
      ending + 1 == name.size())
    return {};
  for (const char c : name.substr(ending + 1)) {
    if (!is_letter(c)) return {};
  }
  const bool is_divided = std::string_view("._-").find(name[last]) != std::string_view::npos;
  const bool breaks_lines = name.find_first_of(",\"\n") != std::string_view::npos;
  return is_divided && is_letter(name[0]) && !breaks_lines ? name.substr(0, last) : std::string_view();
}

// Lists next to the folders.

SourceOptions options_for(const std::string& path, const SourceOptions& options) {
  SourceOptions one;
  one.path = path;
  one.scratch = options.scratch;
  one.known = options.known;
  one.stop_requested = options.stop_requested;
  return one;
}

/// Whether the source that reads it accepts the options.
bool takes_its_options(const SourceOptions& options) {
  const auto record = find_source(options);
  return record.ok() && check_taken(options, std::span(&*record, 1)).ok();
}

bool may_be_list(const std::string& name) {
  static constexpr std::array kEndings = {"csv", "tsv", "jsonl", "json", "txt", "lst", "list"};
  return std::find(kEndings.begin(), kEndings.end(), lower_ending(name)) != kEndings.end();
}

/// How much a list says about images. `classes`: their number; 1 for other fields, or if its source needs options; 0: nothing.
struct Said {
  size_t classes = 0;
  bool is_certain = false;
  std::string images = {};  // the folder of its images, if that must be named
  std::string folder = {};  // the same, if the list can only be read as the folder's manifest
};
Said what_says(const SourceOptions& one) {
  const auto record = find_source(one);
  if (!record.ok() || std::string_view((*record)->name) == "text") return {};
  const auto source = (*record)->open(one);
  if (!source.ok()) return {};
  const auto listing = (*source)->list();
  if (!listing.ok()) {
    // A table with unknown columns asks which of them is the class. Lists that other sources reject are not lists of images.
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

/// The same. If the result is not certain, also tries each folder as its --images, and the list as the folder's --manifest.
Said what_says_of(const std::string& list, std::span<const std::string> folders,
                  const SourceOptions& options) {
  // Each line costs one or more accesses to the disk, and ImageNet's lists have half a million lines.
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
  return concat("; if ", quoted_names(names, 3), names.size() == 1 ? " next to it lists" : " next to it list",
                " the classes of its images: dlpipe ingest ",
                said.folder.empty() ? list : shell_word(said.folder), " DST",
                said.images.empty() ? std::string() : concat(" --images ", shell_word(said.images)),
                said.folder.empty() ? std::string() : concat(" --manifest ", list));
}

/// The first list in `folder` that certainly has classes of its images; "" for none, and for a folder of many texts.
std::string list_among_images(const std::string& folder, const SourceOptions& options) {
  constexpr size_t kMostLists = 4;
  std::vector<std::string> lists;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || !may_be_list(name) || !entry.is_regular_file(ignored)) continue;
    lists.push_back(entry.path().string());
    if (lists.size() > kMostLists) return {};
  }
  std::sort(lists.begin(), lists.end());
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const std::string& list) {
    return what_says_of(list, {}, options).is_certain;
  });
  return found == lists.end() ? std::string() : *found;
}

/// The command that ingests a list in each of `folders`, as Roboflow exports train/_classes.csv and valid/_classes.csv.
LabelsBeside lists_in_splits(const std::string& root, std::span<const std::string> folders,
                             const SourceOptions& options) {
  std::vector<std::string> names;
  std::string command;
  for (const std::string& folder : folders) {
    if (split_in_words(fs::path(folder).filename().string()).empty()) continue;
    const std::string list = list_among_images(folder, options);
    if (list.empty()) continue;
    names.push_back(list.substr(root.size() + 1));
    command += " " + shell_word(list);
  }
  if (names.empty()) return {};
  return {concat("; if ", quoted_names(names, 3), names.size() == 1 ? " lists" : " list",
                 " the classes of its images: dlpipe ingest", command, " DST"),
          true};
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
  if (folders.size() > kMostFolders) folders.clear();  // these are usually classes
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
  if (LabelsBeside inside = lists_in_splits(root, folders, options); inside.has_list) return inside;
  if (matlab.empty()) return {};
  return {concat(
      "; ", quoted_names(matlab, 3),
      " next to it may list the classes of its images, but MATLAB files are not supported: write a list of "
      "PATH,LABEL lines from it, and give that with --manifest")};
}

namespace {

// Names of classes.

/// Whether all classes are named like splits: train_images and test_images, train and train_masks.
bool are_called_like_splits(const std::vector<std::string>& classes) {
  std::set<std::string> splits;
  for (const std::string& name : classes) splits.insert(split_in_words(name));
  const bool has_split = std::any_of(classes.begin(), classes.end(),
                                     [](const std::string& name) { return !split_of_name(name).empty(); });
  return classes.size() > 1 && !splits.contains("") && (splits.size() > 1 || has_split);
}

/// Whether the classes' names differ only by their numbers: part_1 and part_2.
bool are_called_alike(const std::vector<std::string>& classes) {
  std::set<std::string> words;
  for (std::string name : classes) {
    std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
    words.insert(std::move(name));
  }
  return classes.size() > 1 && words.size() == 1 && !words.contains("");
}

/// Whether the name of a folder that holds all images shows that it is not a class: images, train, train_images, data.
bool says_no_class(const std::string& name) {
  const std::string lower = lower_text(name);
  return is_called_images(name) || !split_in_words(name).empty() || lower == "data" || lower == "dataset";
}

}  // namespace

std::string hint_of_names(const std::string& folder, std::span<const std::string> names) {
  std::set<std::string> classes;
  for (const std::string& name : names) {
    const std::string_view one = class_in_name(name);
    if (one.empty()) return {};
    classes.emplace(one);
  }
  if (classes.size() < 2 || 2 * classes.size() > names.size()) return {};
  const std::string path = shell_word(folder);
  return concat("if the names of its files contain them (",
                quoted_names(std::vector<std::string>(classes.begin(), classes.end()), 3), "): `(cd ", path,
                " && echo path,label && ls | ", kSed, ") > list.csv && dlpipe ingest ", path,
                " DST --manifest list.csv`");
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

LikelyClasses::LikelyClasses(const std::string& root, const SourceOptions& options,
                             const SourceListing& listing)
    : root_(root), options_(options), listing_(listing), tree_(image_tree(listing.entries)) {}

// The folder below SRC that alone contains all images, in several folders; "" if there is none.
Result<std::string> LikelyClasses::classes_below() const {
  const std::vector<std::string> lone = lone_folders(tree_);
  std::string path;
  std::string name = std::filesystem::path(root_).filename().string();
  for (const std::string& folder : lone) {
    // One of several inputs may have a single class, with folders for another purpose.
    if (!options_.alone && folder != name && !is_called_images(folder)) return std::string();
    path += concat(path.empty() ? "" : "/", folder);
    name = folder;
    SourceOptions there = options_;
    there.path = concat(root_, "/", path);
    const auto record = find_source(there);
    if (record.ok() && std::string_view((*record)->name) != "folder")
      return misuse("ingest", "all images of ", printable(root_), " are in one folder, ",
                    printable(there.path), ", which would be read as: ", (*record)->name, "; dlpipe ingest ",
                    shell_word(there.path), " DST; ", kTakesLiterally);
  }
  const ImageTree& last = below(tree_, lone);
  return last.images == 0 && last.folders.size() > 1 ? path : std::string();
}

std::string LikelyClasses::note_of(const std::string& below_root) const {
  return concat("[ingest] all images of ", printable(root_), " are in ",
                printable(concat(root_, "/", below_root)), ", so its folders are used",
                labels().has_list ? labels().hint : std::string(), "; ", kTakesLiterally);
}

// Rejects SRC if it is certainly not a dataset of these classes.
Status LikelyClasses::check() const {
  if (!options_.alone) return {};
  if (are_called_like_splits(listing_.classes))
    return misuse("ingest", printable(root_), ": its folders are named like splits, ",
                  quoted_names(listing_.classes), ", but do not share class folders",
                  hint_of_labels("; list the images with their classes, and give the list with --manifest"),
                  "; ", kTakesLiterally);
  const bool is_one = tree_.folders.size() == 1 && listing_.classes.size() == 1;
  const std::vector<std::string> lone = lone_folders(tree_);
  const bool is_no_class = is_one && (is_called_images(listing_.classes[0]) ||
                                      std::all_of(lone.begin(), lone.end(), says_no_class));
  if (is_one && (labels().has_list || is_no_class))
    return misuse("ingest", printable(root_), ": all images are in one folder, ",
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
  return concat(", whose name is not a class; ",
                hint.empty() ? std::string("make one folder for each class, or list the images with their "
                                           "classes, and give the list with --manifest")
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
  if (tree_.folders.size() > kMostNamed) return {};  // a wildcard would include what is next to them
  std::string command = "dlpipe ingest";
  for (const auto& [name, folder] : tree_.folders) command += " " + shell_word(concat(root_, "/", name));
  return command + " DST";
}

void LikelyClasses::warn_of_deeper_folders(std::vector<std::string>& warnings) const {
  const bool is_deep = std::all_of(tree_.folders.begin(), tree_.folders.end(),
                                   [](const auto& folder) { return folder.second.images == 0; });
  if (!is_deep || tree_.folders.empty() || is_each_wrapped(tree_)) return;
  const bool is_one = tree_.folders.size() == 1;
  if (is_one && (options_.alone || tree_.folders.begin()->second.folders.size() < 2))
    return;  // reported elsewhere
  const SourceEntry& first = listing_.entries.front();
  const std::string command = is_one || !is_two_deep(tree_) ? std::string() : deeper_command();
  warnings.push_back(concat("[ingest] all images are in deeper folders: ", in_quotes(first.path),
                            " has the class ", in_quotes(listing_.classes[static_cast<size_t>(first.label)]),
                            command.empty()
                                ? std::string("; if others are the classes, list them with --manifest")
                                : concat("; to use the deeper folders as classes: ", command)));
}

// Warns if the folders of SRC, which are used as classes, look like something else.
void LikelyClasses::warn(std::vector<std::string>& warnings) const {
  const std::vector<std::string>& classes = listing_.classes;
  const auto split = std::find_if(classes.begin(), classes.end(), [](const std::string& name) {
    return !split_in_words(name).empty() && split_of_name(name).empty();
  });
  const auto deep = std::find_if(tree_.folders.begin(), tree_.folders.end(), [](const auto& folder) {
    return folder.second.images == 0 && folder.second.folders.size() > 1;
  });
  if (classes.size() > 1 && std::none_of(classes.begin(), classes.end(), [](const std::string& name) {
        return split_in_words(name).empty();
      })) {
    warnings.push_back(
        concat("[ingest] the classes are named like splits: ", quoted_names(classes),
               hint_of_labels("; if a list has the classes of the images, give it with --manifest")));
  } else if (split != classes.end() && deep != tree_.folders.end() && *split != deep->first) {
    warnings.push_back(concat("[ingest] the class ", in_quotes(*split), " is named like a split, and ",
                              in_quotes(deep->first), " has folders of its own",
                              hint_of_labels("; if these are the classes, ingest only that folder")));
  } else if (are_called_alike(classes) && !labels().hint.empty()) {
    warnings.push_back(concat("[ingest] the names of the classes differ only in their numbers: ",
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

// Added to the warning that there is only one class. A list next to its folder usually describes the images.
std::string LikelyClasses::hint_for_one_class(bool has_splits) const {
  if (!labels().hint.empty()) return labels().hint;
  const std::filesystem::path path(listing_.entries.front().path);
  const bool nested = !has_splits && std::distance(path.begin(), path.end()) > 2;
  return nested ? concat("; did you mean ", printable(root_), "/", printable(path.begin()->string()), "?")
                : "; give the folder above its classes";
}

}  // namespace dlpipe::data
