// Pictures of what augmentation chains do: samples of a dataset, each beside several results of a chain, or of two chains
// below each other, in one PNG. Draws are a run's of the same seed, at the samples' own places in file order.
//
// One thread; memory for one picture and the grid.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/use/preview_marks.h"

namespace dlpipe::run {

struct PreviewOptions {
  std::vector<std::string> chains;  // expressions: one, or two to compare
  std::string out;                  // PNG, written whole or not at all
  int64_t samples = 5;              // spread over the dataset
  int64_t times = 8;                // results per sample and chain
  int64_t cell = 160;               // pixels of the square that a picture is fitted into
  uint64_t seed = 0;
  int64_t channels = 3;
  int64_t max_pixels = 178'956'970;  // samples with larger pictures can't be shown
  MarkKinds marks;                   // drawn over originals and results
};

/// One picture of the grid.
struct PreviewCell {
  int64_t sample = 0;
  int chain = 0;
  int64_t time = 0;
  std::string drawn;  // Chain::describe
};

struct PreviewReport {
  int width = 0;
  int height = 0;
  std::vector<PreviewCell> cells;     // in reading order, originals left out
  std::map<int64_t, Status> damaged;  // samples that can't be shown; their cells stay empty
};

/// Errors name the chain, the sample or the file. A damaged sample is an error only where no other can be shown.
Result<PreviewReport> preview(const data::Dataset& dataset, const PreviewOptions& options,
                              const augment::OpRegistry& registry = augment::OpRegistry::builtin());

}  // namespace dlpipe::run
