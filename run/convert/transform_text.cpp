#include "dlpipe/run/convert/transform_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

constexpr int kMostNested = 50;

/// Lines by their indentation; a dash counts as the two blanks that it stands in.
class BlockReader {
 public:
  explicit BlockReader(std::string_view text) {
    for (const std::string& whole : split(text, '\n')) {
      const std::string_view line = whole;
      const size_t indent = line.find_first_not_of(' ');
      if (indent == std::string_view::npos || line[indent] == '#' || trim(line) == "---") continue;
      lines_.push_back({indent, std::string(trim(line))});
    }
  }

  Result<Json> all() {
    if (lines_.empty()) return Status(ErrorCode::kCorrupt, "nothing in it");
    DLPIPE_ASSIGN_OR_RETURN(Json value, block(lines_[0].indent, 0));
    if (at_ < lines_.size()) return error();
    return value;
  }

 private:
  struct Line {
    size_t indent;
    std::string text;
  };

  Status error() const {
    const std::string line = at_ < lines_.size() ? lines_[at_].text : std::string("its end");
    return {ErrorCode::kCorrupt, concat("YAML of another form than Albumentations writes, at '", line, "'")};
  }

  static Json scalar(std::string_view text) {
    if (text == "{}") return Json::object();
    if (text == "[]") return Json::array();
    if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0])
      return text.substr(1, text.size() - 2);
    return word_value(text);
  }

  Result<Json> block(size_t indent, int depth) {
    if (depth > kMostNested) return error();
    const bool is_list = lines_[at_].text.starts_with("- ");
    Json value = is_list ? Json::array() : Json::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent &&
           lines_[at_].text.starts_with("- ") == is_list) {
      Line& line = lines_[at_];
      if (is_list) {
        line = {indent + 2, std::string(trim(std::string_view(line.text).substr(2)))};
        const bool is_mapping = line.text.find(": ") != std::string::npos || line.text.ends_with(":");
        if (is_mapping || line.text.starts_with("- ")) {
          DLPIPE_ASSIGN_OR_RETURN(Json item, block(indent + 2, depth + 1));
          value.push_back(std::move(item));
        } else {
          value.push_back(scalar(line.text));
          ++at_;
        }
        continue;
      }
      const size_t colon = line.text.find(':');
      if (colon == std::string::npos) return error();
      const std::string key = line.text.substr(0, colon);
      const std::string rest(trim(std::string_view(line.text).substr(colon + 1)));
      ++at_;
      if (!rest.empty()) {
        value.set(key, scalar(rest));
        continue;
      }
      // Lists may stand at the key's own indentation.
      const bool has_block =
          at_ < lines_.size() && (lines_[at_].indent > indent ||
                                  (lines_[at_].indent == indent && lines_[at_].text.starts_with("- ")));
      if (!has_block) {
        value.set(key, Json());
        continue;
      }
      DLPIPE_ASSIGN_OR_RETURN(Json item, block(lines_[at_].indent, depth + 1));
      value.set(key, std::move(item));
    }
    if (at_ < lines_.size() && lines_[at_].indent > indent) return error();
    return value;
  }

  std::vector<Line> lines_;
  size_t at_ = 0;
};

}  // namespace

Json word_value(std::string_view word) {
  if (word == "None" || word == "null" || word == "~") return {};
  if (word == "True" || word == "true") return true;
  if (word == "False" || word == "false") return false;
  int64_t whole = 0;
  if (parse_int(word, &whole)) return whole;
  double number = 0;
  if (parse_double(word, &number)) return number;
  return word;
}

Result<Json> parse_block_yaml(std::string_view text) {
  return BlockReader(text).all();
}

}  // namespace dlpipe::run
