#include "dlpipe/cli/given_values.h"

#include <algorithm>
#include <optional>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::cli {

namespace {

/// Of this name or alias, hidden ones too; null where there is none.
const OptionText* find_option(const CommandText& command, std::string_view name) {
  const auto found = std::ranges::find_if(command.options, [&](const OptionText& option) {
    return name.starts_with('-') && (option.name == name || std::ranges::count(option.aliases, name) > 0);
  });
  return found == command.options.end() ? nullptr : &*found;
}

const CommandText* find_part(const CommandText& command, const std::string& word) {
  const std::string name = command.name.empty() ? word : concat(command.name, " ", word);
  const auto found = std::ranges::find(command.parts, name, &CommandText::name);
  return found == command.parts.end() ? nullptr : &*found;
}

/// A word as "--out=a" has both.
struct Given {
  std::string name;
  std::optional<std::string> value;
};

Given split_at_equals(const std::string& word) {
  const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
  if (equals == std::string::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

template <class... Parts>
Status refused(const CommandText& command, const Parts&... parts) {
  return misuse(command.name.empty() ? "cli" : command.name, parts..., "; see 'dlpipe ", command.name,
                command.name.empty() ? "" : " ", "--help'");
}

Status check_switch(const CommandText& command, const Given& given) {
  if (!given.value || *given.value == "true" || *given.value == "false") return {};
  return refused(command, given.name, " is '", *given.value,
                 "', and a switch takes no value but true or false");
}

/// `next` is the word behind the option `name`.
Status check_value(const CommandText& command, const std::string& name, const std::string& kind,
                   const std::string& next) {
  if (next == "--") return refused(command, name, " needs a value (", kind, ")");
  if (find_option(command, split_at_equals(next).name) == nullptr) return {};
  return refused(
      command, name, " needs a value (", kind, "), and '", next, "' is an option",
      name.starts_with("--") ? concat("; as a value it is written ", name, "=", next) : std::string());
}

}  // namespace

Result<std::vector<std::string>> with_values_apart(const std::vector<std::string>& words,
                                                   const CommandText& program) {
  std::vector<std::string> apart;
  const CommandText* command = &program;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      apart.insert(apart.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    const Given given = split_at_equals(words[i]);
    const OptionText* const option = find_option(*command, given.name);
    const std::string kind = option == nullptr ? "" : option->is_word() ? option->name : option->value;
    if (kind.empty()) {  // a switch, a word by its place, or unknown
      if (option != nullptr) DLPIPE_RETURN_IF_ERROR(check_switch(*command, given));
      if (const CommandText* const part = find_part(*command, words[i])) command = part;
      apart.push_back(words[i]);
      continue;
    }
    apart.push_back(given.name);
    if (given.value) {
      apart.push_back(*given.value);
    } else if (i + 1 < words.size()) {  // else CLI11 says what is missing
      DLPIPE_RETURN_IF_ERROR(check_value(*command, given.name, kind, words[i + 1]));
      apart.push_back(words[++i]);
    }
  }
  return apart;
}

}  // namespace dlpipe::cli
