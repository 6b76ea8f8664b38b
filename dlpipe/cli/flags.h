// A command's options, declared without CLI11's headers: those take longer to compile than any command.
//
// Flags and Flag are handles, copied freely; what they stand for belongs to the program. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dlpipe::cli {

class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag& required();
  /// Misuse outside of it.
  Flag& range(int low, int high);
  Flag& range(double low, double high);
  /// What stands for the value in --help; by default its type.
  Flag& type_name(const std::string& name);
  /// Misuse together with `other`.
  Flag& excludes(const Flag& other);

 private:
  CLI::Option* option_;
};

class Flags {
 public:
  explicit Flags(CLI::App* app) : app_(app) {}

  /// "--name", or "NAME" for a word by its place. `value` holds the default, which --help shows, and is set
  /// when the command line is parsed. T: std::string, int, int64_t, uint64_t, double,
  /// std::vector<std::string>.
  template <class T>
  Flag add_option(const std::string& name, T& value, const std::string& help);
  Flag add_flag(const std::string& name, bool& value, const std::string& help);

  /// A part of the command with options of its own: `dlpipe bench pipeline`.
  Flags add_part(const std::string& name, const std::string& help);
  /// One part must be given.
  void require_part();
  /// Whether this part was.
  bool parsed() const;

  /// The last lines of --help.
  void footer(const std::string& text);
  CLI::App& app() { return *app_; }

 private:
  CLI::App* app_;
};

}  // namespace dlpipe::cli
