// The sources of ingest's samples: images from folders by class, manifests, IDX files and anything else that can be read as
// one file per image; and sequences of tokens from texts.
//
// To add a source to dlpipe: NAME.cpp defines `extern const SourceRecord NAME_source;`, tests/io/data/sources/NAME_test.cpp
// tests it, and `dlpipe_register(source NAME)` in io/data/CMakeLists.txt adds it to the table.
//
// A program adds its own kind of source as a SourceRecord in a SourceRegistry.
//
// Ownership: the caller owns a Source; listings and bytes are values. Threads: list() is called first, from one thread; then
// read() may be called from any number of threads. Cost: list() may read names and small files, read() reads one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/registry.h"

namespace dlpipe::data {

class ScratchSpace;

/// The largest size of a file that is one image: more than any real image has, and less than memory.
inline constexpr uint64_t kMostImageBytes = uint64_t{1} << 30;

/// The unit of an entry's boxes and points.
struct AnnotatedSize {
  int32_t width = 0;  // of the oriented image; an image of another size is refused. 0: not known
  int32_t height = 0;
  bool is_relative = false;  // they are fractions of the image's width and height, not pixels
};

/// One image or sequence of tokens to ingest.
struct SourceEntry {
  std::string path;                // relative name, unique in the source; the bytes of the file system
  uint64_t size_bytes = 0;         // of the bytes that read() returns
  int64_t modified_ns = 0;         // of the file that contains it
  int64_t label = -1;              // index into SourceListing::classes; -1: none
  std::string split;               // the split that the source assigns it to; usually empty
  uint64_t place = 0;              // for the source's use: an offset or index
  std::vector<std::string> extra;  // bytes of each of SourceListing::fields; for a mask: a reference, or none
  uint64_t name_begin = 0;         // the sample's name is `path` from here on: cat/1.jpg of train/cat/1.jpg
  std::string problem;             // not empty: why it can't be read, if already known; --on-error decides
  uint32_t input = 0;              // with several inputs: the index of the one that it is read from
  AnnotatedSize annotated;
  /// With a problem: the entry stands for all samples that a truncated archive lost, an unknown number.
  bool is_rest = false;
  std::string_view name() const { return std::string_view(path).substr(name_begin); }
};

/// The meaning of the pixels of an entry's mask.
enum class MaskNumbers {
  kOwn,  // numbers without class names
  kClasses,  // the files contain the numbers of SourceListing::classes, usually label + 1; they are kept unchanged
  kDrawn,  // label + 1, with the entry's labels at the time when read_referred() draws the mask
};

struct SourceListing {
  std::vector<std::string> classes;   // sorted, unless has_class_order
  std::vector<Field> fields;          // after image, label and path: further columns of a manifest
  std::vector<SourceEntry> entries;   // any order; ingest sorts them
  std::vector<std::string> warnings;  // whole messages: what was ignored or decided
  int64_t tokens = 0;  // above 0: entries are not images but this many u8 tokens each; classes name them
  bool in_sequence = false;          // splits are runs of entries by path, not drawn
  bool has_class_order = false;      // the source defines the numbers of the classes
  bool classes_are_folders = false;  // sorted as text, which is also how other programs number them
  MaskNumbers mask_numbers = MaskNumbers::kOwn;
};

class Source {
 public:
  virtual ~Source() = default;
  /// Lists all entries without decoding images.
  virtual Result<SourceListing> list() = 0;
  /// The encoded bytes of one entry. kChanged if they are not the ones that were listed (other size or time, or gone);
  /// kPermission or kIo for the system's errors.
  virtual Result<std::vector<std::byte>> read(const SourceEntry& entry) const = 0;
  /// The bytes of the file that `reference` refers to. The source put `reference` into the entry's `extra` of a field of kind
  /// mask. Errors as for read().
  virtual Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                                       std::string_view reference) const;
  /// Where the bytes that read() returns are stored, for a dataset that links to them. kMisuse if they aren't stored anywhere,
  /// because they are unpacked, downloaded or computed.
  virtual Result<Link> where(const SourceEntry& entry) const;
};

struct SourceRecord;
/// A value: copy builtin(), add to it and pass it to IngestOptions.
using SourceRegistry = Registry<SourceRecord>;

struct SourceOptions {
  std::string path;           // SRC: a folder or a file; or an address without its secret parts
  std::string manifest = {};  // --manifest; empty: none
  int64_t length = 256;       // of a sequence, in tokens
  bool splits = true;         // false (--no-splits): what looks like splits is not treated as such
  bool alone = true;          // false: one of several inputs, with classes that are examined together
  std::string label = {};  // --label: the column or JSON key that names the class; empty: found by its name
  std::vector<std::string> fields = {};  // --field: COLUMN:KIND (docs/guide)
  std::string labels = {};   // --labels: file with a class per line, for images in the order of their names
  std::string images = {};   // --images: folder of the images that SRC describes; empty: found next to it
  std::string address = {};  // if `path` is an address: the complete address
  std::shared_ptr<ScratchSpace> scratch = {};  // where packed archives and streams are unpacked
  int64_t every = 1;  // above 1: read only one of this many lines of a .csv, .tsv or .txt, for a preview
  const SourceRegistry* known = nullptr;  // the kinds of sources that `path` may be; null: the built-in ones
  int64_t max_pixels = 178'956'970;       // masks of larger images are not drawn
  std::shared_ptr<uint64_t> shared_budget = {};  // shared by all inputs; null: there is only one input
  std::function<bool()> stop_requested = {};     // called during long reads; true: return kCancelled
};

struct SourceRecord {
  static constexpr const char* kKind = "source";
  static std::span<const SourceRecord* const> built_in();  // source_table()

  const char* name;
  const char* help;
  /// How likely the options mean this source: 0 not at all, 1 by default, higher is likelier. The highest wins; among equals,
  /// the first in the table. Looks at names only.
  int (*recognizes)(const SourceOptions& options);
  Result<std::unique_ptr<Source>> (*open)(const SourceOptions& options);
  const char* takes = "";      // which of --label, --field, --labels and --images it uses; others are refused
  bool takes_address = false;  // its file may be remote
  /// The split that a file of a published dataset belongs to, according to its name, as in the dataset's folder; "": none.
  /// Null: files of this source have no such names.
  std::string (*published_split)(const std::string& path) = nullptr;
};

std::span<const SourceRecord* const> source_table();
/// The record that recognizes the options best; kUnsupported lists what can be ingested.
Result<const SourceRecord*> find_source(const SourceOptions& options);
/// kMisuse if an option is set that none of the records uses.
Status check_taken(const SourceOptions& options, std::span<const SourceRecord* const> records);
/// Opens the source that find_source() returns, after check_taken().
Result<std::unique_ptr<Source>> open_source(const SourceOptions& options);

/// A text field.
inline Field text_field(std::string name) {
  return {std::move(name), FieldKind::kBytes, DType::kU8, {}};
}
/// The names of listing.fields.
std::vector<std::string> field_names(const SourceListing& listing);
/// The names sorted, without duplicates; sorted as numbers if all are whole numbers.
std::vector<std::string> sorted_class_names(std::vector<std::string> names);
/// Numbers the classes of `listing` in the order of sorted_class_names() and sets each entry's label; "" means no class (-1).
void number_classes(const std::vector<std::string>& class_of_entry, SourceListing& listing);

/// Warns that `path` has fields for its images, but no classes.
void warn_of_no_class(const std::string& path, SourceListing& listing);
/// Removes classes of folders without a readable image from the listing and warns: a model can't learn a class without samples.
/// Their entries, which all have a problem, lose their label. Does nothing if no class has an image.
void drop_empty_classes(SourceListing& listing);
/// Warns about classes without an entry, and, with `hint` appended, about a single class.
void warn_of_classes(SourceListing& listing, const std::string& hint = {});

/// "train-000123": the path of a sample that is not a separate file, with at least `digits` digits.
std::string numbered_path(const std::string& prefix, size_t number, size_t digits);

}  // namespace dlpipe::data
