#include "io/data/sources/layouts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace fs = std::filesystem;

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
  // The test sets of MNIST and similar datasets; their digits would end the word.
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

namespace {

constexpr std::array<std::string_view, 5> kTarEndings = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"};

}  // namespace

bool has_tar_name(const std::string& path) {
  return std::any_of(kTarEndings.begin(), kTarEndings.end(), [&](std::string_view ending) {
    return path.size() > ending.size() && lower_text(path).ends_with(ending);
  });
}

std::string tar_stem(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  for (const std::string_view ending : kTarEndings) {
    if (lower_text(name).ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

bool has_tfrecord_name(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (name.ends_with(".tfrecord") || name.ends_with(".tfrecords") || name.ends_with(".tfrec")) return true;
  return matches_glob(name, "*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]");
}

bool is_called_images(const std::string& name) {
  static constexpr std::array kNames = {"images", "image", "imgs",     "img",    "jpg",
                                        "jpeg",   "png",   "pictures", "photos", "jpegimages"};
  return std::find(kNames.begin(), kNames.end(), lower_text(name)) != kNames.end();
}

namespace {

constexpr std::string_view kCelebA = "a list or folder of CelebA";
constexpr std::string_view kReadCelebA =
    "in Python, dlpipe.from_dataset(torchvision.datasets.CelebA(...), DST) reads it";
constexpr std::string_view kPickled =
    "CIFAR's version for Python, which is pickled: loading a pickle runs code in it";
constexpr std::string_view kReadPickled =
    "ingest the binary version, the folder in cifar-10-binary.tar.gz or cifar-100-binary.tar.gz from the "
    "same "
    "page; or, in Python, dlpipe.from_dataset(torchvision.datasets.CIFAR10(...), DST) reads it";

}  // namespace

std::span<const PublishedLayout> published_layouts() {
  static const std::vector<PublishedLayout> kLayouts = {
      {"coco", 3, {"_annotations.coco.json"}, "", "COCO from Roboflow, the JSON among its images", ""},
      {"coco", 3, {"*/_annotations.coco.json"}, "", "the same, a folder for each split", ""},
      {"coco", 3, {"annotations/instances_*.json"}, "", "COCO as published", ""},
      {"coco",
       3,
       {"annotations/*.json|!captions_*|!stuff_*|!panoptic_*|!image_info_*"},
       "",
       "COCO with JSONs with other names",
       ""},
      {"coco", 2, {"*.json", "images|data/"}, "", "COCO from Label Studio or FiftyOne, one JSON", ""},
      {"voc",
       3,
       {"Annotations|annotations/*.xml", "JPEGImages|images|Images/"},
       "",
       "Pascal VOC as published, or its two folders",
       ""},
      {"voc", 3, {"*.xml", "IMAGE"}, "", "images with Pascal VOC's XML next to each", ""},
      {"yolo", 2, {"images/", "labels/"}, "", "YOLO without a data.yaml", ""},
      {"box_list", 1, {"*.csv|*.tsv"}, "", "lists with a line per box", ""},
      {"box_list", 1, {"SPLIT/*.csv|*.tsv"}, "", "the same, a folder for each split", ""},
      {"box_list", 1, {"annotations/*.csv|*.tsv"}, "", "the same, the lists in one folder", ""},
      {"box_list", 1, {"data/*.csv|*.tsv"}, "", "", ""},
      {"box_list", 1, {"images/*.csv|*.tsv"}, "", "", ""},
      {"box_list", 1, {"labels/*.csv|*.tsv"}, "", "", ""},
      {"imagefolder",
       2,
       {"metadata.csv|metadata.jsonl|metadata.parquet"},
       "",
       "Hugging Face's imagefolder",
       ""},
      {"imagefolder",
       2,
       {"*/metadata.csv|metadata.jsonl|metadata.parquet"},
       "",
       "the same, a list for each split or class",
       ""},
      {"imagefolder", 2, {"SPLIT/*/metadata.csv|metadata.jsonl|metadata.parquet"}, "", "", ""},
      {"",
       3,
       {"list_*celeba.txt|identity_CelebA.txt"},
       "list_*celeba.txt|identity_CelebA.txt",
       kCelebA,
       kReadCelebA},
      {"", 3, {"Anno|celeba/list_*celeba.txt|identity_CelebA.txt"}, "", kCelebA, kReadCelebA},
      {"", 3, {}, "list_eval_partition.txt", kCelebA, kReadCelebA},
      {"",
       2,
       {"images/", "annotations/trimaps/", "annotations/trainval.txt|test.txt|list.txt"},
       "",
       "Oxford-IIIT Pet as published",
       "in Python, dlpipe.from_dataset(torchvision.datasets.OxfordIIITPet(...), DST) reads it"},
      {"", 2, {"data_batch_1"}, "data_batch_?|test_batch", kPickled, kReadPickled},
      {"", 2, {"train", "meta", "test"}, "train|meta|test", kPickled, kReadPickled},
      {"", 2, {}, "cifar-10-python.tar*|cifar-100-python.tar*", kPickled, kReadPickled},
  };
  return kLayouts;
}

namespace {

/// `*` and `?` as in a shell.
bool is_like(std::string_view name, std::string_view glob) {
  if (glob.empty()) return name.empty();
  if (glob[0] == '*') {
    for (size_t begin = 0; begin <= name.size(); ++begin) {
      if (is_like(name.substr(begin), glob.substr(1))) return true;
    }
    return false;
  }
  return !name.empty() && (glob[0] == '?' || glob[0] == name[0]) && is_like(name.substr(1), glob.substr(1));
}

bool is_literal(std::string_view piece) {
  return piece != "SPLIT" && piece != "IMAGE" && piece.find_first_of("*?") == std::string_view::npos;
}

/// For an alternative that is not literal.
bool fits_glob(const std::string& name, std::string_view piece) {
  if (name[0] == '.' || is_system_folder(name)) return false;
  if (piece == "SPLIT") return !split_of_name(name).empty();
  if (piece == "IMAGE") return has_image_name(name);
  const std::string ending = lower_ending(name);
  return is_like(name.substr(0, name.size() - ending.size()) + ending, piece);
}

/// For a single file, by its name.
bool fits(const std::string& name, std::string_view alternatives) {
  const std::vector<std::string> pieces = split(alternatives, '|');
  return std::any_of(pieces.begin(), pieces.end(), [&](const std::string& piece) {
    return is_literal(piece) ? name == piece : fits_glob(name, piece);
  });
}

/// The files or folders in `folder` that fit the alternative `piece` and none of `excluded`. `is_any`: only the first one found.
std::vector<fs::path> in_folder(const fs::path& folder, const std::string& piece,
                                std::span<const std::string> excluded, bool is_wanted_folder, bool is_any) {
  if (is_literal(piece)) {
    const fs::path path = folder / piece;
    const bool is_there = is_wanted_folder ? is_folder(path) : is_file(path);
    return is_there ? std::vector<fs::path>{path} : std::vector<fs::path>();
  }
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_out =
        !fits_glob(name, piece) || std::any_of(excluded.begin(), excluded.end(),
                                               [&](const std::string& one) { return fits_glob(name, one); });
    std::error_code ignored;
    if (is_out || !(is_wanted_folder ? entry.is_directory(ignored) : entry.is_regular_file(ignored)))
      continue;
    names.push_back(name);
    if (is_any) break;
  }
  std::sort(names.begin(), names.end());
  std::vector<fs::path> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(folder / name);
  return paths;
}

void add_files_like(const fs::path& folder, std::string_view pattern, size_t most,
                    std::vector<fs::path>& found) {
  const size_t slash = pattern.find('/');
  const bool is_folder_wanted = slash != std::string_view::npos;
  const std::string_view rest = is_folder_wanted ? pattern.substr(slash + 1) : std::string_view();
  std::vector<std::string> pieces = split(pattern.substr(0, slash), '|');
  const auto begin = std::stable_partition(pieces.begin(), pieces.end(),
                                           [](const std::string& piece) { return piece[0] != '!'; });
  std::vector<std::string> excluded(begin, pieces.end());
  for (std::string& piece : excluded) piece.erase(0, 1);
  pieces.erase(begin, pieces.end());
  for (const std::string& piece : pieces) {
    for (fs::path& path : in_folder(folder, piece, excluded, is_folder_wanted, rest.empty() && most == 1)) {
      if (found.size() >= most) return;
      if (rest.empty())
        found.push_back(std::move(path));
      else
        add_files_like(path, rest, most, found);
    }
  }
}

bool has_all(const PublishedLayout& layout, const fs::path& folder) {
  return std::all_of(layout.has.begin(), layout.has.end(),
                     [&](std::string_view pattern) { return !files_like(folder, pattern, 1).empty(); });
}

}  // namespace

std::vector<fs::path> files_like(const fs::path& root, std::string_view pattern, size_t most) {
  std::vector<fs::path> found;
  add_files_like(root, pattern, most, found);
  return found;
}

const PublishedLayout* find_layout(std::string_view source, const fs::path& root) {
  const auto layouts = published_layouts();
  const auto found = std::find_if(layouts.begin(), layouts.end(), [&](const PublishedLayout& layout) {
    return layout.source == source && has_all(layout, root);
  });
  return found == layouts.end() ? nullptr : &*found;
}

const PublishedLayout* find_foreign_layout(const fs::path& path) {
  const bool is_root = is_folder(path);
  const std::string name = path.filename().string();
  for (const PublishedLayout& layout : published_layouts()) {
    if (!layout.source.empty()) continue;
    const bool may_be = is_root ? !layout.has.empty() : !layout.files.empty() && fits(name, layout.files);
    if (may_be && has_all(layout, is_root ? path : path.has_parent_path() ? path.parent_path() : "."))
      return &layout;
  }
  return nullptr;
}

namespace {

struct Named {
  std::string split;
  const TopFolder* folder;
};

Status unclear(const std::string& source, const std::string& what) {
  return misuse("ingest", printable(source), what, "; ", kTakesLiterally);
}

/// Names of `names` that `known` (sorted) does not have.
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

/// The folders for which `split_of` returns a split: train, then val, then test.
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

/// For a folder of images without class folders, next to one with them.
std::string what_to_do_without_classes(const std::string& source, const Named& one,
                                       const TopFolder& reference) {
  const auto full = [&](const std::string& path) { return shell_word(concat(source, "/", path)); };
  const std::string train = full(path_of(reference));
  if (!one.folder->list.empty())
    return concat("if ", in_quotes(one.folder->list), " lists their classes: dlpipe ingest ", train,
                  " DST/train, then dlpipe ingest ", full(path_of(*one.folder)), " DST/", one.split,
                  " --manifest ", full(one.folder->list), " --classes-from DST/train");
  return concat("give a list of their classes with --labels, sort them into folders, or ingest ", train,
                " with --split 0.9,0.1");
}

/// Makes `one` a part, ignores it with a note, or returns an error if neither is possible.
Status add_part(const std::string& source, const Named& one, const TopFolder& reference, bool has_labels,
                SplitLayout& layout) {
  const TopFolder& folder = *one.folder;
  const bool is_reference = &folder == &reference;
  if (!is_reference && folder.folders.empty() && folder.images == 0) {
    layout.notes.push_back(
        concat("[ingest] the folder ", in_quotes(folder.name), " is empty and does not become a split"));
    return {};
  }
  if (!is_reference && folder.folders.empty() && has_labels && one.split == "val") {
    layout.parts.push_back({one.split, path_of(folder), true});
    return {};
  }
  // Test images are often published without labels; validation images that lack them are a mistake.
  const bool unlabeled = folder.folders.empty() || !share_a_class(reference, folder);
  if (!is_reference && unlabeled && one.split == "test") {
    layout.notes.push_back(
        concat("[ingest] the folder ", in_quotes(folder.name), " has none of the class folders of ",
               in_quotes(reference.name), ": it is ignored; `dlpipe predict --ckpt RUN ",
               shell_word(concat(source, "/", path_of(folder))), "` accepts images without labels"));
    return {};
  }
  if (!is_reference && folder.folders.empty()) {
    return unclear(
        source, concat(": the folder ", in_quotes(folder.name), " has images, but no class folders like ",
                       in_quotes(reference.name), "; ", what_to_do_without_classes(source, one, reference)));
  }
  const std::vector<std::string> unknown = missing_in(reference.folders, folder.folders);
  if (!unknown.empty()) {
    return unclear(source, concat(": the folder ", in_quotes(folder.name), " has classes that are not in ",
                                  in_quotes(reference.name), ": ", quoted_names(unknown),
                                  "; both need the same classes, so rename or remove them"));
  }
  layout.parts.push_back({one.split, path_of(folder), false});
  return {};
}

/// Fails if two folders of SOURCE have the same split. (Several inputs may have the same split.)
Status check_named_once(const std::string& source, const std::vector<Named>& found, bool in_words) {
  std::string inputs;
  for (const Named& one : found) inputs += concat(" ", shell_word(concat(source, "/", path_of(*one.folder))));
  for (size_t i = 1; i < found.size(); ++i) {
    if (found[i].split != found[i - 1].split) continue;
    return unclear(
        source,
        concat(" has two folders for the split ", found[i].split, ", ", in_quotes(found[i - 1].folder->name),
               " and ", in_quotes(found[i].folder->name),
               in_words ? concat("; to join them: dlpipe ingest", inputs, " DST") : "; move one away"));
  }
  return {};
}

/// train/ next to dev/ or holdout/, with the same classes: two classes with these names are implausible.
Status check_not_half_named(const std::string& source, std::span<const TopFolder> top) {
  if (top.size() != 2 || top[0].folders.size() < 2 || top[0].folders != top[1].folders) return {};
  const auto named = std::find_if(top.begin(), top.end(),
                                  [](const TopFolder& one) { return !split_of_name(one.name).empty(); });
  if (named == top.end()) return {};
  const TopFolder& other = named == top.begin() ? top[1] : top[0];
  return unclear(
      source,
      concat(": ", in_quotes(named->name), " is named like a split, but ", in_quotes(other.name),
             ", which has the same class folders, is not; rename it to train, val or test, or move it away"));
}

}  // namespace

Result<SplitLayout> find_split_layout(const std::string& source, std::span<const TopFolder> top,
                                      bool has_labels, const std::function<std::string()>& hint_of_lists) {
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
    const std::string hint = hint_of_lists ? hint_of_lists() : std::string();
    return unclear(
        source,
        concat(" holds ", names_of(found), " with images but no class folders, so the classes are unknown",
               hint.empty() ? "; list the files with their labels in a manifest (--manifest)" : hint));
  }
  const bool labelled =
      has_labels && first != found.end() && std::any_of(found.begin(), found.end(), [](const Named& one) {
        return one.split == "val" && one.folder->folders.empty() && one.folder->images > 0;
      });
  const bool shared = first != found.end() && std::any_of(first + 1, found.end(), [&](const Named& other) {
                        return share_a_class(*first->folder, *other.folder);
                      });
  if (!shared && !alone && !labelled) {
    layout.notes.push_back(
        concat("[ingest] the folders ", names_of(found),
               " are used as classes: there are other folders next to them, and no class folder is in "
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
    layout.notes.push_back(concat("[ingest] ignored folders next to the splits: ", quoted_names(others)));
  return layout;
}

std::string last_name(const std::string& path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

bool have_last_names(std::span<const std::string> paths) {
  std::unordered_set<std::string> names;
  return std::all_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return names.insert(last_name(path)).second; });
}

namespace {

std::string without_slash(std::string folder) {
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

}  // namespace

std::vector<fs::path> folders_of_images(const fs::path& list, const std::string& images,
                                        std::span<const std::string> names) {
  const fs::path beside = list.parent_path().empty() ? "." : list.parent_path();
  std::vector<fs::path> roots = {beside, beside / ".."};
  if (!images.empty()) roots = {images};
  std::vector<fs::path> folders;
  for (const fs::path& root : roots) {
    for (const char* below : {"", "images", "data"}) {
      folders.push_back(root / below);
      for (const std::string& name : names) folders.push_back(root / below / name);
    }
  }
  return folders;
}

FolderWithMost folder_with_most(std::span<const fs::path> folders, std::span<const std::string> paths) {
  FolderWithMost best;
  for (const fs::path& folder : folders) {
    const size_t found = count_files(folder, paths);
    if (found > best.found) best = {folder.lexically_normal().string(), found};
  }
  best.folder = without_slash(std::move(best.folder));
  return best;
}

Result<std::string> locate_images(const std::string& list, const std::string& images,
                                  std::span<const std::string> names, std::vector<std::string>& paths) {
  const std::vector<fs::path> folders = folders_of_images(list, images, names);
  std::vector<std::string> first(
      paths.begin(), paths.begin() + static_cast<ptrdiff_t>(std::min(kFilesThatDecide, paths.size())));
  if (const FolderWithMost best = folder_with_most(folders, first); best.found > 0) return best.folder;
  if (have_last_names(paths)) {
    for (std::string& path : first) path = last_name(path);
    if (const FolderWithMost best = folder_with_most(folders, first); best.found > 0) {
      for (std::string& path : paths) path = last_name(path);
      return best.folder;
    }
  }
  return Status(
      ErrorCode::kNotFound,
      concat("[ingest] ", printable(list), " lists ", paths.empty() ? "no image" : printable(paths[0]),
             ", but neither it nor the next ones are in ",
             images.empty() ? "its folder or those next to it" : printable(images),
             "; give the folder of its images with --images"));
}

ImagesById::ImagesById(std::span<const fs::path> folders) {
  std::set<fs::path> seen;
  for (const fs::path& path : folders) {
    std::error_code ignored;
    if (!seen.insert(fs::weakly_canonical(path, ignored)).second) continue;
    Folder folder{without_slash(path.lexically_normal().string()), {}};
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (name[0] == '.' || !has_image_name(name)) continue;
      std::string& file = folder.files[entry.path().stem().string()];
      if (file.empty() || name < file) file = name;  // independent of the directory's order
    }
    if (!folder.files.empty()) folders_.push_back(std::move(folder));
  }
}

bool ImagesById::has(const std::string& id) {
  bool found = false;
  for (Folder& folder : folders_) {
    if (!folder.files.contains(id)) continue;
    ++folder.found;
    found = true;
  }
  return found;
}

const ImagesById::Folder* ImagesById::best() const {
  const auto most = std::max_element(folders_.begin(), folders_.end(),
                                     [](const Folder& a, const Folder& b) { return a.found < b.found; });
  return most == folders_.end() || most->found == 0 ? nullptr : &*most;
}

std::string ImagesById::folder() const {
  return best() == nullptr ? std::string() : best()->path;
}

std::string ImagesById::file_of(const std::string& id) const {
  const Folder* const folder = best();
  if (folder == nullptr) return {};
  const auto file = folder->files.find(id);
  return file == folder->files.end() ? std::string() : file->second;
}

}  // namespace dlpipe::data
