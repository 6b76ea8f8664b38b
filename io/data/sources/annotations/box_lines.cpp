#include "dlpipe/io/data/sources/annotations/box_lines.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data::box_list {

namespace {

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

/// path,x1,y1,x2,y2,class without names of columns; path,,,,, is a picture without boxes. Where the class is a number, the
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
  columns.format = "keras-retinanet has it";
  columns.names = names;
  columns.has_head = false;
  columns.corners = {1, 2, 3, 4};
  columns.label = 5;
  return columns;
}

/// A number of pixels; 0 where the cell is empty.
bool parse_side(const std::string& cell, int32_t* side) {
  constexpr double kMost = 1 << 30;
  double value = 0;
  if (!cell.empty() &&
      (!parse_double(cell, &value) || value < 0 || value > kMost || value != std::floor(value)))
    return false;
  *side = static_cast<int32_t>(value);
  return true;
}

std::string in_words(std::span<const float> box) {
  return concat(box[0], ", ", box[1], ", ", box[2], ", ", box[3]);
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
      line.problem = concat(name, " is ", in_quotes(cells[corner]), ", and no number");
      return;
    }
    if (columns.are_shares && (value < -kSlack || value > 1 + kSlack)) {
      line.problem =
          concat(name, " is ", value, ", and no share of the picture's width or height, from 0 to 1");
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
        concat(in_quotes(cell), " has ", numbers->size(), " numbers; a box is x, y, width, height");
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

}  // namespace

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

/// By what the first line calls them.
static std::optional<Columns> columns_by_name(const std::vector<std::string>& cells) {
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
    columns.format = "TensorFlow's object detection has it";
    if (column_called(cells, "imageid") == path && column_called(cells, "labelname")) {
      columns.format = "Open Images has it";
      columns.label = column_called(cells, "labelname");
      columns.group = column_called(cells, "isgroupof");
      columns.are_shares = columns.names_more = true;
    }
  } else if (auto with_bars = find_all(cells, kCornersWithBars)) {
    columns.corners = *with_bars;
    columns.format = "Kaggle's competitions have it";
  } else if (auto numbered = find_all(cells, kNumbered); numbered && is_labelled) {
    columns.corners = *numbered;  // without a class these may be any numbers
    columns.format = "keras-retinanet has it, with names of columns";
  } else if (columns.box = column_called(cells, "bbox"); columns.box && columns.width) {
    columns.format = "the global wheat detection has it";
  } else {
    return std::nullopt;
  }
  return columns;
}

std::optional<Columns> columns_of(const std::vector<std::string>& cells, char separator) {
  std::optional<Columns> columns = retinanet_columns(cells, separator);
  if (!columns) columns = columns_by_name(cells);
  if (columns) columns->separator = separator;
  return columns;
}

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
                              ", and no number of pixels");
    }
    if (line.width == 0 || line.height == 0) line.width = line.height = 0;
  }
  if (line.problem.empty() && line.width != 0 && !columns.are_shares)
    line.problem = outside(line.boxes, line.width, line.height);
  if (line.problem.empty() && !line.boxes.empty() && columns.label && cells[*columns.label].empty())
    line.problem =
        concat("its ", in_quotes(columns.names[*columns.label]), " is empty; write the box's class");
  line.is_group = columns.group && cells[*columns.group] == "1";
  if (!line.problem.empty()) line.boxes.clear();
  return line;
}

std::string outside(std::span<const float> boxes, int64_t width, int64_t height) {
  for (size_t i = 0; i + 3 < boxes.size(); i += 4) {
    const auto box = boxes.subspan(i, 4);
    if (box[0] >= static_cast<float>(width) || box[1] >= static_cast<float>(height) || box[2] <= 0 ||
        box[3] <= 0)
      return concat("the box ", in_words(box), " lies outside of the picture, which is ", width, "x", height);
  }
  return {};
}

}  // namespace dlpipe::data::box_list
