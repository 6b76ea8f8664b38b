#include "dlpipe/pipeline/stages/reader.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

Result<std::span<const std::byte>> RecordReader::read(const PlannedRecord& planned) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record,
                          reader_.record_in(planned.stored, planned.sample, planned.header.size_bytes));
  if (!checksums_.checked.test(planned.sample)) {
    if (!reader_.is_intact(record, planned.header)) checksums_.damaged.set(planned.sample);
    checksums_.checked.set(planned.sample);
  }
  if (checksums_.damaged.test(planned.sample)) {
    return Status(
        ErrorCode::kCorrupt,
        concat("[loader] checksum of sample ", planned.sample,
               " is wrong: its bytes are not those that were ingested; `dlpipe verify DATA` names all such, "
               "ingest anew or restore the file"));
  }
  return record;
}

}  // namespace dlpipe::pipeline
