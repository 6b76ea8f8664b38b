#include "dlpipe/cli/help_text.h"

#include <algorithm>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/help_topics.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/program.h"

namespace dlpipe::cli {

namespace {

struct Row {
  std::string left;
  std::string right;
};

/// "-o"; "" where there is none.
std::string short_name(const OptionText& option) {
  const auto is_short = [](const std::string& alias) { return !alias.starts_with("--"); };
  const auto found = std::ranges::find_if(option.aliases, is_short);
  return found != option.aliases.end() ? *found : "";
}

/// "--output" of --out, whose -o stands beside it; "--ckpt, --checkpoint CKPT" of the word CKPT. "" where there is none.
std::string other_names(const OptionText& option) {
  std::string names;
  for (const std::string& alias : option.aliases) {
    if (option.is_word() || alias.starts_with("--")) names += concat(names.empty() ? "" : ", ", alias);
  }
  return names.empty() || !option.is_word() ? names : concat(names, " ", option.name);
}

std::string with_value(const std::string& name, const OptionText& option) {
  return concat(name, option.value.empty() ? "" : " ", option.value);
}

// Two columns; where the left one has no room beside a readable right one, the right one begins on the next
// line.
std::string rows_text(const std::vector<Row>& rows, size_t width) {
  constexpr size_t kMostLeft = 28, kNarrow = 60, kIndent = 2;
  size_t left = 0;
  for (const Row& row : rows) left = std::max(left, std::min(row.left.size(), kMostLeft));
  const size_t column = width < kNarrow ? 3 * kIndent : kIndent + left + 2;
  std::string text;
  for (const Row& row : rows) {
    std::string line = std::string(kIndent, ' ') + row.left;
    if (line.size() + 2 > column) {
      text += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    text += line + wrap(row.right, width - column, column) + "\n";
  }
  return text;
}

std::string section(std::string_view title, const std::vector<Row>& rows, size_t width) {
  if (rows.empty()) return "";
  return concat("\n", title, ":", "\n", rows_text(rows, width));
}

std::vector<Row> parts_of(const CommandText& command) {
  std::vector<Row> rows;
  for (const CommandText& part : command.parts)
    rows.push_back({part.name.substr(command.name.empty() ? 0 : command.name.size() + 1), part.help});
  return rows;
}

// Under their headings, the command's own first.
std::string all_options(const CommandText& command, size_t width) {
  std::vector<std::pair<std::string, std::vector<Row>>> groups;
  for (const OptionText& option : command.options) {
    if (option.is_hidden || option.is_word()) continue;
    const std::string title = option.group.empty() ? "Options" : option.group;
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == title; });
    if (at == groups.end()) at = groups.insert(groups.end(), {title, {}});
    at->second.push_back({signature(option), full_help(option)});
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const auto& group) { return group.first != kEveryCommand; });
  std::string text;
  for (const auto& [title, rows] : groups) text += section(title, rows, width);
  return text;
}

std::string first_options(const CommandText& command, size_t width) {
  std::vector<Row> rows;
  for (const std::string& name : command.first) {
    const OptionText& option = *command.find(name);
    rows.push_back({signature(option), full_help(option)});
  }
  return section("The options that people use", rows, width);
}

std::string topics_text(const CommandText& command, size_t width) {
  std::vector<Row> rows;
  for (const HelpTopic& topic : help_topics()) rows.push_back({topic.name, topic.help});
  if (command.name.empty()) return section("Lists, shown by 'dlpipe --help NAME'", rows, width);
  return "";
}

std::string footer_text(const CommandText& command, bool all, size_t width) {
  std::string text;
  const auto line = [&](const std::string& words) { text += "\n" + wrap(words, width, 0) + "\n"; };
  if (command.name.empty()) {
    line("'dlpipe COMMAND --help' shows a command's options and their defaults.");
    line(concat("Exit codes: ", kExitCodes));
    return text;
  }
  const auto listed = [](const OptionText& option) { return !option.is_hidden && !option.is_word(); };
  if (!command.first.empty() && !all)
    line(concat("All ", std::ranges::count_if(command.options, listed), " options: dlpipe ", command.name,
                " --help-all"));
  if (!command.parts.empty()) line(concat("'dlpipe ", command.name, " PART --help' shows a part's options."));
  if (!command.footer.empty()) line(command.footer);
  return text;
}

}  // namespace

std::string usage(const CommandText& command) {
  std::string text = concat("dlpipe", command.name.empty() ? "" : " ", command.name);
  if (!command.parts.empty()) return text + (command.name.empty() ? " COMMAND ..." : " PART ...");
  for (const OptionText& option : command.options) {
    if (option.is_required && !option.is_word()) text += " " + with_value(option.name, option);
  }
  text += " [OPTIONS]";
  for (const OptionText& option : command.options) {
    if (!option.is_word()) continue;
    const std::string word = concat(option.name, option.is_list ? "..." : "");
    text += option.is_optional ? concat(" [", word, "]") : concat(" ", word);
  }
  return text;
}

std::string signature(const OptionText& option) {
  if (option.is_word()) return concat(option.name, option.is_list ? "..." : "");
  const std::string letter = short_name(option);
  return with_value(letter.empty() ? option.name : concat(letter, ", ", option.name), option);
}

std::string full_help(const OptionText& option) {
  std::string text = option.help;
  std::string more;
  const auto add = [&more](const std::string& one) { more += (more.empty() ? "" : "; ") + one; };
  constexpr size_t kFewChoices = 8;
  if (!option.choices.empty() && option.choices.size() <= kFewChoices && !option.is_list) {
    std::string words;
    for (const std::string& choice : option.choices) words += (words.empty() ? "" : ", ") + choice;
    add(words);
  }
  if (const std::string others = other_names(option); !others.empty()) add(concat("or ", others));
  if (option.is_required) add("required");
  if (!option.default_text.empty()) add(concat("default ", printable(option.default_text)));
  return more.empty() ? text : concat(text, " (", more, ")");
}

std::string help_text(const CommandText& command, bool all, size_t width) {
  std::string text = concat(wrap(command.help, width, 0), "\n\n", "Usage: ", usage(command), "\n");
  text += section(command.name.empty() ? "Commands" : "Parts", parts_of(command), width);
  std::vector<Row> words;
  for (const OptionText& option : command.options) {
    if (option.is_word()) words.push_back({signature(option), full_help(option)});
  }
  if (!words.empty()) text += "\n" + rows_text(words, width);
  text += all || command.first.empty() ? all_options(command, width) : first_options(command, width);
  return text + topics_text(command, width) + footer_text(command, all, width);
}

std::optional<HelpRequest> find_help_request(const CommandText& program,
                                             std::span<const std::string> arguments) {
  HelpRequest request;
  bool asked = false;
  const auto is_help = [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--help-all";
  };
  const CommandText* at = &program;
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (is_help(word)) {
      asked = true;
      request.all = request.all || word == "--help-all";
      continue;
    }
    // Before --help only commands count (`train --data D --help`); behind it every word does (`--help ops`).
    std::vector<std::string> longer = request.words;
    longer.push_back(word);
    const CommandText* const next = asked ? nullptr : find_command(program, longer);
    if (asked && word.starts_with('-')) break;
    if (asked || (next != nullptr && !at->parts.empty())) request.words.push_back(word);
    if (next != nullptr) at = next;
  }
  return asked ? std::optional(request) : std::nullopt;
}

Result<std::string> answer_help(const CommandText& program, const HelpRequest& request) {
  const CommandText* command = &program;
  for (size_t i = 0; i < request.words.size(); ++i) {
    const std::string& word = request.words[i];
    const CommandText* const next = find_command(program, std::span(request.words).first(i + 1));
    if (next != nullptr) {
      command = next;
      continue;
    }
    if (const HelpTopic* topic = find_help_topic(word); topic != nullptr && i + 1 == request.words.size())
      return topic->text();
    std::vector<std::string> known;
    for (const CommandText& part : command->parts) known.push_back(split(part.name, ' ').back());
    for (const HelpTopic& topic : help_topics()) known.emplace_back(topic.name);
    return misuse("help", "there is no help on '", word, "'", suggestion(word, known));
  }
  return help_text(*command, request.all, text_width());
}

}  // namespace dlpipe::cli
