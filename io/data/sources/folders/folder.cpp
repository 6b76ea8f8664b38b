// A folder per class: SRC/CLASS/.../IMAGE, or with published splits SRC/train/CLASS/..., SRC/val/CLASS/.... image_folder.h decides
// which files are images, layouts.h which folders are splits.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <tuple>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/folders/companions.h"
#include "io/data/sources/folders/likely_classes.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

/// The only file of a folder with this extension; "" if there are none or several.
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

/// The text for the case that `left_aside` (ImageFolder) names sound files; else "".
std::string_view note_on_sound(std::string_view left_aside) {
  for (const std::string_view ending : {"wav", "mp3", "flac", "ogg", "m4a", "aac", "opus", "aiff"}) {
    if (left_aside.find(concat(" x .", ending)) != std::string_view::npos)
      return "; dlpipe reads images and text, not audio";
  }
  return {};
}

class FolderSource final : public Source {
 public:
  explicit FolderSource(const SourceOptions& options)
      : options_(options), given_(ImageFolder(options.path).root()), root_(given_) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return read_stamped_file(root_ + "/" + entry.path, {entry.size_bytes, entry.modified_ns});
  }
  Result<Link> where(const SourceEntry& entry) const override {
    return Link{root_ + "/" + entry.path, 0, entry.size_bytes, true};
  }

 private:
  /// The folder of a class's images, and how they are used.
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
  /// Lists the class folders of root_; if the classes are in a deeper folder, `below_root` is its path, and a warning says so.
  Result<SourceListing> list_root(std::string& below_root);
  Result<SplitLayout> find_layout(const ImageFolder::Names& top) const;
  Status look_into(ImageFolder& look, TopFolder& folder) const;
  Result<std::vector<ClassFolder>> class_folders(const SplitLayout& layout, ImageFolder& folder,
                                                 ImageFolder::Names& top, SourceListing& listing);
  void add(FoundImage image, const ClassFolder& where, SourceListing& listing);
  Status add_labelled(const SplitLayout::Part& part, const ImageFolder::Names& names, SourceListing& listing);
  Result<SourceListing> list_flat(ImageFolder::Names top);
  Status add_images(const ClassFolder& where, ImageFolder& folder, SourceListing& listing);
  Status check_found(const ImageFolder& folder, size_t folders, const ImageFolder::Names& top,
                     const SourceListing& listing) const;
  void warn_of_files_listed_twice(SourceListing& listing);
  void warn_of_lists(const SplitLayout& layout, SourceListing& listing) const;
  SourceOptions options_;
  std::string given_;
  std::string root_;  // given_, or a folder below it
  std::vector<FileOfEntry> files_;
  int64_t beside_ = 0;  // images next to the class folders
};

// Lists the contents of `folder`, or of its only folder if that has a name for images or the folder's own name: val/images,
// seg_train/seg_train.
Status FolderSource::look_into(ImageFolder& look, TopFolder& folder) const {
  std::string path = folder.name;
  DLPIPE_ASSIGN_OR_RETURN(ImageFolder::Names names, look.names_in(path));
  if (names.images.empty() && names.folders.size() == 1 &&
      (names.folders[0] == folder.name || is_called_images(names.folders[0]))) {
    for (const char* ending : {"txt", "csv", "tsv"}) {
      if (folder.list.empty()) folder.list = only_file(concat(root_, "/", path), ending);
    }
    if (!folder.list.empty()) folder.list = concat(path, "/", folder.list);
    path = concat(path, "/", names.folders[0]);
    DLPIPE_ASSIGN_OR_RETURN(names, look.names_in(path));
  }
  folder.path = path;
  folder.folders = std::move(names.folders);
  folder.images = names.images.size();
  return {};
}

Result<SplitLayout> FolderSource::find_layout(const ImageFolder::Names& top) const {
  const auto is_named = [](const std::string& name) { return !split_in_words(name).empty(); };
  const auto named = std::count_if(top.folders.begin(), top.folders.end(), is_named);
  const bool is_pair = named == 1 && top.folders.size() == 2;  // the other may be a split by another name
  if (!options_.splits || (named < 2 && !is_pair)) return SplitLayout();
  std::vector<TopFolder> folders;
  ImageFolder look(root_);  // a separate one: what is ignored is counted when the folder is walked
  for (const std::string& name : top.folders) {
    TopFolder& folder = folders.emplace_back();
    folder.name = name;
    if (is_pair || is_named(name)) DLPIPE_RETURN_IF_ERROR(look_into(look, folder));
  }
  return find_split_layout(root_, folders, !options_.labels.empty(),
                           [&] { return labels_beside(root_, options_).hint; });
}

Result<std::vector<FolderSource::ClassFolder>> FolderSource::class_folders(const SplitLayout& layout,
                                                                           ImageFolder& folder,
                                                                           ImageFolder::Names& top,
                                                                           SourceListing& listing) {
  beside_ = static_cast<int64_t>(top.images.size());
  std::vector<ClassFolder> all;
  if (layout.parts.empty()) {
    listing.classes = std::move(top.folders);
    for (size_t i = 0; i < listing.classes.size(); ++i)
      all.push_back({listing.classes[i], static_cast<int64_t>(i), "", 0});
    return all;
  }
  listing.classes = layout.classes;
  for (const SplitLayout::Part& part : layout.parts) {
    DLPIPE_ASSIGN_OR_RETURN(const ImageFolder::Names names, folder.names_in(part.folder));
    if (part.is_flat) {
      DLPIPE_RETURN_IF_ERROR(add_labelled(part, names, listing));
      continue;
    }
    beside_ += static_cast<int64_t>(names.images.size());
    for (const std::string& name : names.folders) {
      const auto label = std::find(listing.classes.begin(), listing.classes.end(), name);
      if (label == listing.classes.end()) continue;  // created after the layout was decided
      all.push_back({concat(part.folder, "/", name), label - listing.classes.begin(), part.split,
                     part.folder.size() + 1});
    }
  }
  return all;
}

void FolderSource::add(FoundImage image, const ClassFolder& where, SourceListing& listing) {
  if (image.problem.empty()) files_.push_back({image.id, listing.entries.size()});
  SourceEntry entry;
  entry.path = std::move(image.path);
  entry.size_bytes = image.stamp.size_bytes;
  entry.modified_ns = image.stamp.modified_ns;
  entry.label = where.label;
  entry.split = where.split;
  entry.name_begin = where.name_begin;
  entry.problem = std::move(image.problem);
  listing.entries.push_back(std::move(entry));
}

/// Suggested for a class without a folder if all classes are numbers, as in ImageNet's ground truth.
std::string_view hint_for_numbers(const std::vector<std::string>& classes) {
  int64_t number = 0;
  const bool are_numbers = std::all_of(classes.begin(), classes.end(),
                                       [&](const std::string& name) { return parse_int(name, &number); });
  return are_numbers ? "; its lines are numbers: replace each with the name of its class folder (the devkit "
                       "of ImageNet's ILSVRC2012_validation_ground_truth.txt lists the synset of each number)"
                     : "";
}

Status FolderSource::add_labelled(const SplitLayout::Part& part, const ImageFolder::Names& names,
                                  SourceListing& listing) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> classes, read_labels(options_, names.images.size()));
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto label = std::find(listing.classes.begin(), listing.classes.end(), classes[i]);
    if (label == listing.classes.end())
      return misuse("ingest", "--labels ", printable(options_.labels), " line ", i + 1, ": '",
                    short_name(classes[i]), "' is not a class folder of ", printable(root_),
                    printable(suggestion(classes[i], listing.classes)), hint_for_numbers(classes));
    add(names.images[i], {part.folder, label - listing.classes.begin(), part.split, part.folder.size() + 1},
        listing);
  }
  return {};
}

// Images without folders, whose classes are the lines of --labels.
Result<SourceListing> FolderSource::list_flat(ImageFolder::Names top) {
  SourceListing listing;
  for (FoundImage& image : top.images) add(std::move(image), {"", -1, "", 0}, listing);
  DLPIPE_RETURN_IF_ERROR(take_labels(options_, listing));
  return listing;
}

Status FolderSource::add_images(const ClassFolder& where, ImageFolder& folder, SourceListing& listing) {
  return folder.walk(where.path, [&](FoundImage image) { add(std::move(image), where, listing); });
}

Status FolderSource::check_found(const ImageFolder& folder, size_t folders, const ImageFolder::Names& top,
                                 const SourceListing& listing) const {
  const std::string rest = folder.left_aside();
  if (folders == 0) {
    const std::string what = beside_ > 0    ? std::string(" holds images but no folders")
                             : rest.empty() ? std::string(" is empty")
                                            : concat(" has no images, only ", rest);
    if (const std::string list = root_ + "/fields.jsonl"; is_file(list))
      return Status(ErrorCode::kNotFound,
                    concat("[ingest] ", printable(root_), what, "; its list describes them: dlpipe ingest ",
                           shell_word(list), " DST"));
    if (beside_ == 0 && !note_on_sound(rest).empty())
      return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(root_), what, note_on_sound(rest)));
    std::vector<std::string> names;
    for (const FoundImage& image : top.images) names.push_back(image.path);
    if (const std::string hint = hint_of_names(root_, names); !hint.empty())
      return Status(ErrorCode::kNotFound,
                    concat("[ingest] ", printable(root_), what, " that name the classes; ", hint));
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(root_), what,
                         beside_ > 0 ? "; if it is one class, give the folder above it; otherwise" : ";",
                         " make one folder for each class, or give a manifest with --manifest",
                         beside_ > 0 ? ", or a list of their classes with --labels" : ""));
  }
  if (!listing.entries.empty()) return {};
  std::string hint(note_on_sound(rest));
  if (const std::string other = other_source_below(root_, options_); !other.empty())
    hint = concat("; did you mean dlpipe ingest ", shell_word(other), " DST?");
  else if (rest.find(".tar") != std::string::npos || rest.find(".tgz") != std::string::npos)
    hint = concat("; give archives in folders by name, such as '", printable(root_), "/*/*.tar'");
  else if (rest.find("no ending") != std::string::npos)
    hint = "; a manifest may name images without an ending: --manifest LIST.csv with lines of PATH,LABEL";
  return Status(ErrorCode::kNotFound,
                concat("[ingest] no image in the ", counted(static_cast<int64_t>(folders), "folder"), " of ",
                       printable(root_), "; looked for .jpg, .jpeg, .png, ...",
                       rest.empty() ? "" : ", found ", rest, hint));
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
        concat("[ingest] ",
               counted(count, "image is a link to the same file as another one and counts",
                       "images are links to the same file as another one and count"),
               " twice", examples));
  }
}

// Warns about lists that `dlpipe export` wrote for samples that folders alone do not describe: here, masks become a class.
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
    listing.warnings.push_back(concat("[ingest] ", lists, count == 1 ? " describes" : " describe",
                                      " more than the folders do, but ",
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

Result<SourceListing> FolderSource::list_root(std::string& below_root) {
  below_root.clear();
  files_.clear();
  SourceListing listing;
  listing.classes_are_folders = true;
  ImageFolder folder(root_);
  DLPIPE_ASSIGN_OR_RETURN(ImageFolder::Names top, folder.names_in(""));
  const size_t folders = top.folders.size();
  if (folders == 0 && !top.images.empty() && !options_.labels.empty()) return list_flat(std::move(top));
  DLPIPE_ASSIGN_OR_RETURN(const SplitLayout layout, find_layout(top));
  listing.warnings = layout.notes;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ClassFolder> all, class_folders(layout, folder, top, listing));
  for (const ClassFolder& where : all) DLPIPE_RETURN_IF_ERROR(add_images(where, folder, listing));
  DLPIPE_RETURN_IF_ERROR(check_found(folder, folders, top, listing));
  const LikelyClasses likely(root_, options_, listing);
  const bool is_literal = layout.parts.empty();
  if (options_.splits)
    DLPIPE_RETURN_IF_ERROR(check_no_companions(
        root_, options_, listing,
        is_literal ? std::string(kTakesLiterally)
                   : "if the folders are the classes, list the images with their classes, and give the list "
                     "with --manifest"));
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
      });  // only then is it worth reading lists, which are long
  if (options_.alone)
    warn_of_classes(listing, is_one ? likely.hint_for_one_class(!is_literal) : std::string());
  warn_of_lists(layout, listing);
  if (options_.splits && is_literal) likely.warn(listing.warnings);
  if (beside_ > 0)
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(beside_, "image"),
                                      " next to the class folders, without a class"));
  warn_of_files_listed_twice(listing);
  if (const std::string rest = folder.left_aside(); !rest.empty())
    listing.warnings.push_back(concat("[ingest] ignored because they are not images: ", rest));
  for (const std::string& links : folder.lost_links())
    listing.warnings.push_back(concat("[ingest] ignored ", links));
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
                                    "a folder with one folder of images (JPEG, PNG, WebP, BMP, PNM) for "
                                    "each class, or train and val folders of these",
                                    recognizes_folder, open_folder, "--labels"};

}  // namespace dlpipe::data
