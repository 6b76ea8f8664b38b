#include "dlpipe/run/train/gradient_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/layers/recompute.h"
#include "dlpipe/engine/optim/flat_groups.h"

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
  Sums(const std::vector<NamedTensor>& parameters, const Form& form) : form_(form) {
    for (size_t i = parameters.size(); i-- > 0;) {
      if (parameters[i].tensor.requires_grad()) add_place(parameters[i]);
    }
    sum_ = Tensor::zeros({elements_});
    for (int level = 0; level < trailing_ones(form.grains - 1); ++level)
      levels_.push_back(Tensor::zeros({elements_}));
    for (int64_t lane = 0; form.batches > 1 && lane < form.grains; ++lane)
      lanes_.push_back(Tensor::zeros({elements_}));
  }
  ~Sums() {
    for (Bucket& bucket : buckets_) (void)bucket.handle.wait();
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  void watch(const std::shared_ptr<Sums>& self) {
    for (size_t i = 0; i < places_.size(); ++i) {
      places_[i].parameter.register_hook([weak = std::weak_ptr(self), i](const Tensor& grad) {
        if (const auto sums = weak.lock()) sums->arrive(i, grad);
        return Tensor();
      });
    }
  }

  void begin_step(int64_t step) {
    step_ = step;
    next_bucket_ = 0;
    for (Bucket& bucket : buckets_) bucket.left = bucket.places;
  }

  void begin(int64_t batch, int64_t grain) {
    batch_ = batch;
    grain_ = grain;
    if (open_++ > 0) return;
    for (Place& place : places_) place.taken = grain;
  }

  void resume(int64_t grain) { grain_ = grain; }

  void end(int64_t grain) {
    grain_ = grain;
    for (Place& place : places_) {
      if (place.taken <= grain) take(place, nullptr);
    }
    if (--open_ > 0) return;
    for (Place& place : places_) place.parameter.zero_grad();  // it is in the sum
  }

  void finish() {
    for (Bucket& bucket : buckets_) throw_if_error(bucket.handle.wait());
    for (Place& place : places_) {
      place.parameter.set_grad(engine::share_of(sum_, place.begin, place.parameter.shape()));
    }
  }

 private:
  struct Place {
    Tensor parameter;
    int64_t begin = 0;  // in the flat blocks
    int64_t count = 0;
    size_t bucket = 0;
    int64_t taken = 0;  // grains of the batch, the first ones
  };
  struct Bucket {
    int64_t begin = 0, end = 0;
    int64_t places = 0;
    int64_t left = 0;  // places whose sum over this rank's grains isn't there yet
    Collective::Handle handle = {};
  };

  void add_place(const NamedTensor& named) {
    if (named.tensor.dtype() != DType::kF32 || !named.tensor.device().is_host())
      throw Error(Status(ErrorCode::kUnsupported,
                         concat("[train] --grains: ", named.name, " is no f32 on the host")));
    const int64_t count = named.tensor.elements();
    const auto bytes = [](const Bucket& bucket) {
      return (bucket.end - bucket.begin) * static_cast<int64_t>(sizeof(float));
    };
    if (buckets_.empty() || bytes(buckets_.back()) >= form_.bucket_bytes)
      buckets_.push_back({.begin = elements_, .end = elements_});
    places_.push_back({named.tensor, elements_, count, buckets_.size() - 1});
    elements_ += count;
    buckets_.back().end = elements_;
    ++buckets_.back().places;
  }

  void arrive(size_t index, const Tensor& grad) {
    if (open_ == 0 || engine::is_recomputing()) return;
    const Tensor plain = grad.is_contiguous() ? grad : grad.contiguous_copy();
    take(places_[index], plain.data<float>());
  }

  /// `grad` null: zeros.
  void take(Place& place, const float* grad) {
    place.taken = grain_ + 1;
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
    --buckets_[place.bucket].left;
    if (form_.ranks == nullptr) return;
    for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].left == 0; ++next_bucket_) {
      Bucket& bucket = buckets_[next_bucket_];
      const std::span values(sum_.data<float>() + bucket.begin, sum_.data<float>() + bucket.end);
      const std::string what =
          concat("gradients of step ", step_ + 1, ", bucket ", next_bucket_ + 1, " of ", buckets_.size());
      bucket.handle = form_.ranks->all_reduce(values, what, form_.wire);
    }
  }

  const Form form_;
  std::vector<Place> places_;
  std::vector<Bucket> buckets_;
  int64_t elements_ = 0;
  Tensor sum_;                  // [elements]
  std::vector<Tensor> levels_;  // of the tree: what waits for its right neighbour
  std::vector<Tensor> lanes_;   // a grain's sum over batches so far
  size_t next_bucket_ = 0;
  int64_t step_ = 0;
  int64_t batch_ = 0;
  int64_t grain_ = 0;
  int64_t open_ = 0;  // grains between begin and end
};

GradientSum::Form gradient_form(const TrainStepOptions& options) {
  return {options.own_grains(), options.accumulate, options.ranks, options.bucket_bytes, options.wire};
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

}  // namespace dlpipe::run
