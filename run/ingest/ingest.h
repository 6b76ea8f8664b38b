// Making a dataset of raw files: `dlpipe ingest SRC DST` as a function.
//
// Everything is written into DST.partial, which becomes DST by one rename at the end; until then no DST
// exists. The list of files is frozen first. A run that was stopped or killed goes on where its last commit
// was when it is called again with the same options, and gives the same bytes as one that was not; other
// options or changed files are refused. Every image is decoded whole before it is stored.
//
// Threads: one call is one ingest; it starts `jobs` workers and calls `progress` on the calling thread. A
// second ingest into the same DST is refused. Memory: `window_bytes` of files ahead of the writer, one
// transaction, and one decoded picture per worker.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::ingest {

/// kAuto skips bad files, but ends where an archive lost nobody knows how many of them.
enum class OnError : uint8_t { kAuto, kSkip, kStop };
/// What stands in a record: the file's own bytes (raw pixels for IDX), always JPEG, always raw pixels, or a link to the
/// picture, which stays in its file or tar archive.
enum class Store : uint8_t { kAuto, kJpeg, kRaw, kLink };
/// How a record holds a JPEG: as coefficients unless that takes many more bytes (data::kMostBytesByDefault);
/// the file as it is; the same coefficients with restart markers and an index of them (still a JPEG); or
/// always the coefficients, packed or (fewer bytes, slower crops) with prefix codes. Crops of all but the
/// file decode faster, to the same pixels.
enum class JpegLayout : uint8_t { kAuto, kStandard, kRestart, kCoefficients, kDenseCoefficients };

/// One of several parts of an ingest, `--part 3/16`: number 3 of 16.
struct Part {
  int64_t number = 1;
  int64_t count = 1;
};

struct IngestOptions {
  std::vector<std::string>
      sources;              // SRC: folders by class, archives, manifests, IDX, a text; with {0..9} and *
  std::string list;         // --list: file with further SRC, one per line
  std::string destination;  // DST: must not exist
  std::string manifest;     // --manifest: list of path,label below SRC
  std::string label;        // --label: column or JSON key that names the class; empty: found by its name
  std::vector<std::string> fields;  // --field: COLUMN:KIND of a manifest's columns that are no text
  std::string labels;  // --labels: file with a class per line, for pictures in the order of their names
  std::string images;  // --images: folder of the pictures that SRC, a COCO .json, describes
  std::string
      classes_from;  // --classes-from: dataset whose class table this one takes, or file with a class per line
  OnError on_error = OnError::kAuto;
  int resize_max = 0;  // longer sides are scaled down to this; 0: no
  int quality = 90;    // of the JPEGs that are re-coded
  Store store = Store::kAuto;
  JpegLayout jpeg = JpegLayout::kAuto;
  /// Don't compare the pixels of coefficient records with the JPEG's; of linked pictures decode a few only, so that damaged
  /// ones are found when they are used.
  bool trust = false;
  /// Of linked pictures read what says what they are, and leave their checksums to who reads them first (FORMAT.md, Late
  /// checksums); decode a few, as with `trust`. No option of `dlpipe ingest`: training on pictures links so.
  bool late_checksums = false;
  std::optional<std::array<uint8_t, 3>> background;  // behind transparent pixels; nothing: alpha is left out
  bool zstd = false;
  std::optional<Part> part;   // --part: store this part alone, for join() (join.h); nothing: all
  int64_t limit = -1;         // at most this many files, chosen by (seed, path); -1: all
  std::vector<double> split;  // fractions of train, val[, test]; empty: one dataset
  bool no_splits = false;     // folders, columns and files called train, val or test make no splits
  int64_t length = 256;       // tokens of a sequence, of texts
  uint64_t seed = 0;          // of limit and split
  uint64_t window_bytes = uint64_t{256} << 20;
  int jobs = 0;                       // 0: what the process may use
  uint64_t map_bytes = 0;             // 0: eight times the estimate and 16 GB; address space only
  int64_t max_pixels = 178'956'970;   // larger pictures are bad
  uint64_t commit_bytes = 32u << 20;  // of records in a transaction, about
  int64_t commit_entries = 16'384;    // files in a transaction, at most
  const data::SourceRegistry* known_sources = nullptr;  // what SRC may be; null: what is built in
  std::function<void(const std::string&)> on_warning;   // each warning, as soon as it is known
  std::function<bool()> stop_requested;  // asked often; true: leave what is committed and answer kCancelled
};

struct IngestProgress {
  std::string split;  // "" when there is one dataset
  int64_t done = 0;   // files of all splits
  int64_t total = 0;
  int64_t skipped = 0;
  uint64_t bytes_done = 0;
  double seconds = 0;        // of this call
  double samples_per_s = 0;  // of the last seconds
  double remaining_s = 0;    // negative: not known yet
  std::string limiting;      // "read", "decode", "encode" or "write"
};

struct SkippedFile {
  std::string path;
  std::string reason;
};

struct IngestReport {
  struct Split {
    std::string name;  // "" when there is one dataset
    std::string directory;
    std::string id;
    int64_t samples = 0;
    uint64_t file_bytes = 0;
  };
  struct Stage {
    std::string name;
    double busy_s = 0;  // summed over threads
  };
  std::vector<Split> splits;
  std::vector<std::string> classes;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> warnings;  // whole messages
  std::vector<Stage> stages;          // of this call
  double seconds = 0;
  std::string limiting;
  bool resumed = false;
  /// DST was there, made of files of the same names and sizes by the same options.
  bool already_complete = false;
  bool files_compared = true;  // false: DST is older and doesn't know its files
};

/// `progress` is called a few times per second; may be empty.
Result<IngestReport> ingest(const IngestOptions& options,
                            const std::function<void(const IngestProgress&)>& progress = {});

/// What `--json` prints (docs/json.md).
std::string to_json(const IngestReport& report);
/// Which files were skipped and why, the first of them, for a warning; "" where none was.
std::string skipped_text(const IngestReport& report);

Result<Store> parse_store(const std::string& name);             // auto, jpeg, raw, link
Result<JpegLayout> parse_jpeg_layout(const std::string& name);  // auto, standard, restart, coefficients...
Result<OnError> parse_on_error(const std::string& name);        // auto, skip, stop
/// "white", "black", "#ffcc00": red, green, blue.
Result<std::array<uint8_t, 3>> parse_background(const std::string& text);
/// "3/16"; kMisuse for parts that there can't be.
Result<Part> parse_part(const std::string& text);
/// So many pictures of a split of links, or up to twice as many, are decoded for mean and standard deviation, evenly spread
/// over the list, where not all are.
inline constexpr uint64_t kDecodedLinks = 512;
inline constexpr int64_t kMostParts = 65536;
/// "0.9,0.1" -> {0.9, 0.1}; two or three positive fractions that sum to 1.
Result<std::vector<double>> parse_split(const std::string& text);

}  // namespace dlpipe::ingest
