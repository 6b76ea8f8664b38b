// Pascal VOC: an XML for each image. SRC is a folder as VOCdevkit/VOC2012 (Annotations, JPEGImages, and lists of names in
// ImageSets/Main, which become splits, or in ImageSets/Segmentation if there are masks and no lists in Main), VOCdevkit with
// several years, a folder with annotations/ and images/, or one where each image has its XML next to it; or train/, valid/ and
// test/ with any of these. Images and XML may be in folders of the same names below these, as CVAT writes them. Classes are in the order of their names. PNGs in SegmentationClass are the masks of their images and
// stay unchanged: 0 background, 1 to 20 the published classes in the order of their names, 255 unknown.
//
// First the encodings of XML, then the parser, then the source.
#include "io/data/sources/annotations/voc.h"

#include <iconv.h>
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/annotations/annotated_images.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace voc {

namespace {

namespace fs = std::filesystem;

// The text of an XML file as UTF-8.

struct Encoding {
  std::string_view declared;  // in lower case
  std::string_view name;      // iconv's name
};

// Not everything that iconv supports: some of its tables had errors with hostile bytes. Latin-1 and the Chinese, Japanese and
// Korean ones are read as their supersets, as browsers do: programs of Windows declare the smaller one.
constexpr std::array kEncodings = {
    Encoding{"us-ascii", "ASCII"},        Encoding{"ascii", "ASCII"},
    Encoding{"gb2312", "GB18030"},        Encoding{"gb_2312-80", "GB18030"},
    Encoding{"gbk", "GB18030"},           Encoding{"gb18030", "GB18030"},
    Encoding{"cp936", "GB18030"},         Encoding{"euc-cn", "GB18030"},
    Encoding{"big5", "BIG5-HKSCS"},       Encoding{"cp950", "CP950"},
    Encoding{"big5-hkscs", "BIG5-HKSCS"}, Encoding{"shift_jis", "CP932"},
    Encoding{"shift-jis", "CP932"},       Encoding{"sjis", "CP932"},
    Encoding{"cp932", "CP932"},           Encoding{"windows-31j", "CP932"},
    Encoding{"ms932", "CP932"},           Encoding{"euc-jp", "EUC-JP"},
    Encoding{"euc-kr", "CP949"},          Encoding{"ks_c_5601-1987", "CP949"},
    Encoding{"cp949", "CP949"},           Encoding{"windows-949", "CP949"},
    Encoding{"latin1", "CP1252"},         Encoding{"latin-1", "CP1252"},
    Encoding{"iso-8859-1", "CP1252"},     Encoding{"iso8859-1", "CP1252"},
    Encoding{"koi8-r", "KOI8-R"},         Encoding{"koi8-u", "KOI8-U"},
    Encoding{"cp866", "CP866"},           Encoding{"cp437", "CP437"},
    Encoding{"cp850", "CP850"},           Encoding{"macintosh", "MACINTOSH"},
};

/// iconv's name of an encoding; "" if it is not known.
std::string iconv_name(const std::string& declared) {
  const std::string lower = lower_text(declared);
  for (const Encoding& one : kEncodings) {
    if (one.declared == lower) return std::string(one.name);
  }
  int64_t number = 0;
  for (const std::string_view prefix : {"windows-", "cp"}) {
    constexpr int64_t kFirst = 1250, kLast = 1258;
    if (lower.starts_with(prefix) && parse_int(lower.substr(prefix.size()), &number) && number >= kFirst &&
        number <= kLast)
      return concat("CP", number);
  }
  for (const std::string_view prefix : {"iso-8859-", "iso8859-"}) {
    constexpr int64_t kLast = 16;
    if (lower.starts_with(prefix) && parse_int(lower.substr(prefix.size()), &number) && number >= 1 &&
        number <= kLast)
      return concat("ISO-8859-", number);
  }
  return {};
}

/// Encodings that an XML parser recognizes by their bytes, whatever is declared; UTF-7 is not among them. A file whose
/// declaration is readable does not use two bytes per letter: .NET declares such encodings in UTF-8 files.
bool is_unicode(const std::string& declared) {
  const std::string lower = lower_text(declared);
  constexpr std::array<std::string_view, 8> kBegins = {"utf-8",  "utf8",  "utf-16", "utf16",
                                                       "utf-32", "utf32", "ucs",    "iso-10646"};
  return lower.empty() || lower == "unicode" || lower == "unicode-1-1-utf-8" ||
         std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return lower.starts_with(begin); });
}

class Converter {
 public:
  explicit Converter(const std::string& from) : handle_(::iconv_open("UTF-8", from.c_str())) {}
  ~Converter() {
    if (is_open()) ::iconv_close(handle_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  bool is_open() const { return handle_ != reinterpret_cast<iconv_t>(-1); }

  /// The number of bytes that were converted; fewer than given if the next one is invalid.
  size_t run(std::span<const std::byte> bytes, std::string& out) {
    out.resize(4 * bytes.size() + 16);                                         // no character takes more
    char* in = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));  // iconv only reads there
    size_t left = bytes.size();
    char* to = out.data();
    size_t room = out.size();
    ::iconv(handle_, &in, &left, &to, &room);
    ::iconv(handle_, nullptr, nullptr, &to, &room);  // a letter that it held back for an accent after it
    out.resize(out.size() - room);
    return bytes.size() - left;
  }

 private:
  iconv_t handle_;
};

/// Whether the first bytes show that the text is UTF-16 or UTF-32.
bool is_wide(std::span<const std::byte> xml) {
  const auto is = [&](size_t at, int value) { return at < xml.size() && xml[at] == std::byte(value); };
  return (is(0, 0xff) && is(1, 0xfe)) || (is(0, 0xfe) && is(1, 0xff)) || is(0, 0) || is(1, 0);
}

/// What <?xml ... encoding="..."?> declares, after the blanks and comments that some programs begin with; "" if there is no
/// declaration.
std::string declared_encoding(std::span<const std::byte> xml) {
  std::string_view head(reinterpret_cast<const char*>(xml.data()), xml.size());
  const auto skip_blanks = [&] {
    head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  };
  skip_blanks();
  while (head.starts_with("<!--")) {
    const size_t end = head.find("-->", 4);
    if (end == std::string_view::npos) return {};
    head.remove_prefix(end + 3);
    skip_blanks();
  }
  if (!head.starts_with("<?xml")) return {};
  head = head.substr(0, head.find("?>"));
  const size_t key = head.find("encoding");
  if (key == std::string_view::npos) return {};
  const size_t open = head.find_first_of("\"'", key);
  if (open == std::string_view::npos) return {};
  const size_t close = head.find(head[open], open + 1);
  return close == std::string_view::npos ? std::string()
                                         : std::string(head.substr(open + 1, close - open - 1));
}

/// `xml` as UTF-8. Converts it from the encoding that its first line declares, which must be one that browsers know. UTF-16 and
/// UTF-32 (is_wide) are unchanged. If none is declared, the bytes are assumed to be UTF-8 and not checked. kUnsupported names an
/// unknown encoding, kCorrupt a byte that is invalid in the encoding.
Result<std::string> xml_as_utf8(std::span<const std::byte> xml) {
  const std::string declared = is_wide(xml) ? std::string() : declared_encoding(xml);
  if (is_unicode(declared)) return std::string(reinterpret_cast<const char*>(xml.data()), xml.size());
  const std::string from = iconv_name(declared);
  if (from.empty())
    return Status(ErrorCode::kUnsupported,
                  concat("its encoding ", in_quotes(declared), " is unknown; save it as UTF-8"));
  Converter converter(from);
  if (!converter.is_open())
    return Status(ErrorCode::kUnsupported, concat("this system's iconv doesn't know its encoding ",
                                                  in_quotes(declared), "; save it as UTF-8"));
  std::string text;
  if (const size_t read = converter.run(xml, text); read < xml.size())
    return Status(ErrorCode::kCorrupt, concat("byte ", read, " is not valid in its encoding ",
                                              in_quotes(declared), "; save it as UTF-8"));
  return text;
}

// The annotation of an image.

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

/// The character of "#65" or "#x41"; 0 if it is not one. pugixml lets such numbers wrap around and even become the zero byte
/// that ends its texts.
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

/// `text` with its character references replaced; everything else is unchanged.
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
      if (code == 0) return wrong(concat("&", printable(name), "; is not a valid XML character"));
      append_utf8(code, out);
    } else if (!name.empty() && std::all_of(name.begin(), name.end(), is_letter_or_digit)) {
      return wrong(concat("&", printable(name), "; is not an XML entity; write the character itself"));
    } else {
      out += text[at++];
    }
  }
  return out;
}

/// All text directly in the node, without comments in between.
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

/// The text of the child of that name, "" if there is none. Several with different texts are ambiguous.
Result<std::string> text_of(const pugi::xml_node& node, const char* name) {
  std::string text;
  bool is_first = true;
  for (const pugi::xml_node& child : node.children(name)) {
    DLPIPE_ASSIGN_OR_RETURN(std::string one, text_in(child));
    if (!is_first && one != text)
      return wrong(concat("<", node.name(), "> has several <", name, ">, ", in_quotes(text), " and ",
                          in_quotes(one), "; keep one of them"));
    text = std::move(one);
    is_first = false;
  }
  return text;
}

/// A number of pixels; 0 if the node is missing or empty.
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
    box.push_back(static_cast<float>(value));
  }
  return box;
}

/// Adds an object for each of the node's boxes: some programs write all boxes of a class into one <object>.
Status add_objects(const pugi::xml_node& node, std::vector<Object>& objects) {
  Object object;
  DLPIPE_ASSIGN_OR_RETURN(object.name, text_of(node, "name"));
  if (object.name.empty()) return wrong("an object has no <name>");
  if (!is_utf8(object.name))
    return wrong(concat("the <name> ", in_quotes(object.name),
                        " is not UTF-8, and no other encoding is declared; save it as UTF-8"));
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
  if (!parsed) return wrong(concat("not valid XML, at byte ", parsed.offset, ": ", parsed.description()));
  for (const pugi::xml_node& node : document) {
    if (node.type() == pugi::node_doctype &&
        std::string_view(node.value()).find("<!ENTITY") != std::string_view::npos)
      return wrong("its DOCTYPE defines entities, which are not supported; replace them with their text");
  }
  const pugi::xml_node root = document.child("annotation");
  if (!root) return wrong("not the XML of a VOC annotation: it has no <annotation>");
  if (root.next_sibling("annotation")) return wrong("it has several <annotation>; write one file per image");
  Annotation annotation;
  DLPIPE_ASSIGN_OR_RETURN(annotation.file_name, text_of(root, "filename"));
  const pugi::xml_node size = root.child("size");
  if (size.next_sibling("size")) return wrong("it has several <size>; keep one of them");
  DLPIPE_ASSIGN_OR_RETURN(annotation.width, side_of(size, "width"));
  DLPIPE_ASSIGN_OR_RETURN(annotation.height, side_of(size, "height"));
  if (annotation.width == 0 || annotation.height == 0) annotation.width = annotation.height = 0;
  for (const pugi::xml_node& node : root.children("object"))
    DLPIPE_RETURN_IF_ERROR(add_objects(node, annotation.objects));
  return annotation;
}

namespace {

// The source.

constexpr uint64_t kMostXmlBytes = uint64_t{64} << 20;

/// The files of a folder, also in its folders if `is_deep`, by their paths without the ending, "a/1"; of several with the same
/// one, the first.
std::map<std::string, std::string> files_by_stem(const fs::path& folder, bool is_deep,
                                                 bool (*is_wanted)(const std::string&)) {
  std::map<std::string, std::string> files;
  const auto add = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !is_wanted(name)) return false;
    const fs::path path = entry.path().lexically_relative(folder);
    std::string& file = files[fs::path(path).replace_extension().string()];
    if (file.empty() || path.string() < file) file = path.string();
    return false;  // all of them
  };
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory(ignored)) {
      add(entry);
    } else if (is_deep && name[0] != '.' && !is_system_folder(name)) {
      (void)find_below(entry.path(), add);
    }
  }
  return files;
}

bool is_xml(const std::string& name) {
  return lower_ending(name) == "xml";
}

bool is_png(const std::string& name) {
  return lower_ending(name) == "png";
}

/// One folder of annotations with its images.
struct Set {
  fs::path root;
  std::string annotations;  // names of folders in root; ".": root itself
  std::string images;
  bool is_deep = false;     // annotations and images are also in folders below these
  std::string prefix = {};  // of its samples' paths
  std::string split = {};   // of all of it, if it is one split
};

/// Whether the images in the folders of `root` have their XML next to them. These folders may be classes, too. So the images of
/// the first folder decide, and nearly all of them need one.
bool holds_folders_of_both(const fs::path& root) {
  std::optional<fs::path> folder;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (has_image_name(name)) return false;
    const bool is_first = !folder || entry.path() < *folder;
    if (is_first && entry.is_directory(ignored) && !is_system_folder(name)) folder = entry.path();
  }
  size_t images = 0;
  size_t pairs = 0;
  if (!folder) return false;
  (void)find_below(*folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !has_image_name(name)) return false;
    ++images;
    pairs += is_file(fs::path(entry.path()).replace_extension(".xml")) ? 1 : 0;
    return images == kFilesThatDecide;
  });
  return images > 0 && 10 * pairs >= 9 * images;
}

/// Whether a folder of XML in `annotations` has the name of one in `images`.
bool share_folders(const fs::path& annotations, const fs::path& images) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(annotations, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && is_folder(images / name) && holds_ending(entry.path(), "xml")) return true;
  }
  return false;
}

std::optional<Set> set_in(const fs::path& root) {
  const PublishedLayout* const layout = find_layout("voc", root);
  if (layout != nullptr && layout->has[1] == "IMAGE") return Set{root, ".", "."};
  for (const fs::path& annotations : files_like(root, "Annotations|annotations/")) {
    for (const fs::path& images : files_like(root, "JPEGImages|images|Images/")) {
      const bool is_deep = share_folders(annotations, images);
      if (is_deep || !files_like(annotations, "*.xml", 1).empty())
        return Set{root, annotations.filename().string(), images.filename().string(), is_deep};
    }
  }
  return std::nullopt;
}

/// The same, or the folders of `root` together if each image in them has its XML next to it.
std::optional<Set> set_in_folders(const fs::path& root, bool are_literal) {
  if (auto set = set_in(root); set || are_literal) return set;
  return holds_folders_of_both(root) ? std::optional<Set>({root, ".", ".", true}) : std::nullopt;
}

/// SRC itself, or each of its folders (VOC2007, VOC2012; train, valid, test), or those of its VOCdevkit. `are_literal`: folders
/// of images with their XML are classes (--no-splits).
std::vector<Set> sets_in(const fs::path& root, bool are_literal) {
  if (const auto set = set_in(root)) return {*set};
  std::vector<Set> sets;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    const std::string_view split = split_of_name(name);
    if (!name.starts_with("VOC") && split.empty()) continue;
    if (auto set = set_in_folders(entry.path(), are_literal)) {
      set->prefix = name + "/";
      set->split = split;
      sets.push_back(*set);
    }
  }
  std::sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return a.prefix < b.prefix; });
  if (sets.size() == 1) sets[0].prefix = sets[0].split = "";
  if (!sets.empty()) return sets;
  if (root.filename() != "VOCdevkit" && is_folder(root / "VOCdevkit"))
    return sets_in(root / "VOCdevkit", are_literal);
  if (const auto set = set_in_folders(root, are_literal)) sets.push_back(*set);
  return sets;
}

class VocSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Result<ImageSets> lists_of(const Set& set, bool has_masks);
  /// The names of each split of `set`; all names if there are no lists.
  Result<ImageSets> names_of(const Set& set, const std::map<std::string, std::string>& xmls, bool has_masks);
  void say_which_lists(SourceListing& listing) const;
  Status add_set(const Set& set);
  Status add_image(const Set& set, const std::string& name, const std::string& file, AnnotatedImage image);
  void count_from(SourceListing& listing);
  void number(SourceListing& listing);

  std::vector<AnnotatedImages::Part> folders_;
  std::vector<AnnotatedImage> found_;
  FilesAgain again_{options_};
  std::vector<std::vector<std::string>> classes_of_;  // of the objects of each image found
  int64_t unlisted_ = 0;                              // annotations that no list names
  int64_t without_xml_ = 0;                           // images that no annotation and no list names
  std::set<std::string> lists_used_;                  // Main, Segmentation
  std::set<std::string> lists_unused_;
};

/// "ImageSets/Main and ImageSets/Segmentation".
std::string lists_text(const std::set<std::string>& kinds) {
  std::string text;
  for (const std::string& kind : kinds) text += concat(text.empty() ? "" : " and ", "ImageSets/", kind);
  return text;
}

/// Main's lists, or Segmentation's if there are masks and no lists in Main. Records which lists are not used.
Result<ImageSets> VocSource::lists_of(const Set& set, bool has_masks) {
  if (!options_.splits) return ImageSets();
  DLPIPE_ASSIGN_OR_RETURN(ImageSets main, read_image_sets(set.root, "Main"));
  DLPIPE_ASSIGN_OR_RETURN(ImageSets of_masks, read_image_sets(set.root, "Segmentation"));
  const bool takes_main = !main.empty() || !has_masks;
  if (!main.empty()) lists_used_.insert("Main");
  if (!of_masks.empty()) (takes_main ? lists_unused_ : lists_used_).insert("Segmentation");
  return takes_main ? main : of_masks;
}

Result<ImageSets> VocSource::names_of(const Set& set, const std::map<std::string, std::string>& xmls,
                                      bool has_masks) {
  ImageSets splits;
  if (options_.splits && !set.split.empty()) {
    for (const auto& [name, file] : xmls) splits[set.split].push_back(name);
    return splits;
  }
  DLPIPE_ASSIGN_OR_RETURN(splits, lists_of(set, has_masks));
  if (splits.empty()) {
    for (const auto& [name, file] : xmls) splits[""].push_back(name);
    return splits;
  }
  std::set<std::string> listed;
  for (const auto& [split, names] : splits) listed.insert(names.begin(), names.end());
  unlisted_ +=
      std::count_if(xmls.begin(), xmls.end(), [&](const auto& xml) { return !listed.contains(xml.first); });
  return splits;
}

void VocSource::say_which_lists(SourceListing& listing) const {
  const std::string used = lists_text(lists_used_);
  if (!lists_unused_.empty())
    listing.warnings.push_back(concat(
        "[ingest] the lists of ", lists_text(lists_unused_), " are not used; ",
        used.empty()
            ? "they are for masks, and SegmentationClass contains none"
            : concat(
                  "the splits are those of ", used,
                  ", which are for boxes. For the splits of the masks, ingest a folder with only JPEGImages, "
                  "SegmentationClass and ImageSets/Segmentation (links are enough)")));
  if (without_xml_ > 0)
    listing.warnings.push_back(
        concat("[ingest] ignored: ", counted(without_xml_, "image"), " without an .xml"));
  if (unlisted_ > 0)
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(unlisted_, "annotation"),
                                      " that no list of ", used, " names; --no-splits includes them"));
}

Status VocSource::add_image(const Set& set, const std::string& name, const std::string& file,
                            AnnotatedImage image) {
  std::vector<std::string> classes;
  const auto lost = [&](std::string problem) {
    image.problem = std::move(problem);
    if (image.path.empty()) image.path = name + ".jpg";
    found_.push_back(std::move(image));
    classes_of_.emplace_back();
  };
  if (file.empty()) {
    lost(concat("there is no ", set.annotations, "/", printable(name), ".xml"));
    return {};
  }
  const std::string path = (set.root / set.annotations / file).string();
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp, kMostXmlBytes));
  DLPIPE_RETURN_IF_ERROR(again_.take(path, bytes.size()));
  const auto annotation = parse(bytes);
  if (!annotation.ok()) {
    lost(concat(printable(path), ": ", annotation.status().message()));
    return {};
  }
  if (image.path.empty()) image.path = annotation->file_name;
  if (image.path.empty()) {
    lost(concat("there is no image ", set.images, "/", printable(name)));
    return {};
  }
  image.described = path;
  image.width = annotation->width;
  image.height = annotation->height;
  for (const Object& object : annotation->objects) {
    image.boxes.insert(image.boxes.end(), object.box.begin(), object.box.end());
    image.flags.push_back(object.is_difficult ? 1 : 0);
    classes.push_back(object.name);
  }
  found_.push_back(std::move(image));
  classes_of_.push_back(std::move(classes));
  return {};
}

Status VocSource::add_set(const Set& set) {
  const auto xmls = files_by_stem(set.root / set.annotations, set.is_deep, is_xml);
  const auto images = files_by_stem(set.root / set.images, set.is_deep, has_image_name);
  const fs::path mask_folder = set.root / "SegmentationClass";
  const auto masks = files_by_stem(mask_folder, set.is_deep, is_png);
  DLPIPE_ASSIGN_OR_RETURN(const auto splits, names_of(set, xmls, !masks.empty()));
  std::set<std::string> listed;
  for (const auto& [split, names] : splits) listed.insert(names.begin(), names.end());
  without_xml_ += std::count_if(images.begin(), images.end(), [&](const auto& image) {
    return !xmls.contains(image.first) && !listed.contains(image.first);
  });
  for (const auto& [split, names] : splits) {
    folders_.push_back({(set.root / set.images).lexically_normal().string(), set.prefix, split,
                        mask_folder.lexically_normal().string()});
    for (const std::string& name : names) {
      if (options_.stop_requested && options_.stop_requested())
        return Status(ErrorCode::kCancelled,
                      concat("[ingest] stopped while ", printable(options_.path), " was being listed"));
      const auto xml = xmls.find(name);
      const auto image = images.find(name);
      AnnotatedImage found;
      found.part = folders_.size() - 1;
      found.is_listed = true;
      if (image != images.end()) found.path = image->second;
      if (const auto mask = masks.find(name); mask != masks.end()) found.mask_file = mask->second;
      DLPIPE_RETURN_IF_ERROR(add_image(set, name, xml == xmls.end() ? "" : xml->second, std::move(found)));
    }
  }
  return {};
}

/// Makes boxes of the numbers in the XML, whose first pixel is 1. No pixel is 0 then: one that is shows that a program wrote them
/// all which counts from 0 (Roboflow, CVAT).
void VocSource::count_from(SourceListing& listing) {
  const auto begins_at_0 = [](const AnnotatedImage& image) {
    for (size_t i = 0; i < image.boxes.size(); i += 4) {
      if (image.boxes[i] == 0 || image.boxes[i + 1] == 0) return true;
    }
    return false;
  };
  if (const auto it = std::find_if(found_.begin(), found_.end(), begins_at_0); it != found_.end()) {
    listing.warnings.push_back(concat("[ingest] ", printable(it->described),
                                      " has a box that begins at 0, so all pixels are counted from 0, not "
                                      "from 1 as in Pascal VOC's own files"));
    return;
  }
  for (AnnotatedImage& image : found_) {
    for (size_t i = 0; i < image.boxes.size(); i += 4) {
      for (const size_t side : {i, i + 1}) image.boxes[side] = std::max(0.f, image.boxes[side] - 1);
    }
  }
}

// The classes 1 to 20 of SegmentationClass.
constexpr std::array<std::string_view, 20> kPublishedClasses = {
    "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
    "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
    "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};

// If there are masks, the published classes keep their numbers, whichever of them occur.
void VocSource::number(SourceListing& listing) {
  std::vector<std::string> all;
  for (const std::vector<std::string>& classes : classes_of_)
    all.insert(all.end(), classes.begin(), classes.end());
  const bool has_masks = std::any_of(found_.begin(), found_.end(),
                                     [](const AnnotatedImage& image) { return !image.mask_file.empty(); });
  listing.has_class_order =
      has_masks && std::all_of(all.begin(), all.end(), [](const std::string& name) {
        return std::binary_search(kPublishedClasses.begin(), kPublishedClasses.end(), name);
      });
  if (listing.has_class_order) {
    listing.mask_numbers = MaskNumbers::kClasses;
    all.assign(kPublishedClasses.begin(), kPublishedClasses.end());
  }
  listing.classes = sorted_class_names(std::move(all));
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < listing.classes.size(); ++i) label_of[listing.classes[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < found_.size(); ++i) {
    for (const std::string& name : classes_of_[i]) found_[i].labels.push_back(label_of.at(name));
  }
}

Result<SourceListing> VocSource::list() {
  folders_.clear();
  found_.clear();
  classes_of_.clear();
  again_ = FilesAgain(options_);
  unlisted_ = without_xml_ = 0;
  lists_used_.clear();
  lists_unused_.clear();
  SourceListing listing;
  for (const Set& set : sets_in(options_.path, !options_.splits)) {
    DLPIPE_RETURN_IF_ERROR(add_set(set));
    if (set.annotations == "." && set.is_deep)
      listing.warnings.push_back(
          concat("[ingest] the images in the folders of ", printable(set.root.string()),
                 " have an .xml next to them, which describes their objects; ", kTakesLiterally));
  }
  count_from(listing);
  number(listing);
  DLPIPE_RETURN_IF_ERROR(images_.add(std::move(folders_), {"difficult"}, std::move(found_), listing));
  warn_of_no_class(options_.path, listing);
  say_which_lists(listing);
  return listing;
}

int recognizes_voc(const SourceOptions& options) {
  if (!options.manifest.empty() || !is_folder(options.path)) return 0;
  return sets_in(options.path, !options.splits).empty() ? 0 : 3;
}

Result<std::unique_ptr<Source>> open_voc(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<VocSource>(options));
}

}  // namespace

}  // namespace voc

extern const SourceRecord voc_source;
const SourceRecord voc_source = {"voc",
                                 "Pascal VOC's folder (Annotations, JPEGImages, ImageSets), VOCdevkit, or "
                                 "images with their .xml next to them",
                                 voc::recognizes_voc, voc::open_voc};

}  // namespace dlpipe::data
