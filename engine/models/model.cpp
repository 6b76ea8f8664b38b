#include "dlpipe/models.h"

#include <algorithm>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {

const PublishedWeights torchvision_weights = {"torchvision",
                                              "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)", 256};

std::span<const ModelRecord* const> ModelRecord::built_in() {
  return model_table();
}

void check_model_arguments(const char* model, const ModelArguments& arguments, int64_t min_size) {
  if (arguments.classes < 1 || arguments.channels < 1 || arguments.height < min_size ||
      arguments.width < min_size) {
    refuse(model, "expected images of at least ", min_size, "x", min_size, " and at least one class, got ",
           arguments.height, "x", arguments.width, "x", arguments.channels, " and ", arguments.classes,
           " classes; resize the images or choose another model");
  }
}

void check_token_model_arguments(const char* model, const ModelArguments& arguments) {
  if (arguments.classes < 1 || arguments.length < 1) {
    refuse(model, "expected a vocabulary size and a sequence length of at least 1, got ", arguments.classes,
           " and ", arguments.length, "; set both");
  }
}

Tensor blank_input(const ModelArguments& arguments, int64_t batch) {
  if (arguments.length > 0) return Tensor::zeros({batch, arguments.length}, DType::kI64);
  return Tensor::zeros({batch, arguments.height, arguments.width, arguments.channels});
}

namespace {

/// The number of parameters of a layer without children; 0 for others.
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
