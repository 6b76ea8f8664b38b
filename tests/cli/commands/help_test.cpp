// Help as people ask for it and as it stands on their terminals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/cli/program.h"

namespace dlpipe::test {

namespace {

std::string text_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

/// Sets $COLUMNS for programs that are started while it lives.
class Columns {
 public:
  explicit Columns(const char* columns) { ::setenv("COLUMNS", columns, 1); }
  ~Columns() { ::unsetenv("COLUMNS"); }
};

size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

/// Without the rules of tables, which are as long as their columns are wide.
std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    if (word.find_first_not_of('-') != std::string::npos) words.push_back(word);
  }
  return words;
}

std::string misuse_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

}  // namespace

TEST(Help, SaysDefaultsAndSwitchesInOneLine) {
  EXPECT_NE(text_of({"generate", "--help"}).find("Text to continue (default \\n)"), std::string::npos);
  EXPECT_NE(text_of({"train", "--help-all"}).find("No weight decay of biases"), std::string::npos);
}

// The guides write -o and --help lists --out: both stand beside each other, in every command that has them.
TEST(Help, AShortNameStandsBesideTheLongOne) {
  for (const char* command : {"train", "preview", "compile", "run", "export-weights"}) {
    const std::string text = text_of({command, "--help-all"});
    EXPECT_NE(text.find("\n  -o, --out "), std::string::npos) << text;
    EXPECT_NE(text.find("  -h, --help "), std::string::npos) << text;
  }
  EXPECT_NE(text_of({"synth", "--help"}).find("(or --out, --output, -o OUT;"), std::string::npos);
  EXPECT_NE(text_of({"preview", "--help"}).find("Usage: dlpipe preview --augment TEXT --out TEXT ["),
            std::string::npos);
}

// What a guide or a script may call an option is found in its help.
TEST(Help, SaysWhichOtherNamesAnOptionHas) {
  const Columns wide("120");
  const std::string compile = text_of({"compile", "--help"});
  EXPECT_NE(compile.find("(or --ckpt, --checkpoint, --init CKPT)"), std::string::npos) << compile;
  EXPECT_NE(compile.find("\n  --onnx TEXT "), std::string::npos) << compile;
  const std::string run = text_of({"run", "--help"});
  EXPECT_NE(run.find("(or --output; required)"), std::string::npos) << run;
}

TEST(Help, OfRunSaysInWhichOrderEachKindOfModelTakesImages) {
  const std::vector<std::string> words = words_of(text_of({"run", "--help"}));
  for (const char* order : {"[N,H,W,C];", "[N,C,H,W]"})
    EXPECT_NE(std::find(words.begin(), words.end(), order), words.end()) << order;
}

// Shells complete names as they are declared; other names of an option are lines of run/config/other_names.cpp.
TEST(Help, EveryOptionIsDeclaredByOneName) {
  const std::string script = text_of({"completion", "bash"});
  EXPECT_NE(script.find("--out"), std::string::npos);
  EXPECT_EQ(script.find(",--"), std::string::npos) << script.substr(script.find(",--") - 80, 100);
}

TEST(Help, WrapsAtTheTerminalsWidthWithWordsWhole) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"--help"},
                                                  {"train", "--help-all"},
                                                  {"ingest", "--help"},
                                                  {"bench", "ops", "--help"},
                                                  {"help", "models"},
                                                  {"help", "ops"},
                                                  {"help", "sources"}}) {
    std::vector<std::string> wide_words;
    for (const auto& [columns, most] : {std::pair("120", 120u), {"80", 80u}, {"50", 50u}, {"1000", 120u}}) {
      const Columns set(columns);
      const std::string text = text_of(command);
      EXPECT_LE(longest_line(text), most) << command[0] << " at " << columns << "\n" << text;
      EXPECT_GT(longest_line(text), most - 20) << "it uses the width: " << command[0] << " at " << columns;
      if (wide_words.empty()) wide_words = words_of(text);
      EXPECT_EQ(words_of(text), wide_words) << "only blanks are broken";
    }
  }
}

TEST(Help, IsEightyColumnsWhereThereIsNoTerminal) {
  EXPECT_LE(longest_line(text_of({"train", "--help-all"})), 80u);
  for (const char* list : {"losses", "metrics", "models", "ops", "optimizers", "schedules", "sources"})
    EXPECT_LE(longest_line(text_of({"help", list})), 80u) << list;
}

TEST(Help, EveryWayOfAskingGivesTheSameText) {
  EXPECT_EQ(text_of({"help", "train"}), text_of({"train", "--help"}));
  EXPECT_EQ(text_of({"--help", "train"}), text_of({"train", "--help"}));
  EXPECT_EQ(text_of({"train", "-h"}), text_of({"train", "--help"}));
  EXPECT_EQ(text_of({"train", "--data", "d", "--help", "--json"}), text_of({"train", "--help"}));
  EXPECT_EQ(text_of({"help", "bench", "train"}), text_of({"bench", "train", "--help"}));
  EXPECT_EQ(text_of({"help"}), text_of({"--help"}));
  EXPECT_EQ(text_of({"help", "train", "--all"}), text_of({"train", "--help-all"}));
  const std::string ops = text_of({"--help", "ops"});
  EXPECT_NE(ops.find("rrc("), std::string::npos) << ops;
  for (const std::vector<std::string>& same : {std::vector<std::string>{"help", "ops"},
                                               {"help", "train", "ops"},
                                               {"train", "--help", "ops"},
                                               {"bench", "pipeline", "--help", "ops"}})
    EXPECT_EQ(text_of(same), ops);
}

TEST(Help, OfTrainShowsFifteenOptionsAndAllOfThemInGroups) {
  const auto count = [](const std::string& text) {
    std::istringstream lines(text);
    int options = 0;
    for (std::string line; std::getline(lines, line);) options += line.starts_with("  -") ? 1 : 0;
    return options;
  };
  const std::string usual = text_of({"train", "--help"});
  EXPECT_EQ(count(usual), 15) << usual;
  EXPECT_NE(usual.find("dlpipe train --help-all"), std::string::npos) << usual;
  const std::string all = text_of({"train", "--help-all"});
  EXPECT_GT(count(all), 50) << all;
  EXPECT_NE(usual.find("All " + std::to_string(count(all)) + " options:"), std::string::npos) << usual;
  for (const char* part :
       {"\nOptimisation:\n", "--muon-iterations", "--no-decay-vectors", "--quiet", "  --batch N"})
    EXPECT_NE(all.find(part), std::string::npos) << part;
}

TEST(Help, OnWhatThereIsNotNamesTheNearest) {
  EXPECT_EQ(misuse_of({"train", "--help", "optimisers"}),
            "dlpipe: [help] there is no help on 'optimisers'; did you mean 'optimizers'?\n");
  EXPECT_NE(misuse_of({"help", "trian"}).find("did you mean 'train'?"), std::string::npos);
  EXPECT_NE(misuse_of({"help", "bench", "trian"}).find("did you mean 'train'?"), std::string::npos);
}

TEST(Help, ColoursAreForTerminalsOrForWhoAsks) {
  EXPECT_EQ(text_of({"info", "--help"}).find('\x1b'), std::string::npos);
  const auto error = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"doctor", "/nonexistent"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_dlpipe(arguments).err;
  };
  EXPECT_EQ(error({}).find('\x1b'), std::string::npos);
  EXPECT_NE(error({"--color", "always"}).find("\x1b[31m"), std::string::npos);
  EXPECT_EQ(error({"--color", "never"}).find('\x1b'), std::string::npos);
  EXPECT_NE(misuse_of({"info", "--color", "red"}).find("--color: 'red'"), std::string::npos);
}

}  // namespace dlpipe::test
