#include "dlpipe/run/use/transform_text.h"

#include <cctype>
#include <string>
#include <vector>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

constexpr int kMostNested = 50;

/// A word as a number, a truth value, nothing, or itself; both languages' spellings.
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

class CallReader {
 public:
  explicit CallReader(std::string_view text) : text_(text) {}

  Result<Json> all() {
    Json calls = Json::array();
    for (skip(); at_ < text_.size(); skip()) {
      DLPIPE_ASSIGN_OR_RETURN(Json one, value(0));
      if (one.is_array()) {
        for (const Json& call : one.items()) calls.push_back(call);
      } else {
        calls.push_back(std::move(one));
      }
    }
    return calls;
  }

 private:
  /// Blanks, commas between values, and comments.
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ',') {
        ++at_;
      } else {
        return;
      }
    }
  }

  Status error(std::string_view what) const {
    return {ErrorCode::kCorrupt, concat(what, " at byte ", at_ + 1)};
  }

  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Json> value(int depth) {
    if (depth > kMostNested) return error("too many brackets inside each other");
    skip();
    if (at_ == text_.size()) return error("the text ends within brackets");
    const char c = text_[at_];
    if (c == '[' || c == '(' || c == '{') {
      ++at_;
      return list(c == '[' ? ']' : (c == '(' ? ')' : '}'), depth);
    }
    if (c == '"' || c == '\'') return quoted(c);
    std::string word;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("_.+-").find(text_[at_]) != std::string_view::npos))
      word += text_[at_++];
    if (word.empty()) return error(concat("unexpected '", std::string_view(&text_[at_], 1), "'"));
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      return call(word, depth);
    }
    return word_value(word);
  }

  Result<Json> list(char close, int depth) {
    Json items = Json::array();
    while (!take(close)) {
      DLPIPE_ASSIGN_OR_RETURN(Json item, value(depth + 1));
      items.push_back(std::move(item));
    }
    return items;
  }

  Result<Json> quoted(char mark) {
    std::string word;
    for (++at_; at_ < text_.size() && text_[at_] != mark; ++at_) word += text_[at_];
    if (at_ == text_.size()) return error("a quoted word that doesn't end");
    ++at_;
    return Json(word);
  }

  /// Behind "name(".
  Result<Json> call(const std::string& name, int depth) {
    Json args = Json::array();
    Json kwargs = Json::object();
    while (!take(')')) {
      skip();
      const size_t begin = at_;
      std::string key;
      while (at_ < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
        key += text_[at_++];
      const bool is_named = !key.empty() && take('=');
      if (!is_named) at_ = begin;
      DLPIPE_ASSIGN_OR_RETURN(Json one, value(depth + 1));
      if (is_named) {
        kwargs.set(key, std::move(one));
      } else {
        args.push_back(std::move(one));
      }
    }
    const size_t dot = name.rfind('.');
    return Json::object({{"name", dot == std::string::npos ? name : name.substr(dot + 1)},
                         {"args", std::move(args)},
                         {"kwargs", std::move(kwargs)}});
  }

  std::string_view text_;
  size_t at_ = 0;
};

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

Result<Json> parse_transform_calls(std::string_view text) {
  return CallReader(text).all();
}

Result<Json> parse_block_yaml(std::string_view text) {
  return BlockReader(text).all();
}

}  // namespace dlpipe::run
