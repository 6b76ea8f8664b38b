// An ingest in parts, on several machines, and joining the parts to one dataset.
//
// One part of several of an ingest: `dlpipe ingest SRC DST --part 3/16` stores the entries of its range of the frozen list, on
// any machine, and writes to DST/part.json what `dlpipe join` needs to produce the bytes of a single ingest. Value types,
// except PartNotes, which writes that file and belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "io/data/record.h"
#include "run/ingest/frozen_list.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

inline constexpr const char* kPartName = "part.json";

/// Entries [begin, end) of a split.
struct PartRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
/// The entries of a part. Parts differ by one entry at most.
PartRange range_of(const Part& part, uint64_t entries);
std::string part_text(const Part& part);  // "3/16"
/// kMisuse if there are more parts than files.
Status check_part(const Part& part, const FrozenList& list);

struct PartFile {
  /// A transaction, with what DatasetWriter must know about the pixels of its records.
  struct Commit {
    uint64_t end = 0;      // one past the last entry
    bool is_whole = true;  // a single ingest also ends a transaction here; else the range ends
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
  std::string list;     // a hash of everything else that the bytes depend on: estimates, schema
  uint64_t map_bytes = 0;
  int64_t files = 0;  // of all parts
  std::vector<std::string> warnings;
  std::vector<Split> splits;
};

Status save_part(const PartFile& part, const std::string& file);
/// kCorrupt if save_part did not write it.
Result<PartFile> load_part(const std::string& file);

/// Keeps part.json in sync with the commits of a part that is being written.
class PartNotes {
 public:
  /// Continues with the contents of `file` if an interrupted ingest wrote it.
  static Result<PartNotes> begin(const IngestOptions& options, const FrozenList& list, std::string file);
  PartRange range(const std::string& split);
  int64_t entry_count() const;  // of this part
  /// Drops transactions after `position`, which were recorded but not committed.
  void go_on(const std::string& split, uint64_t position);
  /// Records a transaction; call it before the transaction is committed.
  Status note(const std::string& split, const PartFile::Commit& commit);

 private:
  PartFile::Split& find(const std::string& split);
  PartFile part_;
  std::string file_;
};

// `dlpipe join DST PART...` as a function: one dataset of the parts that `dlpipe ingest --part` made, with the bytes that a
// single ingest would write. Records are copied unchanged; nothing is decoded or compressed again.
//
// All parts must be given exactly once and have the same files and options; otherwise an error names them before anything is
// written. Each part's header table is checked against its id, and each record against its checksum. For links (`ingest --store
// link`) the images are not read; parts whose links are relative to different folders are refused. Like an ingest, a join is
// written into DST.partial and resumes when called again, with the same resulting bytes. The parts are only read, and remain.
//
// Threads: as ingest(). Memory: one transaction; the parts' header tables remain in their files.

struct JoinOptions {
  std::string destination;                             // DST: must not exist
  std::vector<std::string> parts;                      // directories, in any order
  std::function<void(const std::string&)> on_warning;  // about all parts together
  std::function<bool()> stop_requested;
};

Result<IngestReport> join(const JoinOptions& options,
                          const std::function<void(const IngestProgress&)>& progress = {});

}  // namespace dlpipe::ingest
