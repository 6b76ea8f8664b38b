// Writing a dataset's LMDB environment: records are appended in order and become part of the file with
// commit().
//
// A DatasetWriter belongs to one thread. The file's contents depend only on the sequence of add, journal and commit calls: the
// environment is closed and reopened at each commit, so a writer that was killed and resumed writes the same bytes as one that
// was not. Memory: what was added since the last commit. After an error, the writer is unusable; the file contains the last
// commit, where open() resumes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "io/data/record.h"
#include "io/data/schema.h"

namespace dlpipe::data {

class DatasetWriter {
 public:
  /// Starts DIR/data.mdb (DIR exists), or resumes after its last commit. `map_bytes` limits the file; it costs only address
  /// space. `finished()` is true for a file that finish() has completed. kCorrupt when the file is corrupt or truncated: all of
  /// its pages except records are checked.
  static Result<std::unique_ptr<DatasetWriter>> open(const std::string& directory, const Schema& schema,
                                                     uint64_t map_bytes);
  ~DatasetWriter();

  int64_t samples() const;
  /// The position passed to the last commit, which is the caller's place in its own list; 0 for a new file.
  uint64_t position() const;
  bool finished() const;

  /// Sets the class table if it was not known at open(). Call it before finish().
  void set_classes(std::vector<std::string> classes);
  /// Appends a record; its number is samples() before the call.
  Status add(const PackedRecord& record);
  /// Records why entry `position` of the caller's list has no record.
  Status skip(uint64_t position, std::string_view path, std::string_view reason);
  /// Makes everything so far durable (fdatasync) together with `position`.
  Status commit(uint64_t position);
  /// Commits, writes the description (counts, statistics, id), after which the file opens as a Dataset.
  Status finish(uint64_t position);

  struct Impl;

 private:
  explicit DatasetWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::data
