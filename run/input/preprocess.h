// Preprocessing belongs to the model: the chains for training and validation with their normalisation written
// out, and the comparison of class tables. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/shape.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::run {

/// `augment`, with `normalize` (the dataset's own mean and std) at its end unless it normalises already.
Result<std::string> training_chain(const std::string& augment, const augment::OpRegistry& registry);

/// `val_augment`, or by default resize and center_crop to `image` [H,W,C]; normalised with the very numbers
/// that `train_chain` on a dataset with `stats` uses, so that the chain needs no dataset.
Result<std::string> validation_chain(const std::string& val_augment, const std::string& train_chain,
                                     const Shape& image, const data::PixelStats& stats,
                                     const augment::OpRegistry& registry);

/// What the end of `chain` does to images of `channels`, as one `normalize` op with its numbers. kMisuse
/// where they depend on a dataset and `dataset` doesn't say them.
Result<std::string> normalization_in(const std::string& chain, int64_t channels,
                                     const augment::OpRegistry& registry,
                                     const augment::ChannelStats& dataset = {});

/// kMisuse that prints both tables when they differ. `dataset`: one with the first of them, where known.
Status check_classes(std::string_view first_name, std::span<const std::string> first,
                     std::string_view second_name, std::span<const std::string> second,
                     std::string_view dataset = {});

}  // namespace dlpipe::run
