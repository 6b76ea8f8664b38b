#include "dlpipe/cli/flags.h"

#include <CLI/CLI.hpp>
#include <type_traits>

#include "dlpipe/base/text.h"

namespace dlpipe::cli {

Flag& Flag::required() {
  option_->required();
  return *this;
}

Flag& Flag::range(int low, int high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Flag& Flag::range(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Flag& Flag::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

template <class T>
Flag Flags::add_option(const std::string& name, T& value, const std::string& help) {
  CLI::Option* option = app_->add_option(name, value, help);
  if constexpr (std::is_same_v<T, uint64_t>) {  // CLI11 takes -1 for 2^64 - 1
    option->check([](const std::string& text) {
      return text.rfind('-', 0) == 0 ? concat(text, " is below 0") : std::string();
    });
  }
  return Flag(option);
}
template Flag Flags::add_option(const std::string&, std::string&, const std::string&);
template Flag Flags::add_option(const std::string&, int&, const std::string&);
template Flag Flags::add_option(const std::string&, int64_t&, const std::string&);
template Flag Flags::add_option(const std::string&, uint64_t&, const std::string&);
template Flag Flags::add_option(const std::string&, double&, const std::string&);
template Flag Flags::add_option(const std::string&, std::vector<std::string>&, const std::string&);

Flag Flags::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Flag(app_->add_flag(name, value, help));
}

Flags Flags::add_part(const std::string& name, const std::string& help) {
  CLI::App* part = app_->add_subcommand(name, help);
  part->option_defaults()->always_capture_default();
  return Flags(part);
}

void Flags::require_part() {
  app_->require_subcommand(1);
}

bool Flags::parsed() const {
  return app_->parsed();
}

void Flags::footer(const std::string& text) {
  app_->footer(text);
}

}  // namespace dlpipe::cli
