#include "dlpipe/io/data/sources/annotations/voc_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>
#include <string_view>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/annotations/xml_encoding.h"

namespace dlpipe::data::voc {

namespace {

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

/// What "#65" or "#x41" stands for, which pugixml lets wrap around and be the zero byte that ends its texts; 0 for no character.
uint32_t character_of(std::string_view reference) {
  const bool is_hex = reference.starts_with("#x");
  reference.remove_prefix(is_hex ? 2 : 1);
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(reference.data(), reference.data() + reference.size(), code, is_hex ? 16 : 10);
  const bool is_character = error == std::errc() && end == reference.data() + reference.size() &&
                            code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return is_character ? code : 0;
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// `text` with the characters that references in it stand for; what looks like none stays.
Result<std::string> expanded(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
      {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '&' ? text.find_first_of("&; ", at + 1) : std::string_view::npos;
    const bool is_reference = end != std::string_view::npos && text[end] == ';';
    const std::string_view name = is_reference ? text.substr(at + 1, end - at - 1) : std::string_view();
    const auto named =
        std::find_if(kNamed.begin(), kNamed.end(), [&](const auto& one) { return one.first == name; });
    at = is_reference && (name.starts_with('#') || named != kNamed.end()) ? end + 1 : at;
    if (named != kNamed.end()) {
      out += named->second;
    } else if (name.starts_with('#')) {
      const uint32_t code = character_of(name);
      if (code == 0) return wrong(concat("&", printable(name), "; is no character of XML"));
      append_utf8(code, out);
    } else if (!name.empty() && std::all_of(name.begin(), name.end(), is_letter_or_digit)) {
      return wrong(concat("&", printable(name), "; is no entity of XML; write the character itself"));
    } else {
      out += text[at++];
    }
  }
  return out;
}

/// All text directly in it, without comments between.
Result<std::string> text_in(const pugi::xml_node& node) {
  std::string text;
  for (const pugi::xml_node& piece : node) {
    if (piece.type() == pugi::node_cdata) text += piece.value();
    if (piece.type() != pugi::node_pcdata) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::string one, expanded(piece.value()));
    text += one;
  }
  return std::string(trim(text));
}

/// The text of the child of that name, "" where there is none. Of several with other texts nobody knows which one is meant.
Result<std::string> text_of(const pugi::xml_node& node, const char* name) {
  std::string text;
  bool is_first = true;
  for (const pugi::xml_node& child : node.children(name)) {
    DLPIPE_ASSIGN_OR_RETURN(std::string one, text_in(child));
    if (!is_first && one != text)
      return wrong(concat("<", node.name(), "> has several <", name, ">, ", in_quotes(text), " and ",
                          in_quotes(one), "; leave one of them"));
    text = std::move(one);
    is_first = false;
  }
  return text;
}

/// A number of pixels; 0 where the node is missing or empty.
Result<int32_t> side_of(const pugi::xml_node& size, const char* name) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(size, name));
  constexpr int64_t kMostSide = 1 << 30;
  int64_t side = 0;
  if (!text.empty() && (!parse_int(text, &side) || side < 0 || side > kMostSide))
    return wrong(concat("its ", name, " is '", printable(text), "'"));
  return static_cast<int32_t>(side);
}

Result<std::vector<float>> box_of(const pugi::xml_node& bndbox) {
  std::vector<float> box;
  for (const char* name : {"xmin", "ymin", "xmax", "ymax"}) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(bndbox, name));
    double value = 0;
    if (!parse_double(text, &value) || !std::isfinite(static_cast<float>(value)))
      return wrong(concat("an object's ", name, " is '", printable(text), "'"));
    const bool is_first = box.size() < 2;
    box.push_back(static_cast<float>(is_first ? std::max(0.0, value - 1) : value));
  }
  return box;
}

/// One for each of its boxes: some programs write all boxes of a class into one <object>.
Status add_objects(const pugi::xml_node& node, std::vector<Object>& objects) {
  Object object;
  DLPIPE_ASSIGN_OR_RETURN(object.name, text_of(node, "name"));
  if (object.name.empty()) return wrong("an object has no <name>");
  if (!is_utf8(object.name))
    return wrong(concat("the <name> ", in_quotes(object.name),
                        " isn't UTF-8, and no other encoding is declared; save it as UTF-8"));
  DLPIPE_ASSIGN_OR_RETURN(const std::string difficult, text_of(node, "difficult"));
  object.is_difficult = difficult == "1" || difficult == "true" || difficult == "True";
  if (!node.child("bndbox")) return wrong(concat("the object ", in_quotes(object.name), " has no <bndbox>"));
  for (const pugi::xml_node& bndbox : node.children("bndbox")) {
    DLPIPE_ASSIGN_OR_RETURN(object.box, box_of(bndbox));
    objects.push_back(object);
  }
  return {};
}

}  // namespace

Result<Annotation> parse(std::span<const std::byte> bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, xml_as_utf8(bytes));
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(
      text.data(), text.size(), (pugi::parse_default & ~pugi::parse_escapes) | pugi::parse_doctype,
      is_wide(bytes) ? pugi::encoding_auto : pugi::encoding_utf8);
  if (!parsed) return wrong(concat("no whole XML, at byte ", parsed.offset, ": ", parsed.description()));
  for (const pugi::xml_node& node : document) {
    if (node.type() == pugi::node_doctype &&
        std::string_view(node.value()).find("<!ENTITY") != std::string_view::npos)
      return wrong(
          "its DOCTYPE defines entities, which are not read; write what they stand for in their place");
  }
  const pugi::xml_node root = document.child("annotation");
  if (!root) return wrong("no XML of a VOC annotation: it has no <annotation>");
  if (root.next_sibling("annotation"))
    return wrong("it holds several <annotation>; write one file for each picture");
  Annotation annotation;
  DLPIPE_ASSIGN_OR_RETURN(annotation.file_name, text_of(root, "filename"));
  const pugi::xml_node size = root.child("size");
  if (size.next_sibling("size")) return wrong("it has several <size>; leave one of them");
  DLPIPE_ASSIGN_OR_RETURN(annotation.width, side_of(size, "width"));
  DLPIPE_ASSIGN_OR_RETURN(annotation.height, side_of(size, "height"));
  if (annotation.width == 0 || annotation.height == 0) annotation.width = annotation.height = 0;
  for (const pugi::xml_node& node : root.children("object"))
    DLPIPE_RETURN_IF_ERROR(add_objects(node, annotation.objects));
  return annotation;
}

}  // namespace dlpipe::data::voc
