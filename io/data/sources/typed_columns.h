// Columns of a manifest that are more than text: what --field NAME:KIND asks for, and a cell's value as a record holds it
// (FORMAT.md, "Field values"). Pure functions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

enum class ColumnKind : uint8_t { kText, kNumber, kNumbers, kLabels, kBoxes, kBoxesXywh, kPoints, kMask };

struct TypedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kText;
  std::string of = {};        // the column of boxes that it has one value for each box of; empty: none
  DType dtype = DType::kF32;  // of kNumber, and of kNumbers that aren't of boxes
};

/// "bbox:boxes", "class:labels:bbox", "id:number:i64" and the like. kMisuse names the kinds there are, and a column that is named twice or is
/// of what is no column of boxes.
Result<std::vector<TypedColumn>> parse_typed_columns(std::span<const std::string> texts);
/// The names of the kinds with what each takes, for --help.
std::string column_kinds_text();

/// The field that a column becomes. `numbers`: how many a cell of kNumbers has.
Field field_of(const TypedColumn& column, int64_t numbers);

/// The names in a cell: of a JSON list, or between | or ;.
Result<std::vector<std::string>> names_in_cell(std::string_view cell);
/// The numbers in a cell, brackets, blanks, commas, ; and | between them. kCorrupt for what is none, or not finite.
Result<std::vector<float>> numbers_in_cell(std::string_view cell);
/// Whether a whole number in a cell becomes another one as an f32.
bool has_rounded_number(std::string_view cell);
/// A cell of any kind but kLabels, kMask and kText as bytes. `numbers` is set by the first cell of kNumbers (0 before), and held
/// by the others; where the column is of boxes, their number decides (check_values).
Result<std::string> encode_cell(const TypedColumn& column, std::string_view cell, int64_t* numbers);
/// Rows of x_min, y_min, x_max, y_max as f32, of such rows or of x_min, y_min, width, height. kCorrupt for a box that ends
/// before it begins.
Result<std::string> encode_boxes(std::vector<float> numbers, bool is_xywh);
/// f32 of each number.
std::string encode_numbers(std::span<const float> numbers);
/// i64 of each index.
std::string encode_labels(std::span<const int64_t> labels);
std::vector<int64_t> decode_labels(std::string_view bytes);
/// Puts `to(label)` in the place of each class index in the entry's labels fields.
void renumber_labels(std::span<const Field> fields, SourceEntry& entry,
                     const std::function<int64_t(int64_t)>& to);

}  // namespace dlpipe::data
