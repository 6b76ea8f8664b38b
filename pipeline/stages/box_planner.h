// Part of planning: where an op of the chain draws by the boxes of the picture (augment's BoxedOp), the chain is
// planned here, when the record is there. Random numbers are those of the plan's key, as ever.
//
// An object belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/record_objects.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/stages/reader.h"

namespace dlpipe::pipeline {

class BoxPlanner {
 public:
  BoxPlanner(const Setup& setup, const Planner& planner, RecordReader& reader)
      : setup_(setup), planner_(planner), reader_(reader), pastes_(setup.chain.find_paste() != nullptr) {}

  /// Makes plan.chain, where the planner has left it for later. *at_fault: which of the plan's records is bad, where one is.
  Status complete(SamplePlan& plan, size_t* at_fault);

 private:
  const Setup& setup_;
  const Planner& planner_;
  RecordReader& reader_;
  bool pastes_;
  std::vector<std::unique_ptr<RecordObjects>> objects_;  // [picture]
};

}  // namespace dlpipe::pipeline
