// Any bytes as COCO's JSON, VOC's XML, YOLO's data.yaml and YOLO's labels: what is read keeps what the header of each
// promises.
#include <cstdlib>
#include <string_view>

#include "io/data/sources/annotations/coco.h"
#include "io/data/sources/annotations/voc.h"
#include "io/data/sources/annotations/yolo.h"

using namespace dlpipe::data;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto contents = coco::parse(text, "x.json"); contents.ok()) {
    for (const coco::Annotation& one : contents->annotations) {
      if (!contents->categories.contains(one.category) || (!one.box.empty() && one.box.size() != 4))
        std::abort();
    }
  }
  if (const auto annotation = voc::parse(std::as_bytes(std::span(text))); annotation.ok()) {
    for (const voc::Object& object : annotation->objects) {
      if (object.name.empty() || object.box.size() != 4) std::abort();
    }
  }
  yolo::Config config;
  if (const auto parsed = yolo::parse_config(text); parsed.ok()) config = *parsed;
  if (const auto labels = yolo::parse_labels(text, config); labels.ok()) {
    const size_t count = labels->classes.size();
    if (labels->boxes.size() != 4 * count ||
        labels->points.size() != 3 * count * static_cast<size_t>(config.points))
      std::abort();
  }
  return 0;
}
