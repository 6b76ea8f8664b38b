// Completion as the shells do it: each loads the script that the program prints and is asked what a line completes
// to. A shell that isn't there is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/cli/program.h"

namespace dlpipe::test {

namespace {

using Words = std::vector<std::string>;

Words lines_of(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  Words lines;
  std::string text;
  char part[4096];
  for (size_t got = 0; (got = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << text;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_shell(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

/// The script of `shell`, in a file.
std::string script(const ScratchDirectory& folder, const std::string& shell) {
  const Outcome outcome = run_dlpipe({"completion", shell});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string path = folder / ("completion." + shell);
  std::ofstream(path) << outcome.out;
  return path;
}

bool holds(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST(Completion, OfBash) {
  const ScratchDirectory folder;
  const std::string file = script(folder, "bash");
  // `words`: the line so far, the last one to be completed.
  const auto complete = [&](const std::string& words) {
    return lines_of(
        "bash -c 'compopt() { :; }; source " + file + "; COMP_WORDS=(dlpipe " + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _dlpipe; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  };
  EXPECT_EQ(complete("tra"), Words{"train"});
  EXPECT_TRUE(holds(complete("\"\""), "inspect"));
  EXPECT_EQ(complete("train --weight"), Words{"--weight-decay"});
  EXPECT_EQ(complete("train DATA --dtype b"), Words{"bf16"});
  EXPECT_TRUE(holds(complete("train --model res"), "resnet18"));
  EXPECT_TRUE(holds(complete("train --arch res"), "resnet18")) << "an alias completes as the option does";
  EXPECT_EQ(complete("bench pip"), Words{"pipeline"});
  EXPECT_EQ(complete("bench train --chec"), Words{"--checkpoint-activations"});
  EXPECT_EQ(complete("completion f"), Words{"fish"});
  EXPECT_EQ(complete("--ver"), Words{"--version"});
  EXPECT_EQ(complete("--help op"), (Words{"ops", "optimizers"}));
  EXPECT_EQ(complete("inspect /tm"), Words{""}) << "names of files are the shell's";
  EXPECT_EQ(complete("train --out /tm"), Words{""});
}

TEST(Completion, OfZsh) {
  if (!has_shell("zsh")) GTEST_SKIP() << "no zsh";
  const ScratchDirectory folder;
  const std::string file = script(folder, "zsh");
  EXPECT_EQ(lines_of("zsh -n " + file + " 2>&1"), Words{});
  // What the function would offer, with zsh's own functions told to say what they get.
  const auto complete = [&](const std::string& line) {
    return lines_of("zsh -f -c 'compdef() { }; source " + file +
                    "; compadd() { shift; print -l -- $@; }; _files() { print FILES; };"
                    " _describe() { print -l -- ${${(P)@[-1]}%%:*}; };"
                    " words=(dlpipe " +
                    line + "); CURRENT=$#words; _dlpipe'");
  };
  EXPECT_TRUE(holds(complete("\"\""), "train"));
  EXPECT_TRUE(holds(complete("train --w"), "--weight-decay"));
  EXPECT_EQ(complete("train --dtype b"), (Words{"f32", "bf16", "f16"}));
  EXPECT_EQ(complete("train --out x"), Words{"FILES"});
  EXPECT_TRUE(holds(complete("bench \"\""), "pipeline"));
}

TEST(Completion, OfFish) {
  if (!has_shell("fish")) GTEST_SKIP() << "no fish";
  const ScratchDirectory folder;
  const std::string file = script(folder, "fish");
  EXPECT_EQ(lines_of("fish --no-execute " + file + " 2>&1"), Words{});
  const auto complete = [&](const std::string& line) {
    Words words = lines_of("HOME=" + folder.path() + " fish --no-config -c 'source " + file +
                           "; complete -C \"" + line + "\"'");
    for (std::string& word : words) word = word.substr(0, word.find('\t'));
    return words;
  };
  EXPECT_EQ(complete("dlpipe tra"), Words{"train"});
  // fish offers what holds the word, too: --class-weights
  EXPECT_TRUE(holds(complete("dlpipe train --weight"), "--weight-decay"));
  EXPECT_EQ(complete("dlpipe train --dtype b"), Words{"bf16"});
  EXPECT_EQ(complete("dlpipe bench pip"), Words{"pipeline"});
}

TEST(Completion, OfAnotherShellIsMisuse) {
  const Outcome outcome = run_dlpipe({"completion", "tcsh"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("SHELL: 'tcsh'"), std::string::npos) << outcome.err;
}

TEST(ManPage, RendersWithoutAWarningAndHoldsEveryOption) {
  const Outcome page = run_dlpipe({"help", "--man"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  for (const char* part : {".TH DLPIPE 1", "\\-\\-weight\\-decay", "bench pipeline", ".SH EXIT STATUS"})
    EXPECT_NE(page.out.find(part), std::string::npos) << part;
  if (!has_shell("man") || !has_shell("groff")) GTEST_SKIP() << "no man";
  const ScratchDirectory folder;
  std::ofstream(folder / "dlpipe.1") << page.out;
  const Words rendered =
      lines_of("MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l " + folder / "dlpipe.1" + " 2>&1 | col -b");
  std::string text;
  for (const std::string& line : rendered) {
    EXPECT_EQ(line.find("warning: "), std::string::npos) << line;
    text += line + "\n";
  }
  EXPECT_NE(text.find("--weight-decay X"), std::string::npos) << text.substr(0, 2000);
}

}  // namespace dlpipe::test
