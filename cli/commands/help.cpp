// `dlpipe help`, the man page dlpipe(1) and `dlpipe completion`, made from the same texts as --help.
#include <functional>
#include <vector>

#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "cli/output.h"
#include "run/record/receipt.h"

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

/// Quotes text for a shell. A quote inside closes the string, is escaped, and opens it again.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return concat("'", safe, "'");
}

/// The possible next words of the command: its parts, and the choices of its positional words.
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

/// The pattern of a case statement for an option's names after a command's: "'train --lr' | 'train --learning-rate'".
std::string names_behind(const CommandText& command, const OptionText& option) {
  std::string names = concat("'", command.name, " ", option.name, "'");
  for (const std::string& alias : option.aliases) names += concat(" | '", command.name, " ", alias, "'");
  return names;
}

bool takes_number(const OptionText& option) {
  return option.value == "N" || option.value == "X";
}

// Shell code that sets $command to the command that the words before the cursor name.
std::string find_command_lines(const CommandText& program) {
  std::string cases;
  for_each_command(program, [&](const CommandText& command) {
    for (const CommandText& part : command.parts)
      cases += concat("      '", command.name, " ", last_word(part), "') command='", part.name, "' ;;\n");
  });
  return cases;
}

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
# If it has no suggestions, bash completes file names.
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

// Escapes text: dots and quotes at the beginning of a line, hyphens and backslashes.
std::string roff(const std::string& text) {
  std::string safe;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
  }
  return safe;
}

/// Lists a command's options. Those that every command has are listed once, with the program's own.
void add_options(const CommandText& command, bool of_every_command, std::string& page) {
  for (const OptionText& option : command.options) {
    if (option.is_hidden || (option.group == kEveryCommand) != of_every_command) continue;
    page += concat(".TP\n.B ", roff(signature(option)), "\n", roff(full_help(option)), "\n");
  }
}

void add_command(const CommandText& command, std::string& page) {
  page += concat(".SS ", roff(usage(command)), "\n", roff(command.help), ".\n");
  add_options(command, false, page);
  if (!command.footer.empty()) page += concat(".PP\n", roff(command.footer), "\n");
  for (const CommandText& part : command.parts) add_command(part, page);
}

/// roff with man(7)'s macros.
std::string man_page(const CommandText& program) {
  std::string page =
      concat(".TH DLPIPE 1 \"\" \"", roff(run::build_line()), "\" \"User Commands\"\n",
             ".SH NAME\ndlpipe \\- from a folder of raw files to a trained model\n",
             ".SH SYNOPSIS\n.B dlpipe\n.I COMMAND\n[\\fIOPTIONS\\fR]\n", ".SH DESCRIPTION\n",
             roff(program.help), "\n.PP\n",
             roff("A command's output goes to stdout, as text or with --json as JSON; progress, "
                  "notes, warnings and errors go to stderr."),
             "\n.SH OPTIONS\n");
  add_options(program, false, page);
  page += ".SH OPTIONS OF EVERY COMMAND\n";
  add_options(program, true, page);
  page += ".SH COMMANDS\n";
  for (const CommandText& command : program.parts) add_command(command, page);
  page += ".SH LISTS\nShown by\n.B dlpipe \\-\\-help\n.IR NAME .\n";
  for (const HelpTopic& topic : help_topics())
    page += concat(".TP\n.B ", topic.name, "\n", roff(topic.help), "\n");
  page += concat(".SH EXIT STATUS\n", roff(kExitCodes), "\n");
  page += ".SH ENVIRONMENT\n";
  for (const auto& [name, what] :
       {std::pair("COLUMNS", "Width of --help."),
        {"NO_COLOR", "If set and not empty: no colours."},
        {"DLPIPE_LOG", "Lowest level of log lines printed: debug, info, warning or error."},
        {"DLPIPE_KERNELS", "The meaning of --kernels auto: measured or rules."}})
    page += concat(".TP\n.B ", name, "\n", roff(what), "\n");
  page +=
      ".SH FILES\n.TP\n.I $XDG_CACHE_HOME/dlpipe\nMeasurements of which kernels are the fastest, one file "
      "per "
      "CPU model. Without XDG_CACHE_HOME it is ~/.cache/dlpipe.\n";
  page += ".SH EXAMPLES\n.nf\n";
  for (const char* line : {"dlpipe ingest IMAGES DATA --split 0.9,0.1",
                           "dlpipe train DATA --model resnet18 --augment \"rrc(224) hflip\" --out runs/a",
                           "dlpipe eval --ckpt runs/a DATA", "dlpipe predict --ckpt runs/a IMAGE.jpg"})
    page += roff(line) + "\n";
  return page + ".fi\n";
}

// `dlpipe help COMMAND [TOPIC]` is the same as `dlpipe COMMAND --help [TOPIC]`.

struct HelpOptions {
  std::vector<std::string> words;
  bool all = false;
  bool man = false;
};

Status help(const HelpOptions& options) {
  const std::unique_ptr<Program> program = make_program();
  if (options.man) {
    print_answer(man_page(program->text));
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, answer_help(program->text, {options.words, options.all}));
  print_answer(text);
  return {};
}

std::function<Status()> setup_help(Flags& flags) {
  auto options = std::make_shared<HelpOptions>();
  std::vector<std::string> known = CommandRegistry::builtin().names();
  for (const HelpTopic& topic : help_topics()) known.emplace_back(topic.name);
  flags.add_option("WORD", options->words, "A command, its part, or a list such as ops")
      .completes(known)
      .optional();
  flags.add_flag("--all", options->all, "Show every option, like --help-all");
  flags.add_flag("--man", options->man, "The man page of all commands, for man -l");
  return [options] { return help(*options); };
}

// `dlpipe completion SHELL` prints the script that completes dlpipe's commands and options in that shell.

Status completion(const std::string& shell) {
  const std::unique_ptr<Program> program = make_program();
  if (shell == "bash") print_answer(bash_completion(program->text));
  if (shell == "zsh") print_answer(zsh_completion(program->text));
  if (shell == "fish") print_answer(fish_completion(program->text));
  return {};
}

std::function<Status()> setup_completion(Flags& flags) {
  auto shell = std::make_shared<std::string>();
  flags.add_option("SHELL", *shell, "The shell").choices({"bash", "zsh", "fish"}).required();
  flags.footer(
      "'cmake --install' installs the scripts where shells look for them. To load one manually: source "
      "<(dlpipe completion "
      "bash)");
  return [shell] { return completion(*shell); };
}

}  // namespace

extern const CommandRecord help_command;
const CommandRecord help_command = {"help", "Show the help of a command, or a list such as ops", setup_help};

extern const CommandRecord completion_command;
const CommandRecord completion_command = {"completion", "Print the completion script of a shell",
                                          setup_completion};

}  // namespace dlpipe::cli
