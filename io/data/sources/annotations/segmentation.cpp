// Pictures with a mask for each: a folder of pictures (images, img, JPEGImages, ...) and beside it one of masks (masks,
// labels, SegmentationClass, ...) whose files are called as the pictures are. Both may hold folders train, val and test, or
// lie in such folders, or be such folders (train, trainannot), or VOC's ImageSets beside them make the splits. ADE20K and Cityscapes as published are among these. Masks are
// PNGs of class numbers, as they are; ingest refuses those of colours, with their pictures.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/annotations/image_sets.h"
#include "dlpipe/io/data/sources/annotations/segmentation_layout.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace segmentation {

namespace {

namespace fs = std::filesystem;

class SegmentationSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status take_lists(Layout& layout);
  Status add_pictures(const Layout& layout, size_t number);
  void add_listed(std::vector<AnnotatedPicture> pictures, const Layout& layout);
  void say_what_was_found(const Layout& layout, SourceListing& listing) const;

  std::vector<AnnotatedPicture> found_;
  int64_t without_mask_ = 0;
  std::vector<std::string> lonely_masks_;  // without a picture
  std::vector<std::string> lost_links_;    // warnings
  std::string lists_;                      // ImageSets/Segmentation where its lists make the splits
  ImageSets names_;                        // in these
  int64_t unlisted_ = 0;                   // pictures that they don't name
};

// Each list becomes a part of the one pair of folders.
Status SegmentationSource::take_lists(Layout& layout) {
  if (!options_.splits || layout.parts.size() != 1) return {};
  for (const char* kind : {"Segmentation", "Main"}) {
    DLPIPE_ASSIGN_OR_RETURN(names_, read_image_sets(options_.path, kind));
    if (names_.empty()) continue;
    lists_ = concat("ImageSets/", kind);
    const AnnotatedPictures::Part whole = layout.parts[0];
    layout.parts.clear();
    for (const auto& [split, names] : names_) {
      layout.parts.push_back(whole);
      layout.parts.back().split = split;
    }
    return {};
  }
  return {};
}

/// Takes the pictures of the one folder that the lists name, each to its part. What isn't there is an entry that can't be read.
void SegmentationSource::add_listed(std::vector<AnnotatedPicture> pictures, const Layout& layout) {
  std::map<std::string, AnnotatedPicture> by_name;
  for (AnnotatedPicture& picture : pictures) {
    const std::string name = without_ending(picture.path);
    by_name.insert_or_assign(name, std::move(picture));
  }
  std::set<std::string> listed;
  for (size_t part = 0; part < layout.parts.size(); ++part) {
    for (const std::string& name : names_.at(layout.parts[part].split)) {
      const auto it = by_name.find(name);
      AnnotatedPicture picture;
      picture.path = name + ".jpg";
      if (it != by_name.end()) picture = it->second;
      picture.part = part;
      picture.is_listed = true;
      without_mask_ += it != by_name.end() && picture.mask_file.empty() && picture.problem.empty() ? 1 : 0;
      found_.push_back(std::move(picture));
      listed.insert(name);
    }
  }
  unlisted_ = std::count_if(by_name.begin(), by_name.end(),
                            [&](const auto& one) { return !listed.contains(one.first); });
}

Status SegmentationSource::add_pictures(const Layout& layout, size_t number) {
  const AnnotatedPictures::Part& part = layout.parts[number];
  if (const auto locked = unreadable_below(part.masks))
    return {ErrorCode::kIo, concat("[ingest] cannot list the masks in ", printable(locked->string()),
                                   "; check its owner and mode")};
  const Files masks = masks_below(part.masks, *layout.naming);
  std::set<std::string> taken;
  std::vector<AnnotatedPicture> all;
  PictureFolder folder(part.folder);
  DLPIPE_RETURN_IF_ERROR(folder.walk("", [&](FoundPicture found) {
    AnnotatedPicture picture;
    picture.path = std::move(found.path);
    picture.part = number;
    picture.problem = std::move(found.problem);
    const std::string mask = mask_of(picture.path, masks, *layout.naming);
    taken.insert(mask);
    if (mask.empty() || lower_ending(mask) == "png") {
      picture.mask_file = mask;
    } else if (picture.problem.empty()) {
      picture.problem = concat("its mask ", printable(part.masks + "/" + mask),
                               " is no PNG of class numbers; write it as one");
    }
    all.push_back(std::move(picture));
  }));
  for (const std::string& links : folder.lost_links())
    lost_links_.push_back(concat("[ingest] ", printable(folder.root()), ": left aside, ", links));
  for (const auto& [stem, file] : masks) {
    if (!taken.contains(file)) lonely_masks_.push_back(file);
  }
  if (!lists_.empty()) {
    add_listed(std::move(all), layout);
    return {};
  }
  for (AnnotatedPicture& picture : all) {
    without_mask_ += picture.mask_file.empty() && picture.problem.empty() ? 1 : 0;
    found_.push_back(std::move(picture));
  }
  return {};
}

void SegmentationSource::say_what_was_found(const Layout& layout, SourceListing& listing) const {
  std::vector<std::string> notes = {concat("[ingest] ", printable(options_.path),
                                           " is read as pictures with masks: ", layout.text,
                                           "; --manifest takes a list of them otherwise")};
  std::vector<std::pair<std::string, std::string>> splits;
  for (const AnnotatedPictures::Part& part : layout.parts) {
    if (!part.prefix.empty() && !part.split.empty())
      splits.emplace_back(part.prefix.substr(0, part.prefix.size() - 1), part.split);
  }
  if (!splits.empty() && options_.splits)
    notes.push_back(
        concat("[ingest] its splits: ", splits_text(splits), "; --no-splits makes one dataset of all"));
  if (!lists_.empty())
    notes.push_back(concat(
        "[ingest] its splits: the lists of ", lists_, "; ",
        unlisted_ == 0 ? std::string()
                       : concat("left aside: ", human_count(unlisted_),
                                unlisted_ == 1 ? " picture" : " pictures", " that none of them names; "),
        "--no-splits makes one dataset of all"));
  if (without_mask_ > 0)
    notes.push_back(concat("[ingest] ", human_count(without_mask_),
                           without_mask_ == 1 ? " picture has no mask and becomes a sample without one"
                                              : " pictures have no mask and become samples without one"));
  if (!lonely_masks_.empty())
    notes.push_back(concat("[ingest] left aside, masks without a picture: ", quoted_names(lonely_masks_)));
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
  for (size_t i = 0; i < folders; ++i) DLPIPE_RETURN_IF_ERROR(add_pictures(layout, i));
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
    "a folder of pictures beside one of masks (images and masks, JPEGImages and SegmentationClass, img and "
    "labels, ADE20K's, Cityscapes', ...), also in train and val",
    segmentation::recognizes_segmentation, segmentation::open_segmentation};

}  // namespace dlpipe::data
