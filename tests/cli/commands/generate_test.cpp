// A text file to a model that goes on writing it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

/// A dataset of a text that repeats itself, and a run on it.
class Generate : public testing::Test {
 protected:
  Generate() {
    // 10 and 11 have no common divisor: sequences begin at all places of the line.
    std::ofstream text(folder_ / "verse.txt");
    for (int i = 0; i < 150; ++i) text << "abc de, fg\n";
    text.close();
    const Outcome ingest = run_dlpipe(
        {"ingest", folder_ / "verse.txt", folder_ / "data", "--length", "10", "--split", "0.9,0.1"});
    EXPECT_EQ(ingest.exit_code, 0) << ingest.err;
  }
  void train(const std::string& epochs) {
    const Outcome train = run_dlpipe({"train", "--data", folder_ / "data", "--model", "gpt_char_tiny",
                                      "--optimizer", "adamw", "--lr", "0.003", "--batch", "16", "--epochs",
                                      epochs, "--val-every", "never", "--out", folder_ / "run"});
    ASSERT_EQ(train.exit_code, 0) << train.err;
  }
  /// A text that holds a letter of two bytes and a terminal's command.
  std::string odd_text() {
    std::ofstream text(folder_ / "odd.txt");
    for (int i = 0; i < 150; ++i) text << "ab\u00e9 \x1b[m,fg\n";
    return folder_ / "odd.txt";
  }
  Outcome generate(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "--ckpt", folder_ / "run"});
    return run_dlpipe(more);
  }

  ScratchDirectory folder_;
};

TEST_F(Generate, GoesOnAsTheTextDoes) {
  train("15");
  const Outcome outcome = generate({"--prompt", "abc d", "--tokens", "20", "--temperature", "0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "abc de, fg\nabc de, fg\nabc\n");
  const Outcome eval =
      run_dlpipe({"eval", "--ckpt", folder_ / "run", "--data", folder_ / "data/val", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const Json json = *Json::parse(eval.out);
  EXPECT_LT(json["loss"].as_double(), 0.5);
  EXPECT_GT(json["metrics"]["top1"].as_double(), 0.85);
}

// A model of a text may write anything, and a terminal does what it is told.
TEST_F(Generate, WhatActsOnATerminalIsEscapedThereAndNotInAPipe) {
  ASSERT_EQ(
      run_dlpipe({"ingest", odd_text(), folder_ / "odd", "--length", "10", "--split", "0.9,0.1"}).exit_code,
      0);
  const std::string run = folder_ / "odd_run";
  ASSERT_EQ(
      run_dlpipe({"train", "--data", folder_ / "odd", "--model", "gpt_char_tiny", "--optimizer", "adamw",
                  "--lr", "0.003", "--batch", "16", "--epochs", "15", "--val-every", "never", "--out", run})
          .exit_code,
      0);
  const std::vector<std::string> command = {
      "generate", "--ckpt", run, "--prompt", "ab\u00e9", "--tokens", "12", "--temperature", "0"};
  EXPECT_EQ(run_dlpipe(command).out, "ab\u00e9 \x1b[m,fg\nab\u00e9 \n");
  Terminal terminal;
  RunningProgram program(command, {.out = terminal.device()});
  EXPECT_EQ(terminal.wait_for_end(), "ab\u00e9 \\u001b[m,fg\r\nab\u00e9 \r\n");
  EXPECT_EQ(program.wait().exit_code, 0);
}

TEST_F(Generate, InspectSpeaksOfTokens) {
  const Outcome shown = run_dlpipe({"inspect", folder_ / "data/train"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("tokens     11 per sample"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("alphabet   10: \\n ,abcdefg\n"), std::string::npos) << shown.out;
  for (const char* of_images : {"image", "pixels", "width", "longer side"})
    EXPECT_EQ(shown.out.find(of_images), std::string::npos) << shown.out;
}

TEST_F(Generate, DrawsTheSameForASeedAndOthersForAnother) {
  train("0.5");
  const auto drawn = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--prompt", "a", "--tokens", "40", "--temperature", "4"};
    options.insert(options.end(), more.begin(), more.end());
    return generate(options).out;
  };
  EXPECT_EQ(drawn({"--seed", "1"}), drawn({"--seed", "1"}));
  EXPECT_NE(drawn({"--seed", "1"}), drawn({"--seed", "2"}));
  // The likeliest one alone is no draw at all.
  EXPECT_EQ(drawn({"--top-k", "1"}), generate({"--prompt", "a", "--tokens", "40", "--temperature", "0"}).out);
}

TEST_F(Generate, SaysWhatDoesNotFit) {
  train("0.5");
  const auto fails = [](const Outcome& outcome, const std::string& with) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(with), std::string::npos) << outcome.err;
  };
  fails(generate({"--prompt", "abc @ de"}), "no '@' (byte 4 of --prompt)");
  fails(generate({"--prompt", "ab\u65e5 de"}), "no '\u65e5' (byte 2 of --prompt)");
  fails(generate({"--prompt", "ab\xff"}), "no '\\xff' (byte 2 of --prompt)");
  fails(generate({"--prompt", ""}), "--prompt");
  fails(run_dlpipe({"generate", "--ckpt", trained_run().run}), "dlpipe predict");
  fails(run_dlpipe({"predict", "--ckpt", folder_ / "run", trained_run().data.jpegs}), "dlpipe generate");
  const std::string bare = folder_ / "bare.safetensors";
  std::filesystem::copy_file(folder_ / "run/checkpoints/last/model.safetensors", bare);
  fails(run_dlpipe({"generate", "--ckpt", bare}), "give the checkpoint or the run");
  const Outcome images =
      run_dlpipe({"train", "--data", folder_ / "data", "--model", "lenet", "--out", folder_ / "no"});
  EXPECT_NE(images.exit_code, 0);
  EXPECT_NE(images.err.find("lenet takes images with classes"), std::string::npos) << images.err;
  const Outcome text = run_dlpipe(
      {"train", "--data", trained_run().data.split, "--model", "gpt_char_tiny", "--out", folder_ / "no"});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_NE(text.err.find("sequences of tokens"), std::string::npos) << text.err;
  fails(run_dlpipe({"eval", "--ckpt", folder_ / "run", "--data", trained_run().data.val}),
        "sequences of tokens");
  fails(run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", folder_ / "data"}), "images with classes");
}

// It takes sequences of one length, and a prompt is of any.
TEST_F(Generate, ACompiledModelIsRefusedBeforeAnythingIsWritten) {
  train("0.5");
  const std::string compiled = folder_ / "text.dlg";
  const Outcome compile = run_dlpipe({"compile", folder_ / "run", "-o", compiled});
  ASSERT_EQ(compile.exit_code, 0) << compile.err;
  const Outcome outcome = run_dlpipe({"generate", compiled, "--prompt", "abc"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("text.dlg is a compiled model, which takes "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("give the run or the checkpoint"), std::string::npos) << outcome.err;
}

TEST_F(Generate, TheDataCommandsKnowTexts) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"inspect", folder_ / "data/train"},
        {"verify", folder_ / "data/train"},
        {"bench", "pipeline", "--data", folder_ / "data/train", "--batch", "16", "--seconds", "0.1"}}) {
    const Outcome outcome = run_dlpipe(command);
    EXPECT_EQ(outcome.exit_code, 0) << command[0] << ": " << outcome.err;
  }
  const Outcome measured = run_dlpipe(
      {"bench", "pipeline", "--data", folder_ / "data/train", "--batch", "16", "--seconds", "0.1", "--json"});
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_NE(measured.out.find("\"samples_per_s_one_thread\":null"), std::string::npos) << measured.out;
  const Outcome exported = run_dlpipe({"export", folder_ / "data/train", folder_ / "files"});
  EXPECT_NE(exported.exit_code, 0);
  EXPECT_NE(exported.err.find("image"), std::string::npos) << exported.err;
}

}  // namespace dlpipe::test
