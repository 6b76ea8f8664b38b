#include "dlpipe/io/data/sources/annotations/voc_xml.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <pugixml.hpp>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data::voc {

namespace {

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

std::string text_of(const pugi::xml_node& node, const char* name) {
  return std::string(trim(node.child(name).text().get()));
}

/// A number of pixels; 0 where the node is missing or empty.
Result<int32_t> side_of(const pugi::xml_node& size, const char* name) {
  const std::string text = text_of(size, name);
  constexpr int64_t kMostSide = 1 << 30;
  int64_t side = 0;
  if (!text.empty() && (!parse_int(text, &side) || side < 0 || side > kMostSide))
    return wrong(concat("its ", name, " is '", printable(text), "'"));
  return static_cast<int32_t>(side);
}

Result<std::vector<float>> box_of(const pugi::xml_node& object) {
  std::vector<float> box;
  for (const char* name : {"xmin", "ymin", "xmax", "ymax"}) {
    const std::string text = text_of(object.child("bndbox"), name);
    double value = 0;
    if (!parse_double(text, &value) || !std::isfinite(static_cast<float>(value)))
      return wrong(concat("an object's ", name, " is '", printable(text), "'"));
    const bool is_first = box.size() < 2;
    box.push_back(static_cast<float>(is_first ? std::max(0.0, value - 1) : value));
  }
  return box;
}

}  // namespace

Result<Annotation> parse(std::span<const std::byte> bytes) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(bytes.data(), bytes.size());
  if (!parsed) return wrong(concat("no whole XML, at byte ", parsed.offset, ": ", parsed.description()));
  const pugi::xml_node root = document.child("annotation");
  if (!root) return wrong("no XML of a VOC annotation: it has no <annotation>");
  Annotation annotation;
  annotation.file_name = text_of(root, "filename");
  DLPIPE_ASSIGN_OR_RETURN(annotation.width, side_of(root.child("size"), "width"));
  DLPIPE_ASSIGN_OR_RETURN(annotation.height, side_of(root.child("size"), "height"));
  if (annotation.width == 0 || annotation.height == 0) annotation.width = annotation.height = 0;
  for (const pugi::xml_node& node : root.children("object")) {
    Object object;
    object.name = text_of(node, "name");
    if (object.name.empty()) return wrong("an object has no <name>");
    DLPIPE_ASSIGN_OR_RETURN(object.box, box_of(node));
    const std::string difficult = text_of(node, "difficult");
    object.is_difficult = difficult == "1" || difficult == "true" || difficult == "True";
    annotation.objects.push_back(std::move(object));
  }
  return annotation;
}

}  // namespace dlpipe::data::voc
