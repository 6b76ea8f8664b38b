// What the labels of a list mean: numbers of classes; and what can't be meant.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

// One table of classes for the label and for all columns of labels.
Status ManifestSource::number(SourceListing& listing) const {
  std::vector<std::string> all;
  for (const std::string& name : class_of_entry_) {
    if (!name.empty()) all.push_back(name);
  }
  for (const std::vector<std::string>& names : names_) all.insert(all.end(), names.begin(), names.end());
  listing.classes = sorted_class_names(std::move(all));
  if (head_ && !head_->classes.empty()) {
    const std::unordered_set<std::string_view> known(head_->classes.begin(), head_->classes.end());
    for (const std::string& name : listing.classes) {
      if (!known.contains(name))
        return wrong(1, concat("\"classes\" has no ", in_quotes(name),
                               ", which a line below calls its class; add it at the end"));
    }
    listing.classes = head_->classes;
    listing.has_class_order = true;
    listing.mask_numbers = MaskNumbers::kClasses;
    if (options_.alone)
      listing.warnings.push_back(concat("[ingest] the order of the ", listing.classes.size(),
                                        listing.classes.size() == 1 ? " class" : " classes",
                                        " is that of the first line of ", printable(list_)));
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
  if (head_ && !head_->classes.empty()) return;  // they are called as that line calls them
  std::vector<std::string> labels = class_of_entry_;
  for (std::string& label : labels) {
    if (std::string number = separator_ == ';' ? with_decimal_point(label) : ""; !number.empty())
      label = std::move(number);
  }
  std::vector<std::string*> all;
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

bool ManifestSource::holds_pictures(const std::vector<std::string>& values) const {
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
  if (holds_pictures(class_of_entry_)) {  // of the first of them
    return misuse("ingest", printable(list_), ": the column ", in_quotes(names[0]),
                  " names pictures and no classes; if these are masks: --field ",
                  shell_word(concat(names[0], ":mask")));
  }
  const std::string field =
      concat("--field ", shell_word(concat(names[0], names.size() == 1 ? ":text" : ":number")));
  if (names.size() == 1)
    return misuse("ingest", printable(list_), ": which column is the class? ", in_quotes(names[0]),
                  " isn't called as one (label, class, category, target, ...); if it is, --label ",
                  shell_word(names[0]), "; else say what it holds, as ", field);
  return misuse("ingest", printable(list_), ": which column is the class? None of ", quoted_names(names),
                " is called 'label'; name it with --label COLUMN, or say of those that are to be learnt what "
                "they are, as ",
                field);
}

Status ManifestSource::check_labels_repeat() const {
  constexpr size_t kFew = 5;  // a short list may show one picture of each class
  if (columns_.has_names || read_ || class_of_entry_.size() < kFew) return {};
  const std::unordered_set<std::string_view> different(class_of_entry_.begin(), class_of_entry_.end());
  if (different.size() < class_of_entry_.size()) return {};
  return misuse("ingest", printable(list_), ": which column is the class? Each of its ",
                class_of_entry_.size(), " lines has another text behind the path, such as ",
                in_quotes(class_of_entry_.front().substr(0, 40)),
                "; if these are classes, write 'path,label' as the first line; else 'path,text', and give "
                "--field text:text");
}

std::string ManifestSource::field_of_label(std::string_view kind) const {
  const std::string& name = columns_.label_name;
  return concat("--field ", name.empty() ? concat("COLUMN:", kind) : shell_word(concat(name, ":", kind)));
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
                                             " is a list or an object, and no class; make it a field (",
                                             field_of_label("boxes-xywh"),
                                             ", or labels or numbers in place of boxes-xywh), or name the ",
                                             "column of classes with --label"));
    if (!columns_.is_question && label.find_first_of("|;") != std::string::npos) {
      return wrong(line_of_entry_[i],
                   concat("the label ", in_quotes(label),
                          " names several classes; give each picture one, or make it a field with ",
                          field_of_label("labels"), " (dlpipe has no multi-label training yet)"));
    }
    double number = 0;
    int64_t whole = 0;
    all_numbers = all_numbers && parse_number(label, separator_, &number);
    if (!fraction && !parse_whole(label, &whole)) fraction = i;
  }
  if (!all_numbers || !fraction) return {};
  return wrong(line_of_entry_[*fraction],
               concat("the label ", in_quotes(class_of_entry_[*fraction]),
                      " is a number, but no whole one; dlpipe trains "
                      "classes and predicts no quantities: give names or whole numbers, or make it a "
                      "field with ",
                      field_of_label("number")));
}

// path,cat,dog,bird with ones and zeros: the first of these columns would be taken as the label.
Status ManifestSource::check_one_hot(const SourceListing& listing) const {
  if (columns_.label_is_named || !columns_.label || listing.fields.empty() || columns_.split) return {};
  int64_t bit = 0;
  const auto is_bit = [&](const std::string& cell) {
    return parse_whole(cell, &bit) && (bit == 0 || bit == 1);
  };
  const auto is_one = [&](const std::string& cell) { return is_bit(cell) && bit == 1; };
  const auto is_bit_or_lost = [&](const std::string& cell) { return cell.empty() || is_bit(cell); };
  if (std::none_of(class_of_entry_.begin(), class_of_entry_.end(), is_bit) ||
      !std::all_of(class_of_entry_.begin(), class_of_entry_.end(), is_bit_or_lost))
    return {};
  std::optional<size_t> not_one;  // the first that isn't of one class alone
  for (size_t i = 0; i < listing.entries.size(); ++i) {
    const std::vector<std::string>& extra = listing.entries[i].extra;
    if (!std::all_of(extra.begin(), extra.end(), is_bit)) return {};
    const auto ones =
        std::count_if(extra.begin(), extra.end(), is_one) + (is_one(class_of_entry_[i]) ? 1 : 0);
    if (!not_one && ones != 1) not_one = i;
  }
  constexpr std::string_view kWhat = "the columns hold nothing but 0 and 1, as if each were a class";
  if (not_one)
    return wrong(
        line_of_entry_[*not_one],
        concat(kWhat,
               ", and this line is not of exactly one. Several classes for a picture: write their names "
               "in one column, as cat|bird, and give --field COLUMN:labels"));
  return wrong(1, concat(kWhat, "; write the class's name in one column 'label'"));
}

// The paths alone are of no use to whoever trains.
void ManifestSource::warn_of_pictures_as_text(SourceListing& listing) const {
  if (read_) return;  // whoever read it says so
  for (size_t i = 0; i < columns_.extra.size(); ++i) {
    const TypedColumn& column = columns_.extra[i].column;
    const bool is_asked_for = std::any_of(
        typed_.begin(), typed_.end(), [&](const TypedColumn& typed) { return typed.name == column.name; });
    if (column.kind != ColumnKind::kText || is_asked_for) continue;
    std::vector<std::string> values;
    for (const SourceEntry& entry : listing.entries) values.push_back(entry.extra[i]);
    if (holds_pictures(values))
      listing.warnings.push_back(concat("[ingest] the column ", in_quotes(column.name),
                                        " names pictures, and only their names are stored; if these are "
                                        "masks: --field ",
                                        shell_word(concat(column.name, ":mask"))));
  }
}

void ManifestSource::warn_of_decimal_commas(SourceListing& listing) const {
  for (const Columns::Extra& extra : columns_.extra) {
    if (extra.maybe_decimal == 0 || extra.maybe_decimal < listing.entries.size()) continue;
    const std::string& name = extra.column.name;
    listing.warnings.push_back(concat("[ingest] each cell of the column ", in_quotes(name), " of ",
                                      printable(list_),
                                      " is read as two numbers with a comma between; where it is one number "
                                      "with a decimal comma: --field ",
                                      shell_word(concat(name, ":number"))));
  }
}

void ManifestSource::warn_of_rounded_numbers(SourceListing& listing) const {
  for (const Columns::Extra& extra : columns_.extra) {
    if (extra.line_rounded == 0) continue;
    const TypedColumn& column = extra.column;
    const bool may_have_dtype =
        column.of.empty() && (column.kind == ColumnKind::kNumber || column.kind == ColumnKind::kNumbers);
    listing.warnings.push_back(
        concat("[ingest] ", place_of(extra.line_rounded), ": a whole number of ", in_quotes(column.name),
               " is rounded, because f32 holds them only up to 16777216",
               may_have_dtype ? concat("; :i64 behind its --field keeps it") : std::string()));
  }
}

namespace {

/// Called as columns are that say which split a line is of, in numbers or words of their own.
bool is_called_as_split(const std::string& name) {
  constexpr std::array<std::string_view, 17> kNames = {
      "split",  "splits", "subset",  "partition", "fold",     "folds",       "kfold",    "usage",  "phase",
      "is_val", "is_dev", "is_test", "is_train",  "is_valid", "is_training", "data_set", "dataset"};
  return std::find(kNames.begin(), kNames.end(), lower_text(name)) != kNames.end();
}

/// The file beside `list` that is called as a list of splits, as CelebA's list_eval_partition.csv.
std::optional<std::string> partition_beside(const std::string& list) {
  const std::filesystem::path path(list);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           path.has_parent_path() ? path.parent_path() : std::filesystem::path("."), error)) {
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

void ManifestSource::warn_of_split_columns(SourceListing& listing) const {
  if (!options_.splits) return;
  constexpr std::string_view kHow =
      "; to make splits, let the list have a column split with train, val or test in each line";
  for (size_t i = 0; i < listing.fields.size(); ++i) {
    const bool holds_splits =
        std::all_of(listing.entries.begin(), listing.entries.end(),
                    [&](const SourceEntry& entry) { return !split_of_name(entry.extra[i]).empty(); });
    if (holds_splits)
      listing.warnings.push_back(
          concat("[ingest] the column ", in_quotes(listing.fields[i].name),
                 " holds names of splits and becomes a field; to make splits of it, name it "
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
                                      ") may say which split a picture is of, and becomes a field", kHow));
  }
  if (columns_.split || read_ || head_) return;
  if (const std::optional<std::string> file = partition_beside(list_))
    listing.warnings.push_back(
        concat("[ingest] ", in_quotes(*file), " beside ", printable(list_), " is not read", kHow));
}

}  // namespace dlpipe::data
