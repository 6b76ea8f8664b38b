// A model that pipeline stages take apart, each of which has some of its layers that follow each other. One thread at a time.
//
// Without stages forward() is run(). keep_stage() (module.h) leaves a rank its layers. With gradients, forward() then answers logits
// on the last stage, and on the others a number: its backward takes the gradient that the stage behind sends. Forward and backward
// passes follow each other as StageLine says. Without gradients the stages run one after another, and all answer the logits.
#pragma once

#include <memory>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/stage_line.h"

namespace dlpipe::engine {

class StagedModule : public Module {
 public:
  Tensor forward(const Tensor& x) final;
  StageLine* stage_line() override { return line_.get(); }

 protected:
  /// The layers that are here, of the model's input or of what the stage before made.
  virtual Tensor run(const Tensor& x) = 0;
  /// For keep_stage(): from now on this is a stage. Answers where to cut pieces of these costs: as many numbers as stages, and one.
  std::vector<size_t> begin_stage(Collective& stages, const std::vector<double>& costs);

 private:
  Tensor run_with_gradients(const Tensor& x);
  Tensor run_without(const Tensor& x);
  /// The last stage's, on all of them.
  Tensor shared_logits(const Tensor& own);

  std::unique_ptr<StageLine> line_;
};

/// Where to cut a row of costs into `parts` parts that follow each other, none empty, so that the dearest is as cheap as can be:
/// parts + 1 numbers. There are at least so many costs.
std::vector<size_t> balanced_cuts(const std::vector<double>& costs, size_t parts);

}  // namespace dlpipe::engine
