// What a Dataset is behind its interface: the tables of its LMDB file, found and checked. Internal to io/data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/header_table.h"
#include "dlpipe/io/data/late_checksums.h"
#include "dlpipe/io/data/lmdb_file.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

struct Dataset::Impl {
  std::string directory;
  std::unique_ptr<const LmdbFile> file;
  LmdbFile::Tree records;
  std::optional<LmdbFile::Tree> skipped;
  DatasetInfo info;
  std::optional<RecordLayout> layout;
  std::unique_ptr<const LateChecksums> late;    // null where checksums aren't late
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
    return misuse("dataset", "sample ", sample, " of ", directory, ", which has ", info.samples, " samples");
  }
  Status damaged(std::string_view what) const {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory, ": ", what, "; copy or ingest the dataset again"));
  }
};

}  // namespace dlpipe::data
