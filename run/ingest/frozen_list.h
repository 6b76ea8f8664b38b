// The list of an ingest, made once and written to DST.partial/ingest.list before any image is stored: classes, splits, order,
// the files with size and time, the schema, where transactions end. A resumed ingest reads all of it from there. Value types;
// files appear by rename.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/schema.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

struct FrozenSplit {
  std::string name;                        // "" when there is one dataset
  std::vector<data::SourceEntry> entries;  // sorted by path
};

struct FrozenList {
  std::string options;  // canonical_options
  data::Schema schema;
  double stored_ratio = 1;  // bytes of records / bytes of files, estimated from a few
  uint64_t map_bytes = 0;
  uint64_t estimated_bytes = 0;  // of all files of the dataset
  std::vector<std::string> warnings;
  std::vector<FrozenSplit> splits;

  int64_t entry_count() const;
  /// The place of the field kFoldField in the entries' columns; none: there is no such field.
  std::optional<size_t> fold_column() const;
  /// The counts of entries of `split` after which a transaction ends; the last count is all of them. Depends only on the list.
  std::vector<uint64_t> borders(const FrozenSplit& split, uint64_t commit_bytes,
                                int64_t commit_entries) const;
};

/// A hash of classes, splits and each file's name, size and label: for comparison with a later listing. It does not cover
/// times, which may differ for a copy of the files.
std::string source_hash(const FrozenList& list);
Status save_list(const FrozenList& list, const std::string& file);
/// kCorrupt if the file is incomplete.
Result<FrozenList> load_list(const std::string& file);
/// kChanged, naming the first file that is missing or whose size, time, place, split, class or field differs from `list`, and
/// how. `options` are those of the ingest. Files that are not in the list are ignored.
Status compare_with_source(const FrozenList& list, const data::SourceListing& now,
                           const IngestOptions& options);

}  // namespace dlpipe::ingest
