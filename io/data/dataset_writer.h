// Writing a dataset's LMDB environment: records are appended in order and become part of the file with
// commit().
//
// A DatasetWriter belongs to one thread. What stands in the file is a function of the sequence of add,
// journal and commit calls alone: the environment is closed and opened again at each commit, so a writer that
// was killed and continued gives the same bytes as one that was not. Memory: what was added since the last
// commit. After an error the writer is dead; the file holds the last commit, and open() continues there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

class DatasetWriter {
 public:
  /// Starts DIR/data.mdb (DIR exists), or continues after its last commit. `map_bytes` bounds the file;
  /// address space only. `finished()` is true for a file that finish() has completed. kCorrupt when the file
  /// is damaged or was cut short: all of its pages are looked at, records excepted.
  static Result<std::unique_ptr<DatasetWriter>> open(const std::string& directory, const Schema& schema,
                                                     uint64_t map_bytes);
  ~DatasetWriter();

  int64_t samples() const;
  /// What the last commit was told; 0 for a new file. The caller's place in its own list.
  uint64_t position() const;
  bool finished() const;

  /// The class table, where it was not known at open(). Before finish().
  void set_classes(std::vector<std::string> classes);
  /// Appends a record; its number is samples() before the call.
  Status add(const PackedRecord& record);
  /// Notes why entry `position` of the caller's list became no record.
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
