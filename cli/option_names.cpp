#include "dlpipe/cli/option_names.h"

#include <algorithm>

#include "dlpipe/base/text.h"
#include "dlpipe/run/config/other_names.h"

namespace dlpipe::cli {

namespace {

std::string did_you_mean(const OptionText& option, const char* value = "") {
  return concat("; did you mean '", option.has_twin() ? option.aliases.front() : option.name,
                *value == '\0' ? "" : " ", value, "'?");
}

}  // namespace

std::vector<std::string> aliases_of(std::string_view name) {
  for (const run::OtherNames& one : run::other_names()) {
    if (name == one.name) return {one.aliases.begin(), one.aliases.end()};
  }
  return {};
}

size_t command_place(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) return i;
    if (words[i] == "--color")
      ++i;
    else if (words[i] != "--quiet" && !words[i].starts_with("--color="))
      break;
  }
  return words.size();
}

std::vector<std::string> spelled_as_ours(std::vector<std::string> words) {
  // A parser of options takes one dash and several letters for several options, so these can't be aliases.
  for (std::string& word : words) {
    if (word == "--") break;
    if (word == "-np") word = "--np";
  }
  // `launch --np 2 train --data D`: what follows the command is the command's.
  const auto command = std::ranges::find(words, "train");
  const size_t place = command_place(words);
  const bool is_launch = place < words.size() && words[place] == "launch";
  if (is_launch && command != words.end() && std::find(words.begin(), command, "--") == command)
    words.insert(command, "--");
  return words;
}

std::string option_suggestion(std::string_view typed, const CommandText& command) {
  const std::string word = run::plain_name(typed);
  if (const OptionText* same = command.find(word); same != nullptr)
    return did_you_mean(*same);  // --weight_decay
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_word()) names.push_back(option.name);
    names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  }
  for (const run::OtherNames& one : run::other_names()) {
    const OptionText* const option = command.find(one.name);
    if (option != nullptr && std::find(one.meanings.begin(), one.meanings.end(), word) != one.meanings.end())
      return did_you_mean(*option, one.value);
  }
  const std::string near = nearest_name(concat("--", word), names);
  if (near.empty()) return "";
  const OptionText* const option = command.find(near);  // null: the half of a switch that help leaves out
  return option != nullptr ? did_you_mean(*option) : concat("; did you mean '", near, "'?");
}

}  // namespace dlpipe::cli
