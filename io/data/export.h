// What `dlpipe export` does: a dataset back to files, OUT/CLASS/..., named as they were. JPEG and PNG bytes
// are written as they stand, so what ingest did not re-code comes back byte for byte; raw pixels become PNG.
// JPEGs stored as coefficients come back byte for byte, too, but for those that were no single baseline scan
// (progressive ones): they come back as one, with the same pixels. What class folders can't say stands in
// OUT/fields.jsonl, a list that ingest reads back: further fields, the order of the classes, samples without a
// class, what a sample is called where its file isn't. The report says which fields
// come back from it changed, as texts that aren't UTF-8 do.
//
// Runs on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

struct ExportOptions {
  std::string directory;   // must not exist; appears by one rename when all is written
  int64_t limit = -1;      // the first so many samples, at least 1; -1: all
  bool with_list = false;  // also where class folders say all: of splits, where another one's don't
  std::function<bool()> stop_requested;
};

struct ExportReport {
  int64_t files = 0;
  int64_t rewritten = 0;  // of these, JPEGs with the source's pixels in other bytes
  uint64_t bytes = 0;
  std::string directory;
  struct Unwritten {
    int64_t sample = 0;
    std::string path;
  };
  std::vector<Unwritten>
      unwritten;  // samples whose names no file can have, as they would leave the directory; in their order
  struct Renamed {
    int64_t sample = 0;
    std::string path;
    std::string name;  // of its file
  };
  /// Samples whose names are too long for the file system, or are those of a file and a folder at once; in their order.
  std::vector<Renamed> renamed;
  std::string list;  // in it: the list that says what class folders don't; empty: they say all
  std::vector<std::string> changed;  // of its fields, those that ingest reads back otherwise, with how
};

/// Whether class folders don't say all of the first `limit` samples, so that a list is written.
Result<bool> needs_list(const Dataset& dataset, int64_t limit = -1);

/// Every record's checksum is compared on the way: kCorrupt names the first that differs, and nothing stays. A sample whose
/// name would leave OUT is left out, and the others are written: who calls answers unwritten_error() at the end. One whose name
/// the file system doesn't take is called CLASS/sample-N, N its number.
Result<ExportReport> export_files(const Dataset& dataset, const ExportOptions& options,
                                  const std::function<void(int64_t done, int64_t total)>& progress = {});

/// kUnsupported names the samples that a report says were left out; good where it says of none.
Status unwritten_error(const ExportReport& report);
/// One line that names the first samples of report.renamed; "" where there are none.
std::string renamed_text(const ExportReport& report);

/// Where a record's file goes, below OUT: its path if that begins with its class or it has none (""), else class/path;
/// the ending that fits its layout. kUnsupported for a path that would leave OUT.
Result<std::string> export_name(const std::string& path, const std::string& class_name, ImageLayout layout);

}  // namespace dlpipe::data
