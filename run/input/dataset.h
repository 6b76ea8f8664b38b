// From a path that a user types to the input of a model: which dataset it means, and how its images are prepared.
//
// Which dataset a path means: the dataset itself, or the split DST/train of a folder of splits DST. Reads directories; keeps
// nothing open.
//
// kMisuse for a path to a known other kind of thing (path_kind.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment.h"
#include "dlpipe/dataset.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"

namespace dlpipe::run {

/// The training dataset of `data`: itself, or its "train".
Result<std::string> training_data(const std::string& data);
/// The dataset to validate on: `val` (itself, or its "val"), else the "val" next to or below the training data; "" if there is
/// none.
Result<std::string> validation_data(const std::string& data, const std::string& val);
/// The dataset to evaluate a model on, and a note about the choice ("": none).
struct EvaluationData {
  std::string directory;
  std::string note;
};
/// `data` itself, or `split` (by default "val") of a folder of splits.
Result<EvaluationData> evaluation_data(const std::string& data, const std::string& split);
/// Channels to decode the dataset's images to: 1 if all are grey, else 3; 0 without an image field.
Result<int> image_channels(const std::string& dataset);
/// The names of the fields that a model uses: a model of tokens, or of images with `targets`, by default one class each. And the
/// unused fields as text: "box (boxes), tags (labels)".
struct ModelFields {
  std::vector<std::string> names;
  std::string unused;
};
Result<ModelFields> model_fields(const std::string& dataset, bool takes_tokens,
                                 std::span<const std::string> targets = {});
/// The numbers of the samples of a dataset that have the same value of its field `fold`. A number is written as text: "3".
struct Fold {
  std::string value;
  std::vector<int64_t> samples;
};
/// All folds, in the order of their values. kMisuse, by `command`, unless `dataset` has such a field. Reads every record.
Result<std::vector<Fold>> folds_of(const data::Dataset& dataset, std::string_view command);
/// The samples of fold `value`, and all others. kMisuse, by `command`, if there is no such fold, or no other fold.
struct FoldSamples {
  std::string name;  // "fold 3 of 5"
  std::shared_ptr<const std::vector<int64_t>> own, others;
};
Result<FoldSamples> samples_of_fold(const data::Dataset& dataset, const std::string& value,
                                    std::string_view command);
/// kMisuse, by `command`, if images do not have one class each: it names the fields that they have instead, ModelFields::unused,
/// and what to do. Does not read records.
Status check_samples_have_classes(std::string_view command, const data::Dataset& dataset,
                                  const std::string& unused);
/// kMisuse if `model` takes tokens and the dataset has images, or vice versa.
Status check_input_kind(const std::string& model, bool takes_tokens, const std::string& dataset,
                        int channels);

// Preprocessing belongs to the model: the chains for training and validation with their normalisation written
// out, and the comparison of class tables. Pure functions.

/// `augment`, followed by `normalize` (with the dataset's mean and std) unless it normalises already.
Result<std::string> training_chain(const std::string& augment, const augment::OpRegistry& registry);

/// `val_augment`, or by default resize and center_crop to `image` [H,W,C], without a crop if training sees whole images. It
/// normalises with exactly the numbers that `train_chain` uses on a dataset with `stats`, so the chain does not need the dataset.
Result<std::string> validation_chain(const std::string& val_augment, const std::string& train_chain,
                                     const Shape& image, const data::PixelStats& stats,
                                     const augment::OpRegistry& registry);

/// The normalisation at the end of `chain` for images with `channels`, as one `normalize` op with numbers. kMisuse if they
/// depend on a dataset and `dataset` does not have them.
Result<std::string> normalization_in(const std::string& chain, int64_t channels,
                                     const augment::OpRegistry& registry,
                                     const augment::ChannelStats& dataset = {});

/// kMisuse, with both tables, if they differ. `dataset`: one with the first table, if known.
Status check_classes(std::string_view first_name, std::span<const std::string> first,
                     std::string_view second_name, std::span<const std::string> second,
                     std::string_view dataset = {});

}  // namespace dlpipe::run
