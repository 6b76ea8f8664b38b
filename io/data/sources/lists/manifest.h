// The source for lists, including those that other sources read. Internal to io/data; manifest.cpp says what a list may
// contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "dlpipe/source.h"
#include "io/data/sources/lists/tables.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

/// A list that was already read, from one or several files, with known columns.
struct ReadList {
  struct File {
    std::string path;
    int64_t lines_before = 0;  // of the files before it; a row's line number continues from there
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
/// The same for bytes that were read from `path`, without a copy.
Result<std::string_view> list_text(const std::string& path, std::span<const std::byte> bytes);
/// The separator of the cells of `list`, from its first line.
char separator_of(const std::string& list, std::string_view text);

/// The column with a name for paths: path, file, filename, image, ..., or else id, image_id.
std::optional<size_t> find_path_column(const std::vector<std::string>& names);
/// The column with a name for labels: label, class, category, ...
std::optional<size_t> find_label_column(const std::vector<std::string>& names);
/// Whether a list's only column besides the paths is a class if it has this name: y, breed, class_id, ...
bool is_class_name_alone(const std::string& name);

class ManifestSource final : public Source {
 public:
  ManifestSource(std::string list, std::string root, const SourceOptions& options)
      : list_(std::move(list)), root_(std::move(root)), options_(options) {}
  /// `list`: the name of the whole list in messages.
  ManifestSource(std::string list, std::string root, const SourceOptions& options, ReadList read)
      : list_(std::move(list)), root_(std::move(root)), options_(options), read_(std::move(read)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override;
  Result<Link> where(const SourceEntry& entry) const override;

 private:
  /// The meaning of a line's cells.
  struct Columns {
    struct Extra {
      size_t cell = 0;
      TypedColumn column;
      int64_t numbers = 0;  // in each cell of ColumnKind::kNumbers
      // For a list separated by ;, where numbers may have decimal commas; 0: none has.
      int64_t line_with_comma = 0;
      int64_t line_with_point = 0;
      int64_t line_rounded = 0;  // where a whole number is not exact in f32; 0: nowhere
      size_t maybe_decimal = 0;  // cells of two numbers that could be one
    };
    size_t count = 0;
    size_t path = 0;
    std::optional<size_t> name;  // of the sample, if its file is elsewhere
    std::optional<size_t> label = 1;
    std::string label_name;  // of that column; "": the list names no columns
    std::optional<size_t> split;
    std::vector<Extra> extra;
    bool label_is_named = false;
    bool has_names = true;                 // the first line names the columns
    std::vector<std::string> maybe_label;  // if none is known: the columns that might be the label
    bool is_question = false;              // it is unclear whether `label` is one
  };

  std::string full(const std::string& path) const { return full(path, root_); }
  static std::string full(const std::string& path, const std::string& root) {
    return path.starts_with('/') ? path : root + "/" + path;
  }
  /// "LIST line 3".
  std::string place_of(int64_t line) const;
  Status wrong(int64_t line, std::string_view what) const;

  // The file.
  Result<SourceListing> list_below_root();
  Status read_lines(std::string_view text, SourceListing& listing);
  Status read_json(std::string_view text, SourceListing& listing);
  Status take_read(SourceListing& listing);

  // The first line (manifest_columns.cpp).
  /// Finds the columns from it and the next line. Returns whether it has column names; otherwise it is an image's line.
  Result<bool> read_head(const std::vector<std::string>& cells, const std::vector<std::string>& next,
                         int64_t line, SourceListing& listing);
  Status check_count(size_t columns, int64_t line) const;
  Status find_label(const std::vector<std::string>& cells, int64_t line);
  /// The fields of all columns except path, label and split.
  Status add_extras(const std::vector<std::string>& cells, SourceListing& listing);
  /// Adds the field of the column in cell `i`, with that name.
  void add_extra(size_t i, const std::string& name, SourceListing& listing);
  Status check_typed_columns() const;

  // Where its files are.
  struct Places {
    std::string root;
    std::vector<std::string> parts;  // folders below it, each of which has some of the files; usually none
  };
  /// The folder in root_, or in one there, that has most of the list's files; among several, the one named like the list.
  /// Several if each has files that no other has. None if this is inconclusive.
  std::optional<Places> find_places(const SourceListing& listing) const;
  /// The same for the last names of the paths, which may be those of another machine: for a list none of whose files was found.
  std::optional<Places> find_places_by_name(SourceListing listing) const;
  /// `path`, with an ending if it needs one, below the only one of parts_ that has it, or below root_ without parts.
  std::string placed(const std::string& path) const;
  /// How much of a placed path belongs to a part.
  uint64_t part_size(const std::string& placed) const;

  // The other lines.
  /// `path`, or the image of that name with an ending if only that exists.
  static std::string with_ending(const std::string& path, const std::string& root);
  /// If `path` is `cell` with an ending added: the names of all files in its folder that `cell` may mean.
  std::vector<std::string> same_with_ending(const std::string& cell, const std::string& path);
  Status add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing);
  Status add_values(const std::vector<std::string>& cells, int64_t line, SourceEntry& entry);
  /// A cell with one number, written with a decimal point. kCorrupt if its column has both points and commas.
  Result<std::string> with_point(const std::string& cell, int64_t line, Columns::Extra& extra) const;
  /// The reference for read_referred() to a mask in a cell; errors become the entry's problem.
  std::string refer_to(const std::string& file, int64_t line, SourceEntry& entry) const;
  std::string problem_of(SourceEntry& entry, int64_t line) const;
  /// Where the name of a sample begins in its path: absolute paths lose the part up to SRC, or at least the slash.
  uint64_t name_begin(const std::string& path) const;
  /// Sets the sample's name: `name` if the list gives one, else its file's. A name that its file doesn't have follows the file
  /// and # in entry.path, and entry.place is where the file's part ends.
  void set_name(const std::string& name, SourceEntry& entry) const;

  // What the labels mean, once all lines are read (manifest_columns.cpp).
  Status number(SourceListing& listing) const;
  Status check_multi_hot() const;
  /// Rewrites 1.0, and 1,0 in lists with ;, as 1 if all labels are whole numbers.
  void write_whole_labels();
  Status check_labels() const;
  /// "--field age:number" for the kind `number` and the column of labels.
  std::string field_of_label(std::string_view kind) const;
  /// Refuses to guess: columns without a label's name may be captions, masks or anything.
  Status check_label_is_known() const;
  /// Refuses a list without column names in which each line has a different text: these are not classes.
  Status check_labels_repeat() const;
  /// Whether all of the first values of a column are existing images.
  bool holds_images(const std::vector<std::string>& values) const;
  /// Columns of 0 and 1, one for each class, become the class of each image or its labels.
  Status take_one_hot(SourceListing& listing);
  void warn_of_split_columns(SourceListing& listing) const;
  void warn_of_images_as_text(SourceListing& listing) const;
  void warn_of_decimal_commas(SourceListing& listing) const;
  void warn_of_rounded_numbers(SourceListing& listing) const;

  std::string list_;
  std::string root_;
  std::vector<std::string> parts_;  // folders below it that the files are divided among; usually none
  bool by_last_name_ = false;       // the paths are those of another machine: only their last names count
  std::map<std::string, std::unordered_multimap<std::string, std::string>> stems_;  // of folders: stem, name
  SourceOptions options_;
  std::optional<ReadList> read_;
  char separator_ = ',';           // between the cells
  std::optional<FieldLine> head_;  // what `dlpipe export` wrote about its list
  std::vector<TypedColumn> typed_;
  Columns columns_;
  std::vector<std::string> one_hot_;  // the classes of columns of 0 and 1, in their order; usually none
  std::vector<std::string> class_of_entry_;
  std::vector<std::vector<std::string>> names_;  // of the cells of ColumnKind::kLabels, entry by entry
  std::vector<int64_t> line_of_entry_;
  std::unordered_map<std::string, int64_t> line_of_path_;
};

}  // namespace dlpipe::data
