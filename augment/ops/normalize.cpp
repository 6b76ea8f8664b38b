// normalize(mean, std): y = (x / 255 - mean) / std per channel, written down for the engine, which does it
// with the conversion to floating point in one pass: scale = 1 / (255 std), bias = -mean / std. Without
// arguments the data set's mean and std are taken (or the model's, when it is evaluated); those of a grey one are for all
// channels of its pictures, which may be loaded as RGB.
#include <algorithm>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

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
                    "the data set's mean and std aren't known; write normalize(mean=r:g:b,std=r:g:b)");
    }
    for (int c = 0; c < channels; ++c) {
      // A channel that never changes has no spread to divide by: it is centred alone.
      const double deviation = stats.std[c] > 0 ? stats.std[c] : 1.0;
      prep.scale[c] = static_cast<float>(1.0 / (255.0 * deviation));
      prep.bias[c] = static_cast<float>(-stats.mean[c] / deviation);
    }
    return {};
  }

 private:
  std::vector<double> mean_;  // empty: the data set's
  std::vector<double> std_;
};

/// Numbers of 0 to 255 are what is given in place of those of 0 to 1.
const char* advice_for(double value) {
  return value > 1 && value <= 255 ? "; divide it by 255" : "; leave mean and std out for the data set's";
}

Result<std::shared_ptr<const PrepOp>> build(OpArguments& arguments) {
  std::vector<double> mean = arguments.numbers("mean");
  std::vector<double> deviation = arguments.numbers("std");
  for (const std::vector<double>* values : {&mean, &deviation}) {
    if (values->size() > size_t{BatchPrep::kMaxChannels}) {
      return Status(ErrorCode::kMisuse,
                    concat("mean and std take one value, or one per channel, got ", values->size()));
    }
  }
  if (mean.size() > 1 && deviation.size() > 1 && mean.size() != deviation.size()) {
    return Status(ErrorCode::kMisuse, concat("mean has ", mean.size(), " values and std ", deviation.size(),
                                             "; give as many of each"));
  }
  if (mean.size() == 2 || deviation.size() == 2) {  // no picture has two channels
    return Status(ErrorCode::kMisuse, "mean and std take one value, or one per channel, got 2");
  }
  for (const double value : mean) {
    if (!(value >= 0 && value <= 1))
      return Status(ErrorCode::kMisuse,
                    concat("mean is of pixels scaled to 0..1, got ", value, advice_for(value)));
  }
  for (const double value : deviation) {
    if (!(value > 0 && value <= 1))
      return Status(ErrorCode::kMisuse, concat("std is of pixels scaled to 0..1 and must be positive, got ",
                                               value, advice_for(value)));
  }
  return std::shared_ptr<const PrepOp>(std::make_shared<Normalize>(std::move(mean), std::move(deviation)));
}

}  // namespace

extern const OpRecord normalize_augmentation = {
    .name = "normalize",
    .help = "per channel, minus mean over std; without arguments the data set's own",
    .version = 1,
    .params = {{"mean", "list", "none", "of pixels in 0..1, one per channel"},
               {"std", "list", "none", "of pixels in 0..1, one per channel"}},
    .build = nullptr,
    .build_prep = build};

}  // namespace dlpipe::augment
