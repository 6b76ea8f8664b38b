// Where the gradients of one step lie in one flat block, and which of them travel together.
//
// A value. Parameters are taken in the order in which backward finishes them, last layer first. Where processes share the
// optimizer's work, each bucket is cut into parts of about the same size, one for each; borders within a parameter are
// multiples of engine::kShareUnit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/clip.h"

namespace dlpipe::run {

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

  /// Where the parameters are.
  Device& device() const { return places.empty() ? cpu_device() : places.front().parameter.device(); }
  std::span<Place> places_of(size_t bucket) {
    return std::span(places).subspan(static_cast<size_t>(buckets[bucket].first_place),
                                     static_cast<size_t>(buckets[bucket].places));
  }
};

/// `parameters` that take part are those that require a gradient, all on one device; kUnsupported unless they are f32. Buckets
/// have `bucket_bytes` or a little more, and `parts` parts.
GradientLayout lay_out_gradients(const std::vector<engine::NamedTensor>& parameters, int64_t bucket_bytes,
                                 int parts);

/// Of each of the parameters, `count` in all, what `ranks`' own parts of the buckets hold.
std::vector<engine::Share> own_shares(const GradientLayout& layout, size_t count,
                                      const engine::Collective& ranks);

}  // namespace dlpipe::run
