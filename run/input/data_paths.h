// Which dataset a path means: the dataset itself, or of a folder of splits DST the split DST/train. Reads directories; keeps nothing open.
//
// A path that is known as another kind of thing (path_kind.h) is kMisuse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::run {

/// The training dataset of `data`: itself, or its "train".
Result<std::string> training_data(const std::string& data);
/// The dataset to validate on: `val` (itself, or its "val"), else the "val" beside or below the training
/// data; "" when there is none.
Result<std::string> validation_data(const std::string& data, const std::string& val);
/// The dataset to judge a model on, and what a person is to know of the choice ("": nothing).
struct EvaluationData {
  std::string directory;
  std::string note;
};
/// `data` itself, or of a folder of splits `split`, by default "val".
Result<EvaluationData> evaluation_data(const std::string& data, const std::string& split);
/// Channels that the dataset's images are best decoded to: 1 when all are grey, else 3;
/// 0 where it has no image field.
Result<int> image_channels(const std::string& dataset);
/// What a model of pictures with one class each, or of tokens, takes of a dataset, by name; and the fields that it has no use
/// for, in words: "box (boxes), tags (labels)".
struct ModelFields {
  std::vector<std::string> names;
  std::string unused;
};
Result<ModelFields> model_fields(const std::string& dataset, bool takes_tokens);
/// kMisuse, by `command`, where pictures have no class of their own: it names the fields that they have instead, ModelFields::unused,
/// and what to do. Reads no record.
Status check_samples_have_classes(std::string_view command, const data::Dataset& dataset,
                                  const std::string& unused);
/// kMisuse where `model` takes tokens and the dataset has pictures, or the other way round.
Status check_input_kind(const std::string& model, bool takes_tokens, const std::string& dataset,
                        int channels);

}  // namespace dlpipe::run
