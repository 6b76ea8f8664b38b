// The columns of a list: first their meaning, from the first line; then the meaning of the labels, after all lines are read.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/messages.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/schema.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/manifest.h"
#include "io/data/sources/lists/tables.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kPathNames = {
    "path",       "file",       "filename",   "file_name", "filepath", "file_path", "image",
    "image_path", "image_file", "image_name", "img",       "img_path", "picture"};
// Used if there is no such column: lists of competitions have names without extensions in these columns.
constexpr std::array<std::string_view, 4> kIdNames = {"image_id", "imageid", "id", "id_code"};
constexpr std::array<std::string_view, 8> kLabelNames = {"label",     "labels",   "class",  "class_name",
                                                         "classname", "category", "target", "targets"};
// These are clear only if there is no other candidate: y may be a coordinate next to x.
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

/// The column of paths by its name, else by `next`, the cells of the next line: the only one that looks like an image's name.
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

/// Names of columns that hold the split of a line, in numbers or words of their own.
bool is_called_as_split(const std::string& name) {
  constexpr std::array<std::string_view, 17> kNames = {
      "split",  "splits", "subset",  "partition", "fold",     "folds",       "kfold",    "usage",  "phase",
      "is_val", "is_dev", "is_test", "is_train",  "is_valid", "is_training", "data_set", "dataset"};
  return std::find(kNames.begin(), kNames.end(), lower_text(name)) != kNames.end();
}

/// The file next to `list` that is named like a list of splits, such as CelebA's list_eval_partition.csv.
std::optional<std::string> partition_beside(const std::string& list) {
  const fs::path path(list);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(path.has_parent_path() ? path.parent_path() : fs::path("."), error)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = lower_ending(name);
    std::error_code ignored;
    if (name[0] != '.' && lower_text(name).find("partition") != std::string::npos &&
        (ending == "csv" || ending == "tsv" || ending == "txt") && name != path.filename() &&
        entry.is_regular_file(ignored))
      found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? std::nullopt : std::optional(found.front());
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
    return wrong(line, "there is no label; write path,label[,...] on every line");
  }
  const bool has_image =
      std::any_of(cells.begin(), cells.end(), has_image_name);  // a class may be called 'image'
  const std::optional<size_t> path = has_image ? std::nullopt : find_paths(cells, next);
  if (!path) {
    if (std::error_code ignored;
        !has_image && cells[0].find('/') == std::string::npos && !fs::exists(full(cells[0]), ignored)) {
      if (holds_pixels(cells))
        return wrong(
            line,
            "its cells are pixels, which can't be read from lists; store them as an .npz with images and "
            "labels (numpy.savez; uint8, one array [N,H,W] and one [N]), or as image files");
      return wrong(line, concat(in_quotes(cells[0]),
                                " is not a file; if this line has the column names, call the column of the "
                                "files 'path' and the column of the classes 'label'"));
    }
    columns_.has_names = false;
    DLPIPE_RETURN_IF_ERROR(check_count(cells.size(), line));
    for (size_t i = 2; i < cells.size(); ++i) add_extra(i, concat("column", i + 1), listing);
    if (!options_.label.empty())
      return wrong(line,
                   concat("--label ", in_quotes(options_.label), ", but the first line has no column names"));
    DLPIPE_RETURN_IF_ERROR(check_typed_columns());
    return false;
  }
  DLPIPE_RETURN_IF_ERROR(check_count(cells.size(), line));
  columns_.path = *path;
  if (!find_path_column(cells))
    listing.warnings.push_back(concat("[ingest] the column ", in_quotes(cells[*path]), " of ",
                                      printable(list_), " names the images, as its cells show"));
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
  return wrong(line, concat("it has ", human_count(static_cast<int64_t>(columns)),
                            " columns, but a dataset has at most ", human_count(kMostFields),
                            " fields; leave some out"));
}

Status ManifestSource::add_extras(const std::vector<std::string>& cells, SourceListing& listing) {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == columns_.path || i == columns_.label || i == columns_.split || i == columns_.name) continue;
    if (cells[i].empty()) {
      listing.warnings.push_back(
          concat("[ingest] column ", i + 1, " of ", printable(list_), " has no name and is ignored"));
      continue;
    }
    add_extra(i, cells[i], listing);
  }
  return check_typed_columns();
}

// The column that --label names, or that has such a name; else the only column, unless other columns are the targets.
Status ManifestSource::find_label(const std::vector<std::string>& cells, int64_t line) {
  const auto is_typed = [&](size_t i) {
    return std::any_of(typed_.begin(), typed_.end(),
                       [&](const TypedColumn& one) { return one.name == cells[i]; });
  };
  columns_.label.reset();
  if (!options_.label.empty()) {
    const auto it = std::find(cells.begin(), cells.end(), options_.label);
    if (it == cells.end())
      return wrong(line, concat("there is no column ", in_quotes(options_.label), ", which --label names",
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
  return columns_.label ? Status() : wrong(line, "there is no column of labels; call it 'label'");
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
    listing.warnings.push_back(concat(
        "[ingest] the column ", in_quotes(name), " of ", printable(list_),
        " has a name that records use for something else, and becomes the field ", in_quotes(column.name)));
  }
  listing.fields.push_back(field_of(column, 0));
}

Status ManifestSource::check_typed_columns() const {
  std::vector<std::string> names;
  for (const Columns::Extra& extra : columns_.extra) names.push_back(extra.column.name);
  for (const TypedColumn& typed : typed_) {
    if (std::find(names.begin(), names.end(), typed.name) == names.end())
      return misuse("ingest", "--field ", printable(typed.name), ": ", printable(list_),
                    " has no such column other than path, label and split",
                    printable(suggestion(typed.name, names)));
  }
  return {};
}

// The meaning of the labels: numbers of classes, and contradictions.

// A 0 or 1 for each class would become the classes '0' and '1'.
Status ManifestSource::check_multi_hot() const {
  constexpr size_t kLeast = 3;  // labels in a line, of two names: one comes twice
  std::vector<const Columns::Extra*> columns;
  for (const Columns::Extra& extra : columns_.extra)
    if (extra.column.kind == ColumnKind::kLabels) columns.push_back(&extra);
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t length = names_.size() > columns.size() ? names_[i].size() : 0;
    bool is_multi_hot = length >= kLeast && columns[i]->column.of.empty();
    for (size_t at = i; at < names_.size() && is_multi_hot; at += columns.size()) {
      is_multi_hot =
          names_[at].size() == length &&
          std::ranges::all_of(names_[at], [](const std::string& name) { return name == "0" || name == "1"; });
    }
    if (is_multi_hot)
      return misuse("ingest", "the column ", in_quotes(columns[i]->column.name), " of ", printable(list_),
                    " has a 0 or 1 for each of ", length,
                    " labels in every line; a column of labels lists those that are there, such as cat|dog. "
                    "dlpipe.from_dataset stores such vectors as labels with the kind \"multi-hot\"");
  }
  return {};
}

// One table of classes for the label and for all columns of labels.
Status ManifestSource::number(SourceListing& listing) const {
  std::vector<std::string> all;
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    const std::string& name = class_of_entry_[i];
    if (name.size() > kMostClassNameBytes)
      return wrong(line_of_entry_[i],
                   concat("its class ", in_quotes(name), " has ", name.size(), " bytes; the limit is ",
                          kMostClassNameBytes, "; is it a caption, or is a quote not closed?"));
    if (!name.empty()) all.push_back(name);
  }
  for (const std::vector<std::string>& names : names_) all.insert(all.end(), names.begin(), names.end());
  DLPIPE_RETURN_IF_ERROR(check_multi_hot());
  listing.classes = one_hot_.empty() ? sorted_class_names(std::move(all)) : one_hot_;
  if (!one_hot_.empty()) listing.has_class_order = true;
  if (head_ && !head_->classes.empty()) {
    const std::unordered_set<std::string_view> known(head_->classes.begin(), head_->classes.end());
    for (const std::string& name : listing.classes) {
      if (!known.contains(name))
        return wrong(1, concat("\"classes\" has no ", in_quotes(name),
                               ", which a later line uses as its class; add it at the end"));
    }
    listing.classes = head_->classes;
    listing.has_class_order = true;
    listing.mask_numbers = MaskNumbers::kClasses;
    if (options_.alone)
      listing.warnings.push_back(
          concat("[ingest] the order of the ",
                 counted(static_cast<int64_t>(listing.classes.size()), "class", "classes"),
                 " is the one in the first line of ", printable(list_)));
  }
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < listing.classes.size(); ++i) label_of[listing.classes[i]] = static_cast<int64_t>(i);
  auto names = names_.begin();
  for (size_t e = 0; e < listing.entries.size(); ++e) {
    SourceEntry& entry = listing.entries[e];
    entry.label = class_of_entry_[e].empty() ? -1 : label_of.at(class_of_entry_[e]);
    for (size_t i = 0; i < columns_.extra.size(); ++i) {
      if (columns_.extra[i].column.kind != ColumnKind::kLabels) continue;
      std::vector<int64_t> labels;
      for (const std::string& name : *names) labels.push_back(label_of.at(name));
      entry.extra[i] = encode_labels(labels);
      ++names;
    }
  }
  for (size_t i = 0; i < columns_.extra.size(); ++i) {
    if (columns_.extra[i].column.kind == ColumnKind::kNumbers && listing.fields[i].of.empty())
      listing.fields[i].shape = {std::max<int64_t>(1, columns_.extra[i].numbers)};
  }
  return {};
}

void ManifestSource::write_whole_labels() {
  if (head_ && !head_->classes.empty()) return;  // they have the names in that line
  std::vector<std::string> labels = class_of_entry_;
  for (std::string& label : labels) {
    if (std::string number = separator_ == ';' ? with_decimal_point(label) : ""; !number.empty())
      label = std::move(number);
  }
  std::vector<std::string*> all;
  all.reserve(labels.size());
  for (std::string& label : labels) all.push_back(&label);
  for (std::vector<std::string>& names : names_) {
    for (std::string& name : names) all.push_back(&name);
  }
  write_whole_numbers(all);
  int64_t number = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (parse_int(labels[i], &number)) class_of_entry_[i] = std::move(labels[i]);
  }
}

bool ManifestSource::holds_images(const std::vector<std::string>& values) const {
  constexpr size_t kLooked = 8;
  std::error_code ignored;
  size_t found = 0;
  for (size_t i = 0; i < std::min(values.size(), kLooked); ++i) {
    if (values[i].empty()) continue;
    if (!has_image_name(values[i]) || !std::filesystem::is_regular_file(full(values[i]), ignored))
      return false;
    ++found;
  }
  return found > 0;
}

Status ManifestSource::check_label_is_known() const {
  const std::vector<std::string>& names = columns_.maybe_label;
  if (!columns_.is_question) return {};
  if (holds_images(class_of_entry_)) {  // the cells of names[0]
    return misuse("ingest", printable(list_), ": the column ", in_quotes(names[0]),
                  " names images, not classes; if these are masks: --field ",
                  shell_text(concat(names[0], ":mask")));
  }
  double number = 0;
  const bool are_numbers = std::ranges::all_of(class_of_entry_, [&](const std::string& cell) {
    return cell.empty() || parse_number(cell, separator_, &number);
  });
  const bool are_tags = std::ranges::any_of(
      class_of_entry_, [](const std::string& cell) { return cell.find('|') != std::string::npos; });
  const std::string field = concat("--field ", shell_text(concat(names[0], are_tags      ? ":labels"
                                                                           : are_numbers ? ":number"
                                                                                         : ":text")));
  if (names.size() == 1)
    return misuse("ingest", printable(list_), ": which column is the class? ", in_quotes(names[0]),
                  " is not one of the usual names (label, class, category, target, ...); if it is the class, "
                  "use --label ",
                  shell_text(names[0]), "; otherwise give its kind, such as ", field);
  return misuse("ingest", printable(list_), ": which column is the class? None of ", quoted_names(names),
                " is called 'label'; give it with --label COLUMN, or give the kinds of those that are to "
                "be learnt, such as ",
                field);
}

Status ManifestSource::check_labels_repeat() const {
  constexpr size_t kFew = 5;  // a short list may show one image of each class
  if (columns_.has_names || read_ || class_of_entry_.size() < kFew) return {};
  const std::unordered_set<std::string_view> different(class_of_entry_.begin(), class_of_entry_.end());
  if (different.size() < class_of_entry_.size()) return {};
  return misuse(
      "ingest", printable(list_), ": which column is the class? Each of its ", class_of_entry_.size(),
      " lines has a different text after the path, such as ",
      in_quotes(class_of_entry_.front().substr(0, 40)),
      "; if these are classes, write 'path,label' as the first line; otherwise 'path,text', and add "
      "--field text:text");
}

std::string ManifestSource::field_of_label(std::string_view kind) const {
  const std::string& name = columns_.label_name;
  return concat("--field ", name.empty() ? concat("COLUMN:", kind) : shell_text(concat(name, ":", kind)));
}

Status ManifestSource::check_labels() const {
  if (!columns_.label) return {};
  bool all_numbers = true;
  std::optional<size_t> fraction;
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    const std::string& label = class_of_entry_[i];
    if (label.empty()) continue;
    if (label.starts_with('[') || label.starts_with('{'))
      return wrong(line_of_entry_[i], concat("the label ", in_quotes(label.substr(0, 40)),
                                             " is a list or an object, not a class; make it a field (",
                                             field_of_label("boxes-xywh"),
                                             ", or labels or numbers instead of boxes-xywh), or give the ",
                                             "column of classes with --label"));
    if (!columns_.is_question && label.find_first_of("|;") != std::string::npos) {
      return wrong(line_of_entry_[i],
                   concat("the label ", in_quotes(label),
                          " names several classes; give each image one, or make it a field with ",
                          field_of_label("labels"), ", which --task multilabel learns"));
    }
    double number = 0;
    int64_t whole = 0;
    all_numbers = all_numbers && parse_number(label, separator_, &number);
    if (!fraction && !parse_whole(label, &whole)) fraction = i;
  }
  if (!all_numbers || !fraction) return {};
  return wrong(line_of_entry_[*fraction],
               concat("the label ", in_quotes(class_of_entry_[*fraction]),
                      " is a number, but not a whole number; classes are names or whole numbers. If it is a "
                      "quantity, make it (and other columns of quantities) a field with ",
                      field_of_label("number"), ", which --task regress learns"));
}

// path,cat,dog,bird with ones and zeros: the columns are the classes.
Status ManifestSource::take_one_hot(SourceListing& listing) {
  const std::set<std::string> classes(columns_.maybe_label.begin(), columns_.maybe_label.end());
  const bool are_named = classes.size() == columns_.extra.size() + 1;
  if (columns_.label_is_named || !columns_.label || columns_.extra.empty() ||
      (columns_.has_names && !are_named) || std::ranges::any_of(classes, is_called_as_split))
    return {};
  std::vector<std::vector<size_t>> ones(listing.entries.size());  // the columns with a 1
  bool is_one_each = true;
  std::vector<size_t> lost;  // entries with an empty cell
  for (size_t i = 0; i < listing.entries.size(); ++i) {
    const SourceEntry& entry = listing.entries[i];
    bool is_empty = false;
    for (size_t column = 0; column <= entry.extra.size(); ++column) {
      const std::string& cell = column == 0 ? class_of_entry_[i] : entry.extra[column - 1];
      int64_t bit = 0;
      if (!cell.empty() && (!parse_whole(cell, &bit) || bit < 0 || bit > 1)) return {};
      if (bit == 1) ones[i].push_back(column);
      is_empty = is_empty || cell.empty();
    }
    if (!is_empty) {
      is_one_each = is_one_each && ones[i].size() == 1;
    } else {
      ones[i].clear();
      lost.push_back(i);
    }
  }
  if (lost.size() == listing.entries.size()) return {};
  if (!columns_.has_names)
    return wrong(1,
                 "the columns contain only 0 and 1, as if each were a class; name the path and the classes "
                 "in the first line");
  for (const size_t i : lost) {
    SourceEntry& entry = listing.entries[i];
    if (entry.problem.empty())
      entry.problem = concat(place_of(line_of_entry_[i]), ": a cell of its classes is empty; write 0 or 1");
  }
  one_hot_ = std::exchange(columns_.maybe_label, {});
  columns_.is_question = false;
  columns_.extra.clear();
  listing.fields.clear();
  if (!is_one_each) {
    const TypedColumn labels{"labels", ColumnKind::kLabels};
    columns_.extra.push_back({*columns_.label, labels, 0});
    columns_.label.reset();
    listing.fields.push_back(field_of(labels, 0));
  }
  for (size_t i = 0; i < listing.entries.size(); ++i) {
    listing.entries[i].extra.assign(columns_.extra.size(), {});
    class_of_entry_[i] = is_one_each && !ones[i].empty() ? one_hot_[ones[i][0]] : std::string();
    if (is_one_each) continue;
    std::vector<std::string>& names = names_.emplace_back();
    for (const size_t column : ones[i]) names.push_back(one_hot_[column]);
  }
  listing.warnings.push_back(concat(
      "[ingest] the columns ", quoted_names(one_hot_, 3), " of ", printable(list_),
      " contain only 0 and 1, and are classes: ",
      is_one_each ? "each line has one" : "those of a line become the field 'labels', for --task multilabel",
      "; to store them as numbers, give --field COLUMN:number for each"));
  return {};
}

// Paths without labels are not useful for training.
void ManifestSource::warn_of_images_as_text(SourceListing& listing) const {
  if (read_) return;  // imagefolder.cpp reports it
  for (size_t i = 0; i < columns_.extra.size(); ++i) {
    const TypedColumn& column = columns_.extra[i].column;
    const bool is_asked_for = std::any_of(
        typed_.begin(), typed_.end(), [&](const TypedColumn& typed) { return typed.name == column.name; });
    if (column.kind != ColumnKind::kText || is_asked_for) continue;
    std::vector<std::string> values;
    for (const SourceEntry& entry : listing.entries) values.push_back(entry.extra[i]);
    if (holds_images(values))
      listing.warnings.push_back(concat("[ingest] the column ", in_quotes(column.name),
                                        " names images, but only their names are stored; if these are "
                                        "masks: --field ",
                                        shell_text(concat(column.name, ":mask"))));
  }
}

void ManifestSource::warn_of_decimal_commas(SourceListing& listing) const {
  for (const Columns::Extra& extra : columns_.extra) {
    if (extra.maybe_decimal == 0 || extra.maybe_decimal < listing.entries.size()) continue;
    const std::string& name = extra.column.name;
    listing.warnings.push_back(concat("[ingest] each cell of the column ", in_quotes(name), " of ",
                                      printable(list_),
                                      " is read as two numbers separated by a comma; if it is one number "
                                      "with a decimal comma: --field ",
                                      shell_text(concat(name, ":number"))));
  }
}

void ManifestSource::warn_of_rounded_numbers(SourceListing& listing) const {
  for (const Columns::Extra& extra : columns_.extra) {
    if (extra.line_rounded == 0) continue;
    const TypedColumn& column = extra.column;
    const bool may_have_dtype =
        column.of.empty() && (column.kind == ColumnKind::kNumber || column.kind == ColumnKind::kNumbers);
    listing.warnings.push_back(
        concat("[ingest] ", place_of(extra.line_rounded), ": a whole number in ", in_quotes(column.name),
               " is rounded, because f32 is exact only up to 16777216",
               may_have_dtype ? concat("; :i64 after its --field keeps it") : std::string()));
  }
}

void ManifestSource::warn_of_split_columns(SourceListing& listing) const {
  if (!options_.splits) return;
  constexpr std::string_view kHow =
      "; to make splits, add a column split with train, val or test in each line";
  for (size_t i = 0; i < listing.fields.size(); ++i) {
    const bool holds_splits =
        std::all_of(listing.entries.begin(), listing.entries.end(),
                    [&](const SourceEntry& entry) { return !split_of_name(entry.extra[i]).empty(); });
    if (holds_splits)
      listing.warnings.push_back(
          concat("[ingest] the column ", in_quotes(listing.fields[i].name),
                 " contains names of splits and becomes a field; to make splits from it, name it "
                 "split in the list's first line"));
    if (holds_splits || columns_.split || listing.fields[i].kind != FieldKind::kBytes ||
        !is_called_as_split(listing.fields[i].name))
      continue;
    constexpr size_t kFew = 16;
    std::set<std::string> values;
    for (const SourceEntry& entry : listing.entries) {
      if (values.size() <= kFew) values.insert(entry.extra[i]);
    }
    if (values.size() < 2 || values.size() > kFew) continue;
    listing.warnings.push_back(concat("[ingest] the column ", in_quotes(listing.fields[i].name), " (",
                                      quoted_names(std::vector<std::string>(values.begin(), values.end()), 3),
                                      ") may hold the splits of the images, but becomes a field", kHow));
  }
  if (columns_.split || read_ || head_) return;
  if (const std::optional<std::string> file = partition_beside(list_))
    listing.warnings.push_back(
        concat("[ingest] ", in_quotes(*file), " next to ", printable(list_), " is not read", kHow));
}

}  // namespace dlpipe::data
