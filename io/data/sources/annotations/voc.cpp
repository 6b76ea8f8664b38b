// Pascal VOC: an XML for each picture. SRC is a folder as VOCdevkit/VOC2012 (Annotations, JPEGImages, and lists of names in
// ImageSets/Main, which become splits, or in ImageSets/Segmentation, where there are masks and no lists in Main), VOCdevkit
// with several years, a folder with annotations/ and images/, or one where each picture has its XML beside it; or train/,
// valid/ and test/ with any of these. Classes are in the order of their names. PNGs in SegmentationClass are the masks of
// their pictures, as they are: 0 background, 1 to 20 the published classes in the order of their names, 255 not known.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/annotations/image_sets.h"
#include "dlpipe/io/data/sources/annotations/voc_xml.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace voc {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostXmlBytes = uint64_t{64} << 20;

/// Names of the files of a folder by their stems; of several with one stem the first one.
std::map<std::string, std::string> files_by_stem(const fs::path& folder,
                                                 bool (*is_wanted)(const std::string&)) {
  std::map<std::string, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !is_wanted(name)) continue;
    std::string& file = files[entry.path().stem().string()];
    if (file.empty() || name < file) file = name;
  }
  return files;
}

bool is_xml(const std::string& name) {
  return lower_ending(name) == "xml";
}

bool is_png(const std::string& name) {
  return lower_ending(name) == "png";
}

bool has_xml(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_xml(entry.path().filename().string())) return true;
  }
  return false;
}

/// One folder of annotations with its pictures.
struct Set {
  fs::path root;
  std::string annotations;  // names of folders in it; "." for itself
  std::string pictures;
  std::string prefix = {};  // of its samples' paths
  std::string split = {};   // that all of it is
};

std::optional<Set> set_in(const fs::path& root) {
  for (const char* annotations : {"Annotations", "annotations"}) {
    if (!has_xml(root / annotations)) continue;
    for (const char* pictures : {"JPEGImages", "images", "Images"}) {
      if (is_folder(root / pictures)) return Set{root, annotations, pictures};
    }
  }
  if (has_xml(root) && !files_by_stem(root, has_image_name).empty()) return Set{root, ".", "."};
  return std::nullopt;
}

/// SRC itself, or each of its folders (VOC2007, VOC2012; train, valid, test), or those of its VOCdevkit.
std::vector<Set> sets_in(const fs::path& root) {
  if (const auto set = set_in(root)) return {*set};
  std::vector<Set> sets;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    const std::string_view split = split_of_name(name);
    if (!name.starts_with("VOC") && split.empty()) continue;
    if (auto set = set_in(entry.path())) {
      set->prefix = name + "/";
      set->split = split;
      sets.push_back(*set);
    }
  }
  std::sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return a.prefix < b.prefix; });
  if (sets.size() == 1) sets[0].prefix = sets[0].split = "";
  return sets.empty() && root.filename() != "VOCdevkit" && is_folder(root / "VOCdevkit")
             ? sets_in(root / "VOCdevkit")
             : sets;
}

class VocSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Result<ImageSets> lists_of(const Set& set, bool has_masks);
  /// The names that a split of `set` has; all of them where there are no lists.
  Result<ImageSets> names_of(const Set& set, const std::map<std::string, std::string>& xmls, bool has_masks);
  void say_which_lists(SourceListing& listing) const;
  Status add_set(const Set& set);
  Status add_picture(const Set& set, const std::string& name, const std::string& file,
                     AnnotatedPicture picture);
  void number(SourceListing& listing);

  std::vector<AnnotatedPictures::Part> folders_;
  std::vector<AnnotatedPicture> found_;
  FilesAgain again_{options_};
  std::vector<std::vector<std::string>> classes_of_;  // of the objects of each picture found
  int64_t unlisted_ = 0;                              // annotations that no list names
  std::set<std::string> lists_used_;                  // Main, Segmentation
  std::set<std::string> lists_unused_;
};

/// "ImageSets/Main and ImageSets/Segmentation".
std::string lists_text(const std::set<std::string>& kinds) {
  std::string text;
  for (const std::string& kind : kinds) text += concat(text.empty() ? "" : " and ", "ImageSets/", kind);
  return text;
}

/// Main's lists, or Segmentation's where there are masks and no others; says which are not used.
Result<ImageSets> VocSource::lists_of(const Set& set, bool has_masks) {
  if (!options_.splits) return ImageSets();
  DLPIPE_ASSIGN_OR_RETURN(ImageSets main, read_image_sets(set.root, "Main"));
  DLPIPE_ASSIGN_OR_RETURN(ImageSets of_masks, read_image_sets(set.root, "Segmentation"));
  const bool takes_main = !main.empty() || !has_masks;
  if (!main.empty()) lists_used_.insert("Main");
  if (!of_masks.empty()) (takes_main ? lists_unused_ : lists_used_).insert("Segmentation");
  return takes_main ? main : of_masks;
}

Result<ImageSets> VocSource::names_of(const Set& set, const std::map<std::string, std::string>& xmls,
                                      bool has_masks) {
  ImageSets splits;
  if (options_.splits && !set.split.empty()) {
    for (const auto& [name, file] : xmls) splits[set.split].push_back(name);
    return splits;
  }
  DLPIPE_ASSIGN_OR_RETURN(splits, lists_of(set, has_masks));
  if (splits.empty()) {
    for (const auto& [name, file] : xmls) splits[""].push_back(name);
    return splits;
  }
  std::set<std::string> listed;
  for (const auto& [split, names] : splits) listed.insert(names.begin(), names.end());
  unlisted_ +=
      std::count_if(xmls.begin(), xmls.end(), [&](const auto& xml) { return !listed.contains(xml.first); });
  return splits;
}

void VocSource::say_which_lists(SourceListing& listing) const {
  const std::string used = lists_text(lists_used_);
  if (!lists_unused_.empty())
    listing.warnings.push_back(concat(
        "[ingest] the lists of ", lists_text(lists_unused_), " are not used; ",
        used.empty()
            ? "they are for masks, and SegmentationClass holds none"
            : concat("the splits are those of ", used,
                     ", which are for boxes. For the splits of the masks ingest a folder with JPEGImages, "
                     "SegmentationClass and ImageSets/Segmentation alone (links will do)")));
  if (unlisted_ > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(unlisted_),
                                      " annotations that no list of ", used,
                                      " names; --no-splits takes all"));
}

Status VocSource::add_picture(const Set& set, const std::string& name, const std::string& file,
                              AnnotatedPicture picture) {
  std::vector<std::string> classes;
  const auto lost = [&](std::string problem) {
    picture.problem = std::move(problem);
    if (picture.path.empty()) picture.path = name + ".jpg";
    found_.push_back(std::move(picture));
    classes_of_.emplace_back();
  };
  if (file.empty()) {
    lost(concat("there is no ", set.annotations, "/", printable(name), ".xml"));
    return {};
  }
  const std::string path = (set.root / set.annotations / file).string();
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp, kMostXmlBytes));
  DLPIPE_RETURN_IF_ERROR(again_.take(path, bytes.size()));
  const auto annotation = parse(bytes);
  if (!annotation.ok()) {
    lost(concat(printable(path), ": ", annotation.status().message()));
    return {};
  }
  if (picture.path.empty()) picture.path = annotation->file_name;
  if (picture.path.empty()) {
    lost(concat("there is no picture ", set.pictures, "/", printable(name)));
    return {};
  }
  picture.described = path;
  picture.width = annotation->width;
  picture.height = annotation->height;
  for (const Object& object : annotation->objects) {
    picture.boxes.insert(picture.boxes.end(), object.box.begin(), object.box.end());
    picture.flags.push_back(object.is_difficult ? 1 : 0);
    classes.push_back(object.name);
  }
  found_.push_back(std::move(picture));
  classes_of_.push_back(std::move(classes));
  return {};
}

Status VocSource::add_set(const Set& set) {
  const std::map<std::string, std::string> xmls = files_by_stem(set.root / set.annotations, is_xml);
  const std::map<std::string, std::string> pictures = files_by_stem(set.root / set.pictures, has_image_name);
  const fs::path mask_folder = set.root / "SegmentationClass";
  const std::map<std::string, std::string> masks = files_by_stem(mask_folder, is_png);
  DLPIPE_ASSIGN_OR_RETURN(const auto splits, names_of(set, xmls, !masks.empty()));
  for (const auto& [split, names] : splits) {
    folders_.push_back({(set.root / set.pictures).lexically_normal().string(), set.prefix, split,
                        mask_folder.lexically_normal().string()});
    for (const std::string& name : names) {
      if (options_.stop_requested && options_.stop_requested())
        return Status(ErrorCode::kCancelled,
                      concat("[ingest] stopped while ", printable(options_.path), " was listed"));
      const auto xml = xmls.find(name);
      const auto picture = pictures.find(name);
      AnnotatedPicture found;
      found.part = folders_.size() - 1;
      found.is_listed = true;
      if (picture != pictures.end()) found.path = picture->second;
      if (const auto mask = masks.find(name); mask != masks.end()) found.mask_file = mask->second;
      DLPIPE_RETURN_IF_ERROR(add_picture(set, name, xml == xmls.end() ? "" : xml->second, std::move(found)));
    }
  }
  return {};
}

// What SegmentationClass calls 1 to 20.
constexpr std::array<std::string_view, 20> kPublishedClasses = {
    "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
    "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
    "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};

// Beside masks the published classes keep their numbers, whichever of them occur.
void VocSource::number(SourceListing& listing) {
  std::vector<std::string> all;
  for (const std::vector<std::string>& classes : classes_of_)
    all.insert(all.end(), classes.begin(), classes.end());
  const bool has_masks = std::any_of(found_.begin(), found_.end(), [](const AnnotatedPicture& picture) {
    return !picture.mask_file.empty();
  });
  listing.has_class_order =
      has_masks && std::all_of(all.begin(), all.end(), [](const std::string& name) {
        return std::binary_search(kPublishedClasses.begin(), kPublishedClasses.end(), name);
      });
  if (listing.has_class_order) {
    listing.mask_numbers = MaskNumbers::kClasses;
    all.assign(kPublishedClasses.begin(), kPublishedClasses.end());
  }
  listing.classes = sorted_class_names(std::move(all));
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < listing.classes.size(); ++i) label_of[listing.classes[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < found_.size(); ++i) {
    for (const std::string& name : classes_of_[i]) found_[i].labels.push_back(label_of.at(name));
  }
}

Result<SourceListing> VocSource::list() {
  folders_.clear();
  found_.clear();
  classes_of_.clear();
  again_ = FilesAgain(options_);
  unlisted_ = 0;
  lists_used_.clear();
  lists_unused_.clear();
  for (const Set& set : sets_in(options_.path)) DLPIPE_RETURN_IF_ERROR(add_set(set));
  SourceListing listing;
  number(listing);
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(folders_), {"difficult"}, std::move(found_), listing));
  warn_of_no_class(options_.path, listing);
  say_which_lists(listing);
  return listing;
}

int recognizes_voc(const SourceOptions& options) {
  if (!options.manifest.empty() || !is_folder(options.path)) return 0;
  return sets_in(options.path).empty() ? 0 : 3;
}

Result<std::unique_ptr<Source>> open_voc(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<VocSource>(options));
}

}  // namespace

}  // namespace voc

extern const SourceRecord voc_source;
const SourceRecord voc_source = {"voc",
                                 "Pascal VOC's folder (Annotations, JPEGImages, ImageSets), VOCdevkit, or "
                                 "pictures with their .xml beside them",
                                 voc::recognizes_voc, voc::open_voc};

}  // namespace dlpipe::data
