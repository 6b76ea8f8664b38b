// Lists with a line per box: which column is what, by the first line, and what the others say. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::data::box_list {

/// Which cell of a line is what.
struct Columns {
  std::string_view format;         // for people: "keras-retinanet has it"
  std::vector<std::string> names;  // of all cells; where the first line names none, as the format calls them
  bool has_head = true;            // the first line names them
  size_t path = 0;                 // of the picture; without an ending it is called an id
  std::optional<size_t> width;     // of the picture
  std::optional<size_t> height;    // where there is a width
  std::array<size_t, 4> corners = {};  // x_min, y_min, x_max, y_max
  std::optional<size_t> box;           // or: a cell of x, y, width, height
  std::optional<size_t> label;         // none: all boxes are of one class
  std::optional<size_t> group;         // 1: the box is around several objects
  bool are_shares = false;             // of the picture's width and height, not pixels
  char separator = ',';                // between the cells; beside ; numbers may have decimal commas
  bool names_more = false;             // than people have: missing pictures are counted

  /// The names of the columns that nothing is taken of.
  std::vector<std::string> left_aside() const;
};

/// Nothing where a list that begins with `cells`, `separator` between them, has no line per box.
std::optional<Columns> columns_of(const std::vector<std::string>& cells, char separator = ',');

struct Line {
  std::vector<float> boxes;  // x_min, y_min, x_max, y_max; mostly one, none where its cells are empty
  int32_t width = 0;         // of the picture; 0: not known
  int32_t height = 0;
  bool is_group = false;
  std::string problem;  // not empty: why its boxes can't be taken
};
/// What a line of as many cells as `columns` has says.
Line read_line(const std::vector<std::string>& cells, const Columns& columns);

/// Which of the boxes has no part of a picture of that size; "" for none: "the box 600, 10, 700, 20 lies outside of the
/// picture, which is 500x375".
std::string outside(std::span<const float> boxes, int64_t width, int64_t height);

}  // namespace dlpipe::data::box_list
