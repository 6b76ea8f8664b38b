// `dlpipe completion SHELL`: the script that completes dlpipe's commands and options there.
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/program.h"
#include "dlpipe/cli/shell_completion.h"

namespace dlpipe::cli {

namespace {

Status completion(const std::string& shell) {
  const std::unique_ptr<Program> program = make_program();
  if (shell == "bash") print_answer(bash_completion(program->text));
  if (shell == "zsh") print_answer(zsh_completion(program->text));
  if (shell == "fish") print_answer(fish_completion(program->text));
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto shell = std::make_shared<std::string>();
  flags.add_option("SHELL", *shell, "The shell").choices({"bash", "zsh", "fish"}).required();
  flags.footer(
      "'cmake --install' puts the scripts where shells look for them. By hand: source <(dlpipe completion "
      "bash)");
  return [shell] { return completion(*shell); };
}

}  // namespace

extern const CommandRecord completion_command;
const CommandRecord completion_command = {"completion", "Print the completion script of a shell", setup};

}  // namespace dlpipe::cli
