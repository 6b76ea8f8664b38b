// TrainConfig as TOML: keys are the options' names, grouped only by comments, so that a file is flat.
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "io/formats/atomic_file.h"
#include "run/config/config.h"
#include "run/config/other_names.h"

namespace dlpipe::run {

namespace {

std::string at_line(std::string_view file, const toml::source_region& region) {
  return concat(file, " line ", region.begin.line);
}

// A TOML value as on a command line; lists of strings or numbers are joined with commas.
Result<std::string> value_text(const ConfigOption& option, const toml::node& node, const std::string& where) {
  const bool wants_list = std::holds_alternative<std::vector<std::string> TrainConfig::*>(option.member);
  const bool wants_text = std::holds_alternative<std::string TrainConfig::*>(option.member);
  const bool wants_switch = is_switch(option);
  auto wrong = [&](std::string_view expected) {
    return misuse("config", "'", option.name, "' in ", where, " must be ", expected);
  };
  if (const toml::array* items = node.as_array()) {
    if (!wants_list) return wrong("one value, not a list");
    std::string text;
    for (const toml::node& item : *items) {
      std::string word;
      if (const auto value = item.value_exact<std::string>())
        word = *value;
      else if (const auto whole = item.value_exact<int64_t>())
        word = std::to_string(*whole);
      else if (const auto number = item.value_exact<double>())
        word = shortest_decimal(*number);
      else
        return wrong("a list of strings or numbers");
      if (word.find(',') != std::string::npos) return wrong("a list of words without commas");
      text += (text.empty() ? "" : ",") + word;
    }
    return text;
  }
  if (wants_list) return wrong("a list such as [\"a\", \"b\"]");
  if (wants_text) {
    const auto value = node.value_exact<std::string>();
    return value ? Result<std::string>(*value) : Result<std::string>(wrong("a quoted string"));
  }
  if (wants_switch) {
    const auto value = node.value_exact<bool>();
    return value ? Result<std::string>(*value ? "true" : "false")
                 : Result<std::string>(wrong("true or false"));
  }
  if (const auto value = node.value_exact<int64_t>()) return std::to_string(*value);
  if (const auto value = node.value_exact<double>()) return shortest_decimal(*value);
  return wrong("a number");
}

/// TOML is UTF-8, but a path may contain other bytes. These become U+FFFD, and [record] stores the original text in base64:
/// that of --data as "data-bytes".
constexpr std::string_view kBytesEnding = "-bytes";

std::string as_utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t count = utf8_bytes(text, i);
    out += count == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(i, count);
    i += std::max<size_t>(count, 1);
  }
  return out;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += concat("\\u00", "0123456789abcdef"[(c >> 4) & 15], "0123456789abcdef"[c & 15]);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_value(const ConfigOption& option, const TrainConfig& config) {
  if (const auto* member = std::get_if<std::string TrainConfig::*>(&option.member))
    return toml_string(config.**member);
  if (const auto* member = std::get_if<std::vector<std::string> TrainConfig::*>(&option.member)) {
    std::string text;
    for (const std::string& item : config.**member) text += (text.empty() ? "" : ", ") + toml_string(item);
    return concat("[", text, "]");
  }
  return option_text(option, config);
}

/// The end of the string that begins with the quote at `i`: after the closing quote or quotes, or at the end of its line or text.
size_t end_of_quotes(std::string_view text, size_t i) {
  const char quote = text[i];
  const std::string_view three = text.substr(i, 3);
  const bool is_long = three == std::string(3, quote);
  for (i += is_long ? 3 : 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"')
      ++i;
    else if (text[i] == quote && (!is_long || text.substr(i, 3) == three))
      return i + (is_long ? 3 : 1);
    else if (text[i] == '\n' && !is_long)
      return i;
  }
  return i;
}

/// A file of options is flat. The parser destroys its tables recursively, so that a key of very many parts would overflow the
/// stack; therefore the depth is checked before parsing.
Status check_depth(std::string_view text, std::string_view file) {
  constexpr int kDeepest = 16;
  int64_t line = 1;
  int brackets = 0;
  int dots = 0;  // of one key
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const size_t end = end_of_quotes(text, i);
      line += std::count(text.begin() + static_cast<ptrdiff_t>(i),
                         text.begin() + static_cast<ptrdiff_t>(std::min(end, text.size())), '\n');
      i = end - 1;
      continue;
    }
    if (c == '#') i = std::min(text.find('\n', i), text.size() - 1);
    if (text[i] == '\n') ++line;
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') --brackets;
    if (c == '.')
      ++dots;
    else if (std::string_view("\n#,=[]{}").find(c) != std::string_view::npos)
      dots = 0;
    if (brackets > kDeepest || dots > kDeepest) {
      return misuse("config", file, " line ", line, " nests ",
                    dots > kDeepest ? "a key of more than " : "lists deeper than ", kDeepest,
                    dots > kDeepest ? " parts" : "", "; options are flat: name = value");
    }
  }
  return {};
}

}  // namespace

/// The value of the option or of the [record] entry called `name`; null if there is none or if it is not a text.
static std::string* find_text(std::string_view name, TrainConfig& config) {
  const ConfigOption* const option = find_config_option(name);
  if (option == nullptr) {
    const auto found = config.record.find(std::string(name));
    return found == config.record.end() ? nullptr : &found->second;
  }
  const auto* const member = std::get_if<std::string TrainConfig::*>(&option->member);
  return member == nullptr ? nullptr : &(config.**member);
}

/// `[train]`, `[[train]]` or `train.batch`: sections, which other programs' files have but a file of options does not.
static bool is_section(const toml::node& node) {
  const toml::table* const table = node.as_table();
  return (table != nullptr && !table->is_inline()) || node.is_array_of_tables();
}

static Status refuse_section(std::string_view name, const toml::node& node, const std::string& where) {
  const toml::table* const table = node.is_table() ? node.as_table() : node.as_array()->front().as_table();
  std::string meant = "name = value, ";
  for (const auto& [key, value] : *table) {
    if (find_config_option(key.str()) == nullptr) continue;
    meant = concat("write ", key.str(), " = ... ", node.is_table() ? "" : "once, ");
    break;
  }
  return misuse("config", "there is no section [", name, "] (", where, "); options are flat: ", meant,
                "without [", name, "]");
}

/// The meaning of a key: an option, or, as for flags, its negation: no-decay-vectors.
struct ConfigKey {
  const ConfigOption* option = nullptr;  // null: there is none
  bool is_contrary = false;
};

static ConfigKey config_key(std::string_view key) {
  constexpr std::string_view kNo = "no-";
  if (const ConfigOption* option = find_config_option(key)) return {option, false};
  if (!key.starts_with(kNo)) return {};
  const ConfigOption* const option = find_config_option(key.substr(kNo.size()));
  return option != nullptr && is_switch(*option) ? ConfigKey{option, true} : ConfigKey{};
}

/// Whether dlpipe writes a [record] entry with this name: "data-id", "val-typed", "out-bytes", "data-images-bytes".
static bool is_record_entry(std::string_view name) {
  const bool has_bytes = name.ends_with(kBytesEnding);
  if (has_bytes) name.remove_suffix(kBytesEnding.size());
  if (has_bytes && find_config_option(name) != nullptr) return true;
  return std::ranges::any_of(
      std::array<std::string_view, 3>{"-typed", "-images", "-id"}, [&](std::string_view ending) {
        return name.ends_with(ending) &&
               find_config_option(name.substr(0, name.size() - ending.size())) != nullptr;
      });
}

// [record]: texts by name. Read after all options, because it has the original bytes of some of them. It is the last section, so
// a line that is appended to the file belongs to it.
static Status read_record(const toml::table& table, std::string_view file, TrainConfig& config) {
  std::map<std::string, std::string> bytes;  // by the option or entry that they belong to
  for (const auto& [key, node] : table) {
    if (config_key(key.str()).option != nullptr)
      return misuse("config", "the option '", key.str(), "' (", at_line(file, node.source()),
                    ") is in the section [record]; options belong above [record]");
    if (!is_record_entry(key.str()))
      return misuse("config", "[record] has no entry '", key.str(), "' (", at_line(file, node.source()),
                    "); remove it, or, if it is an option, move it above [record]");
    const auto value = node.value_exact<std::string>();
    const auto wrong = [&, &node = node, &key = key](std::string_view expected) {
      return misuse("config", "'", key.str(), "' in ", at_line(file, node.source()), " must be ", expected);
    };
    if (!value) return wrong("a string");
    const std::string_view name = key.str();
    if (!name.ends_with(kBytesEnding)) {
      config.record[std::string(name)] = *value;
      continue;
    }
    const std::optional<std::string> decoded = from_base64(*value);
    if (!decoded) return wrong("base64");
    bytes[std::string(name.substr(0, name.size() - kBytesEnding.size()))] = *decoded;
  }
  for (const auto& [name, value] : bytes) {
    std::string* const text = find_text(name, config);
    const bool is_of_it = text != nullptr && *text == as_utf8(value);  // else the text was edited later
    if (is_of_it) *text = value;
  }
  return {};
}

/// Options of earlier versions, in files that they wrote: accepted, without effect.
static bool was_removed(std::string_view key) {
  return key == "compile";  // 0.2.0; it never changed what was computed
}

static std::string contrary_of(std::string_view switch_text) {
  return switch_text == "true" ? "false" : "true";
}

Status parse_config(std::string_view toml_text, std::string_view file, TrainConfig& config) {
  DLPIPE_RETURN_IF_ERROR(check_depth(toml_text, file));
  try {
    const toml::table table = toml::parse(toml_text);
    const toml::table* record = nullptr;
    for (const auto& [key, node] : table) {
      const std::string where = at_line(file, node.source());
      if (node.is_table() && key.str() == "record") {
        record = node.as_table();
        continue;
      }
      if (key.str() == "record")
        return misuse("config", "'record' in ", where,
                      " must be a table of strings, [record], as dlpipe writes it");
      if (is_section(node)) return refuse_section(key.str(), node, where);
      const auto [option, is_contrary] = config_key(key.str());
      if (option == nullptr && was_removed(key.str())) {
        if (node.value_exact<bool>() != false)
          log(LogLevel::kWarning,
              concat("'", key.str(), "' in ", where, " has no effect: the option was removed"));
        continue;
      }
      if (option == nullptr) {
        return misuse("config", "there is no option '", key.str(), "' (", where, ")",
                      config_suggestion(key.str(), node.value_exact<bool>() == false));
      }
      if (is_contrary && table.contains(option->name))
        return misuse("config", "'", option->name, "' and '", key.str(), "' (", where,
                      ") are the same option; leave one of them out");
      DLPIPE_ASSIGN_OR_RETURN(const std::string text, value_text(*option, node, where));
      const Status status = set_option(*option, is_contrary ? contrary_of(text) : text, config);
      if (!status.ok()) return {status.code(), concat(status.message(), " (", where, ")")};
    }
    if (record != nullptr) return read_record(*record, file, config);
  } catch (const toml::parse_error& error) {
    return misuse("config", "not valid TOML: ", error.description(), " (", at_line(file, error.source()),
                  ")");
  }
  return {};
}

constexpr std::string_view kFirstLine =
    "# Written by dlpipe; `dlpipe train --config THIS --out ANOTHER` repeats the run. A checksum ends "
    "it.\n";

Status read_config(const std::string& path, TrainConfig& config) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::read_file(path, uint64_t{1} << 20));
  // Options that are missing from a file have their defaults, so a truncated file would describe another run.
  if (text.starts_with(kFirstLine) && text.rfind(kConfigChecksum) == std::string::npos) {
    return misuse("config", path,
                  " is truncated: dlpipe ends such a file with a checksum, which is missing; ",
                  "to use the options that remain, remove its first line");
  }
  return parse_config(text, path, config);
}

static std::string write_record(const TrainConfig& config) {
  std::map<std::string, std::string> record = config.record;
  const auto add_bytes = [&](const std::string& name, std::string_view text) {
    if (!is_utf8(text)) record[concat(name, kBytesEnding)] = to_base64(text);
  };
  for (const auto& [name, value] : config.record) add_bytes(name, value);
  for (const ConfigOption& option : config_options()) {
    if (const auto* member = std::get_if<std::string TrainConfig::*>(&option.member))
      add_bytes(option.name, config.**member);
  }
  if (record.empty()) return {};
  std::string text =
      "\n# Paths as they were typed, and the datasets that they contained; in base64 if not "
      "UTF-8.\n[record]\n";
  for (const auto& [name, value] : record) text += concat(name, " = ", toml_string(value), "\n");
  return text;
}

std::string write_config(const TrainConfig& config) {
  std::string text(kFirstLine);
  std::string_view group;
  for (const ConfigOption& option : config_options()) {
    if (group != option.group) {
      group = option.group;
      text += concat("\n# ---- ", group, " ----\n");
    }
    if (!has_value(option, config)) continue;
    text += concat("# ", option.help, "\n", option.name, " = ", toml_value(option, config), "\n");
  }
  return text + write_record(config);
}

}  // namespace dlpipe::run
