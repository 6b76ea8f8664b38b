// The implementation of Dataset: the tables of its LMDB file, located and checked. Internal to io/data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/data/linked_records.h"
#include "io/data/lmdb_file.h"
#include "io/data/record.h"
#include "io/data/schema.h"

namespace dlpipe::data {

struct Dataset::Impl {
  std::string directory;
  std::unique_ptr<const LmdbFile> file;
  LmdbFile::Tree records;
  std::optional<LmdbFile::Tree> skipped;
  DatasetInfo info;
  std::optional<RecordLayout> layout;
  std::unique_ptr<const LateChecksums> late;    // null if checksums aren't late
  std::vector<const std::byte*> header_chunks;  // one per value, kRowsPerChunk rows each

  Status open_tables();
  Status load_info(const LmdbFile::Tree& meta);
  Status load_header_chunks(const LmdbFile::Tree& headers);
  LmdbFile::Bytes chunk_rows(size_t chunk) const;
  Status check_rows(bool* same_id) const;
  RecordHeader row(int64_t sample) const {
    const std::byte* chunk = header_chunks[static_cast<size_t>(sample / kRowsPerChunk)];
    return load_row({chunk + (sample % kRowsPerChunk) * kRowBytes, kRowBytes});
  }
  Status check_sample(int64_t sample) const {
    if (sample >= 0 && sample < info.samples) return {};
    return misuse("dataset", "there is no sample ", sample, " in ", directory, ", which has ", info.samples,
                  " samples");
  }
  Status damaged(std::string_view what) const {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory, ": ", what, "; copy or ingest the dataset again"));
  }
};

}  // namespace dlpipe::data
