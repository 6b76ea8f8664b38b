#include "dlpipe/engine/models/capture_model.h"

#include "dlpipe/engine/graph/capture.h"
#include "dlpipe/engine/layers/eval_scope.h"

namespace dlpipe::engine {

graph::Graph capture_model(Module& model, const ModelArguments& arguments, const std::string& name) {
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const NamedTensor& tensor : model.state_dict()) weights.emplace_back(tensor.name, tensor.tensor);
  const graph::CaptureInput input = {"x", blank_input(arguments, 1).spec(), bit(0)};
  const EvalScope mode(model);
  return graph::capture(name, {&input, 1}, weights, [&](const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{model(inputs[0])};
  });
}

}  // namespace dlpipe::engine
