// Where ingest's samples come from: images of a folder by class, of a manifest, of IDX files, and whatever
// else becomes one file each; sequences of tokens of a text.
//
// Adding one: NAME.cpp defines `extern const SourceRecord NAME_source;`, tests/io/data/sources/NAME_test.cpp
// tests it, and `dlpipe_register(source NAME)` in io/data/CMakeLists.txt puts it into the table.
//
// Threads: list() belongs to one thread and comes first; read() may then be called from any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/link.h"

namespace dlpipe::data {

class ScratchSpace;

/// Of a file that is one picture: more than any has, and less than memory.
inline constexpr uint64_t kMostPictureBytes = uint64_t{1} << 30;

/// What an entry's boxes and points are measured in.
struct AnnotatedSize {
  int32_t width = 0;  // of the picture as seen; one of another size is refused. 0: not known
  int32_t height = 0;
  bool is_relative = false;  // they are shares of the picture's width and height, not pixels
};

/// One image, or sequence of tokens, to be ingested.
struct SourceEntry {
  std::string path;                // relative name, unique in the source, bytes as the file system has them
  uint64_t size_bytes = 0;         // of what read() answers
  int64_t modified_ns = 0;         // of the file that holds it
  int64_t label = -1;              // index into SourceListing::classes; -1: none
  std::string split;               // the split that the source itself puts it in; mostly empty
  uint64_t place = 0;              // the source's own: an offset or index
  std::vector<std::string> extra;  // bytes of each of SourceListing::fields; of a mask: a reference, or none
  uint64_t name_begin = 0;  // the part of `path` behind it is the sample's name: train/cat/1.jpg is cat/1.jpg
  std::string problem;      // not empty: why it can't be read, known already; --on-error decides
  uint32_t input = 0;       // of several inputs (inputs.h), the one that it is read from
  AnnotatedSize annotated;
  bool is_rest =
      false;  // with a problem: it stands for all samples that a damaged archive lost, nobody knows how many
  std::string_view name() const { return std::string_view(path).substr(name_begin); }
};

/// What the pixels of an entry's mask are.
enum class MaskNumbers {
  kOwn,      // numbers that nobody names
  kClasses,  // in files, those of SourceListing::classes, mostly label + 1; they stay as they are
  kDrawn,    // label + 1, by the labels that the entry has when read_referred() draws it
};

struct SourceListing {
  std::vector<std::string> classes;   // sorted, but for has_class_order
  std::vector<Field> fields;          // behind image, label and path: further columns of a manifest
  std::vector<SourceEntry> entries;   // any order; ingest sorts them
  std::vector<std::string> warnings;  // whole messages: what was left aside or decided
  int64_t tokens = 0;        // above 0: entries are no images, but u8 tokens, so many each; classes name them
  bool in_sequence = false;  // splits are runs of entries by path, not drawn
  bool has_class_order = false;      // the source says which class has which number
  bool classes_are_folders = false;  // sorted as texts, as others number them, too
  MaskNumbers mask_numbers = MaskNumbers::kOwn;
};

class Source {
 public:
  virtual ~Source() = default;
  /// Finds everything, decodes no image.
  virtual Result<SourceListing> list() = 0;
  /// The encoded bytes of one entry. kChanged when they are not what was listed (size, time, gone);
  /// kPermission, kIo as the system says.
  virtual Result<std::vector<std::byte>> read(const SourceEntry& entry) const = 0;
  /// The bytes of the file that the source wrote `reference` for, in the entry's extra of a field of kind mask. Errors as
  /// read()'s.
  virtual Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                                       std::string_view reference) const;
  /// Where what read() answers lies as it is, for a dataset that leaves it there. kMisuse where it doesn't: what is
  /// unpacked, fetched or made of other bytes.
  virtual Result<Link> where(const SourceEntry& entry) const;
};

struct SourceRecord;
/// A value: copy builtin(), add to it and hand it to IngestOptions.
using SourceRegistry = Registry<SourceRecord>;

struct SourceOptions {
  std::string path;           // SRC: a folder or a file; an address without what is secret in it
  std::string manifest = {};  // --manifest; empty: none
  int64_t length = 256;       // of a sequence, in tokens
  bool splits = true;         // false (--no-splits): what looks like splits is none
  bool alone = true;          // false: of several inputs, whose classes are looked at together
  std::string label = {};  // --label: the column or JSON key that names the class; empty: found by its name
  std::vector<std::string> fields = {};  // --field: COLUMN:KIND (typed_columns.h)
  std::string labels = {};   // --labels: file with a class per line, for pictures in the order of their names
  std::string images = {};   // --images: folder of the pictures that SRC describes; empty: found beside it
  std::string address = {};  // where `path` is an address: the whole of it (remote.h)
  std::shared_ptr<ScratchSpace> scratch = {};  // where packed archives and streams are unpacked
  int64_t every = 1;  // above 1: one of so many lines of a .csv, .tsv or .txt, for a look at it
  const SourceRegistry* known = nullptr;  // what `path` may be; null: what is built in
  int64_t max_pixels = 178'956'970;       // of larger pictures no mask is drawn
  std::shared_ptr<uint64_t> shared_budget =
      {};                                     // of all inputs (ReadBudget::kBase); null: there is one alone
  std::function<bool()> stop_requested = {};  // asked while something long is read; true: kCancelled
};

struct SourceRecord {
  static constexpr const char* kKind = "source";
  static std::span<const SourceRecord* const> built_in();  // source_table()

  const char* name;
  const char* help;
  /// How surely this source is meant: 0 not, 1 by default, higher is surer; of equals the first in the table is taken. Looks at
  /// names only.
  int (*recognizes)(const SourceOptions& options);
  Result<std::unique_ptr<Source>> (*open)(const SourceOptions& options);
  const char* takes = "";  // which of --label, --field, --labels and --images it looks at; others are refused
  bool takes_address = false;  // it reads its file by ArchiveBytes::open, which may be a remote one
  /// Of a file of a published set, the split that it is by its name, as the set's folder makes it; "": none. Null: of no file.
  std::string (*published_split)(const std::string& path) = nullptr;
};

std::span<const SourceRecord* const> source_table();
/// The record that recognizes the options best; kUnsupported says what can be ingested.
Result<const SourceRecord*> find_source(const SourceOptions& options);
/// kMisuse where an option is given that none of the records takes.
Status check_taken(const SourceOptions& options, std::span<const SourceRecord* const> records);
/// Opens what find_source() finds, after check_taken().
Result<std::unique_ptr<Source>> open_source(const SourceOptions& options);

/// A field of text.
inline Field text_field(std::string name) {
  return {std::move(name), FieldKind::kBytes, DType::kU8, {}};
}
/// The names of listing.fields.
std::vector<std::string> field_names(const SourceListing& listing);
/// Sorted and each once; names that are all whole numbers as numbers.
std::vector<std::string> sorted_class_names(std::vector<std::string> names);
/// Numbers the classes of `listing` as sorted_class_names does and sets each entry's label; "" is no class (-1).
void number_classes(const std::vector<std::string>& class_of_entry, SourceListing& listing);

/// Warns that `path` gives pictures fields, but no class of their own.
void warn_of_no_class(const std::string& path, SourceListing& listing);
/// Warns of classes without an entry, and, with `hint` behind it, of a single class.
void warn_of_classes(SourceListing& listing, const std::string& hint = {});

/// "train-000123": the path of a sample that is no file of its own, in at least so many digits.
std::string numbered_path(const std::string& prefix, size_t number, size_t digits);

}  // namespace dlpipe::data
