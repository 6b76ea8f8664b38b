#include "dlpipe/engine/layers/sequential.h"

#include "dlpipe/base/refuse.h"

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

Tensor Sequential::run(const Tensor& x) {
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

void Sequential::list_layers(const std::string& prefix, std::vector<Layer>& layers) const {
  for (const auto& [name, child] : children()) {
    if (const auto* inner = dynamic_cast<const Sequential*>(child.get()); inner != nullptr) {
      inner->list_layers(prefix + name + ".", layers);
    } else {
      layers.push_back({prefix + name, child.get()});
    }
  }
}

void Sequential::keep_layers(const std::string& prefix, const std::unordered_set<std::string>& names) {
  std::unordered_set<std::string> kept;
  for (const auto& [name, child] : children()) {
    auto* const inner = dynamic_cast<Sequential*>(child.get());
    if (inner != nullptr) inner->keep_layers(prefix + name + ".", names);
    if (inner != nullptr ? !inner->children().empty() : names.contains(prefix + name)) kept.insert(name);
  }
  keep_only(kept);
}

void Sequential::keep_stage(Collective& stages, const LayerCost& cost) {
  std::vector<Layer> layers;
  list_layers("", layers);
  std::vector<std::vector<std::string>> sections(1);
  std::vector<double> costs(1, 0.0);
  std::unordered_set<const Module*> with_parameters;
  for (const Layer& layer : layers) {
    if (!layer.module->parameters().empty()) {
      if (!with_parameters.empty()) {
        sections.emplace_back();
        costs.push_back(0);
      }
      if (!with_parameters.insert(layer.module).second)
        refuse("stage", layer.name,
               " is a layer that comes twice: two stages can't share it; leave stages out");
    }
    sections.back().push_back(layer.name);
    costs.back() += cost(layer.name);
  }
  const std::vector<size_t> cuts = begin_stage(stages, costs);
  const auto own = static_cast<size_t>(stages.rank());
  std::unordered_set<std::string> kept;
  for (size_t i = cuts[own]; i < cuts[own + 1]; ++i) kept.insert(sections[i].begin(), sections[i].end());
  keep_layers("", kept);
}

}  // namespace dlpipe::engine
