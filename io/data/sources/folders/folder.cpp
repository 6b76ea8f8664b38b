// A folder by class: SRC/CLASS/.../PICTURE, or with published splits SRC/train/CLASS/..., SRC/val/CLASS/.... Which
// files are pictures is decided in picture_folder.h, which folders are splits in split_layout.h.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <tuple>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/folders/labels_beside.h"
#include "dlpipe/io/data/sources/folders/likely_classes.h"
#include "dlpipe/io/data/sources/folders/names_as_classes.h"
#include "dlpipe/io/data/sources/folders/picture_tree.h"
#include "dlpipe/io/data/sources/label_list.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

/// The only file of a folder with this ending; "" where there is none, or several are.
std::string only_file(const std::string& folder, std::string_view ending) {
  std::string found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || lower_ending(name) != ending || !entry.is_regular_file(ignored)) continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

/// What is said where `left_aside` (PictureFolder) names sound files; "" where it doesn't.
std::string_view note_on_sound(std::string_view left_aside) {
  for (const std::string_view ending : {"wav", "mp3", "flac", "ogg", "m4a", "aac", "opus", "aiff"}) {
    if (left_aside.find(concat(" x .", ending)) != std::string_view::npos)
      return "; dlpipe takes pictures and text, no sound";
  }
  return {};
}

class FolderSource final : public Source {
 public:
  explicit FolderSource(const SourceOptions& options)
      : options_(options), given_(PictureFolder(options.path).root()), root_(given_) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return read_stamped_file(root_ + "/" + entry.path, {entry.size_bytes, entry.modified_ns});
  }
  Result<Link> where(const SourceEntry& entry) const override {
    return Link{root_ + "/" + entry.path, 0, entry.size_bytes, true};
  }

 private:
  /// Where a class's pictures lie, and what becomes of them.
  struct ClassFolder {
    std::string path;
    int64_t label;
    std::string split;
    size_t name_begin;
  };
  struct FileOfEntry {
    FileId id;
    size_t entry;
  };
  /// Of the folders of root_; where the classes are in a deeper one, `below_root` says which, and a warning that it is so.
  Result<SourceListing> list_root(std::string& below_root);
  Result<SplitLayout> find_layout(const PictureFolder::Names& top) const;
  Status look_into(PictureFolder& look, TopFolder& folder) const;
  Result<std::vector<ClassFolder>> class_folders(const SplitLayout& layout, PictureFolder& folder,
                                                 PictureFolder::Names& top, SourceListing& listing);
  void add(FoundPicture picture, const ClassFolder& where, SourceListing& listing);
  Status add_labelled(const SplitLayout::Part& part, const PictureFolder::Names& names,
                      SourceListing& listing);
  Result<SourceListing> list_flat(PictureFolder::Names top);
  Status add_pictures(const ClassFolder& where, PictureFolder& folder, SourceListing& listing);
  Status check_found(const PictureFolder& folder, size_t folders, const PictureFolder::Names& top,
                     const SourceListing& listing) const;
  void warn_of_files_listed_twice(SourceListing& listing);
  void warn_of_lists(const SplitLayout& layout, SourceListing& listing) const;
  SourceOptions options_;
  std::string given_;
  std::string root_;  // that, or a folder below it
  std::vector<FileOfEntry> files_;
  int64_t beside_ = 0;  // pictures that lie beside the class folders
};

// What lies in `folder`, or in the only folder there that is called as pictures are, or as itself: val/images, seg_train/seg_train.
Status FolderSource::look_into(PictureFolder& look, TopFolder& folder) const {
  std::string path = folder.name;
  DLPIPE_ASSIGN_OR_RETURN(PictureFolder::Names names, look.names_in(path));
  if (names.pictures.empty() && names.folders.size() == 1 &&
      (names.folders[0] == folder.name || is_called_pictures(names.folders[0]))) {
    for (const char* ending : {"txt", "csv", "tsv"}) {
      if (folder.list.empty()) folder.list = only_file(concat(root_, "/", path), ending);
    }
    if (!folder.list.empty()) folder.list = concat(path, "/", folder.list);
    path = concat(path, "/", names.folders[0]);
    DLPIPE_ASSIGN_OR_RETURN(names, look.names_in(path));
  }
  folder.path = path;
  folder.folders = std::move(names.folders);
  folder.pictures = names.pictures.size();
  return {};
}

Result<SplitLayout> FolderSource::find_layout(const PictureFolder::Names& top) const {
  const auto is_named = [](const std::string& name) { return !split_in_words(name).empty(); };
  const auto named = std::count_if(top.folders.begin(), top.folders.end(), is_named);
  const bool is_pair = named == 1 && top.folders.size() == 2;  // the other may be a split by another name
  if (!options_.splits || (named < 2 && !is_pair)) return SplitLayout();
  std::vector<TopFolder> folders;
  PictureFolder look(root_);  // its own: what it leaves aside is counted when the folder is walked
  for (const std::string& name : top.folders) {
    TopFolder& folder = folders.emplace_back();
    folder.name = name;
    if (is_pair || is_named(name)) DLPIPE_RETURN_IF_ERROR(look_into(look, folder));
  }
  return find_split_layout(root_, folders, !options_.labels.empty());
}

Result<std::vector<FolderSource::ClassFolder>> FolderSource::class_folders(const SplitLayout& layout,
                                                                           PictureFolder& folder,
                                                                           PictureFolder::Names& top,
                                                                           SourceListing& listing) {
  beside_ = static_cast<int64_t>(top.pictures.size());
  std::vector<ClassFolder> all;
  if (layout.parts.empty()) {
    listing.classes = std::move(top.folders);
    for (size_t i = 0; i < listing.classes.size(); ++i)
      all.push_back({listing.classes[i], static_cast<int64_t>(i), "", 0});
    return all;
  }
  listing.classes = layout.classes;
  for (const SplitLayout::Part& part : layout.parts) {
    DLPIPE_ASSIGN_OR_RETURN(const PictureFolder::Names names, folder.names_in(part.folder));
    if (part.is_flat) {
      DLPIPE_RETURN_IF_ERROR(add_labelled(part, names, listing));
      continue;
    }
    beside_ += static_cast<int64_t>(names.pictures.size());
    for (const std::string& name : names.folders) {
      const auto label = std::find(listing.classes.begin(), listing.classes.end(), name);
      if (label == listing.classes.end()) continue;  // made since the layout was decided
      all.push_back({concat(part.folder, "/", name), label - listing.classes.begin(), part.split,
                     part.folder.size() + 1});
    }
  }
  return all;
}

void FolderSource::add(FoundPicture picture, const ClassFolder& where, SourceListing& listing) {
  if (picture.problem.empty()) files_.push_back({picture.id, listing.entries.size()});
  SourceEntry entry;
  entry.path = std::move(picture.path);
  entry.size_bytes = picture.stamp.size_bytes;
  entry.modified_ns = picture.stamp.modified_ns;
  entry.label = where.label;
  entry.split = where.split;
  entry.name_begin = where.name_begin;
  entry.problem = std::move(picture.problem);
  listing.entries.push_back(std::move(entry));
}

/// Behind a class that is no folder, where all are numbers: ImageNet's ground truth has them.
std::string_view hint_for_numbers(const std::vector<std::string>& classes) {
  int64_t number = 0;
  const bool are_numbers = std::all_of(classes.begin(), classes.end(),
                                       [&](const std::string& name) { return parse_int(name, &number); });
  return are_numbers
             ? "; its lines are numbers: write the name of the class folder in place of each (the devkit "
               "of ImageNet's ILSVRC2012_validation_ground_truth.txt says the synset of a number)"
             : "";
}

Status FolderSource::add_labelled(const SplitLayout::Part& part, const PictureFolder::Names& names,
                                  SourceListing& listing) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> classes,
                          read_labels(options_, names.pictures.size()));
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto label = std::find(listing.classes.begin(), listing.classes.end(), classes[i]);
    if (label == listing.classes.end())
      return misuse("ingest", "--labels ", printable(options_.labels), " line ", i + 1, ": '",
                    printable(classes[i]), "' is no class folder of ", printable(root_),
                    printable(suggestion(classes[i], listing.classes)), hint_for_numbers(classes));
    add(names.pictures[i], {part.folder, label - listing.classes.begin(), part.split, part.folder.size() + 1},
        listing);
  }
  return {};
}

// Pictures without any folder, whose classes the lines of --labels are.
Result<SourceListing> FolderSource::list_flat(PictureFolder::Names top) {
  SourceListing listing;
  for (FoundPicture& picture : top.pictures) add(std::move(picture), {"", -1, "", 0}, listing);
  DLPIPE_RETURN_IF_ERROR(take_labels(options_, listing));
  return listing;
}

Status FolderSource::add_pictures(const ClassFolder& where, PictureFolder& folder, SourceListing& listing) {
  return folder.walk(where.path, [&](FoundPicture picture) { add(std::move(picture), where, listing); });
}

Status FolderSource::check_found(const PictureFolder& folder, size_t folders, const PictureFolder::Names& top,
                                 const SourceListing& listing) const {
  const std::string rest = folder.left_aside();
  if (folders == 0) {
    const std::string what = beside_ > 0    ? std::string(" holds pictures but no folders")
                             : rest.empty() ? std::string(" is empty")
                                            : concat(" holds no pictures; there is ", rest);
    if (const std::string list = root_ + "/fields.jsonl"; is_file(list))
      return Status(ErrorCode::kNotFound,
                    concat("[ingest] ", printable(root_), what,
                           "; its list says what they are: dlpipe ingest ", shell_word(list), " DST"));
    if (beside_ == 0 && !note_on_sound(rest).empty())
      return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(root_), what, note_on_sound(rest)));
    std::vector<std::string> names;
    for (const FoundPicture& picture : top.pictures) names.push_back(picture.path);
    if (const std::string hint = hint_of_names(root_, names); !hint.empty())
      return Status(ErrorCode::kNotFound,
                    concat("[ingest] ", printable(root_), what, ", which would say the classes; ", hint));
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(root_), what,
                         beside_ > 0 ? "; if it is one class, give the folder above it; else" : ";",
                         " make one folder for each class, or name a manifest with --manifest",
                         beside_ > 0 ? ", or a list of their classes with --labels" : ""));
  }
  if (!listing.entries.empty()) return {};
  std::string hint(note_on_sound(rest));
  if (const std::string other = other_source_below(root_, options_); !other.empty())
    hint = concat("; did you mean dlpipe ingest ", shell_word(other), " DST?");
  else if (rest.find(".tar") != std::string::npos || rest.find(".tgz") != std::string::npos)
    hint = concat("; archives in folders are given by name, as '", printable(root_), "/*/*.tar'");
  else if (rest.find("no ending") != std::string::npos)
    hint = "; a manifest may name pictures without an ending: --manifest LIST.csv with lines of PATH,LABEL";
  return Status(ErrorCode::kNotFound,
                concat("[ingest] no picture in the ", folders, " folders of ", printable(root_),
                       "; looked for .jpg, .jpeg, .png, ...", rest.empty() ? "" : ", there is ", rest, hint));
}

void FolderSource::warn_of_files_listed_twice(SourceListing& listing) {
  std::sort(files_.begin(), files_.end(), [](const FileOfEntry& a, const FileOfEntry& b) {
    return std::tie(a.id, a.entry) < std::tie(b.id, b.entry);
  });
  int64_t count = 0;
  std::string examples;
  for (size_t i = 1; i < files_.size(); ++i) {
    if (files_[i].id != files_[i - 1].id) continue;
    constexpr int64_t kShown = 3;
    if (++count <= kShown)
      examples += concat(count > 1 ? ", '" : ": '", printable(listing.entries[files_[i].entry].path),
                         "' is '", printable(listing.entries[files_[i - 1].entry].path), "'");
  }
  if (count > 0) {
    listing.warnings.push_back(
        concat("[ingest] ", count,
               count == 1 ? " picture is the same file as another one by a link and counts twice"
                          : " pictures are the same file as another one by a link and count twice",
               examples));
  }
}

// What `dlpipe export` wrote for samples that folders alone don't describe: read as a folder, its masks become a class.
void FolderSource::warn_of_lists(const SplitLayout& layout, SourceListing& listing) const {
  std::vector<std::string> folders = {root_};
  for (const SplitLayout::Part& part : layout.parts) folders.push_back(concat(root_, "/", part.folder));
  std::string lists;
  size_t count = 0;
  for (const std::string& folder : folders) {
    const std::string list = folder + "/fields.jsonl";
    if (!is_file(list)) continue;
    lists += concat(count++ == 0 ? "" : " ", shell_word(list));
  }
  if (count > 0)
    listing.warnings.push_back(concat("[ingest] ", lists, count == 1 ? " says" : " say",
                                      " more than the folders beside, and ",
                                      count == 1 ? "is not read; to read it" : "are not read; to read them",
                                      ": dlpipe ingest ", lists, " DST"));
}

Result<SourceListing> FolderSource::list() {
  root_ = given_;
  std::string below_root;
  auto listing = list_root(below_root);
  if (!listing.ok() || below_root.empty()) return listing;
  root_ = concat(given_, "/", below_root);
  const std::string note = listing->warnings.front();
  listing = list_root(below_root);
  if (listing.ok()) listing->warnings.insert(listing->warnings.begin(), note);
  return listing;
}

/// Takes the classes whose folders hold no picture out of the listing: a model would learn to tell something apart of which there
/// is nothing.
static void drop_empty_classes(SourceListing& listing) {
  std::vector<int64_t> numbers(listing.classes.size(), -1);
  for (const SourceEntry& entry : listing.entries) {
    if (entry.label >= 0) numbers[static_cast<size_t>(entry.label)] = 0;
  }
  std::vector<std::string> kept, dropped;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) numbers[i] = static_cast<int64_t>(kept.size());
    (numbers[i] < 0 ? dropped : kept).push_back(listing.classes[i]);
  }
  if (dropped.empty()) return;
  for (SourceEntry& entry : listing.entries) {
    if (entry.label >= 0) entry.label = numbers[static_cast<size_t>(entry.label)];
  }
  listing.classes = std::move(kept);
  listing.warnings.push_back(concat("[ingest] ", dropped.size(),
                                    dropped.size() == 1 ? " folder without a picture makes no class: "
                                                        : " folders without a picture make no classes: ",
                                    quoted_names(dropped), "; to have ", dropped.size() == 1 ? "it" : "them",
                                    " as well, name all classes by --classes-from FILE"));
}

Result<SourceListing> FolderSource::list_root(std::string& below_root) {
  below_root.clear();
  files_.clear();
  SourceListing listing;
  listing.classes_are_folders = true;
  PictureFolder folder(root_);
  DLPIPE_ASSIGN_OR_RETURN(PictureFolder::Names top, folder.names_in(""));
  const size_t folders = top.folders.size();
  if (folders == 0 && !top.pictures.empty() && !options_.labels.empty()) return list_flat(std::move(top));
  DLPIPE_ASSIGN_OR_RETURN(const SplitLayout layout, find_layout(top));
  listing.warnings = layout.notes;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ClassFolder> all, class_folders(layout, folder, top, listing));
  for (const ClassFolder& where : all) DLPIPE_RETURN_IF_ERROR(add_pictures(where, folder, listing));
  DLPIPE_RETURN_IF_ERROR(check_found(folder, folders, top, listing));
  const LikelyClasses likely(root_, options_, listing);
  const bool is_literal = layout.parts.empty();
  if (options_.splits && is_literal) {
    if (beside_ == 0) {
      DLPIPE_ASSIGN_OR_RETURN(below_root, likely.classes_below());
    }
    if (!below_root.empty()) {
      listing.warnings = {likely.note_of(below_root)};
      return listing;
    }
    DLPIPE_RETURN_IF_ERROR(likely.check());
  }
  drop_empty_classes(listing);
  const bool is_one =
      std::all_of(listing.entries.begin(), listing.entries.end(), [&](const SourceEntry& entry) {
        return entry.label == listing.entries.front().label;
      });  // of many nobody asks, and lists are long
  if (options_.alone)
    warn_of_classes(listing, is_one ? likely.hint_for_one_class(!is_literal) : std::string());
  warn_of_lists(layout, listing);
  if (options_.splits && is_literal) likely.warn(listing.warnings);
  if (beside_ > 0)
    listing.warnings.push_back(concat(
        "[ingest] ", beside_, " pictures beside the class folders were left aside: they have no class"));
  warn_of_files_listed_twice(listing);
  if (const std::string rest = folder.left_aside(); !rest.empty())
    listing.warnings.push_back(concat("[ingest] left aside, no pictures: ", rest));
  for (const std::string& links : folder.lost_links())
    listing.warnings.push_back(concat("[ingest] left aside, ", links));
  return listing;
}

int recognizes_folder(const SourceOptions& options) {
  return options.manifest.empty() && is_folder(options.path) ? 1 : 0;
}

Result<std::unique_ptr<Source>> open_folder(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<FolderSource>(options));
}

}  // namespace

extern const SourceRecord folder_source;
const SourceRecord folder_source = {"folder",
                                    "a folder with one folder of pictures (JPEG, PNG, WebP, BMP, PNM) for "
                                    "each class, or train and val folders of these",
                                    recognizes_folder, open_folder, "--labels"};

}  // namespace dlpipe::data
