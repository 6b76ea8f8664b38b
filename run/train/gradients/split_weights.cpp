#include "run/train/gradients/split_weights.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "dlpipe/dtype.h"
#include "dlpipe/tensor.h"
#include "engine/layers/split.h"
#include "io/formats/json.h"
#include "run/record/checkpoint.h"

namespace dlpipe::run {

using engine::NamedSplit;
using engine::NamedTensor;
using engine::Tensor;
using formats::Json;

namespace {

/// Whether `name` is that of the parameter, or of a tensor that belongs to it.
bool is_of(const std::string& name, const std::string& parameter) {
  return name == parameter || name.starts_with(parameter + ".");
}

Json form_of(const NamedTensor& one) {
  Json shape = Json::array();
  for (const int64_t size : one.tensor.shape()) shape.push_back(size);
  return Json::object(
      {{"name", one.name}, {"dtype", std::string(dtype_name(one.tensor.dtype()))}, {"shape", shape}});
}

NamedTensor empty_of(const Json& form) {
  Shape shape;
  for (const Json& size : form["shape"].items()) shape.push_back(size.as_int());
  return {form["name"].as_string(),
          Tensor::empty(shape, value_or_throw(parse_dtype(form["dtype"].as_string())))};
}

}  // namespace

SplitWeights::SplitWeights(engine::Module& model, engine::RankGrid ranks, const engine::LayerCost& cost)
    : ranks_(std::move(ranks)) {
  const std::vector<NamedTensor> all = model.state_dict();
  if (ranks_.stages != nullptr) model.keep_stage(*ranks_.stages, cost);
  if (ranks_.tensor != nullptr) model.split_over(*ranks_.tensor);
  splits_ = model.splits();
  const std::vector<NamedTensor> kept = model.state_dict();
  for (const NamedTensor& one : all) {
    const auto is_it = [&](const NamedTensor& own) { return own.name == one.name; };
    if (std::ranges::none_of(kept, is_it)) elsewhere_.push_back(one.name);
  }
}

const NamedSplit* SplitWeights::find(const std::string& name) const {
  const auto found =
      std::ranges::find_if(splits_, [&](const NamedSplit& one) { return is_of(name, one.name); });
  return found == splits_.end() ? nullptr : &*found;
}

bool SplitWeights::is_of_another_stage(const std::string& name) const {
  return std::ranges::any_of(elsewhere_, [&](const std::string& its) { return is_of(name, its); });
}

std::vector<NamedTensor> SplitWeights::own(const std::vector<NamedTensor>& whole) const {
  std::vector<NamedTensor> own;
  for (const NamedTensor& one : whole) {
    if (is_of_another_stage(one.name)) continue;
    const NamedSplit* const split = find(one.name);
    own.push_back({one.name, split != nullptr ? engine::own_part(one.tensor, split->split, *ranks_.tensor)
                                              : one.tensor});
  }
  return own;
}

std::vector<NamedTensor> SplitWeights::whole(std::vector<NamedTensor> own) const {
  if (ranks_.tensor != nullptr) {
    check_same(own);
    for (NamedTensor& one : own) {
      if (const NamedSplit* split = find(one.name))
        one.tensor = engine::whole_of(one.tensor, split->split, split->size, *ranks_.tensor, one.name);
    }
  }
  return ranks_.stages != nullptr ? of_all_stages(own) : own;
}

// Every rank has these tensors whole and computes them separately from the same numbers, so they must be equal.
void SplitWeights::check_same(const std::vector<NamedTensor>& tensors) const {
  std::string mine;
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors) {
    if (find(one.name) != nullptr) continue;
    names.push_back(one.name);
    mine += hex64(hash_tensors({&one, 1}, 0));
  }
  for (const std::string& its :
       value_or_throw(ranks_.tensor->gather(mine, "the hash of the tensors that are not split"))) {
    if (its == mine) continue;
    size_t first = 0;
    const size_t length = mine.size() / names.size();
    while (its.substr(first * length, length) == mine.substr(first * length, length)) ++first;
    throw Error(Status(ErrorCode::kInternal,
                       concat("[train] ranks that compute the same samples differ in ", names[first],
                              "; their kernels computed different bits. Resume from the last checkpoint with "
                              "--kernels rules")));
  }
}

// Collects tensors stage by stage, which is the model's order. A tensor of several stages comes from the first of them.
std::vector<NamedTensor> SplitWeights::of_all_stages(const std::vector<NamedTensor>& own) const {
  engine::Collective& stages = *ranks_.stages;
  Json forms = Json::array();
  for (const NamedTensor& one : own) forms.push_back(form_of(one));
  const std::vector<std::string> texts =
      value_or_throw(stages.gather(forms.dump(), "the tensors of all stages"));
  std::vector<NamedTensor> all;
  std::unordered_set<std::string> names;
  for (size_t stage = 0; stage < texts.size(); ++stage) {
    const Json its = value_or_throw(Json::parse(texts[stage]));
    const bool is_own = static_cast<int>(stage) == stages.rank();
    for (size_t i = 0; i < its.items().size(); ++i) {
      const Json& form = its.items()[i];
      if (!names.insert(form["name"].as_string()).second) continue;
      NamedTensor& one = all.emplace_back(is_own ? NamedTensor{own[i].name, own[i].tensor.contiguous_copy()}
                                                 : empty_of(form));
      throw_if_error(
          stages.broadcast(engine::bytes_of(one.tensor), static_cast<int>(stage), one.name).wait());
    }
  }
  return all;
}

}  // namespace dlpipe::run
