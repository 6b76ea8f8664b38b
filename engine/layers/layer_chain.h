// A model that is one section after another, each of which hands on a residual stream: what pipeline stages take apart. One thread
// at a time.
//
// Without stages forward() runs all sections. keep_stage() leaves a rank some that follow each other, and the parameters that these
// use. With gradients, forward() then answers logits on the last stage, and on the others a number: its backward takes the
// gradient that the stage behind sends. Forward and backward passes follow each other as StageLine says. Without gradients the
// stages run one after another, and all answer the logits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/norm.h"
#include "dlpipe/engine/layers/stage_line.h"

namespace dlpipe::engine {

class LayerChain : public Module {
 public:
  Tensor forward(const Tensor& x) final;
  void keep_stage(Collective& stages) override;
  StageLine* stage_line() override { return line_.get(); }
  std::vector<Tie> ties() const override;

 protected:
  /// `uses`: children and own parameters, by name; several sections may use one. `cost`: what it takes to compute, in any unit.
  /// The first section takes the model's input as the stream.
  void add_section(std::vector<std::string> uses, double cost, std::function<Residual(Residual)> run);
  /// Of the f32 stream between sections, for the input x.
  virtual Shape stream_shape(const Tensor& x) const = 0;

 private:
  struct Section {
    std::vector<std::string> uses;
    double cost = 0;
    std::function<Residual(Residual)> run;
  };
  Tensor run(const Tensor& x) const;
  Tensor run_with_gradients(const Tensor& x);
  Tensor run_without(const Tensor& x);
  /// The last stage's, on all of them.
  Tensor shared_logits(const Tensor& own);
  /// What other stages use too gets ranks of its own.
  void tie(const std::vector<size_t>& cuts);

  std::vector<Section> sections_;  // of this stage
  std::unique_ptr<StageLine> line_;
  struct SharedName {
    std::string name;
    std::shared_ptr<Collective> ranks;
  };
  std::vector<SharedName> shared_;
};

/// Where to cut a row of costs into `parts` parts that follow each other, none empty, so that the dearest is as cheap as can be:
/// parts + 1 numbers. There are at least so many costs.
std::vector<size_t> balanced_cuts(const std::vector<double>& costs, size_t parts);

}  // namespace dlpipe::engine
