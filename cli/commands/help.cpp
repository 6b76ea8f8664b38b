// `dlpipe help COMMAND [TOPIC]`: the same as `dlpipe COMMAND --help [TOPIC]`.
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/help_text.h"
#include "dlpipe/cli/help_topics.h"
#include "dlpipe/cli/man_page.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/program.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::vector<std::string> words;
  bool all = false;
  bool man = false;
};

Status help(const Options& options) {
  const std::unique_ptr<Program> program = make_program();
  if (options.man) {
    print_answer(man_page(program->text));
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, answer_help(program->text, {options.words, options.all}));
  print_answer(text);
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  std::vector<std::string> known = CommandRegistry::builtin().names();
  for (const HelpTopic& topic : help_topics()) known.emplace_back(topic.name);
  flags.add_option("WORD", options->words, "A command, its part, or a list such as ops")
      .completes(known)
      .optional();
  flags.add_flag("--all", options->all, "Every option, as --help-all");
  flags.add_flag("--man", options->man, "The man page of all commands, for man -l");
  return [options] { return help(*options); };
}

}  // namespace

extern const CommandRecord help_command;
const CommandRecord help_command = {"help", "Show the help of a command, or a list such as ops", setup};

}  // namespace dlpipe::cli
