#include "dlpipe/pipeline/stages/reader.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

Result<std::span<const std::byte>> RecordReader::read(const PlannedRecord& planned) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record,
                          reader_.record_in(planned.stored, planned.sample, planned.header.size_bytes));
  if (!checksums_.checked.test(planned.sample)) {
    if (data::checksum64(record) != planned.header.checksum) checksums_.damaged.set(planned.sample);
    checksums_.checked.set(planned.sample);
  }
  if (checksums_.damaged.test(planned.sample)) {
    return Status(ErrorCode::kCorrupt, concat("[loader] checksum of sample ", planned.sample,
                                              " is wrong: its bytes are not those that were ingested"));
  }
  return record;
}

}  // namespace dlpipe::pipeline
