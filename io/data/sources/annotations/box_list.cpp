// A list with a line per box, as TensorFlow's object detection (Roboflow's _annotations.csv), Open Images, keras-retinanet and
// Kaggle's competitions have it; box_lines.h knows the columns. SRC is the list, a folder with it, or train/, valid/ and test/ with
// one each. Several lists in one folder are splits by their names. The lines of a picture become one sample with all of its boxes, in
// the list's order. Where --label or --field says what the columns are, the list is a manifest.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/annotations/box_lines.h"
#include "dlpipe/io/data/sources/annotations/box_list_layout.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/pictures_beside.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace box_list {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // Open Images' list for training has 2 GB
constexpr const char* kOnlyClass = "object";        // where no column says it

/// Absolute paths, and those that lead out of `folder`, begin in the folder that all of them share.
std::string below_one_folder(const std::string& folder, std::vector<std::string>& paths) {
  const auto is_below = [](const std::string& path) {
    const fs::path pieces(path);
    return pieces.is_relative() && std::find(pieces.begin(), pieces.end(), "..") == pieces.end();
  };
  if (std::all_of(paths.begin(), paths.end(), is_below)) return folder;
  const fs::path root = (fs::current_path() / folder).lexically_normal();
  for (std::string& path : paths) path = (root / path).lexically_normal().string();
  fs::path shared = fs::path(paths.front()).parent_path();
  for (const std::string& path : paths) {
    while (shared != shared.parent_path() && !path.starts_with(shared.string() + "/"))
      shared = shared.parent_path();
  }
  const size_t begin = shared == shared.parent_path() ? 1 : shared.string().size() + 1;
  for (std::string& path : paths) path.erase(0, begin);
  return shared.string();
}

/// A picture, and of each of its boxes the line that has it.
struct Listed {
  AnnotatedPicture picture;
  std::vector<int64_t> lines;
};

/// A list that is being read.
struct List {
  Part part;
  Columns columns;
  std::string images;                                // --images, or the folder beside --manifest
  std::optional<PicturesById> by_id;                 // where paths have no endings
  std::vector<Listed> pictures;                      // called as in the list
  std::unordered_map<std::string, size_t> place_of;  // path -> index of it
  int64_t missing = 0;                               // pictures, where a list names more than people have
  bool calls_classes = false;                        // a file beside it says what its classes are called

  std::string place_of_line(int64_t line) const { return concat(printable(part.file), " line ", line); }
};

class BoxListSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;
  /// Lists without the pictures' sizes don't tell which boxes are outside of them.
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  Status add_part(Part part, SourceListing& listing);
  Status read_lines(std::string_view text, List& list);
  Status take_line(const std::vector<std::string>& cells, int64_t line, List& list);
  Result<std::string> find_pictures(List& list) const;
  Status read_names_of_classes(List& list);
  int64_t class_of(const std::string& cell);
  Status choose_scale(SourceListing& listing);
  void number(SourceListing& listing);
  void say(const List& list, const std::string& folder, SourceListing& listing) const;
  void warn_of_unlisted(SourceListing& listing) const;

  std::vector<AnnotatedPictures::Part> folders_;
  std::vector<AnnotatedPicture> found_;
  std::vector<std::string> files_;  // of the lists, as folders_
  std::unordered_map<std::string, std::vector<int64_t>>
      lines_of_;                      // of pictures of unknown size, by their samples' paths
  std::vector<std::string> classes_;  // as they were met
  std::unordered_map<std::string, int64_t> number_of_class_;  // in classes_, by a list's cell
  std::vector<std::string> class_order_;                      // as Open Images publishes it
  std::unordered_map<std::string, std::string> name_of_;      // /m/01g317 -> Person
  AnnotatedPictures::Kinds kinds_;
  bool has_pixels_ = false;
  float most_ = 0;  // of all coordinates in pixels
};

int64_t BoxListSource::class_of(const std::string& cell) {
  const auto [known, is_new] = number_of_class_.emplace(cell, static_cast<int64_t>(classes_.size()));
  if (is_new) {
    const auto name = name_of_.find(cell);
    classes_.push_back(name == name_of_.end() ? cell : name->second);
  }
  return known->second;
}

Status BoxListSource::take_line(const std::vector<std::string>& cells, int64_t line, List& list) {
  constexpr size_t kMissing = SIZE_MAX;
  const Columns& columns = list.columns;
  if (cells.size() != columns.names.size())
    return Status(
        ErrorCode::kCorrupt,
        concat("[ingest] ", list.place_of_line(line), ": ", cells.size(), " columns, and not the ",
               columns.names.size(), columns.has_head ? " of the first line" : " of path,x1,y1,x2,y2,class"));
  std::string path = cells[columns.path];
  if (path.empty())
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", list.place_of_line(line), ": an empty path; fill it in"));
  if (path.find('/') != std::string::npos) path = fs::path(path).lexically_normal().string();
  const auto [place, is_new] = list.place_of.emplace(path, list.pictures.size());
  if (is_new) {
    const bool is_there = !list.by_id || list.by_id->has(path);
    if (is_there || !columns.names_more) {
      list.pictures.emplace_back().picture.path = path;
    } else {
      place->second = kMissing;
      ++list.missing;
    }
  }
  if (place->second == kMissing) return {};
  Listed& listed = list.pictures[place->second];
  AnnotatedPicture& picture = listed.picture;
  Line read = read_line(cells, columns);
  if (is_new) {
    picture.width = read.width;
    picture.height = read.height;
  } else if (read.problem.empty() && (picture.width != read.width || picture.height != read.height)) {
    read.problem = concat("a picture of ", read.width, "x", read.height, ", and a line before it says ",
                          picture.width, "x", picture.height);
  }
  if (!read.problem.empty()) {
    if (picture.problem.empty()) picture.problem = concat(list.place_of_line(line), ": ", read.problem);
    return {};
  }
  const size_t count = read.boxes.size() / 4;
  if (count == 0) return {};
  const int64_t label = class_of(columns.label ? cells[*columns.label] : kOnlyClass);
  picture.boxes.insert(picture.boxes.end(), read.boxes.begin(), read.boxes.end());
  picture.labels.insert(picture.labels.end(), count, label);
  picture.flags.insert(picture.flags.end(), count, read.is_group ? 1.f : 0.f);
  if (picture.width == 0 && !columns.are_shares) listed.lines.insert(listed.lines.end(), count, line);
  if (!columns.are_shares) most_ = std::max(most_, *std::max_element(read.boxes.begin(), read.boxes.end()));
  return {};
}

Status BoxListSource::read_lines(std::string_view text, List& list) {
  constexpr int64_t kLinesBetween = 4096;
  CsvReader reader(text, separator_of(list.part.file, text));
  std::vector<std::string> cells;
  int64_t line = 0;
  int64_t count = 0;
  while (true) {
    if (count % kLinesBetween == 0 && options_.stop_requested && options_.stop_requested())
      return Status(ErrorCode::kCancelled,
                    concat("[ingest] stopped while ", printable(list.part.file), " was listed"));
    const auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(list.part.file), " "));
    if (!*more) return {};
    if (++count == 1 && list.columns.has_head) continue;
    const bool is_first = list.place_of.empty();
    if (is_first && cells.size() == list.columns.names.size() && !has_image_name(cells[list.columns.path]))
      list.by_id.emplace(folders_of_pictures(list.part.file, list.images, names_of_folders(list.part.file)));
    DLPIPE_RETURN_IF_ERROR(take_line(cells, line, list));
  }
}

/// The folder of the list's pictures, which are then called as there.
Result<std::string> BoxListSource::find_pictures(List& list) const {
  if (list.place_of.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(list.part.file), " lists no picture"));
  if (!list.by_id) {
    std::vector<std::string> paths;
    for (const Listed& listed : list.pictures) paths.push_back(listed.picture.path);
    DLPIPE_ASSIGN_OR_RETURN(std::string folder, locate_pictures(list.part.file, list.images,
                                                                names_of_folders(list.part.file), paths));
    folder = below_one_folder(folder, paths);
    for (size_t i = 0; i < paths.size(); ++i) list.pictures[i].picture.path = std::move(paths[i]);
    return folder;
  }
  const std::string folder = list.by_id->folder();
  if (folder.empty())
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] ", printable(list.part.file), " lists ", printable(list.place_of.begin()->first),
               " and ", list.place_of.size() - 1, " more pictures, but none of them is in ",
               list.images.empty() ? "its folder or those beside it" : printable(list.images),
               "; name the folder of its pictures with --images"));
  for (Listed& listed : list.pictures) {
    std::string file = list.by_id->file_of(listed.picture.path);
    if (file.empty() && list.columns.names_more)
      ++list.missing;
    else if (file.empty())
      continue;  // add() says that there is none
    listed.picture.path = std::move(file);
  }
  std::erase_if(list.pictures, [](const Listed& listed) { return listed.picture.path.empty(); });
  return folder;
}

Status BoxListSource::read_names_of_classes(List& list) {
  const std::optional<std::string> file = names_of_classes_beside(list.part.file);
  if (!file) return {};
  list.calls_classes = true;
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(*file));
  std::unordered_set<std::string> ordered(class_order_.begin(), class_order_.end());
  CsvReader reader(text, ',');
  std::vector<std::string> cells;
  int64_t line = 0;
  while (true) {
    const auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(*file), " "));
    if (!*more) return {};
    if (cells.size() != 2 || cells[0].empty() || cells[1].empty())
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(*file), " line ", line,
                                                ": no LABELNAME,NAME, as /m/01g317,Person"));
    if (lower_text(cells[0]) == "labelname") continue;  // some of them name their columns
    name_of_.emplace(cells[0], cells[1]);
    if (ordered.insert(cells[1]).second) class_order_.push_back(cells[1]);
  }
}

void BoxListSource::say(const List& list, const std::string& folder, SourceListing& listing) const {
  const std::string file = printable(list.part.file);
  const std::vector<std::string> others = list.columns.left_aside();
  size_t boxes = 0;
  for (const Listed& listed : list.pictures) boxes += listed.picture.labels.size();
  listing.warnings.push_back(concat(
      "[ingest] ", file, " is read as a list of boxes as ", list.columns.format, ": ",
      human_count(static_cast<int64_t>(boxes)), " boxes in ",
      human_count(static_cast<int64_t>(list.pictures.size())), " pictures, below ", printable(folder),
      others.empty() ? ""
                     : concat(others.size() == 1 ? "; left aside: the column " : "; left aside: the columns ",
                              quoted_names(others))));
  if (list.missing > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(list.missing),
                                      list.missing == 1 ? " picture that " : " pictures that ", file,
                                      " names and ", printable(folder), " hasn't"));
  if (!list.columns.label)
    listing.warnings.push_back(concat(
        "[ingest] ", file, " has no column of classes: all boxes are of the class '", kOnlyClass, "'"));
  if (list.columns.names_more && !list.calls_classes)
    listing.warnings.push_back(concat("[ingest] no class-descriptions-boxable.csv is beside ", file,
                                      ": classes are called as in ",
                                      in_quotes(list.columns.names[*list.columns.label])));
}

Status BoxListSource::add_part(Part part, SourceListing& listing) {
  List list;
  list.images = options_.manifest.empty() ? options_.images : options_.path;
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(part.file));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          read_stamped_file(part.file, stamp, kMostBytes));
  DLPIPE_ASSIGN_OR_RETURN(const std::string_view text, list_text(part.file, bytes));
  std::optional<Columns> columns = columns_in(part.file, text);
  if (!columns) return changed_since_listed(part.file, "changed");
  list.part = std::move(part);
  list.columns = *std::move(columns);
  if (list.columns.names_more) DLPIPE_RETURN_IF_ERROR(read_names_of_classes(list));
  DLPIPE_RETURN_IF_ERROR(read_lines(text, list));
  DLPIPE_ASSIGN_OR_RETURN(const std::string folder, find_pictures(list));
  say(list, folder, listing);
  if (list.columns.group) kinds_.flag = "crowd";
  (list.columns.are_shares ? kinds_.is_relative : has_pixels_) = true;
  for (Listed& listed : list.pictures) {
    if (!listed.lines.empty())
      lines_of_.emplace(list.part.prefix + listed.picture.path, std::move(listed.lines));
    listed.picture.part = folders_.size();
    found_.push_back(std::move(listed.picture));
  }
  folders_.push_back({folder, list.part.prefix, list.part.split});
  files_.push_back(list.part.file);
  return {};
}

Status BoxListSource::choose_scale(SourceListing& listing) {
  if (kinds_.is_relative && has_pixels_)
    return misuse(
        "ingest", printable(options_.path),
        " holds lists of boxes in pixels and in shares of their pictures' sizes; give them by name, one "
        "dataset each");
  const bool has_boxes = std::any_of(found_.begin(), found_.end(),
                                     [](const AnnotatedPicture& picture) { return !picture.boxes.empty(); });
  if (!has_pixels_ || !has_boxes || most_ > 1) return {};
  kinds_.is_relative = true;
  lines_of_.clear();
  listing.warnings.push_back(
      concat("[ingest] ", printable(options_.path),
             ": no coordinate is above 1, so they are taken as shares of the pictures' widths "
             "and heights"));
  return {};
}

void BoxListSource::number(SourceListing& listing) {
  std::vector<std::string*> names;
  for (std::string& name : classes_) names.push_back(&name);
  if (class_order_.empty()) write_whole_numbers(names);
  listing.classes = class_order_;
  listing.has_class_order = !class_order_.empty();
  const std::unordered_set<std::string_view> ordered(class_order_.begin(), class_order_.end());
  std::vector<std::string> others;
  std::copy_if(classes_.begin(), classes_.end(), std::back_inserter(others),
               [&](const std::string& name) { return !ordered.contains(name); });
  others = sorted_class_names(std::move(others));
  listing.classes.insert(listing.classes.end(), others.begin(), others.end());
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < listing.classes.size(); ++i) label_of[listing.classes[i]] = static_cast<int64_t>(i);
  for (AnnotatedPicture& picture : found_) {
    for (int64_t& label : picture.labels) label = label_of.at(classes_[static_cast<size_t>(label)]);
  }
}

// Whether nothing is in them, or nobody looked, no list says.
void BoxListSource::warn_of_unlisted(SourceListing& listing) const {
  std::unordered_map<std::string, std::unordered_set<std::string>> listed;  // folder -> names
  for (const AnnotatedPicture& picture : found_) {
    const fs::path path = fs::path(folders_[picture.part].folder) / picture.path;
    listed[path.parent_path().string()].insert(path.filename().string());
  }
  int64_t count = 0;
  for (const auto& [folder, names] : listed) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      count += name[0] != '.' && has_image_name(name) && !names.contains(name) ? 1 : 0;
    }
  }
  if (count > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(count),
                                      count == 1 ? " picture beside these that no line names"
                                                 : " pictures beside these that no line names"));
}

Result<SourceListing> BoxListSource::list() {
  *this = BoxListSource(std::move(options_));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Part> parts, parts_of(options_));
  SourceListing listing;
  for (const Part& part : parts) DLPIPE_RETURN_IF_ERROR(add_part(part, listing));
  DLPIPE_RETURN_IF_ERROR(choose_scale(listing));
  if (options_.alone) warn_of_unlisted(listing);
  number(listing);
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(folders_), kinds_, std::move(found_), listing));
  warn_of_no_class(options_.path, listing);
  return listing;
}

Result<std::vector<std::byte>> BoxListSource::read(const SourceEntry& entry) const {
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, pictures_.read(entry));
  const auto lines = lines_of_.find(entry.path);
  if (lines == lines_of_.end()) return bytes;
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes));
  const bool swaps = swaps_axes(info.orientation);
  std::vector<float> boxes(entry.extra.at(0).size() / sizeof(float));
  std::memcpy(boxes.data(), entry.extra[0].data(), boxes.size() * sizeof(float));
  for (size_t i = 0; i < lines->second.size() && 4 * i + 3 < boxes.size(); ++i) {
    const std::string problem = outside(std::span(boxes).subspan(4 * i, 4), swaps ? info.height : info.width,
                                        swaps ? info.width : info.height);
    if (problem.empty()) continue;
    return Status(ErrorCode::kCorrupt,
                  concat(printable(files_.at(entry.place)), " line ", lines->second[i], ": ", problem));
  }
  return bytes;
}

int recognizes_box_list(const SourceOptions& options) {
  if (!options.label.empty() || !options.fields.empty() || !options.address.empty()) return 0;
  if (!options.manifest.empty()) return columns_in(options.manifest) ? 4 : 0;
  // 1, as a folder of classes, which comes later in the table: what another source takes is that one's, YOLO's folder with a list
  // beside, for instance.
  if (is_folder(options.path)) return options.labels.empty() && holds_lists(options.path) ? 1 : 0;
  const std::string ending = lower_ending(options.path);
  return (ending == "csv" || ending == "tsv") && columns_in(options.path) ? 3 : 0;
}

Result<std::unique_ptr<Source>> open_box_list(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<BoxListSource>(options));
}

}  // namespace

}  // namespace box_list

extern const SourceRecord box_list_source;
const SourceRecord box_list_source = {
    "box_list",
    "a .csv or .tsv with a line per box, or a folder with it: TensorFlow's object detection and Roboflow "
    "(filename, width, height, class, xmin, ymin, xmax, ymax), Open Images, keras-retinanet, Kaggle's global "
    "wheat; "
    "--images FOLDER or the pictures beside it",
    box_list::recognizes_box_list, box_list::open_box_list, "--images"};

}  // namespace dlpipe::data
