#include "dlpipe/run/train/split_weights.h"

#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/run/record/tensor_file.h"

namespace dlpipe::run {

using engine::NamedSplit;
using engine::NamedTensor;

SplitWeights::SplitWeights(const engine::Module& model, engine::Collective* ranks)
    : splits_(model.splits()), ranks_(ranks) {}

const NamedSplit* SplitWeights::find(const std::string& name) const {
  for (const NamedSplit& one : splits_) {
    if (name == one.name || name.starts_with(one.name + ".")) return &one;
  }
  return nullptr;
}

std::vector<NamedTensor> SplitWeights::parts_of(std::vector<NamedTensor> whole) const {
  for (NamedTensor& one : whole) {
    if (const NamedSplit* split = find(one.name))
      one.tensor = engine::own_part(one.tensor, split->split, *ranks_);
  }
  return whole;
}

std::vector<NamedTensor> SplitWeights::whole_of(std::vector<NamedTensor> parts) const {
  if (ranks_ == nullptr) return parts;
  check_same(parts);
  for (NamedTensor& one : parts) {
    if (const NamedSplit* split = find(one.name))
      one.tensor = engine::whole_of(one.tensor, split->split, split->size, *ranks_, one.name);
  }
  return parts;
}

// Every rank computes these by itself from the same numbers.
void SplitWeights::check_same(const std::vector<NamedTensor>& tensors) const {
  std::string mine;
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors) {
    if (find(one.name) != nullptr) continue;
    names.push_back(one.name);
    mine += hex64(hash_tensors({&one, 1}, 0));
  }
  for (const std::string& its :
       value_or_throw(ranks_->gather(mine, "the hash of what every rank has whole"))) {
    if (its == mine) continue;
    size_t first = 0;
    const size_t length = mine.size() / names.size();
    while (its.substr(first * length, length) == mine.substr(first * length, length)) ++first;
    throw Error(Status(
        ErrorCode::kInternal,
        concat("[train] ranks that compute the same samples differ in ", names[first],
               "; their kernels gave different bits. Go on from the last checkpoint with --kernels rules")));
  }
}

}  // namespace dlpipe::run
