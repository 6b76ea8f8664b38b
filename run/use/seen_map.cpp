#include "run/use/seen_map.h"

#include <algorithm>
#include <cmath>

namespace dlpipe::run {

std::array<double, 4> SeenMap::box(const std::array<float, 4>& seen) const {
  std::array<double, 4> around = {whole.width + 0.0, whole.height + 0.0, 0, 0};
  for (const size_t x : {0, 2}) {
    for (const size_t y : {1, 3}) {
      const augment::Place corner = to_image.place(seen[x], seen[y]);
      around = {std::min(around[0], corner.x), std::min(around[1], corner.y), std::max(around[2], corner.x),
                std::max(around[3], corner.y)};
    }
  }
  const double width = whole.width, height = whole.height;
  return {std::clamp(around[0], 0.0, width), std::clamp(around[1], 0.0, height),
          std::clamp(around[2], 0.0, width), std::clamp(around[3], 0.0, height)};
}

Result<SeenMap> seen_map(const augment::ChainPlan& plan) {
  SeenMap map{.whole = plan.source};
  const auto width = static_cast<float>(plan.source.width), height = static_cast<float>(plan.source.height);
  // Three corners of the image determine where all of it goes, if the fourth one agrees.
  std::array<float, 12> corners = {0, 0, 1, width, 0, 1, 0, height, 1, width, height, 1};
  augment::Moving(plan).points(corners);
  const double x = corners[0], y = corners[1];
  const double ax = (corners[3] - x) / width, ay = (corners[4] - y) / width;
  const double bx = (corners[6] - x) / height, by = (corners[7] - y) / height;
  const double miss = std::abs(x + ax * width + bx * height - corners[9]) +
                      std::abs(y + ay * width + by * height - corners[10]);
  const double area = ax * by - bx * ay;
  constexpr double kMostMiss = 0.01;  // pixels
  if (plan.is_joined() || !(miss < kMostMiss) || area == 0)
    return Status(ErrorCode::kUnsupported,
                  "the ops of --val-augment warp or join images, so boxes and masks cannot be mapped back; "
                  "use only resizes, crops and flips");
  map.to_seen.m = {ax, bx, x, ay, by, y};
  map.to_image.m = {by / area,  -bx / area, (bx * y - by * x) / area,
                    -ay / area, ax / area,  (ay * x - ax * y) / area};
  return map;
}

namespace {

/// A position between two of `size` pixels, or on one pixel at the border.
struct Between {
  Between(double place, int64_t size)
      : at(std::clamp(place - 0.5, 0.0, static_cast<double>(size - 1))),
        first(static_cast<int64_t>(at)),
        second(std::min(first + 1, size - 1)),
        share(static_cast<float>(at - static_cast<double>(first))) {}
  double at;
  int64_t first, second;
  float share;  // of the second
};

}  // namespace

bool logits_at(const augment::Place& place, const float* logits, int64_t height, int64_t width,
               int64_t classes, float* out) {
  const bool is_seen = place.x >= 0 && place.y >= 0 && place.x <= static_cast<double>(width) &&
                       place.y <= static_cast<double>(height);
  if (!is_seen) return false;
  const Between across(place.x, width), down(place.y, height);
  const auto at = [&](int64_t y, int64_t column) { return logits + (y * width + column) * classes; };
  const float *const a = at(down.first, across.first), *const b = at(down.first, across.second),
                     *const c = at(down.second, across.first), *const d = at(down.second, across.second);
  for (int64_t k = 0; k < classes; ++k) {
    const float upper = a[k] + across.share * (b[k] - a[k]), lower = c[k] + across.share * (d[k] - c[k]);
    out[k] = upper + down.share * (lower - upper);
  }
  return true;
}

void count_whole_mask(const engine::Tensor& logits, const SeenMap& map, const ConstImageView& mask,
                      Tally& tally) {
  const int64_t height = logits.size(0), width = logits.size(1), classes = logits.size(2);
  const auto* const seen = logits.data<float>();
  constexpr int kRowsAtOnce = 64;
  for (int top = 0; top < mask.height; top += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, mask.height - top), pixels = rows * mask.width;
    const auto outputs = engine::Tensor::zeros({pixels, classes});
    BatchInput input;
    input.target = engine::Tensor::zeros({pixels}, DType::kI64);
    input.weight = engine::Tensor::zeros({pixels});
    engine::parallel_slices(rows, [&](int64_t row) {
      for (int64_t x = 0; x < mask.width; ++x) {
        const int64_t i = row * mask.width + x;
        const uint8_t own = mask.row(top + static_cast<int>(row))[x];
        const augment::Place place =
            map.to_seen.place(static_cast<double>(x) + 0.5, static_cast<double>(top + row) + 0.5);
        if (own == TargetSpec::kIgnored ||
            !logits_at(place, seen, height, width, classes, outputs.data<float>() + i * classes))
          continue;
        input.target.data<int64_t>()[i] = own;
        input.weight.data<float>()[i] = 1;
      }
    });
    tally.add(outputs, input);
  }
}

}  // namespace dlpipe::run
