// Lists with a line per box, as TensorFlow's object detection (Roboflow's _annotations.csv), Open Images, keras-retinanet and
// Kaggle's competitions have them. SRC is the list, a folder with it, or train/, valid/ and test/ with one each (layouts.cpp).
// Several lists in one folder are splits by their names. The lines of an image become one sample with all of its boxes, in the
// list's order. If --label or --field says what the columns are, the list is a manifest.
//
// First the columns and the parsing of lines, then the search for lists and the files next to them, then the source.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/annotations/annotated_images.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/manifest.h"
#include "io/data/sources/lists/tables.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace box_list {

namespace {

namespace fs = std::filesystem;

/// The meaning of each cell of a line.
struct Columns {
  std::string_view format;             // for users: "keras-retinanet"
  std::vector<std::string> names;      // of all cells; if the first line has none, those of the format
  bool has_head = true;                // the first line names them
  size_t path = 0;                     // of the image; without an ending it is called an id
  std::optional<size_t> width;         // of the image
  std::optional<size_t> height;        // set if `width` is
  std::array<size_t, 4> corners = {};  // x_min, y_min, x_max, y_max
  std::optional<size_t> box;           // or: a cell of x, y, width, height
  std::optional<size_t> label;         // none: all boxes are of one class
  std::optional<size_t> group;         // 1: the box is around several objects
  bool are_shares = false;             // of the image's width and height, not pixels
  char separator = ',';                // between the cells; with ';', numbers may have decimal commas
  bool names_more = false;             // than users usually have: missing images are counted

  /// The names of the columns that are not used.
  std::vector<std::string> left_aside() const;
};

struct Line {
  std::vector<float> boxes;  // x_min, y_min, x_max, y_max; usually one; none if its cells are empty
  int32_t width = 0;         // of the image; 0: not known
  int32_t height = 0;
  bool is_group = false;
  std::string problem;  // not empty: why its boxes can't be used
};

/// A list, and what its samples get: the split and the beginning of their paths.
struct Part {
  std::string file;
  std::string name;
  std::string split = {};
  std::string prefix = {};  // of its samples' paths
};

using Corners = std::array<std::string_view, 4>;
constexpr Corners kCorners = {"xmin", "ymin", "xmax", "ymax"};
constexpr Corners kCornersWithBars = {"x_min", "y_min", "x_max", "y_max"};
constexpr Corners kNumbered = {"x1", "y1", "x2", "y2"};

std::optional<size_t> column_called(const std::vector<std::string>& names, std::string_view wanted) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const std::string& name) { return lower_text(name) == wanted; });
  return found == names.end() ? std::nullopt : std::optional<size_t>(found - names.begin());
}

std::optional<std::array<size_t, 4>> find_all(const std::vector<std::string>& names, const Corners& wanted) {
  std::array<size_t, 4> places = {};
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::optional<size_t> place = column_called(names, wanted[i]);
    if (!place) return std::nullopt;
    places[i] = *place;
  }
  return places;
}

/// path,x1,y1,x2,y2,class without names of columns; path,,,,, is an image without boxes. If the class is a number, the
/// columns may be anything.
std::optional<Columns> retinanet_columns(const std::vector<std::string>& cells, char separator) {
  const std::vector<std::string> names = {"path", "x1", "y1", "x2", "y2", "class"};
  if (cells.size() != names.size() || !has_image_name(cells[0])) return std::nullopt;
  const auto is_number = [separator](const std::string& cell) {
    double value = 0;
    return parse_number(cell, separator, &value);
  };
  const auto begin = cells.begin() + 1;
  const bool is_empty = std::all_of(begin, cells.end(), [](const std::string& cell) { return cell.empty(); });
  const bool is_box =
      std::all_of(begin, cells.end() - 1, is_number) && !cells[5].empty() && !is_number(cells[5]);
  if (!is_empty && !is_box) return std::nullopt;
  Columns columns;
  columns.format = "keras-retinanet";
  columns.names = names;
  columns.has_head = false;
  columns.corners = {1, 2, 3, 4};
  columns.label = 5;
  return columns;
}

/// A number of pixels; 0 if the cell is empty.
bool parse_side(const std::string& cell, int32_t* side) {
  constexpr double kMost = 1 << 30;
  double value = 0;
  if (!cell.empty() &&
      (!parse_double(cell, &value) || value < 0 || value > kMost || value != std::floor(value)))
    return false;
  *side = static_cast<int32_t>(value);
  return true;
}

void read_corners(const std::vector<std::string>& cells, const Columns& columns, Line& line) {
  if (std::all_of(columns.corners.begin(), columns.corners.end(),
                  [&](size_t corner) { return cells[corner].empty(); }))
    return;
  constexpr double kSlack = 0.01;  // programs round
  for (const size_t corner : columns.corners) {
    double value = 0;
    const std::string name = in_quotes(columns.names[corner]);
    if (!parse_number(cells[corner], columns.separator, &value) ||
        !std::isfinite(static_cast<float>(value))) {
      line.problem = concat(name, " is ", in_quotes(cells[corner]), ", which ",
                            unfit_number(cells[corner], DType::kF32));
      return;
    }
    if (columns.are_shares && (value < -kSlack || value > 1 + kSlack)) {
      line.problem =
          concat(name, " is ", value, ", which is not a share of the image's width or height, from 0 to 1");
      return;
    }
    line.boxes.push_back(static_cast<float>(value));
  }
}

void read_one_cell(const std::string& cell, Line& line) {
  auto numbers = numbers_in_cell(cell);
  if (!numbers.ok()) {
    line.problem = numbers.status().message();
  } else if (numbers->size() % 4 != 0) {
    line.problem =
        concat(in_quotes(cell), " has ", numbers->size(), " numbers; a box has four: x, y, width, height");
  } else {
    line.boxes = std::move(*numbers);
    for (size_t i = 0; i < line.boxes.size(); i += 4) {
      line.boxes[i + 2] += line.boxes[i];
      line.boxes[i + 3] += line.boxes[i + 1];
    }
  }
}

std::string problem_of(const std::vector<float>& boxes) {
  for (size_t i = 0; i + 3 < boxes.size(); i += 4) {
    if (boxes[i + 2] < boxes[i] || boxes[i + 3] < boxes[i + 1])
      return concat("the box ", in_words(std::span(boxes).subspan(i, 4)), " ends before it begins");
  }
  return {};
}

std::vector<std::string> Columns::left_aside() const {
  std::vector<size_t> taken(corners.begin(), corners.end());
  if (box) taken = {*box};
  for (const std::optional<size_t>& one : {std::optional(path), width, height, label, group}) {
    if (one) taken.push_back(*one);
  }
  std::vector<std::string> others;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(taken.begin(), taken.end(), i) == taken.end()) others.push_back(names[i]);
  }
  return others;
}

/// Columns by their names in the first line.
std::optional<Columns> columns_by_name(const std::vector<std::string>& cells) {
  const std::optional<size_t> path = find_path_column(cells);
  if (!path) return std::nullopt;
  Columns columns;
  columns.names = cells;
  columns.path = *path;
  columns.width = column_called(cells, "width");
  columns.height = column_called(cells, "height");
  if (!columns.width || !columns.height) columns.width = columns.height = std::nullopt;
  columns.label = find_label_column(cells);
  const bool is_labelled = columns.label.has_value();
  if (auto corners = find_all(cells, kCorners)) {
    columns.corners = *corners;
    columns.format = "TensorFlow's object detection";
    if (column_called(cells, "imageid") == path && column_called(cells, "labelname")) {
      columns.format = "Open Images";
      columns.label = column_called(cells, "labelname");
      columns.group = column_called(cells, "isgroupof");
      columns.are_shares = columns.names_more = true;
    }
  } else if (auto with_bars = find_all(cells, kCornersWithBars)) {
    columns.corners = *with_bars;
    columns.format = "Kaggle's competitions";
  } else if (auto numbered = find_all(cells, kNumbered); numbered && is_labelled) {
    columns.corners = *numbered;  // without a class these may be any numbers
    columns.format = "keras-retinanet, with column names";
  } else if (columns.box = column_called(cells, "bbox"); columns.box && columns.width) {
    columns.format = "the global wheat detection";
  } else {
    return std::nullopt;
  }
  return columns;
}

/// nullopt if a list that begins with `cells`, separated by `separator`, does not have a line per box.
std::optional<Columns> columns_of(const std::vector<std::string>& cells, char separator) {
  std::optional<Columns> columns = retinanet_columns(cells, separator);
  if (!columns) columns = columns_by_name(cells);
  if (columns) columns->separator = separator;
  return columns;
}

/// Parses a line that has as many cells as `columns`.
Line read_line(const std::vector<std::string>& cells, const Columns& columns) {
  Line line;
  if (columns.box)
    read_one_cell(cells[*columns.box], line);
  else
    read_corners(cells, columns, line);
  if (line.problem.empty()) line.problem = problem_of(line.boxes);
  if (columns.width) {
    for (const auto& [column, side] :
         {std::pair(*columns.width, &line.width), std::pair(*columns.height, &line.height)}) {
      if (!parse_side(cells[column], side))
        line.problem = concat(in_quotes(columns.names[column]), " is ", in_quotes(cells[column]),
                              ", which is not a number of pixels");
    }
    if (line.width == 0 || line.height == 0) line.width = line.height = 0;
  }
  if (line.problem.empty() && line.width != 0 && !columns.are_shares)
    line.problem = outside_of_image(line.boxes, line.width, line.height);
  if (line.problem.empty() && !line.boxes.empty() && columns.label && cells[*columns.label].empty())
    line.problem =
        concat("its ", in_quotes(columns.names[*columns.label]), " is empty; write the box's class");
  line.is_group = columns.group && cells[*columns.group] == "1";
  if (!line.problem.empty()) line.boxes.clear();
  return line;
}

/// The columns of a file whose text, or its beginning, is `text`; nothing if it is not a list of boxes.
std::optional<Columns> columns_in(const std::string& file, std::string_view text) {
  std::vector<std::string> cells;
  int64_t line = 0;
  const char separator = separator_of(file, text);
  const auto more = CsvReader(text, separator).next(cells, line);
  return more.ok() && *more ? columns_of(cells, separator) : std::nullopt;
}

/// The same, reading the beginning.
std::optional<Columns> columns_in(const std::string& file) {
  if (!is_file(file)) return std::nullopt;
  std::string text(size_t{64} << 10, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  const auto list = list_text(file, std::as_bytes(std::span(text)));
  return list.ok() ? columns_in(file, *list) : std::nullopt;
}

/// The lists of a folder, according to the first published layout that matches. The only list of a folder is named after the
/// folder.
std::vector<Part> lists_of(const fs::path& root) {
  std::vector<Part> parts;
  for (const PublishedLayout& layout : published_layouts()) {
    if (layout.source != "box_list" || !parts.empty()) continue;
    std::map<fs::path, int> lists_in;
    for (const fs::path& file : files_like(root, layout.has[0])) {
      const std::string name = file.stem().string();
      if (!columns_in(file.string())) continue;
      ++lists_in[file.parent_path()];
      parts.push_back({file.string(), name, split_in_words(name)});
    }
    if (!layout.has[0].starts_with("SPLIT/")) continue;
    for (Part& part : parts) {
      const fs::path folder = fs::path(part.file).parent_path();
      const std::string name = folder.filename().string();
      part.split = split_of_name(name);
      part.name = lists_in[folder] == 1 ? name : name + "/" + part.name;
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.file < b.file; });
  return parts;
}

/// Whether a folder has such lists.
bool holds_lists(const fs::path& folder) {
  return !lists_of(folder).empty();
}

/// The lists that SRC or --manifest refers to. kMisuse if there are several that are not splits.
Result<std::vector<Part>> parts_of(const SourceOptions& options) {
  const std::string& given = options.manifest.empty() ? options.path : options.manifest;
  if (!is_folder(given)) return std::vector<Part>{{given, {}}};
  std::vector<Part> parts = lists_of(given);
  if (parts.size() < 2) {
    for (Part& part : parts) part.split.clear();
    return parts;
  }
  std::set<std::string> splits;
  for (Part& part : parts) {
    const bool is_first = splits.insert(part.split).second;
    if (options.splits && (part.split.empty() || !is_first))
      return misuse("ingest", printable(part.file),
                    is_first ? " has a name that does not indicate a split"
                             : " is another list for the split " + part.split,
                    ", and ", printable(given), " holds ", parts.size(),
                    " lists of boxes; ingest each file on its own, one dataset each");
    part.prefix = part.name + "/";
    if (!options.splits) part.split.clear();
  }
  return parts;
}

/// Common names of the folder of a list's images: the list's name, a word of it, or the split that it indicates.
std::vector<std::string> names_of_folders(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::vector<std::string> names = {stem};
  std::string word;
  for (const char c : stem + "-") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      names.push_back(std::move(word));
      word.clear();
    }
  }
  if (const std::string split = split_in_words(stem); !split.empty()) names.push_back(split);
  return names;
}

/// class-descriptions-boxable.csv, next to the list or in the folder above, or as FiftyOne downloads it.
std::optional<std::string> names_of_classes_beside(const std::string& file) {
  const fs::path beside = fs::path(file).parent_path();
  const fs::path folder = beside.empty() ? "." : beside;
  for (const std::string_view ending : {"class-descriptions-boxable.csv", "class-descriptions.csv"}) {
    for (const fs::path& root : {folder, folder / ".."}) {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(root, error)) {
        const std::string name = entry.path().filename().string();
        if (name[0] != '.' && name.ends_with(ending)) return entry.path().lexically_normal().string();
      }
    }
  }
  const fs::path of_fiftyone = folder / ".." / "metadata" / "classes.csv";
  return is_file(of_fiftyone) ? std::optional(of_fiftyone.lexically_normal().string()) : std::nullopt;
}

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // Open Images' list for training has 2 GB
constexpr const char* kOnlyClass = "object";        // if no column has the class

/// Absolute paths, and those that lead out of `folder`, are relative to the folder that they all share.
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

/// An image, and the line of each of its boxes.
struct Listed {
  AnnotatedImage image;
  std::vector<int64_t> lines;
};

/// A list that is being read.
struct List {
  Part part;
  Columns columns;
  std::string images;                                // --images, or the folder next to --manifest
  std::optional<ImagesById> by_id;                   // if paths have no extensions
  std::vector<Listed> entries;                       // with the names in the list
  std::unordered_map<std::string, size_t> place_of;  // path -> index of it
  int64_t missing = 0;                               // images that the list names but that are missing
  bool calls_classes = false;                        // a file next to it has the names of its classes

  std::string place_of_line(int64_t line) const { return concat(printable(part.file), " line ", line); }
};

class BoxListSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;
  /// Without the images' sizes, a list does not show which boxes are outside of them.
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  Status add_part(Part part, SourceListing& listing);
  Status read_lines(std::string_view text, List& list);
  Status take_line(const std::vector<std::string>& cells, int64_t line, List& list);
  Result<std::string> find_images(List& list) const;
  Status read_names_of_classes(List& list);
  int64_t class_of(const std::string& cell);
  Status choose_scale(SourceListing& listing);
  void number(SourceListing& listing);
  void say(const List& list, const std::string& folder, SourceListing& listing) const;
  void warn_of_unlisted(SourceListing& listing) const;

  std::vector<AnnotatedImages::Part> folders_;
  std::vector<AnnotatedImage> found_;
  std::vector<std::string> files_;  // of the lists, in the order of folders_
  std::unordered_map<std::string, std::vector<int64_t>>
      lines_of_;                      // of images of unknown size, by their samples' paths
  std::vector<std::string> classes_;  // in the order in which they first occur
  std::unordered_map<std::string, int64_t> number_of_class_;  // in classes_, by a list's cell
  std::vector<std::string> class_order_;                      // that Open Images publishes
  std::unordered_map<std::string, std::string> name_of_;      // /m/01g317 -> Person
  AnnotatedImages::Kinds kinds_;
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
        concat("[ingest] ", list.place_of_line(line), ": ",
               counted(static_cast<int64_t>(cells.size()), "column"), " instead of the ",
               columns.names.size(), columns.has_head ? " of the first line" : " of path,x1,y1,x2,y2,class"));
  std::string path = cells[columns.path];
  if (path.empty())
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", list.place_of_line(line), ": the path is empty; fill it in"));
  if (path.find('/') != std::string::npos) path = fs::path(path).lexically_normal().string();
  const auto [place, is_new] = list.place_of.emplace(path, list.entries.size());
  if (is_new) {
    const bool is_there = !list.by_id || list.by_id->has(path);
    if (is_there || !columns.names_more) {
      list.entries.emplace_back().image.path = path;
    } else {
      place->second = kMissing;
      ++list.missing;
    }
  }
  if (place->second == kMissing) return {};
  Listed& listed = list.entries[place->second];
  AnnotatedImage& image = listed.image;
  Line read = read_line(cells, columns);
  if (is_new) {
    image.width = read.width;
    image.height = read.height;
  } else if (read.problem.empty() && (image.width != read.width || image.height != read.height)) {
    read.problem = concat("the image size is ", read.width, "x", read.height,
                          " here, but an earlier line says ", image.width, "x", image.height);
  }
  if (!read.problem.empty()) {
    if (image.problem.empty()) image.problem = concat(list.place_of_line(line), ": ", read.problem);
    return {};
  }
  const size_t count = read.boxes.size() / 4;
  if (count == 0) return {};
  const int64_t label = class_of(columns.label ? cells[*columns.label] : kOnlyClass);
  image.boxes.insert(image.boxes.end(), read.boxes.begin(), read.boxes.end());
  image.labels.insert(image.labels.end(), count, label);
  image.flags.insert(image.flags.end(), count, read.is_group ? 1.f : 0.f);
  if (image.width == 0 && !columns.are_shares) listed.lines.insert(listed.lines.end(), count, line);
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
                    concat("[ingest] stopped while ", printable(list.part.file), " was being listed"));
    const auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(list.part.file), " "));
    if (!*more) return {};
    if (++count == 1 && list.columns.has_head) continue;
    const bool is_first = list.place_of.empty();
    if (is_first && cells.size() == list.columns.names.size() && !has_image_name(cells[list.columns.path]))
      list.by_id.emplace(folders_of_images(list.part.file, list.images, names_of_folders(list.part.file)));
    DLPIPE_RETURN_IF_ERROR(take_line(cells, line, list));
  }
}

/// The folder of the list's images, to which their names are then relative.
Result<std::string> BoxListSource::find_images(List& list) const {
  if (list.place_of.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(list.part.file), " lists no image"));
  if (!list.by_id) {
    std::vector<std::string> paths;
    for (const Listed& listed : list.entries) paths.push_back(listed.image.path);
    DLPIPE_ASSIGN_OR_RETURN(std::string folder, locate_images(list.part.file, list.images,
                                                              names_of_folders(list.part.file), paths));
    folder = below_one_folder(folder, paths);
    for (size_t i = 0; i < paths.size(); ++i) list.entries[i].image.path = std::move(paths[i]);
    return folder;
  }
  const std::string folder = list.by_id->folder();
  if (folder.empty())
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] ", printable(list.part.file), " lists ", printable(list.place_of.begin()->first),
               " and ", list.place_of.size() - 1, " more images, but none of them is in ",
               list.images.empty() ? "its folder or those next to it" : printable(list.images),
               "; give the folder of its images with --images"));
  for (Listed& listed : list.entries) {
    std::string file = list.by_id->file_of(listed.image.path);
    if (file.empty() && list.columns.names_more)
      ++list.missing;
    else if (file.empty())
      continue;  // add() reports that it is missing
    listed.image.path = std::move(file);
  }
  std::erase_if(list.entries, [](const Listed& listed) { return listed.image.path.empty(); });
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
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] ", printable(*file), " line ", line,
                           ": the line is not LABELNAME,NAME, such as /m/01g317,Person"));
    if (lower_text(cells[0]) == "labelname") continue;  // some of them name their columns
    name_of_.emplace(cells[0], cells[1]);
    if (ordered.insert(cells[1]).second) class_order_.push_back(cells[1]);
  }
}

void BoxListSource::say(const List& list, const std::string& folder, SourceListing& listing) const {
  const std::string file = printable(list.part.file);
  const std::vector<std::string> others = list.columns.left_aside();
  size_t boxes = 0;
  for (const Listed& listed : list.entries) boxes += listed.image.labels.size();
  listing.warnings.push_back(concat(
      "[ingest] ", file, " is read as a list of boxes in the format of ", list.columns.format, ": ",
      counted(static_cast<int64_t>(boxes), "box", "boxes"), " in ",
      counted(static_cast<int64_t>(list.entries.size()), "image"), ", below ", printable(folder),
      others.empty() ? ""
                     : concat(others.size() == 1 ? "; ignored: the column " : "; ignored: the columns ",
                              quoted_names(others))));
  if (list.missing > 0)
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(list.missing, "image"), " that ", file,
                                      " lists but ", printable(folder), " does not have"));
  if (!list.columns.label)
    listing.warnings.push_back(
        concat("[ingest] ", file, " has no column of classes: all boxes get the class '", kOnlyClass, "'"));
  if (list.columns.names_more && !list.calls_classes)
    listing.warnings.push_back(concat("[ingest] there is no class-descriptions-boxable.csv next to ", file,
                                      ": classes are named as in ",
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
  DLPIPE_ASSIGN_OR_RETURN(const std::string folder, find_images(list));
  say(list, folder, listing);
  if (list.columns.group) kinds_.flag = "crowd";
  (list.columns.are_shares ? kinds_.is_relative : has_pixels_) = true;
  for (Listed& listed : list.entries) {
    if (!listed.lines.empty())
      lines_of_.emplace(list.part.prefix + listed.image.path, std::move(listed.lines));
    listed.image.part = folders_.size();
    found_.push_back(std::move(listed.image));
  }
  folders_.push_back({folder, list.part.prefix, list.part.split});
  files_.push_back(list.part.file);
  return {};
}

Status BoxListSource::choose_scale(SourceListing& listing) {
  if (kinds_.is_relative && has_pixels_)
    return misuse("ingest", printable(options_.path),
                  " holds lists of boxes in pixels and in shares of their images' sizes; ingest each file on "
                  "its own, one "
                  "dataset each");
  const bool has_boxes = std::any_of(found_.begin(), found_.end(),
                                     [](const AnnotatedImage& image) { return !image.boxes.empty(); });
  if (!has_pixels_ || !has_boxes || most_ > 1) return {};
  kinds_.is_relative = true;
  lines_of_.clear();
  listing.warnings.push_back(
      concat("[ingest] ", printable(options_.path),
             ": no coordinate is above 1, so they are read as shares of the images' widths "
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
  for (AnnotatedImage& image : found_) {
    for (int64_t& label : image.labels) label = label_of.at(classes_[static_cast<size_t>(label)]);
  }
}

// A list does not say whether these images are empty or were not annotated.
void BoxListSource::warn_of_unlisted(SourceListing& listing) const {
  std::unordered_map<std::string, std::unordered_set<std::string>> listed;  // folder -> names
  for (const AnnotatedImage& image : found_) {
    const fs::path path = fs::path(folders_[image.part].folder) / image.path;
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
    listing.warnings.push_back(
        concat("[ingest] ignored: ", counted(count, "image"), " in the same folders that no line names"));
}

Result<SourceListing> BoxListSource::list() {
  *this = BoxListSource(std::move(options_));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Part> parts, parts_of(options_));
  SourceListing listing;
  for (const Part& part : parts) DLPIPE_RETURN_IF_ERROR(add_part(part, listing));
  DLPIPE_RETURN_IF_ERROR(choose_scale(listing));
  if (options_.alone) warn_of_unlisted(listing);
  number(listing);
  DLPIPE_RETURN_IF_ERROR(images_.add(std::move(folders_), kinds_, std::move(found_), listing));
  warn_of_no_class(options_.path, listing);
  return listing;
}

Result<std::vector<std::byte>> BoxListSource::read(const SourceEntry& entry) const {
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, images_.read(entry));
  const auto lines = lines_of_.find(entry.path);
  if (lines == lines_of_.end()) return bytes;
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes));
  const bool swaps = swaps_axes(info.orientation);
  std::vector<float> boxes(entry.extra.at(0).size() / sizeof(float));
  std::memcpy(boxes.data(), entry.extra[0].data(), boxes.size() * sizeof(float));
  for (size_t i = 0; i < lines->second.size() && 4 * i + 3 < boxes.size(); ++i) {
    const std::string problem =
        outside_of_image(std::span(boxes).subspan(4 * i, 4), swaps ? info.height : info.width,
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
  // 1, like a folder of classes, which comes later in the table: other sources take precedence, for instance a YOLO folder with
  // a list next to it.
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
    "a .csv or .tsv with a line per box, or a folder that contains one: TensorFlow's object detection and "
    "Roboflow "
    "(filename, width, height, class, xmin, ymin, xmax, ymax), Open Images, keras-retinanet, Kaggle's global "
    "wheat; "
    "--images FOLDER or the images next to it",
    box_list::recognizes_box_list, box_list::open_box_list, "--images"};

}  // namespace dlpipe::data
