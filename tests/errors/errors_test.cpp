// The catalogue of messages: a table of bad inputs and what `dlpipe` says to each: an area in brackets, what happened, to what, what
// to do. Other tests assert behaviour, not wording.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/base/test_file.h"
#include "tests/cli/program.h"
#include "tests/run/sample_data.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

struct Case {
  std::vector<std::string> arguments;
  int exit_code;
  std::vector<std::string> words;  // each must stand in the message
};

class ErrorsTest : public testing::Test {
 protected:
  /// The message names its area once, and no name of the code: warmup_steps is --warmup for users, unless they typed it.
  static void expect_words_of_users(const std::string& err, const std::string& line) {
    const std::string message = err.substr(err.find("dlpipe: "));
    const std::regex area("\\[[a-z][a-z0-9_]*\\] ");
    const auto areas = std::distance(std::sregex_iterator(message.begin(), message.end(), area), {});
    EXPECT_LE(areas, 1) << line << "\n" << message;
    for (const char* name :
         {"warmup_", "total_steps", "peak_at", "final_ratio", "weight_decay", "max_steps", "_bytes"})
      EXPECT_TRUE(line.find(name) != std::string::npos || message.find(name) == std::string::npos)
          << line << "\n"
          << message;
  }

  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchDirectory>();
    data_ = make_sample_data(folder_->path(), 5);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void expect_messages(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      std::string line;
      for (const std::string& word : c.arguments) line += word + " ";
      const Outcome outcome = run_dlpipe(c.arguments);
      EXPECT_EQ(outcome.exit_code, c.exit_code) << line << "\n" << outcome.err;
      EXPECT_NE(outcome.err.find("["), std::string::npos) << line << "\n" << outcome.err;
      for (const std::string& word : c.words)
        EXPECT_NE(outcome.err.find(word), std::string::npos) << line << "\n" << outcome.err;
      EXPECT_EQ(outcome.out, "") << line;
      expect_words_of_users(outcome.err, line);
    }
  }

  /// A run of one epoch, made at the first call.
  static const std::string& trained_run() {
    static const std::string run = [] {
      const std::string made = *folder_ / "trained";
      const Outcome outcome = run_dlpipe(
          {"train", data_.train, "--model", "lenet", "--batch", "8", "--epochs", "1", "--out", made});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      return made;
    }();
    return run;
  }

  static std::unique_ptr<ScratchDirectory> folder_;
  static SampleData data_;
};
std::unique_ptr<ScratchDirectory> ErrorsTest::folder_;
SampleData ErrorsTest::data_;

TEST_F(ErrorsTest, OfCommandLines) {
  expect_messages({
      // Commands, and words by their place.
      {{"imfo"}, 2, {"there is no command 'imfo'; did you mean 'info'?"}},
      {{"convert-augment", "train.py"}, 2, {"python -m dlpipe convert-augment"}},
      {{data_.jpegs}, 2, {"a folder of images", "`dlpipe ingest " + data_.jpegs + " DATA`"}},
      {{"resnet18"}, 2, {"the name of a model", "`dlpipe info resnet18`"}},
      {{"bench", "pipeline"}, 2, {"see 'dlpipe bench pipeline --help'"}},
      {{"eval", "--ckpt", "a", "--data", "b", "c"}, 2, {"[eval] unexpected argument 'c'"}},
      {{"eval", "run", "data"}, 2, {"'data': the command takes DATA, and the model or run by --ckpt"}},
      {{"eval", "--ckpt", "a"}, 2, {"[eval] DATA is missing"}},
      {{"eval", "--ckpt", "a", "--data=", "b"}, 2, {"DATA is already given by --data"}},
      {{"predict", "a.jpg"}, 2, {"--ckpt is missing"}},
      {{"train", "a", "b"}, 2, {"[train] unexpected argument 'b'"}},
      // Unknown options: the nearest name, or what the name of another program is here.
      {{"info", "--jsno"}, 2, {"there is no option '--jsno'; did you mean '--json'?"}},
      {{"--json", "inspect", "d"}, 2, {"write --json after the command: dlpipe inspect ... --json"}},
      {{"inspect", "--", "d", "--json"},
       2,
       {"unexpected argument '--json'", "after -- nothing is an option"}},
      {{"inspect", "--", "d", "e"}, 2, {"unexpected argument 'e'"}},
      {{"train", "--epoch", "3"}, 2, {"did you mean '--epochs'?"}},
      {{"train", "--weight_decay", "0"}, 2, {"did you mean '--weight-decay'?"}},
      {{"train", "--no-nestrov"}, 2, {"did you mean '--no-nesterov'?"}},
      {{"predict", "--topk", "3"}, 2, {"did you mean '--top'?"}},
      {{"train", "--num_workers", "2"}, 2, {"did you mean '--threads'?"}},
      {{"train", "-j", "2"}, 2, {"did you mean '--threads'?"}},
      {{"bench", "pipeline", "--num-workers", "3"}, 2, {"did you mean '--threads'?"}},
      {{"train", "--dataset", "d"}, 2, {"did you mean '--data'?"}},
      {{"train", "--weights", "w"}, 2, {"did you mean '--init'?"}},
      {{"eval", "--weights", "w"}, 2, {"did you mean '--ckpt'?"}},
      {{"train", "--lr-scheduler", "cosine"}, 2, {"did you mean '--schedule'?"}},
      {{"train", "--gpu"}, 2, {"did you mean '--device cuda'?"}},
      {{"ingest", "--val-split", "0.1"}, 2, {"did you mean '--split'?"}},
      // Values.
      {{"eval", "--ckpt", "a", "b", "--batch"}, 2, {"[eval] --batch needs a value (N)"}},
      {{"eval", "--ckpt", "a", "b", "--batch", "x"}, 2, {"--batch: 'x'", "from 1 to 1,000,000"}},
      {{"synth", "/nonexistent/out", "--seed", "-1"}, 2, {"-1 is below 0"}},
      {{"ingest", "/nonexistent", "/nonexistent/out", "--seed", "-1"}, 2, {"-1 is below 0"}},
      // An unset variable leaves `--out=`, which must not take the next option for its value.
      {{"train", "d", "--model", "mlp", "--out=", "--tf32"}, 2, {"[train] no run directory"}},
      {{"train", "d", "--batch=", "--tf32"}, 2, {"--batch is ''; expected"}},
      {{"eval", "--ckpt", "a", "b", "--predictions", "--json"},
       2,
       {"[eval] --predictions needs a value (FILE), but '--json' is an option", "--predictions=--json"}},
      {{"train", "d", "--out", "--no-nesterov"}, 2, {"--out needs a value (TEXT), but '--no-nesterov' is"}},
      {{"train", "--data", "--batch=3"}, 2, {"--data needs a value (DATA), but '--batch=3' is an option"}},
      {{"compile", "m", "-o", "--quiet"}, 2, {"-o needs a value (TEXT), but '--quiet' is an option"}},
      {{"bench", "pipeline", "--threads", "--data", "d"},
       2,
       {"[bench pipeline] --threads needs a value (N)"}},
      {{"--color", "--quiet"}, 2, {"[cli] --color needs a value (WHEN), but '--quiet' is an option"}},
      {{"train", "d", "--out", "--"}, 2, {"[train] --out needs a value (TEXT); see"}},
      // A switch takes true and false alone.
      {{"train", "d", "--nesterov=maybe"}, 2, {"[train] --nesterov", "no value other than true or false"}},
      {{"train", "d", "--no-tf32=1"}, 2, {"[train] --no-tf32", "no value other than true or false"}},
      {{"train", "d", "--json="}, 2, {"[train] --json", "no value other than true or false"}},
      {{"train", "d", "--quiet=maybe"}, 2, {"[train] --quiet", "no value other than true or false"}},
      {{"train", "d", "--nesterov=false", "--json=true"}, 2, {"[train] no run directory"}},
  });
}

// Every command that opens a path says what it is where it is of another kind, and which command takes it.
TEST_F(ErrorsTest, OfPathsOfAnotherKind) {
  const std::string run = trained_run(), checkpoint = run + "/checkpoints/best";
  const std::string compiled = *folder_ / "m.dlg", onnx = *folder_ / "m.onnx", out = *folder_ / "kinds-out";
  const std::string image = data_.jpegs + "/ring/00000.jpg";
  ASSERT_EQ(run_dlpipe({"compile", run, "-o", compiled}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"compile", run, "-o", onnx}).exit_code, 0);
  expect_messages({
      {{"inspect", run}, 2, {run + " is a run, not a dataset; `dlpipe info "}},
      {{"verify", compiled}, 2, {"is a compiled model, not a dataset; `dlpipe info "}},
      {{"eval", "--ckpt", run, onnx}, 2, {"is an ONNX model, not a dataset; `dlpipe info "}},
      {{"train", "--out", out, "--data", image}, 2, {"is an image, not a dataset; `dlpipe predict "}},
      {{"inspect", "lenet"}, 2, {"lenet is the name of a model, not a dataset; `dlpipe info lenet` "}},
      {{"inspect", data_.jpegs}, 2, {"is a folder of images, not a dataset; `dlpipe ingest "}},
      {{"compile", data_.split, "-o", out}, 2, {"is a dataset, not a trained model; `dlpipe inspect "}},
      {{"generate", image}, 2, {"is an image, not a trained model"}},
      {{"info", data_.jpegs}, 2, {"is a folder of images, not a trained model"}},
      {{"predict", "--ckpt", data_.val, image}, 2, {"is a dataset, not a trained model"}},
      {{"eval", "--ckpt", run + "/config.toml", data_.val}, 2, {"is a config file, not a trained model"}},
      {{"train", data_.train, "--init", data_.train, "--model", "lenet", "--out", out},
       2,
       {"is a dataset, not a trained model"}},
      {{"export-weights", compiled, "-o", out}, 2, {"is a compiled model, not a checkpoint"}},
      {{"run", run, "--input", out, "--out", out},
       2,
       {run + " is a run, not a compiled model; `dlpipe compile " + run + " -o model.dlg`"}},
      {{"bench", "run", onnx}, 2, {"is an ONNX model, not a compiled model; `dlpipe compile "}},
      {{"doctor", data_.val}, 2, {"is a dataset, not a run"}},
      {{"diff", run, compiled}, 2, {"is a compiled model, not a run"}},
      {{"train", "--resume", checkpoint}, 2, {"is a checkpoint, not a run"}},
      {{"ingest", run, out}, 2, {"is a run, not raw data"}},
      {{"train", "--config", run, "--out", out}, 2, {"is a run, not a config file"}},
      {{"train", data_.train, "--model", run, "--out", out},
       2,
       {"is a run, not the name of a model; `dlpipe train --init " + run + " "}},
  });
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ErrorsTest, OfCommands) {
  const std::string empty = *folder_ / "empty", dst = *folder_ / "dst", file = *folder_ / "file";
  fs::create_directories(empty);
  expect_messages({
      {{"bench"}, 2, {}},
      {{"bench", "trian"}, 2, {"'train'"}},
      {{"bench", "train", "--model", "mlp", "--no-cudnn", "--seconds", "0.1"},
       2,
       {"--no-cudnn has no effect on cpu", "give --device cuda"}},
      {{"bench", "ops", "--quick", "--no-cudnn", "--seconds", "0.1"},
       2,
       {"--no-cudnn has no effect on cpu", "give --device cuda"}},
      {{"run", "m.dlg", "--input", "-", "-o", "y.npy"}, 2, {"standard input; give the path of a .npy"}},
      {{"run", "m.dlg", "--input", "x.npy", "-o", "y.npy", "--dtype", "f16"}, 2, {"the CPU in f32 or bf16"}},
      {{"compile", "--ckpt", "/nonexistent", "-o", file}, 1, {"there is no /nonexistent"}},
      {{"compile", "--ckpt", trained_run()}, 2, {}},
      {{"compile", "--onnx", "/nonexistent", "-o", file}, 1, {"/nonexistent: No such file"}},
      {{"compile", "/nonexistent", "-o", empty}, 2, {"is a folder; name the file", "/NAME.dlg"}},
      {{"predict", "--ckpt", trained_run(), "/nonexistent.jpg", "/nor/this"},
       1,
       {"there is no file or folder '/nonexistent.jpg', '/nor/this'"}},
      {{"diff", trained_run(), empty}, 1, {"has no readable receipt"}},
      {{"synth", dst, "--size", "big"}, 2, {"--size big"}},
      {{"synth", dst, "--size", "8"}, 2, {"--size 8..8"}},
      {{"synth", dst, "--size", "40..32"}, 2, {"40..32"}},
      {{"synth", empty}, 2, {}},
      {{"synth", "", "--per-class", "1"}, 2, {"OUT is empty"}},
      {{"join", dst}, 2, {"PART"}},
      {{"join", "", empty}, 2, {"DST is empty"}},
      {{"join", dst, empty}, 2, {"is not a part of an ingest: it has no part.json"}},
      {{"ingest", empty, dst, "--part", "17/16"}, 2, {"--part 17/16; give its number"}},
      {{"ingest", empty, dst}, 1, {"is empty"}},
      {{"ingest", "/nonexistent", dst}, 1, {"no file or folder"}},
      {{"ingest", empty}, 2, {"DST is missing"}},
      {{"ingest"}, 2, {"SRC and DST are missing"}},
      {{"ingest", empty, dst, "--store", "jpg"}, 2, {"did you mean 'jpeg'"}},
      {{"ingest", empty, dst, "--split", "0.9"}, 2, {"--split 0.9"}},
      {{"ingest", empty, dst, "--window", "lots"}, 2, {"--window lots"}},
      {{"ingest", empty, dst, "--quality", "0"}, 2, {"--quality 0"}},
  });
  EXPECT_FALSE(fs::exists(dst));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(ErrorsTest, OfTrainedModels) {
  const std::string run = trained_run(), val = data_.val;
  const std::string bare = *folder_ / "bare.safetensors", two = *folder_ / "two.txt";
  fs::copy_file(run + "/checkpoints/last/model.safetensors", bare);
  std::ofstream(two) << "cat\ndog\n";
  const auto eval = [&](const std::string& weights, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"eval", val, "--ckpt", weights};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_messages({
      {eval("/nonexistent", {}), 1, {"there is no /nonexistent"}},
      {eval(test_file("io/formats/golden/script.pt"), {"--model", "lenet"}), 1, {"torch.jit.load"}},
      {eval(bare, {}), 2, {"bare.safetensors", "does not record their model", "--model lenet"}},
      {eval(bare, {"--model", "mlp"}), 2, {"do not fit this mlp", "--model lenet"}},
      {eval(bare, {"--model", "lenett"}), 2, {"lenett", "did you mean 'lenet'"}},
      {eval(bare, {"--model", "gpt_char"}), 2, {"takes tokens"}},
      {eval(bare, {"--model", "resnet18"}), 2, {"no fc.weight", "--model lenet"}},
      {eval(bare, {"--model", "lenet", "--classes", two}),
       2,
       {"10 classes", "fc3.weight", "two.txt", "has 2", "'cat', 'dog'"}},
      {eval(run, {"--model", "mlp"}), 2, {"checkpoint of lenet", "leave --model out"}},
      {eval(run, {"--classes", two}), 2, {"leave --classes out"}},
      {eval(run, {"--tta", "flop"}), 2, {"--tta flop", "'flip'"}},
      {eval(run, {"--dtype", "f16"}), 2, {"--dtype f16", "--dtype bf16"}},
      {eval(run, {"--val-augment", "hflp"}), 2, {"hflp", "hflip"}},
      {eval(run, {"--split", "test"}), 2, {"is not a folder of splits", "--split test"}},
      {eval(run, {"--predictions", "-", "--json"}), 2, {"--predictions", "a file"}},
      {eval(run, {"--predictions", folder_->path()}), 2, {"is a folder; name the file", "NAME.jsonl"}},
      {eval(run, {"--predictions", "p.csv"}), 2, {"--predictions", "p.csv", "use .jsonl"}},
  });
}

TEST_F(ErrorsTest, OfTrainsOptions) {
  const std::string out = *folder_ / "run";
  const std::string alone = *folder_ / "alone";  // without a val beside it
  const std::string keras = *folder_ / "weights.h5";
  const std::string torn = *folder_ / "torn.safetensors";
  std::ofstream(keras) << "\x89HDF\r\n\x1a\n and the rest";
  std::ofstream(torn) << "abc";
  fs::copy(data_.train, alone, fs::copy_options::recursive);
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train",   "--data", data_.train, "--model", "lenet",
                                          "--batch", "8",      "--out",     out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_messages({
      {{"train"}, 2, {"no run directory", "--out"}},
      {{"train", "--out", out}, 2, {"no dataset", "--data"}},
      {{"train", "--out", out, "--data", data_.train}, 2, {"no model", "--model"}},
      {{"train", "--out", out, "--data", "/nonexistent", "--model", "lenet"}, 1, {"/nonexistent"}},
      {train({"--model", "lenett"}), 2, {"lenett", "did you mean 'lenet'?"}},
      {train({"--optimizer", "sdg"}), 2, {"sdg", "sgd"}},
      {train({"--optimizer", "AdamW"}), 2, {"AdamW", "did you mean 'adamw'?"}},
      {train({"--optimizer", "SGD"}), 2, {"SGD", "did you mean 'sgd'?"}},
      {train({"--LR", "1"}), 2, {"'--LR'", "did you mean '--lr'?"}},
      {train({"--AMP"}), 2, {"'--AMP'", "did you mean '--dtype bf16'?"}},
      {train({"--loss", "mes"}), 2, {"'mes'", "'mse'"}},
      {train({"--metrics", "top2"}), 2, {"top2", "top1"}},
      {train({"--schedule", "cosin"}), 2, {"--schedule", "'cosin'", "'cosine'"}},
      {train({"--dtype", "fp16"}), 2, {"--dtype", "fp16", "f16"}},
      {train({"--dtype", "f16"}), 2, {"--dtype f16 needs a GPU", "--dtype bf16"}},
      {train({"--device", "tpu"}), 2, {"'tpu'", "cpu, cuda"}},
      {train({"--device", "cuda:99"}), 1, {"[device]"}},
      {train({"--graph", "maybe"}), 2, {"--graph", "'maybe'"}},
      {train({"--decode", "gpu"}), 2, {"--decode", "'gpu'"}},
      {train({"--decode", "device"}), 2, {"--decode device", "--device cuda"}},
      {train({"--batch", "0"}), 2, {"--batch", "'0'", "at least 1"}},
      {train({"--seed", "9223372036854775808"}), 2, {"--seed", "at most 9200000000000000000"}},
      {train({"--batch", "many"}), 2, {"--batch", "'many'", "a whole number"}},
      {train({"--batch", "1000"}), 2, {"--batch"}},
      {train({"--lr", "-1"}), 2, {"--lr", "'-1'"}},
      {train({"--val-every", "soon"}), 2, {"--val-every", "'soon'", "1epoch"}},
      {train({"--schedule", "one_cycle", "--warmup", "1"}), 2, {"one_cycle", "--warmup", "--peak-at"}},
      {train({"--schedule", "step", "--milestones", "x"}), 2, {"--milestones", "'x'"}},
      {train({"--schedule", "step"}), 2, {"--schedule step", "no --milestones"}},
      {train({"--milestones", "3"}), 2, {"--milestones has no effect with --schedule cosine", "step"}},
      {train({"--beta1", "0.8"}), 2, {"--beta1 has no effect with --optimizer sgd", "adamw"}},
      {train({"--muon", "fc.weight"}), 2, {"--muon has no effect with --optimizer sgd", "choose muon"}},
      {train({"--loss", "mse", "--label-smoothing", "0.1"}), 2, {"--label-smoothing", "--loss mse"}},
      {train({"--warmup-start", "0.1"}), 2, {"--warmup-start has no effect without --warmup"}},
      {{"train", "--data", alone, "--model", "lenet", "--batch", "8", "--out", out, "--early-stop", "2"},
       2,
       {"--early-stop", "no validation set", "--val"}},
      {train({"--early-stop", "2", "--val-every", "never"}), 2, {"--early-stop", "--val-every never"}},
      {train({"--augment", "rrc(32) hflp"}), 2, {"hflp", "hflip"}},
      {train({"--augment", "rrc()"}), 2, {"rrc"}},
      {train({"--checkpoint-activations", "layer9.*"}),
       2,
       {"--checkpoint-activations", "layer9.*", "matches no module"}},
      {train({"--memory", "lots"}), 2, {"--memory lots", "8GiB"}},
      {train({"--memory", "8"}), 2, {"--memory 8;", "unit", "8GiB"}},
      {train({"--memory", "1KiB"}), 2, {"[train] batch", "--memory 1KiB", "not even one sample fits"}},
      {train({"--freeze", "layer9.*"}), 2, {"--freeze", "layer9.*", "matches no parameter"}},
      {train({"--lr-scale", "layer9.*=2"}), 2, {"--lr-scale", "layer9.*=2", "matches no parameter"}},
      {train({"--lr-scale", "fc.bias"}), 2, {"--lr-scale", "fc.bias", "GLOB=FACTOR"}},
      {train({"--weight-decay", "1e-4", "--wd-scale", "fc.bias"}),
       2,
       {"--wd-scale", "fc.bias", "GLOB=FACTOR"}},
      {train({"--optimizer", "muon", "--muon", "nothing.*"}),
       2,
       {"--muon", "nothing.*", "matches no parameter"}},
      {train({"--optimizer", "muon", "--muon", "*"}), 2, {"[muon]", "not a matrix"}},
      {train({"--reset-head"}), 2, {"--reset-head", "--init"}},
      {train({"--init", "/nonexistent.safetensors"}), 1, {"/nonexistent.safetensors"}},
      {train({"--init", test_file("io/formats/golden/script.pt")}),
       1,
       {"script.pt", "torch.jit.load", "save_file"}},
      {train({"--init", test_file("io/formats/golden/legacy.pth")}),
       2,
       {"legacy.pth", "do not fit this lenet"}},
      {train({"--init", keras}), 1, {keras, "HDF5", "dlpipe compile"}},
      {train({"--init", torn}), 1, {torn, "too short", "get it again"}},
      {train({"--init", test_file("io/formats/golden/reference.safetensors")}),
       2,
       {"reference.safetensors", "do not fit this lenet", "missing: conv1.weight", "3 unexpected: "}},
      {train({"--lerning-rate", "1"}), 2, {"--lerning-rate"}},
      {train({"--epoch", "1"}), 2, {"--epoch", "--epochs"}},
      {train({"stray"}), 2, {"unexpected argument 'stray'"}},
      {train({"--config", "/nonexistent.toml"}), 1, {"/nonexistent.toml"}},
      {{"train", "--resume", "/nonexistent"}, 1, {"/nonexistent", "no run"}},
      {{"train", "--resume", out, "--config", "x.toml"}, 2, {"--resume", "--config"}},
  });
  EXPECT_FALSE(fs::exists(out)) << "a refused run leaves no directory";
}

// What can't be trained on at all is said before what doesn't suit a batch.
TEST_F(ErrorsTest, OfImagesWithoutAClassWhateverTheBatch) {
  std::ofstream(data_.jpegs + "/boxes.jsonl") << R"({"path": "ring/00000.jpg", "box": [[1, 2, 9, 9]]}
{"path": "ring/00001.jpg", "box": []}
)";
  const std::string boxes = *folder_ / "boxes";
  ASSERT_EQ(run_dlpipe({"ingest", data_.jpegs + "/boxes.jsonl", boxes, "--field", "box:boxes"}).exit_code, 0);
  fs::remove(data_.jpegs + "/boxes.jsonl");
  const std::string out = *folder_ / "run-of-boxes";
  expect_messages({
      {{"train", "--data", boxes, "--model", "lenet", "--out", out}, 2, {"2 of 2 samples", "have no class"}},
      {{"train", "--data", data_.train, "--batch", "8", "--val", boxes, "--model", "lenet", "--out", out},
       2,
       {"2 of 2 samples", "have no class"}},
  });
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ErrorsTest, OfConfigFiles) {
  const std::string file = *folder_ / "c.toml";
  const auto with = [&](const std::string& text) {
    const std::string name = *folder_ / ("c" + std::to_string(std::hash<std::string>()(text)) + ".toml");
    std::ofstream(name) << text;
    return std::vector<std::string>{"train", "--config", name};
  };
  expect_messages({
      {with("bacth = 3"), 2, {"'bacth'", "line 1", "'batch'"}},
      {with("batch = 3\nlr = \"x\""), 2, {"'lr'", "line 2", "a number"}},
      {with("= 3"), 2, {"not valid TOML", "line 1"}},
  });
  // Which folder a path was looked for in, which file names it, and what to give instead.
  std::ofstream(*folder_ / "paths.toml") << "data = \"beside\"\nmodel = \"lenet\"\nout = \"o\"\n";
  const std::string here = fs::current_path().string();
  const std::vector<std::string> train = {"train", "--config", *folder_ / "paths.toml"};
  expect_messages(
      {{train, 1, {"data = 'beside'", *folder_ / "paths.toml", "below " + here, "give --data PATH"}}});
  fs::create_directories(*folder_ / "beside");
  expect_messages({{train, 1, {"below " + here, "give --data " + (*folder_ / "beside")}}});
  expect_messages({{with("init = \"/nonexistent/w\"\nmodel = \"lenet\"\nout = \"o\""),
                    1,
                    {"init = '/nonexistent/w'", ".toml"}}});
  EXPECT_FALSE(fs::exists("o"));
}

TEST_F(ErrorsTest, OfWhatIsToBeIngested) {
  const std::string source = *folder_ / "odd";
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(source + "/" + name).parent_path());
    std::ofstream(source + "/" + name) << text;
    return source + "/" + name;
  };
  int number = 0;
  const auto ingest = [&](const std::string& path, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"ingest", path, *folder_ / ("odd_data" + std::to_string(number++))};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  for (const char* file :
       {"parted/train/a/1.jpg", "parted/train/b/1.jpg", "parted/val/c/1.jpg", "flat/train/1.jpg",
        "flat/val/1.jpg", "bad/a/1.jpg", "good/train/a/1.jpg", "good/val/a/1.jpg"})
    write(file, "no image");
  expect_messages({
      {ingest(source + "/parted"), 2, {"has classes that are not in 'train': 'c'", "--no-splits"}},
      {ingest(source + "/flat"), 2, {"no class folders", "--manifest", "--no-splits"}},
      {ingest(source + "/good", {"--split", "0.9,0.1"}), 2, {"--split", "'train', 'val'"}},
      {ingest(source + "/bad"), 1, {"no usable image", "a/1.jpg"}},
      {ingest(source + "/bad", {"--on-error", "stop"}), 1, {"a/1.jpg", "leave it out with --on-error skip"}},
      {ingest(write("odd.npy", "no array")), 1, {"odd.npy", "numpy.save"}},
      {ingest(write("names.jsonl", "{\"path\": \"a.jpg\"}\n[1]\n")),
       1,
       {"line 2", "{\"path\": ..., \"label\": ...}"}},
      {ingest(write("many.csv", "a.jpg,x|y\n")), 1, {"line 1", "'x|y' names several classes"}},
      {ingest(write("floats.csv", "path,label\na.jpg,0.5\n")),
       1,
       {"line 2", "'0.5'", "whole numbers", "--task regress"}},
      {ingest(write("split.csv", "path,label,split\na.jpg,x,holdout\n")),
       1,
       {"line 2", "'holdout'", "--no-splits"}},
      {ingest(write("stop.csv", "a.jpg,x\nb.jpg,y\n"), {"--on-error", "stop"}),
       1,
       {"a.jpg", "line 1", "--on-error"}},
  });
  for (int i = 0; i < number; ++i) EXPECT_FALSE(fs::exists(*folder_ / ("odd_data" + std::to_string(i)))) << i;
}

TEST_F(ErrorsTest, OfDatasetsThatDoNotFit) {
  const std::string other = *folder_ / "other";
  fs::create_directories(other + "/src/cat");
  fs::create_directories(other + "/src/dog");
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "cat/2.jpg", "dog/2.jpg"}) {
    fs::copy_file(data_.jpegs + "/ring/00000.jpg", other + "/src/" + name);
  }
  ASSERT_EQ(run_dlpipe({"ingest", other + "/src", other + "/data"}).exit_code, 0);
  expect_messages({
      {{"train", "--data", data_.train, "--val", other + "/data", "--model", "lenet", "--batch", "8", "--out",
        *folder_ / "r"},
       2,
       {"different classes", "cat, dog", "ring", "--classes-from"}},
  });
}

TEST_F(ErrorsTest, OfFilesThatCannotBeIngested) {
  const std::string source = *folder_ / "corrupt";
  fs::create_directories(source + "/cat");
  fs::create_directories(source + "/dog");
  fs::copy_file(data_.jpegs + "/ring/00000.jpg", source + "/cat/1.jpg");
  fs::copy_file(data_.jpegs + "/ring/00000.jpg", source + "/dog/1.jpg");
  fs::resize_file(source + "/dog/1.jpg", 150);
  expect_messages({
      {{"ingest", source, *folder_ / "d1", "--on-error", "stop"},
       1,
       {"dog/1.jpg", "fix it, or leave it out with --on-error skip"}},
      {{"ingest", source, *folder_ / "d2", "--window", "256"}, 2, {"--window 256", "unit"}},
      {{"ingest", source, *folder_ / "d3", "--threads", "-1"}, 2, {"--threads", "-1"}},
  });
}

TEST_F(ErrorsTest, OfRunsThatAreThereAlready) {
  const std::string run = *folder_ / "done";
  const std::vector<std::string> train = {"train", "--data",   data_.train, "--model", "lenet", "--batch",
                                          "8",     "--epochs", "1",         "--out",   run};
  ASSERT_EQ(run_dlpipe(train).exit_code, 0);
  std::ofstream(run + "/checkpoints/last/model.safetensors", std::ios::app) << "x";
  expect_messages({
      {train, 2, {run, "already contains a run", "--resume"}},
      {{"train", "--resume", run, "--lr", "1"}, 2, {"--lr", "can't be changed"}},
      {{"eval", "--ckpt", run + "/checkpoints/last", "--data", data_.val},
       1,
       {"model.safetensors", "state.json"}},
      {{"predict", "--ckpt", run, data_.jpegs}, 1, {"model.safetensors"}},
      {{"diff", run, "/nonexistent"}, 1, {"/nonexistent"}},
  });
}

}  // namespace dlpipe::test
