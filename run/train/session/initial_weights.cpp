#include "dlpipe/run/train/session/initial_weights.h"

#include "dlpipe/base/text.h"
#include "dlpipe/run/input/preprocess.h"

namespace dlpipe::run {

std::vector<std::string> load_initial_weights(const WeightsSource& source,
                                              const std::vector<std::string>& classes,
                                              const engine::ModelRecord& record, bool reset_head,
                                              engine::Module& model, const Registries& registries) {
  if (source.state && !reset_head) {
    throw_if_error(check_classes(source.path, source.state->classes, "the training data", classes));
  }
  copy_weights(source, record, reset_head, model, registries,
               "; for other classes than the file's, add --reset-head");
  std::vector<std::string> lines = source.notes;
  lines.push_back(concat("initial weights: ", source.shapes.size(), " tensors from ", source.path,
                         reset_head ? concat("; fresh: ", record.head, "*") : std::string()));
  return lines;
}

}  // namespace dlpipe::run
