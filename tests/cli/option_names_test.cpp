// One name for one option; the other names that people type; what a wrong one is answered with.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace dlpipe::test {

static std::string misuse_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

TEST(OptionNames, WhatPeopleTypeIsAccepted) {
  // Each is parsed: what fails is the file that isn't there.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", "/nonexistent", "--jobs", "1"},
        {"verify", "/nonexistent", "--workers", "1"},
        {"verify", "--data", "/nonexistent"},
        {"eval", "--ckpt", "/nonexistent", "/nonexistent", "--batch-size", "3"},
        {"eval", "--checkpoint", "/nonexistent", "--data", "/nonexistent"},
        {"run", "/nonexistent", "--input", "/nonexistent", "-o", "/nonexistent/out"},
        {"compile", "--ckpt", "/nonexistent", "-o", "/nonexistent/out"},
        {"compile", "--ckpt", "/nonexistent", "--output", "/nonexistent/out"},
        {"train", "/nonexistent", "--arch", "lenet", "--learning-rate", "0.1", "--wd", "0", "--batch-size",
         "4", "--workers", "1", "--output", "/nonexistent/out"}}) {
    const Outcome outcome = run_dlpipe(command);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("/nonexistent"), std::string::npos) << outcome.err;
  }
  const std::string help = run_dlpipe({"train", "--help-all"}).out;
  EXPECT_EQ(help.find("\n  --learning-rate"), std::string::npos) << "one name has a line";
  EXPECT_NE(help.find("--learning-rate"), std::string::npos) << "which names the other one";
}

TEST(OptionNames, OfOtherProgramsAreAnsweredByMeaning) {
  const auto expect = [](const std::vector<std::string>& command, const std::string& meant) {
    EXPECT_NE(misuse_of(command).find("did you mean '" + meant + "'?"), std::string::npos)
        << command[1] << "\n"
        << misuse_of(command);
  };
  expect({"train", "--num-workers", "2"}, "--threads");
  expect({"train", "--num_workers", "2"}, "--threads");
  expect({"train", "-j", "2"}, "--threads");
  expect({"train", "--bs", "2"}, "--batch");
  expect({"train", "--gpu"}, "--device cuda");
  expect({"train", "--dataset", "d"}, "--data");
  expect({"train", "--pretrained", "w"}, "--init");
  expect({"train", "--weights", "w"}, "--init");
  expect({"eval", "--weights", "w"}, "--ckpt");
  expect({"train", "--lr-scheduler", "cosine"}, "--schedule");
  expect({"train", "--weight_decay", "0"}, "--weight-decay");
  expect({"train", "--amp"}, "--dtype bf16");
  expect({"train", "--patience", "3"}, "--early-stop");
  expect({"ingest", "--val-split", "0.1"}, "--split");
  expect({"predict", "--topk", "3"}, "--top");
  expect({"train", "--epoch", "3"}, "--epochs");
  expect({"train", "--eps", "1e-7"}, "--epsilon");
  expect({"train", "--gradient-clip", "1"}, "--clip");
  expect({"bench", "pipeline", "--num-workers", "3"}, "--threads");
  expect({"train", "--no-nestrov"}, "--no-nesterov");
  expect({"train", "--no-decay-vector"}, "--no-decay-vectors");
}

TEST(OptionNames, AWordGivenTwiceOrNotAtAllIsMisuse) {
  EXPECT_NE(misuse_of({"eval", "--ckpt", "a", "--data", "b", "c"}).find("[eval] unexpected argument 'c'"),
            std::string::npos);
  EXPECT_NE(misuse_of({"eval", "run", "data"})
                .find("[eval] unexpected argument 'data': it takes DATA, and the model or run by --ckpt"),
            std::string::npos);
  EXPECT_NE(misuse_of({"eval", "--ckpt", "a"}).find("[eval] DATA is missing"), std::string::npos);
  EXPECT_NE(misuse_of({"train", "a", "b"}).find("[train] unexpected argument 'b'"), std::string::npos);
  EXPECT_NE(misuse_of({"eval", "--ckpt", "a", "b", "--batch"}).find("[eval] --batch needs a value (N)"),
            std::string::npos);
  EXPECT_NE(misuse_of({"eval", "--ckpt", "a", "b", "--batch", "x"})
                .find("--batch: 'x' is no whole number from 1 to 1,000,000"),
            std::string::npos);
}

// `--out=$NAME` without a NAME must not take the next option for the name of a folder.
TEST(OptionNames, AnEmptyValueIsOneAndAnOptionIsNone) {
  EXPECT_NE(
      misuse_of({"train", "d", "--model", "mlp", "--out=", "--compile"}).find("[train] no run directory"),
      std::string::npos);
  EXPECT_NE(misuse_of({"train", "d", "--batch=", "--compile"}).find("--batch is ''; expected"),
            std::string::npos);
  EXPECT_NE(misuse_of({"eval", "--ckpt", "a", "--data=", "b"}).find("DATA is given by --data already"),
            std::string::npos);
  const auto no_value = [](const std::vector<std::string>& words, const std::string& said) {
    const std::string error = misuse_of(words);
    EXPECT_NE(error.find(said), std::string::npos) << error;
  };
  no_value({"eval", "--ckpt", "a", "b", "--predictions", "--json"},
           "[eval] --predictions needs a value (FILE), and '--json' is an option; as a value it is written "
           "--predictions=--json; see 'dlpipe eval --help'");
  no_value({"train", "d", "--out", "--no-compile"},
           "[train] --out needs a value (TEXT), and '--no-compile' is");
  no_value({"train", "--data", "--batch=3"},
           "[train] --data needs a value (DATA), and '--batch=3' is an option");
  no_value({"compile", "m", "-o", "--quiet"},
           "[compile] -o needs a value (TEXT), and '--quiet' is an option;");
  no_value({"bench", "pipeline", "--threads", "--data", "d"},
           "[bench pipeline] --threads needs a value (N), and");
  no_value({"--color", "--quiet"}, "[cli] --color needs a value (WHEN), and '--quiet' is an option");
  no_value({"train", "d", "--out", "--"}, "[train] --out needs a value (TEXT); see");
  // Written so, it is meant; and behind -- nothing is an option.
  const Outcome meant = run_dlpipe({"inspect", "--data=--json"});
  EXPECT_EQ(meant.exit_code, 1);
  EXPECT_NE(meant.err.find("no dataset --json"), std::string::npos) << meant.err;
  const Outcome word = run_dlpipe({"inspect", "--", "--data=--json"});
  EXPECT_NE(word.err.find("no dataset --data=--json"), std::string::npos) << word.err;
}

TEST(OptionNames, ASwitchTakesTrueAndFalseAlone) {
  for (const char* const given :
       {"--nesterov=maybe", "--compile=99999999999999999999", "--no-tf32=1", "--json=", "--quiet=maybe"}) {
    const std::string error = misuse_of({"train", "d", given});
    EXPECT_NE(error.find("and a switch takes no value but true or false; see 'dlpipe train --help'"),
              std::string::npos)
        << error;
    EXPECT_TRUE(
        error.starts_with("dlpipe: [train] " + std::string(given).substr(0, std::string(given).find('='))))
        << error;
  }
  EXPECT_NE(misuse_of({"train", "d", "--nesterov=false", "--json=true"}).find("[train] no run directory"),
            std::string::npos);
}

}  // namespace dlpipe::test
