// The sums of a step's gradients (gradient_sum.h) and their parts: the layout of gradients, memory that is released bucket by
// bucket, and the transfer of a device's gradients to other processes.
#include "run/train/gradients/gradient_sum.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/device.h"
#include "dlpipe/module.h"
#include "dlpipe/tensor.h"
#include "engine/collective/collective.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/layers/recompute.h"
#include "engine/optim/flat_groups.h"
#include "engine/optim/gradients.h"

namespace dlpipe::run {

using engine::Collective;
using engine::flat_add;
using engine::flat_add_rounded;
using engine::flat_copy;
using engine::NamedTensor;
using engine::Tensor;

// The places of a step's gradients in one flat block, and the buckets of gradients that are exchanged together.
//
// A value type. Parameters are in the order in which backward finishes them, last layer first. If processes share the optimizer's
// work, each bucket is divided into one part per process, of about the same size. Within a parameter, boundaries are multiples of
// engine::kShareUnit.
struct GradientLayout {
  struct Place {
    engine::Tensor parameter;
    size_t index = 0;   // among all parameters
    int64_t begin = 0;  // in the flat block
    int64_t count = 0;
    size_t bucket = 0;
  };
  struct Bucket {
    int64_t begin = 0, end = 0;
    int64_t first_place = 0, places = 0;
    engine::Collective::Cuts cuts = {};  // from the bucket's begin
    int64_t elements() const { return end - begin; }
  };
  std::vector<Place> places;
  std::vector<Bucket> buckets;
  int64_t elements = 0;

  /// The parameters' device.
  Device& device() const { return places.empty() ? cpu_device() : places.front().parameter.device(); }
  std::span<Place> places_of(size_t bucket) {
    return std::span(places).subspan(static_cast<size_t>(buckets[bucket].first_place),
                                     static_cast<size_t>(buckets[bucket].places));
  }
};

namespace {

/// Where a bucket may be divided: before and after its parameters, and at each multiple of kShareUnit within them. Ascending.
std::vector<int64_t> borders_of(const GradientLayout& layout, size_t bucket) {
  std::vector<int64_t> borders;
  for (const GradientLayout::Place& place : layout.places) {
    if (place.bucket != bucket) continue;
    for (int64_t at = 0; at < place.count; at += engine::kShareUnit) borders.push_back(place.begin + at);
  }
  borders.push_back(layout.buckets[bucket].end);
  return borders;
}

int64_t nearest(const std::vector<int64_t>& borders, int64_t wanted) {
  const auto after = std::lower_bound(borders.begin(), borders.end(), wanted);
  if (after == borders.end()) return borders.back();
  if (after == borders.begin()) return *after;
  return wanted - *(after - 1) <= *after - wanted ? *(after - 1) : *after;
}

// If a boundary deviates from an even division, the next bucket compensates for it, so that each process gets about the same
// amount from all buckets together.
void cut_buckets(GradientLayout& layout, int parts) {
  std::vector<int64_t> off(static_cast<size_t>(parts) + 1, 0);
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    GradientLayout::Bucket& bucket = layout.buckets[b];
    const std::vector<int64_t> borders = borders_of(layout, b);
    int64_t last = bucket.begin;
    for (int part = 0; part <= parts; ++part) {
      int64_t& error = off[static_cast<size_t>(part)];
      const int64_t even = bucket.begin + (bucket.end - bucket.begin) * part / parts;
      const bool is_end = part == 0 || part == parts;
      const int64_t cut = is_end ? even : std::max(last, nearest(borders, even - error));
      error += cut - even;
      last = cut;
      bucket.cuts.push_back(static_cast<size_t>(cut - bucket.begin));
    }
  }
}

}  // namespace

/// Lays out those `parameters` that require a gradient; they are on one device. kUnsupported unless they are f32. Each bucket but
/// the last has at least `bucket_bytes`. Buckets are divided into `parts` parts.
static GradientLayout lay_out_gradients(const std::vector<NamedTensor>& parameters, int64_t bucket_bytes,
                                        int parts) {
  GradientLayout layout;
  for (size_t i = parameters.size(); i-- > 0;) {
    const engine::Tensor& tensor = parameters[i].tensor;
    if (!tensor.requires_grad()) continue;
    if (tensor.dtype() != DType::kF32)
      throw Error(Status(ErrorCode::kUnsupported, concat("[train] --grains: ", parameters[i].name,
                                                         " is not f32; leave --grains out")));
    std::vector<GradientLayout::Bucket>& buckets = layout.buckets;
    const auto bytes = [](const GradientLayout::Bucket& bucket) {
      return bucket.elements() * static_cast<int64_t>(sizeof(float));
    };
    if (buckets.empty() || bytes(buckets.back()) >= bucket_bytes)
      buckets.push_back({.begin = layout.elements,
                         .end = layout.elements,
                         .first_place = static_cast<int64_t>(layout.places.size())});
    layout.places.push_back({tensor, i, layout.elements, tensor.elements(), buckets.size() - 1});
    layout.elements += tensor.elements();
    buckets.back().end = layout.elements;
    ++buckets.back().places;
  }
  cut_buckets(layout, parts);
  return layout;
}

/// For each of the `count` parameters, the share that is in this rank's parts of the buckets.
static std::vector<engine::Share> own_shares(const GradientLayout& layout, size_t count,
                                             const engine::Collective& ranks) {
  std::vector<engine::Share> shares(count);
  for (const GradientLayout::Place& place : layout.places) {
    const GradientLayout::Bucket& bucket = layout.buckets[place.bucket];
    const engine::Collective::Part part = ranks.part_of(bucket.cuts);
    const int64_t begin = std::max<int64_t>(bucket.begin + static_cast<int64_t>(part.begin) - place.begin, 0);
    const int64_t end = std::min(bucket.begin + static_cast<int64_t>(part.end) - place.begin, place.count);
    if (begin < end) shares[place.index] = {begin, end};
  }
  return shares;
}

// One value for every element of all gradients, on the parameters' device. The memory of a bucket exists only while one of its
// values is needed, so that one layer's backward may reuse the memory of another layer's values.
//
// Refers to the layout. One thread at a time.
class GradientBlock {
 public:
  explicit GradientBlock(const GradientLayout& layout);

  /// The memory of a place's values, valid until let_go(); undefined at first.
  float* take(const GradientLayout::Place& place);
  /// The same memory, for a place that was taken.
  float* at(const GradientLayout::Place& place) const;
  void let_go(const GradientLayout::Place& place);
  /// For all places.
  void let_go();

 private:
  struct Bucket {
    engine::Tensor values = {};  // undefined: no value is needed
    int64_t wanted = 0;          // places that are needed
  };
  const GradientLayout& layout_;
  std::vector<Bucket> buckets_;
};

using Place = GradientLayout::Place;

GradientBlock::GradientBlock(const GradientLayout& layout)
    : layout_(layout), buckets_(layout.buckets.size()) {}

float* GradientBlock::take(const Place& place) {
  Bucket& bucket = buckets_[place.bucket];
  if (bucket.wanted++ == 0)
    bucket.values = engine::Tensor::empty(
        {{layout_.buckets[place.bucket].elements()}, DType::kF32, engine::Layout::kPlain}, layout_.device());
  return at(place);
}

float* GradientBlock::at(const Place& place) const {
  engine::Tensor values = buckets_[place.bucket].values;
  return values.data<float>() + (place.begin - layout_.buckets[place.bucket].begin);
}

void GradientBlock::let_go(const Place& place) {
  Bucket& bucket = buckets_[place.bucket];
  if (--bucket.wanted == 0) bucket.values = engine::Tensor();
}

void GradientBlock::let_go() {
  for (Bucket& bucket : buckets_) bucket = {};
}

// Transfers a device's values to other processes through page-locked memory of the host. The values are copied there after the
// work launched so far; their sums are copied back. Only the reader of the values waits.
//
// On the host nothing is copied: the values are those of the tensor. Refers to the device. One thread.
class HostLanding {
 public:
  ~HostLanding();  // waits: copies may be under way

  /// Copies the values of `from`, f32, after all work launched so far. They are unchanged until put_back().
  void fetch(const engine::Tensor& from);
  /// Whether they have arrived.
  bool is_there() const;
  /// Waits for them. They may be changed.
  std::span<float> values();
  /// Copies them back into the tensor that they came from. Does nothing without one.
  void put_back();

 private:
  engine::Tensor from_;
  Buffer memory_;  // none on the host
  std::unique_ptr<Event> copied_;
};

HostLanding::~HostLanding() {
  if (copied_ != nullptr) (void)memory_.device()->synchronize(*copied_);
}

void HostLanding::fetch(const engine::Tensor& from) {
  from_ = from;
  Device& device = from.device();
  if (device.is_host()) return;
  if (copied_ == nullptr) copied_ = value_or_throw(device.create_event());
  if (memory_.size_bytes() < from.size_bytes())
    memory_ = value_or_throw(Buffer::allocate(device, from.size_bytes(), Buffer::Memory::kPinned));
  Stream& stream = engine::engine_stream(device);
  throw_if_error(
      device.copy_async(memory_.data(), from.raw(), from.size_bytes(), CopyKind::kDeviceToHost, stream));
  throw_if_error(device.record(*copied_, stream));
}

bool HostLanding::is_there() const {
  return copied_ == nullptr || value_or_throw(memory_.device()->is_complete(*copied_));
}

std::span<float> HostLanding::values() {
  const auto count = static_cast<size_t>(from_.elements());
  if (copied_ == nullptr) return {from_.data<float>(), count};
  throw_if_error(memory_.device()->synchronize(*copied_));
  return {reinterpret_cast<float*>(memory_.data()), count};
}

void HostLanding::put_back() {
  if (copied_ != nullptr && from_.defined()) {
    Device& device = *memory_.device();
    Stream& stream = engine::engine_stream(device);
    throw_if_error(
        device.copy_async(from_.raw(), memory_.data(), from_.size_bytes(), CopyKind::kHostToDevice, stream));
    throw_if_error(device.record(*copied_, stream));
  }
  from_ = engine::Tensor();
}

// --- DeviceTravel

using Clock = std::chrono::steady_clock;

DeviceTravel::DeviceTravel(Device& device, engine::DeviceSums& sums, double timeout_s)
    : device_(device),
      sums_(sums),
      timeout_s_(timeout_s),
      stream_(value_or_throw(device.create_stream())),
      full_(value_or_throw(device.create_event())),
      summed_(value_or_throw(device.create_event())) {}

DeviceTravel::~DeviceTravel() {
  if (!under_way_) return;
  sums_.abort();
  (void)device_.synchronize(*stream_);
}

void DeviceTravel::leave(const engine::Tensor& values) {
  throw_if_error(device_.record(*full_, engine::engine_stream(device_)));
  throw_if_error(device_.wait(*stream_, *full_));
  under_way_ = true;
  throw_if_error(sums_.all_reduce(values.data<float>(), static_cast<size_t>(values.elements()), *stream_));
}

// The host polls, because a lost rank would make it wait forever.
void DeviceTravel::arrive(const std::string& what) {
  if (!under_way_) return;
  const SpanScope span(Span::kCollective);
  throw_if_error(device_.record(*summed_, *stream_));
  const auto begin = Clock::now();
  while (!value_or_throw(device_.is_complete(*summed_))) {
    throw_if_error(sums_.check());
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= timeout_s_)
      throw Error(Status(ErrorCode::kIo, concat("[train] a rank has not responded for ", timeout_s_,
                                                " s (--peer-timeout) while waiting for ", what,
                                                "; see what it printed last, and continue with --resume")));
    std::this_thread::yield();
  }
  throw_if_error(sums_.check());  // after an error, the sums are not valid
  throw_if_error(device_.wait(engine::engine_stream(device_), *summed_));
  under_way_ = false;
}

// --- the sums

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
    for (GradientBlock& level : levels_) level.let_go();  // if the step before did not end
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
  /// Buckets that are exchanged while another fills: one in transfer, and one that waits for it.
  static constexpr size_t kUnderWay = GradientSum::kBucketsAtOnce - 1;
  struct Travel {
    int64_t left = 0;    // places of the bucket whose sum over this rank's grains is incomplete
    Tensor values = {};  // [elements]: sums, later weights; with shares, only while needed
    Tensor part = {};    // with shares: this rank's part of the sums
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
    // The parameter receives its gradient after this hook. The previous parameter's gradient is already in the sum.
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

  /// Adds a leaf's value up the tree as far as left neighbours are complete.
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

  /// Called when the place's sum over this rank's grains is complete. All ranks exchange buckets in the same order.
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

  /// Starts to exchange full buckets. Stops at a device's bucket that is not on the host yet, unless `waits`.
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

  /// Waits for a bucket's sums; keeps this rank's part and releases the rest.
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

  /// Waits for all ranks' weights of a bucket, and copies them into the parameters.
  void take_weights(size_t bucket) {
    throw_if_error(travels_[bucket].handle.wait());
    for (Place& place : layout_.places_of(bucket)) {
      flat_copy(device_, place.parameter.data<float>(), sum_of(place), place.count);
      place.parameter.bump_version();
    }
    travels_[bucket].values = Tensor();
  }

  /// The memory of a place's sums; allocates that of its bucket if necessary.
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
  std::vector<int64_t> taken_;             // by place: the number of grains of the batch that were taken
  std::vector<GradientBlock> levels_;      // of the tree: sums that wait for their right neighbour
  std::vector<GradientBlock> lanes_;       // a grain's sum over batches so far
  std::vector<engine::Share> shares_;      // by parameter; none: every rank gets all sums
  std::vector<Tensor> own_;                // the sums of these shares
  size_t next_full_ = 0;                   // buckets before it are full
  size_t next_bucket_ = 0;                 // buckets before it are exchanged
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
