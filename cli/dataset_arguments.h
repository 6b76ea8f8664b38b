// What commands that take a dataset or a folder of splits share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::cli {

struct NamedDataset {
  std::string split;  // "" when the directory is one dataset
  std::shared_ptr<const data::Dataset> dataset;
};

/// DST itself, or all of its splits, sorted by name.
Result<std::vector<NamedDataset>> open_all(const std::string& directory,
                                           data::Dataset::IdCheck check = data::Dataset::IdCheck::kRefuse);

}  // namespace dlpipe::cli
