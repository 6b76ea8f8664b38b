// Which column of a list is what, by its first line.
#include <algorithm>
#include <array>
#include <filesystem>

#include "dlpipe/base/refuse.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kPathNames = {
    "path",       "file",       "filename",   "file_name", "filepath", "file_path", "image",
    "image_path", "image_file", "image_name", "img",       "img_path", "picture"};
// Where no column is called so: competitions' lists have names without an ending under these.
constexpr std::array<std::string_view, 4> kIdNames = {"image_id", "imageid", "id", "id_code"};
constexpr std::array<std::string_view, 8> kLabelNames = {"label",     "labels",   "class",  "class_name",
                                                         "classname", "category", "target", "targets"};
// Of these it is clear only where nothing else could be meant: y may stand beside x.
constexpr std::array<std::string_view, 22> kLoneLabelNames = {"y",
                                                              "class_id",
                                                              "classid",
                                                              "class_index",
                                                              "class_label",
                                                              "category_id",
                                                              "category_name",
                                                              "label_id",
                                                              "labelid",
                                                              "label_name",
                                                              "labelname",
                                                              "target_id",
                                                              "breed",
                                                              "species",
                                                              "diagnosis",
                                                              "emotion",
                                                              "digit",
                                                              "kind",
                                                              "type",
                                                              "truth",
                                                              "ground_truth",
                                                              "individual_id"};

template <size_t N>
std::optional<size_t> find_column(const std::vector<std::string>& names,
                                  const std::array<std::string_view, N>& wanted) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(wanted.begin(), wanted.end(), lower_text(names[i])) != wanted.end()) return i;
  }
  return std::nullopt;
}

/// By the names, else by `next`, the cells of the line behind: the only one that is called as a picture is.
std::optional<size_t> find_paths(const std::vector<std::string>& names,
                                 const std::vector<std::string>& next) {
  if (const std::optional<size_t> path = find_path_column(names)) return path;
  const auto first = std::find_if(next.begin(), next.end(), has_image_name);
  const bool is_only = first != next.end() && std::none_of(first + 1, next.end(), has_image_name);
  return is_only && next.size() == names.size() ? std::optional<size_t>(first - next.begin()) : std::nullopt;
}

/// Kaggle's MNIST (label,pixel0,...) and FER2013 (emotion,pixels,Usage), and lists of numbers without names.
bool holds_pixels(const std::vector<std::string>& cells) {
  constexpr size_t kMany = 64;
  const auto is_called_so = [](const std::string& cell) { return lower_text(cell).starts_with("pixel"); };
  double number = 0;
  return std::any_of(cells.begin(), cells.end(), is_called_so) ||
         (cells.size() > kMany && std::all_of(cells.begin(), cells.end(), [&](const std::string& cell) {
            return parse_double(cell, &number);
          }));
}

}  // namespace

std::optional<size_t> find_path_column(const std::vector<std::string>& names) {
  const std::optional<size_t> path = find_column(names, kPathNames);
  return path ? path : find_column(names, kIdNames);
}

std::optional<size_t> find_label_column(const std::vector<std::string>& names) {
  return find_column(names, kLabelNames);
}

bool is_class_name_alone(const std::string& name) {
  return find_column({name}, kLoneLabelNames) || find_column({name}, kLabelNames);
}

Result<bool> ManifestSource::read_head(const std::vector<std::string>& cells,
                                       const std::vector<std::string>& next, int64_t line,
                                       SourceListing& listing) {
  columns_ = {};
  columns_.count = cells.size();
  if (cells.size() < 2 && !head_) {
    return wrong(line, "no label; write path,label[,...] on every line");
  }
  const bool has_picture =
      std::any_of(cells.begin(), cells.end(), has_image_name);  // a class may be called 'image'
  const std::optional<size_t> path = has_picture ? std::nullopt : find_paths(cells, next);
  if (!path) {
    if (std::error_code ignored;
        !has_picture && cells[0].find('/') == std::string::npos && !fs::exists(full(cells[0]), ignored)) {
      if (holds_pixels(cells))
        return wrong(
            line,
            "its cells are pixels, which aren't read from lists; store them as an .npz with images and "
            "labels (numpy.savez; uint8, one array [N,H,W] and one [N]), or as picture files");
      return wrong(line, concat(in_quotes(cells[0]),
                                " is no file; if this line names the columns, call that of the "
                                "files 'path' and that of the classes 'label'"));
    }
    columns_.has_names = false;
    DLPIPE_RETURN_IF_ERROR(check_count(cells.size(), line));
    for (size_t i = 2; i < cells.size(); ++i) add_extra(i, concat("column", i + 1), listing);
    if (!options_.label.empty())
      return wrong(line,
                   concat("--label ", in_quotes(options_.label), ", but the first line names no columns"));
    DLPIPE_RETURN_IF_ERROR(check_typed_columns());
    return false;
  }
  DLPIPE_RETURN_IF_ERROR(check_count(cells.size(), line));
  columns_.path = *path;
  if (!find_path_column(cells))
    listing.warnings.push_back(concat("[ingest] the column ", in_quotes(cells[*path]), " of ",
                                      printable(list_), " names the pictures: its cells are called so"));
  const std::optional<size_t> split = find_column(cells, std::array<std::string_view, 1>{"split"});
  if (options_.splits) columns_.split = split;
  if (head_ && !head_->names.empty()) {
    const auto name = std::find(cells.begin(), cells.end(), head_->names);
    if (name != cells.end()) columns_.name = static_cast<size_t>(name - cells.begin());
  }
  DLPIPE_RETURN_IF_ERROR(find_label(cells, line));
  if (columns_.label) columns_.label_name = cells[*columns_.label];
  DLPIPE_RETURN_IF_ERROR(add_extras(cells, listing));
  return true;
}

Status ManifestSource::check_count(size_t columns, int64_t line) const {
  if (columns <= kMostColumns) return {};
  return wrong(
      line, concat("it has ", human_count(static_cast<int64_t>(columns)), " columns, and a dataset at most ",
                   human_count(kMostFields), " fields; leave some out"));
}

Status ManifestSource::add_extras(const std::vector<std::string>& cells, SourceListing& listing) {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == columns_.path || i == columns_.label || i == columns_.split || i == columns_.name) continue;
    if (cells[i].empty()) {
      listing.warnings.push_back(
          concat("[ingest] column ", i + 1, " of ", printable(list_), " has no name and is left out"));
      continue;
    }
    add_extra(i, cells[i], listing);
  }
  return check_typed_columns();
}

// The column that --label names, or that is called so; else the only one, unless other columns are what is to be learnt.
Status ManifestSource::find_label(const std::vector<std::string>& cells, int64_t line) {
  const auto is_typed = [&](size_t i) {
    return std::any_of(typed_.begin(), typed_.end(),
                       [&](const TypedColumn& one) { return one.name == cells[i]; });
  };
  columns_.label.reset();
  if (!options_.label.empty()) {
    const auto it = std::find(cells.begin(), cells.end(), options_.label);
    if (it == cells.end())
      return wrong(line, concat("no column ", in_quotes(options_.label), ", which --label names",
                                printable(suggestion(options_.label, cells))));
    columns_.label = static_cast<size_t>(it - cells.begin());
  } else if (const auto named = find_label_column(cells); named && !is_typed(*named)) {
    columns_.label = named;
  }
  columns_.label_is_named = columns_.label.has_value();
  if (columns_.label || !typed_.empty() || head_) return {};
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == columns_.path || i == columns_.split || cells[i].empty() || lower_text(cells[i]) == "split")
      continue;
    columns_.maybe_label.push_back(cells[i]);
    if (!columns_.label) columns_.label = i;
  }
  columns_.is_question = columns_.maybe_label.size() > 1 ||
                         (columns_.label && !is_class_name_alone(columns_.maybe_label.front()));
  return columns_.label ? Status() : wrong(line, "no column of labels; call it 'label'");
}

void ManifestSource::add_extra(size_t i, const std::string& name, SourceListing& listing) {
  TypedColumn column{name, ColumnKind::kText};
  for (const TypedColumn& typed : typed_) {
    if (typed.name == name) column = typed;
  }
  columns_.extra.push_back({i, column, 0});
  // Records have a field of that name.
  if (column.kind != ColumnKind::kText && name == "label")
    column.name = column.kind == ColumnKind::kLabels ? "labels" : "target";
  if (column.of == "label") column.of = "target";
  if (column.kind == ColumnKind::kText && (name == "label" || name == "path" || name == "image")) {
    column.name += "_text";
    listing.warnings.push_back(concat("[ingest] the column ", in_quotes(name), " of ", printable(list_),
                                      " is not what a record calls so, and becomes the field ",
                                      in_quotes(column.name)));
  }
  listing.fields.push_back(field_of(column, 0));
}

Status ManifestSource::check_typed_columns() const {
  std::vector<std::string> names;
  for (const Columns::Extra& extra : columns_.extra) names.push_back(extra.column.name);
  for (const TypedColumn& typed : typed_) {
    if (std::find(names.begin(), names.end(), typed.name) == names.end())
      return misuse("ingest", "--field ", printable(typed.name), ": ", printable(list_),
                    " has no such column beside path, label and split",
                    printable(suggestion(typed.name, names)));
  }
  return {};
}

}  // namespace dlpipe::data
