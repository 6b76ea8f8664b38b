// `dlpipe help COMMAND [TOPIC]`: the same as `dlpipe COMMAND --help [TOPIC]`.
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/help_text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/program.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::vector<std::string> words;
  bool all = false;
};

Status help(const Options& options) {
  const std::unique_ptr<Program> program = make_program();
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, answer_help(program->text, {options.words, options.all}));
  print_answer(text);
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("WORD", options->words, "A command, its part, or a list such as ops");
  flags.add_flag("--all", options->all, "Every option, as --help-all");
  return [options] { return help(*options); };
}

}  // namespace

extern const CommandRecord help_command;
const CommandRecord help_command = {"help", "Show the help of a command, or a list such as ops", setup};

}  // namespace dlpipe::cli
