// Preloaded into dlpipe, reads commands and gives each to dlpipe's main in a copy of the process: loading the program's
// libraries takes longer than what onnx_nodes.py asks of it five thousand times.
//
// A command is lines on stdin: a file for what it says on stderr, how many arguments there are, and the arguments. Its answer is
// a line on stdout: the exit code, or the signal that ended it, negative.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main dlpipe_main = nullptr;

void become(int stream, const char* path, int flags) {
  const int file = ::open(path, flags, 0600);
  if (file < 0 || ::dup2(file, stream) < 0) ::_exit(127);
  ::close(file);
}

int run(const std::string& errors, std::vector<std::string>& words, char** environment) {
  const pid_t child = ::fork();
  if (child == 0) {
    become(STDIN_FILENO, "/dev/null", O_RDONLY);
    become(STDOUT_FILENO, "/dev/null", O_WRONLY);
    become(STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::exit(dlpipe_main(static_cast<int>(words.size()), arguments.data(), environment));
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 127;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int serve(int, char** arguments, char** environment) {
  for (std::string errors, line; std::getline(std::cin, errors) && std::getline(std::cin, line);) {
    std::vector<std::string> words = {arguments[0]};
    for (int left = std::atoi(line.c_str()); left > 0 && std::getline(std::cin, line); --left)
      words.push_back(line);
    std::cout << run(errors, words, environment) << std::endl;
  }
  return 0;
}

}  // namespace

extern "C" int __libc_start_main(Main main, int count, char** arguments, void (*init)(), void (*fini)(),
                                 void (*rtld_fini)(), void* stack_end) {
  dlpipe_main = main;
  const auto start = reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serve, count, arguments, init, fini, rtld_fini, stack_end);
}
