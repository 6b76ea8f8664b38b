#include "dlpipe/pipeline/stages/box_planner.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

Status BoxPlanner::complete(SamplePlan& plan, size_t* at_fault) {
  if (!planner_.plans_late()) return {};
  for (size_t k = 0; k < plan.records(); ++k) {
    if (plan.record(k).has_bad_header) return {};  // it is refused when its record is read
  }
  while (objects_.size() < plan.records())
    objects_.push_back(
        std::make_unique<RecordObjects>(data::DecodeLimits{.max_pixels = setup_.options.max_pixels}));
  for (size_t k = 0; k < plan.records(); ++k) {
    *at_fault = k;
    const PlannedRecord& planned = plan.record(k);
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_.read(planned));
    const Status read =
        objects_[k]->read(*setup_.dataset, record, planned.header.width, planned.header.height, pastes_);
    if (!read.ok()) return read.with_context(concat("[loader] sample ", planned.sample, ": "));
  }
  return planner_.plan_chain(objects_, plan);
}

}  // namespace dlpipe::pipeline
