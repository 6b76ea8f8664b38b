// The source of lists, of those that other sources read, too: its columns, its lines and its labels, a file of code for each. Internal to io/data; manifest.cpp says
// what a list may hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/lists/json_lines.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

/// A list that is read already, of one file or of several, and whose columns are known.
struct ReadList {
  struct File {
    std::string path;
    int64_t lines_before = 0;  // of the files before it; a row's line counts on from there
  };
  std::vector<File> files;
  uint64_t text_bytes = 0;  // of all of them
  JsonTable table;
  size_t path = 0;                             // columns
  std::optional<size_t> label = std::nullopt;  // a cell may be empty: no class
  std::optional<size_t> split = std::nullopt;

  /// "FILE line 3".
  std::string place_of(int64_t line) const;
};

/// A list's text, without UTF-8's mark. kUnsupported for UTF-16 and for zero bytes.
Result<std::string> read_list_text(const std::string& path);
/// The same of bytes that were read from `path`, in their place.
Result<std::string_view> list_text(const std::string& path, std::span<const std::byte> bytes);
/// Between the cells of `list`, by its first line.
char separator_of(const std::string& list, std::string_view text);

/// The column that is called as paths are: path, file, filename, image, ..., or else id, image_id.
std::optional<size_t> find_path_column(const std::vector<std::string>& names);
/// The column that is called as labels are: label, class, category, ...
std::optional<size_t> find_label_column(const std::vector<std::string>& names);
/// Whether a list's only column beside the paths is a class where it is called so: y, breed, class_id, ...
bool is_class_name_alone(const std::string& name);

class ManifestSource final : public Source {
 public:
  ManifestSource(std::string list, std::string root, const SourceOptions& options)
      : list_(std::move(list)), root_(std::move(root)), options_(options) {}
  /// `list` is what messages call all of it.
  ManifestSource(std::string list, std::string root, const SourceOptions& options, ReadList read)
      : list_(std::move(list)), root_(std::move(root)), options_(options), read_(std::move(read)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override;
  Result<Link> where(const SourceEntry& entry) const override;

 private:
  /// Which cell of a line is what.
  struct Columns {
    struct Extra {
      size_t cell = 0;
      TypedColumn column;
      int64_t numbers = 0;  // in each cell of ColumnKind::kNumbers
      // Of a list with ; between its cells, where numbers may have decimal commas; 0: none has.
      int64_t line_with_comma = 0;
      int64_t line_with_point = 0;
      int64_t line_rounded = 0;  // where a whole number isn't one of f32; 0: nowhere
      size_t maybe_decimal = 0;  // cells of two numbers that could be one
    };
    size_t count = 0;
    size_t path = 0;
    std::optional<size_t> name;  // of the sample, where its file lies elsewhere
    std::optional<size_t> label = 1;
    std::string label_name;  // of that column; "": the list names no columns
    std::optional<size_t> split;
    std::vector<Extra> extra;
    bool label_is_named = false;
    bool has_names = true;                 // the first line names the columns
    std::vector<std::string> maybe_label;  // where none is: the columns of which one might be the label
    bool is_question = false;              // nobody knows whether `label` is one
  };

  std::string full(const std::string& path) const { return full(path, root_); }
  static std::string full(const std::string& path, const std::string& root) {
    return path.starts_with('/') ? path : root + "/" + path;
  }
  /// "LIST line 3".
  std::string place_of(int64_t line) const;
  Status wrong(int64_t line, std::string_view what) const;

  // The file: manifest.cpp.
  Result<SourceListing> list_below_root();
  Status read_lines(std::string_view text, SourceListing& listing);
  Status read_json(std::string_view text, SourceListing& listing);
  Status take_read(SourceListing& listing);

  // The first line: manifest_columns.cpp.
  /// Finds the columns by it, and by the line behind. Answers whether it names them, else it is a picture's.
  Result<bool> read_head(const std::vector<std::string>& cells, const std::vector<std::string>& next,
                         int64_t line, SourceListing& listing);
  Status check_count(size_t columns, int64_t line) const;
  Status find_label(const std::vector<std::string>& cells, int64_t line);
  /// The fields of all columns that aren't path, label or split.
  Status add_extras(const std::vector<std::string>& cells, SourceListing& listing);
  /// Of the column in cell `i`, of that name.
  void add_extra(size_t i, const std::string& name, SourceListing& listing);
  Status check_typed_columns() const;

  // Where its files are: manifest_root.cpp.
  struct Places {
    std::string root;
    std::vector<std::string> parts;  // folders below it, each of which has some of the files; mostly none
  };
  /// The folder in root_, or in one there, that has most of the files of the list; of several the one that is called as the
  /// list is. Several where each has files that no other has. None where that says nothing.
  std::optional<Places> find_places(const SourceListing& listing) const;
  /// `path`, with an ending where it needs one, below the only one of parts_ that has it; without parts below root_.
  std::string placed(const std::string& path) const;
  /// How much of a placed path is a part's.
  uint64_t part_size(const std::string& placed) const;

  // The other lines: manifest_lines.cpp.
  /// `path`, or the picture of that name with an ending where only that is there.
  static std::string with_ending(const std::string& path, const std::string& root);
  Status add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing);
  Status add_values(const std::vector<std::string>& cells, int64_t line, SourceEntry& entry);
  /// Of a cell that holds one number, written with a point. kCorrupt where its column has both points and commas.
  Result<std::string> with_point(const std::string& cell, int64_t line, Columns::Extra& extra) const;
  /// What read_referred() takes, of a mask in a cell; what is wrong with it becomes the entry's problem.
  std::string refer_to(const std::string& file, int64_t line, SourceEntry& entry) const;
  std::string problem_of(SourceEntry& entry, int64_t line) const;
  /// Where the name of a sample begins in its path: absolute ones lose what leads to SRC, or at least the slash.
  uint64_t name_begin(const std::string& path) const;
  /// The same, where the line says that the sample is called `name`.
  uint64_t name_begin(const std::string& path, const std::string& name) const;

  // What the labels mean, once all lines are read: manifest_labels.cpp.
  Status number(SourceListing& listing) const;
  /// 1 for 1.0, and for 1,0 between ;, where all labels are whole numbers.
  void write_whole_labels();
  Status check_labels() const;
  /// "--field age:number" for the kind `number` and the column of labels.
  std::string field_of_label(std::string_view kind) const;
  /// Columns none of which is called so may be captions, masks or anything.
  Status check_label_is_known() const;
  /// A list without names of columns, each of whose lines has another text: these are no classes.
  Status check_labels_repeat() const;
  /// Whether all of the first values of a column are pictures that are there.
  bool holds_pictures(const std::vector<std::string>& values) const;
  Status check_one_hot(const SourceListing& listing) const;
  void warn_of_split_columns(SourceListing& listing) const;
  void warn_of_pictures_as_text(SourceListing& listing) const;
  void warn_of_decimal_commas(SourceListing& listing) const;
  void warn_of_rounded_numbers(SourceListing& listing) const;

  std::string list_;
  std::string root_;
  std::vector<std::string> parts_;  // folders below it that the files are divided among; mostly none
  SourceOptions options_;
  std::optional<ReadList> read_;
  char separator_ = ',';           // between the cells
  std::optional<FieldLine> head_;  // what `dlpipe export` says of its list
  std::vector<TypedColumn> typed_;
  Columns columns_;
  std::vector<std::string> class_of_entry_;
  std::vector<std::vector<std::string>> names_;  // of the cells of ColumnKind::kLabels, entry by entry
  std::vector<int64_t> line_of_entry_;
  std::unordered_map<std::string, int64_t> line_of_path_;
};

}  // namespace dlpipe::data
