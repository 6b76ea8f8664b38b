#include "dlpipe/run/use/transform_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
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

  Result<Json> all(std::string_view recipe) {
    Json calls = Json::array();
    std::vector<std::string> recipes;  // names that were given to transforms
    for (skip(); at_ < text_.size(); skip()) {
      if (skip_import()) continue;
      if (const std::string name = assigned_name(); !name.empty()) {
        DLPIPE_ASSIGN_OR_RETURN(Json one, value(0));
        if (one.is_object()) recipes.push_back(name);
        known_.insert_or_assign(name, std::move(one));
        continue;
      }
      DLPIPE_ASSIGN_OR_RETURN(Json one, value(0));
      if (one.is_array()) {
        for (const Json& call : one.items()) calls.push_back(call);
      } else {
        calls.push_back(std::move(one));
      }
    }
    if (!recipe.empty()) return named(recipe, recipes);
    std::erase_if(recipes, [&](const std::string& name) { return used_.contains(name); });
    if (calls.items().empty() && recipes.size() == 1) calls.push_back(known_.find(recipes[0])->second);
    if (calls.items().empty() && recipes.size() > 1) {
      return Status(ErrorCode::kCorrupt, concat("there are ", recipes.size(), " recipes, ", joined(recipes),
                                                "; choose one with --recipe NAME"));
    }
    return calls;
  }

 private:
  static std::string joined(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += concat(all.empty() ? "" : ", ", name);
    return all;
  }

  /// The recipe of that name.
  Result<Json> named(std::string_view recipe, const std::vector<std::string>& recipes) const {
    const auto found = known_.find(recipe);
    if (found != known_.end() && found->second.is_array()) return found->second;
    if (found != known_.end() && found->second.is_object()) return Json(Json::Array{found->second});
    return Status(ErrorCode::kCorrupt,
                  concat("there is no recipe ", recipe,
                         recipes.empty() ? "; none has a name" : concat("; there are ", joined(recipes))));
  }

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
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n');
    return {ErrorCode::kCorrupt,
            concat(what, " in line ", line + 1,
                   "; give the transforms alone, as Compose([...]), or what print(transform) writes")};
  }

  static bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  std::string name_here() const {
    size_t end = at_;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    return std::string(text_.substr(at_, end - at_));
  }

  /// A whole `import ...` or `from ... import ...`, with its brackets.
  bool skip_import() {
    const std::string word = name_here();
    if (word != "import" && word != "from") return false;
    const size_t line_end = std::min(text_.find('\n', at_), text_.size());
    const size_t open = text_.substr(0, line_end).find('(', at_);
    at_ = open == std::string_view::npos ? line_end : std::min(text_.find(')', open), text_.size() - 1) + 1;
    return true;
  }

  /// The name in front of an '=', which is taken too; "" where there is none.
  std::string assigned_name() {
    const size_t begin = at_;
    std::string name = name_here();
    at_ += name.size();
    if (!name.empty() && take('=')) return name;
    at_ = begin;
    return {};
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
    if (const auto named = known_.find(word); named != known_.end()) {
      used_.insert(word);
      return named->second;
    }
    return word_value(word);
  }

  Result<Json> list(char close, int depth) {
    Json items = Json::array();
    Json pairs = Json::object();  // of a dictionary
    while (!take(close)) {
      DLPIPE_ASSIGN_OR_RETURN(Json item, value(depth + 1));
      if (close == '}' && take(':')) {
        DLPIPE_ASSIGN_OR_RETURN(Json of, value(depth + 1));
        pairs.set(item.is_string() ? item.as_string() : item.dump(), std::move(of));
        continue;
      }
      items.push_back(std::move(item));
    }
    return pairs.members().empty() ? items : pairs;
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
      const std::string key = assigned_name();
      DLPIPE_ASSIGN_OR_RETURN(Json one, value(depth + 1));
      if (key.empty()) {
        args.push_back(std::move(one));
      } else {
        kwargs.set(key, std::move(one));
      }
    }
    const size_t dot = name.rfind('.');
    return Json::object({{"name", dot == std::string::npos ? name : name.substr(dot + 1)},
                         {"module", dot == std::string::npos ? std::string() : name.substr(0, dot)},
                         {"args", std::move(args)},
                         {"kwargs", std::move(kwargs)}});
  }

  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string, Json, std::less<>> known_;  // values by their names
  std::set<std::string, std::less<>> used_;         // names that stood for their values
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

Result<Json> parse_transform_calls(std::string_view text, std::string_view recipe) {
  return CallReader(text).all(recipe);
}

Result<Json> parse_block_yaml(std::string_view text) {
  return BlockReader(text).all();
}

}  // namespace dlpipe::run
