#include "dlpipe/run/train/gradient_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/recompute.h"
#include "dlpipe/engine/optim/flat_groups.h"
#include "dlpipe/run/train/gradient_layout.h"

namespace dlpipe::run {

using engine::Collective;
using engine::NamedTensor;
using engine::Tensor;

namespace {

constexpr int64_t kRange =
    16384;  // elements per slice of an addition; elements don't meet, so no bit depends on it

/// to[i] = left[i] + right[i]; null: zeros.
void add_into(float* to, const float* left, const float* right, int64_t count) {
  engine::parallel_ranges(count, kRange, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = left[i] + (right != nullptr ? right[i] : 0.0f);
  });
}

/// The same with values and sums rounded to bf16; left[i] is rounded already. `left` null: zeros.
void add_rounded_into(float* to, const float* left, const float* right, int64_t count) {
  engine::parallel_ranges(count, kRange, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = right != nullptr ? rounded_to_bf16(right[i]) : 0.0f;
      to[i] = left != nullptr ? rounded_to_bf16(left[i] + value) : value;
    }
  });
}

void copy_into(float* to, const float* from, int64_t count) {
  if (from == nullptr) {
    std::fill(to, to + count, 0.0f);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

int trailing_ones(int64_t n) {
  int ones = 0;
  for (; (n & 1) != 0; n >>= 1) ++ones;
  return ones;
}

}  // namespace

class GradientSum::Sums {
 public:
  Sums(const std::vector<NamedTensor>& parameters, const Form& form)
      : form_(form), layout_(layout_of(parameters, form)), parameters_(parameters.size()) {
    for (const GradientLayout::Bucket& bucket : layout_.buckets) travels_.push_back({bucket.places, {}});
    taken_.resize(layout_.places.size());
    const int64_t elements = layout_.elements;
    sum_ = Tensor::zeros({elements});
    for (int level = 0; level < trailing_ones(form.grains - 1); ++level)
      levels_.push_back(Tensor::zeros({elements}));
    for (int64_t lane = 0; form.batches > 1 && lane < form.grains; ++lane)
      lanes_.push_back(Tensor::zeros({elements}));
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
    next_bucket_ = 0;
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
    for (Travel& travel : travels_) throw_if_error(travel.handle.wait());
    for (Place& place : layout_.places) {
      place.parameter.set_grad(engine::share_of(sum_, place.begin, place.parameter.shape()));
    }
  }

  // The block of sums has done its work in this step, so weights travel in it.
  void share_weights() {
    for (Place& place : layout_.places) place.parameter.zero_grad();
    const std::vector<engine::Share> shares = own_shares(layout_, parameters_, *form_.ranks);
    for (const Place& place : layout_.places) {
      const engine::Share share = shares[place.index];
      copy_into(sum_.data<float>() + place.begin + share.begin, place.parameter.data<float>() + share.begin,
                share.count());
    }
    for (size_t b = 0; b < travels_.size(); ++b)
      travels_[b].handle = form_.ranks->all_gather(values_of(b), layout_.buckets[b].cuts, what("weights", b));
    for (Place& place : layout_.places) {
      throw_if_error(travels_[place.bucket].handle.wait());
      copy_into(place.parameter.data<float>(), sum_.data<float>() + place.begin, place.count);
      place.parameter.bump_version();
    }
  }

 private:
  using Place = GradientLayout::Place;
  struct Travel {
    int64_t left = 0;  // places of the bucket whose sum over this rank's grains isn't there yet
    Collective::Handle handle = {};
  };

  static GradientLayout layout_of(const std::vector<NamedTensor>& parameters, const Form& form) {
    return lay_out_gradients(parameters, form.bucket_bytes, form.ranks != nullptr ? form.ranks->world() : 1);
  }

  void arrive(size_t index, const Tensor& grad) {
    if (open_ == 0 || engine::is_recomputing()) return;
    const Tensor plain = grad.is_contiguous() ? grad : grad.contiguous_copy();
    take(index, plain.data<float>());
  }

  /// `grad` null: zeros.
  void take(size_t index, const float* grad) {
    const Place& place = layout_.places[index];
    taken_[index] = grain_ + 1;
    const int64_t at = place.begin;
    const float* value = grad;
    if (!lanes_.empty()) {
      float* const lane = lanes_[static_cast<size_t>(grain_)].data<float>() + at;
      if (batch_ == 0) {
        copy_into(lane, grad, place.count);
      } else {
        add_into(lane, lane, grad, place.count);
      }
      if (batch_ + 1 < form_.batches) return;
      value = lane;
    }
    climb(at, value, place.count);
    if (grain_ + 1 == form_.grains) leave(place);
  }

  /// A leaf's value goes up the tree as far as its left neighbours are there.
  void climb(int64_t at, const float* value, int64_t count) {
    const auto height = static_cast<size_t>(trailing_ones(grain_));
    float* const to = height == levels_.size() ? sum_.data<float>() + at : levels_[height].data<float>() + at;
    const bool is_rounded = form_.wire == engine::Wire::kBf16;
    if (height == 0)
      return is_rounded ? add_rounded_into(to, nullptr, value, count) : copy_into(to, value, count);
    const float* right = value;
    for (size_t level = 0; level < height; ++level) {
      const float* const left = levels_[level].data<float>() + at;
      is_rounded ? add_rounded_into(to, left, right, count) : add_into(to, left, right, count);
      right = to;
    }
  }

  /// The sum over this rank's grains is there; buckets travel in the same order on all ranks.
  void leave(const Place& place) {
    --travels_[place.bucket].left;
    if (form_.ranks == nullptr) return;
    for (; next_bucket_ < travels_.size() && travels_[next_bucket_].left == 0; ++next_bucket_) {
      const std::span<float> values = values_of(next_bucket_);
      const std::string text = what("gradients", next_bucket_);
      travels_[next_bucket_].handle =
          form_.shares
              ? form_.ranks->reduce_scatter(values, layout_.buckets[next_bucket_].cuts, text, form_.wire)
              : form_.ranks->all_reduce(values, text, form_.wire);
    }
  }

  std::span<float> values_of(size_t bucket) {
    float* const all = sum_.data<float>();
    return {all + layout_.buckets[bucket].begin, all + layout_.buckets[bucket].end};
  }
  std::string what(const char* values, size_t bucket) const {
    return concat(values, " of step ", step_ + 1, ", bucket ", bucket + 1, " of ", travels_.size());
  }

  const Form form_;
  GradientLayout layout_;
  const size_t parameters_;
  std::vector<Travel> travels_;  // by bucket
  std::vector<int64_t> taken_;   // by place: grains of the batch, the first ones
  Tensor sum_;                   // [elements]
  std::vector<Tensor> levels_;   // of the tree: what waits for its right neighbour
  std::vector<Tensor> lanes_;    // a grain's sum over batches so far
  size_t next_bucket_ = 0;
  int64_t step_ = 0;
  int64_t batch_ = 0;
  int64_t grain_ = 0;
  int64_t open_ = 0;  // grains between begin and end
};

GradientSum::Form gradient_form(const TrainStepOptions& options) {
  return {options.own_grains(), options.accumulate, options.ranks,
          options.bucket_bytes, options.wire,       options.shares()};
}

std::vector<engine::Share> gradient_shares(const std::vector<NamedTensor>& parameters,
                                           const TrainStepOptions& options) {
  return own_shares(lay_out_gradients(parameters, options.bucket_bytes, options.world()), parameters.size(),
                    *options.ranks);
}

int64_t GradientSum::blocks(const Form& form) {
  if (form.grains == 1 && form.ranks == nullptr) return 0;
  return 1 + trailing_ones(form.grains - 1) + (form.batches > 1 ? form.grains : 0);
}

GradientSum::GradientSum(const std::vector<NamedTensor>& parameters, const Form& form) {
  if (blocks(form) == 0) return;
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
void GradientSum::share_weights() {
  if (sums_ != nullptr) sums_->share_weights();
}

}  // namespace dlpipe::run
