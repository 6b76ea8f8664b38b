#include "dlpipe/run/train/session/initial_weights.h"

#include "dlpipe/base/text.h"
#include "dlpipe/run/input/preprocess.h"
#include "dlpipe/run/record/saved_config.h"

namespace dlpipe::run {

static constexpr std::string_view kOtherClasses = "for other classes than the file's, add --reset-head";

std::vector<std::string> load_initial_weights(const WeightsSource& source, const ModelState& data,
                                              const engine::ModelRecord& record, bool reset_head,
                                              engine::Module& model, const Registries& registries) {
  const bool says_classes = source.state && !source.state->classes.empty();
  if (says_classes && !reset_head) {
    const Status same = check_classes(source.path, source.state->classes, "the training data", data.classes,
                                      dataset_of_run(source.path));
    if (!same.ok()) throw Error(Status(same.code(), concat(same.message(), "\n  ", kOtherClasses)));
  }
  copy_weights(source, record, reset_head, model, data.arguments, registries, concat("; ", kOtherClasses));
  std::vector<std::string> lines = source.notes;
  lines.push_back(concat("initial weights: ", source.shapes.size(), " tensors from ", source.path,
                         reset_head ? concat("; fresh: ", record.head, "*") : std::string()));
  return lines;
}

}  // namespace dlpipe::run
