// Images with a mask for each: a folder of images (images, img, JPEGImages, ...) and next to it one of masks (masks, labels,
// SegmentationClass, ...) whose files have the same names. Both may contain folders train, val and test, or be in such folders,
// or be such folders (train, trainannot); or VOC's ImageSets next to them make the splits. ADE20K and Cityscapes as published
// are among these. Masks are PNGs of class numbers and stay unchanged; ingest refuses those of colours, with their images.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/annotations/annotated_images.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace segmentation {

namespace {

namespace fs = std::filesystem;

/// Common names of folders and files. An image's name without `image_end` and with one of `mask_ends` is its mask's.
struct Naming {
  std::vector<std::string_view> images;  // of folders, in lower case
  std::vector<std::string_view> masks;
  std::string_view image_end;
  std::vector<std::string_view> mask_ends;
  bool has_others;  // files with other ends are next to the masks: their colours, numbers of objects
};

/// The contents of SRC: one pair, or one in each of several folders.
struct Layout {
  std::vector<AnnotatedImages::Part> parts;
  const Naming* naming = nullptr;  // of all
  std::string text;                // what was found, for users
};

/// Names without ending -> the files below a folder that are named like images.
using Files = std::map<std::string, std::string>;

const std::array<Naming, 2>& namings() {
  static const std::array<Naming, 2> kNamings = {
      {{{"images", "image", "imgs", "img", "img_dir", "jpegimages", "photos", "pictures"},
        {"masks", "mask", "segmentationclass", "segmentation", "segmentations", "annotations", "labels",
         "annotation", "label", "ann_dir", "gt", "ground_truth", "groundtruth"},
        "",
        {"", "_mask", "-mask", "_seg", "_segmentation", "_label", "_labels", "_labelTrainIds", "_gt",
         "_groundtruth"},
        false},
       // Cityscapes. Masks that its scripts make for training take precedence over the published ones.
       {{"leftimg8bit"},
        {"gtfine", "gtcoarse"},
        "_leftImg8bit",
        {"_gtFine_labelTrainIds", "_gtFine_labelIds", "_gtCoarse_labelTrainIds", "_gtCoarse_labelIds"},
        true}}};
  return kNamings;
}

// The suffixes of the folders of masks next to the images' train, val and test: CamVid's trainannot, ...
constexpr std::array<std::string_view, 5> kBesideSplits = {"annot", "_annot", "_masks", "_mask", "_labels"};

std::string without_ending(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

Files names_below(const fs::path& folder) {
  Files names;
  (void)find_below(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const std::string path = entry.path().lexically_relative(folder).string();
    if (name[0] != '.' && has_image_name(name)) names.emplace(without_ending(path), path);
    return false;  // all of them
  });
  return names;
}

/// A folder below `folder` that cannot be listed; nullopt if there is none.
std::optional<fs::path> unreadable_below(const fs::path& folder) {
  return find_below(folder, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored) && ::access(entry.path().c_str(), R_OK | X_OK) != 0;
  });
}

/// The masks in a folder.
Files masks_below(const fs::path& folder, const Naming& naming) {
  Files masks = names_below(folder);
  const auto is_other = [&](const auto& file) {
    return std::none_of(naming.mask_ends.begin(), naming.mask_ends.end(),
                        [&](std::string_view end) { return file.first.ends_with(end); });
  };
  if (naming.has_others) std::erase_if(masks, is_other);
  return masks;
}

/// The name of the mask of `image` among `masks`; "" if there is none.
std::string mask_of(const std::string& image, const Files& masks, const Naming& naming) {
  std::string stem = without_ending(image);
  if (stem.ends_with(naming.image_end)) stem.resize(stem.size() - naming.image_end.size());
  for (const std::string_view end : naming.mask_ends) {
    if (const auto it = masks.find(concat(stem, end)); it != masks.end()) return it->second;
  }
  return {};
}

/// A folder of images and a folder of their masks, both in the same folder.
struct Pair {
  std::string images;
  std::string masks;
  const Naming* naming;
};

/// Whether at least half of the masks (a quarter if naming.has_others) have an image. Two classes with such names don't.
bool belong_together(const fs::path& images, const fs::path& masks, const Naming& naming) {
  const Files all = masks_below(masks, naming);
  if (all.empty()) return false;
  std::set<std::string> found;
  for (const auto& [stem, file] : names_below(images)) found.insert(mask_of(file, all, naming));
  found.erase("");
  return (naming.has_others ? 4 : 2) * found.size() >= all.size();
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
  for (const Naming& naming : namings()) {
    for (const std::string_view images : naming.images) {
      for (const std::string_view masks : naming.masks) {
        const Pair pair{called(images), called(masks), &naming};
        if (!pair.images.empty() && !pair.masks.empty() &&
            belong_together(root / pair.images, root / pair.masks, naming))
          return pair;
      }
    }
  }
  return std::nullopt;
}

/// Folders by their names, and the splits that the names indicate; empty if there are fewer than two splits.
using Splits = std::vector<std::pair<std::string, std::string>>;

Splits splits_in(const fs::path& root, const std::function<std::string(std::string_view)>& split_of) {
  Splits found;
  std::set<std::string> splits;
  for (const std::string& name : folders_in(root)) {
    const std::string split = split_of(name);
    if (split.empty()) continue;
    found.emplace_back(name, split);
    splits.insert(split);
  }
  return splits.size() < 2 ? Splits() : found;
}

std::string folder_of(const fs::path& path) {
  return path.lexically_normal().string();
}

void add_part(const std::string& folder, const std::string& split, const fs::path& images,
              const fs::path& masks, Layout& layout) {
  layout.parts.push_back({folder_of(images), folder.empty() ? "" : folder + "/", split, folder_of(masks)});
}

/// Images in one folder and masks in another, both with folders of splits in them or without.
Layout outer_pair(const fs::path& root) {
  Layout layout;
  const auto pair = pair_in(root);
  if (!pair) return layout;
  layout.naming = pair->naming;
  layout.text = concat("images in ", in_quotes(pair->images), ", their masks in ", in_quotes(pair->masks),
                       " with the same names");
  const fs::path images = root / pair->images;
  const fs::path masks = root / pair->masks;
  // train2017, train_extra
  const Splits splits = splits_in(images, [](std::string_view name) { return split_in_words(name); });
  for (const auto& [folder, split] : splits) add_part(folder, split, images / folder, masks / folder, layout);
  if (splits.empty()) add_part("", "", images, masks, layout);
  return layout;
}

/// Such a pair in each of the folders of splits.
Layout inner_pairs(const fs::path& root, const Splits& splits) {
  Layout layout;
  std::vector<std::optional<Pair>> pairs;
  std::optional<Pair> first;
  for (const auto& [folder, split] : splits) {
    pairs.push_back(pair_in(root / folder));
    if (!first) first = pairs.back();
  }
  if (!first) return layout;
  layout.naming = first->naming;
  layout.text = concat("in each split images in ", in_quotes(first->images), ", their masks in ",
                       in_quotes(first->masks), " with the same names");
  for (size_t i = 0; i < splits.size(); ++i) {
    // The masks of a test split are often not published.
    const Pair pair = pairs[i].value_or(*first);
    const fs::path folder = root / splits[i].first;
    if (is_folder(folder / pair.images))
      add_part(splits[i].first, splits[i].second, folder / pair.images, folder / pair.masks, layout);
  }
  return layout;
}

/// Images in folders of splits, masks in others next to them.
Layout pairs_of_splits(const fs::path& root, const Splits& splits) {
  Layout layout;
  for (const std::string_view end : kBesideSplits) {
    const auto is_pair = [&](const auto& split) {
      return belong_together(root / split.first, root / concat(split.first, end), namings()[0]);
    };
    const auto first = std::find_if(splits.begin(), splits.end(), is_pair);
    if (first == splits.end()) continue;
    layout.naming = &namings()[0];
    layout.text = concat("images in ", in_quotes(first->first), " and so on, their masks in ",
                         in_quotes(concat(first->first, end)), " with the same names");
    for (const auto& [folder, split] : splits)
      add_part(folder, split, root / folder, root / concat(folder, end), layout);
    return layout;
  }
  return layout;
}

/// The layout of a folder; without parts if there are no such pairs in it.
Layout layout_of(const fs::path& root) {
  Layout layout = outer_pair(root);
  if (!layout.parts.empty()) return layout;
  const Splits splits =
      splits_in(root, [](std::string_view name) { return std::string(split_of_name(name)); });
  layout = inner_pairs(root, splits);
  return layout.parts.empty() ? pairs_of_splits(root, splits) : layout;
}

class SegmentationSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status take_lists(Layout& layout);
  Status add_images(const Layout& layout, size_t number);
  void add_listed(std::vector<AnnotatedImage> images, const Layout& layout);
  void say_what_was_found(const Layout& layout, SourceListing& listing) const;

  std::vector<AnnotatedImage> found_;
  int64_t without_mask_ = 0;
  std::vector<std::string> lonely_masks_;  // without an image
  std::vector<std::string> lost_links_;    // warnings
  std::string lists_;                      // ImageSets/Segmentation if its lists make the splits
  ImageSets names_;                        // in these lists
  int64_t unlisted_ = 0;                   // images that they do not name
};

// Each list becomes a part of the one pair of folders.
Status SegmentationSource::take_lists(Layout& layout) {
  if (!options_.splits || layout.parts.size() != 1) return {};
  for (const char* kind : {"Segmentation", "Main"}) {
    DLPIPE_ASSIGN_OR_RETURN(names_, read_image_sets(options_.path, kind));
    if (names_.empty()) continue;
    lists_ = concat("ImageSets/", kind);
    const AnnotatedImages::Part whole = layout.parts[0];
    layout.parts.clear();
    for (const auto& [split, names] : names_) {
      layout.parts.push_back(whole);
      layout.parts.back().split = split;
    }
    return {};
  }
  return {};
}

/// Assigns the images of the folder to the parts whose lists name them. A missing image becomes an entry that can't be read.
void SegmentationSource::add_listed(std::vector<AnnotatedImage> images, const Layout& layout) {
  std::map<std::string, AnnotatedImage> by_name;
  for (AnnotatedImage& image : images) {
    const std::string name = without_ending(image.path);
    by_name.insert_or_assign(name, std::move(image));
  }
  std::set<std::string> listed;
  for (size_t part = 0; part < layout.parts.size(); ++part) {
    for (const std::string& name : names_.at(layout.parts[part].split)) {
      const auto it = by_name.find(name);
      AnnotatedImage image;
      image.path = name + ".jpg";
      if (it != by_name.end()) image = it->second;
      image.part = part;
      image.is_listed = true;
      without_mask_ += it != by_name.end() && image.mask_file.empty() && image.problem.empty() ? 1 : 0;
      found_.push_back(std::move(image));
      listed.insert(name);
    }
  }
  unlisted_ = std::count_if(by_name.begin(), by_name.end(),
                            [&](const auto& one) { return !listed.contains(one.first); });
}

Status SegmentationSource::add_images(const Layout& layout, size_t number) {
  const AnnotatedImages::Part& part = layout.parts[number];
  if (const auto locked = unreadable_below(part.masks))
    return {ErrorCode::kIo, concat("[ingest] cannot list the masks in ", printable(locked->string()),
                                   "; check its owner and mode")};
  const Files masks = masks_below(part.masks, *layout.naming);
  std::set<std::string> taken;
  std::vector<AnnotatedImage> all;
  ImageFolder folder(part.folder);
  DLPIPE_RETURN_IF_ERROR(folder.walk("", [&](FoundImage found) {
    AnnotatedImage image;
    image.path = std::move(found.path);
    image.part = number;
    image.problem = std::move(found.problem);
    const std::string mask = mask_of(image.path, masks, *layout.naming);
    taken.insert(mask);
    if (mask.empty() || lower_ending(mask) == "png") {
      image.mask_file = mask;
    } else if (image.problem.empty()) {
      image.problem = concat("its mask ", printable(part.masks + "/" + mask),
                             " is not a PNG of class numbers; write it as one");
    }
    all.push_back(std::move(image));
  }));
  for (const std::string& links : folder.lost_links())
    lost_links_.push_back(concat("[ingest] ", printable(folder.root()), ": ignored, ", links));
  for (const auto& [stem, file] : masks) {
    if (!taken.contains(file)) lonely_masks_.push_back(file);
  }
  if (!lists_.empty()) {
    add_listed(std::move(all), layout);
    return {};
  }
  for (AnnotatedImage& image : all) {
    without_mask_ += image.mask_file.empty() && image.problem.empty() ? 1 : 0;
    found_.push_back(std::move(image));
  }
  return {};
}

void SegmentationSource::say_what_was_found(const Layout& layout, SourceListing& listing) const {
  std::vector<std::string> notes = {concat("[ingest] ", printable(options_.path),
                                           " is read as images with masks: ", layout.text,
                                           "; to choose others, list them with --manifest")};
  std::vector<std::pair<std::string, std::string>> splits;
  for (const AnnotatedImages::Part& part : layout.parts) {
    if (!part.prefix.empty() && !part.split.empty())
      splits.emplace_back(part.prefix.substr(0, part.prefix.size() - 1), part.split);
  }
  if (!splits.empty() && options_.splits)
    notes.push_back(concat("[ingest] its splits: ", splits_text(splits), "; --no-splits makes one dataset"));
  if (!lists_.empty())
    notes.push_back(concat(
        "[ingest] its splits are the lists of ", lists_, "; ",
        unlisted_ == 0 ? std::string()
                       : concat("ignored: ", counted(unlisted_, "image"), " that none of them names; "),
        "--no-splits makes one dataset"));
  if (without_mask_ > 0)
    notes.push_back(concat("[ingest] ",
                           counted(without_mask_, "image has no mask and becomes a sample",
                                   "images have no mask and become samples"),
                           " without one"));
  if (!lonely_masks_.empty())
    notes.push_back(concat("[ingest] ignored masks without an image: ", quoted_names(lonely_masks_)));
  notes.insert(notes.end(), lost_links_.begin(), lost_links_.end());
  listing.warnings.insert(listing.warnings.begin(), notes.begin(), notes.end());
}

Result<SourceListing> SegmentationSource::list() {
  found_.clear();
  without_mask_ = 0;
  lonely_masks_.clear();
  lost_links_.clear();
  lists_.clear();
  unlisted_ = 0;
  Layout layout = layout_of(options_.path);
  DLPIPE_RETURN_IF_ERROR(take_lists(layout));
  const size_t folders = lists_.empty() ? layout.parts.size() : 1;
  for (size_t i = 0; i < folders; ++i) DLPIPE_RETURN_IF_ERROR(add_images(layout, i));
  if (found_.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] no image in ", printable(options_.path)));
  std::vector<AnnotatedImages::Part> parts = layout.parts;
  for (AnnotatedImages::Part& part : parts) {
    if (!options_.splits) part.split.clear();
  }
  SourceListing listing;
  AnnotatedImages::Kinds kinds;
  kinds.has_objects = false;
  DLPIPE_RETURN_IF_ERROR(images_.add(std::move(parts), kinds, std::move(found_), listing));
  say_what_was_found(layout, listing);
  warn_of_no_class(options_.path, listing);
  return listing;
}

/// Whether the folder is a YOLO dataset. There may also be masks in it, which the source yolo does not read.
bool is_yolo(const fs::path& root) {
  if (is_there(root / "data.yaml") || is_there(root / "dataset.yaml")) return true;
  return holds_ending(root / "labels", "txt");
}

int recognizes_segmentation(const SourceOptions& options) {
  if (!options.manifest.empty() || !is_folder(options.path)) return 0;
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
    "a folder of images next to one of masks (images and masks, JPEGImages and SegmentationClass, img and "
    "labels, ADE20K's, Cityscapes', ...), also in train and val",
    segmentation::recognizes_segmentation, segmentation::open_segmentation};

}  // namespace dlpipe::data
