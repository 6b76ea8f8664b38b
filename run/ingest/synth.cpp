#include "dlpipe/run/ingest/synth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>

#include "dlpipe/base/image.h"
#include "dlpipe/base/machine.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/portable_math.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/base/text.h"
#include "dlpipe/base/threads.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/run/ingest/synth_shapes.h"

namespace dlpipe::ingest {

namespace {

using Color = std::array<double, 3>;

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform_double();
}

double luma(const Color& color) {
  return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];
}

// Waves of a few directions and lengths in one colour direction; zero mean.
class Texture {
 public:
  Texture(RandomStream& random, double strength) {
    for (Wave& wave : waves_) {
      const double angle = between(random, 0, 2 * std::numbers::pi);
      const double frequency = between(random, 0.15, 0.9);
      const auto [sine, cosine] = portable_sine_and_cosine(angle);
      wave = {frequency * cosine, frequency * sine, between(random, 0, 6.28), {}};
      for (double& amplitude : wave.amplitude) amplitude = strength * between(random, -1, 1);
    }
  }
  void add_at(double x, double y, Color& color) const {
    for (const Wave& wave : waves_) {
      const double value = portable_sine_and_cosine(wave.fx * x + wave.fy * y + wave.phase).sine;
      for (size_t c = 0; c < color.size(); ++c) color[c] += wave.amplitude[c] * value;
    }
  }

 private:
  struct Wave {
    double fx, fy, phase;
    Color amplitude;
  };
  std::array<Wave, 3> waves_;
};

// Two colours that can be told apart: by light, in either direction.
void draw_colors(RandomStream& random, Color& ground, Color& shape) {
  constexpr double kContrast = 70;
  do {
    for (size_t c = 0; c < ground.size(); ++c) {
      ground[c] = between(random, 20, 235);
      shape[c] = between(random, 20, 235);
    }
  } while (std::abs(luma(ground) - luma(shape)) < kContrast);
}

struct Placement {
  double x, y, radius, cosine, sine;
};

Placement draw_placement(RandomStream& random, int width, int height) {
  const double angle = between(random, 0, 2 * std::numbers::pi);
  const double side = std::min(width, height);
  Placement place{};
  place.radius = side * between(random, 0.30, 0.44);
  // A little of the shape may leave the picture.
  const double margin = 0.92 * place.radius;
  place.x = between(random, margin, width - margin);
  place.y = between(random, margin, height - margin);
  const auto [sine, cosine] = portable_sine_and_cosine(angle);
  place.cosine = cosine;
  place.sine = sine;
  return place;
}

// The part of pixel (px, py) that the shape covers, from 4 x 4 points.
double coverage(const SynthShape& shape, const Placement& place, int px, int py) {
  constexpr int kPoints = 4;
  int inside = 0;
  for (int i = 0; i < kPoints * kPoints; ++i) {
    const int column = i % kPoints;
    const int row = i / kPoints;
    const double dx = (px + (column + 0.5) / kPoints - place.x) / place.radius;
    const double dy = (py + (row + 0.5) / kPoints - place.y) / place.radius;
    inside +=
        shape.contains(place.cosine * dx + place.sine * dy, place.cosine * dy - place.sine * dx) ? 1 : 0;
  }
  return static_cast<double>(inside) / (kPoints * kPoints);
}

void paint(const SynthShape& shape, RandomStream& random, const ImageView& out) {
  Color ground{};
  Color ink{};
  draw_colors(random, ground, ink);
  const Texture ground_texture(random, 14);
  const Texture ink_texture(random, 10);
  const Placement place = draw_placement(random, out.width, out.height);
  const double light_x = between(random, -20, 20) / out.width;
  const double light_y = between(random, -20, 20) / out.height;
  const double noise = between(random, 3, 10);
  for (int y = 0; y < out.height; ++y) {
    uint8_t* pixel = out.row(y);
    for (int x = 0; x < out.width; ++x, pixel += 3) {
      const double part = coverage(shape, place, x, y);
      Color below = ground;
      Color above = ink;
      ground_texture.add_at(x, y, below);
      ink_texture.add_at(x, y, above);
      const int from_middle_x = x - out.width / 2;
      const int from_middle_y = y - out.height / 2;
      const double light = light_x * from_middle_x + light_y * from_middle_y;
      for (size_t c = 0; c < 3; ++c) {
        const double value = below[c] + part * (above[c] - below[c]) + light + noise * random.normal();
        pixel[c] = static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L));
      }
    }
  }
}

Status check(const SynthOptions& options) {
  if (options.per_class < 1 || options.per_class > 1'000'000)
    return misuse("synth", "--per-class ", options.per_class, "; give 1 to 1000000");
  if (options.size_min < 16 || options.size_max > 4096 || options.size_min > options.size_max)
    return misuse("synth", "--size ", options.size_min, "..", options.size_max, "; give 16 to 4096 pixels");
  std::error_code error;
  if (options.directory.empty()) return misuse("synth", "OUT is empty; give the folder to make");
  if (std::filesystem::exists(options.directory, error))
    return misuse("synth", options.directory, " exists already; remove it or choose another");
  return {};
}

std::string file_name(int64_t number) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%05lld.jpg", static_cast<long long>(number));
  return name.data();
}

// Of any number of threads.
class FirstError {
 public:
  void note(const Status& status) {
    const MutexLock lock(mutex_);
    if (first_.ok()) first_ = status;
  }
  Status get() const {
    const MutexLock lock(mutex_);
    return first_;
  }

 private:
  mutable Mutex mutex_;
  Status first_ DLPIPE_GUARDED_BY(mutex_);
};

// All pictures of all classes, by any number of threads: each takes the next number.
Status draw_all(const SynthOptions& options, const data::PartialDirectory& root, SynthReport& report) {
  std::atomic<int64_t> next = 0;
  std::atomic<uint64_t> bytes = 0;
  FirstError failed;
  const int64_t total = options.per_class * static_cast<int64_t>(report.classes.size());
  const auto work = [&](int) {
    for (int64_t i = next++; i < total; i = next++) {
      const auto class_index = static_cast<int>(i / options.per_class);
      const int64_t number = i % options.per_class;
      const auto picture = draw_picture(class_index, number, options);
      Status status = picture.status();
      if (picture.ok()) {
        bytes += picture->size();
        status = root.write(concat(report.classes[static_cast<size_t>(class_index)], "/", file_name(number)),
                            *picture);
      }
      if (status.ok()) continue;
      failed.note(status);
      next = total;
    }
  };
  Threads threads("synth", options.jobs > 0 ? options.jobs : available_threads(), work);
  const Status ended = threads.join();
  report.files = total;
  report.bytes = bytes;
  const Status failure = failed.get();
  return failure.ok() ? ended : failure;
}

}  // namespace

const std::vector<std::string>& synth_classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SynthShape& shape : synth_shapes()) all.emplace_back(shape.name);
    return all;
  }();
  return names;
}

Result<std::vector<std::byte>> draw_picture(int class_index, int64_t number, const SynthOptions& options) {
  const SynthShape& shape = synth_shapes().at(static_cast<size_t>(class_index));
  RandomStream random(philox_mix(options.seed, static_cast<uint64_t>(class_index)),
                      static_cast<uint64_t>(number));
  const auto sizes = static_cast<uint32_t>(options.size_max - options.size_min + 1);
  const int width = options.size_min + static_cast<int>(random.below(sizes));
  const int height = options.size_min + static_cast<int>(random.below(sizes));
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * 3);
  const ImageView view{pixels.data(), width, height, 3, ptrdiff_t{width} * 3};
  paint(shape, random, view);
  return data::encode_jpeg(view, options.quality, /*subsample=*/false);
}

Result<SynthReport> synth(const SynthOptions& options) {
  DLPIPE_RETURN_IF_ERROR(check(options));
  DLPIPE_ASSIGN_OR_RETURN(auto partial, data::PartialDirectory::claim("synth", options.directory));
  DLPIPE_RETURN_IF_ERROR(partial.clear());
  SynthReport report;
  report.classes = synth_classes();
  DLPIPE_RETURN_IF_ERROR(draw_all(options, partial, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

}  // namespace dlpipe::ingest
