#include "dlpipe/io/data/sources/annotations/xml_encoding.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"

namespace dlpipe::data {

namespace {

struct Encoding {
  std::string_view declared;  // in small letters
  std::string_view name;      // as iconv has it
};

// Not all that iconv knows: some of its tables have met hostile bytes badly. Latin-1 and the Chinese, Japanese and Korean ones are
// read as their supersets, as browsers do: programs of Windows declare the smaller one.
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

/// iconv's name of an encoding; "" where it isn't known.
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

/// Those whose bytes an XML parser recognizes, whatever is declared; UTF-7's are none. A file whose declaration could be read is of
/// none that takes two bytes for a letter, as .NET writes it into UTF-8.
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

  /// How many bytes were taken: fewer than there are where the next one is wrong.
  size_t run(std::span<const std::byte> bytes, std::string& out) {
    out.resize(4 * bytes.size() + 16);                                         // no letter takes more
    char* in = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));  // iconv only reads there
    size_t left = bytes.size();
    char* to = out.data();
    size_t room = out.size();
    ::iconv(handle_, &in, &left, &to, &room);
    ::iconv(handle_, nullptr, nullptr, &to, &room);  // a letter that it held back for an accent behind
    out.resize(out.size() - room);
    return bytes.size() - left;
  }

 private:
  iconv_t handle_;
};

}  // namespace

bool is_wide(std::span<const std::byte> xml) {
  const auto is = [&](size_t at, int value) { return at < xml.size() && xml[at] == std::byte(value); };
  return (is(0, 0xff) && is(1, 0xfe)) || (is(0, 0xfe) && is(1, 0xff)) || is(0, 0) || is(1, 0);
}

/// What <?xml ... encoding="..."?> says, behind blanks and comments, with which some programs begin; "" for nothing.
static std::string declared_encoding(std::span<const std::byte> xml) {
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

Result<std::string> xml_as_utf8(std::span<const std::byte> xml) {
  const std::string declared = is_wide(xml) ? std::string() : declared_encoding(xml);
  if (is_unicode(declared)) return std::string(reinterpret_cast<const char*>(xml.data()), xml.size());
  const std::string from = iconv_name(declared);
  if (from.empty())
    return Status(ErrorCode::kUnsupported,
                  concat("its encoding ", in_quotes(declared), " isn't known; save it as UTF-8"));
  Converter converter(from);
  if (!converter.is_open())
    return Status(ErrorCode::kUnsupported, concat("this system's iconv doesn't know its encoding ",
                                                  in_quotes(declared), "; save it as UTF-8"));
  std::string text;
  if (const size_t read = converter.run(xml, text); read < xml.size())
    return Status(ErrorCode::kCorrupt, concat("byte ", read, " isn't of its encoding ", in_quotes(declared),
                                              "; save it as UTF-8"));
  return text;
}

}  // namespace dlpipe::data
