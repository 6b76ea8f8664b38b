#include "dlpipe/cli/shell_completion.h"

#include <functional>
#include <vector>

#include "dlpipe/base/text.h"

namespace dlpipe::cli {

namespace {

using Visit = std::function<void(const CommandText&)>;

// The program, its commands and their parts.
void for_each_command(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const CommandText& part : command.parts) for_each_command(part, visit);
}

std::string last_word(const CommandText& command) {
  return split(command.name, ' ').back();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// For a shell: 'what it''s' with every quote closed, escaped and opened again.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return concat("'", safe, "'");
}

/// What may be typed as the command's next word: its parts, the words that a place takes.
std::vector<std::string> places(const CommandText& command) {
  std::vector<std::string> words;
  for (const CommandText& part : command.parts) words.push_back(last_word(part));
  for (const OptionText& option : command.options) {
    if (option.is_word()) words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  return words;
}

std::vector<std::string> option_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.is_hidden && !option.is_word()) names.push_back(option.name);
  }
  return names;
}

/// The pattern of a case statement for an option's names behind a command's: "'train --lr' | 'train --learning-rate'".
std::string names_behind(const CommandText& command, const OptionText& option) {
  std::string names = concat("'", command.name, " ", option.name, "'");
  for (const std::string& alias : option.aliases) names += concat(" | '", command.name, " ", alias, "'");
  return names;
}

bool takes_number(const OptionText& option) {
  return option.value == "N" || option.value == "X";
}

// The shell's lines that find which command the words before the cursor name, in $command.
std::string find_command_lines(const CommandText& program) {
  std::string cases;
  for_each_command(program, [&](const CommandText& command) {
    for (const CommandText& part : command.parts)
      cases += concat("      '", command.name, " ", last_word(part), "') command='", part.name, "' ;;\n");
  });
  return cases;
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string values, words;
  for_each_command(program, [&](const CommandText& command) {
    for (const OptionText& option : command.options) {
      if (option.is_hidden || option.is_word()) continue;
      if (!option.choices.empty()) {
        values += concat("    ", names_behind(command, option), ") words=", quoted(joined(option.choices)),
                         " ;;\n");
      } else if (takes_number(option)) {
        values += concat("    ", names_behind(command, option), ") compopt +o default; return ;;\n");
      } else if (!option.value.empty()) {
        values += concat("    ", names_behind(command, option), ") return ;;\n");
      }
    }
    words += concat("    '", command.name, "') words=", quoted(joined(places(command))),
                    " options=", quoted(joined(option_names(command))), " ;;\n");
  });
  return concat(R"(# Completion of dlpipe for bash; made by 'dlpipe completion bash'.
# Where it finds nothing to say, bash completes names of files.
_dlpipe() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command= words= options= at
  for ((at = 1; at < COMP_CWORD; ++at)); do
    case "$command ${COMP_WORDS[at]}" in
)",
                find_command_lines(program), R"(    esac
  done
  COMPREPLY=()
  case "$command $previous" in
)",
                values, R"(  esac
  if [[ -z $words ]]; then
    case "$command" in
)",
                words, R"(    esac
    [[ $current == -* ]] && words=$options
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _dlpipe dlpipe
)");
}

std::string zsh_completion(const CommandText& program) {
  std::string values, words;
  const auto described = [](const std::string& name, const std::string& help) {
    std::string safe;
    for (const char c : name) safe += c == ':' ? std::string("\\:") : std::string(1, c);
    return quoted(concat(safe, ":", help));
  };
  for_each_command(program, [&](const CommandText& command) {
    std::string parts, options, places;
    for (const CommandText& part : command.parts) parts += " " + described(last_word(part), part.help);
    for (const OptionText& option : command.options) {
      if (option.is_hidden) continue;
      if (option.is_word()) {
        for (const std::string& choice : option.choices) parts += " " + described(choice, option.help);
        continue;
      }
      options += " " + described(option.name, option.help);
      if (!option.choices.empty()) {
        values += concat("    ", names_behind(command, option), ") compadd -- ", joined(option.choices),
                         "; return ;;\n");
      } else if (takes_number(option)) {
        values += concat("    ", names_behind(command, option), ") return ;;\n");
      } else if (!option.value.empty()) {
        values += concat("    ", names_behind(command, option), ") _files; return ;;\n");
      }
    }
    words += concat("    '", command.name, "')\n      places=(", parts, ")\n      options=(", options,
                    ")\n      ;;\n");
  });
  return concat(R"(#compdef dlpipe
# Completion of dlpipe for zsh; made by 'dlpipe completion zsh'.
_dlpipe() {
  local command= previous=${words[CURRENT - 1]} at
  local -a places options
  for ((at = 2; at < CURRENT; ++at)); do
    case "$command ${words[at]}" in
)",
                find_command_lines(program), R"(    esac
  done
  case "$command $previous" in
)",
                values, R"(  esac
  case "$command" in
)",
                words, R"(  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    _describe -o option options
  elif (($#places)); then
    _describe word places
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _dlpipe ]]; then
  _dlpipe "$@"
else
  compdef _dlpipe dlpipe
fi
)");
}

std::string fish_completion(const CommandText& program) {
  std::string cases, lines;
  const auto line = [&lines](const CommandText& command, const std::string& rest) {
    lines += concat("complete -c dlpipe -n \"__dlpipe_is '", command.name, "'\" ", rest, "\n");
  };
  for_each_command(program, [&](const CommandText& command) {
    for (const CommandText& part : command.parts) {
      cases += concat("            case '", command.name, " ", last_word(part),
                      "'\n                set command '", part.name, "'\n");
      line(command, concat("-f -a ", last_word(part), " -d ", quoted(part.help)));
    }
    for (const OptionText& option : command.options) {
      if (option.is_hidden) continue;
      const std::string choices = option.choices.empty() ? "" : " -a " + quoted(joined(option.choices));
      if (option.is_word()) {
        if (!choices.empty()) line(command, concat("-f", choices, " -d ", quoted(option.help)));
        continue;
      }
      const char* const value = !choices.empty() || takes_number(option) ? " -x"
                                : option.value.empty()                   ? ""
                                                                         : " -r";
      line(command, concat("-l ", option.name.substr(2), value, choices, " -d ", quoted(option.help)));
    }
  });
  return concat(R"(# Completion of dlpipe for fish; made by 'dlpipe completion fish'.
function __dlpipe_is --argument-names wanted
    set -l command ''
    for word in (commandline -opc)[2..-1]
        switch "$command $word"
)",
                cases, R"(        end
    end
    test "$command" = "$wanted"
end
)",
                lines);
}

}  // namespace dlpipe::cli
