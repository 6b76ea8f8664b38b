// Pictures with a mask for each: a folder of pictures (images, img, JPEGImages, ...) and beside it one of masks (masks,
// labels, SegmentationClass, ...) whose files are called as the pictures are. Both may hold folders train, val and test, or
// lie in such folders. Masks are PNGs of class numbers, as they are; ingest refuses those of colours, with their pictures.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/annotated_pictures.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace segmentation {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kPictureFolders = {"images",     "image",  "imgs",    "img",
                                                             "jpegimages", "photos", "pictures"};
constexpr std::array<std::string_view, 12> kMaskFolders = {
    "masks",        "mask",       "segmentationclass", "segmentation", "segmentations",
    "annotations",  "labels",     "annotation",        "label",        "gt",
    "ground_truth", "groundtruth"};
// What a mask's name may have behind the picture's.
constexpr std::array<std::string_view, 8> kMaskEnds = {"_mask",  "-mask",   "_seg", "_segmentation",
                                                       "_label", "_labels", "_gt",  "_groundtruth"};

std::string without_ending(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

/// Names without ending -> the files below `folder` that are called as pictures.
std::map<std::string, std::string> names_below(const fs::path& folder) {
  std::map<std::string, std::string> names;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string path = entry.path().lexically_relative(folder).string();
    if (name[0] != '.' && has_image_name(name)) names.emplace(without_ending(path), path);
  }
  return names;
}

/// What the mask of `picture` is called among `masks`; "" for none.
std::string mask_of(const std::string& picture, const std::map<std::string, std::string>& masks) {
  const std::string stem = without_ending(picture);
  if (const auto it = masks.find(stem); it != masks.end()) return it->second;
  for (const std::string_view end : kMaskEnds) {
    if (const auto it = masks.find(concat(stem, end)); it != masks.end()) return it->second;
  }
  return {};
}

/// Two folders of one.
struct Pair {
  std::string pictures;
  std::string masks;
};

/// At least half of the masks have a picture: two classes whose names happen to be these hold other files.
bool belong_together(const fs::path& pictures, const fs::path& masks) {
  const std::map<std::string, std::string> all = names_below(masks);
  if (all.empty()) return false;
  size_t found = 0;
  for (const auto& [stem, file] : names_below(pictures)) found += mask_of(file, all).empty() ? 0 : 1;
  return 2 * found >= all.size();
}

std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Pair> pair_in(const fs::path& root) {
  const std::vector<std::string> folders = folders_in(root);
  const auto called = [&](std::string_view wanted) {
    const auto it = std::find_if(folders.begin(), folders.end(),
                                 [&](const std::string& name) { return lower_text(name) == wanted; });
    return it == folders.end() ? std::string() : *it;
  };
  for (const std::string_view pictures : kPictureFolders) {
    for (const std::string_view masks : kMaskFolders) {
      const Pair pair{called(pictures), called(masks)};
      if (!pair.pictures.empty() && !pair.masks.empty() &&
          belong_together(root / pair.pictures, root / pair.masks))
        return pair;
    }
  }
  return std::nullopt;
}

/// A folder of each of the splits train, val and test that `names` are called by, where these are two or more.
std::vector<std::string> split_folders(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::set<std::string_view> splits;
  for (const std::string& name : names) {
    if (split_of_name(name).empty()) continue;
    found.push_back(name);
    splits.insert(split_of_name(name));
  }
  return splits.size() < 2 ? std::vector<std::string>() : found;
}

/// What SRC holds: one pair, or one in each of several folders.
struct Layout {
  std::vector<AnnotatedPictures::Part> parts;
  std::string text;  // what was found, for people
};

std::string folder_of(const fs::path& path) {
  return path.lexically_normal().string();
}

Layout layout_of(const fs::path& root) {
  Layout layout;
  const auto add = [&](const std::string& split, const fs::path& pictures, const fs::path& masks) {
    layout.parts.push_back({folder_of(pictures), split.empty() ? "" : split + "/",
                            std::string(split_of_name(split)), folder_of(masks)});
  };
  if (const auto pair = pair_in(root)) {
    const fs::path pictures = root / pair->pictures;
    const fs::path masks = root / pair->masks;
    layout.text = concat("pictures in ", in_quotes(pair->pictures), ", the mask of each in ",
                         in_quotes(pair->masks), " by the same name");
    const std::vector<std::string> splits = split_folders(folders_in(pictures));
    for (const std::string& split : splits) add(split, pictures / split, masks / split);
    if (splits.empty()) add("", pictures, masks);
    return layout;
  }
  const std::vector<std::string> splits = split_folders(folders_in(root));
  std::vector<std::optional<Pair>> pairs;
  std::optional<Pair> first;
  for (const std::string& split : splits) {
    pairs.push_back(pair_in(root / split));
    if (!first) first = pairs.back();
  }
  if (!first) return layout;
  std::error_code ignored;
  for (size_t i = 0; i < splits.size(); ++i) {
    // A test's masks are often not handed out.
    const Pair pair = pairs[i].value_or(*first);
    const fs::path folder = root / splits[i];
    if (fs::is_directory(folder / pair.pictures, ignored))
      add(splits[i], folder / pair.pictures, folder / pair.masks);
  }
  layout.text = concat("in each split pictures in ", in_quotes(first->pictures), ", the mask of each in ",
                       in_quotes(first->masks), " by the same name");
  return layout;
}

class SegmentationSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status add_part(const AnnotatedPictures::Part& part, size_t number);
  void say_what_was_found(const Layout& layout, SourceListing& listing) const;

  std::vector<AnnotatedPicture> found_;
  int64_t without_mask_ = 0;
  std::vector<std::string> lonely_masks_;  // without a picture
};

Status SegmentationSource::add_part(const AnnotatedPictures::Part& part, size_t number) {
  const std::map<std::string, std::string> masks = names_below(part.masks);
  std::set<std::string> taken;
  PictureFolder folder(part.folder);
  DLPIPE_RETURN_IF_ERROR(folder.walk("", [&](FoundPicture found) {
    AnnotatedPicture picture;
    picture.path = std::move(found.path);
    picture.part = number;
    picture.problem = std::move(found.problem);
    const std::string mask = mask_of(picture.path, masks);
    without_mask_ += mask.empty() ? 1 : 0;
    taken.insert(mask);
    if (mask.empty() || lower_ending(mask) == "png") {
      picture.mask_file = mask;
    } else if (picture.problem.empty()) {
      picture.problem = concat("its mask ", printable(part.masks + "/" + mask),
                               " is no PNG of class numbers; write it as one");
    }
    found_.push_back(std::move(picture));
  }));
  for (const auto& [stem, file] : masks) {
    if (!taken.contains(file)) lonely_masks_.push_back(file);
  }
  return {};
}

void SegmentationSource::say_what_was_found(const Layout& layout, SourceListing& listing) const {
  std::vector<std::string> notes = {concat("[ingest] ", printable(options_.path),
                                           " is read as pictures with masks: ", layout.text,
                                           "; --manifest takes a list of them otherwise")};
  std::vector<std::pair<std::string, std::string>> splits;
  for (const AnnotatedPictures::Part& part : layout.parts) {
    if (!part.split.empty()) splits.emplace_back(part.prefix.substr(0, part.prefix.size() - 1), part.split);
  }
  if (!splits.empty() && options_.splits)
    notes.push_back(
        concat("[ingest] its splits: ", splits_text(splits), "; --no-splits makes one dataset of all"));
  if (without_mask_ > 0)
    notes.push_back(concat("[ingest] ", human_count(without_mask_),
                           without_mask_ == 1 ? " picture has no mask and becomes a sample without one"
                                              : " pictures have no mask and become samples without one"));
  if (!lonely_masks_.empty())
    notes.push_back(concat("[ingest] left aside, masks without a picture: ", quoted_names(lonely_masks_)));
  listing.warnings.insert(listing.warnings.begin(), notes.begin(), notes.end());
}

Result<SourceListing> SegmentationSource::list() {
  found_.clear();
  without_mask_ = 0;
  lonely_masks_.clear();
  Layout layout = layout_of(options_.path);
  for (size_t i = 0; i < layout.parts.size(); ++i) DLPIPE_RETURN_IF_ERROR(add_part(layout.parts[i], i));
  if (found_.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] no picture in ", printable(options_.path)));
  std::vector<AnnotatedPictures::Part> parts = layout.parts;
  for (AnnotatedPictures::Part& part : parts) {
    if (!options_.splits) part.split.clear();
  }
  SourceListing listing;
  AnnotatedPictures::Kinds kinds;
  kinds.has_objects = false;
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(parts), kinds, std::move(found_), listing));
  say_what_was_found(layout, listing);
  warn_of_no_class(options_.path, listing);
  return listing;
}

/// It may have masks beside, which YOLO doesn't read.
bool is_yolo(const fs::path& root) {
  std::error_code ignored;
  if (fs::exists(root / "data.yaml", ignored) || fs::exists(root / "dataset.yaml", ignored)) return true;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(root / "labels", error)) {
    if (lower_ending(entry.path().filename().string()) == "txt") return true;
  }
  return false;
}

int recognizes_segmentation(const SourceOptions& options) {
  std::error_code ignored;
  if (!options.manifest.empty() || !fs::is_directory(options.path, ignored)) return 0;
  return is_yolo(options.path) || layout_of(options.path).parts.empty() ? 0 : 2;
}

Result<std::unique_ptr<Source>> open_segmentation(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<SegmentationSource>(options));
}

}  // namespace

}  // namespace segmentation

extern const SourceRecord segmentation_source;
const SourceRecord segmentation_source = {
    "segmentation",
    "a folder of pictures beside one of masks (images and masks, JPEGImages and SegmentationClass, img and "
    "labels, ...), also in train and val",
    segmentation::recognizes_segmentation, segmentation::open_segmentation};

}  // namespace dlpipe::data
