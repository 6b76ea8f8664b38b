// COCO's JSON: pictures, categories, and annotations with a box, a class, a crowd flag and key points. SRC is the JSON
// itself, whose pictures lie in --images or beside it; a folder with annotations/ (instances_train2017.json and
// instances_val2017.json become the splits train and val); one with train/_annotations.coco.json and the like, or
// one such file; or one with a single JSON beside images/ or data/, as Label Studio and FiftyOne write it. Classes are in the order of their ids. Polygons and
// runs of objects become one mask per picture.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/annotations/coco_json.h"
#include "dlpipe/io/data/sources/pictures_beside.h"
#include "dlpipe/io/data/sources/read_budget.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace coco {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBesidePictures = "_annotations.coco.json";
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

/// Which JSONs SRC stands for, and where the pictures of each may lie.
struct Part {
  std::string file;
  std::string name;  // "val2017"
  std::string split = {};
  std::string prefix = {};  // of its samples' paths
};

std::string name_of(const fs::path& file) {
  if (file.filename() == kBesidePictures) return file.parent_path().filename().string();
  const std::string stem = file.stem().string();
  return stem.substr(stem.rfind('_') + 1);
}

std::vector<std::string> json_files(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && lower_ending(name) == "json" && is_file(entry.path())) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The JSONs of a folder annotations/ that list objects: the instances_ ones where there are such.
std::vector<std::string> object_files(const fs::path& folder) {
  std::vector<std::string> files = json_files(folder);
  const auto is_instances = [](const std::string& name) { return name.starts_with("instances_"); };
  const bool has_instances = std::any_of(files.begin(), files.end(), is_instances);
  std::erase_if(files, [&](const std::string& name) {
    const bool is_other = name.starts_with("captions_") || name.starts_with("stuff_") ||
                          name.starts_with("panoptic_") || name.starts_with("image_info_");
    return has_instances ? !is_instances(name) : is_other;
  });
  return files;
}

/// Folders of SRC that hold pictures with their JSON among them.
std::vector<std::string> folders_beside_pictures(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (is_file(entry.path() / kBesidePictures)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What other programs call the folder of the pictures.
constexpr std::array<const char*, 2> kPictureFolders = {"images", "data"};

/// Whether a JSON begins as COCO's do; of other kinds there are more.
bool begins_as_coco(const fs::path& file) {
  std::string head(size_t{64} << 10, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(stream.gcount()));
  return head.find("\"images\"") != std::string::npos || head.find("\"annotations\"") != std::string::npos;
}

/// The only JSON of a folder, where it lists objects of the pictures in a folder beside it; "" where there is none.
std::string file_beside_folder(const fs::path& root) {
  if (std::none_of(kPictureFolders.begin(), kPictureFolders.end(),
                   [&](const char* name) { return is_folder(root / name); }))
    return {};
  const std::vector<std::string> files = json_files(root);
  return files.size() == 1 && begins_as_coco(root / files[0]) ? files[0] : std::string();
}

bool is_root(const fs::path& path) {
  return !object_files(path / "annotations").empty() || is_file(path / kBesidePictures) ||
         !folders_beside_pictures(path).empty();
}

Result<std::vector<Part>> parts_of(const SourceOptions& options) {
  const fs::path root(options.path);
  if (!is_folder(root)) return std::vector<Part>{{options.path, name_of(root)}};
  std::vector<Part> parts;
  if (is_file(root / kBesidePictures)) {
    parts.push_back({(root / kBesidePictures).string(), name_of(root / kBesidePictures)});
  } else if (const auto folders = folders_beside_pictures(root); !folders.empty()) {
    for (const std::string& name : folders)
      parts.push_back({(root / name / kBesidePictures).string(), name, std::string(split_of_name(name))});
  } else if (const std::string file = file_beside_folder(root); !file.empty() && !is_root(root)) {
    parts.push_back({(root / file).string(), name_of(root / file)});
  } else {
    for (const std::string& name : object_files(root / "annotations"))
      parts.push_back({(root / "annotations" / name).string(), name_of(name),
                       split_in_words(fs::path(name).stem().string())});
  }
  if (!options.splits || parts.size() == 1) {
    for (Part& part : parts) part.split.clear();
  }
  if (parts.size() == 1) return parts;
  for (Part& part : parts) part.prefix = part.name + "/";
  if (!options.splits) return parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool again = std::any_of(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const Part& other) { return other.split == parts[i].split; });
    if (parts[i].split.empty() || again)
      return misuse(
          "ingest", printable(parts[i].file),
          again ? " is another JSON for the split " + parts[i].split : " names no split by its name",
          "; give the JSONs by name, one dataset each");
  }
  return parts;
}

/// The folder of the part's pictures (pictures_beside.h), below which they are called as there.
Result<std::string> picture_folder(const SourceOptions& options, const Part& part, Contents& contents) {
  std::vector<std::string> paths;
  for (const Picture& picture : contents.pictures) paths.push_back(picture.file_name);
  DLPIPE_ASSIGN_OR_RETURN(std::string folder,
                          locate_pictures(part.file, options.images, {&part.name, 1}, paths));
  for (size_t i = 0; i < paths.size(); ++i) contents.pictures[i].file_name = std::move(paths[i]);
  return folder;
}

class CocoSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status add_categories(const Part& part, const Contents& contents);
  Status number_categories(const std::vector<Contents>& all, SourceListing& listing);
  Status add_pictures(const Part& part, Contents& contents);
  void add_object(Annotation& annotation, AnnotatedPicture& picture);
  void warn(SourceListing& listing) const;

  std::vector<AnnotatedPictures::Part> folders_;
  std::vector<AnnotatedPicture> found_;
  std::map<int64_t, Category> categories_;
  std::map<int64_t, int64_t> label_of_;
  size_t keypoints_ = 0;  // of each object; 0: none
  int64_t unfit_ = 0;     // outlines that can't be taken
  std::string first_unfit_;
  int64_t lost_ = 0;  // annotations of pictures that aren't listed
};

Status CocoSource::add_categories(const Part& part, const Contents& contents) {
  for (const auto& [id, category] : contents.categories) {
    const auto [former, fresh] = categories_.emplace(id, category);
    if (!fresh && former->second.name != category.name)
      return misuse("ingest", printable(part.file), " calls category ", id, " '", printable(category.name),
                    "', another JSON '", printable(former->second.name), "'; ingest them apart");
    if (category.keypoints == 0) continue;
    constexpr size_t kMostPoints = 4096;  // as YOLO's
    if (category.keypoints > kMostPoints)
      return misuse("ingest", printable(part.file), ": the category '", printable(category.name), "' has ",
                    category.keypoints, " key points; at most ", kMostPoints, " are stored");
    if (keypoints_ != 0 && keypoints_ != category.keypoints)
      return misuse("ingest", printable(part.file), " has categories of ", keypoints_, " and of ",
                    category.keypoints,
                    " key points; a dataset holds one number of them, so leave the others' key points out");
    keypoints_ = category.keypoints;
  }
  return {};
}

// Of two categories of one name, one that nothing is of goes: some programs list the name of the project as category 0.
Status CocoSource::number_categories(const std::vector<Contents>& all, SourceListing& listing) {
  std::map<int64_t, int64_t> uses;
  std::map<std::string_view, int64_t> of_name;
  for (const Contents& contents : all) {
    for (const Annotation& annotation : contents.annotations) ++uses[annotation.category];
  }
  for (const auto& [id, category] : categories_) ++of_name[category.name];
  for (const auto& [id, category] : categories_) {
    if (of_name[category.name] > 1 && uses[id] == 0) {
      --of_name[category.name];
      continue;
    }
    if (of_name[category.name] > 1)
      return misuse("ingest", printable(options_.path), ": two categories are called '",
                    printable(category.name), "', and both are used; rename one");
    label_of_[id] = static_cast<int64_t>(listing.classes.size());
    listing.classes.push_back(category.name);
  }
  return {};
}

void CocoSource::add_object(Annotation& annotation, AnnotatedPicture& picture) {
  if (!annotation.problem.empty() && ++unfit_ == 1)
    first_unfit_ = concat(printable(picture.path), ": ", annotation.problem);
  if (annotation.box.empty()) {
    if (picture.problem.empty()) picture.problem = "an annotation of it has no 'bbox'";
    return;
  }
  if (annotation.outline) {
    picture.outlines.push_back(std::move(*annotation.outline));
    picture.outlines.back().object = picture.labels.size();
  }
  const std::vector<float>& box = annotation.box;
  picture.boxes.insert(picture.boxes.end(), {box[0], box[1], box[0] + box[2], box[1] + box[3]});
  picture.labels.push_back(label_of_.at(annotation.category));
  picture.flags.push_back(annotation.is_crowd ? 1 : 0);
  std::vector<float> points = annotation.keypoints;
  if (points.empty()) points.resize(3 * keypoints_);
  if (points.size() != 3 * keypoints_)
    picture.problem =
        concat("an annotation of it has ", points.size(), " numbers for ", keypoints_, " key points");
  picture.points.insert(picture.points.end(), points.begin(), points.end());
}

Status CocoSource::add_pictures(const Part& part, Contents& contents) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string folder, picture_folder(options_, part, contents));
  std::unordered_map<std::string_view, size_t> by_id;
  for (const Picture& picture : contents.pictures) {
    by_id.emplace(picture.id, found_.size());
    found_.push_back({picture.file_name, folders_.size(), picture.width, picture.height});
    found_.back().described = concat("image ", picture.id, " of ", part.file);
  }
  for (Annotation& annotation : contents.annotations) {
    const auto picture = by_id.find(annotation.image);
    if (picture == by_id.end())
      ++lost_;
    else
      add_object(annotation, found_[picture->second]);
  }
  folders_.push_back({folder, part.prefix, part.split});
  return {};
}

void CocoSource::warn(SourceListing& listing) const {
  warn_of_no_class(options_.path, listing);
  if (unfit_ > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(unfit_),
                                      unfit_ == 1 ? " outline" : " outlines",
                                      " that can't be read, the first one of ", first_unfit_));
  if (lost_ > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(lost_),
                                      lost_ == 1 ? " annotation of a picture" : " annotations of pictures",
                                      " that 'images' doesn't list"));
}

Result<SourceListing> CocoSource::list() {
  found_.clear();
  folders_.clear();
  categories_.clear();
  label_of_.clear();
  keypoints_ = 0;
  unfit_ = lost_ = 0;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Part> parts, parts_of(options_));
  std::vector<Contents> all;
  uint64_t input_bytes = 0;
  uint64_t without_points = 0;
  for (const Part& part : parts) {
    DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(part.file));
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                            read_stamped_file(part.file, stamp, kMostBytes));
    DLPIPE_ASSIGN_OR_RETURN(Contents contents,
                            parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, part.file));
    DLPIPE_RETURN_IF_ERROR(add_categories(part, contents));
    input_bytes += bytes.size();
    for (const Annotation& annotation : contents.annotations)
      without_points += annotation.keypoints.empty() ? 1 : 0;
    all.push_back(std::move(contents));
  }
  SourceListing listing;
  DLPIPE_RETURN_IF_ERROR(number_categories(all, listing));
  listing.has_class_order = true;
  DLPIPE_RETURN_IF_ERROR(ReadBudget(options_, options_.path, input_bytes)
                             .take(2 * 3 * sizeof(float) * keypoints_, without_points,
                                   concat("key points for the ", without_points, " objects that have none")));
  for (size_t i = 0; i < parts.size(); ++i) DLPIPE_RETURN_IF_ERROR(add_pictures(parts[i], all[i]));
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(folders_), {"crowd", static_cast<int64_t>(keypoints_)},
                                       std::move(found_), listing));
  warn(listing);
  return listing;
}

int recognizes_coco(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  if (is_folder(options.path))
    return is_root(options.path) ? 3 : (file_beside_folder(options.path).empty() ? 0 : 2);
  return lower_ending(options.path) == "json" ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_coco(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<CocoSource>(options));
}

}  // namespace

}  // namespace coco

extern const SourceRecord coco_source;
const SourceRecord coco_source = {
    "coco",
    "COCO's .json of objects with --images FOLDER, or its root folder (annotations/, train2017/, val2017/)",
    coco::recognizes_coco, coco::open_coco, "--images"};

}  // namespace dlpipe::data
