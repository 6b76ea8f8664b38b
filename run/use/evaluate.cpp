#include "run/use/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/core/device_memory.h"
#include "run/input/batch_input.h"

namespace dlpipe::run {

using engine::Tensor;

namespace {

/// Positions [first, last) of an axis.
Tensor part(const Tensor& pixels, int axis, int64_t first, int64_t last) {
  return engine::slice(pixels, axis, first, last);
}

Tensor mirrored(const Tensor& pixels) {
  const Tensor x = engine::plain(pixels);
  const Tensor whole = x.is_contiguous() ? x : x.contiguous_copy();
  const int64_t columns = whole.size(2), channels = whole.size(3);
  const std::span<const int64_t> strides = whole.strides();
  const std::array<int64_t, 4> turned = {strides[0], strides[1], -channels, 1};
  return whole.view_as(whole.shape(), turned, (columns - 1) * channels).contiguous_copy();
}

// Moves the image along an axis: position i gets what was at i + by, where `by` is 1 or -1. The edge is reflected about the
// outermost position.
Tensor moved(const Tensor& pixels, int axis, int64_t by) {
  const int64_t size = pixels.size(axis);
  if (size < 2) return pixels;
  const Tensor reflected = by > 0 ? part(pixels, axis, size - 2, size - 1) : part(pixels, axis, 1, 2);
  if (by > 0) return engine::concat({part(pixels, axis, 1, size), reflected}, axis);
  return engine::concat({reflected, part(pixels, axis, 0, size - 1)}, axis);
}

Tensor translated(const Tensor& pixels, int64_t by) {
  return moved(moved(engine::plain(pixels), 1, by), 2, by);
}

Tensor plain_logits(engine::Module& model, const Tensor& pixels) {
  return engine::plain(engine::cast(model(pixels), DType::kF32));
}

Tensor flip_logits(engine::Module& model, const Tensor& pixels) {
  return engine::scale(engine::add(plain_logits(model, pixels), plain_logits(model, mirrored(pixels))), 0.5);
}

/// The smallest extent with a crop of at least `extent`.
int64_t extent_for_crop(int64_t extent) {
  return (extent * 8 + 6) / 7;
}

/// A chain that makes images of this size.
std::string chain_for(int64_t height, int64_t width) {
  return height == width ? concat("resize(", height, ") center_crop(", height, ")")
                         : concat("resize(", height, "x", width, ")");
}

/// Extends `error` from a model that got crops of `whole`: most likely it only accepts the full size.
Error with_crop_advice(const Error& error, const Tensor& whole, bool flips) {
  const int64_t height = whole.size(1), width = whole.size(2);
  return Error(Status(
      error.code(),
      concat(error.what(), "; --tta ", flips ? "ten_crop" : "five_crop", " passes crops of ",
             seen_extent(height, Views::kFiveCrop), "x", seen_extent(width, Views::kFiveCrop),
             " from images of ", height, "x", width, " to the model; if it needs ", height, "x", width,
             ", give --val-augment \"", chain_for(extent_for_crop(height), extent_for_crop(width)), "\"")));
}

/// The mean over the crops of the corners and the centre, each also mirrored if `flips`.
Tensor crop_logits(engine::Module& model, const Tensor& pixels, bool flips) {
  const Tensor whole = engine::plain(pixels);
  const int64_t height = seen_extent(whole.size(1), Views::kFiveCrop);
  const int64_t width = seen_extent(whole.size(2), Views::kFiveCrop);
  const int64_t down = whole.size(1) - height, across = whole.size(2) - width;
  // Half of the rest, rounded half to even, as torchvision does for the centre.
  const auto middle = [](int64_t rest) { return rest / 2 + (rest % 2 == 1 && rest / 2 % 2 == 1 ? 1 : 0); };
  const std::array<std::array<int64_t, 2>, 5> places = {
      {{0, 0}, {0, across}, {down, 0}, {down, across}, {middle(down), middle(across)}}};
  Tensor sum;
  for (const auto& [top, left] : places) {
    const Tensor crop = part(part(whole, 1, top, top + height), 2, left, left + width).contiguous_copy();
    Tensor logits;
    try {
      logits = flips ? flip_logits(model, crop) : plain_logits(model, crop);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kMisuse) throw;
      throw with_crop_advice(error, whole, flips);
    }
    sum = sum.defined() ? engine::add(sum, logits) : logits;
  }
  return engine::scale(sum, 1.0 / static_cast<double>(places.size()));
}

}  // namespace

int64_t seen_extent(int64_t extent, Views views) {
  const bool is_cropped = views == Views::kFiveCrop || views == Views::kTenCrop;
  return is_cropped ? std::max<int64_t>(extent * 7 / 8, 1) : extent;
}

Tensor view_logits(engine::Module& model, const Tensor& pixels, Views views) {
  const engine::InferenceMode mode;
  if (views == Views::kOne) return plain_logits(model, pixels);
  if (views == Views::kFiveCrop || views == Views::kTenCrop)
    return crop_logits(model, pixels, views == Views::kTenCrop);
  Tensor logits = flip_logits(model, pixels);
  if (views == Views::kFlip) return logits;
  const Tensor moved =
      engine::add(flip_logits(model, translated(pixels, -1)), flip_logits(model, translated(pixels, 1)));
  return engine::add(engine::scale(logits, 0.5), engine::scale(moved, 0.25));
}

namespace {

int64_t dropped_rows(const Batch& batch) {
  const std::span<const float> there = batch.weight.first(static_cast<size_t>(batch.count));
  return std::count(there.begin(), there.end(), 0.0f);
}

/// The sums over some rows, added in their order.
struct Sums {
  double loss = 0;
  double weight = 0;
  std::unique_ptr<Tally> tally;
};

/// The bytes of `sums` that ranks exchange: loss, weight, the tally's length, and the tally.
std::string counted_bytes(const Sums& sums) {
  const std::string tally = sums.tally->bytes();
  return concat(bytes_of(std::array<double, 3>{sums.loss, sums.weight, static_cast<double>(tally.size())}),
                tally);
}

/// Sums that a rank sent. take_counted() reads the first ones in `bytes` and removes them from it.
struct Counted {
  double loss = 0;
  double weight = 0;
  std::string tally;
};
Counted take_counted(std::string_view& bytes) {
  const std::vector<double> head = doubles_of(bytes.substr(0, 3 * sizeof(double)));
  const auto size = static_cast<size_t>(head.at(2));
  Counted counted{head[0], head[1], std::string(bytes.substr(3 * sizeof(double), size))};
  bytes.remove_prefix(3 * sizeof(double) + size);
  return counted;
}

/// One pass over the data, with one Sums for all rows, or one per grain if batches are divided into grains.
class Pass {
 public:
  Pass(engine::Module& model, const EvalOptions& options, const LogitsObserver& observer)
      : model_(model),
        options_(options),
        task_(options.task != nullptr ? *options.task : task_of({})),
        observer_(observer),
        grains_(options.ranks != nullptr ? options.grains / options.ranks->world() : options.grains) {
    if (options.grains == 1) add_sums();
  }

  void take(const Batch& batch) {
    const BatchInput input = batch_input(batch, model_.device(), options_.target);
    for (int64_t grain = 0; grain < grains_; ++grain) {
      const bool cuts = options_.grains > 1;
      if (cuts) add_sums();
      const Tensor logits = judge(batch, cuts ? input.part(grain, grains_) : input, sums_.back());
      if (observer_)
        observer_(batch, {logits.data<float>(), static_cast<size_t>(logits.elements())},
                  logits.elements() / logits.size(0));
    }
    const int64_t dropped = dropped_rows(batch);
    dropped_ += dropped;
    samples_ += batch.count - dropped;
  }

  EvalReport report(OutputReport* figures) const {
    EvalReport report;
    double loss = 0, weight = 0;
    std::vector<std::string> tallies;
    for (Counted& each : all_counted(report)) {
      loss += each.loss;
      weight += each.weight;
      tallies.push_back(std::move(each.tally));
    }
    const bool has_no_object =
        weight == 0 && task_.output == engine::ModelOutput::kBoxes && report.samples > 0;
    report.loss = weight > 0      ? loss / weight
                  : has_no_object ? loss
                                  : std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> values = task_.judge(tallies, options_.metrics, options_.task_state);
    for (size_t m = 0; m < options_.metrics.size(); ++m) {
      const std::string_view name = options_.metrics[m]->name;
      // The chosen loss is reported, which is not always the cross-entropy of the metric.
      report.metrics.emplace_back(name, name == engine::kLossMetric ? report.loss : values.at(m));
    }
    if (figures != nullptr && task_.report != nullptr)
      figures->figures = task_.report(tallies, options_.task_state, figures->names);
    return report;
  }

 private:
  void add_sums() {
    sums_.emplace_back();
    sums_.back().tally = task_.tally(options_.metrics, options_.task_state);
  }

  /// Logits of the rows, on the host.
  Tensor judge(const Batch& batch, const BatchInput& input, Sums& sums) {
    const engine::UseAutocast autocast(options_.dtype);
    const engine::UseTf32 tf32(options_.tf32);
    const Tensor there = view_logits(model_, input.pixels, options_.views);
    Tensor logits = there.contiguous_copy().to(cpu_device());
    options_.count ? options_.count(batch, logits, *sums.tally) : sums.tally->add(logits, input);
    if (task_.output == engine::ModelOutput::kPixels) {
      add_loss_by_image(there, input, sums);
    } else if (input.total_weight > 0) {
      sums.loss += loss_of(there, input.target, input.weight) * input.total_weight;
      sums.weight +=
          input.has_object ? input.total_weight : 0;  // else its loss counts for the objects of others
    }
    return logits;
  }

  double loss_of(const Tensor& outputs, const Tensor& target, const Tensor& weight) const {
    return options_.loss->compute(outputs, target, weight, options_.loss_arguments).item();
  }

  /// Adds each image's loss, weighted by the number of its pixels that count. The Dice loss is one number for all its pixels;
  /// that of a whole batch would depend on how images are batched.
  void add_loss_by_image(const Tensor& outputs, const BatchInput& input, Sums& sums) const {
    const int64_t images = outputs.size(0), pixels = input.target.elements() / images;
    const Tensor weights = input.weight.to(cpu_device());
    const auto own = [&](const Tensor& x, int64_t image) {
      return x.view_as({pixels}, std::array<int64_t, 1>{1}, image * pixels).contiguous_copy();
    };
    for (int64_t image = 0; image < images; ++image) {
      const float* const weight = weights.data<float>() + image * pixels;
      const double total_weight = std::accumulate(weight, weight + pixels, 0.0);
      if (total_weight == 0) continue;
      const Tensor one = engine::slice(outputs, 0, image, image + 1);
      sums.loss += loss_of(one, own(input.target, image), own(input.weight, image)) * total_weight;
      sums.weight += total_weight;
    }
  }

  /// The sums of all ranks, in the order of batches and grains. Counts of samples go into `report`.
  std::vector<Counted> all_counted(EvalReport& report) const {
    report.samples = samples_;
    report.dropped = dropped_;
    std::string mine;
    for (const Sums& sums : sums_) mine += counted_bytes(sums);
    std::vector<std::string> texts = {mine};
    if (options_.ranks != nullptr) {
      const std::array counts = {static_cast<double>(samples_), static_cast<double>(dropped_)};
      texts =
          value_or_throw(options_.ranks->gather(concat(bytes_of(counts), mine), "the results of validation"));
      report.samples = report.dropped = 0;
    }
    std::vector<std::string_view> left;
    for (const std::string& text : texts) {
      left.emplace_back(text);
      if (options_.ranks == nullptr) continue;
      const std::vector<double> counts = doubles_of(left.back().substr(0, 2 * sizeof(double)));
      report.samples += static_cast<int64_t>(counts.at(0));
      report.dropped += static_cast<int64_t>(counts.at(1));
      left.back().remove_prefix(2 * sizeof(double));
    }
    std::vector<Counted> all;
    const bool cuts = options_.grains > 1;
    while (std::ranges::any_of(left, [](std::string_view bytes) { return !bytes.empty(); })) {
      for (std::string_view& bytes : left) {
        for (int64_t grain = 0; grain < (cuts ? grains_ : 1) && !bytes.empty(); ++grain)
          all.push_back(take_counted(bytes));
      }
    }
    return all;
  }

  engine::Module& model_;
  const EvalOptions& options_;
  const TaskRecord& task_;
  const LogitsObserver& observer_;
  const int64_t grains_;  // of this rank
  std::vector<Sums> sums_;
  int64_t samples_ = 0;
  int64_t dropped_ = 0;
};

/// Whether evaluation should end here; all ranks end at the same batch.
bool is_stopped(const EvalOptions& options) {
  const bool mine = options.stop != nullptr && options.stop->load();
  if (options.all_ranks == nullptr) return mine;
  const std::vector<std::string> all =
      value_or_throw(options.all_ranks->gather(mine ? "1" : "0", "a batch of validation"));
  return std::any_of(all.begin(), all.end(), [](const std::string& text) { return text == "1"; });
}

}  // namespace

double EvalReport::value(std::string_view name) const {
  if (name == engine::kLossMetric) return loss;
  for (const auto& [metric, metric_value] : metrics) {
    if (metric == name) return metric_value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

EvalReport evaluate(engine::Module& model, BatchSource& source, const EvalOptions& options,
                    const LogitsObserver& observer, OutputReport* figures) {
  const int64_t begin_ns = now_ns();
  const engine::EvalScope mode(model);
  const engine::NoGrad no_grad;
  Device& device = model.device();
  Pass pass(model, options, observer);
  while (true) {
    if (is_stopped(options)) throw Error(Status(ErrorCode::kCancelled, "[eval] stopped by a signal"));
    const std::optional<Batch> batch = value_or_throw(source.next());
    if (!batch) break;
    pass.take(*batch);
    const bool is_last = batch->last_in_epoch;
    throw_if_error(source.release(*batch, device.is_host() ? nullptr : &engine::engine_stream(device)));
    if (is_last) break;
  }
  EvalReport report = pass.report(figures);
  report.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace dlpipe::run
