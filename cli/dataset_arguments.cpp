#include "dlpipe/cli/dataset_arguments.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::cli {

Result<std::vector<NamedDataset>> open_all(const std::string& directory, data::Dataset::IdCheck check) {
  DLPIPE_ASSIGN_OR_RETURN(const bool is_dataset, data::holds_dataset(directory));
  if (!is_dataset && run::find_checkpoint(directory).ok()) {
    return misuse("dataset", directory, " is a run and no dataset; `dlpipe info ", shell_word(directory),
                  "` shows its model, `dlpipe doctor ", shell_word(directory), "` who waited for whom");
  }
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> splits, data::split_names(directory));
  if (splits.empty()) splits.push_back("");
  std::vector<NamedDataset> all;
  for (const std::string& split : splits) {
    DLPIPE_ASSIGN_OR_RETURN(auto dataset, data::Dataset::open(directory, split, check));
    all.push_back({split, std::move(dataset)});
  }
  return all;
}

}  // namespace dlpipe::cli
