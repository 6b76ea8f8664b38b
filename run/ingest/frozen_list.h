// What an ingest will do, decided once and written to DST.partial/ingest.list before any image is stored: the
// files with size and time, their order and splits, the schema, and where transactions end. A resumed ingest
// takes all of it from there. Value types; files appear by rename.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/ingest/ingest.h"

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
  /// The entry indices of `split` after which a transaction ends, the last entry's included: a function of
  /// the list alone.
  std::vector<uint64_t> borders(const FrozenSplit& split, uint64_t commit_bytes,
                                int64_t commit_entries) const;
};

/// A hash of classes, splits and each file's name, size and label: what a later listing is compared with. Not
/// of times, which a copy of the files may have its own of.
std::string source_hash(const FrozenList& list);
Status save_list(const FrozenList& list, const std::string& file);
/// kCorrupt when the file isn't whole.
Result<FrozenList> load_list(const std::string& file);
/// kChanged, naming the first file that is gone or has another size, time, place, split, class or field than in `list`, and
/// how it changed. `options` are those of the ingest. Files that aren't in the list may be there.
Status compare_with_source(const FrozenList& list, const data::SourceListing& now,
                           const IngestOptions& options);

}  // namespace dlpipe::ingest
