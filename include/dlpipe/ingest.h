// Making a dataset from raw files: `dlpipe ingest SRC DST` as a function.
//
// Everything is written to DST.partial, which is renamed to DST at the end; DST does not exist before that. The
// list of files is fixed at the start. When an ingest that was stopped or killed is called again with the same
// options, it resumes from its last commit and writes the same bytes as an uninterrupted one; different options
// or changed files are refused. Every image is decoded completely before it is stored.
//
// Ownership: options and report are values. Threads: one call is one ingest; it starts `jobs` workers and calls `progress` on
// the calling thread. A second ingest into the same DST is refused. Cost: every file is read and decoded once. Memory:
// `window_bytes` of files ahead of the writer, one transaction, and one decoded image per worker.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::ingest {

/// kAuto skips bad files, but stops if an archive lost an unknown number of them.
enum class OnError : uint8_t { kAuto, kSkip, kStop };
/// What a record holds: the file's own bytes (raw pixels for IDX), always JPEG, always raw pixels, or a link to the
/// image, which stays in its file or tar archive.
enum class Store : uint8_t { kAuto, kJpeg, kRaw, kLink };
/// How a record stores a JPEG. kAuto: as coefficients, unless that takes many more bytes (data::kMostBytesByDefault).
/// kStandard: the file unchanged. kRestart: the same coefficients with restart markers and an index of them (still a
/// JPEG). kCoefficients: always packed coefficients. kDenseCoefficients: always coefficients with prefix codes (fewer
/// bytes, slower crops). Crops of all but kStandard decode faster, to the same pixels.
enum class JpegLayout : uint8_t { kAuto, kStandard, kRestart, kCoefficients, kDenseCoefficients };

/// How to treat duplicate images: the same pixels, or nearly the same after re-encoding, resizing, mirroring,
/// brightening or a small crop. kDrop: only the first by path is stored, and the others are listed as
/// skipped. kGroup: duplicates stay together in `split` and `folds`. Both decode every file twice.
enum class Dedup : uint8_t { kOff, kDrop, kGroup };

/// One of several parts of an ingest, `--part 3/16`: part number 3 of 16.
struct Part {
  int64_t number = 1;
  int64_t count = 1;
};

struct IngestOptions {
  /// SRC: folders by class, archives, manifests, IDX or a text; may contain {0..9} and *.
  std::vector<std::string> sources;
  std::string list;         // --list: file with further SRC, one per line
  std::string destination;  // DST: must not exist
  std::string manifest;     // --manifest: list of path,label below SRC
  std::string label;        // --label: column or JSON key that names the class; empty: found by its name
  std::vector<std::string> fields;  // --field: COLUMN:KIND for a manifest's columns that are not text
  std::string labels;  // --labels: file with a class per line, for images in the order of their names
  std::string images;  // --images: folder of the images that SRC, a COCO .json, describes
  /// --classes-from: a dataset with the class table to use, or a file with a class per line.
  std::string classes_from;
  OnError on_error = OnError::kAuto;
  int resize_max = 0;  // longer sides are scaled down to this; 0: no
  int quality = 90;    // for JPEGs that are re-encoded
  Store store = Store::kAuto;
  JpegLayout jpeg = JpegLayout::kAuto;
  /// Don't compare the pixels of coefficient records with the JPEG's. Decode only a few of the linked images, so that
  /// corrupt ones are found when they are used.
  bool trust = false;
  /// Read only the headers of linked images; their checksums are computed when they are first read (FORMAT.md, Late
  /// checksums). Decode a few, as with `trust`. Not an option of `dlpipe ingest`; used when training directly on images.
  bool late_checksums = false;
  std::optional<std::array<uint8_t, 3>> background;  // behind transparent pixels; nullopt: alpha is dropped
  bool zstd = false;
  std::optional<Part> part;   // --part: store only this part, for join() (join.h); nullopt: all
  int64_t limit = -1;         // at most this many files, chosen by (seed, path); -1: all
  std::vector<double> split;  // fractions of train, val[, test]; empty: one dataset
  std::string
      group;  // --group: a field; samples with the same value stay together in splits and folds. "folder": the image's folder
  int folds =
      0;  // --folds: adds a field `fold` with a number from 1 to `folds`, for cross-validation; 0: no folds
  Dedup dedup = Dedup::kOff;
  bool no_splits = false;  // don't make splits of folders, columns and files called train, val or test
  int64_t length = 256;    // tokens per sequence, for texts
  uint64_t seed = 0;       // for limit and split
  uint64_t window_bytes = uint64_t{256} << 20;
  int jobs = 0;                       // worker threads; 0: as many as the process may use
  uint64_t map_bytes = 0;             // 0: eight times the estimate plus 16 GB; address space only
  int64_t max_pixels = 178'956'970;   // larger images are bad
  uint64_t commit_bytes = 32u << 20;  // approximate bytes of records in a transaction
  int64_t commit_entries = 16'384;    // maximum number of files in a transaction
  const data::SourceRegistry* known_sources = nullptr;  // kinds of sources; null: the built-in ones
  std::function<void(const std::string&)> on_warning;   // called with each warning immediately
  std::function<bool()> stop_requested;  // called often; true: keep what is committed and return kCancelled
};

struct IngestProgress {
  std::string split;  // "" if there are no splits
  int64_t done = 0;   // files, over all splits
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
    std::string name;  // "" if there are no splits
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
  /// DST already existed, made with the same options from files with the same names and sizes.
  bool already_complete = false;
  bool files_compared = true;  // false: DST was made by an older version that did not record its files
};

/// Calls `progress` a few times per second; it may be empty.
Result<IngestReport> ingest(const IngestOptions& options,
                            const std::function<void(const IngestProgress&)>& progress = {});

}  // namespace dlpipe::ingest
