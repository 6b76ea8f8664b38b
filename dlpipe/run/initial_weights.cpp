#include "dlpipe/run/initial_weights.h"

#include <filesystem>

#include "dlpipe/base/text.h"
#include "dlpipe/run/checkpoint.h"
#include "dlpipe/run/preprocess.h"
#include "dlpipe/run/tensor_file.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using engine::NamedTensor;

// A lone file is read as it is; a checkpoint's own files, and directories, bring their class table.
static std::vector<NamedTensor> read_weights(const std::string& path, const std::vector<std::string>& classes,
                                             bool check_table) {
  if (fs::is_regular_file(path) && !fs::exists(fs::path(path).parent_path() / "state.json")) {
    return value_or_throw(load_tensors(path));
  }
  Checkpoint checkpoint = value_or_throw(load_checkpoint(value_or_throw(find_checkpoint(path)), false));
  if (check_table) {
    throw_if_error(check_classes(path, checkpoint.state.model.classes, "the training data", classes));
  }
  return checkpoint.tensors.ema.empty() ? std::move(checkpoint.tensors.model)
                                        : std::move(checkpoint.tensors.ema);
}

std::vector<std::string> load_weights(const std::string& path, const std::vector<std::string>& classes,
                                      std::string_view head, engine::Module& model) {
  std::vector<NamedTensor> weights = read_weights(path, classes, head.empty());
  const size_t found = weights.size();
  const auto is_head = [&](const std::string& name) { return !head.empty() && name.rfind(head, 0) == 0; };
  std::erase_if(weights, [&](const NamedTensor& named) { return is_head(named.name); });
  if (head.empty()) {
    try {
      model.load_state_dict(weights);
    } catch (const Error& error) {
      throw Error(Status(error.code(), concat(error.what(), " (--init ", path,
                                              "); for other classes than the file's, add --reset-head")));
    }
    return {concat("initial weights: ", found, " tensors from ", path)};
  }
  // The head's names are the only ones that may stay as they are.
  for (const NamedTensor& own : model.state_dict()) {
    if (is_head(own.name)) weights.push_back(own);
  }
  model.load_state_dict(weights);
  return {concat("initial weights: ", found, " tensors from ", path, "; fresh: ", head, "*")};
}

}  // namespace dlpipe::run
