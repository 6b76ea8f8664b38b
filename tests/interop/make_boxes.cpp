// Prints images with objects and found boxes, drawn from a seed, and dlpipe's COCO metrics of them, a JSON line for each case: for read_boxes.py.
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/random.h"
#include "io/formats/json.h"
#include "run/task/coco_map.h"
#include "run/task/task.h"

namespace dlpipe::run {
namespace {

using formats::Json;

/// What a case has much of.
struct CaseKind {
  const char* name;
  int images, classes, objects, found;  // the latter in an image, at most
  uint32_t side;                        // of an object, at most
  bool has_crowds, has_ties;
};
constexpr CaseKind kKinds[] = {
    {"a few", 6, 3, 5, 8, 40, false, false},        {"crowds", 12, 2, 8, 12, 80, true, false},
    {"ties", 12, 3, 6, 20, 60, false, true},        {"all sizes", 20, 4, 10, 25, 260, true, true},
    {"many found", 4, 1, 30, 140, 120, true, true}, {"empty images", 30, 5, 1, 1, 120, true, true},
    {"no objects", 3, 2, 0, 5, 50, false, false},   {"nothing found", 5, 2, 5, 0, 50, true, false}};

class Case {
 public:
  Case(const CaseKind& kind, uint64_t seed) : kind_(kind), random_(seed, 17) {
    for (int i = 0; i < kind.images; ++i) {
      MapImage& image = images_.emplace_back();
      const uint32_t objects = random_.below(static_cast<uint32_t>(kind.objects) + 1);
      for (uint32_t k = 0; k < objects; ++k)
        image.objects.push_back({box(), label(), kind.has_crowds && random_.below(4) == 0});
      const uint32_t found = random_.below(static_cast<uint32_t>(kind.found) + 1);
      for (uint32_t k = 0; k < found; ++k) image.found.push_back(found_box(image));
    }
  }

  Json json() const {
    Json images = Json::array();
    for (const MapImage& image : images_) {
      Json objects = Json::array(), found = Json::array();
      for (const BoxObject& one : image.objects)
        objects.push_back(
            Json::object({{"label", one.label}, {"crowd", one.is_crowd}, {"box", json_of(one.box)}}));
      for (const FoundBox& one : image.found)
        found.push_back(Json::object(
            {{"label", one.label}, {"score", static_cast<double>(one.score)}, {"box", json_of(one.box)}}));
      images.push_back(Json::object({{"objects", std::move(objects)}, {"found", std::move(found)}}));
    }
    const std::vector<ClassMap> maps = coco_map(images_, kind_.classes);
    Json each = Json::array();
    for (const ClassMap& map : maps) each.push_back(map.objects > 0 ? Json(map.ap) : Json());
    return Json::object({{"name", kind_.name},
                         {"classes", kind_.classes},
                         {"images", std::move(images)},
                         {"map", mean_of(maps, &ClassMap::ap)},
                         {"map50", mean_of(maps, &ClassMap::ap50)},
                         {"map75", mean_of(maps, &ClassMap::ap75)},
                         {"map_small", mean_of(maps, &ClassMap::small)},
                         {"map_medium", mean_of(maps, &ClassMap::medium)},
                         {"map_large", mean_of(maps, &ClassMap::large)},
                         {"ap", std::move(each)}});
  }

 private:
  static Json json_of(const std::array<float, 4>& box) { return Json(Json::Array(box.begin(), box.end())); }
  int64_t label() { return random_.below(static_cast<uint32_t>(kind_.classes)); }
  float number(uint32_t below) {
    const auto whole = static_cast<float>(random_.below(below));
    // Halves make equal overlaps and areas of exactly 32 x 32; others are as a model's.
    return kind_.has_ties ? whole / 2 : whole / 2 + random_.uniform();
  }
  std::array<float, 4> box() {
    const float x = number(500), y = number(500);
    return {x, y, x + 1 + number(2 * kind_.side), y + 1 + number(2 * kind_.side)};
  }
  /// An object, a little moved, or none at all.
  FoundBox found_box(const MapImage& image) {
    FoundBox found{box(), label(), 0};
    if (!image.objects.empty() && random_.below(4) > 0) {
      const auto& object = image.objects[random_.below(static_cast<uint32_t>(image.objects.size()))];
      found.box = object.box;
      found.label = random_.below(8) == 0 ? label() : object.label;
      for (size_t side = 0; side < 4; ++side) {
        const float by = (static_cast<float>(random_.below(9)) - 4) / 32 *
                         (object.box[side % 2 + 2] - object.box[side % 2]);
        found.box[side] += by;
      }
      if (kind_.has_ties && random_.below(3) == 0) found.box = object.box;
    }
    found.score = kind_.has_ties ? static_cast<float>(random_.below(8)) / 8 : random_.uniform();
    return found;
  }

  const CaseKind& kind_;
  RandomStream random_;
  std::vector<MapImage> images_;
};

}  // namespace
}  // namespace dlpipe::run

int main() {
  for (const auto& kind : dlpipe::run::kKinds)
    for (uint64_t seed = 0; seed < 4; ++seed)
      std::printf("%s\n", dlpipe::run::Case(kind, seed).json().dump().c_str());
  return 0;
}
