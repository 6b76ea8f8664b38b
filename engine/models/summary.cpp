#include <algorithm>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/eval_scope.h"
#include "dlpipe/engine/layers/hook_scope.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {
namespace {

/// What the layer has besides its children.
int64_t own_parameters(const Module& layer) {
  if (!layer.children().empty()) return 0;
  int64_t count = 0;
  for (const NamedTensor& parameter : layer.parameters()) count += parameter.tensor.elements();
  return count;
}

}  // namespace

ModelSummary summarize(Module& model, const ModelArguments& arguments, int64_t batch) {
  ModelSummary result;
  const NoGrad no_grad;
  const EvalScope scope(model);
  {
    const HookScope hooks(
        model, [&](const std::string& name, Module& layer, const Tensor& x, const Tensor& y) {
          LayerSummary row{
              name, layer.kind(), y.shape(), own_parameters(layer), layer.flops(x.spec(), y.spec()), 0};
          // Only attention computes something between its children; its result there is as large as its output.
          if (!layer.children().empty() && row.flops == 0) return;
          row.flops *= static_cast<double>(batch);
          row.output_bytes = static_cast<int64_t>(y.size_bytes()) * batch;
          if (row.output.rank() > 0) row.output[0] *= batch;
          result.layers.push_back(std::move(row));
        });
    model(blank_input(arguments, 1).to(model.device()));
  }

  for (const LayerSummary& layer : result.layers) {
    result.flops += layer.flops;
    result.activation_bytes += layer.output_bytes;
  }
  for (const NamedTensor& entry : model.state_dict())
    result.state_bytes += static_cast<int64_t>(entry.tensor.size_bytes());
  for (const NamedTensor& parameter : model.parameters()) {
    result.parameters += parameter.tensor.elements();
    if (!parameter.tensor.requires_grad()) continue;
    result.trainable_parameters += parameter.tensor.elements();
    result.gradient_bytes += static_cast<int64_t>(parameter.tensor.size_bytes());
  }
  return result;
}

}  // namespace dlpipe::engine
