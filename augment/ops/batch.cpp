// Ops that change no pixels and describe how the engine, or the loader, converts the batch's bytes.
#include <algorithm>

#include "base/text.h"
#include "dlpipe/augment_op.h"

namespace dlpipe::augment {

// normalize(mean, std): y = (x / 255 - mean) / std per channel, recorded for the engine, which applies it together with the
// conversion to floating point in one pass: scale = 1 / (255 std), bias = -mean / std. Without arguments, the dataset's mean
// and std are used (or the model's, when it is evaluated); those of a grey dataset apply to all channels of its images, which
// may be loaded as RGB.
namespace {

class Normalize : public PrepOp {
 public:
  Normalize(std::vector<double> mean, std::vector<double> deviation)
      : mean_(std::move(mean)), std_(std::move(deviation)) {}

  Status fill(const ChannelStats& dataset, BatchPrep& prep) const override {
    ChannelStats stats = dataset;
    if (stats.channels == 1) {
      stats.mean.fill(dataset.mean[0]);
      stats.std.fill(dataset.std[0]);
      stats.channels = BatchPrep::kMaxChannels;
    }
    for (size_t c = 0; c < stats.mean.size() && !mean_.empty(); ++c) {
      stats.mean[c] = mean_[std::min(c, mean_.size() - 1)];
    }
    for (size_t c = 0; c < stats.std.size() && !std_.empty(); ++c) {
      stats.std[c] = std_[std::min(c, std_.size() - 1)];
    }
    const int channels = mean_.empty() || std_.empty() ? stats.channels : BatchPrep::kMaxChannels;
    if (channels <= 0) {
      return Status(ErrorCode::kMisuse,
                    "the dataset's mean and std are unknown; write normalize(mean=r:g:b,std=r:g:b)");
    }
    for (int c = 0; c < channels; ++c) {
      // A constant channel has no spread to divide by, so it is only centred.
      const double deviation = stats.std[c] > 0 ? stats.std[c] : 1.0;
      prep.scale[c] = static_cast<float>(1.0 / (255.0 * deviation));
      prep.bias[c] = static_cast<float>(-stats.mean[c] / deviation);
    }
    return {};
  }

 private:
  std::vector<double> mean_;  // empty: the dataset's
  std::vector<double> std_;
};

/// Numbers of 0 to 255 are a common mistake for 0 to 1.
const char* advice_for(double value) {
  return value > 1 && value <= 255 ? "; divide it by 255" : "; leave mean and std out to use the dataset's";
}

Result<std::shared_ptr<const PrepOp>> build_normalize(OpArguments& arguments) {
  std::vector<double> mean = arguments.numbers("mean");
  std::vector<double> deviation = arguments.numbers("std");
  for (const std::vector<double>* values : {&mean, &deviation}) {
    if (values->size() > size_t{BatchPrep::kMaxChannels}) {
      return Status(ErrorCode::kMisuse,
                    concat("mean and std need one value, or one per channel, got ", values->size()));
    }
  }
  if (mean.size() > 1 && deviation.size() > 1 && mean.size() != deviation.size()) {
    return Status(ErrorCode::kMisuse, concat("mean has ", mean.size(), " values and std ", deviation.size(),
                                             "; give the same number of each"));
  }
  if (mean.size() == 2 || deviation.size() == 2) {  // no image has two channels
    return Status(ErrorCode::kMisuse, "mean and std need one value, or one per channel, got 2");
  }
  for (const double value : mean) {
    if (!(value >= 0 && value <= 1))
      return Status(ErrorCode::kMisuse,
                    concat("mean is for pixels scaled to 0..1, got ", value, advice_for(value)));
  }
  for (const double value : deviation) {
    if (!(value > 0 && value <= 1))
      return Status(ErrorCode::kMisuse, concat("std is for pixels scaled to 0..1 and must be positive, got ",
                                               value, advice_for(value)));
  }
  return std::shared_ptr<const PrepOp>(std::make_shared<Normalize>(std::move(mean), std::move(deviation)));
}

}  // namespace

extern const OpRecord normalize_augmentation = {
    .name = "normalize",
    .help = "subtract mean and divide by std per channel; default: the dataset's own",
    .version = 1,
    .params = {{"mean", "list", "none", "for pixels in 0..1, one per channel"},
               {"std", "list", "none", "for pixels in 0..1, one per channel"}},
    .build = nullptr,
    .build_prep = build_normalize};

// cast(dtype): the floating-point type of the training input, recorded for the engine.
namespace {

class Cast : public PrepOp {
 public:
  explicit Cast(DType dtype) : dtype_(dtype) {}

  Status fill(const ChannelStats&, BatchPrep& prep) const override {
    prep.dtype = dtype_;
    return {};
  }

 private:
  DType dtype_;
};

Result<std::shared_ptr<const PrepOp>> build_cast(OpArguments& arguments) {
  const std::string name = arguments.text("dtype");
  const std::vector<std::string> known = {"f32", "bf16", "f16"};
  if (std::ranges::find(known, name) == known.end())
    return Status(ErrorCode::kMisuse, concat("dtype can't be '", name, "'", suggestion(name, known)));
  return std::shared_ptr<const PrepOp>(std::make_shared<Cast>(value_or_throw(parse_dtype(name))));
}

}  // namespace

extern const OpRecord cast_augmentation = {
    .name = "cast",
    .help = "the element type of the training input (ConvertImageDtype, ToFloat, ToDtype)",
    .version = 1,
    .params = {{"dtype", "string", "", "f32, bf16 or f16"}},
    .build = nullptr,
    .build_prep = build_cast};

}  // namespace dlpipe::augment
