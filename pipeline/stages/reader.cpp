#include "dlpipe/pipeline/stages/reader.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

Result<std::span<const std::byte>> RecordReader::read(const SamplePlan& plan) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record,
                          reader_.record_in(plan.stored, plan.sample, plan.header.size_bytes));
  if (!checksums_.checked.test(plan.sample)) {
    if (data::checksum64(record) != plan.header.checksum) checksums_.damaged.set(plan.sample);
    checksums_.checked.set(plan.sample);
  }
  if (checksums_.damaged.test(plan.sample)) {
    return Status(ErrorCode::kCorrupt, concat("[loader] checksum of sample ", plan.sample,
                                              " is wrong: its bytes are not those that were ingested"));
  }
  return record;
}

}  // namespace dlpipe::pipeline
