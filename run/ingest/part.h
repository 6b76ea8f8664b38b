// One part of several of an ingest: `dlpipe ingest SRC DST --part 3/16` stores the entries of its range of the frozen list,
// wherever it runs, and notes in DST/part.json what `dlpipe join` has to know to make the bytes of one ingest of all parts.
// Value types, but for PartNotes, which writes that file; it belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/run/ingest/frozen_list.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

inline constexpr const char* kPartName = "part.json";

/// Entries [begin, end) of a split.
struct PartRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
/// The same number of entries for each part, give or take one.
PartRange range_of(const Part& part, uint64_t entries);
std::string part_text(const Part& part);  // "3/16"
/// kMisuse where there are more parts than files.
Status check_part(const Part& part, const FrozenList& list);

struct PartFile {
  /// A transaction: what DatasetWriter must have been told of its records' pixels.
  struct Commit {
    uint64_t end = 0;      // the entry behind it
    bool is_whole = true;  // one ingest of all parts ends a transaction here, too; else the range ends
    data::PixelSums sums;
  };
  struct Split {
    std::string name;
    uint64_t entries = 0;  // of all parts
    PartRange range;
    std::vector<Commit> commits;
  };
  Part part;
  std::string options;  // canonical_options of one ingest of all parts
  std::string source;   // source_hash
  std::string list;     // a hash of all that the bytes depend on beside options and files: estimates, schema
  uint64_t map_bytes = 0;
  int64_t files = 0;  // of all parts
  std::vector<std::string> warnings;
  std::vector<Split> splits;
};

Status save_part(const PartFile& part, const std::string& file);
/// kCorrupt where it isn't what save_part wrote.
Result<PartFile> load_part(const std::string& file);

/// Keeps part.json in step with the commits of a part that is being written.
class PartNotes {
 public:
  /// Takes over what an interrupted one left in `file`.
  static Result<PartNotes> begin(const IngestOptions& options, const FrozenList& list, std::string file);
  PartRange range(const std::string& split);
  int64_t entry_count() const;  // of this part
  /// Drops transactions behind `position`, which were noted and not committed.
  void go_on(const std::string& split, uint64_t position);
  /// Before the transaction is committed.
  Status note(const std::string& split, const PartFile::Commit& commit);

 private:
  PartFile::Split& find(const std::string& split);
  PartFile part_;
  std::string file_;
};

}  // namespace dlpipe::ingest
