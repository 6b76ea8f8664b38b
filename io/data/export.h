// Implements `dlpipe export`: writes a dataset to files, OUT/CLASS/..., with their original names. JPEG and PNG bytes are
// written unchanged, so images that ingest did not recode are restored byte for byte; raw pixels become PNG. JPEGs stored as
// coefficients are also restored byte for byte, unless they were not a single baseline scan (progressive ones, for example):
// these become one, with the same pixels. What class folders can't express is in OUT/fields.jsonl, a list that ingest can read:
// other fields, the order of the classes, samples without a class, and names of samples that differ from their files. The
// report says which fields ingest reads back changed, such as texts that are not UTF-8.
//
// Runs on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

struct ExportOptions {
  std::string directory;  // must not exist; appears by one rename when all is written
  int64_t limit = -1;     // only this many samples, at least 1; -1: all
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
  std::vector<Unwritten> unwritten;  // samples whose names would leave the directory; in order
  struct Renamed {
    int64_t sample = 0;
    std::string path;
    std::string name;  // of its file
  };
  /// Samples whose names are too long for the file system, or name both a file and a folder; in order.
  std::vector<Renamed> renamed;
  std::string list;  // in `directory`: the list for what class folders can't express; empty: not needed
  std::vector<std::string> changed;  // its fields that ingest reads back changed, and how
};

/// Checks each record's checksum: kCorrupt names the first that differs, and nothing is left behind. A sample whose name would
/// leave OUT is skipped and the others are written; the caller returns unwritten_error() at the end. A sample whose name the
/// file system rejects is called CLASS/sample-N, where N is its number.
Result<ExportReport> export_files(const Dataset& dataset, const ExportOptions& options,
                                  const std::function<void(int64_t done, int64_t total)>& progress = {});

/// One of several datasets to export together.
struct ExportSplit {
  std::string name;  // its folder in OUT; "": OUT itself, for one dataset
  std::shared_ptr<const Dataset> dataset;
};
/// The same for each of them. OUT appears when all are written. If one needs a list, each gets one: lists and class folders can't be
/// read back together.
Result<std::vector<ExportReport>> export_splits(
    std::span<const ExportSplit> splits, const ExportOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress = {});

/// kUnsupported, naming the samples that were skipped according to the report; ok if there are none.
Status unwritten_error(const ExportReport& report);
/// One line that names the first samples of report.renamed; "" if there are none.
std::string renamed_text(const ExportReport& report);

/// The path of a record's file below OUT: its own path if that begins with its class or it has no class (""), else
/// class/path. The ending is made to fit the layout. kUnsupported for a path that would leave OUT.
Result<std::string> export_name(const std::string& path, const std::string& class_name, ImageLayout layout);

}  // namespace dlpipe::data
