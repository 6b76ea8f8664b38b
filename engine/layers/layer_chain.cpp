#include "dlpipe/engine/layers/layer_chain.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace dlpipe::engine {

void LayerChain::add_section(std::vector<std::string> uses, double cost,
                             std::function<Residual(Residual)> run) {
  sections_.push_back({std::move(uses), cost, std::move(run)});
}

Tensor LayerChain::run(const Tensor& x) {
  Residual stream = {x};
  for (const Section& section : sections_) stream = section.run(std::move(stream));
  return stream.value();
}

void LayerChain::keep_stage(Collective& stages, const LayerCost& /*cost*/) {
  std::vector<double> costs;
  for (const Section& section : sections_) costs.push_back(section.cost);
  const std::vector<size_t> cuts = begin_stage(stages, costs);
  tie(cuts);
  const auto own = static_cast<size_t>(stages.rank());
  sections_ = std::vector<Section>(sections_.begin() + static_cast<ptrdiff_t>(cuts[own]),
                                   sections_.begin() + static_cast<ptrdiff_t>(cuts[own + 1]));
  std::unordered_set<std::string> kept;
  for (const Section& section : sections_) kept.insert(section.uses.begin(), section.uses.end());
  keep_only(kept);
}

void LayerChain::tie(const std::vector<size_t>& cuts) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> users;  // by name, the stages
  for (size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    for (size_t s = cuts[stage]; s < cuts[stage + 1]; ++s) {
      for (const std::string& name : sections_[s].uses) {
        const auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
        if (place == names.size()) {
          names.push_back(name);
          users.emplace_back();
        }
        if (users[place].empty() || users[place].back() != static_cast<int>(stage))
          users[place].push_back(static_cast<int>(stage));
      }
    }
  }
  const int own = stage_line()->stages().rank();
  for (size_t i = 0; i < names.size(); ++i) {
    if (users[i].size() > 1 && std::ranges::find(users[i], own) != users[i].end())
      shared_.push_back({names[i], stage_line()->stages().group(users[i])});
  }
}

std::vector<Tie> LayerChain::ties() const {
  std::vector<Tie> all;
  for (const NamedTensor& parameter : parameters()) {
    for (const SharedName& one : shared_) {
      if (parameter.name == one.name || parameter.name.starts_with(one.name + "."))
        all.push_back({parameter, one.ranks.get()});
    }
  }
  return all;
}

}  // namespace dlpipe::engine
