#include "dlpipe/engine/layers/sequential.h"

namespace dlpipe::engine {

Sequential::Sequential(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> layers) {
  for (const auto& [name, layer] : layers) append(name, layer);
}

Sequential& Sequential::append(std::shared_ptr<Module> layer) {
  return append(std::to_string(children().size()), std::move(layer));
}

Sequential& Sequential::append(std::string name, std::shared_ptr<Module> layer) {
  add_module(std::move(name), std::move(layer));
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (size_t i = 0; i < children().size(); ++i) {
    Module& layer = *children()[i].second;
    Tensor both;  // of this layer and the activation behind it
    if (i + 1 < children().size())
      both = layer.forward_fused(y, children()[i + 1].second->fusible_activation());
    if (both.defined()) ++i;
    y = both.defined() ? both : layer(y);
  }
  return y;
}

}  // namespace dlpipe::engine
