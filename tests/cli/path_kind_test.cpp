// A thing of one kind given where another is wanted: what it is and the command that takes it are said, in one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

namespace {

struct Things {
  ScratchDirectory folder;
  std::string run = trained_run().run;
  std::string data = trained_run().data.val;
  std::string splits = trained_run().data.split;
  std::string pictures = trained_run().data.jpegs;
  std::string picture = trained_run().data.jpegs + "/ring/00000.jpg";
  std::string compiled = folder / "m.dlg";
  std::string onnx = folder / "m.onnx";
  std::string weights = folder / "w.safetensors";

  Things() {
    EXPECT_EQ(run_dlpipe({"compile", run, "-o", compiled}).exit_code, 0);
    EXPECT_EQ(run_dlpipe({"compile", run, "-o", onnx}).exit_code, 0);
    EXPECT_EQ(run_dlpipe({"export-weights", run, "-o", weights}).exit_code, 0);
  }
};

void expect_answer(const std::vector<std::string>& words, const std::string& part) {
  const Outcome outcome = run_dlpipe(words);
  std::string typed = "dlpipe";
  for (const std::string& word : words) typed += " " + word;
  EXPECT_EQ(outcome.exit_code, 2) << typed << "\n" << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << typed << "\n" << outcome.err << "lacks: " << part;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << typed << "\n" << outcome.err;
}

}  // namespace

TEST(PathKinds, AModelAmongTheWordsIsNamedWithItsOption) {
  const Things things;
  for (const std::string& model :
       {things.run, things.compiled, things.onnx, things.weights, things.run + "/checkpoints/best"}) {
    expect_answer(
        {"predict", model, things.picture},
        "and predict takes the model by --ckpt: dlpipe predict --ckpt " + model + " " + things.picture);
    expect_answer({"eval", model, things.data},
                  "and eval takes the model by --ckpt: dlpipe eval --ckpt " + model + " " + things.data);
    expect_answer({"eval", things.data, model}, ": dlpipe eval --ckpt " + model + " " + things.data);
    expect_answer({"eval", model}, ": dlpipe eval --ckpt " + model);
  }
  expect_answer({"predict", things.run, "a", "b", "c", "d"}, " a b c ...");
  expect_answer({"predict", things.picture}, "--ckpt is missing");
}

TEST(PathKinds, WhereACompiledModelIsWantedTheCommandThatMakesOneIsNamed) {
  const Things things;
  const std::string array = things.folder / "x.npy";
  for (const auto& [given, part] : {std::pair(things.run, "a run"),
                                    {things.onnx, "an ONNX model"},
                                    {things.weights, "a file of weights"},
                                    {things.run + "/checkpoints/best", "a checkpoint"}}) {
    const std::string answer =
        given + " is " + part + " and no compiled model; `dlpipe compile " + given + " -o model.dlg`";
    expect_answer({"run", given, "--input", array, "--out", array}, answer);
    expect_answer({"bench", "run", given}, answer);
  }
  expect_answer({"run", things.picture, "--input", array, "--out", array},
                "is a picture and no compiled model");
  expect_answer({"run", "resnet18", "--input", array, "--out", array},
                "is the name of a model and no compiled");
}

TEST(PathKinds, WhereAModelIsWanted) {
  const Things things;
  for (const std::string command : {"compile", "export-weights", "generate", "info"}) {
    std::vector<std::string> words = {command, things.splits};
    if (command == "compile" || command == "export-weights")
      words.insert(words.end(), {"-o", things.folder / "o"});
    // Weights are exported of a checkpoint alone.
    const std::string wanted = command == "export-weights" ? "checkpoint" : "trained model";
    expect_answer(words, "is a folder of datasets and no " + wanted + "; `dlpipe inspect ");
    words[1] = things.picture;
    expect_answer(words, "is a picture and no " + wanted + "; `dlpipe predict --ckpt RUN ");
    words[1] = things.pictures;
    expect_answer(words, "is a folder of pictures and no " + wanted + "; `dlpipe ingest ");
  }
  expect_answer({"predict", "--ckpt", things.data, things.picture}, "is a dataset and no trained model");
  expect_answer({"eval", "--ckpt", things.run + "/config.toml", things.data},
                "is a file of options and no trained model; `dlpipe train --config ");
  expect_answer({"eval", "--ckpt", "resnet18", things.data},
                "is the name of a model and no trained model; `dlpipe info resnet18`");
}

TEST(PathKinds, WhereADatasetIsWanted) {
  const Things things;
  const std::vector<std::vector<std::string>> commands = {{"inspect"},
                                                          {"verify"},
                                                          {"eval", "--ckpt", things.run},
                                                          {"train", "--out", things.folder / "r", "--data"}};
  for (const std::vector<std::string>& command : commands) {
    for (const auto& [given, part] :
         {std::pair(things.run, " is a run and no dataset; `dlpipe info "),
          {things.compiled, " is a compiled model and no dataset; `dlpipe info "},
          {things.onnx, " is an ONNX model and no dataset; `dlpipe info "},
          {things.picture, " is a picture and no dataset; a dataset is made of a folder"}}) {
      std::vector<std::string> words = command;
      words.push_back(given);
      expect_answer(words, given + part);
    }
  }
  expect_answer({"inspect", "lenet"}, "lenet is the name of a model and no dataset; `dlpipe info lenet` ");
  expect_answer({"inspect", things.pictures}, "is a folder of pictures and no dataset; `dlpipe ingest ");
}

TEST(PathKinds, WhereARunIsWanted) {
  const Things things;
  for (const auto& [given, part] :
       {std::pair(things.data, " is a dataset and no run; "),
        {things.compiled, " is a compiled model and no run; "},
        {things.run + "/checkpoints/best", " is a checkpoint and no run; give the folder of the run"}}) {
    expect_answer({"doctor", given}, given + part);
    expect_answer({"diff", things.run, given}, given + part);
    expect_answer({"train", "--resume", given}, given + part);
  }
}

// Caffe's databases look as datasets do, and somebody may have made a dataset among class folders.
TEST(PathKinds, WhatLooksAsDatasetsAndIsRawDataIsIngested) {
  const Things things;
  const std::string folder = things.folder / "caffe";
  for (const char* name : {"train_lmdb", "val_lmdb"}) {
    std::filesystem::create_directories(folder + "/" + name);
    std::ofstream(folder + "/" + name + "/data.mdb") << "no LMDB";
  }
  const Outcome caffe = run_dlpipe({"ingest", folder, things.folder / "c"});
  EXPECT_NE(caffe.exit_code, 0);
  EXPECT_EQ(caffe.err.find("is a folder of datasets"), std::string::npos) << caffe.err;
  std::filesystem::create_directories(folder + "/cat");
  std::filesystem::copy(things.picture, folder + "/cat");
  EXPECT_EQ(run_dlpipe({"ingest", folder, things.folder / "p"}).exit_code, 0);
}

TEST(PathKinds, WhereRawDataOrOptionsOrANameAreWanted) {
  const Things things;
  expect_answer({"ingest", things.run, things.folder / "d"}, "is a run and no raw data; `dlpipe info ");
  expect_answer({"ingest", things.splits, things.folder / "d"},
                "is a folder of datasets and no raw data; `dlpipe export ");
  expect_answer({"ingest", things.compiled, things.folder / "d"}, "is a compiled model and no raw data");
  expect_answer({"train", "--config", things.run, "--out", things.folder / "r"},
                "is a run and no file of options; `dlpipe train --config " + things.run +
                    "/config.toml --out ANOTHER`");
  expect_answer(
      {"train", things.data, "--model", things.run, "--out", things.folder / "r"},
      "is a run and no name of a model; `dlpipe train --init " + things.run + " --data DATA --out RUN` ");
  expect_answer(
      {"train", things.data, "--init", things.data, "--model", "lenet", "--out", things.folder / "r"},
      "is a dataset and no trained model; ");
  EXPECT_FALSE(fs::exists(things.folder / "r"));
  EXPECT_FALSE(fs::exists(things.folder / "d"));
}

// A WAVE file begins as a WebP picture does, with RIFF.
TEST(PathKinds, SoundIsNoPicture) {
  const Things things;
  const std::string wave = things.folder / "0.wav";
  std::ofstream(wave, std::ios::binary) << std::string("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", 20);
  const std::string advice = "; dlpipe takes pictures and text, no sound";
  expect_answer({"ingest", wave, things.folder / "d"}, "is a sound file and no raw data" + advice);
  expect_answer({"info", wave}, "is a sound file and no trained model" + advice);
  const Outcome predicted = run_dlpipe({"predict", "--ckpt", things.run, wave});
  EXPECT_EQ(predicted.exit_code, 1);
  EXPECT_NE(predicted.err.find("it is a sound file and no picture" + advice), std::string::npos)
      << predicted.err;
}

TEST(PathKinds, PredictNamesWhatIsNoPictureAndGoesOn) {
  const Things things;
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", things.run, things.compiled, things.picture});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("it is a compiled model and no picture; `dlpipe info "), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find(things.picture), std::string::npos) << outcome.out;
}

TEST(PathKinds, WhereACommandIsWanted) {
  const Things things;
  expect_answer({things.pictures},
                "it is a folder of pictures: `dlpipe ingest " + things.pictures + " DATA`");
  expect_answer({"resnet18"}, "it is the name of a model: `dlpipe info resnet18`");
}

TEST(PathKinds, AModelsNameIsEnoughForInfo) {
  const Outcome named = run_dlpipe({"info", "lenet", "--size", "28"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.out, run_dlpipe({"info", "--model", "lenet", "--size", "28"}).out);
}

// No command trains on boxes alone, so none is offered: not by what the dataset is, not at the end of the ingest that makes it.
TEST(PathKinds, NoTrainingIsOfferedOnBoxesAlone) {
  const ScratchDirectory folder;
  fs::create_directories(folder / "pictures");
  std::string list = R"({"fields": ["boxes:boxes", "kinds:labels:boxes"], "classes": ["cat"]})";
  for (const std::string name : {"1", "2", "3", "4"}) {
    std::ofstream(folder / ("pictures/" + name + ".pgm")) << "P5\n32 32\n255\n" << std::string(1024, name[0]);
    list += "\n{\"path\": \"" + name +
            ".pgm\", \"boxes\": [[1, 2, 10, 12]], \"kinds\": [\"cat\"], \"split\": \"" +
            (name < "3" ? "train" : "test") + "\"}";
  }
  std::ofstream(folder / "pictures/list.jsonl") << list << "\n";
  const Outcome ingested = run_dlpipe({"ingest", folder / "pictures/list.jsonl", folder / "data"});
  ASSERT_EQ(ingested.exit_code, 0) << ingested.err;
  ASSERT_TRUE(fs::exists(folder / "data/test")) << ingested.err;
  EXPECT_EQ(ingested.err.find("dlpipe train"), std::string::npos) << ingested.err;
  for (const char* data : {"data", "data/train"}) {
    const std::string said = run_dlpipe({folder / data}).err;
    EXPECT_NE(said.find("`dlpipe inspect "), std::string::npos) << said;
    EXPECT_EQ(said.find("dlpipe train"), std::string::npos) << said;
  }
}

}  // namespace dlpipe::test
