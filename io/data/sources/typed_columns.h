// Typed columns of a manifest: the syntax of --field NAME:KIND, and a cell's value as stored in a record (FORMAT.md, "Field
// values"). Pure functions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

enum class ColumnKind : uint8_t { kText, kNumber, kNumbers, kLabels, kBoxes, kBoxesXywh, kPoints, kMask };

struct TypedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kText;
  std::string of = {};        // the column of boxes for which it has one value per box; empty: none
  DType dtype = DType::kF32;  // for kNumber, and for kNumbers that do not belong to boxes
};

/// "bbox:boxes", "class:labels:bbox", "id:number:i64" and the like. kMisuse lists the kinds, and names a column that is given
/// twice or belongs to a column that is not boxes.
Result<std::vector<TypedColumn>> parse_typed_columns(std::span<const std::string> texts);
/// The names of the kinds and what each expects, for --help.
std::string column_kinds_text();

/// The field that a column becomes. `numbers`: how many a cell of kNumbers has.
Field field_of(const TypedColumn& column, int64_t numbers);

/// The names in a cell: a JSON list, or separated by | or ;.
Result<std::vector<std::string>> names_in_cell(std::string_view cell);
/// The numbers in a cell, separated by brackets, blanks, commas, ; or |. kCorrupt for anything that is not a finite number.
Result<std::vector<float>> numbers_in_cell(std::string_view cell);
/// Why `text` can't be a number of `dtype`: "is too large for f32".
std::string unfit_number(std::string_view text, DType dtype);
/// Whether a whole number in a cell changes when converted to f32.
bool has_rounded_number(std::string_view cell);
/// A cell of any kind but kLabels, kMask and kText as bytes. The first cell of kNumbers sets `numbers` (0 before), and the
/// others must match it; if the column belongs to boxes, their number decides (check_values).
Result<std::string> encode_cell(const TypedColumn& column, std::string_view cell, int64_t* numbers);
/// Rows of x_min, y_min, x_max, y_max as f32, of such rows or of x_min, y_min, width, height. kCorrupt for a box that ends
/// before it begins.
Result<std::string> encode_boxes(std::vector<float> numbers, bool is_xywh);
/// f32 of each number.
std::string encode_numbers(std::span<const float> numbers);
/// i64 of each index.
std::string encode_labels(std::span<const int64_t> labels);
std::vector<int64_t> decode_labels(std::string_view bytes);
/// Replaces each class index in the entry's labels fields with `to(label)`.
void renumber_labels(std::span<const Field> fields, SourceEntry& entry,
                     const std::function<int64_t(int64_t)>& to);

}  // namespace dlpipe::data
