#include "dlpipe/run/train/gradients/gradient_layout.h"

#include <algorithm>
#include <cstdlib>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

using engine::NamedTensor;

namespace {

/// Where a bucket may be cut: before and behind its parameters, and between their blocks. Grows.
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

// What one bucket's border was off by, the next one's makes good: the parts of all together are about equal.
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

GradientLayout lay_out_gradients(const std::vector<NamedTensor>& parameters, int64_t bucket_bytes,
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

std::vector<engine::Share> own_shares(const GradientLayout& layout, size_t count,
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

}  // namespace dlpipe::run
