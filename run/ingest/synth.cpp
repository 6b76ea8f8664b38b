#include "run/ingest/synth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numbers>

#include "base/machine.h"
#include "base/mutex.h"
#include "base/portable_math.h"
#include "base/text.h"
#include "base/threads.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/random.h"
#include "io/data/partial_directory.h"

namespace dlpipe::ingest {

namespace {

double radius(double x, double y) {
  return std::sqrt(x * x + y * y);  // rounded as IEEE 754 requires; hypot differs between C libraries
}
double square_radius(double x, double y) {
  return std::max(std::abs(x), std::abs(y));
}

bool in_bar(double x, double y) {
  return std::abs(x) < 0.96 && std::abs(y) < 0.24;
}
bool in_crescent(double x, double y) {
  return radius(x, y) < 0.95 && radius(x - 0.5, y) > 0.75;
}
bool in_disc(double x, double y) {
  return radius(x, y) < 0.85;
}
bool in_frame(double x, double y) {
  const double r = square_radius(x, y);
  return r > 0.42 && r < 0.72;
}
bool in_pair(double x, double y) {
  return radius(std::abs(x) - 0.58, y) < 0.38;
}
bool in_plus(double x, double y) {
  return square_radius(x, y) < 0.92 && std::min(std::abs(x), std::abs(y)) < 0.24;
}
bool in_ring(double x, double y) {
  const double r = radius(x, y);
  return r > 0.55 && r < 0.92;
}
bool in_square(double x, double y) {
  return square_radius(x, y) < 0.72;
}
// The directions of `kCount` points on a circle, the first at (1, 0).
template <size_t kCount>
const std::array<SineAndCosine, kCount>& directions() {
  static const auto all = [] {
    std::array<SineAndCosine, kCount> made{};
    for (size_t i = 0; i < kCount; ++i)
      made[i] = portable_sine_and_cosine(2 * std::numbers::pi * static_cast<double>(i) / kCount);
    return made;
  }();
  return all;
}

// A star with five tips. The point is rotated so that its nearest tip is at (1, 0), and mirrored to above the x axis.
bool in_star(double x, double y) {
  constexpr double kInner = 0.40;
  double px = -1;
  double py = 0;
  for (const auto [sine, cosine] : directions<5>()) {
    const double along = x * cosine + y * sine;
    if (along < px) continue;
    px = along;
    py = std::abs(y * cosine - x * sine);
  }
  // The edge runs from the tip at (1, 0) to the notch, half a sector further.
  const auto& [sine, cosine] = directions<10>()[1];
  const double nx = kInner * cosine;
  const double ny = kInner * sine;
  return (nx - 1) * py - ny * (px - 1) > 0;
}
bool in_triangle(double x, double y) {
  constexpr double kInradius = 0.47;
  return std::ranges::all_of(directions<3>(), [&](const SineAndCosine& side) {
    return x * side.cosine + y * side.sine <= kInradius;
  });
}

}  // namespace

const std::vector<SynthShape>& synth_shapes() {
  static const std::vector<SynthShape> shapes = {
      {"bar", in_bar},   {"crescent", in_crescent}, {"disc", in_disc}, {"frame", in_frame},
      {"pair", in_pair}, {"plus", in_plus},         {"ring", in_ring}, {"square", in_square},
      {"star", in_star}, {"triangle", in_triangle}};
  return shapes;
}

namespace {

using Color = std::array<double, 3>;

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform_double();
}

double luma(const Color& color) {
  return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];
}

// The sum of a few waves of different directions, lengths and colours, with mean zero.
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

// Draws two colours of different brightness; either may be the brighter one.
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

/// `least` and `most` are bounds of the radius, as fractions of the shorter side.
Placement draw_placement(RandomStream& random, int width, int height, double least = 0.30,
                         double most = 0.44) {
  const double angle = between(random, 0, 2 * std::numbers::pi);
  const double side = std::min(width, height);
  Placement place{};
  place.radius = side * between(random, least, most);
  // A little of the shape may leave the image.
  const double margin = 0.92 * place.radius;
  place.x = between(random, margin, width - margin);
  place.y = between(random, margin, height - margin);
  const auto [sine, cosine] = portable_sine_and_cosine(angle);
  place.cosine = cosine;
  place.sine = sine;
  return place;
}

// The fraction of pixel (px, py) that the shape covers, estimated from 4 x 4 points.
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

// ---- scenes

/// A shape in a scene, and the box of the pixels that belong to it.
struct SceneObject {
  int shape = 0;
  Placement place{};
  int left = 0, top = 0, right = 0,
      bottom = 0;  // of its pixels; right and bottom are exclusive; right is 0 if there are none
};

struct Scene {
  std::vector<uint8_t> pixels;  // [height, width, 3]
  std::vector<uint8_t> mask;    // [height, width]: 1 + shape, 0 the ground
  int width = 0, height = 0;
  std::vector<SceneObject> objects;
};

/// One to `most` shapes of different kinds with circles that do not overlap; fewer if there is no space.
std::vector<SceneObject> place_objects(RandomStream& random, int width, int height, int most) {
  const int wanted = 1 + static_cast<int>(random.below(static_cast<uint32_t>(most)));
  std::vector<SceneObject> objects;
  constexpr int kTries = 40;
  for (int tried = 0; tried < kTries && static_cast<int>(objects.size()) < wanted; ++tried) {
    SceneObject object;
    object.shape = static_cast<int>(random.below(static_cast<uint32_t>(synth_shapes().size())));
    object.place = draw_placement(random, width, height, 0.14, 0.24);
    const bool is_free = std::ranges::none_of(objects, [&](const SceneObject& other) {
      return other.shape == object.shape ||
             radius(other.place.x - object.place.x, other.place.y - object.place.y) <
                 other.place.radius + object.place.radius;
    });
    if (is_free) objects.push_back(object);
  }
  return objects;
}

void paint_scene(RandomStream& random, Scene& scene) {
  Color ground{};
  std::vector<Color> inks(scene.objects.size());
  draw_colors(random, ground, inks[0]);
  for (size_t i = 1; i < inks.size(); ++i) {
    do {
      for (double& value : inks[i]) value = between(random, 20, 235);
    } while (std::abs(luma(ground) - luma(inks[i])) < 50);
  }
  const Texture texture(random, 14);
  const double noise = between(random, 3, 10);
  for (int y = 0; y < scene.height; ++y) {
    for (int x = 0; x < scene.width; ++x) {
      Color color = ground;
      texture.add_at(x, y, color);
      const size_t at = static_cast<size_t>(y) * static_cast<size_t>(scene.width) + static_cast<size_t>(x);
      for (size_t i = 0; i < scene.objects.size(); ++i) {
        SceneObject& object = scene.objects[i];
        if (radius(x + 0.5 - object.place.x, y + 0.5 - object.place.y) > object.place.radius + 1) continue;
        const double part = coverage(synth_shapes()[static_cast<size_t>(object.shape)], object.place, x, y);
        for (size_t c = 0; c < color.size(); ++c) color[c] += part * (inks[i][c] - color[c]);
        if (part < 0.5) continue;
        scene.mask[at] = static_cast<uint8_t>(1 + object.shape);
        object.left = object.right == 0 ? x : std::min(object.left, x);
        object.top = object.right == 0 ? y : object.top;
        object.right = std::max(object.right, x + 1);
        object.bottom = y + 1;
      }
      for (size_t c = 0; c < color.size(); ++c)
        scene.pixels[3 * at + c] =
            static_cast<uint8_t>(std::clamp(std::lround(color[c] + noise * random.normal()), 0L, 255L));
    }
  }
}

Scene draw_scene(int64_t number, const SynthOptions& options) {
  constexpr uint64_t kScenes = 0x7363656e65;  // other draws than those of classes
  RandomStream random(philox_mix(options.seed, kScenes), static_cast<uint64_t>(number));
  const auto sizes = static_cast<uint32_t>(options.size_max - options.size_min + 1);
  Scene scene;
  scene.width = options.size_min + static_cast<int>(random.below(sizes));
  scene.height = options.size_min + static_cast<int>(random.below(sizes));
  const auto area = static_cast<size_t>(scene.width) * static_cast<size_t>(scene.height);
  scene.pixels.resize(3 * area);
  scene.mask.resize(area);
  scene.objects = place_objects(random, scene.width, scene.height, options.task == "regress" ? 1 : 3);
  paint_scene(random, scene);
  return scene;
}

/// A scene's entry in the list of the task: a line of CSV, or COCO's entries for an image and its objects.
struct SceneEntry {
  std::string line, objects;
};

SceneEntry entry_of(const Scene& scene, const std::string& task, const std::string& file, int64_t number) {
  SceneEntry entry;
  if (task == "regress") {
    const Placement& place = scene.objects.at(0).place;
    entry.line = concat("images/", file, ",", place.x, ",", place.y, ",", 2 * place.radius, "\n");
    return entry;
  }
  if (task == "multilabel") {
    for (const SceneObject& object : scene.objects)
      entry.line +=
          concat(entry.line.empty() ? "" : ";", synth_shapes()[static_cast<size_t>(object.shape)].name);
    entry.line = concat("images/", file, ",", entry.line, "\n");
    return entry;
  }
  entry.line = concat("{\"id\": ", number, ", \"file_name\": \"", file, "\", \"width\": ", scene.width,
                      ", \"height\": ", scene.height, "}");
  for (size_t i = 0; i < scene.objects.size(); ++i) {
    const SceneObject& object = scene.objects[i];
    if (object.right == 0) continue;
    const int width = object.right - object.left, height = object.bottom - object.top;
    entry.objects += concat(
        entry.objects.empty() ? "" : ",\n", "{\"id\": ", 3 * number + static_cast<int64_t>(i) + 1,
        ", \"image_id\": ", number, ", \"category_id\": ", object.shape + 1, ", \"bbox\": [", object.left,
        ", ", object.top, ", ", width, ", ", height, "], \"area\": ", width * height, ", \"iscrowd\": 0}");
  }
  return entry;
}

/// The file that lists all scenes, and its name.
std::pair<std::string, std::string> list_of(const std::vector<SceneEntry>& entries, const std::string& task) {
  std::string text = task == "regress" ? "path,x,y,size\n" : task == "multilabel" ? "path,tags\n" : "";
  if (!text.empty()) {
    for (const SceneEntry& entry : entries) text += entry.line;
    return {"list.csv", text};
  }
  std::string images, objects, categories;
  for (const SceneEntry& entry : entries) {
    images += concat(images.empty() ? "" : ",\n", entry.line);
    if (!entry.objects.empty()) objects += concat(objects.empty() ? "" : ",\n", entry.objects);
  }
  for (size_t i = 0; i < synth_shapes().size(); ++i)
    categories +=
        concat(i > 0 ? ", " : "", "{\"id\": ", i + 1, ", \"name\": \"", synth_shapes()[i].name, "\"}");
  return {"annotations.json", concat("{\"images\": [", images, "],\n\"annotations\": [", objects,
                                     "],\n\"categories\": [", categories, "]}\n")};
}

constexpr std::array<const char*, 4> kSceneTasks = {"multilabel", "regress", "detect", "segment"};

Status check(const SynthOptions& options) {
  if (options.task != "classify" && std::ranges::find(kSceneTasks, options.task) == kSceneTasks.end())
    return misuse("synth", "there is no task ", options.task,
                  " to draw; give classify, multilabel, regress, detect or segment");
  if (options.per_class < 1 || options.per_class > 1'000'000)
    return misuse("synth", "--per-class ", options.per_class, "; use 1 to 1000000");
  if (options.size_min < 16 || options.size_max > 4096 || options.size_min > options.size_max)
    return misuse("synth", "--size ", options.size_min, "..", options.size_max, "; use 16 to 4096 pixels");
  std::error_code error;
  if (options.directory.empty()) return misuse("synth", "OUT is empty; give the folder to create");
  if (std::filesystem::exists(options.directory, error))
    return misuse("synth", options.directory, " already exists; remove it or choose another");
  return {};
}

std::string file_name(int64_t number) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%05lld.jpg", static_cast<long long>(number));
  return name.data();
}

// The first error of any number of threads.
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

/// Writes one scene and, if the task needs it, its mask; else makes the scene's entry in the list. Returns the bytes written.
Result<uint64_t> write_scene(const SynthOptions& options, int64_t number, const data::PartialDirectory& root,
                             SceneEntry& entry) {
  const Scene scene = draw_scene(number, options);
  const ConstImageView view(scene.pixels.data(), scene.width, scene.height, 3, ptrdiff_t{scene.width} * 3);
  DLPIPE_ASSIGN_OR_RETURN(const auto image, data::encode_jpeg(view, options.quality, /*subsample=*/false));
  const std::string file = file_name(number);
  DLPIPE_RETURN_IF_ERROR(root.write(concat("images/", file), image));
  if (options.task != "segment") {
    entry = entry_of(scene, options.task, file, number);
    return image.size();
  }
  const ConstImageView mask(scene.mask.data(), scene.width, scene.height, 1, ptrdiff_t{scene.width});
  DLPIPE_ASSIGN_OR_RETURN(const auto png, data::encode_png(mask));
  DLPIPE_RETURN_IF_ERROR(root.write(concat("masks/", file.substr(0, file.size() - 3), "png"), png));
  return image.size() + png.size();
}

/// Calls `draw` with each image's number, in several threads. `draw` returns the bytes that it wrote. Ends at the first failure.
Status draw_each(const SynthOptions& options, SynthReport& report,
                 const std::function<Result<uint64_t>(int64_t)>& draw) {
  std::atomic<int64_t> next = 0;
  std::atomic<uint64_t> bytes = 0;
  FirstError failed;
  const int64_t total = options.per_class * static_cast<int64_t>(report.classes.size());
  const auto work = [&](int) {
    for (int64_t i = next++; i < total; i = next++) {
      const Result<uint64_t> written = draw(i);
      if (written.ok()) {
        bytes += *written;
        continue;
      }
      failed.note(written.status());
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

Status draw_scenes(const SynthOptions& options, const data::PartialDirectory& root, SynthReport& report) {
  std::vector<SceneEntry> entries(static_cast<size_t>(options.per_class) * report.classes.size());
  DLPIPE_RETURN_IF_ERROR(draw_each(options, report, [&](int64_t i) {
    return write_scene(options, i, root, entries[static_cast<size_t>(i)]);
  }));
  if (options.task == "segment") return {};
  const auto [name, text] = list_of(entries, options.task);
  return root.write(name, std::as_bytes(std::span(text.data(), text.size())));
}

Status draw_all(const SynthOptions& options, const data::PartialDirectory& root, SynthReport& report) {
  return draw_each(options, report, [&](int64_t i) -> Result<uint64_t> {
    const int64_t label = i / options.per_class, number = i % options.per_class;
    DLPIPE_ASSIGN_OR_RETURN(const auto image, draw_image(static_cast<int>(label), number, options));
    DLPIPE_RETURN_IF_ERROR(
        root.write(concat(report.classes[static_cast<size_t>(label)], "/", file_name(number)), image));
    return image.size();
  });
}

}  // namespace

std::span<const char* const> synth_scene_tasks() {
  return kSceneTasks;
}

const std::vector<std::string>& synth_classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SynthShape& shape : synth_shapes()) all.emplace_back(shape.name);
    return all;
  }();
  return names;
}

Result<std::vector<std::byte>> draw_image(int class_index, int64_t number, const SynthOptions& options) {
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
  DLPIPE_RETURN_IF_ERROR(options.task == "classify" ? draw_all(options, partial, report)
                                                    : draw_scenes(options, partial, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

}  // namespace dlpipe::ingest
