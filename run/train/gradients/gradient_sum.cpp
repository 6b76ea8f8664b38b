#include "dlpipe/run/train/gradients/gradient_sum.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/flat_sum.h"
#include "dlpipe/engine/layers/recompute.h"
#include "dlpipe/engine/optim/flat_groups.h"
#include "dlpipe/run/train/gradients/device_travel.h"
#include "dlpipe/run/train/gradients/gradient_block.h"
#include "dlpipe/run/train/gradients/gradient_layout.h"
#include "dlpipe/run/train/gradients/host_landing.h"

namespace dlpipe::run {

using engine::Collective;
using engine::flat_add;
using engine::flat_add_rounded;
using engine::flat_copy;
using engine::NamedTensor;
using engine::Tensor;

namespace {

int trailing_ones(int64_t n) {
  int ones = 0;
  for (; (n & 1) != 0; n >>= 1) ++ones;
  return ones;
}

}  // namespace

class GradientSum::Sums {
 public:
  Sums(const std::vector<NamedTensor>& parameters, const Form& form)
      : form_(form),
        layout_(layout_of(parameters, form)),
        device_(layout_.device()),
        travels_(layout_.buckets.size()) {
    if (form.device_sums != nullptr && form.ranks != nullptr)
      on_device_.emplace(device_, *form.device_sums, form.peer_timeout_s);
    taken_.resize(layout_.places.size());
    for (int level = 0; level < trailing_ones(form.grains - 1); ++level) levels_.emplace_back(layout_);
    for (int64_t lane = 0; form.batches > 1 && lane < form.grains; ++lane) lanes_.emplace_back(layout_);
    if (form.shares) shares_ = own_shares(layout_, parameters.size(), *form.ranks);
  }
  ~Sums() {
    for (Travel& travel : travels_) (void)travel.handle.wait();
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  void watch(const std::shared_ptr<Sums>& self) {
    for (size_t i = 0; i < layout_.places.size(); ++i) {
      layout_.places[i].parameter.register_hook([weak = std::weak_ptr(self), i](const Tensor& grad) {
        if (const auto sums = weak.lock()) sums->arrive(i, grad);
        return Tensor();
      });
    }
  }

  void begin_step(int64_t step) {
    step_ = step;
    next_bucket_ = next_full_ = 0;
    own_.clear();
    for (GradientBlock& level : levels_) level.let_go();  // where a step had no end
    for (GradientBlock& lane : lanes_) lane.let_go();
    for (size_t b = 0; b < travels_.size(); ++b) travels_[b].left = layout_.buckets[b].places;
  }

  void begin(int64_t batch, int64_t grain) {
    batch_ = batch;
    grain_ = grain;
    if (open_++ > 0) return;
    std::ranges::fill(taken_, grain);
  }

  void resume(int64_t grain) { grain_ = grain; }

  void end(int64_t grain) {
    grain_ = grain;
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i] <= grain) take(i, nullptr);
    }
    if (--open_ > 0) return;
    for (Place& place : layout_.places) place.parameter.zero_grad();  // it is in the sum
  }

  void finish() {
    if (form_.shares) return keep_shares();
    if (on_device_) on_device_->arrive(concat("gradients of step ", step_ + 1));
    depart(true);
    for (Travel& travel : travels_) {
      throw_if_error(travel.handle.wait());
      travel.landing.put_back();
    }
    for (Place& place : layout_.places) {
      const int64_t at = place.begin - layout_.buckets[place.bucket].begin;
      place.parameter.set_grad(engine::share_of(travels_[place.bucket].values, at, place.parameter.shape()));
    }
  }

  void share_weights() {
    own_.clear();
    for (size_t b = 0; b < travels_.size(); ++b) {
      if (b >= kUnderWay) take_weights(b - kUnderWay);
      for (Place& place : layout_.places_of(b)) {
        const engine::Share share = shares_[place.index];
        flat_copy(device_, sum_of(place) + share.begin, place.parameter.data<float>() + share.begin,
                  share.count());
      }
      travels_[b].handle = form_.ranks->all_gather(values_of(b), layout_.buckets[b].cuts, what("weights", b));
    }
    for (size_t b = travels_.size() - std::min(travels_.size(), kUnderWay); b < travels_.size(); ++b)
      take_weights(b);
  }

  const std::vector<Tensor>& own() const { return own_; }

 private:
  using Place = GradientLayout::Place;
  /// Buckets that travel while another fills: one on the line, and one that waits for it.
  static constexpr size_t kUnderWay = GradientSum::kBucketsAtOnce - 1;
  struct Travel {
    int64_t left = 0;    // places of the bucket whose sum over this rank's grains isn't there yet
    Tensor values = {};  // [elements]: sums, later weights; with shares while they are needed
    Tensor part = {};    // with shares: what is this rank's of the sums
    HostLanding landing = {};
    Collective::Handle handle = {};
  };

  static GradientLayout layout_of(const std::vector<NamedTensor>& parameters, const Form& form) {
    return lay_out_gradients(parameters, form.bucket_bytes, form.ranks != nullptr ? form.ranks->world() : 1);
  }

  void arrive(size_t index, const Tensor& grad) {
    if (open_ == 0 || engine::is_recomputing()) return;
    const Tensor plain = grad.is_contiguous() ? grad : grad.contiguous_copy();
    take(index, plain.data<float>());
    // The parameter gets it after this; what the one before it got is in the sum.
    layout_.places[last_].parameter.zero_grad();
    layout_.places[index].parameter.zero_grad();
    last_ = index;
  }

  /// `grad` null: zeros.
  void take(size_t index, const float* grad) {
    const Place& place = layout_.places[index];
    taken_[index] = grain_ + 1;
    if (lanes_.empty()) return climb(place, grad);
    GradientBlock& lane = lanes_[static_cast<size_t>(grain_)];
    if (batch_ == 0) {
      flat_copy(device_, lane.take(place), grad, place.count);
    } else {
      flat_add(device_, lane.at(place), lane.at(place), grad, place.count);
    }
    if (batch_ + 1 < form_.batches) return;
    climb(place, lane.at(place));
    lane.let_go(place);
  }

  /// A leaf's value goes up the tree as far as its left neighbours are there.
  void climb(const Place& place, const float* value) {
    const auto height = static_cast<size_t>(trailing_ones(grain_));
    float* const to = height == levels_.size() ? sum_of(place) : levels_[height].take(place);
    const bool is_rounded = form_.wire == engine::Wire::kBf16;
    if (height == 0)
      is_rounded ? flat_add_rounded(device_, to, nullptr, value, place.count)
                 : flat_copy(device_, to, value, place.count);
    const float* right = value;
    for (size_t level = 0; level < height; ++level) {
      const float* const left = levels_[level].at(place);
      is_rounded ? flat_add_rounded(device_, to, left, right, place.count)
                 : flat_add(device_, to, left, right, place.count);
      levels_[level].let_go(place);
      right = to;
    }
    if (grain_ + 1 == form_.grains) leave(place);
  }

  /// The sum over this rank's grains is there; buckets travel in the same order on all ranks.
  void leave(const Place& place) {
    --travels_[place.bucket].left;
    if (form_.ranks == nullptr) return;
    for (; next_full_ < travels_.size() && travels_[next_full_].left == 0; ++next_full_) {
      Travel& travel = travels_[next_full_];
      on_device_ ? on_device_->leave(travel.values) : travel.landing.fetch(travel.values);
    }
    if (on_device_) next_bucket_ = next_full_;
    depart(false);
  }

  /// Full buckets begin to travel; those of a device that aren't on the host yet do later, unless `waits`.
  void depart(bool waits) {
    for (; next_bucket_ < next_full_; ++next_bucket_) {
      Travel& travel = travels_[next_bucket_];
      if (!waits && !travel.landing.is_there()) return;
      const std::string text = what("gradients", next_bucket_);
      if (!form_.shares) {
        travel.handle = form_.ranks->all_reduce(travel.landing.values(), text, form_.wire);
        continue;
      }
      if (next_bucket_ >= kUnderWay) keep_part(next_bucket_ - kUnderWay);
      travel.handle = form_.ranks->reduce_scatter(travel.landing.values(), layout_.buckets[next_bucket_].cuts,
                                                  text, form_.wire);
    }
  }

  /// Waits for a bucket's sums; what isn't this rank's goes.
  void keep_part(size_t bucket) {
    Travel& travel = travels_[bucket];
    if (!travel.values.defined()) return;
    throw_if_error(travel.handle.wait());
    travel.landing.put_back();
    const Collective::Part part = form_.ranks->part_of(layout_.buckets[bucket].cuts);
    const auto count = static_cast<int64_t>(part.end - part.begin);
    travel.part = Tensor::empty({count});
    flat_copy(device_, travel.part.data<float>(), travel.values.data<float>() + part.begin, count);
    travel.values = Tensor();
  }

  void keep_shares() {
    own_.resize(shares_.size());
    for (size_t b = 0; b < travels_.size(); ++b) {
      keep_part(b);
      const GradientLayout::Bucket& bucket = layout_.buckets[b];
      const auto first = bucket.begin + static_cast<int64_t>(form_.ranks->part_of(bucket.cuts).begin);
      for (const Place& place : layout_.places_of(b)) {
        const engine::Share share = shares_[place.index];
        own_[place.index] =
            share.count() == 0
                ? Tensor::empty({0})
                : engine::share_of(travels_[b].part, place.begin + share.begin - first, {share.count()});
      }
      travels_[b].part = Tensor();
    }
  }

  /// Waits for all ranks' weights of a bucket.
  void take_weights(size_t bucket) {
    throw_if_error(travels_[bucket].handle.wait());
    for (Place& place : layout_.places_of(bucket)) {
      flat_copy(device_, place.parameter.data<float>(), sum_of(place), place.count);
      place.parameter.bump_version();
    }
    travels_[bucket].values = Tensor();
  }

  /// Where a place's sums are, or will be.
  float* sum_of(const Place& place) {
    Tensor& values = travels_[place.bucket].values;
    const GradientLayout::Bucket& bucket = layout_.buckets[place.bucket];
    if (!values.defined())
      values = Tensor::empty({{bucket.elements()}, DType::kF32, engine::Layout::kPlain}, device_);
    return values.data<float>() + (place.begin - bucket.begin);
  }

  std::span<float> values_of(size_t bucket) {
    Tensor& values = travels_[bucket].values;
    return {values.data<float>(), static_cast<size_t>(values.elements())};
  }
  std::string what(const char* values, size_t bucket) const {
    return concat(values, " of step ", step_ + 1, ", bucket ", bucket + 1, " of ", travels_.size());
  }

  const Form form_;
  GradientLayout layout_;
  Device& device_;
  std::optional<DeviceTravel> on_device_;  // with form.device_sums
  std::vector<Travel> travels_;            // by bucket
  std::vector<int64_t> taken_;             // by place: grains of the batch, the first ones
  std::vector<GradientBlock> levels_;      // of the tree: what waits for its right neighbour
  std::vector<GradientBlock> lanes_;       // a grain's sum over batches so far
  std::vector<engine::Share> shares_;      // by parameter; none: every rank gets all sums
  std::vector<Tensor> own_;                // their sums
  size_t next_full_ = 0;                   // buckets before it are full
  size_t next_bucket_ = 0;                 // buckets before it travel
  size_t last_ = 0;                        // the place whose gradient arrived last
  int64_t step_ = 0;
  int64_t batch_ = 0;
  int64_t grain_ = 0;
  int64_t open_ = 0;  // grains between begin and end
};

bool GradientSum::is_needed(const Form& form) {
  return form.grains > 1 || form.ranks != nullptr;
}

std::vector<engine::Share> GradientSum::shares(const std::vector<NamedTensor>& parameters, const Form& form) {
  return own_shares(lay_out_gradients(parameters, form.bucket_bytes, form.ranks->world()), parameters.size(),
                    *form.ranks);
}

uint64_t GradientSum::bytes(const Form& form, const std::vector<NamedTensor>& parameters) {
  uint64_t all = 0;
  for (const NamedTensor& parameter : parameters)
    all += parameter.tensor.requires_grad() ? parameter.tensor.size_bytes() : 0;
  if (!is_needed(form)) return all;
  const int64_t partial = trailing_ones(form.grains - 1) + (form.batches > 1 ? form.grains : 0);
  const uint64_t before_sums = static_cast<uint64_t>(partial) * all;
  if (!form.shares) return before_sums + all;
  std::vector<uint64_t> buckets;
  for (const GradientLayout::Bucket& bucket : lay_out_gradients(parameters, form.bucket_bytes, 1).buckets)
    buckets.push_back(static_cast<uint64_t>(bucket.elements()) * sizeof(float));
  std::ranges::sort(buckets, std::greater());
  buckets.resize(std::min(buckets.size(), kBucketsAtOnce));
  const uint64_t part = all / static_cast<uint64_t>(form.ranks->world());
  return before_sums + std::min(all, std::accumulate(buckets.begin(), buckets.end(), part));
}

GradientSum::GradientSum(const std::vector<NamedTensor>& parameters, const Form& form) {
  if (!is_needed(form)) return;
  sums_ = std::make_shared<Sums>(parameters, form);
  sums_->watch(sums_);
}

GradientSum::~GradientSum() = default;

void GradientSum::begin_step(int64_t step) {
  if (sums_ != nullptr) sums_->begin_step(step);
}
void GradientSum::begin(int64_t batch, int64_t grain) {
  if (sums_ != nullptr) sums_->begin(batch, grain);
}
void GradientSum::resume(int64_t grain) {
  if (sums_ != nullptr) sums_->resume(grain);
}
void GradientSum::end(int64_t grain) {
  if (sums_ != nullptr) sums_->end(grain);
}
void GradientSum::finish() {
  if (sums_ != nullptr) sums_->finish();
}
const std::vector<Tensor>& GradientSum::own() const {
  return sums_->own();
}
void GradientSum::share_weights() {
  if (sums_ != nullptr) sums_->share_weights();
}

}  // namespace dlpipe::run
